"""Messages between the two ends of an ssh host, over the standard input and output of a program.

A message is a line of JSON; if it has `bytes`, so many raw bytes follow it.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from labs.drive.kernel.process_group import readable

READ_BYTES = 1 << 20

Message = dict[str, Any]


class Channel:
    """One end; reading and writing go through plain descriptors, which it closes with `close`."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for; what arrived may already be held here: `receive(0)` first."""
        return self._read_fd

    def send(self, message: Message, content: bytes = b"") -> None:
        """Send a message. BrokenPipeError if the other end is gone."""
        if content:
            message = {**message, "bytes": len(content)}
        self.write(json.dumps(message).encode() + b"\n")
        self.write(content)

    def write(self, content: bytes) -> None:
        """Write bytes that are no message."""
        left = memoryview(content)
        if self.closed:
            raise BrokenPipeError
        while left:
            left = left[os.write(self._write_fd, left) :]

    def skip_behind(self, mark: bytes, timeout_s: float) -> bool:
        """Skip what is no message up to `mark`; False when the time is over; EOFError at "
        "the end."""
        deadline = time.monotonic() + timeout_s
        while (at := self._buffer.find(mark)) < 0:
            if not self._more(deadline):
                return False
        del self._buffer[: at + len(mark)]
        return True

    def receive(self, timeout_s: float | None = None) -> tuple[Message, bytes] | None:
        """The next message and its bytes; None when the time is over; EOFError at the end."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := self._whole()) is None:
            if not self._more(deadline):
                return None
        return message

    def _more(self, deadline: float | None) -> bool:
        """Take in what arrives; False when the time is over; EOFError at the end."""
        if self.closed:
            raise EOFError
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not readable(self._read_fd, left_s):
            return False
        some = os.read(self._read_fd, READ_BYTES)
        if not some:
            raise EOFError
        self._buffer += some
        return True

    def _whole(self) -> tuple[Message, bytes] | None:
        """Take a message out of what has arrived, if all of it has."""
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        message: Message = json.loads(self._buffer[:end])
        size = message.get("bytes", 0)
        if len(self._buffer) < end + 1 + size:
            return None
        content = bytes(self._buffer[end + 1 : end + 1 + size])
        del self._buffer[: end + 1 + size]
        return message, content

    @property
    def closed(self) -> bool:
        return self._read_fd < 0

    def close(self) -> None:
        """Close both ends, once."""
        if not self.closed:
            os.close(self._read_fd)
            os.close(self._write_fd)
            self._read_fd = self._write_fd = -1
