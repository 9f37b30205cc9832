"""A receiver fed with the segments that arrived, and the window after each.

The inputs after the handshake are the arriving segments (their times, sizes and order) and the
reads of the program, but nothing that the receiver sent. A prediction therefore follows from these
inputs and the kernel's rules alone.

Not simulated: the RTT by timestamps, for the automatic sizing of the buffer; the backlog of a
socket that is in use while a segment arrives; a system short of memory; data that the receiver
sends itself; FIN; and tcp_shrink_window, which is off by default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from labs.read.theory.receiver import Setup
from labs.read.theory.receiver_memory import Fate, PacketReceiver, Skb
from labs.read.theory.windows import SENT_HEADER_BYTES, SHARED_INFO_BYTES, SK_BUFF_BYTES, head_bytes

PAGE_FRAGMENT_BYTES = 32768
"""SKB_FRAG_PAGE_ORDER: the pieces of memory that a sender's data is written to."""


@dataclass(frozen=True)
class Segment:
    """A data segment that arrived: `seq` of its first byte (1 is the first of all).

    `alone`: the sender sent it as a packet of its own, and not as a part of a large one that was
    split (GSO). Over a virtual device both ends then share its memory until the sender has
    received its ACK.
    """

    time_ns: int
    seq: int
    payload_bytes: int
    push: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Read:
    """The program reads up to `most_bytes`."""

    time_ns: int
    most_bytes: int


@dataclass(frozen=True)
class Ack:
    """An ACK that the receiver sent: when, what it acknowledges, and the first number that the
    sender may not yet send."""

    time_ns: int
    ack: int
    right_edge: int


@dataclass(frozen=True)
class Step:
    """The receiver after a segment, and the ACKs that it sent before the next segment.

    `ack` and `right_edge` are those of its last ACK.
    """

    segment: Segment
    fate: Fate
    rmem_bytes: int
    recv_q_bytes: int
    rcvbuf_bytes: int
    rcv_ssthresh_bytes: int
    coalesced: int
    collapsed: int
    skbs: int
    out_of_order_bytes: int
    acks: tuple[Ack, ...]
    ack: int
    right_edge: int


def fragments(seq: int, length: int) -> int:
    """The number of pieces of memory that hold the payload of a segment."""
    first, last = (seq - 1) // PAGE_FRAGMENT_BYTES, (seq - 2 + length) // PAGE_FRAGMENT_BYTES
    return last - first + 1


def steps(
    setup: Setup,
    segments: Sequence[Segment],
    reads: Iterable[Read] = (),
    *,
    head: int | None = None,
    until_ns: int,
) -> Iterator[Step]:
    """One step per segment; `reads` are in order of time. The last step ends at `until_ns`. `head`
    is the size of the head of each segment if the kernel does not determine it."""
    if segments:
        yield from _Arrivals(setup, segments, reads, head).steps(until_ns)


class _Arrivals:
    """The receiver, what has not arrived yet, and the ACKs on their way back."""

    def __init__(
        self, setup: Setup, segments: Sequence[Segment], reads: Iterable[Read], head: int | None
    ) -> None:
        self.receiver = PacketReceiver(setup, now_ns=segments[0].time_ns)
        self.segments, self.reads = segments, deque(reads)
        self.head = head or head_bytes(setup.kernel, SENT_HEADER_BYTES)
        self.way_back_ns = round(setup.rtt_ms / 2 * 1e6)
        self.returning: deque[Ack] = deque()

    def steps(self, until_ns: int) -> Iterator[Step]:
        r = self.receiver
        last = Ack(0, r.wup, r.wup + r.wnd)
        self._until(self.segments[0].time_ns)
        ends_ns = (*(segment.time_ns for segment in self.segments[1:]), until_ns)
        for segment, end_ns in zip(self.segments, ends_ns, strict=True):
            now_ns = segment.time_ns
            while self.returning and self.returning[0].time_ns + self.way_back_ns <= now_ns:
                r.sender_una = max(r.sender_una, self.returning.popleft().ack)
            coalesced, collapsed = r.coalesced, r.collapsed
            fate, acknowledges = self._arrive(segment)
            state = {
                "rmem_bytes": r.rmem,
                "recv_q_bytes": r.nxt - r.copied,
                "rcvbuf_bytes": r.rcvbuf,
                "rcv_ssthresh_bytes": r.ssthresh,
                "coalesced": r.coalesced - coalesced,
                "collapsed": r.collapsed - collapsed,
                "skbs": len(r.queue) + len(r.out_of_order),
                "out_of_order_bytes": sum(skb.length for skb in r.out_of_order),
            }
            sent = self._sent(now_ns, acknowledges or r.compressed_is_due(now_ns))
            sent += self._until(end_ns)
            self.returning.extend(sent)
            last = sent[-1] if sent else last
            yield Step(
                segment, fate, **state, acks=tuple(sent), ack=last.ack, right_edge=last.right_edge
            )

    def _until(self, until_ns: int) -> list[Ack]:
        """The ACKs between two segments, caused by timers and by reads."""
        r = self.receiver
        sent: list[Ack] = []
        while True:
            timer_ns = r.delayed_until_ns or until_ns
            read_ns = self.reads[0].time_ns if self.reads else until_ns
            if min(timer_ns, read_ns) >= until_ns:
                return sent
            if timer_ns <= read_ns:
                r.timer()
                sent += self._sent(timer_ns, True)
            else:
                sent += self._sent(read_ns, r.reads(read_ns, self.reads.popleft().most_bytes))

    def _sent(self, now_ns: int, acknowledges: bool) -> list[Ack]:
        return [Ack(now_ns, *self.receiver.acknowledge())] if acknowledges else []

    def _skb(self, segment: Segment) -> Skb:
        """A head as the sender allocated it, and the payload in pages."""
        end = segment.seq + segment.payload_bytes
        return Skb(
            segment.seq,
            end,
            truesize=self.head + SK_BUFF_BYTES + segment.payload_bytes,
            end_offset=self.head - SHARED_INFO_BYTES,
            fragments=fragments(segment.seq, segment.payload_bytes),
            shared_until=end if segment.alone else 0,
        )

    def _arrive(self, segment: Segment) -> tuple[Fate, bool]:
        """tcp_rcv_established(): what becomes of a segment, and whether it is acknowledged at once.
        The fast path does not check the limit of the buffer: a segment in sequence is queued as
        long as memory is reserved for the socket."""
        r, skb, now_ns = self.receiver, self._skb(segment), segment.time_ns
        beyond = r.nothing_beyond and skb.end_seq > r.nxt + r.left()
        if r.fast_path and skb.seq == r.nxt and skb.truesize <= r.reserved and not beyond:
            fate = r.data(skb, now_ns, push=segment.push)
            return fate, r.acknowledges(now_ns, missing=False)
        if not self._in_window(skb):
            if skb.seq < r.nxt:
                r.quick_mode()
            return Fate.OUT_OF_WINDOW, True
        fate = self._take(skb, now_ns, push=segment.push)
        return fate, r.ack_due and r.acknowledges(now_ns, missing=bool(r.out_of_order))

    def _in_window(self, skb: Skb) -> bool:
        """tcp_sequence(): whether a part of the segment is in the window, or, since
        `NOTHING_BEYOND`, all of it if the queue is not empty."""
        r = self.receiver
        if skb.end_seq < r.wup:
            return False
        if not r.nothing_beyond:
            return skb.seq <= r.nxt + r.left()
        limit = max(r.largest_edge, r.nxt)
        return skb.end_seq <= limit or (skb.seq <= limit and not r.queue)

    def _take(self, skb: Skb, now_ns: int, *, push: bool) -> Fate:
        """tcp_data_queue(), the slow path: the checks of the window and of the buffer, then the
        queues. An old segment, or one out of the window, is acknowledged at once."""
        r = self.receiver
        beyond = skb.seq > r.nxt and skb.seq < r.nxt + r.left()
        if beyond or (skb.seq < r.nxt < skb.end_seq):
            return r.beyond(skb, push=push)
        if skb.seq != r.nxt or not r.left():
            r.quick_mode()
            r.ack_due = True
            return Fate.OLD if skb.end_seq <= r.nxt else Fate.OUT_OF_WINDOW
        if not r.queue:
            r.reserve(skb.truesize)
        elif not r.has_room(skb):
            if r.zero_at_once:
                r.no_memory = r.ack_now = r.ack_due = True
            return Fate.DROPPED
        fate = r.data(skb, now_ns, push=push)
        if r.out_of_order:
            r.fill()
            r.ack_now |= not r.out_of_order
        r.check_fast_path()
        return fate
