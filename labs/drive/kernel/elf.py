"""Reads from ELF files which shared libraries they need and where their symbols are."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAGIC_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
# Elf64_Phdr, Elf64_Dyn, Elf64_Shdr and Elf64_Sym of elf.h.
SEGMENT = struct.Struct("<IIQQQQQQ")
DYNAMIC = struct.Struct("<qQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SHT_SYMTAB = 2
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB = 1, 5


@dataclass(frozen=True)
class Linking:
    """How an ELF file is linked: its dynamic loader (None for a library or a static program), and
    the names of the libraries that it needs directly."""

    loader: str | None
    needed: tuple[str, ...]


def linking(content: bytes) -> Linking | None:
    """How a file is linked; None if it is not a 64-bit little-endian ELF file."""
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
    """The file offset of the content that is loaded at an address."""
    for _, _, at, begin, _, length, _, _ in loaded:
        if begin <= address < begin + length:
            return at + address - begin
    raise ValueError("no segment contains this address")


def _places(text: bytes, name: bytes) -> Iterator[int]:
    """The offsets at which a table of strings has this name."""
    at = -1
    while (at := text.find(name + b"\0", at + 1)) >= 0:
        yield at


def addresses(program: bytes, names: Iterable[str]) -> dict[str, int]:
    """The addresses of those of `names` that are in the symbol table of an ELF file.

    Empty if `program` is not a 64-bit little-endian ELF file, or is stripped.
    """
    if not program.startswith(MAGIC_64_LITTLE_ENDIAN):
        return {}
    try:
        (table_at,) = struct.unpack_from("<Q", program, 0x28)
        size, count = struct.unpack_from("<HH", program, 0x3A)
        sections = [SECTION.unpack_from(program, table_at + size * i) for i in range(count)]
        for _, kind, _, _, at, length, strings, _, _, _ in sections:
            if kind == SHT_SYMTAB:
                text_at, text_length = sections[strings][4:6]
                text = program[text_at : text_at + text_length]
                # A symbol names the offset of its name, which may be the tail of a longer one.
                places = {place: name for name in names for place in _places(text, name.encode())}
                table = program[at : at + length // SYMBOL.size * SYMBOL.size]
                offsets = memoryview(table).cast("I")[:: SYMBOL.size // 4].tolist()
                return {
                    places[offset]: SYMBOL.unpack_from(table, SYMBOL.size * number)[4]
                    for number, offset in enumerate(offsets)
                    if offset in places
                }
    except (struct.error, IndexError):
        pass
    return {}
