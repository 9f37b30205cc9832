"""Marks on segments: equal to tshark's, but where the docstring says otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest

from labs.read.capture import batches, read
from labs.read.capture.tcp_marks import MARKS, Marker, marks
from tests import captures
from tests.made_flows import ACK, BEGIN_US, FIN, PSH, SYN, Segment, capture, random_capture, segment
from tests.tshark import marked_by_tshark, version

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "tests" / "fixtures" / "exchanges"
RECORDED = json.loads((FOLDER / "marks.json").read_text())
# The marks here are those of Wireshark 4.0. 4.4 calls many a retransmission of lossy.pcap.gz out of
# order and takes an ACK with another MPTCP option for no duplicate, so it cannot be the reference.
OWN = "4.0"
wireshark = pytest.mark.skipif(
    version() != OWN,
    reason=f"marks are defined as by tshark {OWN}; here is {version() or 'none'}, which differs",
)
PORT = 20_000
FRAGMENTS = ("fragments", "ipv6-fragments")
OPTIONS_CUT = ("first-54-bytes", "first-60-bytes", "first-66-bytes", "first-80-bytes")
MPTCP = b"\x1e"


def found(path: Path) -> dict[str, list[int]]:
    table = marks(read(path))
    return {name: table.index[table[name]].tolist() for name in MARKS if table[name].any()}


def test_marks_recording_covers_every_capture_and_mark() -> None:
    assert set(RECORDED) == {path.name for path in FOLDER.glob("*.pcap*")}
    seen = {name for marked in RECORDED.values() for name in marked}
    # The rest needs hosts that break rules; random flows have them.
    assert set(MARKS) - seen == {"ack_lost_segment", "zero_window_probe", "zero_window_probe_ack"}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_marks_equal_the_recording_of_tshark(name: str) -> None:
    assert found(FOLDER / name) == RECORDED[name]


@wireshark
@pytest.mark.parametrize("seed", [0, 1, 2, 103])
def test_marks_equal_tshark_on_random_flows(seed: int, tmp_path: Path) -> None:
    """Sequence numbers that wrap, time that runs backwards, windows that shut, segments without
    an ACK, connections without a beginning."""
    path = random_capture(tmp_path / "made.pcap", seed)
    told = marked_by_tshark(path)
    assert len(told) >= 13
    assert found(path) == told


@wireshark
def test_marks_equal_tshark_on_every_other_capture(tmp_path: Path) -> None:
    """Real runs and every form of file; some differ as the docstring says."""
    made = captures.made(tmp_path)
    real = [path for path in FOLDER.parent.glob("*/*.pcap*") if path.parent != FOLDER]
    differ = {*FRAGMENTS, *OPTIONS_CUT}
    for path in (*real, *(path for name, path in made.items() if name not in differ)):
        assert found(path) == marked_by_tshark(path), path.name
    whole = found(made["ethernet"])
    for name in OPTIONS_CUT:
        told = marked_by_tshark(made[name])
        assert found(made[name]) == whole != told
        assert all(set(rows) <= set(whole[mark]) for mark, rows in told.items()), name
    for name in FRAGMENTS:
        assert found(made[name]) and not marked_by_tshark(made[name])


@wireshark
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_marks_recording_equals_tshark(name: str) -> None:
    assert marked_by_tshark(FOLDER / name) == RECORDED[name]


@pytest.mark.parametrize("rows", [1, 7, 500])
def test_marker_in_pieces_equals_the_whole(rows: int) -> None:
    path = FOLDER / "outage.pcap"
    marker = Marker()
    joined = pandas.concat(
        [marker.marks(batch) for batch in batches(path, rows=rows)], ignore_index=True
    )
    pandas.testing.assert_frame_equal(joined, marks(read(path)))


def test_marks_of_an_empty_table_and_of_another_index() -> None:
    table = read(FOLDER / "outage.pcap")
    assert marks(table[:0]).empty and list(marks(table[:0])) == list(MARKS)
    moved = table.set_index(table.index + 1000)
    assert marks(moved).index.equals(moved.index)


def opened(scale: bytes = b"\3\3\0", more: bytes = b"") -> list[Segment]:
    return [
        (BEGIN_US, segment(PORT, 0, 999, 0, SYN, options=scale + more)),
        (BEGIN_US + 10, segment(PORT, 1, 4999, 1000, SYN | ACK, options=scale + more)),
        (BEGIN_US + 20, segment(PORT, 0, 1000, 5000, ACK, options=more)),
    ]


def differing(path: Path) -> dict[str, set[int]]:
    ours, theirs = found(path), marked_by_tshark(path)
    return {
        name: set(ours.get(name, [])) ^ set(theirs.get(name, []))
        for name in MARKS
        if ours.get(name) != theirs.get(name)
    }


@wireshark
def test_marks_count_repeated_acks_anew_after_an_ack_of_uncaptured_data(tmp_path: Path) -> None:
    """One ACK that repeats makes no fast retransmission, for which there would have to be two."""
    at = BEGIN_US + 100
    path = capture(
        tmp_path / "unseen.pcap",
        [
            *opened(),
            (at, segment(PORT, 1, 5000, 1010, ACK, length=10)),
            (at + 10, segment(PORT, 1, 5010, 1010, ACK, length=10)),
            (at + 20, segment(PORT, 0, 1000, 5000, ACK)),
            (at + 5000, segment(PORT, 1, 5000, 1000, ACK, length=10)),
        ],
    )
    assert found(path) == {"ack_lost_segment": [3], "duplicate_ack": [5], "retransmission": [6]}
    assert differing(path) == {}


@wireshark
def test_marks_begin_anew_at_a_repeated_syn(tmp_path: Path) -> None:
    again = [
        (BEGIN_US + 100, segment(PORT, 0, 1100, 5000, ACK, length=10)),
        (BEGIN_US + 110, segment(PORT, 0, 999, 0, SYN, options=b"\3\3\0")),
    ]
    path = capture(tmp_path / "again.pcap", opened() + again)
    assert found(path)["retransmission"] == [4] and "out_of_order" not in found(path)
    assert differing(path) == {}


@wireshark
def test_marks_count_a_fin_after_ten_thousand_segments(tmp_path: Path) -> None:
    """Wireshark's list of unacknowledged segments is full, and so it forgets the FIN's number."""
    data = [
        (BEGIN_US + 100 + at, segment(PORT, 0, 1000 + at, 5000, ACK, length=1))
        for at in range(10_000)
    ]
    end = segment(PORT, 0, 11_000, 5000, FIN | ACK)
    ends = [(BEGIN_US + 1_000_000, end), (BEGIN_US + 2_000_000, end)]
    assert differing(capture(tmp_path / "most.pcap", opened() + data[:-1] + ends)) == {}
    path = capture(tmp_path / "more.pcap", opened() + data + ends)
    assert differing(path) == {"retransmission": {10_004}}
    assert found(path)["retransmission"] == [10_004]


@wireshark
def test_marks_ignore_mptcp_options_in_repeated_acks(tmp_path: Path) -> None:
    capable = MPTCP + b"\x0c\x00\x01" + bytes(8)
    priority, fail = MPTCP + b"\x03\x50", MPTCP + b"\x0c\x60\x00" + bytes(8)
    repeated = [
        (BEGIN_US + 100 * (at + 1), segment(PORT, 0, 1000, 5000, ACK, options=option))
        for at, option in enumerate((priority, priority, fail))
    ]
    path = capture(tmp_path / "mptcp.pcap", opened(more=capable) + repeated)
    assert found(path)["duplicate_ack"] == [3, 4, 5]
    assert differing(path)["duplicate_ack"]


@wireshark
def test_marks_window_full_needs_a_known_scale(tmp_path: Path) -> None:
    """The SYN-ACK that says that nothing is scaled comes after the window."""
    path = capture(
        tmp_path / "late.pcap",
        [
            (BEGIN_US, segment(PORT, 0, 1000, 5001, ACK, window=20)),
            (BEGIN_US + 10, segment(PORT, 1, 5000, 1000, SYN | ACK)),
            (BEGIN_US + 20, segment(PORT, 1, 5001, 1000, PSH | ACK, length=20)),
        ],
    )
    assert differing(path) == {"window_full": {2}}
    assert "window_full" not in found(path)
