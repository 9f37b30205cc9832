"""The virtual testbed: the namespaces testbed inside a kernel that the run boots for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labs.kernel.boot import INSIDE_CODE, boot

__all__ = ["ENTRY", "INSIDE_CODE", "argv", "run"]

# -c, not -m: isolated mode keeps the working folder off the path, and the code's is a constant.
ENTRY = (f"import sys; sys.path.insert(0, '{INSIDE_CODE}'); "
         "from labs.experiments.inside import main; raise SystemExit(main(sys.argv[1:]))")


def argv(interpreter: Path, testbed: str) -> tuple[str, ...]:
    """What runs inside: the entry of a run, without site packages or user settings."""
    return (str(interpreter), "-I", "-S", "-c", ENTRY, testbed)


def run(kernel: Path, *, interpreter: Path, staging: Path, code: Path, memory_mib: int, seed: int,
        cpu: int | None, on_line: Callable[[str], None]) -> None:
    """Boot `kernel` and make the run that `staging`/inputs.json asks for; as `kernel.boot.boot`."""
    boot(kernel, staging=staging, code=code, argv=argv(interpreter, "virtual"),
         memory_mib=memory_mib, seed=seed, cpu=cpu, on_line=on_line)
