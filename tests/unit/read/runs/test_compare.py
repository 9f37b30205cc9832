"""Comparing runs: the three grades, and what is said of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import labs
from labs.drive.record.seal import digest
from labs.drive.record.study_file import Planned, write_study
from labs.errors import BadInput, Damaged
from labs.read.runs.archive import pack
from labs.read.runs.compare import CHANGED, EQUAL, IDENTICAL, compare
from labs.read.runs.run import Run
from tests.run_folders import inputs, make_run, make_study

OTHER_KERNEL = {"version": "6.12.95-1", "digest": digest(b"another kernel")}


def results(run: Run) -> dict[str, object]:
    """As a lab computes them: what was measured, and what says which run it is."""
    fetched: Any = run.fetch()
    seconds = (run.moments["end"] - run.moments["start"]) / 1e9
    return {
        "condition": run.condition,
        "key": run.key,
        "digest": run.digest,
        "link": run.link,
        "goodput_bytes_s": fetched["bytes"] / seconds,
        "settled": True,
        "steady_mib_s": None,
        "agreement_pct": math.nan,
    }


def never(run: Run) -> Mapping[str, object]:
    raise AssertionError(f"the results of {run.name} were not needed")


def test_compare_identical(tmp_path: Path) -> None:
    make_study(tmp_path / "a")
    make_study(tmp_path / "b")
    found = compare(tmp_path / "a", tmp_path / "b", never)
    assert found.grade == IDENTICAL
    assert found.lines() == [
        "buffers both: identical",
        "buffers default: identical",
        "2 runs compared: identical; 0 runs only in the first; 0 runs only in the second",
    ]
    assert found.as_json()["grade"] == "identical"


def test_compare_equal_with_the_inputs_that_differ(tmp_path: Path) -> None:
    one = make_run(tmp_path, inputs(code=digest(b"older code")))
    tools = {"ip": digest(b"ip"), "nginx": digest(b"another nginx")}
    other = make_run(tmp_path, inputs(tools=tools, kernel=OTHER_KERNEL))
    found = compare(one, other, results)
    (pair,) = found.pairs
    assert found.grade == pair.grade == EQUAL
    assert [change.name for change in pair.inputs] == [
        "code",
        "kernel.digest",
        "kernel.version",
        "tools.nginx",
    ]
    assert pair.files == ("run.json",)
    assert found.lines()[1] == (
        f"  inputs that differ: code {digest(b'older code')[:12]} -> {digest(b'code')[:12]}, "
        f"kernel.digest {digest(b'a kernel')[:12]} -> {OTHER_KERNEL['digest'][:12]}, "
        "kernel.version 6.1.192-2 -> 6.12.95-1, "
        f"tools.nginx {digest(b'nginx')[:12]} -> {digest(b'another nginx')[:12]}"
    )


def test_compare_equal_of_equal_inputs(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", note=b"one")
    other = make_run(tmp_path / "b", note=b"other")
    found = compare(one, other, results)
    assert found.grade == EQUAL
    assert found.lines()[1] == "  the inputs are equal; bytes differ in server/note.txt"


def test_compare_changed_says_what_and_by_how_much(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", seconds=10.0)
    other = make_run(tmp_path / "b", inputs(kernel=OTHER_KERNEL), seconds=8.0)
    found = compare(one, other, results)
    (pair,) = found.pairs
    (change,) = pair.results
    assert (found.grade, change.name) == (CHANGED, "goodput_bytes_s")
    assert change.percent == pytest.approx(25)
    assert found.lines() == [
        "buffers both: changed",
        "  goodput_bytes_s 107374182.4 -> 134217728 (+25 %)",
        "  inputs that differ: " + ", ".join(map(str, pair.inputs)),
        "1 run compared: changed; 0 runs only in the first; 0 runs only in the second",
    ]
    said: Any = json.loads(json.dumps(found.as_json()))
    assert said["pairs"][0]["changed"] == [
        {"name": "goodput_bytes_s", "a": 107374182.4, "b": 134217728.0, "percent": change.percent}
    ]


def test_compare_changed_with_equal_inputs_says_what_is_known(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", seconds=10.0)
    other = make_run(tmp_path / "b", seconds=10.001)
    for run, cpu in ((one, "one"), (other, "another")):
        (run / "host.json").write_text(json.dumps({"cpu": cpu, "cpus": 2, "load": [1]}))
    lines = compare(one, other, results).lines()
    assert lines[2] == "  the inputs are equal; bytes differ in client/fetch.json, run.json"
    assert "cpu one -> another" in lines[3] and "docs/reproducibility.md" in lines[3]
    (other / "host.json").unlink()  # as in a packed file: nothing is known to differ
    line = compare(one, other, results).lines()[3]
    assert "lack host.json" in line and "->" not in line


def test_compare_counts_libraries_that_one_side_alone_has(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a")
    libraries = {f"lib{n}.so": digest(bytes([n])) for n in range(9)}
    other = make_run(tmp_path / "b", inputs(libraries=libraries))
    line = compare(one, other, results).lines()[1]
    assert line == "  inputs that differ: 9 libraries that only the second has"


@pytest.mark.parametrize(
    ("a", "b", "percent"),
    [
        (0, 5, None),
        (2, -2, -200.0),
        (-2, -1, 50.0),
        (None, 1, None),
        (1, math.nan, None),
        (True, False, None),
        (True, 1, None),
        ("as asked", "not", None),
        ({"a": [1, 2]}, {"a": [1]}, None),
    ],
)
def test_compare_changes_of_any_kind(
    tmp_path: Path, a: object, b: object, percent: float | None
) -> None:
    one, other = make_run(tmp_path / "a"), make_run(tmp_path / "b", note=b"x")
    found = compare(one, other, lambda run: {"value": a if run.path == one else b})
    (change,) = found.pairs[0].results
    assert found.grade == CHANGED and change.percent == percent
    assert found.lines() and json.dumps(found.as_json())


def test_compare_grade_is_the_worst_of_its_pairs(tmp_path: Path) -> None:
    make_study(tmp_path / "a")
    make_study(tmp_path / "b")
    make_run(tmp_path / "b", inputs("default"), note=b"x")
    assert compare(tmp_path / "a", tmp_path / "b", results).grade == EQUAL
    make_run(tmp_path / "b", inputs("both"), seconds=12)
    found = compare(tmp_path / "a", tmp_path / "b", results)
    assert [pair.grade for pair in found.pairs] == [CHANGED, EQUAL]
    assert found.grade == CHANGED


def test_compare_lists_runs_of_one_side(tmp_path: Path) -> None:
    make_study(tmp_path / "a", ("default", "both"))
    make_study(tmp_path / "b", ("both", "unshaped"))
    found = compare(tmp_path / "a", tmp_path / "b", never)
    assert [run.condition for run in found.only_a] == ["default"]
    assert [run.condition for run in found.only_b] == ["unshaped"]
    assert found.lines()[1:3] == [
        "buffers default: 1 run only in the first",
        "buffers unshaped: 1 run only in the second",
    ]


def test_compare_takes_every_kind_of_side(tmp_path: Path) -> None:
    runs = tmp_path / "a"
    old = make_study(runs, ("default", "both"), seed=1)
    new = make_study(runs, ("default", "both"), seed=2, seconds=9)
    packed = pack(runs, tmp_path / "runs.tar.xz").path
    packed_old = pack(old.path, tmp_path / "old.tar.gz").path
    packed_run = pack(new.folders()[0], tmp_path / "run.tgz").path
    for side in (runs, packed):
        assert compare(side, packed, never).counts == {
            "compared": 4,
            "only_first": 0,
            "only_second": 0,
        }
        assert compare(side, packed_run, never).counts["only_first"] == 3
        assert compare(side, packed_old, never).counts["compared"] == 2
    for side in (new.path, runs / "studies/buffers.json"):
        assert compare(side, packed, never).counts["only_second"] == 2
        assert compare(side, packed_old, results).grade == CHANGED
    assert compare(packed_old, old.folders()[1], never).lines()[0] == "buffers both: identical"


def test_compare_sees_a_changed_run_that_is_not_of_the_newest_study(tmp_path: Path) -> None:
    """An archive of 18 runs against a folder in which an older run was changed and sealed again."""
    for runs in (tmp_path / "a", tmp_path / "b"):
        for seed in range(8):
            make_study(runs, ("default", "both"), seed=seed)
        make_study(runs, ("default", "both"), seed=8)
    make_run(tmp_path / "b", inputs("both", seed=3), seconds=12)
    packed = pack(tmp_path / "a", tmp_path / "a.tar.xz").path
    found = compare(packed, tmp_path / "b", results)
    assert found.grade == CHANGED
    assert found.counts == {"compared": 18, "only_first": 0, "only_second": 0}
    assert [pair.a.inputs["seed"] for pair in found.pairs if pair.grade == CHANGED] == [3]


def test_compare_of_a_batch_pairs_runs_by_their_conditions(tmp_path: Path) -> None:
    """A batch over a setting, repeated with other code: every run has one counterpart."""
    for at, runs in enumerate((tmp_path / "a", tmp_path / "b")):
        for transfer_mib in range(100, 167 + at):
            for name in ("default", "both"):
                asked = inputs(name, code=digest(f"code {at}".encode()))
                asked["condition"]["settings"]["transfer_mib"] = transfer_mib
                make_run(runs, asked)
    found = compare(tmp_path / "a", tmp_path / "b", results)
    assert found.counts == {"compared": 134, "only_first": 0, "only_second": 2}
    assert found.grade == EQUAL
    assert all(pair.a.condition_asked == pair.b.condition_asked for pair in found.pairs)


def test_compare_without_a_study_takes_all_runs(tmp_path: Path) -> None:
    for runs in (tmp_path / "a", tmp_path / "b"):
        make_run(runs, inputs("both", seed=1))
        make_run(runs, inputs("both", seed=2))
    assert len(compare(tmp_path / "a", tmp_path / "b", never).pairs) == 2
    make_run(tmp_path / "b", inputs("both", seed=3))
    found = compare(tmp_path / "a", tmp_path / "b", never)
    assert len(found.pairs) == 2 and len(found.only_b) == 1


def test_compare_leaves_ambiguous_runs_alone(tmp_path: Path) -> None:
    for runs in (tmp_path / "a", tmp_path / "b"):
        make_run(runs, inputs("default"))
    make_run(tmp_path / "a", inputs("both", seed=1))
    for seed in (2, 3):
        make_run(tmp_path / "b", inputs("both", seed=seed))
    found = compare(tmp_path / "a", tmp_path / "b", never)
    assert found.counts == {"compared": 1, "only_first": 1, "only_second": 2}


def test_compare_refuses_sides_without_common_runs(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", inputs("both"))
    other = make_run(tmp_path / "b", inputs("default"))
    (tmp_path / "empty").mkdir()
    write_study(tmp_path / "planned", "buffers", {}, [Planned("both", "0" * 64)])
    for name in ("file.txt", "file.json"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInput, match=r"in common .*\(buffers both; buffers default\)"):
        compare(one, other, never)
    planned = tmp_path / "planned"
    for side in (
        tmp_path / "empty",
        planned,
        planned / "studies/buffers.json",
        tmp_path / "file.txt",
    ):
        with pytest.raises(BadInput, match="contains no run"):
            compare(one, side, never)
    with pytest.raises(BadInput, match="not a folder of runs"):
        compare(tmp_path / "nothing", one, never)
    with pytest.raises(Damaged):
        compare(one, tmp_path / "file.json", never)
    (one / "server/nginx.conf").write_bytes(b"")
    with pytest.raises(Damaged, match=r"server/nginx\.conf was changed"):
        compare(other, one, never)


def test_compare_of_an_unknown_lab(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", inputs(lab="mylab"))
    other = make_run(tmp_path / "b", inputs(lab="mylab"), note=b"x")
    assert labs.runs.compare(one, one).grade == IDENTICAL
    with pytest.raises(BadInput, match='"mylab" is not one of the package'):
        labs.runs.compare(one, other)


def test_compare_tells_null_from_a_missing_input(tmp_path: Path) -> None:
    condition = inputs()["condition"]
    settings = {**condition["settings"], "buffer_mib": None}
    one = make_run(tmp_path / "a")
    other = make_run(tmp_path / "b", inputs(condition={**condition, "settings": settings}))
    (pair,) = compare(one, other, results).pairs
    assert [change.name for change in pair.inputs] == ["key"]
