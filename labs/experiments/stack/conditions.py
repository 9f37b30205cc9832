"""The conditions of the lab `stack`, computed from its parameters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

from labs.drive.condition import Condition, Group, as_settings, read_settings
from labs.drive.testbed.link import Link
from labs.drive.testbed.packages import install_line
from labs.errors import BadInput, Missing
from labs.experiments.stack.parameters import Stack
from labs.experiments.stack.settings import (
    APART,
    BLOCKING_MS,
    CONNTRACK,
    DEFAULT,
    EPOLL,
    FREE,
    GRO,
    IDLE,
    NGINX,
    NONE,
    OFF,
    SAME,
    VEGETA,
    Settings,
)

FACTORIAL = Group("factorial", "Polling or blocking, connections, and rules: every combination")
WAITING = Group("waiting", "Ways of waiting")
RULES = Group("rules", "netfilter")
QUEUES = Group("queues", "Threads and queues")
PLACES = Group("places", "CPUs of server, load and interrupts")
DEVICE = Group("device", "The network device")
SERVERS = Group("servers", "Another server")
LOOPS = Group("loops", "Closed loop and open loop")
GROUPS = (FACTORIAL, WAITING, RULES, QUEUES, PLACES, DEVICE, SERVERS, LOOPS)

PORT = 8080
SECOND_US = 1_000_000
MANY_RULES = 100
RX_USECS = (0, 1, 100, 500)
"""The article compares 0 with 1. Emulated devices may show only long delays."""
BEYOND_ROUND_TRIP_USECS = 2000
"""A delay longer than a round trip between emulated machines, which takes about 0.9 ms."""
MACHINES_ONLY = f"rx-usecs-{BEYOND_ROUND_TRIP_USECS}-c1"
BUSY_POLL_US = 50
SHARES_PCT = (20, 50, 80, 95, 120)
"""The rates of the open loop, in per cent of what one thread can serve."""
LOOP_CONNECTIONS = 16
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL_VEGETA = "make vegeta"
"""Debian has no package of vegeta; setup/vegeta.sh compiles it."""
FULL_ONLY = (
    *("polling-c10", "rules-10-c1", "threads-2-c1", "queues-2-many", "gro-many"),
    *("unpinned-c1", "offloads-off-c1", "rps-same-c1", "rx-usecs-100-c1"),
    *("blocking-unpinned-c1", "nginx-c1", "blocking-unpinned-many", "nginx-many"),
    *(f"rx-usecs-{RX_USECS[-1]}-{name}" for name in ("c1", "many")),
    MACHINES_ONLY,
    *("rx-usecs-0-many", "rx-usecs-1-many", "rx-usecs-100-many", "irqs-deferred-many"),
    *("rps-same-many", "open-20", "open-95"),
    *("awake-c1", "blocking-c5", "work-many", "work-queues-2-many"),
)

NO_CAPTURE = (
    "this lab captures no packets, because a capture takes CPU time from what it measures. "
    "Leave out --capture (CAPTURE)"
)
NO_LOOPS = (
    "the box of the machines has no vegeta, the load of the open loop. Use --testbed namespaces"
)
NO_ROOT = (
    "the lab stack needs root: its hosts are network namespaces of this machine. Run: "
    'sudo env "PATH=$PATH" labs run stack, or show recorded runs with --testbed recorded'
)


def conditions(p: Stack) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size, without
    those that this machine has no program for."""
    if p.capture:
        raise BadInput(NO_CAPTURE)
    chosen = _selected(p)
    left_out = {name for names in lacking(p).values() for name in names}
    if chosen and len(left_out) == len(chosen):
        raise Missing(". ".join(lacking(p)))
    return tuple(one for one in chosen if one.name not in left_out)


def lacking(p: Stack) -> dict[str, list[str]]:
    """The conditions that are left out because this machine lacks a program, by what is missing and
    what to do. A condition that `only` names is never left out: `tools` raises Missing for it. Two
    machines have no vegeta."""
    found: dict[str, list[str]] = {}
    if p.testbed == "vagrant":
        loops = [one.name for one in _selected(p) if one.group == LOOPS.name]
        if loops and p.only:
            raise BadInput(f"{', '.join(loops)}: {NO_LOOPS}")
        return {NO_LOOPS: loops} if loops else found
    if p.only or p.testbed != "namespaces" or not _is_root():
        return found
    for one in _selected(p):
        for told in map(not_installed, programs(one)):
            if told:
                found.setdefault(told, []).append(one.name)
                break
    return found


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _selected(p: Stack) -> list[Condition]:
    every = {one.name: one for one in _every(p)}
    if p.only:
        return [every[name] for name in p.chosen(tuple(every))]
    if p.size == "full":
        left_out = () if p.testbed == "vagrant" else (MACHINES_ONLY,)
        return [one for name, one in every.items() if name not in left_out]
    return [one for name, one in every.items() if name not in FULL_ONLY]


def not_installed(program: str) -> str:
    """What to do if the program is not installed here; empty if it is."""
    if shutil.which(program, path=SYSTEM_PATH) is not None:
        return ""
    step = INSTALL_VEGETA if program == VEGETA else install_line((program,))
    return f"{program} is not installed. Run: {step}"


def _every(p: Stack) -> Iterator[Condition]:
    for group, name, settings in _settings(p):
        yield Condition(name, Link(port=PORT), {}, as_settings(settings), group.name)


def _settings(p: Stack) -> Iterator[tuple[Group, str, Settings]]:
    base = Settings(duration_s=p.duration_s)
    many = replace(base, connections=p.connections)
    yield from _factorial(base, p.connections)
    yield WAITING, "busy-poll-c1", replace(base, busy_poll_us=BUSY_POLL_US, offloads=GRO)
    yield WAITING, "polling-c10", replace(base, connections=10)
    blocking = replace(base, timeout_ms=BLOCKING_MS)
    yield WAITING, "blocking-c5", replace(blocking, connections=5)
    yield WAITING, "awake-c1", replace(blocking, awake=True)
    for rules in (IDLE, "10", CONNTRACK):
        yield RULES, f"rules-{rules}-c1", replace(base, rules=rules)
    for name, one in (("c1", base), ("many", many)):
        yield QUEUES, f"threads-2-{name}", replace(one, threads=2)
        yield QUEUES, f"queues-2-{name}", replace(one, threads=2, queues=2, offloads=GRO)
    work = replace(many, timeout_ms=BLOCKING_MS, offloads=GRO, work_us=p.work_us)
    yield QUEUES, "work-many", work
    yield QUEUES, "work-queues-2-many", replace(work, threads=2, queues=2)
    yield PLACES, "same-cpu-c1", replace(base, pinning=SAME)
    yield PLACES, "unpinned-c1", replace(base, pinning=FREE)
    for where in (APART, SAME):
        yield PLACES, f"irq-{where}-c1", replace(base, interrupts=where)
    yield PLACES, "rps-same-c1", replace(base, rps=SAME)
    yield PLACES, "rps-same-many", replace(many, rps=SAME)
    yield DEVICE, "gro-c1", replace(base, offloads=GRO)
    yield DEVICE, "gro-many", replace(many, offloads=GRO)
    yield DEVICE, "offloads-off-c1", replace(base, offloads=OFF)
    yield DEVICE, MACHINES_ONLY, replace(base, rx_usecs=BEYOND_ROUND_TRIP_USECS)
    for name, one in (("c1", base), ("many", many)):
        for rx_usecs in RX_USECS:
            yield DEVICE, f"rx-usecs-{rx_usecs}-{name}", replace(one, rx_usecs=rx_usecs)
        deferred = replace(one, offloads=GRO, deferred_irqs=True)
        yield DEVICE, f"irqs-deferred-{name}", deferred
    for name, one in (("c1", base), ("many", many)):
        free = replace(one, timeout_ms=BLOCKING_MS, pinning=FREE)
        yield SERVERS, f"blocking-unpinned-{name}", free
        yield SERVERS, f"nginx-{name}", replace(free, server=NGINX)
    yield from _loops(replace(base, timeout_ms=BLOCKING_MS, load=VEGETA), p.work_us)


def _factorial(base: Settings, many: int) -> Iterator[tuple[Group, str, Settings]]:
    """Three factors of two levels each: eight conditions."""
    for rules in (NONE, str(MANY_RULES)):
        for name, connections in (("c1", 1), ("many", many)):
            for waiting, timeout_ms in (("polling", 0), ("blocking", BLOCKING_MS)):
                ruled = f"-rules-{rules}" if rules != NONE else ""
                one = replace(base, connections=connections, timeout_ms=timeout_ms, rules=rules)
                yield FACTORIAL, f"{waiting}{ruled}-{name}", one


def _loops(base: Settings, work_us: int) -> Iterator[tuple[Group, str, Settings]]:
    """One load generator with and without a rate; a request takes `work_us` of CPU time."""
    busy = replace(base, work_us=work_us, connections=LOOP_CONNECTIONS)
    yield LOOPS, "closed", busy
    for share in SHARES_PCT:
        rate = round(share / 100 * SECOND_US / work_us)
        yield LOOPS, f"open-{share}", replace(busy, rate_per_s=rate)


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts. Missing without root, or without one of them."""
    if not _is_root():
        raise Missing(NO_ROOT)
    for told in map(not_installed, programs(condition)):
        if told:
            raise Missing(told)
    return programs(condition)


def programs(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    settings = read_settings(Settings, condition.settings)
    return (
        "gcc" if settings.server == EPOLL else "nginx",
        settings.load,
        *(("taskset",) if settings.pinning != FREE or settings.awake else ()),
        *(("chrt",) if settings.awake else ()),
        *(("nft",) if settings.rules != NONE else ()),
        *(("ethtool",) if _uses_ethtool(settings) else ()),
        *(("unshare",) if _reads_sysfs(settings) else ()),
    )


def machine_tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts on machines. The server in C is compiled here, and the
    number of queues may have to be changed."""
    of_queues = ("ethtool", "unshare")
    others = [name for name in programs(condition) if name not in ("gcc", *of_queues)]
    return (*others, *of_queues)


def _reads_sysfs(settings: Settings) -> bool:
    return any((settings.deferred_irqs, settings.rps != FREE, settings.queues > 1))


def _uses_ethtool(settings: Settings) -> bool:
    changed = (settings.offloads != DEFAULT, settings.queues > 1, settings.rx_usecs is not None)
    return any(changed)
