"""The queue of what a program wrote and the kernel has not sent: the send buffer's memory, packets
that are filled up, and their flags PSH.

Source: net/ipv4/tcp.c tcp_sendmsg_locked(), do_tcp_sendpages(), tcp_push(), tcp_mark_push();
net/core/stream.c sk_stream_write_space(). Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

GSO_MAX_BYTES = 65_536 - 321
"""Less the largest header, 320 bytes, and one (net/core/sock.c sk_setup_caps())."""
DEFAULT_MSS, LEAST_GOAL_BYTES = 536, 36
"""Up to a window of 536 bytes packets may be as long as the window (tcp_bound_to_half_wnd())."""
PAGE_BYTES, MOST_FRAGS = 4096, 17
"""net.core.max_skb_frags: the pages of one packet."""
NAGLE, NAGLE_OFF, CORK, PUSH = 0, 1, 2, 4


class SendQueue(ABC):
    """What the writer calls; packets leave by `_transmit_some`."""

    marks: deque[int]
    unsent: deque[int]
    frags: deque[int]

    def __init__(self, *, mss_bytes: int, overhead: int, sndbuf_bytes: int, edge: int) -> None:
        self.mss, self.overhead, self.sndbuf = mss_bytes, overhead, sndbuf_bytes
        self.write_seq = self.pushed_seq = self.queued = 0
        self.marks, self.unsent, self.frags = deque(), deque(), deque()
        self.most_window = edge
        self.goal = self._size_goal()
        self.no_space, self.nagle = False, NAGLE

    @abstractmethod
    def _transmit_some(
        self, now_ns: int, nagle: int, push_one: bool = False, probes: bool = False
    ) -> None:
        """Send what may leave now."""

    def send(self, now_ns: int, size: int, *, more: bool = False) -> int:
        """tcp_sendmsg_locked(), with MSG_MORE or without: how many bytes there was room for."""
        copied = 0
        unsent = self.unsent
        while True:
            goal = self.goal
            copy = goal - unsent[-1] if unsent else 0
            if copy <= 0:
                if self.queued >= self.sndbuf:
                    self.no_space = True
                    if copied:
                        self.push(now_ns, PUSH)
                    return copied
                self._begin()
                self.frags.append(self.write_seq)
                copy = goal
            if copy > size - copied:
                copy = size - copied
            self._append(copy, first=not copied)
            copied += copy
            if copied == size:
                self.push(now_ns, CORK if more else self.nagle, marks=not more)
                return copied
            if unsent[-1] >= goal:
                self._full(now_ns)

    def take_pages(self, pages: int) -> int:
        """Append as many of these whole pages as the last packet holds without being full: the same
        as `send_page` for each of them, but in one step. Returns their bytes."""
        if pages <= 0 or not self.unsent or not self.unsent[-1]:
            return 0
        room = (self.goal - self.unsent[-1] - 1) // PAGE_BYTES
        if pages > room:
            pages = room
        if pages <= 0:
            return 0
        room = MOST_FRAGS - self._tail_frags()
        if pages > room:
            pages = room
            if pages <= 0:
                return 0
        begin = self.write_seq
        self._append(pages * PAGE_BYTES, first=True)
        for page in range(begin, self.write_seq, PAGE_BYTES):
            self.frags.append(page)
        return pages * PAGE_BYTES

    def send_page(self, now_ns: int, size: int, *, more: bool, last: bool, joins: bool) -> int:
        """do_tcp_sendpages(), before 6.5: a page of a file, of which `last` is the last in a pipe,
        or, if it `joins`, the rest of a page. Without room everything is pushed, even if nothing of
        this page was queued."""
        copied = 0
        unsent, goal = self.unsent, self.goal
        while copied < size:
            copy = goal - unsent[-1] if unsent else 0
            if copy <= 0 or (not joins and self._tail_frags() >= MOST_FRAGS):
                if self.queued >= self.sndbuf:
                    self.no_space = True
                    self.push(now_ns, PUSH)
                    break
                self._begin()
                copy = goal
            if copy > size - copied:
                copy = size - copied
            if not joins or not unsent[-1]:
                self.frags.append(self.write_seq)
            joins = True
            self._append(copy, first=not copied)
            copied += copy
            if copied < size and unsent[-1] >= goal:
                self._full(now_ns)
        if copied and last:
            self.push(now_ns, CORK if more else self.nagle, marks=not more)
        return copied

    def _begin(self) -> None:
        self.unsent.append(0)
        self.queued += self.overhead
        self.frags.clear()

    def _tail_frags(self) -> int:
        """The pages of the last packet of the queue; those that were sent before it are dropped."""
        frags, begin = self.frags, self.write_seq - self.unsent[-1]
        while len(frags) > 1 and frags[1] <= begin:
            frags.popleft()
        return len(frags)

    def _append(self, copy: int, *, first: bool) -> None:
        marks = self.marks
        if first and marks and marks[-1] == self.write_seq and self.unsent[-1]:
            marks.pop()
        self.unsent[-1] += copy
        self.queued += copy
        self.write_seq += copy

    def _full(self, now_ns: int) -> None:
        if self._forced():
            self.push(now_ns, PUSH)
        elif len(self.unsent) == 1:
            self._transmit_some(now_ns, PUSH, push_one=True)

    def _forced(self) -> bool:
        return self.write_seq > self.pushed_seq + (self.most_window >> 1)

    def push(self, now_ns: int, nagle: int, *, marks: bool = True) -> None:
        """tcp_push(): end what was written, and send what may leave."""
        if not self.unsent:
            return
        if marks or self._forced():
            self.pushed_seq = self.write_seq
            self.marks.append(self.write_seq)
        self._transmit_some(now_ns, nagle)

    def _size_goal(self) -> int:
        most = self.most_window >> 1 if self.most_window > DEFAULT_MSS else self.most_window
        return max(self.mss, min(GSO_MAX_BYTES, max(most, LEAST_GOAL_BYTES)) // self.mss * self.mss)

    def writeable(self) -> bool:
        """Whether poll() and epoll report room: a third of the buffer."""
        return self.sndbuf - self.queued >= self.queued >> 1 and self.queued < self.sndbuf
