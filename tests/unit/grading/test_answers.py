"""Answers are read without executing anything, whatever a cell contains."""

from __future__ import annotations

import ast
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from labs.grading.answers import ALLOWED, answers, given, usable
from labs.read.notebook_file import Cell, NotebookFile


def notebook(*sources: str, tag: str = "answer") -> NotebookFile:
    cells = tuple(Cell(source, frozenset({tag}), True) for source in sources)
    return NotebookFile(Path("x.ipynb"), "x", cells, {})


def value(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("23.8", 23.8),
        ("24", 24.0),
        ("-1", -1.0),
        ("1000e6 * 0.2 / 8 / 2**20", 1000e6 * 0.2 / 8 / 2**20),
        ("(2 * 200)", 400.0),
        ("'send buffer'", "send buffer"),
        ("None", None),
    ],
)
def test_given_reads_numbers_arithmetic_and_text(source: str, answer: float | str | None) -> None:
    read = given(value(source))
    assert (read.answer, read.problem) == (answer, "")


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('touch hacked')",
        "open('x', 'w')",
        "bdp",
        "[23.8]",
        "True",
        "1j",
        "(-8) ** 0.5",
        "9 ** 9 ** 9 ** 9",
        "1 / 0",
        "1e308 * 10",
        "0.0 * (1e308 * 10)",
        "'a' * 1000000000",
        "f'{1}'",
        "lambda: 1",
        "1 if 2 else 3",
        "10 % 3",
    ],
)
def test_given_refuses_everything_else_in_one_line(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    read = given(value(source))
    assert read.answer is None
    assert "Write a number" in read.problem and "\n" not in read.problem
    assert list(tmp_path.iterdir()) == []


def test_given_of_deep_arithmetic_is_refused() -> None:
    assert given(value("+".join(["1"] * 2000))).problem


def test_answers_are_the_last_of_the_tagged_cells_only() -> None:
    assert answers(notebook("a = 1\na = 2", "b = None")) == {"a": usable(2), "b": usable(None)}
    assert answers(notebook("a = 1", tag="exercise")) == {}


def test_answers_may_have_a_type() -> None:
    assert answers(notebook("a: float = 23.8\nb: str")) == {"a": usable(23.8)}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a = send buffer", 'Write a = "send buffer"'),
        ("a = \u201csend buffer\u201d  # of the server", 'Write a = "send buffer"'),
        ('a = "send buffer', 'Write a = "send buffer"'),
        ("a: str = the send-buffer", 'Write a = "the send-buffer"'),
        ("a = 23.8 ms", "write a = 23.8"),
        ("a=-2.5e-3s\r", "write a = -2.5e-3"),
        ("a = 50 %", "write a = 50"),
        ("a = 1.2 MiB/s", "write a = 1.2"),
        ("a = 2,62 MiB", "as in 2.62"),
        ("a = 1.000.000 bytes", ALLOWED),
        ("a = 2.75e6 / 2**20 MiB", ALLOWED),
        ("a = 024", ALLOWED),
        ("a = (", ALLOWED),
        ("  a = 1", ALLOWED),
        ("a = \u202e1", ALLOWED),
        ("a = " + "(" * 5000, ALLOWED),
        ("a = " + "b " * 5000, ALLOWED),
    ],
)
def test_answers_of_a_line_that_is_not_python_say_how_to_correct_it(line: str, words: str) -> None:
    """The answers before and after it are read."""
    by_name = answers(notebook(f"%time\nb = 2\n{line}\nc = (\n 3\n)\nd = e = 4"))
    assert by_name.pop("a").answer is None
    assert by_name == dict(zip("bcde", map(usable, (2, 3, 4, 4)), strict=True))
    problem = answers(notebook(line))["a"].problem
    assert problem.endswith(words)
    assert problem.isprintable()


PARTS = (
    "a",
    "=",
    " ",
    "\n",
    "2,62",
    "23.8",
    "ms",
    '"',
    "'",
    "(",
    ")",
    "#",
    ":",
    "\\",
    ";",
    "\0",
    "\r",
)


@hypothesis.given(strategies.lists(strategies.sampled_from(PARTS) | strategies.text(max_size=3)))
def test_answers_of_any_cell_are_values_or_problems_in_one_line(parts: list[str]) -> None:
    for name, read in answers(notebook("b = 1\n" + "".join(parts))).items():
        assert name.isprintable() and read.problem.isprintable()
        assert read.answer is None or not read.problem


def test_answers_of_lines_without_a_name_are_none() -> None:
    assert answers(notebook("a == (", "lambda a=1: (", "(" * 30_000)) == {}
    assert answers(notebook("a = 1\n\0")) == {"a": usable(1)}
    assert answers(notebook("a = 1\na = 2 ms"))["a"].answer is None


def test_answers_of_a_long_cell_are_its_names_with_the_problem() -> None:
    by_name = answers(notebook("b = 2", "a = 1\n" * 10_000))
    assert (by_name["b"], by_name["a"].answer) == (usable(2), None)
    assert "20000 characters" in by_name["a"].problem


def test_answers_that_are_text_are_printed_in_one_line() -> None:
    (read,) = answers(notebook(r'a = "x\nright  bdp_mib\x1b[2J"')).values()
    assert read.answer == r"x\nright  bdp_mib\x1b[2J"


@pytest.mark.parametrize("answer", [True, [1], float("nan"), float("inf"), 10**400, object(), 1j])
def test_usable_refuses_what_is_not_a_number(answer: object) -> None:
    assert usable(answer).problem
