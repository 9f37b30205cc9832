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
# QEMU delays an interrupt until a time since the previous one has passed (hw/net/e1000e_core.c,
# e1000e_intmgr_timer_resume). With one connection there is one received packet per round trip, so a
# delay longer than the round trip becomes the round trip: no response can arrive faster. Emulated
# machines respond within 0.2 to 1 ms.
DELAY_US = 10_000


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
        assert f", {driver} with " in tools["server.machine"]
        assert tools["server.wrk"].startswith("wrk ") and "server.gcc" not in tools


def test_delay_beyond_the_round_trip_becomes_the_round_trip(driver: str, tmp_path: Path) -> None:
    """Both delays are read back; the longer one raises the median."""
    if driver != "e1000e":
        pytest.skip(f"the device of the server is a {driver}; its interrupts cannot be delayed")
    said = answer(*ONCE, "--only", "rx-usecs-0-c1,rx-usecs-500-c1", "--into", str(tmp_path))
    found = by_condition(said, "rx_usecs")
    assert {name: (one["found"], one["effective"]) for name, one in found.items()} == {
        "rx-usecs-0-c1": ("0", True),
        "rx-usecs-500-c1": ("500", True),
    }


def test_delay_without_the_knob_has_no_effect(driver: str, tmp_path: Path) -> None:
    if driver == "e1000e":
        pytest.skip("the interrupts of an e1000e can be delayed")
    said = answer(*ONCE, "--only", "rx-usecs-500-c1", "--into", str(tmp_path))
    found = by_condition(said, "rx_usecs")["rx-usecs-500-c1"]
    assert found["effective"] is False and found["because"]


def test_queues_share_the_interrupts_of_many_connections(queues: int, tmp_path: Path) -> None:
    """Each connection belongs to one queue by its hash, so with 100 connections both have some;
    with one queue the second has no interrupt."""
    if queues < 2:
        pytest.skip("the device of the server has one queue")
    said = answer(*ONCE, "--only", "gro-many,queues-2-many", "--into", str(tmp_path))
    found = by_condition(said, "queues")
    assert [found[name]["found"] for name in ("gro-many", "queues-2-many")] == ["1", "2"]
    for name, busy in (("gro-many", 1), ("queues-2-many", 2)):
        (folder,) = tmp_path.glob(f"stack-{name}-*")
        grown = {
            queue: after - interrupts(folder, "before")[queue]
            for queue, after in interrupts(folder, "after").items()
        }
        assert sum(count > 0 for count in grown.values()) == busy, grown


def interrupts(folder: Path, when: str) -> dict[str, int]:
    """The interrupts of each receive queue of the server, on all CPUs."""
    text = (folder / "server" / f"interrupts-{when}.txt").read_text()
    rows = [line.split() for line in text.splitlines() if re.search(r"virtio\d+-input", line)]
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
    for pid in (process.pid, *children(process.pid)):
        os.kill(pid, signal.SIGKILL)
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
