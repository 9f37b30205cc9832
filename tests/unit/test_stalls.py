"""Silences of real connections: how long, why, and who waited for whom."""

from __future__ import annotations

import time
from pathlib import Path

import pandas
import pytest

from labs.analysis import explained
from labs.analysis.acks import time_to_ack
from labs.analysis.exchanges import exchanges
from labs.analysis.sides import sides
from labs.analysis.stalls import stalls
from labs.capture import connections, read
from labs.charts.ladder import ladder
from labs.charts.time_sequence import time_sequence
from tests.made_flows import random_capture

REASONS = {value for name, value in vars(explained).items() if name.isupper() and name[0] != "_"}
FOLDER = Path(__file__).parents[1] / "fixtures" / "exchanges"


def found(name: str) -> pandas.DataFrame:
    return stalls(read(FOLDER / name))


def told(rows: pandas.DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(rows["reason"], rows["waiting"], rows["ended_by"], strict=True))


def test_nagle_and_the_delayed_ack() -> None:
    """180 of 200 requests (see test_exchanges), and nothing else is silent."""
    rows = found("nagle-off.pcap.gz")
    assert told(rows) == [(explained.NAGLE_AND_DELAYED_ACK, "server", "client")] * 180
    assert rows["silence_ms"].between(40, 48).all()
    assert rows["at_ns"].is_monotonic_increasing


@pytest.mark.parametrize("name", ["nagle-on.pcap.gz", "nagle-no-k.pcapng.gz", "lossy.pcap.gz",
                                  "reordered.pcap.gz"])
def test_nothing_is_silent_for_longer_than_a_round_trip(name: str) -> None:
    assert found(name).empty


def test_a_reader_that_stops_closes_its_window() -> None:
    """The receiver's answer to what filled its window, three probes, and its reading on; then an
    idle connection with keep-alives, and one that is reset."""
    rows = found("stopped-reader.pcap")
    closed, idle = explained.CLOSED_WINDOW, explained.IDLE
    assert told(rows) == [
        (explained.DELAYED_ACK, "nobody", "server"),
        *[(closed, "client", "client")] * 3, (closed, "client", "server"),
        *[(idle, "nobody", "client")] * 4, (idle, "nobody", "server")]
    # The probe timer doubles (tcp_probe_timer, icsk_probes_out).
    probes = rows["silence_ms"].iloc[1:4].tolist()
    assert probes[1] / probes[0] == pytest.approx(2, rel=0.1)
    assert probes[2] / probes[1] == pytest.approx(2, rel=0.1)


def test_an_outage_is_waited_out_by_timers_of_both_sides() -> None:
    rows = found("outage.pcap")
    timed = rows[rows["reason"] == explained.RETRANSMISSION_TIMER]
    assert [(row["waiting"], row["waited_for"]) for _, row in timed.iterrows()] == [
        ("server", "client"), ("server", "client"), ("client", "server"), ("server", "client"),
        ("client", "server")]
    # RTO_MIN of Linux is 200 ms (TCP_RTO_MIN, HZ/5), within two ticks.
    assert timed["silence_ms"].iloc[0] == pytest.approx(200, abs=8)
    pauses = rows[rows["reason"] == explained.APPLICATION]
    assert len(pauses) == 11 and pauses["silence_ms"].between(50, 51).all()
    assert set(pauses["waited_for"]) == {"client"}


def test_before_and_after_are_the_rows_around_it() -> None:
    segments = read(FOLDER / "outage.pcap")
    for _, row in stalls(segments).iterrows():
        before, after = segments.loc[row["before"]], segments.loc[row["after"]]
        assert (after["time_ns"] - before["time_ns"]) / 1e6 == pytest.approx(row["silence_ms"])
        assert before["time_ns"] == row["at_ns"]
        assert ("client", "server")[after["direction"]] == row["ended_by"]


def test_how_long_a_silence_is_can_be_chosen() -> None:
    segments = read(FOLDER / "outage.pcap")
    assert (stalls(segments, quiet_ms=100)["silence_ms"] > 100).all()
    assert len(stalls(segments, quiet_ms=100)) < len(stalls(segments))
    assert stalls(segments[:0]).empty


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.pcap*")))
def test_the_handshake_is_that_of_the_table_of_connections(name: str) -> None:
    known = sides(read(FOLDER / name))
    expected = connections(FOLDER / name).set_index("connection")["handshake_rtt_ns"].clip(0)
    measured = pandas.Series(known.rtt_ns).groupby(known.connection).first()
    assert measured.to_dict() == expected.to_dict()


def test_every_reason_is_explained_with_its_source() -> None:
    for reason in REASONS:
        said = explained.explained(reason)
        assert said.words.endswith(".") and said.source
    nagle = explained.explained(explained.NAGLE_AND_DELAYED_ACK)
    for name in ("tcp_nagle_check", "__tcp_ack_snd_check", "tcp_send_delayed_ack", "HZ/25"):
        assert name in nagle.words + nagle.source


@pytest.mark.parametrize("seed", range(3))
def test_flows_that_no_program_makes_are_read_all_the_same(seed: int, tmp_path: Path) -> None:
    """Time that runs backwards, windows of unknown scale, connections without a beginning."""
    segments = read(random_capture(tmp_path / "made.pcap", seed))
    silent, rows, acks = stalls(segments), exchanges(segments), time_to_ack(segments)
    assert set(silent["reason"]) <= REASONS and len(silent) > 100
    assert set(rows["reason"]) <= REASONS and len(rows) > 50
    assert rows["segments"].sum() <= len(segments) and (rows["answer_bytes"] >= 0).all()
    carried = (segments["payload_bytes"] > 0).sum()
    assert 0 < len(acks) <= carried
    for number in segments["connection"].unique()[:5]:
        ladder(segments, int(number))
        time_sequence(segments, int(number))


def test_times_that_jump_to_and_fro_take_no_longer() -> None:
    """Each second of these segments ends a silence, and nothing behind it has any payload."""
    count = 16_000
    segments = pandas.concat([read(FOLDER / "outage.pcap").iloc[-1:]] * count, ignore_index=True)
    segments["time_ns"] = [0, 100_000_000] * (count // 2)
    segments["payload_bytes"], segments["flags"] = 0, 16
    for name in ("payload_bytes", "flags", "time_ns"):
        segments[name] = segments[name].astype(read(FOLDER / "outage.pcap")[name].dtype)
    begun = time.process_time()
    assert len(stalls(segments)) == count // 2
    assert time.process_time() - begun < 5
