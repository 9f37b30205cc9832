"""The lab `stack` on two machines: interrupt delay and queues of real drivers, and kill -9.

Interrupt delay needs a server with e1000e, several queues one with virtio and two CPUs:

    LAB_NIC=e1000e LAB_CPUS=2 setup/test-vm.sh tests/vm/test_stack.py
    LAB_QUEUES=2 LAB_CPUS=2 setup/test-vm.sh tests/vm/test_stack.py
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from labs.drive.testbed.vagrant import DEVICE
from labs.drive.testbed.vagrant_up import NAMES
from tests.vm.conftest import On
from tests.vm.test_buffers import answer, labs

pytestmark = pytest.mark.timeout(1800)
ONCE = ("run", "stack", "--testbed", "vagrant", "--repetitions-min", "1", "--repetitions-max", "1")
LOADED_S = 180
RESTORED_S = 60
# QEMU postpones an interrupt until the delay since the previous one has passed, but QEMU 7.2 sends
# the next one after a postponed one at once (hw/net/e1000e_core.c, e1000e_postpone_interrupt and
# e1000e_intrmgr_on_msix_throttling_timer). With one connection each request is an interrupt of its
# own, and a round trip takes about 0.8 ms: the recorded runs have 2.37 times the median.
DELAY_US, LONGER = 2000, 1.5


@pytest.fixture(scope="module")
def driver(on: On) -> str:
    found = re.search(r"driver: (\S+)", on("server", "/usr/sbin/ethtool", "-i", DEVICE))
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def queues(on: On) -> int:
    """The queues that the device of the server can have."""
    text = on("server", "/usr/sbin/ethtool", "-l", DEVICE)
    found = re.search(r"Combined:\s+(\d+)", text)
    return int(found[1]) if found else 1


def by_condition(said: dict[str, Any], factor: str) -> dict[str, dict[str, Any]]:
    """The settings of a study as read back, by condition."""
    return {one["condition"]: one for one in said["settings"] if one["factor"] == factor}


def test_run_keeps_the_audit_of_both_machines(driver: str, tmp_path: Path) -> None:
    said = answer(*ONCE, "--only", "polling-c1,polling-rules-100-c1", "--into", str(tmp_path))
    assert by_condition(said, "rules")["polling-rules-100-c1"]["effective"] is True
    for folder in tmp_path.glob("stack-*"):
        audited = json.loads((folder / "host.json").read_text())["audit"]
        assert set(audited) == set(NAMES)
        tools = json.loads((folder / "run.json").read_text())["tools"]
        assert f", {driver}, receive queues: " in tools["server.machine"]
        assert tools["server.wrk"].startswith("wrk ") and "server.gcc" not in tools


def test_delay_raises_the_latency_of_one_connection(driver: str, tmp_path: Path) -> None:
    if driver != "e1000e":
        pytest.skip(f"the device of the server is a {driver}; its interrupts cannot be delayed")
    names = ("rx-usecs-0-c1", f"rx-usecs-{DELAY_US}-c1")
    said = answer(*ONCE, "--only", ",".join(names), "--into", str(tmp_path))
    found = by_condition(said, "rx_usecs")
    assert [(found[name]["found"], found[name]["effective"]) for name in names] == [
        ("0", True),
        (str(DELAY_US), True),
    ]
    rows = {row["condition"]: row for row in said["results"]}
    without, delayed = (rows[name] for name in names)
    assert delayed["requests_s"] < without["requests_s"]
    assert delayed["p50_us"] > LONGER * without["p50_us"]


def test_delay_without_the_knob_has_no_effect(driver: str, tmp_path: Path) -> None:
    if driver == "e1000e":
        pytest.skip("the interrupts of an e1000e can be delayed")
    said = answer(*ONCE, "--only", "rx-usecs-500-c1", "--into", str(tmp_path))
    found = by_condition(said, "rx_usecs")["rx-usecs-500-c1"]
    assert found["effective"] is False and found["because"]


def test_queues_share_the_interrupts_of_many_connections(
    queues: int, on: On, tmp_path: Path
) -> None:
    """Each connection belongs to one queue by its hash, so with 100 connections both have some;
    with one queue the second has no interrupt."""
    if queues < 2:
        pytest.skip("the device of the server has one queue")
    said = answer(*ONCE, "--only", "gro-many,queues-2-many", "--into", str(tmp_path))
    found = by_condition(said, "queues")
    device = Path(on("server", "readlink", f"/sys/class/net/{DEVICE}/device").strip()).name
    for name, expected in (("gro-many", 1), ("queues-2-many", 2)):
        (folder,) = tmp_path.glob(f"stack-{name}-*")
        before, after = (interrupts(folder, device, when) for when in ("before", "after"))
        grown = [queue for queue, count in after.items() if count > before[queue]]
        assert (len(grown), found[name]["found"]) == (expected, str(expected)), (before, after)


def interrupts(folder: Path, device: str, when: str) -> dict[str, int]:
    """The interrupts of each receive queue of a device of the server, on all CPUs."""
    text = (folder / "server" / f"interrupts-{when}.txt").read_text()
    rows = [line.split() for line in text.splitlines() if f" {device}-input" in line]
    return {row[-1]: sum(int(word) for word in row[1:] if word.isdigit()) for row in rows}


Left = dict[str, dict[str, str]]
"""What a run could leave, by machine and command."""


def settings(name: str, on: On) -> dict[str, str]:
    """What a run could leave on a machine, as its tools print it."""
    of_files = (
        f"grep -H . /sys/class/net/{DEVICE}/napi_defer_hard_irqs "
        f"/sys/class/net/{DEVICE}/gro_flush_timeout /sys/class/net/{DEVICE}/queues/rx-*/rps_cpus"
    )
    commands = {
        **{word: f"ethtool {word} {DEVICE}" for word in ("-c", "-k", "-l")},
        "files": of_files,
        "interrupts": "grep -H . /proc/irq/*/smp_affinity_list",
        "tables": "nft list tables",
        "programs": "pgrep -x 'wrk|nginx|epoll_server.*'",
    }
    return {what: on(name, "sudo", "sh", "-c", line) for what, line in commands.items()}


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        ("polling-rules-100-c1", {"tables"}),
        ("irqs-deferred-c1", {"files"}),
        ("irq-same-c1", {"interrupts"}),
        ("rx-usecs-500-c1", {"-c"}),
        ("offloads-off-c1", {"-k"}),
    ],
)
def test_kill_9_leaves_no_setting(
    condition: str, changes: set[str], driver: str, on: On, tmp_path: Path
) -> None:
    """The machines restore themselves, and the next run finds and leaves them as they were."""
    if condition.startswith("rx-usecs") and driver != "e1000e":
        pytest.skip(f"the device of the server is a {driver}; its interrupts cannot be delayed")
    before = {name: settings(name, on) for name in NAMES}
    process = labs(*ONCE, "--only", condition, "--duration-s", "60", "--into", str(tmp_path))
    until_loaded(process, on)
    during = settings("server", on)
    assert changes <= {what for what in during if during[what] != before["server"][what]}
    stopped = (process.pid, *children(process.pid))
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that none ends by itself
        for pid in stopped:
            os.kill(pid, number)
    process.wait()
    deadline = time.monotonic() + RESTORED_S
    while (restored := {name: settings(name, on) for name in NAMES}) != before:
        assert time.monotonic() < deadline, differing(before, restored)
    answer(*ONCE, "--only", "polling-c1", "--into", str(tmp_path))
    assert differing(before, {name: settings(name, on) for name in NAMES}) == {}


def differing(before: Left, after: Left) -> dict[str, tuple[str, str]]:
    """What differs, by machine and command: before and after."""
    return {
        f"{name} {what}": (said, after[name][what])
        for name, found in before.items()
        for what, said in found.items()
        if after[name][what] != said
    }


def until_loaded(process: subprocess.Popen[str], on: On) -> None:
    """Wait until the client loads the server."""
    for _ in range(LOADED_S):
        if on("client", "pgrep", "-x", "wrk"):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(1)
    raise AssertionError(f"wrk did not start within {LOADED_S} s")


def children(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    said = subprocess.run(("pgrep", "-P", str(pid)), capture_output=True, text=True).stdout
    found = [int(word) for word in said.split()]
    return [*found, *(each for one in found for each in children(one))]
