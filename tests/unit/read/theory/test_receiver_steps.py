"""The simulated receiver, fed with segments: what it keeps, drops and offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from labs.read.theory.receiver import LISTENS, Setup
from labs.read.theory.receiver_memory import Fate
from labs.read.theory.receiver_steps import Read, Segment, Step, fragments, steps
from labs.read.theory.windows import receive_window_bytes

MSS = 1024
MS = 1_000_000
SPACING_NS = 32_000


def burst(count: int, *, length: int = MSS, seq: int = 1, at_ns: int = 0) -> list[Segment]:
    """Segments in sequence, 32 microseconds apart."""
    return [
        Segment(at_ns + place * SPACING_NS, seq + place * length, length) for place in range(count)
    ]


def listening(kernel: str, rcvbuf_bytes: int = 131072, **changed: Any) -> Setup:
    """A server that receives."""
    given: dict[str, Any] = {"rmem_max_bytes": 6291456, "core_max_bytes": 212992, "mss_bytes": MSS}
    return Setup(kernel=kernel, role=LISTENS, rcvbuf_bytes=rcvbuf_bytes, **given | changed)


def article(kernel: str, scale: int) -> Setup:
    """The article's rig: SO_RCVBUF 32 KiB on the listening socket."""
    return listening(kernel, 65536, locked=True, adv_win_scale=scale, rtt_ms=200)


def fed(setup: Setup, segments: list[Segment], reads: Iterator[Read] | None = None) -> list[Step]:
    return list(steps(setup, segments, reads or (), until_ns=segments[-1].time_ns + 300 * MS))


@pytest.mark.parametrize("kernel", ["5.10", "6.1"])
def test_steps_overcommitted_buffer(kernel: str) -> None:
    """A4.2 to A4.4 and A4.8: 62,464 bytes (61 segments) in 73,984 bytes of memory, and segments
    dropped inside the window; the kernel's check holds the same figures
    (labs/drive/kernel/check.py)."""
    found = fed(article(kernel, 0), burst(63))
    assert (found[-1].recv_q_bytes, found[-1].rmem_bytes) == (62464, 73984)
    assert [one.fate for one in found[60:]] == [Fate.COALESCED, Fate.DROPPED, Fate.DROPPED]
    # Collapsing four skbs into 17 of a page each is what raises the memory above the limit.
    assert (found[60].rmem_bytes, found[60].skbs, found[61].skbs) == (67584, 4, 17)
    assert found[61].collapsed == 4
    left = found[61].right_edge - (1 + 62 * MSS)
    assert left == 2048
    assert found[61].rcv_ssthresh_bytes == 2 * MSS


def test_steps_window_that_memory_covers() -> None:
    """With SO_RCVBUF after accept: the figures of 6.12 in labs/drive/kernel/check.py."""
    setup = listening("6.12", accept_rcvbuf_bytes=65536, adv_win_scale=0, rtt_ms=200)
    found = fed(setup, burst(57))
    assert (found[-1].recv_q_bytes, found[-1].rmem_bytes) == (58368, 62208)
    assert all(one.fate in (Fate.QUEUED, Fate.COALESCED) for one in found)


@pytest.mark.parametrize("kernel", ["5.10", "6.1"])
def test_steps_half_of_the_buffer(kernel: str) -> None:
    """A4.5: at adv_win_scale 1 no ACK offers more than half of 64 KiB."""
    found = fed(article(kernel, 1), burst(32))
    assert max(ack.right_edge - ack.ack for one in found for ack in one.acks) <= 32768


def test_steps_opens_by_two_segments_per_segment() -> None:
    """A4.10: the window grows linearly from 64 KiB."""
    setup = listening("6.1", 2 << 20, locked=True)
    grown = [one.rcv_ssthresh_bytes for one in fed(setup, burst(100))]
    assert grown == [65535 + 2 * MSS * place for place in range(1, 101)]


@pytest.mark.parametrize(("kernel", "ssthresh"), [("6.1", 64088), ("6.12", 76896)])
def test_steps_reader_that_keeps_up(kernel: str, ssthresh: int) -> None:
    """The other theory of the same quantity, receive_window_bytes(), has 64,088 from a real socket
    of 6.1, and the formula from 6.12 on."""
    assert receive_window_bytes(131072, kernel, offloads=False) == ssthresh
    segments = [Segment(place * 5 * MS, 1 + place * 1448, 1448) for place in range(100)]
    reads = (Read(one.time_ns + MS, 1448) for one in segments)
    setup = listening(kernel, mss_bytes=1448, rmem_max_bytes=131072)
    assert fed(setup, segments, reads)[-1].rcv_ssthresh_bytes == ssthresh


def test_steps_sixteen_quick_acks_then_delayed() -> None:
    """Measured on five kernels: 16 segments are acknowledged at once, then one waits for 40 to
    44 ms (one tick more at HZ 250)."""
    small = [Segment(place * 100 * MS, 1 + 100 * place, 100) for place in range(20)]
    setup = listening("6.1", mss_bytes=1460, rtt_ms=1.2)
    waited = [one.acks[0].time_ns - one.segment.time_ns for one in fed(setup, small)]
    assert waited[:15] == [0] * 15
    assert all(40 * MS <= wait <= 44 * MS for wait in waited[17:])


def test_steps_quickack_route_acknowledges_each() -> None:
    setup = listening("6.1", quickack=True)
    assert all(one.ack == one.segment.seq + MSS - 1 + 1 for one in fed(setup, burst(40)))


def test_steps_coalesces_until_17_fragments() -> None:
    found = fed(article("6.1", 0), burst(36))
    starts = [place for place, one in enumerate(found) if one.fate is Fate.QUEUED]
    assert starts == [0, 17, 34]
    assert found[16].rmem_bytes == 1280 + 17 * MSS


def test_steps_segments_of_their_own_share_memory_and_stay_apart() -> None:
    """Over loopback each end has the same data of a segment that was not split: nothing is joined
    until the sender has the ACK."""
    alone = [Segment(place * SPACING_NS, 1 + 256 * place, 256, alone=True) for place in range(8)]
    found = fed(article("6.1", 1), alone)
    assert found[-1].rmem_bytes == 8 * (1280 + 256)
    assert sum(one.coalesced for one in found) == 0


def test_steps_out_of_order_segment() -> None:
    segments = [
        *burst(3),
        *burst(2, seq=1 + 4 * MSS, at_ns=MS),
        *burst(1, seq=1 + 3 * MSS, at_ns=2 * MS),
    ]
    found = fed(article("6.1", 0), segments)
    assert [one.fate for one in found[3:]] == [Fate.OUT_OF_ORDER, Fate.OUT_OF_ORDER, Fate.COALESCED]
    assert found[4].out_of_order_bytes == 2 * MSS
    assert (found[5].out_of_order_bytes, found[5].recv_q_bytes) == (0, 6 * MSS)
    assert found[5].ack == 1 + 6 * MSS


def test_steps_old_segment_is_acknowledged_again() -> None:
    found = fed(article("6.1", 0), [*burst(3), *burst(1, at_ns=MS)])
    assert found[3].fate is Fate.OUT_OF_WINDOW
    assert found[3].acks[0].ack == 1 + 3 * MSS


def test_steps_beyond_the_window_is_refused_since_6_17() -> None:
    """`BeyondWindow`: until then a segment may end beyond the window if it begins inside."""
    setups = {kernel: listening(kernel, 32768, locked=True) for kernel in ("6.12", "7.2")}
    queued = {kernel: fed(setup, burst(60))[-1].recv_q_bytes for kernel, setup in setups.items()}
    # The window ends after 20 segments: the fast path of 6.12, which has no check, queues another.
    assert queued == {"6.12": 21 * MSS, "7.2": 20 * MSS}


def test_steps_closed_window_refuses() -> None:
    found = fed(article("6.12", 0), burst(60))
    assert {one.fate for one in found[58:]} <= {Fate.DROPPED, Fate.OUT_OF_WINDOW}


def test_fragments() -> None:
    """A segment that crosses a boundary of 32 KiB in the sender's memory is in two pieces."""
    assert [fragments(seq, MSS) for seq in (1, 31745, 32769)] == [1, 1, 1]
    assert [fragments(seq, 1448) for seq in (1, 1 + 22 * 1448, 1 + 23 * 1448)] == [1, 2, 1]


def test_compressed_ack_after_three() -> None:
    """While a segment is missing, three ACKs at once, then one per millisecond, with the next
    arrival."""
    setup = listening("6.12", 2 << 20, locked=True, core_max_bytes=1 << 20, rtt_ms=200)
    missing, begin_ns = 1 + 1200 * MSS, 1200 * MS
    segments = [Segment(place * MS, 1 + place * MSS, MSS) for place in range(1200)]
    later = burst(40, seq=missing + MSS, at_ns=begin_ns)
    found = list(steps(setup, [*segments, *later], until_ns=begin_ns + 2 * MS))[1200:]
    assert all(one.fate is Fate.OUT_OF_ORDER for one in found)
    acks = [ack for one in found for ack in one.acks]
    sent = [ack.time_ns - begin_ns for ack in acks]
    assert sent[:3] == [0, SPACING_NS, 2 * SPACING_NS]
    assert 0 <= sent[3] - (3 * SPACING_NS + MS) < SPACING_NS
    assert len(sent) == 4
    assert {ack.ack for ack in acks} == {missing}
