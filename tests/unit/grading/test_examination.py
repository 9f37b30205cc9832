"""Examinations: other numbers for each student, graded by the same code, and refused if changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from labs.cli.__main__ import main
from labs.drive.parameters.declare import Scalar
from labs.errors import BadInput
from labs.grading.examination import draw, read_list
from labs.grading.grade_sheet import exercises_of, grade_file
from labs.grading.student_copy import copies_for_examination
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.kernels import DEFAULT_WMEM, default_rmem
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes
from tests.student_work import NOTEBOOKS

SHORT = exercises_of("00-start-here")[1][0].draws
STEMS = ("00-start-here", "01-buffers-and-bdp", "03-nagle-and-delayed-ack")
SEEDS = {f"student {number}": str(number) for number in range(40)}


def written(stem: str, into: Path, seeds: Mapping[str, str] = SEEDS) -> list[Path]:
    notebook = NOTEBOOKS / f"{stem}.ipynb"
    return [copied.path for copied in copies_for_examination(notebook, into, seeds)]


def answered(path: Path, answers: Mapping[str, object]) -> Path:
    content = json.loads(path.read_text())
    (cell,) = [
        cell_of_copy
        for cell_of_copy in content["cells"]
        if "answer" in cell_of_copy["metadata"].get("tags", [])
    ]
    cell["source"] = [f"{name} = {value!r}\n" for name, value in answers.items()]
    path.write_text(json.dumps(content))
    return path


def changed(path: Path, change: Any) -> Path:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("stem", STEMS)
def test_copies_have_other_numbers_than_their_neighbours_and_no_answers(
    stem: str, tmp_path: Path
) -> None:
    paths = written(stem, tmp_path)
    drawn = [json.loads(path.read_text())["metadata"]["labs"]["examination"] for path in paths]
    assert [values["id"] for values in drawn] == list(SEEDS)
    assert all(before["drawn"] != other["drawn"] for before, other in itertools.pairwise(drawn))
    text = paths[0].read_text()
    assert "labs.grade(" not in text and "Solution" not in text
    before = paths[0].read_bytes()
    assert written(stem, tmp_path / "again")[0].read_bytes() == before


def by_hand(values: Mapping[str, Scalar]) -> dict[str, float]:
    """What follows from the numbers in the questions alone: rate x RTT, two round trips, 10 ms of
    10 ms and an RTT, one tick after 40 ms, one and two round trips."""
    rtt_ms = float(values["delay_ms"])
    answers = {
        "httping_ms": 2 * rtt_ms,
        "used_pct": 100 * 10 / (10 + rtt_ms),
        "far_on_ms": rtt_ms,
        "far_quickack_ms": 2 * rtt_ms,
    }
    if "rate_mbit" in values:
        answers["bdp_mib"] = float(values["rate_mbit"]) * 1e6 * rtt_ms / 8e3 / 2**20
    if "hz" in values:
        answers["longest_wait_ms"] = 40 + 1000 / int(values["hz"])
    return answers


@pytest.mark.parametrize("stem", STEMS)
def test_answers_by_hand_are_right_and_those_of_another_student_wrong(
    stem: str, tmp_path: Path
) -> None:
    _, exercises = exercises_of(stem)
    names = [exercise.name for exercise in exercises]
    drawn = draw(SEEDS, exercises)
    paths = written(stem, tmp_path)[:6]
    for path, (student, mine), (_, other) in zip(
        paths, list(drawn.items())[:6], list(drawn.items())[1:7], strict=True
    ):
        answers = {name: value for name, value in by_hand(mine.values).items() if name in names}
        sheet = grade_file(answered(path, answers), SEEDS)
        assert (sheet.problem, sheet.drawn_for) == ("", student)
        assert sheet.points == len(answers) > 0
        theirs = {name: value for name, value in by_hand(other.values).items() if name in names}
        wrong = sum(value != answers[name] for name, value in theirs.items())
        assert grade_file(answered(path, theirs), SEEDS).points <= len(answers) - wrong


def test_a_changed_copy_is_refused(tmp_path: Path) -> None:
    first, second, *_ = written("00-start-here", tmp_path)

    def problem(path: Path, seeds: Mapping[str, str] | None = SEEDS) -> str:
        return grade_file(path, seeds).problem

    assert problem(first) == ""
    assert "--seeds" in problem(first, None)
    assert "not a student of the list" in problem(first, {"another": "1"})
    assert "was drawn for student 0" in problem(first, {**SEEDS, "student 0": "1000"})

    def other_value(content: Any) -> None:
        content["metadata"]["labs"]["examination"]["drawn"]["rate_mbit"] = 1

    def other_student(content: Any) -> None:
        content["metadata"]["labs"]["examination"] = json.loads(second.read_text())["metadata"][
            "labs"
        ]["examination"]

    def other_question(content: Any) -> None:
        (cell,) = [cell for cell in content["cells"] if cell["id"] == "examination"]
        cell["source"] = ["1. What is 1 + 1?"]

    def no_metadata(content: Any) -> None:
        del content["metadata"]["labs"]

    text = first.read_text()
    for change, phrase in (
        (other_value, "Its rate_mbit is 1, and"),
        (other_student, "not those drawn for student 1"),
        (other_question, "not those drawn for student 0"),
        (no_metadata, "not the copy of an examination"),
    ):
        first.write_text(text)
        refusal = problem(changed(first, change))
        assert phrase in refusal and "\n" not in refusal
    ordinary = tmp_path / "00-start-here.ipynb"
    ordinary.write_text((NOTEBOOKS / ordinary.name).read_text())
    assert "not the copy of an examination" in problem(ordinary)


@pytest.mark.parametrize("kernel", SHORT["kernel"])
def test_limits_that_can_be_drawn_are_clear(kernel: str) -> None:
    """The BDP is 8 % or more away from what the smaller buffer admits, and the buffers differ."""
    window = receive_window_bytes(default_rmem(kernel)[-1], kernel)
    send = send_bound_bytes(DEFAULT_WMEM[-1], kernel)
    assert abs(window / send - 1) > 0.08
    for rate, delay in itertools.product(SHORT["rate_mbit"], SHORT["delay_ms"]):
        assert abs(bdp_bytes(float(rate), float(delay)) / min(window, send) - 1) > 0.08


@pytest.mark.parametrize("stem", STEMS)
def test_exercises_of_a_notebook_draw_the_same_values_under_one_name(stem: str) -> None:
    _, exercises = exercises_of(stem)
    asked = [exercise for exercise in exercises if exercise.question]
    assert asked and all(exercise.draws == asked[0].draws for exercise in asked)
    assert len({exercise.name for exercise in asked}) == len(asked)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("id,seed\nada,1\nbob,2\n", {"ada": "1", "bob": "2"}),
        ("\ufeffID;Seed\r\nZoë;1\r\n", {"Zoë": "1"}),
        ('name,id,seed\n"Bob, Jr.","Bob, Jr.",2\n', {"Bob, Jr.": "2"}),
        ("id,seed\n=HELP(),1\n", {"=HELP()": "1"}),
        ("id,seed\rada,1\rbob,2\r", {"ada": "1", "bob": "2"}),
    ],
)
def test_read_list_reads_what_spreadsheets_save(
    text: str, seeds: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_bytes(text.encode())
    assert read_list(tmp_path / "list.csv", None) == seeds


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"id,seed\n",
        b"name,seed\nx,1\n",
        b"id,seed\n../x,1\n",
        b"id,seed\n.x,1\n",
        b"id,seed\nx,1\nx,2\n",
        b"id,seed\nx\n",
        b"id,seed\n\xff,1\n",
        b"id,seed\n" + b"x" * 200 + b",1\n",
        b'id,seed\n"x,1\n' + b"y,1\n" * 40_000,
    ],
)
def test_read_list_refuses_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_list(tmp_path / "list.csv", None)
    assert "\n" not in str(error.value)


def test_secret_gives_seeds_that_ids_alone_do_not(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("id\nada\nbob\n")
    (tmp_path / "secret").write_text("correct horse")
    (tmp_path / "other").write_text("battery staple")
    first = read_list(tmp_path / "list.csv", tmp_path / "secret")
    assert first == read_list(tmp_path / "list.csv", tmp_path / "secret")
    assert (
        len({*first.values(), *read_list(tmp_path / "list.csv", tmp_path / "other").values()}) == 4
    )
    (tmp_path / "secret").write_text("short")
    with pytest.raises(BadInput, match="too short"):
        read_list(tmp_path / "list.csv", tmp_path / "secret")


def test_an_examination_from_list_to_grades(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.csv").write_text("id\nada\nbob\n")
    (tmp_path / "secret").write_text("correct horse")
    into = tmp_path / "exam"
    listed = ["--seeds", str(tmp_path / "list.csv"), "--secret", str(tmp_path / "secret")]
    notebook = str(NOTEBOOKS / "00-start-here.ipynb")
    assert main(["student", notebook, "--into", str(into), *listed]) == 0
    (into / "ada" / "00-start-here.ipynb").rename(into / "bob" / "mine.ipynb")
    capsys.readouterr()
    assert main(["grade", str(into), *listed, "--summary"]) == 0
    assert "bob: mine.ipynb: the examination of ada." in capsys.readouterr().out
    assert main(["grade", str(into)]) == 2
    assert main(["student", str(NOTEBOOKS / "10-batch-report.ipynb"), *listed]) == 2
