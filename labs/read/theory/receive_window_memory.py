"""The receive buffer: the true size of segments, coalescing, collapsing and drops.

One function per kernel function, as in receive_window. Memory is counted in true size: the payload,
its struct sk_buff, and the rest of its buffer, which nothing else can use.
Source: net/ipv4/tcp_input.c, net/core/skbuff.c, net/core/sock.c, include/net/sock.h.
"""

from __future__ import annotations

from enum import Enum, auto

from labs.read.theory.receive_window import (
    Receiver,
    Skb,
    tcp_clamp_window,
    tcp_grow_window,
    tcp_measure_rcv_mss,
    tcp_win_from_space,
)
from labs.read.theory.receive_window_kernels import (
    LARGEST_LINEAR_BYTES,
    MAX_FRAGMENTS,
    OVERHEAD_BYTES,
    SHARED_INFO_BYTES,
    SK_BUFF_BYTES,
    Rules,
)

PAGE_BYTES = 4096
KEPT_BYTES = 1 << 21
"""SK_RECLAIM_THRESHOLD: memory that a socket keeps reserved, until 5.19."""


class Fate(Enum):
    """What became of a segment."""

    QUEUED = auto()
    COALESCED = auto()
    OUT_OF_ORDER = auto()
    DROPPED = auto()
    OLD = auto()
    OUT_OF_WINDOW = auto()


def alloc_skb(rules: Rules, seq: int, length: int) -> Skb:
    """A new linear skb that has room for `length` bytes."""
    head = rules.head_bytes(length)
    end_offset = head - SHARED_INFO_BYTES
    return Skb(seq, seq, head + SK_BUFF_BYTES, end_offset, fragments=0, tail_bytes=end_offset)


def sk_mem_charge(r: Receiver, size: int) -> None:
    r.rmem_alloc += size
    r.forward_alloc -= size


def sk_mem_uncharge(r: Receiver, size: int) -> None:
    """Return memory to the socket's reserve, and above a limit to the system."""
    r.rmem_alloc -= size
    r.forward_alloc += size
    if r.rules.keeps_reserve:
        if r.forward_alloc >= KEPT_BYTES:
            r.forward_alloc -= 1 << 20
    else:
        r.forward_alloc %= PAGE_BYTES


def sk_mem_reclaim(r: Receiver) -> None:
    """Return reserved but unused memory to the system, in whole pages."""
    if r.forward_alloc >= PAGE_BYTES:
        r.forward_alloc %= PAGE_BYTES


def sk_rmem_schedule(r: Receiver, size: int) -> None:
    """Reserve pages for `size` bytes, unless they are reserved already. It succeeds unless the
    system is short of memory; a run in which that happens fails its own checks."""
    missing = size - r.forward_alloc
    if missing > 0:
        r.forward_alloc += -(-missing // PAGE_BYTES) * PAGE_BYTES


def skb_try_coalesce(r: Receiver, to: Skb, skb: Skb) -> int | None:
    """Move the payload of `skb` into `to`. Return the memory that this adds to `to`, or None if it
    is not possible. Pages are moved, not copied, and only the head of `skb` is freed."""
    if to.shared_until > r.sender_una:
        return None
    if to.fragments == 0 and skb.length <= to.tail_bytes:
        to.tail_bytes -= skb.length
        to.head_bytes += skb.length
        return 0
    if skb.head_bytes or to.fragments + skb.fragments > MAX_FRAGMENTS:
        return None
    to.fragments += skb.fragments
    added = skb.truesize - skb.end_offset - OVERHEAD_BYTES
    to.truesize += added
    return added


def tcp_try_coalesce(r: Receiver, to: Skb, skb: Skb) -> bool:
    if skb.seq != to.end_seq:
        return False
    added = skb_try_coalesce(r, to, skb)
    if added is None:
        return False
    sk_mem_charge(r, added)
    to.end_seq = skb.end_seq
    r.counters["TCPRcvCoalesce"] += 1
    return True


def tcp_queue_rcv(r: Receiver, skb: Skb) -> Fate:
    joined = bool(r.queue) and tcp_try_coalesce(r, r.queue[-1], skb)
    r.rcv_nxt = skb.end_seq
    if joined:
        return Fate.COALESCED
    r.queue.append(skb)
    sk_mem_charge(r, skb.truesize)
    return Fate.QUEUED


def tcp_try_rmem_schedule(r: Receiver, skb: Skb) -> bool:
    """Whether there is memory for the segment, after collapsing the queue if that is needed."""
    if r.rmem_alloc > r.rcvbuf and not tcp_prune_queue(r):
        return False
    sk_rmem_schedule(r, skb.truesize)
    return True


def tcp_prune_queue(r: Receiver) -> bool:
    """Try to get below the limit; False if the segment has to be dropped."""
    r.counters["PruneCalled"] += 1
    if r.rmem_alloc >= r.rcvbuf:
        tcp_clamp_window(r)
    if r.rmem_alloc <= r.rcvbuf:
        return True
    tcp_collapse_ofo_queue(r)
    if r.queue:
        queued = list(r.queue)
        r.queue.clear()
        r.queue.extend(tcp_collapse(r, queued, r.copied_seq, r.rcv_nxt))
    sk_mem_reclaim(r)
    if r.rmem_alloc <= r.rcvbuf:
        return True
    tcp_prune_ofo_queue(r)
    if r.rmem_alloc <= r.rcvbuf:
        return True
    r.counters["RcvPruned"] += 1
    r.fast_path = False
    return False


def tcp_collapse(r: Receiver, queued: list[Skb], start: int, end: int) -> list[Skb]:
    """Copy the queue into linear skbs of a page each, beginning with the first skb that is bloated
    (the window for its true size exceeds its payload)."""
    first = 0
    for first, skb in enumerate(queued):
        if start >= skb.end_seq:
            continue
        following = queued[first + 1] if first + 1 < len(queued) else None
        bloated = tcp_win_from_space(r, skb.truesize) > skb.length
        apart = following is not None and following.seq != skb.end_seq
        if bloated or skb.seq < start or apart:
            break
        start = skb.end_seq
    else:
        return queued
    kept, collapsed = queued[:first], queued[first:]
    for skb in collapsed:
        # The kernel frees each after copying it. The order does not affect the reserve, which is
        # returned afterwards.
        sk_mem_uncharge(r, skb.truesize)
        r.counters["TCPRcvCollapsed"] += 1
    end = min(end, collapsed[-1].end_seq)
    while start < end:
        length = min(LARGEST_LINEAR_BYTES, end - start)
        made = alloc_skb(r.rules, start, length)
        made.end_seq += length
        made.head_bytes = length
        made.tail_bytes -= length
        sk_mem_charge(r, made.truesize)
        kept.append(made)
        start += length
    return kept


def tcp_collapse_ofo_queue(r: Receiver) -> None:
    """The same for each contiguous range of the out-of-order queue, except small single skbs."""
    ranges: list[list[Skb]] = []
    for skb in r.out_of_order:
        if ranges and skb.seq <= ranges[-1][-1].end_seq:
            ranges[-1].append(skb)
        else:
            ranges.append([skb])
    tiny = 0
    kept: list[Skb] = []
    for place, skbs in enumerate(ranges):
        start, end = skbs[0].seq, skbs[-1].end_seq
        if len(skbs) > 1 or end - start >= LARGEST_LINEAR_BYTES:
            kept += tcp_collapse(r, skbs, start, end)
            continue
        kept += skbs
        tiny += skbs[0].truesize
        if tiny > r.rcvbuf >> 3:
            kept += [skb for later in ranges[place + 1 :] for skb in later]
            break
    r.out_of_order = kept


def tcp_prune_ofo_queue(r: Receiver) -> None:
    """Drop the highest segments of the out-of-order queue, an eighth of the buffer at a time."""
    if not r.out_of_order:
        return
    r.counters["OfoPruned"] += 1
    goal = r.rcvbuf >> 3
    while r.out_of_order:
        skb = r.out_of_order.pop()
        sk_mem_uncharge(r, skb.truesize)
        goal -= skb.truesize
        if goal <= 0 or not r.out_of_order:
            sk_mem_reclaim(r)
            if r.rmem_alloc <= r.rcvbuf:
                return
            goal = r.rcvbuf >> 3


def tcp_data_queue_ofo(r: Receiver, skb: Skb, *, push: bool) -> Fate:
    """A segment beyond the next expected one waits in its own queue."""
    if not tcp_try_rmem_schedule(r, skb):
        r.counters["TCPOFODrop"] += 1
        return Fate.DROPPED
    r.fast_path = False
    if r.rules.measures_out_of_order:
        tcp_measure_rcv_mss(r, skb, push=push)
    r.ack_due = True
    r.counters["TCPOFOQueue"] += 1
    place = len(r.out_of_order)
    while place and r.out_of_order[place - 1].seq > skb.seq:
        place -= 1
    before = r.out_of_order[place - 1] if place else None
    if before is not None and skb.end_seq <= before.end_seq:
        return Fate.OLD
    if before is not None and tcp_try_coalesce(r, before, skb):
        tcp_grow_window(r, skb)
        return Fate.OUT_OF_ORDER
    r.out_of_order.insert(place, skb)
    tcp_grow_window(r, skb)
    sk_mem_charge(r, skb.truesize)
    return Fate.OUT_OF_ORDER


def tcp_ofo_queue(r: Receiver) -> None:
    """A gap was filled: move the segments that follow without a gap to the receive queue."""
    while r.out_of_order and r.out_of_order[0].seq <= r.rcv_nxt:
        skb = r.out_of_order.pop(0)
        sk_mem_uncharge(r, skb.truesize)
        if skb.end_seq > r.rcv_nxt:
            tcp_queue_rcv(r, skb)


def tcp_fast_path_check(r: Receiver) -> None:
    """Whether the next segment may skip the slow path, and with it the check of the buffer."""
    if not r.out_of_order and r.rcv_wnd and r.rmem_alloc < r.rcvbuf:
        r.fast_path = True


def tcp_recvmsg(r: Receiver, most_bytes: int) -> int:
    """A program reads: free the skbs that were read completely. Return the number of bytes."""
    copied = min(most_bytes, r.rcv_nxt - r.copied_seq)
    r.copied_seq += copied
    while r.queue and r.queue[0].end_seq <= r.copied_seq:
        sk_mem_uncharge(r, r.queue.popleft().truesize)
    tcp_fast_path_check(r)
    return copied
