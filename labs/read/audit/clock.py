"""Virtualisation and clock: whether the machine is a guest, and how it reads the time."""

from __future__ import annotations

from labs.errors import Damaged
from labs.read.audit.cpu import processor
from labs.read.audit.items import Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown
from labs.read.parse.proc import cpu_times

CLOCK = "/sys/devices/system/clocksource/clocksource0"
# As labs/read/stats/machines.py: a run from which more is stolen does not count.
MOST_STOLEN_PCT = 2.0
STEADY_TSC = ("constant_tsc", "nonstop_tsc")


def hypervisor(raw: Raw) -> Finding:
    """The hypervisor itself sets the flag `hypervisor`, so a guest may lack it."""
    flagged = "hypervisor" in processor(raw, "flags").split()
    return wants("yes" if flagged else "none seen", "none seen")


def product(raw: Raw) -> str:
    vendor = raw.text("/sys/class/dmi/id/sys_vendor")
    return f"{vendor} {raw.text('/sys/class/dmi/id/product_name')}"


def stolen(raw: Raw) -> Finding:
    try:
        share = cpu_times(raw.text("/proc/stat"))["cpu"].stolen_pct
    except Damaged as error:
        raise Unknown(str(error)) from None
    if share is None:
        raise Unknown("/proc/stat has counted no time yet")
    return Finding(
        round(share, 2), share > MOST_STOLEN_PCT, f"at most {MOST_STOLEN_PCT:g}", "the lab"
    )


def tsc(raw: Raw) -> Finding:
    flags = processor(raw, "flags").split()
    there = [name for name in STEADY_TSC if name in flags]
    return Finding(" ".join(there) or "neither", len(there) < len(STEADY_TSC), " ".join(STEADY_TSC))


def synchronised(raw: Raw) -> str:
    running = [name for name in raw.fact("daemons") if name in ("chronyd", "ntpd")]
    answer = "yes" if raw.fact("synchronised") else "no"
    return f"{answer} ({', '.join(running)})" if running else answer


def namespace(raw: Raw) -> Finding:
    """Only the initial namespace has the sysctls that all share (sysctl_core_init)."""
    initial = "/proc/sys/net/core/netdev_max_backlog" in raw.files
    return wants("the initial one" if initial else "one of its own", "the initial one")


RULES: dict[str, Rule] = {
    "virtual.hypervisor": hypervisor,
    "virtual.product": product,
    "virtual.stolen": stolen,
    "virtual.halt_poll": lambda raw: raw.number(
        "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
    ),
    "virtual.namespace": namespace,
    "clock.source": lambda raw: wants(raw.text(f"{CLOCK}/current_clocksource"), "tsc"),
    "clock.available": lambda raw: raw.text(f"{CLOCK}/available_clocksource"),
    "clock.tsc": tsc,
    "clock.resolution": lambda raw: int(raw.fact("monotonic_resolution_ns")),
    "clock.synchronised": synchronised,
}
