"""How boots end, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import boot as booting
from labs.drive.kernel.boot import EITHER, LEFTOVER
from labs.drive.kernel.watchdog import Limits
from labs.errors import Missing, RunFailed
from tests.virtual.booting import (
    BOOT_ONE,
    MEMORY_MIB,
    ON_EACH_KERNEL,
    ROOT,
    SPIN,
    ends_badly,
    inside,
    processes,
    until,
)
from tests.virtual.roots import root_with

PANIC = (
    "echo about to panic; echo 1 >/proc/sys/vm/panic_on_oom; "
    "mount -o remount,size=1g /tmp; cat /dev/zero >/tmp/large"
)
# RB_HALT_SYSTEM of reboot(2): the program `halt` comes with an init system, which need not be here.
HALT = "/usr/bin/python3 -ISc 'import ctypes; ctypes.CDLL(None).reboot(0xcdef0123)'"
ENDINGS = {
    "an exit code": ("echo some words; exit 3", "exit code 3", "some words"),
    "a signal": ("echo some words; kill -KILL $$", "exit code 137", "some words"),
    "a missing program": ("exec no-such-program", "exit code 127", "no-such-program"),
    "a panic": (PANIC, "ended without a result", "Kernel panic"),
    "a halt": (f"echo good night; {HALT}", "ended without a result", "good night"),
    "a flood": ("yes too many words", "printed more than 1 MiB", "too many words"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_boot_reports_a_bad_end_in_one_line(
    kernel: Path, memory: Path, staging: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booting, "CONSOLE_BYTES", 1 << 20)
    script, *words = ENDINGS[ending]
    ends_badly(kernel, memory, staging, script, *words)


@ON_EACH_KERNEL
@pytest.mark.parametrize("mode", EITHER)
def test_a_program_that_needs_more_mappings_than_this_machine_allows_is_ended(
    kernel: Path, memory: Path, staging: Path, mode: str
) -> None:
    """A page of zeros is a mapping of its own. A fault that the host refuses must not be repeated
    (patches/whole-blocks.patch)."""
    pages = int(Path("/proc/sys/vm/max_map_count").read_text()) + 1000
    reads = (
        "import mmap; flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000; "  # MAP_NORESERVE
        f"m = mmap.mmap(-1, {pages} << 13, flags); "
        f'[m[at << 13] for at in range({pages})]; print("it read all")'
    )
    lines = inside(
        kernel,
        staging,
        f"/usr/bin/python3 -ISc '{reads}'; echo it ended with $?",
        modes=(mode,),
        limits=Limits(spin_cpu_s=20.0),
    )
    assert "it read all" not in lines
    assert {"it ended with 137", "it ended with 139"} & set(lines)  # SIGKILL or SIGSEGV


def test_boot_of_a_program_that_is_no_kernel(memory: Path, staging: Path, tmp_path: Path) -> None:
    """What is started instead of a kernel leaves its words."""
    (tmp_path / "linux").write_text("#!/bin/sh\necho I am no kernel\n")
    (tmp_path / "linux").chmod(0o755)
    with pytest.raises(RunFailed, match=r"exit code was 0; .* The console ends: I am no kernel"):
        inside(tmp_path / "linux", staging, "true")
    (tmp_path / "linux").chmod(0o644)
    with pytest.raises(RunFailed, match="without a result: its exit code was 126"):
        inside(tmp_path / "linux", staging, "true")
    assert list(memory.iterdir()) == []


def test_boot_says_that_the_folder_of_the_memory_is_full(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """Something else fills the folder during a run: the host then ends the kernel by SIGBUS.

    The guest waits for that in real time, because a sleep takes none: it looks for a file.
    """
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", "size=300m", "none", str(memory)))
    if mounted.returncode:
        pytest.skip("a file system can be mounted only by root")

    def fill(line: str) -> None:
        if line == "ready":
            with contextlib.suppress(OSError), (memory / "other").open("wb") as other:
                while True:
                    other.write(bytes(1 << 20))
            (staging / "full").touch()

    script = "echo ready; until [ -e full ]; do :; done; yes | head -c 150m >/tmp/x"
    try:
        with pytest.raises(RunFailed, match="which holds the guest's memory, is full"):
            inside(kernel, staging, script, on_line=fill)
    finally:
        subprocess.run(("umount", str(memory)), check=True)


def test_boot_names_a_limit_that_the_kernel_reached(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """The memory's file reaches the limit of file size, which only this child has."""
    done = subprocess.run(
        (
            *("prlimit", f"--fsize={100 << 20}", "--core=0"),
            *(sys.executable, str(BOOT_ONE), str(kernel), str(root_with()), str(staging)),
            *(str(ROOT), str(MEMORY_MIB), "/bin/true"),
        ),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode and "SIGXFSZ ended it" in done.stdout
    assert "limits: ulimit -f 100 MiB" in done.stdout
    assert list(memory.iterdir()) == []


def test_boot_starts_nothing_without_room(kernel: Path, memory: Path, staging: Path) -> None:
    with pytest.raises(Missing, match=r"guests: \d+ MiB free, 1073741824 MiB needed"):
        inside(kernel, staging, "true", memory_mib=1 << 30)
    assert list(memory.iterdir()) == []


def test_boot_interrupted_ends_the_kernel(kernel: Path, memory: Path, staging: Path) -> None:
    def on_line(line: str) -> None:
        if line == "about to spin":
            assert processes(memory)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside(kernel, staging, SPIN, on_line=on_line)
    assert processes(memory) == []
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_boot_ends_with_its_owner_however_that_ends(
    kernel: Path, memory: Path, staging: Path, number: int
) -> None:
    """What it leaves in the memory's folder the next boot clears."""
    with owned(kernel, staging, SPIN, b"about to spin") as owner:
        assert processes(memory)
        owner.send_signal(number)
        owner.wait()
    until(lambda: processes(memory) == [], "the kernel still runs")
    if number == signal.SIGKILL:
        assert len(list(memory.glob(LEFTOVER + "*"))) == 1
    inside(kernel, staging, "true")
    assert list(memory.iterdir()) == []


@contextlib.contextmanager
def owned(
    kernel: Path, staging: Path, script: str, line: bytes
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that boots a kernel, once the console shows a line; killed at the end."""
    owner = subprocess.Popen(
        (
            sys.executable,
            str(BOOT_ONE),
            str(kernel),
            str(root_with()),
            str(staging),
            str(ROOT),
            str(MEMORY_MIB),
            "/bin/bash",
            "-c",
            script,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert owner.stdout is not None
        with owner.stdout as lines:
            assert any(one.strip() == line for one in lines)
            yield owner
    finally:
        owner.kill()
        owner.wait()


@ON_EACH_KERNEL
def test_boot_leaves_no_program_after_its_kernel(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path]
) -> None:
    """The kernel alone is killed while its owner can do nothing: a program that tries to write
    into the host's files would now do so, were it not killed with the kernel."""
    there = canaries[1].parent
    script = f"echo ready; i=0; while :; do i=$((i+1)); echo x >{there}/$i; done 2>/dev/null"
    with owned(kernel, staging, script, b"ready") as owner:
        programs = [
            pid for pid in processes(memory) if Path(f"/proc/{pid}/comm").read_text() != "sh\n"
        ]
        assert len(programs) > 1
        owner.send_signal(signal.SIGSTOP)
        os.kill(min(programs), signal.SIGKILL)
        until(lambda: not set(programs) & set(processes(memory)), "a program runs on")
        assert list(there.iterdir()) == [canaries[1]]


def test_boot_leaves_another_alone(
    kernel: Path, memory: Path, staging: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()

    def on_line(line: str) -> None:
        if line == "first":
            inside(kernel, other, "echo second >here")

    inside(kernel, staging, "echo first; sleep 1; echo third >here", on_line=on_line)
    assert (staging / "here").read_text() == "third\n"
    assert (other / "here").read_text() == "second\n"
