"""Errors become one line that is safe to print, whatever they quote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.errors import Damaged, LabError, one_line
from tests.run_folders import inputs, make_run, reseal, run_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("RTT 3 µs, §5 …", "RTT 3 µs, §5 …"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b]0;title\x07\x1b[2J\x9b31m\x7f", r"\x1b]0;title\x07\x1b[2J\x9b31m\x7f"),
        ("\u202egpj.exe\u2028\u200b\u2066", r"\u202egpj.exe\u2028\u200b\u2066"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_one_line_escapes_what_is_not_printable(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert str(Damaged(text)) == str(LabError(text)) == shown
    shown.encode("utf-8")


def test_lab_error_of_a_file_with_an_unprintable_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "runs")
    (run / "server/a\nb\x1b[31m").write_bytes(b"")
    (run / "server/\udcff").write_bytes(b"")
    run = run.rename(run.with_name("two\nlines"))
    assert main(["runs", "list", str(tmp_path / "runs")]) == 6
    said = capsys.readouterr()
    assert said.out.count("\n") == 1 and "\x1b" not in said.out
    assert main(["runs", "show", str(run)]) == 6
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and r"server/a\nb\x1b[31m was added" in said.err
    assert main(["runs", "pack", str(run), "--out", str(tmp_path / "no\nfolder/x.txt")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_lab_error_quotes_a_run_json_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path)
    said = run_json(inputs())
    said["ended"] = "\x1b[2J"
    (run / "run.json").write_text(json.dumps(said))
    assert main(["runs", "show", str(reseal(run))]) == 6
    shown = capsys.readouterr().err
    assert "\x1b" not in shown and shown.count("\n") == 1
