"""Numbers and texts as people read them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labs.cli.__main__ import main
from labs.read.display.format import (
    LINES,
    PrintableOutput,
    figures_in_words,
    input_value,
    notebook_cell,
    printable,
    terminal_cell,
    terminal_table,
)
from labs.read.display.rich_output import Table, Text, Words
from tests.real_runs import real, with_file

ROOT = Path(__file__).parents[4]
# What a terminal obeys: ESC, a C1 control, bidirectional overrides, line breaks of Unicode.
HOSTILE = "\x1b]0;x\x07 \x9b2J \u202e \u2066 \u2028 \r\n\t\x00"
SHOWN = r"\x1b]0;x\x07 \x9b2J \u202e \u2066 \u2028 \r\n\t\x00"


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (None, ""),
        (13.4, "13.4"),
        (114.01634, "114"),
        (52427352, "52,427,352"),
        (2.0, "2"),
        (0.24993, "0.2499"),
        (200.0008, "200"),
        (1023.9, "1,024"),
        ("by far", "by far"),
        ({"mean": 77.8, "end": 92.7}, "mean: 77.8, end: 92.7"),
        ({"net.ipv4.tcp_rmem": "4096 131072 6291456"}, "net.ipv4.tcp_rmem: 4096 131072 6291456"),
    ],
)
def test_figures_in_words(figure: Any, text: str) -> None:
    assert figures_in_words(figure) == text


def test_figures_in_words_without_a_finite_number() -> None:
    assert figures_in_words(float("inf")) == "inf" and figures_in_words(float("nan")) == "nan"


@pytest.mark.parametrize("text", ["", "64 KiB", "± 3 ms · 5 µs → 20 %", "größe ☃ \\x1b"])
def test_printable_leaves_printable_text(text: str) -> None:
    assert printable(text) == text


def test_printable_escapes_controls() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("a\nb\tc\r", LINES) == "a\nb\tc\\r"
    assert printable(os.fsdecode(b"caf\xe9")) == r"caf\udce9"


def test_cells_and_values_are_printable() -> None:
    for cell in (terminal_cell, input_value, figures_in_words):
        assert cell(HOSTILE) == SHOWN
    assert terminal_cell([HOSTILE, 1]) == f"{SHOWN}; 1"
    assert input_value({HOSTILE: HOSTILE}) == f"{SHOWN}={SHOWN}"
    assert figures_in_words({HOSTILE: HOSTILE}) == f"{SHOWN}: {SHOWN}"
    assert "\x1b" not in notebook_cell(HOSTILE)
    assert terminal_table([{"a": HOSTILE}, {"a": "b"}], ["a"]).splitlines() == ["a", SHOWN, "b"]


def test_notebook_cell_has_four_digits_and_large_numbers_in_full() -> None:
    assert [notebook_cell(value) for value in (62464.0, 1878400.0, 9999.9, 0.0001, 13.41)] == [
        "62,464",
        "1,878,400",
        "1e+04",
        "<0.001",
        "13.41",
    ]


def test_rich_output_is_printable() -> None:
    for kind in (Text, Words):
        assert str(kind(HOSTILE)) == repr(kind(HOSTILE)) == printable(HOSTILE, LINES)
    shown = Table({HOSTILE: [HOSTILE]})
    for text in (repr(shown), shown._repr_html_()):
        assert printable(text, LINES) == text


def test_printable_output_passes_on_printable_lines() -> None:
    stream = io.StringIO()
    output = PrintableOutput(stream)
    print("one\n\x1b[2Jtwo", file=output)
    assert stream.getvalue() == "one\n\\x1b[2Jtwo\n"
    assert output.isatty() is False


@pytest.mark.parametrize("words", [("runs", "list"), ("runs", "show"), ("capture", "stalls")])
def test_labs_prints_no_control_characters_of_a_file_name(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Also where the one-line error quotes it, and where no terminal could decode it."""
    for name in (b"a\nb\x1b[31m\x9b.pcap", "\u202egp.pcap".encode(), b"\xff.pcap"):
        path = os.path.join(os.fsencode(tmp_path), name)
        Path(os.fsdecode(path)).write_text("no capture and no run")
        done = subprocess.run(
            [sys.executable, "-m", "labs.cli", *words, path], cwd=ROOT, capture_output=True
        )
        said = (done.stdout + done.stderr).decode()
        assert done.returncode in (2, 6) and said.count("\n") == 1
        assert said[:-1].isprintable() and "pcap" in said


@pytest.mark.parametrize("verb", [("show",), ("list",)])
def test_labs_prints_no_control_characters_of_a_run(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel may call itself anything, and so may a tool."""
    run = real("both-1gib")
    old, new = (f'"release": {json.dumps("6.1.192" + more)}' for more in ("", HOSTILE))
    odd = with_file(run, tmp_path, "run.json", old, new)
    words = [str(odd.path)] if verb == ("show",) else [str(tmp_path)]
    assert main(["runs", *verb, *words]) == 0
    said = capsys.readouterr().out
    assert "6.1.192" in said and printable(said, LINES) == said
