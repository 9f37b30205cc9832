"""Tests live in a folder a tier; a tier that cannot run here is skipped and says why.

    unit        nothing but Python
    virtual     a kernel built by `labs kernel build`
    namespaces  root; a test that shapes a link asks for its disciplines with `qdisc(...)`
    vm          two machines under Vagrant, only when LABS_TEST_VM=1
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# A job in the background of a shell ignores ^C, and so would all that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
DEFAULT_KERNEL = "6.1"
LINK = ("htb", "netem")
# A discipline is asked for as a test would use it; `tc` refuses what the kernel does not have.
QDISC_OPTIONS = {"netem": "delay 1ms", "tbf": "rate 1mbit burst 10kb latency 10ms"}


@cache
def no_kernel(version: str) -> str | None:
    """Why the virtual tests of this kernel cannot run here, or None."""
    from labs.errors import LabError
    from labs.kernel import store

    try:
        store.find(version)
    except LabError:
        return f"no kernel {version} is built: labs kernel build {version}"
    return None


@cache
def no_namespaces() -> str | None:
    """Why hosts cannot be laid on this machine itself, or None."""
    if os.geteuid() != 0:
        return "network namespaces of the machine need root"
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if not _in_a_namespace("true"):
        return "this machine does not let root make network namespaces"
    return None


@cache
def no_qdisc(name: str) -> str | None:
    """Why a link with this discipline cannot be laid on this machine, or None."""
    options = QDISC_OPTIONS.get(name, "")
    if _in_a_namespace(f"tc qdisc add dev lo root handle 1: {name} {options}"):
        return None
    return f"this machine's kernel has no {name}"


def _in_a_namespace(command: str) -> bool:
    argv = ["unshare", "--net", "sh", "-c", command]
    return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0


def no_vm() -> str | None:
    """Why no virtual machines are brought up, or None."""
    if os.environ.get("LABS_TEST_VM") != "1":
        return "virtual machines take minutes: LABS_TEST_VM=1 runs their tests"
    return None if shutil.which("vagrant") else "vagrant is not installed"


TIERS: dict[str, Callable[[], str | None]] = {
    "unit": lambda: None,
    "virtual": lambda: no_kernel(DEFAULT_KERNEL),
    "namespaces": no_namespaces,
    "vm": no_vm,
}


def pytest_report_header() -> list[str]:
    """A line a tier: what runs here, and what does not, and why."""
    lines = [f"{tier}: {f'skipped, {why}' if (why := why_not()) else 'runs'}"
             for tier, why_not in TIERS.items()]
    if no_namespaces() is None:
        lines += [f"namespaces: in part, {why}" for name in LINK if (why := no_qdisc(name))]
    return lines


def reasons(item: pytest.Item, tier: str) -> list[str]:
    """Everything that keeps a test from running here, in words for the summary."""
    found = [TIERS[tier]()]
    if found == [None]:
        for marker in item.iter_markers("kernel"):
            found += [no_kernel(version) for version in marker.args]
        for marker in item.iter_markers("qdisc"):
            found += [no_qdisc(name) for name in marker.args]
    return [reason for reason in found if reason is not None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the tier of its folder, and skip what cannot run here."""
    for item in items:
        tier = item.path.relative_to(HERE).parts[0]
        if tier not in TIERS:
            continue
        item.add_marker(tier)
        for reason in reasons(item, tier):
            item.add_marker(pytest.mark.skip(reason=reason))
