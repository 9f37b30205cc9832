"""Shards are disjoint and complete, and their folders merge to what one job would have."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.batches.shards import from_environment, merge, parse, shard
from labs.drive.record.seal import digest, key, read_seal
from labs.errors import BadInput, ResultsDiffer
from labs.guest.condition import from_json
from labs.launch.plan import Planned
from tests.run_folders import inputs, make_run


def planned(seed: int) -> Planned:
    """A run that differs from others by its seed."""
    asked = inputs(seed=seed)
    condition = from_json(asked["condition"])
    return Planned("buffers", "", None, condition, asked, key(asked), {}, {}, None, None, None)


@given(
    seeds=st.lists(st.integers(0, 50), max_size=40),
    count=st.integers(1, 9),
    order=st.randoms(use_true_random=False),
)
def test_shard_is_disjoint_and_complete_in_any_order(
    seeds: list[int], count: int, order: object
) -> None:
    every = [planned(seed) for seed in seeds]
    shuffled = every.copy()
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = [shard(every, number, count) for number in range(1, count + 1)]
    again = [shard(shuffled, number, count) for number in range(1, count + 1)]
    keys = [run.key for part in parts for run in part]
    assert sorted(keys) == sorted({run.key for run in every})
    assert [[run.key for run in part] for part in parts] == [
        [run.key for run in part] for part in again
    ]
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("text", "parsed"), [("1/1", (1, 1)), ("3/8", (3, 8)), ("08/8", (8, 8))])
def test_parse_reads_a_shard(text: str, parsed: tuple[int, int]) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "-1/4", "1/0", "1/4/2", "1.5/4", "٣/8"])
def test_parse_refuses_what_is_not_a_shard(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def slurm(number: int, first: int, jobs: int, step: int | None = None) -> dict[str, str]:
    """The variables of a job of an array (man sbatch, "JOB ARRAYS")."""
    variables = {
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_COUNT": str(jobs),
    }
    return variables | ({} if step is None else {"SLURM_ARRAY_TASK_STEP": str(step)})


@pytest.mark.parametrize(
    ("env", "parsed"),
    [
        ({}, None),
        (slurm(0, 0, 4), (1, 4)),
        (slurm(4, 1, 4), (4, 4)),
        (slurm(7, 1, 4, 3), (3, 4)),
        ({"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": "3"}, (1, 3)),
    ],
)
def test_from_environment_reads_job_arrays(
    env: Mapping[str, str], parsed: tuple[int, int] | None
) -> None:
    assert from_environment(env) == parsed


@pytest.mark.parametrize(
    "env",
    [
        {"JOB_COMPLETION_INDEX": "2"},
        {"JOB_COMPLETION_INDEX": "3", "JOB_COMPLETIONS": "3"},
        {"JOB_COMPLETION_INDEX": "x", "JOB_COMPLETIONS": "3"},
        {"SLURM_ARRAY_TASK_ID": "2"},
        slurm(7, 1, 4),  # --array=1,3,5,7 without its step
        slurm(3, 1, 4, 4),
    ],
)
def test_from_environment_refuses_an_unknown_number_of_shards(env: Mapping[str, str]) -> None:
    with pytest.raises(BadInput):
        from_environment(env)


def test_merge_copies_each_key_once(tmp_path: Path) -> None:
    a, b, into = tmp_path / "a", tmp_path / "b", tmp_path / "into"
    first, second = make_run(a, inputs("both")), make_run(b, inputs("wmem"))
    shutil.copytree(first, b / first.name)
    done = merge([a, b], into)
    assert (done.copied, done.existing, done.damaged) == (2, 1, ())
    for run in (first, second):
        assert read_seal(into / run.name) == read_seal(run)
        assert (into / run.name / "host.json").read_bytes() == (run / "host.json").read_bytes()
    assert not list(into.glob(".*"))
    again = merge([b, a], into)
    assert (again.copied, again.existing) == (0, 3)


def test_merge_reports_equal_keys_with_different_digests_and_keeps_the_first(
    tmp_path: Path,
) -> None:
    a, b, into = tmp_path / "a", tmp_path / "b", tmp_path / "into"
    first, other = make_run(a, inputs("both")), make_run(b, inputs("both"), note=b"other")
    last = make_run(b, inputs("wmem"))
    with pytest.raises(ResultsDiffer) as raised:
        merge([a, b], into)
    assert str(into / first.name) in str(raised.value) and str(other) in str(raised.value)
    assert read_seal(into / first.name) == read_seal(first)
    assert read_seal(into / last.name) == read_seal(last)


def test_merge_tells_damaged_runs_and_copies_the_others(tmp_path: Path) -> None:
    a, into = tmp_path / "a", tmp_path / "into"
    damaged, whole = make_run(a, inputs("both")), make_run(a, inputs("wmem"))
    (damaged / "run.json").write_text("{}")
    told: list[str] = []
    done = merge([a], into, told.append)
    assert (done.copied, len(done.damaged), len(told)) == (1, 1, 1)
    assert str(damaged) in done.damaged[0]
    assert [path.name for path in into.iterdir()] == [whole.name]


def test_merge_replaces_a_damaged_run_by_a_whole_one(tmp_path: Path) -> None:
    a, into = tmp_path / "a", tmp_path / "into"
    run = make_run(a, inputs("both"))
    merge([a], into)
    (into / run.name / "run.json").write_text("{}")
    assert merge([a], into).copied == 1
    assert read_seal(into / run.name) == read_seal(run)
    assert digest(into / run.name / "run.json") == digest(run / "run.json")
    kept = list(into.glob(".changed-*"))
    assert len(kept) == 1


def test_merge_refuses_what_is_not_a_folder_before_it_copies(tmp_path: Path) -> None:
    make_run(tmp_path / "a", inputs("both"))
    with pytest.raises(BadInput):
        merge([tmp_path / "a", tmp_path / "none"], tmp_path / "into")
    assert not (tmp_path / "into").exists()
