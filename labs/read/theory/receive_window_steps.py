"""The simulation: a receiver fed with the segments that arrived, and the window after each.

The inputs after the handshake are the arriving segments (their times, sizes and order) and the
reads of the program, but nothing that the receiver sent. A prediction therefore follows from these
inputs and the kernel's rules alone.

Not simulated: automatic sizing of the buffer by what the program reads (tcp_rcv_space_adjust());
the backlog of a socket that is in use while a segment arrives; a system short of memory; data that
the receiver sends itself; FIN; and tcp_shrink_window, which is off by default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from labs.read.theory.receive_window import Receiver, Setup, Skb, accepted, tcp_receive_window
from labs.read.theory.receive_window_acks import (
    Ack,
    tcp_ack_snd_check,
    tcp_cleanup_rbuf,
    tcp_delack_timer,
    tcp_enter_quickack_mode,
    tcp_event_data_recv,
    tcp_send_ack,
)
from labs.read.theory.receive_window_kernels import SHARED_INFO_BYTES, SK_BUFF_BYTES
from labs.read.theory.receive_window_memory import (
    Fate,
    sk_rmem_schedule,
    tcp_data_queue_ofo,
    tcp_fast_path_check,
    tcp_ofo_queue,
    tcp_queue_rcv,
    tcp_recvmsg,
    tcp_try_rmem_schedule,
)

PAGE_FRAGMENT_BYTES = 32768
"""SKB_FRAG_PAGE_ORDER: the pieces of memory that a sender's data is written to."""
SENT_HEADER_BYTES = 320
"""MAX_TCP_HEADER of a distribution's kernel: the linear part of a sent segment."""


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
class Step:
    """The receiver after a segment, and the ACKs that it sent before the next segment.

    `ack` and `right_edge` are those of its last ACK: what it acknowledged, and the first number
    that the sender may not yet send.
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


def arriving(r: Receiver, segment: Segment) -> Skb:
    """The skb of a segment: a head as the sender allocated it, and the payload in pages."""
    head = r.setup.head_bytes or r.rules.head_bytes(SENT_HEADER_BYTES)
    end = segment.seq + segment.payload_bytes
    return Skb(
        segment.seq,
        end,
        truesize=head + SK_BUFF_BYTES + segment.payload_bytes,
        end_offset=head - SHARED_INFO_BYTES,
        fragments=fragments(segment.seq, segment.payload_bytes),
        shared_until=end if segment.alone else 0,
    )


def tcp_sequence(r: Receiver, skb: Skb) -> bool:
    """Whether the segment is in the window: a part of it, or, since 6.17, all of it if the queue is
    not empty."""
    if not r.rules.drops_beyond_window:
        return skb.end_seq >= r.rcv_wup and skb.seq <= r.rcv_nxt + tcp_receive_window(r)
    limit = max(r.largest_edge, r.rcv_nxt)
    return skb.end_seq >= r.rcv_wup and (skb.end_seq <= limit or (skb.seq <= limit and not r.queue))


def tcp_rcv_established(r: Receiver, segment: Segment) -> tuple[Fate, Ack | None]:
    """A segment arrives. The fast path does not check the limit of the buffer: a segment in
    sequence is queued as long as memory is reserved for the socket."""
    skb, now = arriving(r, segment), segment.time_ns
    beyond = r.rules.drops_beyond_window and skb.end_seq > r.rcv_nxt + tcp_receive_window(r)
    fast = r.fast_path and skb.seq == r.rcv_nxt and skb.truesize <= r.forward_alloc
    if fast and not beyond:
        fate = tcp_queue_rcv(r, skb)
        tcp_event_data_recv(r, skb, now, push=segment.push)
        return fate, tcp_ack_snd_check(r, now, out_of_order_too=False)
    if not tcp_sequence(r, skb):
        if skb.seq < r.rcv_nxt:
            tcp_enter_quickack_mode(r)
        return Fate.OUT_OF_WINDOW, tcp_send_ack(r, now)
    fate = tcp_data_queue(r, skb, now, push=segment.push)
    return fate, tcp_ack_snd_check(r, now, out_of_order_too=True)


def tcp_data_queue(r: Receiver, skb: Skb, now_ns: int, *, push: bool) -> Fate:
    """The slow path: the checks of the window and of the buffer, then the queues."""
    if skb.seq != r.rcv_nxt:
        if skb.end_seq <= r.rcv_nxt:
            _refused(r)
            return Fate.OLD
        if skb.seq >= r.rcv_nxt + tcp_receive_window(r):
            return _refused(r)
        return tcp_data_queue_ofo(r, skb, push=push)
    if not tcp_receive_window(r):
        r.counters["TCPZeroWindowDrop"] += 1
        return _refused(r)
    if not r.queue:
        sk_rmem_schedule(r, skb.truesize)
    elif not tcp_try_rmem_schedule(r, skb):
        r.counters["TCPRcvQDrop"] += 1
        if r.rules.zero_window_at_once:
            r.no_memory = r.ack_now = r.ack_due = True
        return Fate.DROPPED
    fate = tcp_queue_rcv(r, skb)
    tcp_event_data_recv(r, skb, now_ns, push=push)
    if r.out_of_order:
        tcp_ofo_queue(r)
        r.ack_now = r.ack_now or not r.out_of_order
    tcp_fast_path_check(r)
    return fate


def _refused(r: Receiver) -> Fate:
    """Out of the window, or old: an immediate ACK tells the sender which number is expected."""
    tcp_enter_quickack_mode(r)
    r.ack_due = True
    return Fate.OUT_OF_WINDOW


@dataclass
class _Line:
    """The path back to the sender: ACKs that have not yet arrived there."""

    delay_ns: int
    acks: deque[Ack]

    def acknowledged(self, now_ns: int, before: int) -> int:
        """The highest number that the sender knows to be acknowledged."""
        while self.acks and self.acks[0].time_ns + self.delay_ns <= now_ns:
            before = max(before, self.acks.popleft().ack)
        return before


def steps(
    setup: Setup, segments: Sequence[Segment], reads: Iterable[Read] = (), *, until_ns: int
) -> Iterator[Step]:
    """One step per segment; `reads` are in order of time. The last step ends at `until_ns`."""
    r = accepted(setup)
    line, waiting = _Line(round(setup.rtt_ms / 2 * 1e6), deque()), deque(reads)
    ack, edge = r.rcv_wup, r.rcv_wup + r.rcv_wnd
    if segments:
        between(r, segments[0].time_ns, waiting)
    for segment, end_ns in zip(
        segments, (*(following.time_ns for following in segments[1:]), until_ns), strict=True
    ):
        r.sender_una = line.acknowledged(segment.time_ns, r.sender_una)
        before = r.counters.copy()
        fate, at_once = tcp_rcv_established(r, segment)
        step = partial(
            Step,
            segment,
            fate,
            rmem_bytes=r.rmem_alloc,
            recv_q_bytes=r.rcv_nxt - r.copied_seq,
            rcvbuf_bytes=r.rcvbuf,
            rcv_ssthresh_bytes=r.rcv_ssthresh,
            coalesced=r.counters["TCPRcvCoalesce"] - before["TCPRcvCoalesce"],
            collapsed=r.counters["TCPRcvCollapsed"] - before["TCPRcvCollapsed"],
            skbs=len(r.queue) + len(r.out_of_order),
            out_of_order_bytes=sum(skb.length for skb in r.out_of_order),
        )
        sent = [] if at_once is None else [at_once]
        sent += between(r, end_ns, waiting)
        line.acks.extend(sent)
        if sent:
            ack, edge = sent[-1].ack, sent[-1].right_edge
        yield step(acks=tuple(sent), ack=ack, right_edge=edge)


def between(r: Receiver, until_ns: int, reads: deque[Read]) -> list[Ack]:
    """The ACKs between two segments, caused by timers and by reads."""
    sent: list[Ack | None] = []
    while True:
        compressed_ns = until_ns if r.compressed_ns is None else r.compressed_ns
        timer_ns = until_ns if r.timer_at is None else r.timer_ns
        read_ns = reads[0].time_ns if reads else until_ns
        first_ns = min(compressed_ns, timer_ns, read_ns)
        if first_ns >= until_ns:
            return [ack for ack in sent if ack is not None]
        if first_ns == compressed_ns:
            sent.append(tcp_send_ack(r, compressed_ns))
        elif first_ns == timer_ns:
            sent.append(tcp_delack_timer(r, timer_ns))
        else:
            copied = tcp_recvmsg(r, reads.popleft().most_bytes)
            sent.append(tcp_cleanup_rbuf(r, copied, read_ns))
