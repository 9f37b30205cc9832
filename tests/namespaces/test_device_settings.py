"""Settings of a device and nftables tables, read and restored, here in a network namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from labs.drive.kernel.boot import PATH
from labs.drive.testbed.vagrant import DEVICE_SETTINGS

TOOLS = ("ethtool", "nft", "ip")
LACKING = [name for name in TOOLS if shutil.which(name, path=PATH) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
DEVICE = "veth-set"
QUEUES = 2
OF_QUEUES = {f"/sys/class/net/{DEVICE}/queues/rx-1/rps_cpus"}
"""Files that disappear with the second queue."""


@pytest.fixture
def namespace(alone: None) -> Iterator[str]:
    """A namespace with a veth pair of two queues; `ip netns exec` mounts its own /sys."""
    name = f"labs-test-{os.getpid()}"
    of_device = ("numrxqueues", str(QUEUES), "numtxqueues", str(QUEUES))
    wires = ("type", "veth", "peer", "name", "veth-peer")
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "add", DEVICE, *of_device, *wires)
    yield name
    run("ip", "netns", "del", name)


def run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def inside(namespace: str, *argv: str) -> str:
    return run("ip", "netns", "exec", namespace, *argv)


def program(namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    own = (sys.executable, "-I", "-S", str(DEVICE_SETTINGS), *words)
    return subprocess.run(("ip", "netns", "exec", namespace, *own), capture_output=True, text=True)


def read(namespace: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(program(namespace, "read", DEVICE).stdout)
    return found


CHANGES = {
    "ethtool -K": (("ethtool", "-K", DEVICE, "gro", "on", "tso", "off", "sg", "off"),),
    "ethtool -L": (("ethtool", "-L", DEVICE, "rx", "1", "tx", "1"),),
    "nft tables": (
        ("nft", "add", "table", "inet", "labs"),
        ("nft", "add", "chain", "inet", "labs", "input"),
    ),
    f"/sys/class/net/{DEVICE}/napi_defer_hard_irqs": (
        ("sh", "-c", f"echo 7 >/sys/class/net/{DEVICE}/napi_defer_hard_irqs"),
    ),
    f"/sys/class/net/{DEVICE}/gro_flush_timeout": (
        ("sh", "-c", f"echo 20000 >/sys/class/net/{DEVICE}/gro_flush_timeout"),
    ),
    f"/sys/class/net/{DEVICE}/queues/rx-0/rps_cpus": (
        ("sh", "-c", f"echo 1 >/sys/class/net/{DEVICE}/queues/rx-0/rps_cpus"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_restore_undoes_one_change(namespace: str, name: str) -> None:
    before = read(namespace)
    for argv in CHANGES[name]:
        inside(namespace, *argv)
    changed = read(namespace)
    different = {one for one in before if changed.get(one) != before[one]}
    assert different - OF_QUEUES == {name}
    done = program(namespace, "restore", DEVICE, json.dumps(before))
    assert (done.returncode, done.stderr) == (0, "")
    assert read(namespace) == before


def test_restore_undoes_all_changes_and_keeps_other_tables(namespace: str) -> None:
    inside(namespace, "nft", "add", "table", "ip", "kept")
    before = read(namespace)
    assert before["nft tables"] == "ip kept"
    for argvs in CHANGES.values():
        for argv in argvs:
            inside(namespace, *argv)
    assert program(namespace, "restore", DEVICE, json.dumps(before)).returncode == 0
    assert read(namespace) == before
    assert inside(namespace, "nft", "list", "tables") == "table ip kept\n"


def test_restore_names_what_it_cannot_restore(namespace: str) -> None:
    """A veth has no interrupts to delay, so its rx-usecs stay unknown."""
    done = program(namespace, "restore", DEVICE, json.dumps({"ethtool -C rx-usecs": "3"}))
    assert done.returncode == 1
    assert done.stderr == "ethtool -C rx-usecs is 'unknown'\n"


def test_restore_without_a_change_runs_no_command_that_changes(namespace: str) -> None:
    """An attempt to change a setting would appear in the list of executed programs."""
    before = json.dumps(read(namespace))
    own = (sys.executable, "-I", "-S", str(DEVICE_SETTINGS), "restore", DEVICE, before)
    traced = ("strace", "-f", "-qq", "-e", "trace=execve", "-s", "200", *own)
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    done = subprocess.run(
        ("ip", "netns", "exec", namespace, *traced), capture_output=True, text=True, check=True
    )
    started = [line for line in done.stderr.splitlines() if "ethtool" in line or "nft" in line]
    assert started and not any(f'"{word}"' in line for line in started for word in CHANGING)


CHANGING = ("-C", "-K", "-L", "delete")


def test_restore_keeps_features_of_a_group_apart(namespace: str) -> None:
    """`ethtool -K tso on` would also switch on the feature of the group that was off."""
    inside(namespace, "ethtool", "-K", DEVICE, "tx-tcp-mangleid-segmentation", "off")
    before = inside(namespace, "ethtool", "-k", DEVICE)
    assert "tx-tcp-segmentation: on" in before and "tx-tcp-mangleid-segmentation: off" in before
    settings = json.dumps(read(namespace))
    inside(namespace, "ethtool", "-K", DEVICE, "tso", "off", "gso", "off")
    assert program(namespace, "restore", DEVICE, settings).returncode == 0
    assert inside(namespace, "ethtool", "-k", DEVICE) == before
