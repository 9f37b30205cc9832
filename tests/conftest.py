"""Tests live in one folder per tier; a tier that cannot run here is skipped and says why.

    unit        nothing but Python
    virtual     a kernel built by `labs kernel build`
    namespaces  root; a test that shapes a link asks for its disciplines with `qdisc(...)`
    vm          two machines under Vagrant, only when LABS_TEST_VM=1
    browser     chromium, and Playwright to drive it
    course      nbgrader and JupyterHub, only when LABS_TEST_COURSE=1

Continuous integration (CI is set) must not pass because a tier was skipped. There a tier that
should run and cannot is an error: virtual and browser on Linux x86-64, namespaces for root.
LABS_REQUIRE names other tiers, such as LABS_REQUIRE=virtual, with or without CI. A program that a
test of such a tier asks for with `program(...)` must be there too. Single tests may be skipped all
the same: their kernel has no sources here, or the machine's own kernel lacks a discipline.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chromium import no_browser

HERE = Path(__file__).parent
# A background job of a shell ignores ^C, and so would the processes that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# By default an example that takes more than 200 ms is a failure, and on a busy machine many do.
settings.register_profile("labs", deadline=None)
settings.load_profile("labs")
DEFAULT_KERNEL = "6.1"
LINK = ("htb", "netem")
# A discipline is tried as a test would use it; `tc` refuses what the kernel lacks.
QDISC_OPTIONS = {"netem": "delay 1ms", "tbf": "rate 1mbit burst 10kb latency 10ms"}


LONGEST = (
    *("virtual/test_notebook_sentences.py", "browser/test_pages.py"),
    *("unit/project/test_notebooks_twice.py", "virtual/test_flows.py"),
    *("virtual/test_batch.py", "virtual/test_boot_modes.py", "virtual/test_guest_files.py"),
    *("virtual/test_cluster.py", "virtual/test_repeat.py", "unit/cli/test_claims.py"),
    *("virtual/test_buffers.py", "virtual/test_windows.py", "virtual/test_shared_links.py"),
    *("virtual/test_nagle.py", "virtual/test_sweeps.py", "virtual/test_boot_ends.py"),
    *("virtual/test_boot_inside.py", "virtual/test_boot_escape.py", "virtual/test_verify.py"),
    *("virtual/test_kit.py", "unit/read/capture/test_reader.py"),
    *("unit/project/test_wheel.py", "virtual/test_contract.py", "virtual/test_bbr_draft.py"),
    *("virtual/test_watchdog.py", "virtual/test_signals.py", "virtual/test_recipes.py"),
    *("browser/test_jupyterlab.py", "virtual/test_launch.py", "virtual/test_kernel.py"),
    *("virtual/test_boot_hosts.py", "virtual/test_refusals.py", "unit/publish/test_verify.py"),
    *("unit/read/capture/test_mutated.py", "virtual/test_advice.py", "virtual/test_planted.py"),
    *("virtual/test_layouts.py", "virtual/test_short_queues.py"),
)
"""The files whose tests take longest, the longest first: a worker of pytest-xdist gets whole files,
and one that began a long file last would finish long after the others."""


@cache
def no_kernel(version: str) -> str | None:
    """Why the virtual tests of this kernel cannot run here, or None."""
    from labs.drive.kernel import store
    from labs.errors import LabError

    try:
        store.find(version)
    except LabError:
        return f"no kernel {version} is built: labs kernel build {version}"
    return None


@cache
def no_namespaces() -> str | None:
    """Why hosts cannot be set up on this machine itself, or None."""
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
    """Why a link with this discipline cannot be set up on this machine, or None."""
    options = QDISC_OPTIONS.get(name, "")
    if _in_a_namespace(f"tc qdisc add dev lo root handle 1: {name} {options}"):
        return None
    return f"this machine's kernel has no {name}"


def no_program(name: str) -> str | None:
    """Why a test that starts this program cannot run here, or None."""
    return None if shutil.which(name) else f"{name} is not installed: setup/system.sh test"


def _in_a_namespace(command: str) -> bool:
    argv = ["unshare", "--net", "sh", "-c", command]
    return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0


def no_vm() -> str | None:
    """Why no virtual machines are started, or None."""
    if os.environ.get("LABS_TEST_VM") != "1":
        return "virtual machines take minutes: LABS_TEST_VM=1 runs their tests"
    return None if shutil.which("vagrant") else "vagrant is not installed"


def no_course() -> str | None:
    """Why nothing is graded by nbgrader and no hub is started, or None."""
    if os.environ.get("LABS_TEST_COURSE") != "1":
        return "nbgrader and JupyterHub have an environment of their own: make test-course"
    missing = [one for one in ("nbgrader", "jupyterhub") if find_spec(one) is None]
    return f"{' and '.join(missing)} not installed: make test-course" if missing else None


TIERS: dict[str, Callable[[], str | None]] = {
    "unit": lambda: None,
    "virtual": lambda: no_kernel(DEFAULT_KERNEL),
    "namespaces": no_namespaces,
    "vm": no_vm,
    "browser": cache(no_browser),
    "course": no_course,
}


def required() -> tuple[str, ...]:
    """The tiers that must run. UsageError if LABS_REQUIRE names one that does not exist."""
    named = os.environ.get("LABS_REQUIRE")
    if named is not None:
        tiers = tuple(name.strip() for name in named.split(",") if name.strip())
        if unknown := [name for name in tiers if name not in TIERS]:
            raise pytest.UsageError(
                f"LABS_REQUIRE names no tier: {', '.join(unknown)}; "
                f"allowed: {', '.join(TIERS)}, separated by commas"
            )
        return tiers
    if not os.environ.get("CI"):
        return ()
    linux = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    return (
        "unit",
        *(("virtual", "browser") if linux else ()),
        *(("namespaces",) if linux and os.geteuid() == 0 else ()),
    )


def check_required(tiers: Iterable[str]) -> None:
    """UsageError if one of these tiers must run and cannot."""
    wanted = required()
    for tier in tiers:
        if tier in wanted and (why := TIERS[tier]()):
            raise pytest.UsageError(
                f"the tier {tier} must run here and cannot: {why}. Fix that, or name the tiers "
                f"that must run: LABS_REQUIRE={','.join(one for one in wanted if one != tier)}"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="write tests/golden again")


def pytest_configure(config: pytest.Config) -> None:
    """The compiled library shall be of the sources that are tested."""
    if not hasattr(config, "workerinput"):
        subprocess.run(
            [sys.executable, "-m", "labs.read.native.build"], cwd=HERE.parent, check=True
        )


def pytest_report_header() -> list[str]:
    """One line per tier: whether it runs here, and if not, why."""
    lines = [
        f"{tier}: {f'skipped, {why}' if (why := why_not()) else 'runs'}"
        for tier, why_not in TIERS.items()
    ]
    if no_namespaces() is None:
        lines += [f"namespaces: in part, {why}" for name in LINK if (why := no_qdisc(name))]
    return lines


def reasons(item: pytest.Item, tier: str) -> list[str]:
    """The reasons why a test cannot run here, for the summary."""
    found = [TIERS[tier]()]
    if found == [None]:
        for marker in item.iter_markers("kernel"):
            found += [no_kernel(version) for version in marker.args]
        for marker in item.iter_markers("qdisc"):
            found += [no_qdisc(name) for name in marker.args]
        found += [no_program(name) for name in programs(item)]
    return [reason for reason in found if reason is not None]


def programs(item: pytest.Item) -> list[str]:
    """The programs that a test asks for."""
    return [name for marker in item.iter_markers("program") for name in marker.args]


def check_programs(asked: Iterable[tuple[str, str]]) -> None:
    """UsageError if a program, asked for by a test of a tier that must run, is not here."""
    wanted = required()
    for tier, name in asked:
        if tier in wanted and (why := no_program(name)):
            raise pytest.UsageError(f"the tier {tier} must run here and cannot: {why}")


def place(item: pytest.Item) -> int:
    """The place of a test's file among those that begin first."""
    name = item.path.relative_to(HERE).as_posix()
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the tier of its folder, skip what cannot run here, and let the files that
    take longest begin first; the order within a file, and of all others, stays."""
    items.sort(key=place)
    tiers = {item: item.path.relative_to(HERE).parts[0] for item in items}
    check_required(sorted(set(tiers.values()) & TIERS.keys()))
    check_programs((tier, name) for item, tier in tiers.items() for name in programs(item))
    for item, tier in tiers.items():
        if tier not in TIERS:
            continue
        item.add_marker(tier)
        for reason in reasons(item, tier):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that holds nothing else."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
