"""Translates and compiles the library: `python -m labs.read.native.build`, in `make ready`.

    --targets linux-x86_64,...   with zig (the package ziglang) for these systems, for wheels
    --into FOLDER                where these libraries are written
    --c FOLDER                   only write the C files

Without a compiler it says so in one line and ends: Python then performs the same source.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labs.errors import Missing
from labs.read.native.compiled import NATIVE, library_file, sources_digest
from labs.read.native.objects import program_symbol, referred
from labs.read.native.to_c import Program, passes

PASSES = (
    *("capture.segments", "capture.pcap", "capture.connection_tracking", "capture.tcp_marks"),
    *("flows.connection_state", "flows.limits", "flows.rtt"),
)
"""The modules of labs.read with functions that are `native`."""
FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fPIC")
TARGETS = {
    "linux-x86_64": "x86_64-linux-gnu.2.17",
    "linux-arm64": "aarch64-linux-gnu.2.17",
    "darwin-x86_64": "x86_64-macos",
    "darwin-arm64": "aarch64-macos",
    "win32-x86_64": "x86_64-windows-gnu",
}
"""The systems of wheels, as `library_file` and zig name them."""


def sources() -> dict[str, str]:
    """The C files by name. TypeError for what is not restricted Python."""
    for module in PASSES:
        importlib.import_module(f"labs.read.{module}")
    made = {"passes": passes(NATIVE.values())}
    made |= {
        symbol: program.method_text(owner, method, symbol)
        for symbol, program, owner, method in _programs()
    }
    return made | {"library": library_text(sources_digest())}


def library_text(digest: str) -> str:
    """What a library has besides its functions."""
    return (
        f'#include <stdlib.h>\nconst char sources[] = "{digest}";\n'
        "void release(void *at) { free(at); }\n"
    )


def _programs() -> Iterator[tuple[str, Program, type, str]]:
    """The simulation of a transfer, with each kind of sender, receiver and writer."""
    from labs.read.theory.bulk_simulation import samples  # noqa: PLC0415  only for the build

    for simulation in samples():
        objects = referred(simulation)
        method = "_events"
        yield program_symbol(objects, method), Program(objects), type(simulation), method


def build(file: Path, texts: dict[str, str], compiler: tuple[str, ...]) -> None:
    """Compile the C files to a library, whole or not at all. Missing if that fails."""
    with tempfile.TemporaryDirectory(prefix="labs-compiled-") as name:
        folder = Path(name)

        def compiled(item: tuple[str, str]) -> Path:
            source = folder / f"{item[0]}.c"
            source.write_text(item[1])
            _perform(*compiler, "-c", str(source), "-o", str(source.with_suffix(".o")))
            return source.with_suffix(".o")

        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            parts = [str(part) for part in threads.map(compiled, texts.items())]
        made = folder / file.name
        _perform(*compiler, "-shared", *parts, "-o", str(made), "-lm")
        beside = file.with_name(f"{file.name}.{os.getpid()}")
        shutil.copyfile(made, beside)
        beside.replace(file)


def _perform(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise Missing(f"{argv[0]} failed: {errors[0].strip()}")


def is_fresh(file: Path) -> bool:
    """Whether a library is of these sources."""
    return file.exists() and sources_digest().encode() in file.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m labs.read.native.build")
    parser.add_argument("--targets", default="")
    parser.add_argument("--into", type=Path, default=Path("build"))
    parser.add_argument("--c", type=Path)
    args = parser.parse_args()
    if args.c:
        args.c.mkdir(parents=True, exist_ok=True)
        for name, text in sources().items():
            (args.c / f"{name}.c").write_text(text)
        return 0
    zig = (sys.executable, "-m", "ziglang", "cc")
    targets = [target for target in args.targets.split(",") if target]
    wanted: list[tuple[Path, tuple[str, ...]]] = [
        (
            args.into / library_file(*target.split("-", 1)).name,
            (*zig, "-target", TARGETS[target], "-s"),
        )
        for target in targets
    ]
    if not targets:
        if is_fresh(library_file()):
            return 0
        if shutil.which("cc") is None:
            print("without a C compiler (cc) captures are read slowly", file=sys.stderr)
            return 0
        wanted = [(library_file(), ("cc",))]
    try:
        texts = sources()
        for file, compiler in wanted:
            build(file, texts, (*compiler, *FLAGS))
    except OSError as error:
        print(f"the compiled library cannot be written ({error.strerror})", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
