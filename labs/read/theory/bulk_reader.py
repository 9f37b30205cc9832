"""The programs that read a bulk flow: wget, and one that discards, which may pause.

Source: wget's fd_read_body(); labs/drive/programs/fetch.py read_body(); net/ipv4/tcp.c
tcp_recvmsg_locked(). Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_link import NEVER_NS
from labs.read.theory.bulk_receiver import BulkReceiver

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
