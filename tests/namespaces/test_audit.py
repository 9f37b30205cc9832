"""Audits of namespaces of this machine: over ssh, and with a sysctl that was changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from labs.drive import machine_audit as program
from labs.drive.testbed.vagrant import Machine
from labs.launch.audit import over_ssh
from labs.read.audit.differences import Difference, differences
from labs.read.audit.machine import audit
from labs.read.audit.raw import Raw, open_raw
from tests.sshd import Sshd

FIN_TIMEOUT = "/proc/sys/net/ipv4/tcp_fin_timeout"


def test_over_ssh_audits_the_far_end(daemons: dict[str, tuple[Sshd, Machine]]) -> None:
    server, client = (
        open_raw(over_ssh(name, machine), name) for name, (_, machine) in daemons.items()
    )
    for one in (server, client):
        assert one.root and len(audit(one)) >= 50
        assert one.devices and set(one.devices) & {m.device for _, m in daemons.values()}
    named = {one.title for one in differences(server, client)}
    assert "Kernel" not in named and "Processor" not in named


def in_a_namespace(change: str) -> Raw:
    """The audit of a new network namespace after a shell command in it."""
    script = f'{change}; exec "$0" -I -S "$1"'
    argv = ("unshare", "-n", "sh", "-c", script, sys.executable, str(Path(program.__file__)))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return open_raw(json.loads(done.stdout), "a namespace")


def test_collect_finds_a_sysctl_that_was_changed() -> None:
    raw = in_a_namespace(f"echo 17 > {FIN_TIMEOUT}")
    found = {one.key: one for one in audit(raw)}
    one = found["net.ipv4.tcp_fin_timeout"]
    assert (one.value, one.wanted, one.deviates) == ("17", "60", True)
    assert one.wanted_by == "a new network namespace of this kernel"
    assert found["virtual.namespace"].deviates is True


def test_differences_of_two_namespaces_are_what_was_changed() -> None:
    found = differences(in_a_namespace("true"), in_a_namespace(f"echo 17 > {FIN_TIMEOUT}"))
    assert found == [Difference("net.ipv4.tcp_fin_timeout", "60", "17")]
