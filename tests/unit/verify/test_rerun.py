"""The grade of a run that was performed again, and the causes: likeliest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.read.runs.run import Run, open_run
from labs.verify.rerun import BEYOND, IDENTICAL, WITHIN, judged
from tests.run_folders import inputs, make_run

BUFFERS = find("buffers")


def made(folder: Path, seconds: float = 11.5, note: bytes = b"", **changed: Any) -> Run:
    return open_run(make_run(folder, inputs(**changed), seconds=seconds, note=note))


def test_equal_bytes_are_identical(tmp_path: Path) -> None:
    repeated = judged(BUFFERS, made(tmp_path / "a"), made(tmp_path / "b"))
    assert (repeated.grade, repeated.causes, repeated.pair.files) == (IDENTICAL, (), ())


def test_equal_output_of_other_inputs_is_identical(tmp_path: Path) -> None:
    repeated = judged(BUFFERS, made(tmp_path / "a"), made(tmp_path / "b", code="5" * 64))
    assert repeated.grade == IDENTICAL and [change.name for change in repeated.pair.inputs] == [
        "code"
    ]


@pytest.mark.parametrize(("seconds", "grade"), [(11.6, WITHIN), (15.0, BEYOND)])
def test_moved_results_are_held_to_the_margin_of_the_lab(
    tmp_path: Path, seconds: float, grade: str
) -> None:
    again = made(tmp_path / "b", seconds=seconds, kernel={"version": "6.1.193", "digest": "7" * 64})
    repeated = judged(BUFFERS, made(tmp_path / "a"), again)
    assert repeated.grade == grade
    assert any(change.name == "goodput_mib_s" for change in repeated.pair.results)
    assert repeated.causes[0].startswith("kernel: Linux")


def test_what_differs_with_equal_inputs_contradicts_the_record(tmp_path: Path) -> None:
    repeated = judged(BUFFERS, made(tmp_path / "a"), made(tmp_path / "b", note=b"x"))
    assert repeated.grade == BEYOND and not repeated.pair.results
    assert repeated.causes[0].startswith("the inputs are equal")


def test_causes_begin_with_the_kernel_and_end_with_builds(tmp_path: Path) -> None:
    changed: dict[str, Any] = {
        "kernel": {"version": inputs()["kernel"]["version"], "digest": "7" * 64},
        "tools": {**inputs()["tools"], "ip": "8" * 64},
        "libraries": {"libc.so.6": "9" * 64},
        "code": "5" * 64,
    }
    again = made(tmp_path / "b", note=b"x", **changed)
    repeated = judged(BUFFERS, made(tmp_path / "a"), again)
    assert repeated.grade == WITHIN and not repeated.pair.results
    assert [cause.partition(":")[0] for cause in repeated.causes] == [
        "kernel",
        "code",
        "library",
        "tool",
    ]


def test_a_kit_in_place_of_the_programs_of_a_machine_is_one_cause(tmp_path: Path) -> None:
    of_kit: dict[str, Any] = {"tools": {"kit": "8" * 64}, "libraries": {}}
    again = made(tmp_path / "b", note=b"x", **of_kit)
    repeated = judged(BUFFERS, made(tmp_path / "a"), again)
    assert repeated.grade == WITHIN
    assert [cause.partition(":")[0] for cause in repeated.causes] == ["kit"]
