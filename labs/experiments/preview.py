"""What a run would do, line by line, without doing it."""

from __future__ import annotations

from types import ModuleType

from labs.experiments.condition import Condition
from labs.experiments.drive import ALWAYS
from labs.testbed.contract import Command
from labs.testbed.layout import addressing, layout, linking, wiring


def preview(experiment: ModuleType, condition: Condition) -> tuple[Command, ...]:
    """Every ip, tc, ethtool and sysctl line of a run in its order; the host of each, '' for the
    machine that lays the namespaces. Times and exit codes are those of no run: 0 and None.

    An experiment that gives such lines itself says them in `lines(condition)`: host and words.
    """
    plan = layout(condition.link)
    lines = [("", argv) for argv in wiring(plan, {host: host for host in plan.hosts})]
    for host in plan.hosts:
        lines += [(host, argv) for argv in addressing(plan, host)]
    if condition.link.at == "router":
        lines.append(("router", ("sysctl", "-w", "net.ipv4.ip_forward=1")))
    for host, argvs in linking(plan, condition.link).items():
        lines += [(host, argv) for argv in argvs]
    for host in ("server", "client"):
        settings = {**ALWAYS, **condition.sysctls.get(host, {})}
        lines += [(host, ("sysctl", "-w", f"{name}={value}")) for name, value in settings.items()]
    lines += getattr(experiment, "lines", lambda _: ())(condition)
    return tuple(Command(0, host, argv, None) for host, argv in lines)
