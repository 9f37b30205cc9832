"""Students' notebooks graded: right, wrong by 2, by unit, by a handshake, empty, hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.drive.record.seal import verify
from labs.errors import BadInput
from labs.grading.grade_sheet import RunEvidence, grade_file
from labs.read.exercises.graded_answer import MISSING, RIGHT, UNREADABLE, WRONG
from labs.read.runs import recorded
from tests.run_folders import reseal
from tests.student_work import with_answers, write

# From the articles and the textbook: 1 Gbit/s x 0.2 s are 25 MB; httping's 404.2 ms (A1.4); the
# article's buffer of 50 MB (A1.10) is 47.7 MiB; 10 ms of 210 ms; a buffer of one BDP of which 3/4
# are window (A1.11): 0.75 x 25 MB / 0.2 s; twice 128 KiB (A1.14); the article's 13.4 MiB/s (A1.6)
# with 66 bytes of headers per 1448; 40 ms, and one round trip more than without Nagle's algorithm;
# twice the default wmem_max; the BDP of article 5; two thirds of 256 KiB per 8 ms; a server that is
# busy for 2 ms per request.
RIGHT_ANSWERS = {
    "00-start-here": {"bdp_mib": "2.75e6 / 2**20", "limit": '"link"', "longest_rtt_ms": "24"},
    "01-buffers-and-bdp": {
        "httping_ms": "404.2",
        "wmem_limit": '"receive window"',
        "buffer_mib": "47.7",
        "used_pct": "100 * 10 / 210",
    },
    "08-windows-kernels-and-loss": {
        "scaled_mib_s": "0.75 * 25e6 / 0.2 / 2**20",
        "lossy_mib_s": "1448 / 0.04 * 1.31 / 0.001**0.5 / 2**20",
        "granted_kib": "2 * 128",
    },
    "07-two-witnesses": {"lowest_rate_mbit": "13.4 * 2**20 * 8 / 1e6 * 1514 / 1448"},
    "02-iperf-buffer-sweeps": {
        "granted_kib": "2 * 212992 / 1024",
        "same_bdp_ms": "0.2 * 40000 / 250",
        "larger_mib_s": "2 / 3 * 0.25 / 0.008",
        "limit": '"receive window"',
    },
    "03-nagle-and-delayed-ack": {
        "longest_wait_ms": "50",
        "far_off_ms": "20 + 44 + 20",
        "far_on_ms": "20",
        "far_quickack_ms": "20 + 20",
    },
    "04-receive-window": {
        "granted_bytes": "2 * 98 * 1024",
        "accepted_packets": "28 + 1",
        "scaled_window_bytes": "7 / 8 * 48 * 1024",
        "dropped_packets": "8",
    },
    "05-stack-latency": {
        "highest_rate_s": "1000 / 2",
        "closed_loop_ms": "16 * 2",
        "last_wait_ms": "0.2 * 3000",
        "stopped_requests": "16",
        "wake_up_ratio": "189 / 180",
    },
    "11-queues-and-latency": {
        "reno_buffer_kib": "100e6 / 8 * 0.06 / 1024",
        "cubic_buffer_kib": "(1 / 0.7 - 1) * 100e6 / 8 * 0.06 / 1024",
        "fifo_delay_ms": "1000 * 1514 * 8 / 50e3",
        "quarter_pct": "89.5",
    },
    "12-sharing-a-link": {
        "far_reno_pct": "28",
        "crowd_bdp": "1 / 5",
        "jain_index": "10 ** 2 / (3 * 66)",
        "bbr_deep_pct": "100 * (1 - 0.5 + 1 / 16) * 0.944",
    },
}
WRONG_ANSWERS = [
    ("00-start-here", "bdp_mib", "2.75", "right in MB"),
    ("00-start-here", "bdp_mib", "5.245", "twice"),
    ("00-start-here", "bdp_mib", "20.98", "right in Mbit"),
    ("00-start-here", "longest_rtt_ms", "0.024", "right in s"),
    ("00-start-here", "longest_rtt_ms", "35", "send_bytes"),
    ("01-buffers-and-bdp", "httping_ms", "200", "handshake"),
    ("01-buffers-and-bdp", "buffer_mib", "23.8", "one BDP"),
    ("01-buffers-and-bdp", "used_pct", "2.44", "400 ms"),
    ("01-buffers-and-bdp", "used_pct", "0.0476", "fractions of 1"),
    ("08-windows-kernels-and-loss", "scaled_mib_s", "29.8", "reserved share"),
    ("08-windows-kernels-and-loss", "lossy_mib_s", "0.143", "per cent"),
    ("08-windows-kernels-and-loss", "lossy_mib_s", "12", "right in Mbit/s"),
    ("08-windows-kernels-and-loss", "granted_kib", "128", "doubles"),
    ("02-iperf-buffer-sweeps", "granted_kib", "1024", "limited to wmem_max first"),
    ("02-iperf-buffer-sweeps", "same_bdp_ms", "0.032", "right in s"),
    ("02-iperf-buffer-sweeps", "larger_mib_s", "31.2", "Not all of the granted"),
    ("02-iperf-buffer-sweeps", "limit", '"link"', "smaller than the BDP"),
    ("03-nagle-and-delayed-ack", "longest_wait_ms", "200", "shortest"),
    ("03-nagle-and-delayed-ack", "far_off_ms", "64", "round trip is missing"),
    ("03-nagle-and-delayed-ack", "far_off_ms", "44", "timer alone"),
    ("03-nagle-and-delayed-ack", "far_quickack_ms", "60", "no handshake"),
    ("04-receive-window", "granted_bytes", "98 * 1024", "doubles"),
    ("04-receive-window", "accepted_packets", "28", "One more"),
    ("04-receive-window", "accepted_packets", "64", "true size"),
    ("04-receive-window", "scaled_window_bytes", "48 * 1024 / 8", "reserved share"),
    ("04-receive-window", "scaled_window_bytes", "24 * 1024 * 7 / 8", "doubles"),
    ("04-receive-window", "dropped_packets", "7", "The first drop"),
    ("04-receive-window", "dropped_packets", "11", "TCPOFODrop"),
    ("05-stack-latency", "highest_rate_s", "8000", "one after another"),
    ("05-stack-latency", "closed_loop_ms", "2", "other connections"),
    ("05-stack-latency", "closed_loop_ms", "17", "at once"),
    ("05-stack-latency", "last_wait_ms", "300", "median"),
    ("05-stack-latency", "last_wait_ms", "500", "rate of the server"),
    ("05-stack-latency", "last_wait_ms", "0.6", "right in s"),
    ("05-stack-latency", "stopped_requests", "40", "open loop"),
    ("05-stack-latency", "wake_up_ratio", "1.36", "added"),
    ("11-queues-and-latency", "reno_buffer_kib", "366", "pipe and buffer together"),
    ("11-queues-and-latency", "reno_buffer_kib", "5859", "8"),
    ("11-queues-and-latency", "cubic_buffer_kib", "732", "0.7"),
    ("11-queues-and-latency", "cubic_buffer_kib", "220", "not 0.3"),
    ("11-queues-and-latency", "fifo_delay_ms", "282", "RTT"),
    ("11-queues-and-latency", "quarter_pct", "75", "without any buffer"),
    ("12-sharing-a-link", "far_reno_pct", "20", "leaves out the queue"),
    ("12-sharing-a-link", "far_reno_pct", "50", "equal RTTs"),
    ("12-sharing-a-link", "crowd_bdp", "0.04", "square root"),
    ("12-sharing-a-link", "jain_index", "0.333", "least index"),
]


@pytest.mark.parametrize("stem", RIGHT_ANSWERS)
def test_grade_file_accepts_right_answers(stem: str, tmp_path: Path) -> None:
    sheet = grade_file(with_answers(stem, tmp_path, RIGHT_ANSWERS[stem]))
    assert sheet.problem == ""
    assert [(grade.exercise.name, grade.verdict) for grade in sheet.grades] == [
        (name, RIGHT) for name in RIGHT_ANSWERS[stem]
    ]
    assert sheet.points == len(sheet.grades)


@pytest.mark.parametrize(("stem", "name", "answer", "phrase"), WRONG_ANSWERS)
def test_grade_file_says_what_is_wrong(
    stem: str, name: str, answer: str, phrase: str, tmp_path: Path
) -> None:
    sheet = grade_file(with_answers(stem, tmp_path, {**RIGHT_ANSWERS[stem], name: answer}))
    (grade,) = [grade for grade in sheet.grades if grade.exercise.name == name]
    assert grade.verdict == WRONG
    assert phrase in grade.hint and "\n" not in grade.hint
    assert sheet.points == len(sheet.grades) - 1


@pytest.mark.parametrize("stem", RIGHT_ANSWERS)
def test_grade_file_of_an_empty_copy_has_no_points(stem: str, tmp_path: Path) -> None:
    sheet = grade_file(with_answers(stem, tmp_path, {}))
    assert {grade.verdict for grade in sheet.grades} == {MISSING}
    assert sheet.points == 0


def test_grade_file_without_its_answer_cell_still_counts_all_exercises(tmp_path: Path) -> None:
    path = with_answers("00-start-here", tmp_path, {})
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            cell["source"] = "bdp_mib = 2.62"
    write(path, notebook)
    assert [grade.verdict for grade in grade_file(path).grades] == [RIGHT, MISSING, MISSING]


def test_grade_file_after_a_rename_knows_its_notebook(tmp_path: Path) -> None:
    path = with_answers("00-start-here", tmp_path, RIGHT_ANSWERS["00-start-here"])
    renamed = path.rename(tmp_path / "alice.ipynb")
    assert grade_file(renamed).points == 3


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ('__import__("os").system("touch hacked")', UNREADABLE),
        ("9 ** 9 ** 9 ** 9", UNREADABLE),
        ('"24"', UNREADABLE),
        ("1e999", UNREADABLE),
        ("bdp", UNREADABLE),
    ],
)
def test_grade_file_of_hostile_answers_executes_nothing(
    answer: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_answers("00-start-here", tmp_path / "in", {"bdp_mib": answer})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (grade, *_) = grade_file(path).grades
    assert grade.verdict == verdict
    assert "\n" not in grade.hint and "\x1b" not in grade.hint
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("parameter", "phrase"),
    [
        ("RATE_MBTI = 100", "did you mean RATE_MBIT?"),
        ("DELAY_MS = -1", "out of range"),
        ("DELAY_MS = exit()", "not a literal"),
        ("DELAY_MS = (", "NAME = VALUE"),
    ],
)
def test_grade_file_with_bad_parameters_has_a_problem_in_one_line(
    parameter: str, phrase: str, tmp_path: Path
) -> None:
    path = with_answers("00-start-here", tmp_path, {})
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = parameter
    write(path, notebook)
    sheet = grade_file(path)
    assert phrase in sheet.problem and "\n" not in sheet.problem
    assert sheet.grades == ()


def test_grade_file_of_an_unknown_notebook_says_which_are_known(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": "a = 1", "metadata": {"tags": ["answer"]}}
    book = {"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    write(tmp_path / "00-start-her.ipynb", book)
    assert "did you mean 00-start-here?" in grade_file(tmp_path / "00-start-her.ipynb").problem


@pytest.mark.parametrize("place", ["runs", "../bob/runs"])
def test_runs_of_a_student_give_no_points(place: str, tmp_path: Path) -> None:
    """A run that was changed and sealed again, in the student's own folder or in another one's: its
    httping took 900 ms. What is right follows from the theory and from the recorded runs alone."""
    path = with_answers("01-buffers-and-bdp", tmp_path / "ada", {"httping_ms": "900"})
    notebook = path.read_text("utf-8")
    for old, new in (('RUNS = \\"runs', f'RUNS = \\"{place}'), ('\\"recorded\\"', '\\"virtual\\"')):
        assert old in notebook
        notebook = notebook.replace(old, new)
    path.write_text(notebook, "utf-8")
    p = find("buffers").Parameters(only="httping")
    (run,) = recorded.matching(
        "buffers",
        [condition.as_json() for condition in find("buffers").conditions(p)],
        kernel="6.1",
        seed=p.seed,
        memory_mib=p.memory_mib,
    )
    forged = path.parent / place / run.name
    shutil.copytree(run.path, forged)
    printed = forged / "client" / "httping.txt"
    printed.write_text(printed.read_text().replace("400.", "900."))
    reseal(forged)
    assert verify(forged).digest != run.digest
    assert {grade.exercise.name: grade.verdict for grade in grade_file(path).grades}[
        "httping_ms"
    ] == WRONG


def test_grade_in_a_notebook_has_one_row_per_exercise() -> None:
    names = {"TESTBED": "recorded", "bdp_mib": 2.62, "limit": "send buffer", "longest_rtt_ms": None}
    table = labs.grade("00-start-here", names)
    assert list(table["Result"]) == ["right", "wrong", "no answer yet"]
    assert [bool(hint) for hint in table["Hint"]] == [False, True, True]


def test_grade_of_an_unknown_notebook_is_refused() -> None:
    with pytest.raises(BadInput, match="has no graded exercises"):
        labs.grade("09-unknown", {})


@pytest.mark.parametrize("runs", ["/", "/dev", "..", "runs/../../.."])
def test_grade_file_reads_no_folder_of_runs(runs: str, tmp_path: Path) -> None:
    path = with_answers("00-start-here", tmp_path, RIGHT_ANSWERS["00-start-here"])
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = f'TESTBED = "virtual"\nRUNS = "{runs}"\n'
    write(path, notebook)
    assert grade_file(path).points == 3


def test_run_has_the_parameters_that_were_requested() -> None:
    run = RunEvidence("6.1", find("buffers")).run("default", delay_ms=22.0)
    assert run is not None
    assert (run.condition, run.link.asked.delay_ms) == ("default", 22.0)
    assert run.kernel.release.startswith("6.1.")


def test_run_that_is_not_recorded_is_none() -> None:
    assert RunEvidence("6.1", find("buffers")).run("default", delay_ms=23.0) is None
