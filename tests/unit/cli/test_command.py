"""The pattern of commands: arguments by their usage, and how an answer is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.command import Answer, Arguments, arg
from labs.errors import BadInput, RunFailed

EVERY = (
    arg("FILE...", "files", Path),
    arg("--fresh"),
    arg("--jobs N", "how many", int, 3, least=1, most=9),
    arg("--set NAME=VALUE..."),
    arg("--out X.csv|X.tar.gz"),
)


def test_arguments_are_read_by_their_usage() -> None:
    parser = Arguments(EVERY)
    args = parser.read(["a", "b", "--set", "x=1", "--set", "y=2", "--out", "t.tar.gz"])
    assert args.file == [Path("a"), Path("b")] and args.out == Path("t.tar.gz")
    assert (args.fresh, args.jobs, args.set) == (False, 3, ["x=1", "y=2"])
    assert parser.read(["a"]).set == []
    assert "how many (default: 3)" in parser.format_help()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "FILE"),
        (["a", "--jobs", "0"], "1 to 9"),
        (["a", "--jobs", "10"], "1 to 9"),
        (["a", "--jobs", "many"], "a whole number"),
        (["a", "--out", "t.txt"], ".csv or .tar.gz"),
        (["a", "--fres"], "--fresh"),
    ],
)
def test_arguments_refuse_in_one_line(words: list[str], named: str) -> None:
    with pytest.raises(BadInput) as caught:
        Arguments(EVERY).read(words)
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_answer_is_text_with_remarks_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer([{"a": 1}, {"b": 2}], lambda: "text", ("a remark",), exit_code=5)
    assert answer.deliver(as_json=False) == 5
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("text\n", "labs: a remark\n")
    assert answer.deliver(as_json=True) == 5
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and json.loads("".join(lines)) == answer.value
    assert Answer([]).deliver(as_json=True) == 0
    assert capsys.readouterr().out == "[]\n"


def test_answer_raises_its_error_when_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunFailed):
        Answer({}, "some", error=RunFailed("one failed")).deliver(as_json=False)
    assert capsys.readouterr().out == "some\n"
