"""What runs of the lab `windows` show: the article's figures, to the byte on Linux 6.1."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas

from labs.experiments.windows.figures import describe, remarks
from labs.experiments.windows.results import Results, packets
from labs.experiments.windows.settings import PIECES
from labs.read.readings.receive_queue import SynAck
from labs.read.runs.run import Run
from tests.real_runs import codes, windows_run, windows_study, with_condition, with_file, with_link


def results_of(table: pandas.DataFrame, run: Run | None = None) -> Results:
    """The results of a run with these packets instead of its own."""
    results = Results(run or windows_run("article-scale1"))
    results.table = table
    return results


@cache
def table(kernel: str = "6.1") -> Any:
    return windows_study(kernel).results().set_index("condition")


def test_results_between_two_hosts_are_those_of_the_loopback_device() -> None:
    for kernel in ("6.1", "6.12"):
        rows = table(kernel)
        for scale in ("scale0", "scale1"):
            for column in ("recv_q", "skmem_r", "window_max_bytes", "rcv_q_drop"):
                assert rows.loc[f"hosts-{scale}", column] == rows.loc[f"article-{scale}", column]


def test_every_packet_has_a_sample_unless_nothing_samples() -> None:
    for kernel in ("6.1", "6.12"):
        for name, row in table(kernel).iterrows():
            expected = row["packets"] if name == "unsampled" else 0
            assert abs(row["unsampled_packets"] - expected) <= (name == "unsampled"), name


def test_results_without_samples_leave_out_what_only_samples_show() -> None:
    row = windows_study().results().set_index("condition").loc["unsampled"]
    for name in ("skmem_r_max", "overshoot_bytes", "payload_pct", "dropped", "dropped_in_window"):
        assert row[name] is None or row[name] != row[name], name
    assert (row["skmem_r"], row["recv_q"], row["rcv_q_drop"]) == (73984, 62464, 4)
    (line,) = describe(windows_study().results().query("condition == 'unsampled'")).splitlines()
    assert "73,984 bytes of memory, of a buffer of 65,536;" in line
    assert "dropped" not in line and "although" not in line


def test_remarks_name_the_run_with_the_largest_deviation() -> None:
    rows = windows_study().results()
    off = rows.assign(
        predicted_equal_pct=[99.97, *[100.0] * (len(rows) - 1)],
        deviation_bytes=[32, *[0] * (len(rows) - 1)],
    )
    assert remarks(off) == [
        "predicted window: equal to the one on the wire at 99.97 % of the packets of each run or "
        f"more; largest deviation 32 bytes ({rows['condition'].iloc[0]})"
    ]


def test_metadata_bytes_of_a_queue_that_was_read_are_unknown() -> None:
    run = windows_run("article-scale1")
    assert Results(run).metadata_bytes is not None
    unsampled = packets(run).assign(rmem_bytes=None)
    assert results_of(unsampled, run).metadata_bytes is None
    read = with_condition(run, settings={"reader": PIECES})
    assert Results(read).metadata_bytes is None


def test_round_trips_add_up_to_the_run() -> None:
    for name in ("article-scale0", "article-scale1", "article-1m", "automatic", "chunks"):
        results = Results(windows_run(name))
        rounds = results.rounds
        assert rounds["packets"].sum() == results.packets
        assert rounds["payload_bytes"].sum() == results.recv_q, name
        assert rounds["window_bytes"].max() <= (results.window_max_bytes or 0)


def test_notes_of_a_kernel_that_limits_initrwnd() -> None:
    assert codes(Results(windows_run("initrwnd"))) == ["initrwnd_limited"]
    assert codes(Results(windows_run("initrwnd", "6.12"))) == []
    smaller = with_condition(windows_run("initrwnd"), settings={"initrwnd": 10})
    assert codes(Results(smaller)) == []


def test_notes_of_a_link_and_of_a_buffer_that_was_not_granted(tmp_path: Path) -> None:
    run = windows_run("article-scale1")
    assert codes(Results(run)) == []
    old = '"granted_bytes": 65536'
    small = with_file(run, tmp_path, "run.json", old, '"granted_bytes": 60000')
    assert "SO_RCVBUF of 32,768 bytes gave 60,000, because of net.core.rmem_max" in [
        note.text for note in Results(small).notes()
    ]
    assert Results(with_link(run, rate_mbit=5.0)).skmem_rb == 65536


def test_beyond_window_counts_packets_after_every_right_edge() -> None:
    assert {Results(run).beyond_window for run in windows_study().runs} == {0}
    table = packets(windows_run("article-scale1"))[:3].assign(
        end=[1001, 2001, 3001], window_left_bytes=[500, 0, 0]
    )
    # The first packet fits 1,000 bytes; the second ends at 2,000, beyond 1,500; the third at 3,000.
    results = results_of(table)
    results.offered = SynAck(1000, 0)
    assert results.beyond_window == 2
