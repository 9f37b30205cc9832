"""Shards are disjoint and complete, and their folders merge to what one job would have."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.batches.keep import merge
from labs.batches.prospect import PlannedPoint, Prospect, shard_of
from labs.catalog import find
from labs.drive.record.seal import digest, key, read_seal
from labs.errors import BadInput, ResultsDiffer
from labs.guest.condition import from_json
from labs.launch.plan import Planned
from tests.run_folders import inputs, make_run


def planned(seed: int) -> Planned:
    """A run that differs from others by its seed."""
    asked = inputs(seed=seed)
    condition = from_json(asked["condition"])
    return Planned(find("buffers"), condition, asked, key(asked), {}, None, None, None)


def shard(runs: Sequence[Planned], number: int, count: int) -> Sequence[Planned]:
    """The part of these runs, each of them that of a point."""
    lab = find("buffers")
    points = tuple(PlannedPoint(1, {}, lab.Parameters(), (run,)) for run in runs)
    return Prospect(lab, (), points, Path("runs"), (number, count)).distinct


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
def test_shard_of_reads_a_shard(text: str, parsed: tuple[int, int]) -> None:
    assert shard_of(text) == parsed


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "-1/4", "1/0", "1/4/2", "1.5/4", "٣/8"])
def test_shard_of_refuses_what_is_not_a_shard(text: str) -> None:
    with pytest.raises(BadInput):
        shard_of(text)


def test_merge_copies_each_key_once(tmp_path: Path) -> None:
    a, b, into = tmp_path / "a", tmp_path / "b", tmp_path / "into"
    first, second = make_run(a, inputs("both")), make_run(b, inputs("wmem"))
    shutil.copytree(first, b / first.name)
    done = merge([a, b], into)
    assert done == {"copied": 2, "existed": 1, "damaged": 0}
    for run in (first, second):
        assert read_seal(into / run.name) == read_seal(run)
        assert (into / run.name / "host.json").read_bytes() == (run / "host.json").read_bytes()
    assert not list(into.glob(".*"))
    again = merge([b, a], into)
    assert again == {"copied": 0, "existed": 3, "damaged": 0}


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
    assert (done["copied"], done["damaged"], len(told)) == (1, 1, 1)
    assert str(damaged) in told[0]
    assert [path.name for path in into.iterdir()] == [whole.name]


def test_merge_replaces_a_damaged_run_by_a_whole_one(tmp_path: Path) -> None:
    a, into = tmp_path / "a", tmp_path / "into"
    run = make_run(a, inputs("both"))
    merge([a], into)
    (into / run.name / "run.json").write_text("{}")
    assert merge([a], into)["copied"] == 1
    assert read_seal(into / run.name) == read_seal(run)
    assert digest(into / run.name / "run.json") == digest(run / "run.json")
    kept = list(into.glob(".changed-*"))
    assert len(kept) == 1


def test_merge_refuses_what_is_not_a_folder_before_it_copies(tmp_path: Path) -> None:
    make_run(tmp_path / "a", inputs("both"))
    with pytest.raises(BadInput):
        merge([tmp_path / "a", tmp_path / "none"], tmp_path / "into")
    assert not (tmp_path / "into").exists()
