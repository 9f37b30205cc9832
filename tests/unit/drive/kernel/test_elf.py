"""ELF files: what one needs, held to what the dynamic loader and readelf say of real ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.elf import addresses, linking

PROGRAMS = [
    Path(found) for name in ("ip", "sh", "python3") if (found := shutil.which(name, path=PATH))
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_linking_says_what_readelf_says(program: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf (binutils) is not installed")
    done = subprocess.run(("readelf", "-d", "-l", program), capture_output=True, text=True)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)
    (loader,) = re.findall(r"interpreter: (.+)\]", done.stdout)
    found = linking(program.read_bytes())
    assert found is not None
    assert (found.loader, list(found.needed)) == (loader, needed)


def test_linking_of_a_library_has_no_loader() -> None:
    maps = Path("/proc/self/maps").read_text()
    libm = next(line.split()[-1] for line in maps.splitlines() if "/libm.so" in line)
    found = linking(Path(libm).read_bytes())
    assert found is not None and found.loader is None and "libc.so.6" in found.needed


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(100)])
def test_linking_of_what_is_no_elf_file_is_none(content: bytes) -> None:
    assert linking(content) is None


def test_linking_of_every_truncation_of_a_program_raises_nothing() -> None:
    program = PROGRAMS[0].read_bytes()
    for length in (*range(0, 4096, 7), *range(4096, len(program), 40_009)):
        linking(program[:length])


def test_addresses_are_empty_for_what_has_no_symbols() -> None:
    assert addresses(b"#!/bin/sh\n", ("jiffies",)) == {}
    program = Path("/bin/sh").read_bytes()
    for length in (5, 0x28, 0x3F, 1000, len(program) - 64, len(program)):
        assert addresses(program[:length], ("time_travel_time",)) == {}
