"""The conditions of the lab `stack`, computed from its parameters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

from labs.drive.condition import Condition, Group, as_settings, read_settings
from labs.drive.testbed.link import Link
from labs.errors import BadInput, Missing
from labs.experiments.stack.parameters import Stack
from labs.experiments.stack.settings import (
    APART,
    BLOCKING_MS,
    CONNTRACK,
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
BUSY_POLL_US = 50
SHARES_PCT = (20, 50, 80, 95, 120)
"""The rates of the open loop, in per cent of what one thread can serve."""
LOOP_CONNECTIONS = 16
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
OPEN_LOOP = (
    "vegeta, the load of the open loop, is not installed, and Debian has no package of it. As "
    "root, with Go 1.22 or later: GOBIN=/usr/bin go install github.com/tsenart/vegeta/v12@v12.12.0"
)
FULL_ONLY = (
    *("polling-c10", "rules-10-c1", "threads-2-c1", "queues-2-many", "gro-many"),
    *("unpinned-c1", "offloads-off-c1"),
    *("blocking-unpinned-c1", "nginx-c1", "blocking-unpinned-many", "nginx-many"),
    *(f"rx-usecs-{RX_USECS[-1]}-{name}" for name in ("c1", "many")),
    *("rx-usecs-0-many", "rx-usecs-1-many", "rx-usecs-100-many", "irqs-deferred-many"),
    *("rps-same-many", "open-20", "open-95"),
)

NO_CAPTURE = (
    "this lab captures no packets, because a capture takes CPU time from what it measures. "
    "Leave out --capture (CAPTURE)"
)
NO_ROOT = (
    "the lab stack needs root: its hosts are network namespaces of this machine. Run: "
    'sudo env "PATH=$PATH" labs run stack, or show recorded runs with --testbed recorded'
)
NFTABLES = "nft is not installed. On Debian: apt-get install nftables"


def conditions(p: Stack) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size.

    Without vegeta, size small has no open loop.
    """
    if p.capture:
        raise BadInput(NO_CAPTURE)
    every = {one.name: one for one in _every(p)}
    if p.only or p.size == "full":
        chosen = p.chosen(tuple(every))
    else:
        loops = p.testbed == "recorded" or has_vegeta()
        chosen = tuple(
            name
            for name, one in every.items()
            if name not in FULL_ONLY and (loops or one.group != LOOPS.name)
        )
    return tuple(every[name] for name in chosen)


def has_vegeta() -> bool:
    """Whether the load of the open loop is installed."""
    return shutil.which(VEGETA, path=SYSTEM_PATH) is not None


def _every(p: Stack) -> Iterator[Condition]:
    for group, name, settings in _settings(p):
        yield Condition(name, Link(port=PORT), {}, as_settings(settings), group.name)


def _settings(p: Stack) -> Iterator[tuple[Group, str, Settings]]:
    base = Settings(duration_s=p.duration_s)
    many = replace(base, connections=p.connections)
    yield from _factorial(base, p.connections)
    yield WAITING, "busy-poll-c1", replace(base, busy_poll_us=BUSY_POLL_US, offloads=GRO)
    yield WAITING, "polling-c10", replace(base, connections=10)
    for rules in (IDLE, "10", CONNTRACK):
        yield RULES, f"rules-{rules}-c1", replace(base, rules=rules)
    for name, one in (("c1", base), ("many", many)):
        yield QUEUES, f"threads-2-{name}", replace(one, threads=2)
        yield QUEUES, f"queues-2-{name}", replace(one, threads=2, queues=2, offloads=GRO)
    yield PLACES, "same-cpu-c1", replace(base, pinning=SAME)
    yield PLACES, "unpinned-c1", replace(base, pinning=FREE)
    for where in (APART, SAME):
        yield PLACES, f"irq-{where}-c1", replace(base, interrupts=where)
    yield PLACES, "rps-same-c1", replace(base, rps=SAME)
    yield PLACES, "rps-same-many", replace(many, rps=SAME)
    yield DEVICE, "gro-c1", replace(base, offloads=GRO)
    yield DEVICE, "gro-many", replace(many, offloads=GRO)
    yield DEVICE, "offloads-off-c1", replace(base, offloads=OFF)
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
    """The programs that a condition starts. Missing without root, and for a program whose package
    has another name."""
    if os.geteuid():
        raise Missing(NO_ROOT)
    settings = read_settings(Settings, condition.settings)
    if settings.load == VEGETA and not has_vegeta():
        raise Missing(OPEN_LOOP)
    if settings.rules != NONE and shutil.which("nft", path=SYSTEM_PATH) is None:
        raise Missing(NFTABLES)
    server = "gcc" if settings.server == EPOLL else "nginx"
    rules = ("nft",) if settings.rules != NONE else ()
    return (server, settings.load, "taskset", "ethtool", *rules)
