"""The virtual testbed: the namespaces testbed inside a kernel that the run boots for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labs.drive.kernel.boot import INSIDE_CODE, boot

# -c, not -m: isolated mode keeps the working folder off the path.
ENTRY = ("import sys; sys.path.insert(0, sys.argv[1]); "
         "from labs.drive.guest import main; raise SystemExit(main(sys.argv[2:]))")


def argv(interpreter: Path, code: str, testbed: str) -> tuple[str, ...]:
    """The entry of a run, with the driving code at `code`, without site packages or settings."""
    return (str(interpreter), "-I", "-S", "-c", ENTRY, code, testbed)


def run(kernel: Path, *, interpreter: Path, staging: Path, code: Path, memory_mib: int, seed: int,
        cpu: int | None, on_line: Callable[[str], None]) -> None:
    """Boot `kernel` and make the run that `staging`/inputs.json asks for; as `kernel.boot.boot`."""
    boot(kernel, staging=staging, code=code, argv=argv(interpreter, INSIDE_CODE, "virtual"),
         memory_mib=memory_mib, seed=seed, cpu=cpu, on_line=on_line)
