"""The bytes of a capture file: plain, gzip, xz or zstd, read ahead piece by piece in a thread.

Source: RFC 1952 (gzip, with several members), the .xz file format 1.1.0, RFC 8878 (zstd).
"""

from __future__ import annotations

import lzma
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from labs.errors import BadInput, Damaged, Missing
from labs.guest.units import MIB

GZIP, ZSTD, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"
INFLATE_BYTES = 1 << 16
# gzip expands a byte to at most 1,032 bytes; a zstd file that expands further is not a capture.
MOST_PER_BYTE = 2000
MOST_PER_BYTE_XZ = 8000
UNJUDGED_BYTES = 1 << 26
XZ_MEMORY_BYTES = 128 * MIB  # what `xz -9` needs to unpack, twice


class Source(Protocol):
    """An open capture file: `fault` is the reason why it ended early, `done` the share read."""

    fault: str | None

    def readinto(self, place: memoryview) -> int: ...

    def done(self) -> float: ...

    def close(self) -> None: ...


class _Plain:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.fault: str | None = None
        self._file, self._size = file, size

    def readinto(self, place: memoryview) -> int:
        try:
            return self._file.readinto(place) or 0  # type: ignore[attr-defined]
        except OSError as error:
            self.fault = _describe_failure(error)
            return 0

    def done(self) -> float:
        return self._file.tell() / self._size if self._size else 1.0

    def close(self) -> None:
        self._file.close()


def _describe_failure(error: OSError) -> str:
    return f"the system cannot read it: {(error.strerror or str(error)).lower()}"


class _Gzip(_Plain):
    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._waiting = b""

    def readinto(self, place: memoryview) -> int:
        while self.fault is None:
            try:
                waiting = self._waiting or self._file.read(INFLATE_BYTES)
                if self._inflate.eof:
                    if not waiting.startswith(GZIP[: len(waiting)]) or not waiting:
                        return 0  # what follows the last member is padding
                    self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
                elif not waiting:
                    self.fault = "the gzip data ends early"
                    return 0
                inflated = self._inflate.decompress(waiting, min(len(place), INFLATE_BYTES))
            except zlib.error:
                self.fault = "the gzip data is damaged"
                return 0
            except OSError as error:
                self.fault = _describe_failure(error)
                return 0
            self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
            if inflated:
                place[: len(inflated)] = inflated
                return len(inflated)
        return 0


class _Xz(_Plain):
    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)
        self._unpack = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
        self._waiting = b""
        self._given = 0

    def readinto(self, place: memoryview) -> int:
        while self.fault is None:
            try:
                if self._unpack.eof:
                    rest = (self._unpack.unused_data or self._file.read(INFLATE_BYTES)).lstrip(
                        b"\0"
                    )
                    if not rest:
                        return 0
                    self._unpack = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
                    self._waiting = rest
                elif self._unpack.needs_input and not self._waiting:
                    self._waiting = self._file.read(INFLATE_BYTES)
                    if not self._waiting:
                        self.fault = "the xz data ends early"
                        return 0
                unpacked = self._unpack.decompress(self._waiting, min(len(place), INFLATE_BYTES))
            except lzma.LZMAError:
                self.fault = "the xz data is damaged"
                return 0
            except OSError as error:
                self.fault = _describe_failure(error)
                return 0
            self._waiting = b""
            if unpacked:
                place[: len(unpacked)] = unpacked
                self._given += len(unpacked)
                _must_be_plausible(self._file, self._given, MOST_PER_BYTE_XZ)
                return len(unpacked)
        return 0


def _must_be_plausible(file: BinaryIO, given: int, most: int) -> None:
    """Damaged if more bytes unpack from a file than from any capture."""
    if given > UNJUDGED_BYTES + most * file.tell():
        raise Damaged(
            f"{file.name}: more than {most:,} bytes unpack from each byte of this file, so it is "
            "not a capture"
        )


class _Zstd(_Plain):
    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(file, size)
        try:
            import pyarrow  # noqa: PLC0415  an extra
        except ImportError:
            raise Missing(
                "reading zstd needs the package pyarrow, which is not installed. "
                'Install it: pip install "tcp-lab-notebook[capture]"; '
                "or unpack the capture first: zstd -d FILE"
            ) from None
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")
        self._faults = (OSError, pyarrow.ArrowException)
        self._given = 0

    def readinto(self, place: memoryview) -> int:
        try:
            unpacked = self._stream.read(min(len(place), INFLATE_BYTES))
        except self._faults:
            self.fault = "the zstd data is damaged or ends early"
            return 0
        place[: len(unpacked)] = unpacked
        self._given += len(unpacked)
        _must_be_plausible(self._file, self._given, MOST_PER_BYTE)
        return len(unpacked)


def open_source(path: Path) -> Source:
    """Open a capture file. BadInput if it is not a file, Missing if it may not be read."""
    try:
        _must_be_a_file(path, path.stat().st_mode)
        file = path.open("rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{path}: there is no such file. Name a pcap or pcapng file") from None
    except PermissionError:
        raise Missing(f"{path}: permission denied. Run: sudo chmod a+r {path}") from None
    except OSError as error:
        raise BadInput(f"{path}: {_describe_failure(error)}. Name a pcap or pcapng file") from None
    except ValueError:
        raise BadInput(f"{str(path)!r} is not a path. Name a pcap or pcapng file") from None
    try:
        head = file.read(len(XZ)) or b""
        size = file.seek(0, 2)
        file.seek(0)
        kinds: tuple[tuple[bytes, type[_Plain]], ...] = ((GZIP, _Gzip), (ZSTD, _Zstd), (XZ, _Xz))
        kind = next((kind for magic, kind in kinds if head.startswith(magic)), _Plain)
        return kind(file, size)
    except OSError as error:
        file.close()
        raise Damaged(f"{path}: {_describe_failure(error)}") from None
    except BaseException:
        file.close()
        raise


def _must_be_a_file(path: Path, mode: int) -> None:
    """BadInput for a file that would block its reader, or that has no end."""
    if stat.S_ISDIR(mode):
        raise BadInput(f"{path} is a folder. Name a pcap or pcapng file in it")
    if stat.S_ISFIFO(mode):
        raise BadInput(f"{path} is a pipe. Read it from standard input: labs explain - < {path}")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{path} is a device or a socket. Name a pcap or pcapng file")


@contextmanager
def kept_input(path: Path) -> Iterator[Path]:
    """A file with the capture: `path` itself, or a copy of what a pipe carries (a named one, or
    standard input for -), which is removed afterwards."""
    if str(path) != "-" and not _is_pipe(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="labs-capture-", suffix=".pcap") as copy:
        try:
            if str(path) == "-":
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, copy)
        except OSError as error:
            raise Missing(
                f"the capture cannot be copied from the pipe: {_describe_failure(error)}"
            ) from None
        copy.flush()
        yield Path(copy.name)


def _is_pipe(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


Array = np.ndarray[Any, Any]
PIECE_BYTES = MIB
# Room before a piece for the rest of the previous one: a packet that continues in this piece.
BEFORE_BYTES = 1 << 17


class Pieces:
    """The pieces of a source, each in one of two buffers in turn.

    A file of one piece starts no thread. `ended` is whether the last piece was returned, and `done`
    the share of the file that was returned.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffers = [np.zeros(BEFORE_BYTES + PIECE_BYTES, np.uint8) for _ in range(2)]
        self._thread: ThreadPoolExecutor | None = None
        self._coming: Future[tuple[int, float]] | None = None
        self.ended = False
        self.done = 0.0

    def after(self, left: Array) -> tuple[Array, int, int]:
        """The next piece, preceded by the bytes `left` of the previous one: a buffer, the place of
        `left` in it, and the end of the piece."""
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
            try:
                self._coming = self._thread.submit(self._fill, other)
            except RuntimeError:
                raise MemoryError("no memory for a thread") from None
        return buffer, begin, end

    def _fill(self, buffer: Array) -> tuple[int, float]:
        """Read a piece; return its length, and the share of the file that was read."""
        place, count = memoryview(buffer)[BEFORE_BYTES:], 0  # type: ignore[arg-type]
        while count < PIECE_BYTES:
            length = self._source.readinto(place[count:])
            if length == 0:
                break
            count += length
        return count, self._source.done()

    def close(self) -> None:
        """End the thread and close the file."""
        try:
            if self._thread is not None:
                self._thread.shutdown()
        finally:
            self._source.close()
