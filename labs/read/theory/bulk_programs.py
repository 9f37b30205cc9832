"""The programs at both ends of a bulk flow: iperf3 writes from memory and nginx from a file; wget
reads, or a program that discards, which may pause.

Source: iperf3's iperf_send(); nginx's ngx_linux_sendfile_chain(); fs/splice.c
splice_direct_to_actor(), splice_to_socket() (from 6.5), pipe_to_sendpage() (before);
mm/shmem.c shmem_file_splice_read(), shmem_file_read_iter(); wget's fd_read_body();
labs/guest/programs/fetch.py read_body(); net/ipv4/tcp.c tcp_recvmsg_locked(). Times are in
nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_link import NEVER_NS
from labs.read.theory.bulk_receiver import BulkReceiver
from labs.read.theory.bulk_send_queue import CORK, NAGLE, NAGLE_OFF, PAGE_BYTES
from labs.read.theory.bulk_sender import Sender
from labs.read.theory.kernels import ONE_MESSAGE, OWN_PAGES

PIPE_PAGES = 16
CHUNK_BYTES = 2 << 20
"""nginx's sendfile_max_chunk, since 1.21.4: the most that it sends before it looks at other
events."""


class Writer(Protocol):
    """A program that fills the send buffer whenever it is woken."""

    def write(self, now_ns: int) -> None: ...


@dataclass
class Blocks:
    """iperf3: up to `per_wake` blocks whenever select() reports room, or one block after another
    in blocking writes (0)."""

    sender: Sender
    block_bytes: int
    per_wake: int
    nodelay: bool
    begun: int = 0

    def __post_init__(self) -> None:
        self.sender.nagle = NAGLE_OFF if self.nodelay else NAGLE

    def write(self, now_ns: int) -> None:
        """Write until no room is left."""
        sender = self.sender
        while True:
            for _ in range(max(self.per_wake, 1)):
                if not self.begun:
                    self.begun = self.block_bytes
                copied = self.begun
                while self.begun and copied:
                    copied = sender.send(now_ns, self.begun)
                    self.begun -= copied
                if self.begun:
                    break
            if not self.per_wake:
                if self.begun:
                    return
            elif not sender.writeable():
                sender.no_space = True
                return


@dataclass
class File:
    """nginx: the header of the response, then the file by sendfile(), with TCP_CORK. The socket
    does not block: nginx continues until there is no room at all, and then waits for epoll. At the
    end it lifts the cork, or closes the connection unless that is kept alive."""

    sender: Sender
    kernel: str
    header_bytes: int
    file_bytes: int
    keep_alive: bool
    position: int = 0
    chunk: int = 0

    def __post_init__(self) -> None:
        self.sender.nagle = CORK
        self.one_message = ONE_MESSAGE.holds(self.kernel)
        self.own_pages = OWN_PAGES.holds(self.kernel) and not self.one_message

    def write(self, now_ns: int) -> None:
        """Write until no room is left or the file ends."""
        sender = self.sender
        if not sender.write_seq:
            sender.send(now_ns, self.header_bytes)
        self.chunk = 0
        while self.position < self.file_bytes:
            if self.position >= self.chunk:
                self.chunk = self.position + CHUNK_BYTES
                self.chunk = min(-(-self.chunk // PAGE_BYTES) * PAGE_BYTES, self.file_bytes)
            sent = self._sendfile(now_ns)
            self.position += sent
            if not sent:
                return
        if self.keep_alive:
            sender.nagle = NAGLE
            sender.push(now_ns, NAGLE)
        else:
            sender.closed = True
            sender.push(now_ns, NAGLE_OFF)

    def _sendfile(self, now_ns: int) -> int:
        """One call: up to the end of the chunk, a pipe at a time."""
        begin = at = self.position
        while at < self.chunk:
            first = PAGE_BYTES if self.own_pages else PAGE_BYTES - at % PAGE_BYTES
            held = min(first + (PIPE_PAGES - 1) * PAGE_BYTES, self.chunk - at)
            more = held < self.chunk - at
            sent = (
                self._splice(now_ns, held, more)
                if self.one_message
                else self._pages(now_ns, held, first, more, joins=first < PAGE_BYTES)
            )
            at += sent
            if sent < held:
                break
        return at - begin

    def _splice(self, now_ns: int, held: int, more: bool) -> int:
        sent = 0
        while sent < held:
            taken = self.sender.send(now_ns, held - sent, more=more)
            if not taken:
                break
            sent += taken
        return sent

    def _pages(self, now_ns: int, held: int, first: int, more: bool, *, joins: bool) -> int:
        sent, page = 0, min(first, held)
        while sent < held:
            last = sent + page >= held
            taken = self.sender.send_page(now_ns, page, more=more, last=last, joins=joins)
            if not taken:
                break
            sent += taken
            joins = taken < page
            if not joins:
                sent += self.sender.take_pages((held - sent - 1) // PAGE_BYTES)
            page = page - taken or min(PAGE_BYTES, held - sent)
        return sent


READ_NS = 1000
"""The time from one read to the next."""
HEAD_BYTES = 4096
READS_FOR_NS, NOTES_EVERY_NS, LOOKS_PER_NOTE = 500_000_000, 100_000_000, 8
"""A reader that pauses reads this long in between. It looks at the clock about eight times per
100 ms."""


class Reader:
    """A program that reads block by block."""

    def __init__(self, flow: Flow, receiver: BulkReceiver) -> None:
        self.flow, self.receiver = flow, receiver
        self.read_bytes = flow.read_bytes or flow.write_bytes
        self.block_end = 0
        self.pause_ns = (flow.pause_ms or 0) * 1_000_000
        self.pauses_at_ns = self.notes_at_ns = 0
        self.reads = self.reads_at_note = self.between = self.looks_at = 0

    def read(self, now_ns: int) -> tuple[bool, int]:
        """Read once: whether that is acknowledged at once, and when the next read is due;
        never if there is nothing to read."""
        receiver, flow = self.receiver, self.flow
        first = receiver.copied == 0
        if first and flow.header_bytes:
            # For the header fetch.py requests this much; wget looks first, and reads no more.
            self.block_end = HEAD_BYTES if flow.reads_whole else flow.header_bytes
        elif self.block_end <= receiver.copied or not flow.reads_whole:
            self.block_end = receiver.copied + self.read_bytes
        acknowledges = receiver.reads(now_ns, self.block_end - receiver.copied)
        if first:
            self.block_end = receiver.copied
            self.pauses_at_ns = self.notes_at_ns = now_ns
        elif self.pause_ns and receiver.copied >= self.block_end and self._pauses(now_ns):
            return acknowledges, now_ns + self.pause_ns
        return acknowledges, now_ns + READ_NS if receiver.copied < receiver.nxt else NEVER_NS

    def _pauses(self, now_ns: int) -> bool:
        """Whether the program pauses after this block."""
        self.reads += 1
        if self.reads < self.looks_at:
            return False
        at_ns, pauses = now_ns, now_ns >= self.pauses_at_ns
        if pauses:
            at_ns += self.pause_ns
            self.pauses_at_ns = at_ns + READS_FOR_NS
        if at_ns >= self.notes_at_ns:
            self.notes_at_ns = at_ns + NOTES_EVERY_NS
            self.between, self.reads_at_note = self.reads - self.reads_at_note, self.reads
        self.looks_at = self.reads + self.between // LOOKS_PER_NOTE
        return pauses
