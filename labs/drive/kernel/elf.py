"""The little of an ELF file that decides which shared libraries a program loads."""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
# Elf64_Phdr and Elf64_Dyn of elf.h.
SEGMENT = struct.Struct("<IIQQQQQQ")
DYNAMIC = struct.Struct("<qQ")
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB = 1, 5


@dataclass(frozen=True)
class Linking:
    """What an ELF file asks of the dynamic loader: the loader, None for a library or a static
    program, and the names of the libraries that it needs itself."""

    loader: str | None
    needed: tuple[str, ...]


def linking(content: bytes) -> Linking | None:
    """What a file asks of the dynamic loader; None if it is not a 64-bit little-endian ELF file."""
    if not content.startswith(MAGIC_64_LITTLE_ENDIAN):
        return None
    try:
        (table_at,) = struct.unpack_from("<Q", content, 0x20)
        size, count = struct.unpack_from("<HH", content, 0x36)
        segments = [SEGMENT.unpack_from(content, table_at + size * i) for i in range(count)]
        loaded = [one for one in segments if one[0] == PT_LOAD]
        loader, names = None, []
        for kind, _, at, _, _, length, _, _ in segments:
            if kind == PT_INTERP:
                loader = content[at : at + length].rstrip(b"\0").decode()
            if kind == PT_DYNAMIC:
                tags = list(DYNAMIC.iter_unpack(content[at : at + length - length % 16]))
                strings = next((value for tag, value in tags if tag == DT_STRTAB), 0)
                strings_at = _offset(strings, loaded)
                for tag, value in tags:
                    if tag == DT_NEEDED:
                        begin = strings_at + value
                        names.append(content[begin : content.index(b"\0", begin)].decode())
    except (struct.error, ValueError, UnicodeDecodeError):
        return None
    return Linking(loader, tuple(names))


def _offset(address: int, loaded: list[tuple[int, ...]]) -> int:
    """Where in the file stands what is loaded at an address."""
    for _, _, at, begin, _, length, _, _ in loaded:
        if begin <= address < begin + length:
            return at + address - begin
    raise ValueError("an address that no segment has")
