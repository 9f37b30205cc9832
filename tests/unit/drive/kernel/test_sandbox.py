"""Both modes of a booted kernel, tried under real seccomp filters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.kernel.sandbox import ASK, both_refused, ptrace_refused, seccomp_refused

ROOT = Path(__file__).parents[4]
PROFILE = str(ROOT / "tests" / "docker_profile.py")
ASKS = (
    "from labs.drive.kernel.sandbox import ptrace_refused, seccomp_refused; "
    "print(ptrace_refused(), seccomp_refused(True), sep='|')"
)
TRACED = "ptrace(PTRACE_TRACEME) is refused (EPERM)"


@pytest.fixture(autouse=True)
def _on_a_machine_that_denies_neither() -> None:
    if sys.platform != "linux" or ptrace_refused() or seccomp_refused(True):
        pytest.skip("this machine denies ptrace or seccomp itself")


def reasons(*argv: str) -> list[str]:
    """Why ptrace, and why seccomp, is refused where `argv` runs Python; "None" if it is not."""
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip().split("|")


@pytest.mark.parametrize(
    ("denied", "ptrace", "seccomp"),
    [
        ("", "None", "None"),
        ("ptrace,process_vm_readv,process_vm_writev,personality", TRACED, "None"),
        ("seccomp", "None", "seccomp(SECCOMP_SET_MODE_FILTER) is refused (EPERM)"),
        ("execveat", "None", "execveat is refused (EPERM)"),
        ("close_range", "None", "close_range is refused (EPERM)"),
        ("prctl", "None", "prctl(PR_SET_NO_NEW_PRIVS) is refused (EPERM)"),
        ("ptrace,seccomp", TRACED, "seccomp(SECCOMP_SET_MODE_FILTER) is refused (EPERM)"),
    ],
)
def test_a_denied_call_is_named_with_its_errno(denied: str, ptrace: str, seccomp: str) -> None:
    found = reasons(sys.executable, PROFILE, "--deny", denied, sys.executable, "-c", ASKS)
    assert found == [ptrace, seccomp]


@pytest.mark.parametrize(
    ("denied", "seccomp"),
    [("execveat,close_range", "None"), ("prctl", "prctl(PR_SET_NO_NEW_PRIVS) is refused (EPERM)")],
)
def test_a_kernel_without_a_stub_program_needs_fewer_calls(denied: str, seccomp: str) -> None:
    asks = ASKS.replace("seccomp_refused(True)", "seccomp_refused(False)")
    found = reasons(sys.executable, PROFILE, "--deny", denied, sys.executable, "-c", asks)
    assert found[1] == seccomp


@pytest.mark.parametrize(
    ("number", "ptrace", "seccomp"),
    [
        (165, "None", "mount: the process is killed by SIGSYS"),
        (101, "ptrace(PTRACE_TRACEME): the process is killed by SIGSYS", "None"),
        (317, "None", "seccomp(SECCOMP_SET_MODE_FILTER): the process is killed by SIGSYS"),
    ],
)
def test_a_call_that_kills_is_named(number: int, ptrace: str, seccomp: str) -> None:
    kills = (
        "from tests.docker_profile import ALLOW, JEQ, KILL, LD, NR, RET, install; "
        f"install([(LD, 0, 0, NR), (JEQ, 0, 1, {number}), (RET, 0, 0, KILL), (RET, 0, 0, ALLOW)]); "
    )
    assert reasons(sys.executable, "-c", kills + ASKS) == [ptrace, seccomp]


def test_what_is_traced_already_cannot_be_traced_again() -> None:
    """strace follows the trial, so its own child has a tracer: seccomp works all the same."""
    argv = ("strace", "-f", "-o", "/dev/null", sys.executable, "-c", ASKS)
    try:
        ptrace, seccomp = reasons(*argv)
    except FileNotFoundError:
        pytest.skip("strace is not installed")
    assert (ptrace, seccomp) == (TRACED, "None")


def test_the_answer_is_kept() -> None:
    ptrace_refused.cache_clear()
    assert ptrace_refused() == ptrace_refused()
    assert ptrace_refused.cache_info().misses == 1
    seccomp_refused.cache_clear()
    assert seccomp_refused(True) == seccomp_refused(True)
    assert seccomp_refused.cache_info().misses == 1


def test_both_refused_is_one_line_that_says_what_to_ask_for() -> None:
    line = both_refused(TRACED, "seccomp(SECCOMP_SET_MODE_FILTER) is refused (EPERM)")
    assert "\n" not in line and TRACED in line and line.endswith(ASK)
