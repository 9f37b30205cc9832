"""Whether the sandbox around this process lets a kernel boot, in each of its two modes.

A booted kernel runs the programs of its guest as processes of this machine and must receive their
system calls. With ptrace it traces them. With seccomp each of them filters its own system calls:
a call raises SIGSYS, and the handler passes it to the kernel. A sandbox (a container's seccomp
profile, a policy of the machine) may deny either. Both are tried by `sandbox_trial.py`.
"""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
from pathlib import Path

TRIAL = Path(__file__).resolve().with_name("sandbox_trial.py")
TRIAL_S = 30.0
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
ASK = (
    "Ask for a sandbox that allows one of them: Docker's default seccomp profile allows both "
    "(Kubernetes: seccompProfile type RuntimeDefault); for ptrace alone, docker run --cap-add "
    "SYS_PTRACE"
)


@functools.cache
def ptrace_refused() -> str | None:
    """Why a kernel cannot trace its guest's programs here, in one line; None if it can.

    Tries the requests of arch/um/os-Linux/start_up.c and skas/process.c on a child. Linux on x86-64
    only.
    """
    reason = _tried("ptrace")
    if reason and tracing_disabled():
        return f"{reason}; kernel.yama.ptrace_scope is 3, which only a reboot changes"
    return reason


@functools.cache
def seccomp_refused(stub_program: bool, /) -> str | None:
    """Why the programs of a guest cannot filter their own system calls here, in one line; None if
    they can.

    Tries the system calls of patches/seccomp-mode.patch, installs a filter, and checks that
    filtered calls raise SIGSYS and do not kill. With `stub_program` it also tries those of a kernel
    that starts each program of its guest from a stub program (arch/um/kernel/skas/stub_exe.c; the
    7.2 of SERIES). Linux on x86-64 only.
    """
    return _tried("seccomp-stub" if stub_program else "seccomp")


def tracing_disabled() -> bool:
    """Whether this machine has switched ptrace off until its next boot (Yama's scope 3)."""
    return YAMA.is_file() and YAMA.read_text("ascii").strip() == "3"


def both_refused(ptrace: str, seccomp: str) -> str:
    """The one line for a machine that denies both modes: what is denied, and what to ask for."""
    return f"no kernel can be booted here: {ptrace}; {seccomp}. {ASK}"


def _tried(mode: str) -> str | None:
    """Run one trial as a program; None if it passes, or the reason in one line."""
    argv = (sys.executable, "-I", "-S", str(TRIAL), mode)
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRIAL_S
        )
    except subprocess.TimeoutExpired:
        return f"the trial of {mode} did not end within {TRIAL_S:.0f} s"
    except OSError as error:
        return f"the trial of {mode} cannot be started: {(error.strerror or str(error)).lower()}"
    if done.returncode == 0:
        return None
    said = [line for line in done.stdout.splitlines() if line.strip()]
    last = said[-1] if said else mode
    if done.returncode < 0:
        return f"{last}: the process is killed by {signal.Signals(-done.returncode).name}"
    if done.stderr.strip():
        return f"{last}: {done.stderr.strip().splitlines()[-1]}"
    return last
