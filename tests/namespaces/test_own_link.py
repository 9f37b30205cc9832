"""A machine's own link: removed for a run, and restored in every case."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.testbed.vagrant import Machine, Machines, is_shaped
from labs.errors import Missing, RunFailed
from labs.guest.host_load import apart, bring_near
from labs.guest.testbed.link import Link
from labs.launch import inventory
from tests.namespaces.test_ssh_faults import Daemons, opened, sessions, until

OWN = "pfifo"


@pytest.fixture
def machines(daemons: Daemons) -> Iterator[tuple[Machine, Machine]]:
    """The two machines; the server has its own link, and a command that sets it up."""
    (_, server), (_, client) = daemons.values()
    lay = ("tc", "qdisc", "replace", "dev", server.device, "root", "handle", "7:", OWN)
    with opened(server) as host:
        host.run(lay)
    yield dataclasses.replace(server, own_link=lay), client
    with opened(server) as host:
        host.run(("tc", "qdisc", "del", "dev", server.device, "root"))


def shown(machine: Machine) -> str:
    with opened(machine) as host:
        return host.run(("tc", "qdisc", "show", "dev", machine.device, "root")).text


def test_own_link_is_removed_for_a_run_and_restored(machines: tuple[Machine, Machine]) -> None:
    with Machines(Link(), *machines) as testbed:
        text = testbed.server.run(("tc", "qdisc", "show", "dev", testbed.server.device)).text
        assert not is_shaped(text)
    assert f"{OWN} 7:" in shown(machines[0])


def test_own_link_can_be_left_as_found(machines: tuple[Machine, Machine]) -> None:
    with Machines(Link(), *machines, as_found=True) as testbed:
        text = testbed.server.run(("tc", "qdisc", "show", "dev", testbed.server.device)).text
        assert f"{OWN} 7:" in text


def test_own_link_is_restored_when_the_connection_drops(
    daemons: Daemons, machines: tuple[Machine, Machine]
) -> None:
    (daemon, _), _ = daemons.values()
    with pytest.raises(RunFailed, match="was lost"), Machines(Link(), *machines) as testbed:
        for pid in sessions(daemon):
            os.kill(pid, signal.SIGKILL)
        testbed.server.read("/etc/hostname")
    until(lambda: not Path(machines[0].folder).exists(), "the folder is left")
    assert f"{OWN} 7:" in shown(machines[0])


def test_shaper_of_unknown_origin_is_removed(machines: tuple[Machine, Machine]) -> None:
    server, client = machines
    with Machines(Link(), dataclasses.replace(server, own_link=()), client):
        pass
    assert OWN not in shown(server)
    with opened(server) as host:
        host.run(server.own_link)


def test_apart_of_one_clock_is_zero(machines: tuple[Machine, Machine]) -> None:
    with Machines(Link(), *machines) as testbed:
        found = apart(testbed.server, testbed.client)
        assert abs(found.client_ahead_ns) <= found.within_ns
        bring_near(testbed.server, testbed.client)
        assert not any("clock_settime" in " ".join(line.argv) for line in testbed.log)


def test_inventory_of_a_machine_has_digests_and_versions(machines: tuple[Machine, Machine]) -> None:
    with opened(machines[0]) as host:
        found = inventory.paths(host, ["ip", "tc"])
        assert [Path(path).name for path in found.values()] == ["ip", "tc"]
        (digest, _) = inventory.hashed(host, found).values()
        assert len(digest) == 64 and int(digest, 16)
        assert inventory.version_on(host, "tc", found["tc"]).startswith("tc utility, iproute2")
        # The /sys of this machine, which the host sees, may have no device of that name.
        assert re.search(r" MiB, veth, receive queues: (\d+|unknown)$", inventory.hardware(host))
        with pytest.raises(Missing, match="server lacks no-such-tool"):
            inventory.paths(host, ["ip", "no-such-tool"])
