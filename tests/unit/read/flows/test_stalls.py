"""Silences of real connections: how long, why, and who waited for whom."""

from __future__ import annotations

import time
from pathlib import Path

import pandas
import pytest

from labs.read.capture import read
from labs.read.figures.ladder import ladder
from labs.read.figures.time_sequence import time_sequence
from labs.read.flows import reasons
from labs.read.flows.exchanges import exchanges
from labs.read.flows.rtt import time_to_ack
from labs.read.flows.waits import explained_waits, find_stalls, stalls
from tests.captures import without_syns
from tests.made_flows import random_capture

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"


def found(name: str) -> pandas.DataFrame:
    return stalls(read(FOLDER / name))


def told(rows: pandas.DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(rows["reason"], rows["waiting"], rows["ended_by"], strict=True))


def test_stalls_of_nagle_and_the_delayed_ack() -> None:
    """180 of 200 requests (see test_exchanges), and nothing else is silent."""
    rows = found("nagle-off.pcap.gz")
    assert told(rows) == [(reasons.NAGLE_AND_DELAYED_ACK.name, "server", "client")] * 180
    assert rows["gap_ms"].between(40, 48).all()
    assert rows["at_ns"].is_monotonic_increasing


@pytest.mark.parametrize(
    "name", ["nagle-on.pcap.gz", "nagle-no-k.pcapng.gz", "lossy.pcap.gz", "reordered.pcap.gz"]
)
def test_stalls_of_runs_without_one_are_empty(name: str) -> None:
    assert found(name).empty


def test_stalls_of_a_download_have_the_delayed_ack() -> None:
    """The client acknowledges every second segment, and the last one of a burst 40 to 44 ms later
    (250 Hz); the server's next data was sent before that ACK arrived."""
    (row,) = found("download.pcap.gz").to_dict("records")
    assert told(found("download.pcap.gz")) == [(reasons.DELAYED_ACK.name, "nobody", "client")]
    assert 40 <= row["gap_ms"] <= 44
    segments = read(FOLDER / "download.pcap.gz")
    assert (row["before"], row["after"]) == (315, 316)
    assert segments["payload_bytes"].loc[[315, 316]].tolist() == [1448, 0]
    assert segments["ack_rel"][316] - segments["ack_rel"][314] == 1448


def test_stalls_of_a_closed_window() -> None:
    """The receiver's answer to what filled its window, three probes, and its reading on; then an
    idle connection with keep-alives, and one that is reset."""
    rows = found("stopped-reader.pcap")
    closed, alive = reasons.ZERO_WINDOW.name, reasons.KEEP_ALIVE.name
    assert told(rows) == [
        (reasons.FULL_WINDOW.name, "client", "server"),  # until the ACK that the window has closed
        *[(closed, "client", "client")] * 3,
        (closed, "client", "server"),
        *[(alive, "nobody", "client")] * 3,
        (reasons.CLOSED_LATE.name, "nobody", "client"),
        (reasons.UNTOLD.name, "client", "server"),
    ]
    # The probe timer doubles (tcp_probe_timer, icsk_probes_out).
    probes = rows["gap_ms"].iloc[1:4].tolist()
    assert probes[1] / probes[0] == pytest.approx(2, rel=0.1)
    assert probes[2] / probes[1] == pytest.approx(2, rel=0.1)


def test_stalls_of_an_outage_are_retransmission_timers() -> None:
    rows = found("outage.pcap")
    timed = rows[rows["reason"] == reasons.TIMEOUT.name]
    assert set(timed["waiting"]) == {"client"} and set(timed["waited_for"]) == {"server"}
    assert timed["ended_by"].tolist() == ["client", "client", "server", "client", "server"]
    # RTO_MIN of Linux is 200 ms (TCP_RTO_MIN, HZ/5), within two ticks.
    assert timed["gap_ms"].iloc[0] == pytest.approx(200, abs=8)
    pauses = rows[rows["reason"] == reasons.APPLICATION.name]
    assert len(pauses) == 11 and pauses["gap_ms"].between(50, 51).all()
    assert set(pauses["waited_for"]) == {"client"}


def test_stalls_before_and_after_are_the_rows_around() -> None:
    segments = read(FOLDER / "outage.pcap")
    for _, row in stalls(segments).iterrows():
        before, after = segments.loc[row["before"]], segments.loc[row["after"]]
        assert (after["time_ns"] - before["time_ns"]) / 1e6 == pytest.approx(row["gap_ms"])
        assert before["time_ns"] == row["at_ns"]
        assert ("client", "server")[after["direction"]] == row["ended_by"]


def test_stalls_min_gap_ms() -> None:
    segments = read(FOLDER / "outage.pcap")
    assert (stalls(segments, min_gap_ms=100)["gap_ms"] > 100).all()
    assert len(stalls(segments, min_gap_ms=100)) < len(stalls(segments))
    assert stalls(segments[:0]).empty


# The reasons that are told without the handshake. lossy, reordered and nagle-delay have long RTTs.
LATE = (
    "lossy.pcap.gz",
    "reordered.pcap.gz",
    "nagle-on.pcap.gz",
    "nagle-delay.pcap.gz",
    "nagle-off.pcap.gz",
    "outage.pcap",
    "stopped-reader.pcap",
)


@pytest.mark.parametrize("name", LATE)
def test_find_stalls_without_the_handshake_invents_none(name: str, tmp_path: Path) -> None:
    """Each one is found with the handshake too, for the same reason or for one that is not told."""
    path = without_syns(FOLDER / name, tmp_path / "late.pcap")
    late, whole = find_stalls(explained_waits(read(path))), found(name)
    known = {(row["at_ns"], row["gap_ms"]): row["reason"] for _, row in whole.iterrows()}
    for _, row in late.table.iterrows():
        at = row["at_ns"], row["gap_ms"]
        assert row["reason"] == reasons.UNTOLD.name or row["reason"] == known[at], row
    if len(whole) > 100:
        assert (late.table["reason"] == reasons.NAGLE_AND_DELAYED_ACK.name).sum() == 180


def test_explained_has_words_and_source_for_every_reason() -> None:
    for name, reason in reasons.REASONS.items():
        assert reasons.explained(name) is reason
        assert reason.words.endswith(".") and reason.source
    nagle = reasons.NAGLE_AND_DELAYED_ACK
    for name in ("tcp_nagle_check", "__tcp_ack_snd_check", "tcp_send_delayed_ack", "HZ/25"):
        assert name in nagle.words + nagle.source


@pytest.mark.parametrize("seed", range(3))
def test_stalls_and_exchanges_of_random_flows(seed: int, tmp_path: Path) -> None:
    """Time that runs backwards, windows of unknown scale, connections without a beginning."""
    segments = read(random_capture(tmp_path / "made.pcap", seed))
    silent, rows, acks = stalls(segments), exchanges(segments), time_to_ack(segments)
    assert set(silent["reason"]) <= set(reasons.REASONS) and len(silent) > 100
    assert set(rows["reason"]) <= set(reasons.REASONS) and len(rows) > 50
    assert rows["segments"].sum() <= len(segments) and (rows["answer_bytes"] >= 0).all()
    carried = (segments["payload_bytes"] > 0).sum()
    assert 0 < len(acks) <= carried
    for number in segments["connection"].unique()[:5]:
        ladder(segments, int(number))
        time_sequence(segments, int(number))


def test_stalls_of_jumping_times_stay_fast() -> None:
    """Each second of these segments ends a silence, and nothing behind it has any payload."""
    count = 16_000
    real = read(FOLDER / "outage.pcap")
    segments = pandas.concat([real[:3], *[real[-1:]] * count], ignore_index=True)
    segments["time_ns"] = [0, 0, 0, *[0, 100_000_000] * (count // 2)]
    segments.loc[3:, "payload_bytes"], segments.loc[3:, "flags"] = 0, 16
    segments["ip_id"] = range(count + 3)  # no two are copies of one packet
    for name in ("payload_bytes", "flags", "time_ns"):
        segments[name] = segments[name].astype(real[name].dtype)
    begun = time.process_time()
    assert len(stalls(segments)) == count // 2
    assert time.process_time() - begun < 5
