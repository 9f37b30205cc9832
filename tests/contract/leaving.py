"""Exiting a testbed leaves nothing of it."""

from __future__ import annotations

from labs.errors import RunFailed
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.link import Link
from tests.contract.setting import Setting, await_text, equal, lives, path, refused

STUBBORN = 'trap "" TERM; sh -c "echo \\$\\$ $$; sleep 1000; true" & wait; sleep 1000; true'


def stubborn(testbed: Testbed) -> list[tuple[str, bytes]]:
    """Start a program with a child on both hosts that ignore SIGTERM; return their ids."""
    found = []
    for host in (testbed.server, testbed.client):
        out = path(host, "pids")
        host.start(("sh", "-c", STUBBORN), stdout=out)
        found += [(host.name, pid) for pid in await_text(host, out).split()]
    return found


def gone(setting: Setting, pids: list[tuple[str, bytes]]) -> None:
    """Assert that none of these is still running."""
    with setting.testbed() as testbed:
        left = [pid for host, pid in pids if lives(testbed.hosts()[host], pid)]
        assert not left, f"still run: {left}"


def check_exit_stops_running_programs(setting: Setting) -> None:
    with setting.testbed() as testbed:
        pids = stubborn(testbed)
    equal(len(pids), 4)
    gone(setting, pids)


def check_exit_after_an_error_stops_running_programs(setting: Setting) -> None:
    with refused(RunFailed, "nonsuch"), setting.testbed() as testbed:
        pids = stubborn(testbed)
        testbed.client.read("/nonsuch")
    gone(setting, pids)


def check_enter_with_an_impossible_link_leaves_nothing(setting: Setting) -> None:
    with refused(RunFailed, "tc", "server"), setting.testbed(Link(rate_mbit=10, port=70000)):
        pass
    with setting.testbed() as testbed:
        shown = testbed.server.run(("tc", "qdisc", "show", "dev", testbed.server.device)).text
        assert "htb" not in shown, shown


def check_enter_works_repeatedly(setting: Setting) -> None:
    seen = []
    for _ in range(3):
        with setting.testbed() as testbed:
            server = testbed.server
            seen.append(
                (
                    server.address,
                    testbed.client.address,
                    server.device,
                    server.run(("ls", str(server.folder))).stdout,
                )
            )
    equal(len(set(seen)), 1)
    equal(seen[0][3].strip(), b"")
