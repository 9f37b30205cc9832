"""Booting a kernel with a script, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.kernel import boot as booting
from labs.drive.kernel.boot import boot
from labs.drive.kernel.watchdog import Limits
from labs.errors import RunFailed
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.roots import root_with

ROOT = Path(__file__).resolve().parents[2]
BOOT_ONE = Path(__file__).with_name("boot_one.py")
MEMORY_MIB = 256
# What the patches of a series must do is tested on each.
ON_EACH_KERNEL = pytest.mark.parametrize(
    "kernel",
    [
        DEFAULT_KERNEL,
        *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
    ],
    indirect=True,
)
SPIN = "echo about to spin; while :; do :; done"


def inside(kernel: Path, staging: Path, script: str, **more: object) -> list[str]:
    """Boot, run a script with bash, return the lines of the console."""
    lines: list[str] = []
    given = {"memory_mib": MEMORY_MIB, "on_line": lines.append, "code": ROOT, **more}
    given.setdefault("root", root_with("od", "grep", "yes"))
    boot(kernel, staging=staging, argv=("/bin/bash", "-c", script), **given)  # type: ignore[arg-type]
    return lines


def processes(memory: Path) -> list[int]:
    """The processes of kernels whose memory is in this folder."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.readlink(path / "cwd").startswith(str(memory)):
                    found.append(int(path.name))
    return found


def until(true: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def ends_badly(
    kernel: Path,
    memory: Path,
    staging: Path,
    script: str,
    *words: str,
    limits: Limits = booting.LIMITS,
) -> None:
    """Boot a script that fails, in one line that has these words, and leaves nothing."""
    with pytest.raises(RunFailed) as caught:
        inside(kernel, staging, script, limits=limits)
    said = str(caught.value)
    assert "\n" not in said and "\r" not in said
    for word in (*words, "console ends: "):
        assert word in said
    assert processes(memory) == []
    assert list(memory.iterdir()) == []
