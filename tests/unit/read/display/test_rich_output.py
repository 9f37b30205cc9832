"""Tables for people: headings with units, aligned numbers, folded rows."""

from __future__ import annotations

import pytest

from labs.read.display.format import heading
from labs.read.display.rich_output import MOST_ROWS, Folded, Table


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
