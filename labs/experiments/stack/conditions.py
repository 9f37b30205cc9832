"""The lab `stack`: what the settings of a network stack do to the latency of a server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from labs.drive.condition_table import Changes, Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters, Scalar, parameter
from labs.drive.result_columns import Margin
from labs.drive.testbed.packages import install_line
from labs.drive.testbeds import NAMESPACES, TESTBEDS
from labs.errors import BadInput, Missing
from labs.experiments.stack.knobs import lines as lines
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
from labs.guest.condition import Condition, Group, read_settings
from labs.guest.testbed.link import Link

FACTORIAL = Group("factorial", "Polling or blocking, connections, and rules: every combination")
WAITING = Group("waiting", "Ways of waiting")
RULES = Group("rules", "netfilter")
QUEUES = Group("queues", "Threads and queues")
PLACES = Group("places", "CPUs of server, load and interrupts")
DEVICE = Group("device", "The network device")
SERVERS = Group("servers", "Another server")
LOOPS = Group("loops", "Closed loop and open loop")
GROUPS = (FACTORIAL, WAITING, RULES, QUEUES, PLACES, DEVICE, SERVERS, LOOPS)
MARGIN = Margin(
    0.5, 2.0, "absolute latencies belong to a machine: only their ratios within it are compared"
)
REAL_TIME = tuple(kind.name for kind in TESTBEDS.values() if not kind.virtual_time)
"""Testbeds with a wall clock. In virtual time the CPU works in no time."""


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """A server and a load, on one machine or on two; each condition changes one setting."""

    testbed: str = parameter(
        NAMESPACES.name, choices=REAL_TIME, help="where the hosts are; this lab needs a wall clock"
    )
    duration_s: int = parameter(1, unit="s", low=1, high=60, help="duration of each load")
    connections: int = parameter(
        100, low=2, high=1000, help="connections of the conditions with many of them"
    )
    work_us: int = parameter(
        200,
        unit="us",
        low=10,
        high=100_000,
        help="CPU time per request of the open and closed loops: one thread serves at most "
        "1,000,000 / WORK_US requests per second",
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        """Few repetitions in size small, which is to end within minutes."""
        return {"repetitions_max": 6, "ci_width_pct": 20.0} if size == "small" else {}


PORT = 8080
RX_USECS = (0, 1, 100, 500)
"""The article compares 0 with 1. Emulated devices may show only long delays."""
BEYOND_ROUND_TRIP_USECS = 2000
"""A delay longer than a round trip between emulated machines, which takes about 0.9 ms."""
MACHINES_ONLY = f"rx-usecs-{BEYOND_ROUND_TRIP_USECS}-c1"
BUSY_POLL_US = 50
SHARES_PCT = (20, 50, 80, 95, 120)
"""The rates of the open loop, in per cent of what one thread can serve."""
LOOP_CONNECTIONS = 16
BLOCKING: Changes = {"timeout_ms": BLOCKING_MS}
Counts = Mapping[str, int]
"""The numbers of connections, by the end of a condition's name."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL_VEGETA = "make vegeta"
"""Debian has no package of vegeta; setup/vegeta.sh compiles it."""
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


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size, without
    those that this machine has no program for."""
    if p.capture:
        raise BadInput(NO_CAPTURE)
    by_advice = _by_advice(p)
    kept = by_advice.pop("", [])
    for advice, left_out in by_advice.items():
        if p.only:  # here it is not left out: `tools` raises Missing for it
            raise BadInput(f"{', '.join(condition.name for condition in left_out)}: {advice}")
    if not kept:
        raise Missing(". ".join(by_advice))
    return tuple(kept)


def lacking(p: Parameters) -> dict[str, list[str]]:
    """The conditions that are left out because a program is missing, by what to do about it."""
    by_advice = _by_advice(p).items()
    return {advice: [each.name for each in some] for advice, some in by_advice if advice}


def _by_advice(p: Parameters) -> dict[str, list[Condition]]:
    """The selected conditions by what to do about a missing program; by "" those that are kept."""
    by_advice: dict[str, list[Condition]] = {}
    for condition in _selected(p):
        by_advice.setdefault(_missing(condition, p), []).append(condition)
    return by_advice


def _missing(condition: Condition, p: Parameters) -> str:
    if p.where.machines:
        return NO_LOOPS if condition.group == LOOPS.name else ""
    leaves_out = p.where.on_this_kernel and not p.only and _is_root()
    return _not_installed(condition) if leaves_out else ""


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _not_installed(condition: Condition) -> str:
    """What to do about the first program of a condition that is not installed here, if any."""
    for program in programs(condition):
        if shutil.which(program, path=SYSTEM_PATH) is None:
            step = INSTALL_VEGETA if program == VEGETA else install_line((program,))
            return f"{program} is not installed. Run: {step}"
    return ""


def _selected(p: Parameters) -> list[Condition]:
    counts = {"c1": 1, "many": p.connections}
    table = (*_of_the_server(counts), *_of_the_kernel(p, counts), *_of_the_load(p, counts))
    base, link = Settings(duration_s=p.duration_s), Link(port=PORT)
    return [entry.condition(base, link) for entry in select(p, table)]


def _of_the_server(counts: Counts) -> Iterator[Row]:
    """How the server waits, with rules and without; in FACTORIAL three factors of two levels."""
    factorial = (
        row(f"{way}{with_rules}-{end}", small=True, rules=rules, connections=count, **waits)
        for with_rules, rules in (("", NONE), ("-rules-100", "100"))
        for end, count in counts.items()
        for way, waits in (("polling", {}), ("blocking", BLOCKING))
    )
    yield from rows(FACTORIAL, factorial)
    yield from rows(
        WAITING,
        row("busy-poll-c1", small=True, busy_poll_us=BUSY_POLL_US, offloads=GRO),
        row("polling-c10", connections=10),
        row("blocking-c5", connections=5, **BLOCKING),
        row("awake-c1", awake=True, **BLOCKING),
    )
    yield from rows(
        RULES,
        row("rules-idle-c1", small=True, rules=IDLE),
        row("rules-10-c1", rules="10"),
        row("rules-conntrack-c1", small=True, rules=CONNTRACK),
    )


def _of_the_kernel(p: Parameters, counts: Counts) -> Iterator[Row]:
    many: Changes = {"connections": p.connections}
    queues: Changes = {"threads": 2, "queues": 2, "offloads": GRO}
    busy: Changes = {"offloads": GRO, "work_us": p.work_us, **BLOCKING, **many}
    deferred: Changes = {"offloads": GRO, "deferred_irqs": True}
    yield from rows(
        QUEUES,
        row("threads-2-c1", threads=2),
        row("queues-2-c1", small=True, **queues),
        row("threads-2-many", small=True, threads=2, **many),
        row("queues-2-many", **queues, **many),
        row("work-many", **busy),
        row("work-queues-2-many", **{**busy, **queues}),
    )
    yield from rows(
        PLACES,
        row("same-cpu-c1", small=True, pinning=SAME),
        row("unpinned-c1", pinning=FREE),
        row("irq-apart-c1", small=True, interrupts=APART),
        row("irq-same-c1", small=True, interrupts=SAME),
        each("rps-same-{}", counts, rps=SAME, connections=counts.get),
    )
    yield from rows(
        DEVICE,
        each("gro-{}", counts, small=("c1",), offloads=GRO, connections=counts.get),
        row("offloads-off-c1", offloads=OFF),
        row(MACHINES_ONLY, by_name=not p.where.machines, rx_usecs=BEYOND_ROUND_TRIP_USECS),
        each("rx-usecs-{}-c1", RX_USECS, small=(0, 1), rx_usecs=same),
        row("irqs-deferred-c1", small=True, **deferred),
        each("rx-usecs-{}-many", RX_USECS, rx_usecs=same, **many),
        row("irqs-deferred-many", **deferred, **many),
    )


def _of_the_load(p: Parameters, counts: Counts) -> Iterator[Row]:
    """Another server; and one load generator with and without a rate, whose requests take `work_us`
    of CPU time each."""
    servers = (
        row(f"{name}-{end}", server=server, connections=count)
        for end, count in counts.items()
        for name, server in (("blocking-unpinned", EPOLL), ("nginx", NGINX))
    )
    yield from rows(SERVERS, servers, pinning=FREE, **BLOCKING)
    per_s = 1_000_000 / p.work_us
    loop: Changes = {"load": VEGETA, "work_us": p.work_us, "connections": LOOP_CONNECTIONS}
    rates: Changes = {"rate_per_s": lambda share: round(share / 100 * per_s)}
    yield from rows(
        LOOPS,
        row("closed", small=True),
        each("open-{}", SHARES_PCT, small=(50, 80, 120), **rates),
        **loop,
        **BLOCKING,
    )


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts. Missing without root, or without one of them."""
    if not _is_root():
        raise Missing(NO_ROOT)
    if advice := _not_installed(condition):
        raise Missing(advice)
    return programs(condition)


def programs(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    of = read_settings(Settings, condition.settings)
    needed = {
        "gcc": of.server == EPOLL,
        "nginx": of.server == NGINX,
        of.load: True,
        "taskset": of.pinning != FREE or of.awake,
        "chrt": of.awake,
        "nft": of.rules != NONE,
        "ethtool": of.offloads != DEFAULT or of.queues > 1 or of.rx_usecs is not None,
        "unshare": of.deferred_irqs or of.rps != FREE or of.queues > 1,  # reads sysfs
    }
    return tuple(name for name, is_needed in needed.items() if is_needed)


def machine_tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts on machines. The server in C is compiled here, and the
    number of queues may have to be changed."""
    of_queues = ("ethtool", "unshare")
    others = [name for name in programs(condition) if name not in ("gcc", *of_queues)]
    return (*others, *of_queues)
