"""The programs that write a bulk flow: iperf3 from memory, nginx from a file.

Source: iperf3's iperf_send(); nginx's ngx_linux_sendfile_chain(); fs/splice.c
splice_direct_to_actor(), splice_to_socket() (from 6.5), pipe_to_sendpage() (before);
mm/shmem.c shmem_file_splice_read(), shmem_file_read_iter(). Times are in nanoseconds, sizes in
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
