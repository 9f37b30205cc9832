"""The bytes of a capture file: plain, gzip or zstd, a piece at a time.

Source: RFC 1952 (gzip, with several members), RFC 8878 (zstd).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO, Protocol

from labs.errors import BadInput, Damaged, Missing

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PIECE_BYTES = 1 << 16
# gzip cannot make more than 1,032 bytes of one; a zstd file that makes more is no capture.
MOST_PER_BYTE = 2000
UNJUDGED_BYTES = 1 << 26


class Source(Protocol):
    """What a reader asks of a file: `fault` says why it ended early, `done` how much is read."""

    fault: str | None

    def readinto(self, place: memoryview) -> int: ...

    def done(self) -> float: ...

    def close(self) -> None: ...


class _Plain:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.fault: str | None = None
        self._file, self._size = file, size

    def readinto(self, place: memoryview) -> int:
        return self._file.readinto(place) or 0  # type: ignore[attr-defined]

    def done(self) -> float:
        return self._file.tell() / self._size if self._size else 1.0

    def close(self) -> None:
        self._file.close()


class _Gzip(_Plain):
    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._waiting = b""

    def readinto(self, place: memoryview) -> int:
        while self.fault is None:
            waiting = self._waiting or self._file.read(PIECE_BYTES)
            if self._inflate.eof:
                if not waiting.startswith(GZIP[: len(waiting)]) or not waiting:
                    return 0  # what follows the last member is padding
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            elif not waiting:
                self.fault = "the gzip data ends early"
                return 0
            try:
                found = self._inflate.decompress(waiting, min(len(place), PIECE_BYTES))
            except zlib.error:
                self.fault = "the gzip data is damaged"
                return 0
            self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
            if found:
                place[: len(found)] = found
                return len(found)
        return 0


class _Zstd(_Plain):
    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)
        try:
            import pyarrow
        except ImportError:
            raise Missing(
                "reading zstd needs the package pyarrow; or unpack the capture first: zstd -d FILE"
            ) from None
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")
        self._given = 0

    def readinto(self, place: memoryview) -> int:
        try:
            found = self._stream.read(min(len(place), PIECE_BYTES))
        except OSError:
            self.fault = "the zstd data is damaged or ends early"
            return 0
        place[: len(found)] = found
        self._given += len(found)
        if self._given > UNJUDGED_BYTES + MOST_PER_BYTE * self._file.tell():
            raise Damaged(
                f"more than {MOST_PER_BYTE:,} bytes unpack from each byte of this file: "
                "no capture is like that"
            )
        return len(found)


def open_source(path: Path) -> Source:
    """Open a capture file. BadInput for what is no file, Missing for no right to read it."""
    try:
        file = path.open("rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{path}: there is no such file; name a pcap or pcapng file") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name a pcap or pcapng file in it") from None
    except PermissionError:
        raise Missing(f"{path}: no right to read it; `sudo chmod a+r` on it gives one") from None
    try:
        if not file.seekable():
            raise BadInput(f"{path} is a pipe; write the capture to a file first")
        head = file.read(4) or b""
        size = file.seek(0, 2)
        file.seek(0)
        kind = _Gzip if head.startswith(GZIP) else _Zstd if head == ZSTD else _Plain
        return kind(file, size)
    except BaseException:
        file.close()
        raise
