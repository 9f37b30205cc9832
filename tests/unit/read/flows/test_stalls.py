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


@pytest.mark.parametrize(
    "name", ["nagle-on.pcap.gz", "nagle-no-k.pcapng.gz", "lossy.pcap.gz", "reordered.pcap.gz"]
)
def test_stalls_of_runs_without_one_are_empty(name: str) -> None:
    assert found(name).empty


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
