"""Unpack a zip file from an untrusted source, such as a bundle that somebody sent.

Accepted are the plain zip files that `labs bundle` and common tools write: regular files, stored or
deflated, each described once, one after another from the first byte of the file to its directory.
Refused before anything is written are encryption, other compression, links and devices, names that
lead out of the folder or occur twice, members that overlap, content in front of the archive, and
the extensions for more than 65,535 members or 4 GiB (zip64), which no bundle needs.

Source: APPNOTE.TXT, .ZIP File Format Specification, 4.3 and 4.4.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from labs.drive.record.seal import MOST_FILE_BYTES
from labs.errors import Damaged
from labs.read.runs import packed_limits as limits

ENDING = ".zip"
END = struct.Struct("<4s4H2LH")
"""The end of the directory (4.3.16): the entries and bytes of the directory, its offset."""
END_MARK, ZIP64_MARK = b"PK\5\6", b"PK\6\7"
MOST_COMMENT_BYTES = 0xFFFF
LOCAL_HEADER_BYTES = 30
MOST_DIRECTORY_BYTES = 32 << 20
"""zipfile reads the directory into memory; 65,534 entries with names of 400 bytes."""
ZIP64_EXTRA = 1
ENCRYPTED, PATCHED, STRONG, MASKED = 1 << 0, 1 << 5, 1 << 6, 1 << 13
METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
# What zipfile raises for other content.
CUT = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)


def unzip(packed: Path, content: Path, allowed: int) -> None:
    """Unpack a zip file of at most `allowed` bytes of content below the folder `content`; Damaged
    for what this module refuses."""
    try:
        with packed.open("rb") as file:
            members = _members(file, packed)
            with zipfile.ZipFile(file) as parcel:
                _check(parcel, members, packed, allowed)
                for member in parcel.infolist():
                    if not member.is_dir():
                        with parcel.open(member) as inside:
                            limits.write_member(content, member.filename, inside)
    except CUT as error:
        raise Damaged(
            f"{packed} cannot be unpacked: it is truncated, was changed, or is not a zip file. "
            "Copy it again"
        ) from error


def _members(file: IO[bytes], packed: Path) -> int:
    """The number of members according to the end of the directory, which must end the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - END.size - MOST_COMMENT_BYTES - 20))
    tail = file.read()
    at = tail.rfind(END_MARK)
    if at < 0:
        raise zipfile.BadZipFile("no directory")
    _, disk, first_disk, here, members, length, offset, comment = END.unpack_from(tail, at)
    end = size - len(tail) + at
    if ZIP64_MARK in tail[max(0, at - 20) : at] or 0xFFFFFFFF in (length, offset):
        raise limits.too_large(packed)
    if members >= 0xFFFF or members > limits.MOST_MEMBERS or length > MOST_DIRECTORY_BYTES:
        raise limits.too_large(packed)
    if (disk, first_disk, here) != (0, 0, members):
        raise zipfile.BadZipFile("it is a part of several files")
    if offset + length != end or end + END.size + comment != size:
        raise zipfile.BadZipFile("there is content that no member has")
    return int(members)


def _check(parcel: zipfile.ZipFile, members: int, packed: Path, allowed: int) -> None:
    """Damaged if a member is anything but a plain file, or if a limit is exceeded."""
    listed = parcel.infolist()
    if len(listed) != members:
        raise zipfile.BadZipFile("the directory has another number of members than it says")
    largest = max((member.file_size for member in listed), default=0)
    if sum(member.file_size for member in listed) > allowed or largest > MOST_FILE_BYTES:
        raise limits.too_large(packed)
    for member in listed:
        if not _is_plain(member):
            raise limits.refused(member.orig_filename)
    names = [member.filename.rstrip("/") for member in listed]
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise Damaged(f"the packed file contains {twice!r} twice. Pack it again")
    if any(_overlaps(listed, parcel.start_dir)):
        raise zipfile.BadZipFile("members overlap, or there is content between them")


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a regular file, or a folder, that can be unpacked as it is."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    return (
        member.filename == member.orig_filename
        and bool(PurePosixPath(member.filename).parts)
        and limits.is_inside(PurePosixPath(member.filename))
        and not member.flag_bits & (ENCRYPTED | PATCHED | STRONG | MASKED)
        and member.compress_type in METHODS
        and kind in ((0, stat.S_IFDIR) if member.is_dir() else (0, stat.S_IFREG))
        and not (member.is_dir() and member.file_size)
        and ZIP64_EXTRA not in _extras(member.extra)
    )


def _extras(extra: bytes) -> Iterator[int]:
    """The identifiers of the extra fields of a member (4.5.1)."""
    while len(extra) >= 4:
        identifier, length = struct.unpack_from("<2H", extra)
        yield identifier
        extra = extra[4 + length :]


def _overlaps(listed: Sequence[zipfile.ZipInfo], directory: int) -> Iterator[bool]:
    """For each member, whether it begins before the end of the one in front of it; the last item
    is that of the directory. The first member begins with the file."""
    end = 0
    for member in sorted(listed, key=lambda member: member.header_offset):
        yield member.header_offset < end or (end == 0 and member.header_offset != 0)
        end = member.header_offset + LOCAL_HEADER_BYTES + member.compress_size
    yield directory < end
