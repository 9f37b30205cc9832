"""A receiver that keeps each packet: the true size of packets, coalescing, collapsing and drops.

Memory is counted in true size: the payload, its struct sk_buff, and the rest of its buffer, which
nothing else can use. Sequence numbers are relative: the first byte of data has number 1.
Source: net/ipv4/tcp_input.c, net/core/skbuff.c, net/core/sock.c, include/net/sock.h.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from labs.read.theory.kernels import MEASURES_OUT_OF_ORDER, NO_RESERVE, NOTHING_BEYOND, ZERO_AT_ONCE
from labs.read.theory.receiver import Receiver, Setup
from labs.read.theory.windows import OVERHEAD_BYTES, SHARED_INFO_BYTES, SK_BUFF_BYTES, head_bytes

PAGE_BYTES = 4096
LARGEST_LINEAR_BYTES = PAGE_BYTES - SHARED_INFO_BYTES
"""SKB_MAX_ORDER(0, 0): the payload of an skb of one page, which collapsing fills."""
MAX_FRAGMENTS = 17
"""MAX_SKB_FRAGS with pages of 4 KiB."""
KEPT_BYTES = 1 << 21
"""SK_RECLAIM_THRESHOLD: memory that a socket keeps reserved, until `NO_RESERVE`."""


class Fate(Enum):
    """What became of a segment."""

    QUEUED = auto()
    COALESCED = auto()
    OUT_OF_ORDER = auto()
    DROPPED = auto()
    OLD = auto()
    OUT_OF_WINDOW = auto()


@dataclass
class Skb:
    """A segment, or several, in the receive queue.

    `end_offset` is the size of its linear part (skb_end_offset), `head_bytes` the payload in it,
    and `tail_bytes` the free space in it; `fragments` is the number of pages that hold the rest of
    the payload. Both ends may share the memory of a segment (skb_cloned): `shared_until` is the
    number that the sender must see acknowledged before it frees its copy; 0 if nothing is shared.
    """

    seq: int
    end_seq: int
    truesize: int
    end_offset: int
    fragments: int = 1
    head_bytes: int = 0
    tail_bytes: int = 0
    shared_until: int = 0

    @property
    def length(self) -> int:
        return self.end_seq - self.seq


class PacketReceiver(Receiver):
    """A receiver with its queues. `reserved` is the memory that is reserved for the socket but not
    in use (sk_forward_alloc), `largest_edge` the largest edge that it ever offered, `sender_una`
    what the sender knows to be acknowledged; `coalesced` and `collapsed` count as TCPRcvCoalesce
    and TCPRcvCollapsed do. The system is never short of memory: such a run fails its own checks."""

    def __init__(self, setup: Setup, *, now_ns: int) -> None:
        super().__init__(setup, now_ns=now_ns)
        self.kernel = setup.kernel
        self.keeps_reserve = not NO_RESERVE.holds(setup.kernel)
        self.zero_at_once = ZERO_AT_ONCE.holds(setup.kernel)
        self.measures_out_of_order = MEASURES_OUT_OF_ORDER.holds(setup.kernel)
        self.nothing_beyond = NOTHING_BEYOND.holds(setup.kernel)
        self.nxt = self.wup = self.copied = self.space_seq = 1
        self.queue: deque[Skb] = deque()
        self.out_of_order: list[Skb] = []
        self.reserved = self.sender_una = self.coalesced = self.collapsed = 0
        self.largest_edge = self.wup + self.wnd
        self.fast_path, self.no_memory = True, False

    # Memory.

    def charge(self, size: int) -> None:
        """sk_mem_charge()."""
        self.rmem += size
        self.reserved -= size

    def uncharge(self, size: int) -> None:
        """sk_mem_uncharge(): memory returns to the reserve, and above a limit to the system."""
        self.rmem -= size
        self.reserved += size
        if not self.keeps_reserve:
            self.reserved %= PAGE_BYTES
        elif self.reserved >= KEPT_BYTES:
            self.reserved -= 1 << 20

    def reclaim(self) -> None:
        """sk_mem_reclaim(): reserved but unused memory returns to the system, in whole pages."""
        if self.reserved >= PAGE_BYTES:
            self.reserved %= PAGE_BYTES

    def reserve(self, size: int) -> None:
        """sk_rmem_schedule(): reserve pages for `size` bytes, unless they are reserved already."""
        missing = size - self.reserved
        if missing > 0:
            self.reserved += -(-missing // PAGE_BYTES) * PAGE_BYTES

    def has_room(self, skb: Skb) -> bool:
        """tcp_try_rmem_schedule(): whether there is memory for the segment, after collapsing the
        queue if that is needed."""
        if self.rmem > self.rcvbuf and not self.prune():
            return False
        self.reserve(skb.truesize)
        return True

    def offer(self) -> None:
        """As `Receiver.offer`; newer kernels offer nothing after a drop for lack of memory."""
        if self.no_memory and self.zero_at_once:
            self.wnd, self.wup = 0, self.nxt
        else:
            super().offer()
            self.largest_edge = max(self.largest_edge, self.wup + self.wnd)
        self.no_memory = False
        self.fast_path &= self.edge() > self.nxt

    # Queues.

    def coalesce(self, to: Skb, skb: Skb) -> bool:
        """tcp_try_coalesce(): move the payload of `skb` into `to`, if that is possible. Pages are
        moved, not copied, and only the head of `skb` is freed (skb_try_coalesce())."""
        if skb.seq != to.end_seq or to.shared_until > self.sender_una:
            return False
        if to.fragments == 0 and skb.length <= to.tail_bytes:
            to.tail_bytes -= skb.length
            to.head_bytes += skb.length
        elif skb.head_bytes or to.fragments + skb.fragments > MAX_FRAGMENTS:
            return False
        else:
            added = skb.truesize - skb.end_offset - OVERHEAD_BYTES
            to.fragments += skb.fragments
            to.truesize += added
            self.charge(added)
        to.end_seq = skb.end_seq
        self.coalesced += 1
        return True

    def enqueue(self, skb: Skb) -> Fate:
        """tcp_queue_rcv()."""
        joined = bool(self.queue) and self.coalesce(self.queue[-1], skb)
        self.nxt = skb.end_seq
        if joined:
            return Fate.COALESCED
        self.queue.append(skb)
        self.charge(skb.truesize)
        return Fate.QUEUED

    def data(self, skb: Skb, now_ns: int, *, push: bool) -> Fate:
        """A segment in sequence is queued: tcp_queue_rcv() and tcp_event_data_recv()."""
        fate = self.enqueue(skb)
        self.received(now_ns, skb.length, skb.length, skb.truesize, push)
        return fate

    def beyond(self, skb: Skb, *, push: bool) -> Fate:
        """tcp_data_queue_ofo(): a segment beyond the next expected one waits in its own queue."""
        if not self.has_room(skb):
            return Fate.DROPPED
        self.fast_path, self.ack_due = False, True
        if self.measures_out_of_order:
            self.measure_mss(skb.length, skb.length, skb.truesize, push)
        place = len(self.out_of_order)
        while place and self.out_of_order[place - 1].seq > skb.seq:
            place -= 1
        before = self.out_of_order[place - 1] if place else None
        if before is not None and skb.end_seq <= before.end_seq:
            return Fate.OLD
        joined = before is not None and self.coalesce(before, skb)
        self.grow_window(skb.length)
        if not joined:
            self.out_of_order.insert(place, skb)
            self.charge(skb.truesize)
        return Fate.OUT_OF_ORDER

    def fill(self) -> None:
        """tcp_ofo_queue(): move the segments that follow without a gap to the receive queue."""
        while self.out_of_order and self.out_of_order[0].seq <= self.nxt:
            skb = self.out_of_order.pop(0)
            self.uncharge(skb.truesize)
            if skb.end_seq > self.nxt:
                self.enqueue(skb)

    def check_fast_path(self) -> None:
        """tcp_fast_path_check(): whether the next segment may skip the slow path, and with it the
        check of the buffer."""
        self.fast_path |= not self.out_of_order and self.wnd > 0 and self.rmem < self.rcvbuf

    def reads(self, now_ns: int, most_bytes: int) -> bool:
        """tcp_recvmsg(): the program reads, which frees the skbs that were read completely. Return
        whether that is acknowledged at once."""
        copied = min(most_bytes, self.nxt - self.copied)
        self.copied += copied
        while self.queue and self.queue[0].end_seq <= self.copied:
            self.uncharge(self.queue.popleft().truesize)
        self.check_fast_path()
        self.adjust_space(now_ns)
        return self.cleanup(copied)

    # A full buffer.

    def clamp_window(self) -> None:
        """tcp_clamp_window(): an automatic buffer grows, otherwise the window shrinks."""
        self.quick = 0
        if self.rcvbuf < self.largest and not self.locked:
            self.rcvbuf = min(self.rmem, self.largest)
        if self.rmem > self.rcvbuf:
            self.ssthresh = min(self.clamp, 2 * self.advmss)

    def prune(self) -> bool:
        """tcp_prune_queue(): try to get below the limit; False if the segment has to be dropped."""
        if self.rmem >= self.rcvbuf:
            self.clamp_window()
        if self.rmem <= self.rcvbuf:
            return True
        self._collapse_out_of_order()
        if self.queue:
            self.queue = deque(self.collapse(list(self.queue), self.copied, self.nxt))
        self.reclaim()
        if self.rmem > self.rcvbuf:
            self._prune_out_of_order()
        self.fast_path &= self.rmem <= self.rcvbuf
        return self.rmem <= self.rcvbuf

    def collapse(self, queued: list[Skb], start: int, end: int) -> list[Skb]:
        """tcp_collapse(): copy the queue into linear skbs of a page each, beginning with the first
        that is bloated (the window for its true size exceeds its payload)."""
        first = 0
        for first, skb in enumerate(queued):
            if start >= skb.end_seq:
                continue
            apart = first + 1 < len(queued) and queued[first + 1].seq != skb.end_seq
            if self.window_of(skb.truesize) > skb.length or skb.seq < start or apart:
                break
            start = skb.end_seq
        else:
            return queued
        kept, copied = queued[:first], queued[first:]
        for skb in copied:
            # The kernel frees each after copying it. The order does not affect the reserve, which
            # is returned afterwards.
            self.uncharge(skb.truesize)
        self.collapsed += len(copied)
        end = min(end, copied[-1].end_seq)
        while start < end:
            kept.append(self._copy(start, min(LARGEST_LINEAR_BYTES, end - start)))
            start = kept[-1].end_seq
        return kept

    def _copy(self, seq: int, length: int) -> Skb:
        """A linear skb that holds bytes of the queue."""
        head = head_bytes(self.kernel, length)
        free = head - SHARED_INFO_BYTES
        self.charge(head + SK_BUFF_BYTES)
        return Skb(seq, seq + length, head + SK_BUFF_BYTES, free, 0, length, free - length)

    def _collapse_out_of_order(self) -> None:
        """tcp_collapse_ofo_queue(): the same for each range without a gap, except single skbs."""
        ranges: list[list[Skb]] = []
        for skb in self.out_of_order:
            if ranges and skb.seq <= ranges[-1][-1].end_seq:
                ranges[-1].append(skb)
            else:
                ranges.append([skb])
        tiny = 0
        kept: list[Skb] = []
        for place, skbs in enumerate(ranges):
            start, end = skbs[0].seq, skbs[-1].end_seq
            if len(skbs) > 1 or end - start >= LARGEST_LINEAR_BYTES:
                kept += self.collapse(skbs, start, end)
                continue
            kept += skbs
            tiny += skbs[0].truesize
            if tiny > self.rcvbuf >> 3:
                kept += [skb for later in ranges[place + 1 :] for skb in later]
                break
        self.out_of_order = kept

    def _prune_out_of_order(self) -> None:
        """tcp_prune_ofo_queue(): drop the highest segments that wait, an eighth of the buffer at a
        time."""
        goal = self.rcvbuf >> 3
        while self.out_of_order:
            skb = self.out_of_order.pop()
            self.uncharge(skb.truesize)
            goal -= skb.truesize
            if goal <= 0 or not self.out_of_order:
                self.reclaim()
                if self.rmem <= self.rcvbuf:
                    return
                goal = self.rcvbuf >> 3
