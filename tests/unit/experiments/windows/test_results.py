"""What runs of the lab `windows` show: the article's figures, to the byte on Linux 6.1."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pytest

from labs.catalog import find
from labs.cli.run_report import as_json
from labs.experiments.windows.figures import as_printed, describe, describe_run, findings, remarks
from labs.experiments.windows.results import Results, packets
from labs.experiments.windows.settings import PIECES
from labs.read.readings.receive_queue import SynAck, syn_ack
from labs.read.runs.run import Run
from tests.real_runs import (
    codes,
    real,
    windows_run,
    windows_study,
    with_condition,
    with_file,
    with_link,
)


def results_of(table: pandas.DataFrame, run: Run | None = None) -> Results:
    """The results of a run with these packets instead of its own."""
    results = Results(run or windows_run("article-scale1"))
    results.table = table
    return results


@cache
def table(kernel: str = "6.1") -> Any:
    return windows_study(kernel).results().set_index("condition")


def test_results_with_the_whole_buffer_as_window() -> None:
    """The article's ss: r73984, rb65536, Recv-Q 62464; its first drop has 3,072 bytes of window."""
    row = table().loc["article-scale0"]
    assert (row["skmem_rb"], row["skmem_r"], row["recv_q"]) == (65536, 73984, 62464)
    assert (row["overshoot_bytes"], row["first_flight_packets"]) == (8448, 64)
    assert row["rcv_q_drop"] >= 4 and row["dropped_in_window"] > row["rcv_q_drop"]
    assert row["collapsed"] > 0 and row["coalesced"] == 57


def test_results_with_half_of_the_buffer_as_window() -> None:
    """The article's 56 KiB through a window of 32 KiB, without drop or collapse."""
    row = table().loc["article-scale1"]
    assert (row["recv_q"], row["window_max_bytes"]) == (56 * 1024, 32 * 1024)
    assert (row["rcv_q_drop"], row["collapsed"], row["overshoot_bytes"]) == (0, 0, 0)


def test_results_on_6_12_stay_below_the_budget() -> None:
    """Since 6.6 the window is a measured share: 62,208 bytes in use, 58,368 queued, no drop."""
    for name in ("article-scale0", "article-scale1"):
        row = table("6.12").loc[name]
        assert (row["skmem_r"], row["recv_q"], row["rcv_q_drop"]) == (62208, 58368, 0)
    assert "ignores tcp_adv_win_scale" in table("6.12").loc["article-scale0", "notes"]
    assert table("6.12").loc["article-scale1", "notes"] == ""


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


def test_predicted_window_is_the_one_on_the_wire() -> None:
    """The target of the lab: equal to the byte on at least 95 % of the packets."""
    for kernel in ("6.1", "6.12"):
        assert table(kernel)["predicted_equal_pct"].min() >= 95


def test_results_without_samples_leave_out_what_only_samples_show() -> None:
    row = windows_study().results().set_index("condition").loc["unsampled"]
    for name in ("skmem_r_max", "overshoot_bytes", "payload_pct", "dropped", "dropped_in_window"):
        assert row[name] is None or row[name] != row[name], name
    assert (row["skmem_r"], row["recv_q"], row["rcv_q_drop"]) == (73984, 62464, 4)
    (line,) = describe(windows_study().results().query("condition == 'unsampled'")).splitlines()
    assert "73,984 bytes of memory, of a buffer of 65,536;" in line
    assert "dropped" not in line and "although" not in line


def test_dropped_in_window_is_judged_by_the_window_before_the_drop() -> None:
    """On 6.12 the ACK of the first drop takes back a window of 31,744 bytes; the 24 that follow do
    not fit what is left. On 6.1 the window stays, and each of 7 fits it."""
    assert Results(real("windows-6.12-rcvbuf-16k")).dropped_in_window == 1
    assert Results(real("windows-6.1-article-scale0")).dropped_in_window == 7
    assert Results(real("windows-6.1-article-scale1")).dropped_in_window == 0


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


def test_metadata_of_a_packet() -> None:
    """True size 2,304 with a head of kmalloc-2k until 6.2; 1,984 with a small head since 6.3."""
    for kernel, besides in (("6.1", 2304 - 1024), ("6.12", 1984 - 1024)):
        row = table(kernel).loc["article-scale1"]
        assert row["first_metadata_bytes"] == besides
        queued = row["recv_q"] / 1024
        assert row["metadata_bytes"] == pytest.approx((row["skmem_r"] - row["recv_q"]) / queued)


def test_metadata_bytes_of_a_queue_that_was_read_are_unknown() -> None:
    run = windows_run("article-scale1")
    assert Results(run).metadata_bytes is not None
    unsampled = packets(run).assign(rmem_bytes=None)
    assert results_of(unsampled, run).metadata_bytes is None
    read = with_condition(run, settings={"reader": PIECES})
    assert Results(read).metadata_bytes is None


def test_new_packets_are_neither_retransmissions_nor_probes() -> None:
    results = Results(windows_run("article-scale0"))
    assert results.first_flight_packets == 64 < len(results.table)


def test_syn_ack_has_the_first_window_and_its_scale() -> None:
    """A window of a SYN is not scaled, so it is at most 65,535 bytes."""
    for kernel in ("6.1", "6.12"):
        offered = syn_ack(windows_run("article-1m", kernel))
        assert offered.window_bytes == 65535 and offered.wscale == 5
    assert syn_ack(windows_run("article-scale1")).window_bytes == 32768


def test_round_trips_add_up_to_the_run() -> None:
    for name in ("article-scale0", "article-scale1", "article-1m", "automatic", "chunks"):
        results = Results(windows_run(name))
        rounds = results.rounds
        assert rounds["packets"].sum() == results.packets
        assert rounds["payload_bytes"].sum() == results.recv_q, name
        assert rounds["window_bytes"].max() <= (results.window_max_bytes or 0)


def test_round_trips_of_the_default_buffer_have_smaller_and_smaller_batches() -> None:
    batches = Results(windows_run("automatic")).rounds["payload_bytes"].tolist()
    assert batches == sorted(batches, reverse=True) and sum(batches) == 113 * 1024


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


def test_results_of_another_condition_say_its_settings() -> None:
    run = with_condition(windows_run("article-scale1"), settings={"mss_bytes": 512})
    assert Results(run).mss_bytes == 512


def test_describe_has_a_line_per_run() -> None:
    text = str(windows_study().describe())
    assert "**article-scale0**: 62,464 bytes of data in 73,984 bytes of memory" in text
    assert "at most 8,448 above it" in text
    assert "7 dropped, 7 of them although the window was open" in text
    assert len(text.splitlines()) == len(windows_study().conditions) and "nan" not in text


def test_describe_run_says_where_the_queue_is_first_collapsed() -> None:
    text = describe_run(windows_run("article-scale0"))
    assert "first collapsed at packet 62" in text
    assert text.endswith("equal to the one on the wire at 100 % of the packets.")
    assert "collapsed" not in describe_run(windows_run("article-scale1"))


def test_json_has_the_article_s_names_and_the_round_trips() -> None:
    study = windows_study()
    shown = as_json(find("windows"), study.parameters, study)
    row = next(row for row in shown["results"] if row["condition"] == "article-scale0")
    assert (row["skmem_rb"], row["skmem_r"], row["recv_q"]) == (65536, 73984, 62464)
    assert shown["round_trips"]["article-1m"][0]["round_trip"] == 1
    assert shown["remarks"] == [
        "predicted window: equal to the one on the wire at 100 % of the packets of each run"
    ]
    runs = {run.condition: run for run in study.runs}
    assert set(findings(runs, study.parameters)["round_trips"]) == set(runs)  # type: ignore[arg-type]


def test_as_printed_is_what_the_article_prints() -> None:
    """Its ss -m and nstat: Recv-Q 62464, r73984, rb65536 at 127.0.0.3:1234; TCPRcvQDrop 13.
    Here the counter is that of four runs in one namespace, each of which adds three."""
    table = as_printed(windows_run("article-scale0-4x"))
    sockets, counter = table["This run"]
    assert sockets.startswith("ESTAB 62464 0 127.0.0.3:1234 ")
    assert "skmem:(r73984,rb65536," in sockets
    assert counter == "TcpExtTCPRcvQDrop 12 0.0"
    assert table["Article"][1] == "TcpExtTCPRcvQDrop 13 0.0"
    (newer, _) = as_printed(windows_run("article-scale0-4x", "6.12"))["This run"]
    assert "skmem:(r62208,rb65536," in newer
    for other in ({"link": {"delay_ms": 20}}, {"settings": {"rcvbuf_kib": 64}}):
        run = with_condition(windows_run("article-scale0-4x"), **other)
        assert list(as_printed(run)) == ["Command", "This run"]


def test_beyond_window_counts_packets_after_every_right_edge() -> None:
    assert {Results(run).beyond_window for run in windows_study().runs} == {0}
    table = packets(windows_run("article-scale1"))[:3].assign(
        end=[1001, 2001, 3001], window_left_bytes=[500, 0, 0]
    )
    # The first packet fits 1,000 bytes; the second ends at 2,000, beyond 1,500; the third at 3,000.
    results = results_of(table)
    results.offered = SynAck(1000, 0)
    assert results.beyond_window == 2


def test_overhead_is_the_least_memory_besides_payload() -> None:
    for kernel in ("6.1", "6.12"):
        assert Results(windows_run("article-scale1", kernel)).overhead_bytes == 576
