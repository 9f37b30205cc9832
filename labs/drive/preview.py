"""The commands that a run would issue."""

from __future__ import annotations

from collections.abc import Sequence

from labs.guest.condition import Condition
from labs.guest.execution import ALWAYS
from labs.guest.outcome import Command
from labs.guest.testbed.link import DEVICE as DEVICE_OF_NAMESPACES
from labs.guest.testbed.link import Argv, Link, addressing, layout, linking, wiring


def preview(
    condition: Condition, of_lab: Sequence[tuple[str, Argv]] = (), machines: bool = False
) -> tuple[Command, ...]:
    """Every ip, tc, ethtool and sysctl line of a run, in order, each with its host ('' for the
    machine that has the namespaces). Times are 0 and exit codes None.

    `of_lab` are the lines that the lab adds to those of the link: host and words. `machines` says
    whether the hosts are machines.
    """
    lines = between_machines(condition.link) if machines else of_namespaces(condition.link)
    for host in ("server", "client"):
        settings = {**ALWAYS, **dict(sorted(condition.sysctls.get(host, {}).items()))}
        lines += [(host, ("sysctl", "-w", f"{name}={value}")) for name, value in settings.items()]
    lines += on_machines(of_lab) if machines else of_lab
    return tuple(Command(0, host, argv, None) for host, argv in lines)


def on_machines(lines: Sequence[tuple[str, Argv]]) -> list[tuple[str, Argv]]:
    """The lines with the device of machines where they name that of namespaces, or a file of it."""
    from labs.drive.testbed.vagrant import DEVICE  # noqa: PLC0415  Unix only

    def word_of(word: str) -> str:
        return "/".join(
            DEVICE if part == DEVICE_OF_NAMESPACES else part for part in word.split("/")
        )

    return [(host, tuple(map(word_of, argv))) for host, argv in lines]


def between_machines(link: Link) -> list[tuple[str, Argv]]:
    """The lines that set up the link between two machines, in place of the server's own link."""
    from labs.drive.testbed.vagrant import DEVICE, of_machines, unshaping  # noqa: PLC0415  Unix

    return [("server", argv) for argv in (unshaping(DEVICE), *of_machines(link, DEVICE))]


def of_namespaces(link: Link) -> list[tuple[str, Argv]]:
    """The lines that set up the hosts and the link as namespaces of one machine."""
    plan = layout(link)
    lines: list[tuple[str, Argv]] = [
        ("", argv) for argv in wiring(plan, {host: host for host in plan.hosts})
    ]
    for host in plan.hosts:
        lines += [(host, argv) for argv in addressing(plan, host)]
    if link.shaped_at == "router":
        lines.append(("router", ("sysctl", "-w", "net.ipv4.ip_forward=1")))
    for host, argvs in linking(plan, link).items():
        lines += [(host, argv) for argv in argvs]
    return lines
