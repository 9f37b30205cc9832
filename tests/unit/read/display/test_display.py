"""What notebooks and terminals show: numbers, tables, sources, summaries."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pandas import DataFrame

from labs.cli.__main__ import main
from labs.errors import BadInput
from labs.read.display.beside import guesses
from labs.read.display.format import (
    LINES,
    PrintableOutput,
    figures_in_words,
    heading,
    input_value,
    notebook_cell,
    printable,
    terminal_cell,
    terminal_table,
)
from labs.read.display.provenance import LIVE, RECORDED, of_table, source
from labs.read.display.rich_output import MOST_ROWS, Folded, Table, Text, Words
from labs.read.display.summary import Summary
from labs.read.display.topology import topology
from labs.read.runs import archive
from labs.read.runs.archive import run_folders
from labs.read.runs.recorded import folder, runs_of
from labs.read.runs.run import open_run
from tests.real_runs import real, with_file
from tests.run_folders import make_run


def test_guesses_have_the_ratio_of_measurement_and_guess() -> None:
    table = guesses({"default": (20.0, 13.5, 13.6), "both": (None, 114.0, 114.0)}, "MiB/s")
    assert list(table) == [
        "Guessed",
        "Your guess (MiB/s)",
        "Predicted (MiB/s)",
        "Measured (MiB/s)",
        "Measured / guess",
    ]
    assert table["Measured / guess"][0] == pytest.approx(0.68)
    assert math.isnan(table["Measured / guess"][1])
    assert math.isnan(table["Your guess (MiB/s)"][1])


def test_guesses_without_a_prediction_have_no_column_for_it() -> None:
    table = guesses({"a": (1.0, None, 2.0), "b": (None, None, None)}, "ms")
    assert list(table) == ["Guessed", "Your guess (ms)", "Measured (ms)", "Measured / guess"]


@pytest.mark.parametrize("guess", [0, 0.0])
def test_guesses_of_zero_have_no_ratio(guess: float) -> None:
    assert math.isnan(guesses({"a": (guess, None, 1.0)}, "ms")["Measured / guess"][0])


def test_guesses_have_no_figure_where_it_is_meaningless() -> None:
    table = guesses({"off": (40.0, 44.0, 43.9), "on": (0.5, 0.0008, 0.0028)}, "ms", below=1)
    assert table["Predicted (ms)"].tolist() == [44.0, "below 1"]
    assert table["Measured (ms)"].tolist() == [43.9, "below 1"]
    assert table["Your guess (ms)"].tolist() == [40.0, 0.5]
    assert table["Measured / guess"][0] == pytest.approx(1.0975)
    assert math.isnan(table["Measured / guess"][1])


def test_guesses_of_nothing_is_an_empty_table() -> None:
    assert guesses({}, "ms").empty


@pytest.mark.parametrize("guess", ["24", True, [1]])
def test_guesses_refuse_what_is_not_a_number(guess: Any) -> None:
    with pytest.raises(BadInput, match="Write a number in ms, or None"):
        guesses({"off": (guess, None, None)}, "ms")


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
        "10,000",
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


def test_source_of_a_recorded_run_and_of_a_copy(tmp_path: Path) -> None:
    recorded = open_run(run_folders(runs_of("nagle"))[0])
    assert source(recorded) == RECORDED
    assert archive.origin(recorded.path) == (folder() / "nagle.tar.xz").resolve()
    copy = shutil.copytree(recorded.path, tmp_path / recorded.name)
    assert source(open_run(copy)) == LIVE


def test_source_of_a_live_run_unpacks_nothing(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path))
    archive._content_of.cache_clear()
    assert source(run) == LIVE
    assert archive._content_of.cache_info().currsize == 0


def test_of_table_names_the_paths_of_flows_and_not_their_wires() -> None:
    row = {
        "condition": "a",
        "link_ok": True,
        "link_shaped": False,
        "link_asked": "20 Mbit/s, 40 ms",
    }
    row |= {"rtt_ms": 0.003, "rate_mbit": float("nan"), "testbed": "virtual", "kernel": "6.1.192"}
    row |= {"source": LIVE}
    other = row | {"condition": "b", "link_asked": "50 Mbit/s, 40 ms"}
    said = "virtual · Linux 6.1.192 · path: 20 Mbit/s, 40 ms; 50 Mbit/s, 40 ms · live"
    assert of_table(DataFrame([row, row, other])) == said
    wrong = DataFrame([row, other | {"link_ok": False}])
    assert "LINK NOT AS ASKED: b" in of_table(wrong)
    unshaped = DataFrame([row | {"link_asked": "not shaped"}])
    assert "link as asked (not shaped)" in of_table(unshaped)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("goodput_mib_s", "Goodput (MiB/s)"),
        ("steady_bytes_s", "Steady (bytes/s)"),
        ("rate_mbit", "Rate (Mbit/s)"),
        ("p50_ms", "Median (ms)"),
        ("predicted_p50_ms", "Predicted median (ms)"),
        ("stalled_pct", "Stalled (%)"),
        ("duration_s", "Duration (s)"),
        ("acks_per_answer", "ACKs per answer"),
        ("least, ms", "Least (ms)"),
        ("allows MiB/s", "Allows (MiB/s)"),
        ("what it says", "What it says"),
        ("its ack_rtt, s", "Its ack RTT (s)"),
        ("s", "S"),
        ("", ""),
    ],
)
def test_heading_of_a_column(name: str, words: str) -> None:
    assert heading(name) == words


def test_heading_takes_the_unit_of_the_values() -> None:
    assert heading("granted", "KiB") == "Granted (KiB)"
    assert heading("rtt_ms", "KiB") == "RTT (ms)"


def test_table_keeps_its_units_when_rows_and_columns_are_chosen() -> None:
    table = Table({"granted": ["51,200", "208.001"], "whose": ["sender", "receiver"]})
    table.attrs["units"] = {"granted": "KiB"}
    html = table[table["whose"] == "sender"][["whose", "granted"]]._repr_html_()
    assert 'title="granted">Granted (KiB)</th>' in html
    assert '<td style="text-align: right; vertical-align: top">51,200</td>' in html


def test_table_folds_the_rows_after_the_twentieth() -> None:
    html = Table({"number": range(MOST_ROWS + 3)})._repr_html_()
    shown, folded = html.split("<details>")
    assert shown.count("<td") == MOST_ROWS and folded.count("<td") == 3
    assert "<summary>3 more of 23 rows</summary>" in folded
    assert "<details>" not in Table({"number": range(MOST_ROWS)})._repr_html_()


def test_table_folds_the_details_of_a_cell() -> None:
    cell = Folded("it <is> full", ("it <is> full", "114 & more\x1b"))
    table = Table([{"claim": "A1", "because": cell}], dtype=object)
    shown = table[table["claim"] == "A1"][["because"]]._repr_html_()
    assert "it &lt;is&gt; full<details><summary>evidence</summary><p>114 &amp; more" in shown
    assert "\x1b" not in shown
    assert table["because"].tolist() == ["it <is> full"]
    assert "<details>" not in Folded("alone", ("alone",))._repr_html_()


SUMMARY = Summary(
    ("{mean_ms:.1f} ms[?, predicted {predicted_ms:.1f}]", "{2 * drops:count} packets dropped"),
    empty="no requests",
)


def row(**figures: object) -> dict[str, object]:
    return {"condition": "off", "predicted_ms": None, "drops": float("nan"), "notes": "", **figures}


def test_a_phrase_without_a_figure_is_left_out() -> None:
    assert SUMMARY.of(row(mean_ms=4.04)) == "4.0 ms."
    assert SUMMARY.of(row(mean_ms=4.04, predicted_ms=4.0)) == "4.0 ms, predicted 4.0."
    assert SUMMARY.of(row(mean_ms=None, drops=0)) == "0 packets dropped."


def test_a_run_without_figures_has_its_notes() -> None:
    text = SUMMARY(DataFrame([row(mean_ms=4.0), row(mean_ms=None, notes="refused")]))
    assert text.splitlines() == ["- **off**: 4.0 ms.", "- **off**: no requests. Note: refused."]


DOCS = Path(__file__).resolve().parents[4] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_topology_is_svg_with_a_text_alternative() -> None:
    root = ElementTree.fromstring(topology(rate_mbit=100.0, delay_ms=40.0))
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    assert str(root.get("aria-label")).startswith("Topology. The server sends")
    assert root[0].tag == f"{SVG}title" and root[0].text == root.get("aria-label")
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert "data: 100 Mbit/s, 40 ms" in words
    assert "server, 10.77.0.1" in words and "client, 10.77.0.2" in words


def test_topology_without_figures_names_none() -> None:
    words = [one.text for one in ElementTree.fromstring(topology()).iter(f"{SVG}text")]
    assert "data" in words


def test_copy_in_docs_is_what_the_code_draws() -> None:
    drawn = topology(rate_mbit=1000.0, delay_ms=200.0)
    assert (DOCS / "topology.svg").read_text("utf-8") == drawn, "draw it again: make figure"
