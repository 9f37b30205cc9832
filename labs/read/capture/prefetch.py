"""The bytes of a capture in pieces: while one is worked through, a thread reads the next."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from labs.read.capture.source import Source

Array = np.ndarray[Any, Any]
PIECE_BYTES = 1 << 20
# Room before a piece for what is left of the one before: a packet that is not whole in it.
BEFORE_BYTES = 1 << 17


class Pieces:
    """The pieces of a source, each in one of two buffers in turn.

    A file of one piece starts no thread. `ended` says whether the last piece was given, and `done`
    how much of the file it and those before it are.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffers = [np.zeros(BEFORE_BYTES + PIECE_BYTES, np.uint8) for _ in range(2)]
        self._thread: ThreadPoolExecutor | None = None
        self._coming: Future[tuple[int, float]] | None = None
        self.ended = False
        self.done = 0.0

    def after(self, left: Array) -> tuple[Array, int, int]:
        """The next piece behind the bytes `left` of the one before: a buffer, where `left` begins
        in it, and where the piece ends."""
        count, self.done = self._coming.result() if self._coming else self._fill(self._buffers[0])
        self.ended = count < PIECE_BYTES
        buffer, other = self._buffers
        begin, end = BEFORE_BYTES - len(left), BEFORE_BYTES + count
        if begin < 0:
            buffer = np.concatenate((left, buffer[BEFORE_BYTES:end]))
            begin, end = 0, len(buffer)
        else:
            buffer[begin:BEFORE_BYTES] = left
        self._buffers.reverse()
        if not self.ended:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "labs-capture")
            self._coming = self._thread.submit(self._fill, other)
        return buffer, begin, end

    def _fill(self, buffer: Array) -> tuple[int, float]:
        """Read a piece: how many bytes it has, and how much of the file is read then."""
        place, count = memoryview(buffer)[BEFORE_BYTES:], 0  # type: ignore[arg-type]
        while count < PIECE_BYTES:
            found = self._source.readinto(place[count:])
            if found == 0:
                break
            count += found
        return count, self._source.done()

    def close(self) -> None:
        """End the thread and close the file."""
        try:
            if self._thread is not None:
                self._thread.shutdown()
        finally:
            self._source.close()
