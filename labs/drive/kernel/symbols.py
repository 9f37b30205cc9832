"""Where a kernel program keeps its variables: addresses from the symbol table of its ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterable

MAGIC_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
SHT_SYMTAB = 2
# Elf64_Shdr and Elf64_Sym of elf.h.
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


def addresses(program: bytes, names: Iterable[str]) -> dict[str, int]:
    """The addresses of those of `names` that the symbol table of an ELF file has.

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
                # A linker may share the tail of another name, so the names are not searched for.
                wanted = {name.encode(): name for name in names}
                return {
                    wanted[name]: address
                    for offset, _, _, _, address, _ in SYMBOL.iter_unpack(program[at : at + length])
                    if (name := text[offset : text.find(b"\0", offset)]) in wanted
                }
    except (struct.error, IndexError):
        pass
    return {}
