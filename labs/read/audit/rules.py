"""How the items of the table are read: the places it names, its parsers, and the items that are
computed from several texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labs.errors import Damaged
from labs.read.audit.items import Value
from labs.read.audit.raw import Raw, Unknown, line_of, number
from labs.read.parse.proc import cpu_times

CPU, NET = "/sys/devices/system/cpu", "/sys/class/net"
# As labs/read/stats/machines.py: a run from which more is stolen does not count.
MOST_STOLEN_PCT = 2.0
CLOCK_DAEMONS = ("chronyd", "ntpd", "systemd-timesyn")
RULESET = ("nft", "--stateless", "list", "ruleset")


@dataclass(frozen=True)
class Judged:
    """A value, and whether it deviates; None where there is nothing to compare with."""

    value: Value
    deviates: bool | None


def read(raw: Raw, place: str) -> str:
    """The text at a place of the table."""
    source, _, name = place.partition(": ")
    if source == "boot":
        return raw.boot_words(*name.split())
    if source == "config":
        options = map(raw.option, name.split())
        return next((option for option in options if option != "n"), "n")
    if source.startswith("/"):
        text = raw.common(source) if "*" in source else raw.text(source)
    else:
        text, source = raw.output(*source.split()), f"`{source}`"
    return line_of(text, name, source) if name else text


def _choice(text: str) -> str:
    """The word in brackets of a file that lists what could be chosen."""
    match = re.search(r"\[(.+?)\]", text)
    if match is None:
        raise Unknown("no choice is marked")
    return match[1]


def _both_ways(text: str) -> str:
    """What ethtool prints after `Adaptive RX:`."""
    receive, _, send = text.split()
    if receive == "n/a":
        raise Unknown("the driver does not report adaptive coalescing")
    return f"receive {receive}, send {'not reported' if send == 'n/a' else send}"


def _qdiscs(text: str) -> str:
    """The disciplines of a device, root first, equal children counted."""
    kinds = Counter(re.findall(r"^qdisc (\S+)", text, re.MULTILINE))
    return ", ".join(kind if times == 1 else f"{times} x {kind}" for kind, times in kinds.items())


PARSERS: Mapping[str, Callable[[str], Value]] = {
    "text": str,
    "number": number,
    "switch": lambda text: {"1": "on", "0": "off"}.get(text, text),
    "built": lambda option: "yes" if option == "y" else "no",
    "virtual": lambda flags: "yes" if "hypervisor" in flags.split() else "none seen",
    "mib": lambda text: number(text.removesuffix("kB").strip()) // 1024,
    "choice": _choice,
    "preemption": lambda text: " ".join(re.findall(r"\bPREEMPT\w*|\bpreempt=\S+", text)),
    "speed": lambda mbit: "not reported" if mbit == "-1" else f"{mbit} Mbit/s",
    "feature": lambda text: text.split()[0] + " (fixed)" * ("[fixed]" in text),
    "mask": lambda bits: bits if bits.strip("0,") else "none",
    "both_ways": _both_ways,
    "qdiscs": _qdiscs,
    "first_words": lambda text: ", ".join(sorted(line.split()[0] for line in text.splitlines())),
    "lines": lambda text: ", ".join(text.splitlines()),
}


def online(raw: Raw) -> Judged:
    """How many CPUs are online, of those in lists such as 0-3,8."""
    counts = []
    for name in ("online", "present"):
        ranges = [part.partition("-") for part in raw.text(f"{CPU}/{name}").split(",")]
        counts.append(sum(number(last or first) - number(first) + 1 for first, _, last in ranges))
    there, present = counts
    return Judged(f"{there} of {present}", there < present)


def turbo(raw: Raw) -> str:
    for path, off in ((f"{CPU}/intel_pstate/no_turbo", "1"), (f"{CPU}/cpufreq/boost", "0")):
        if path in raw.files:
            return "off" if raw.text(path) == off else "on"
    raise Unknown("this machine shows neither intel_pstate/no_turbo nor cpufreq/boost")


def idle_states(raw: Raw) -> Judged:
    """The idle states of the first CPU, shallow first. A state deeper than C1, the first one after
    polling, takes the wake-up time that the article avoids."""
    shown, deep, folder = [], False, f"{CPU}/cpu0/cpuidle"
    for place, (path, name) in enumerate(raw.matching(f"{folder}/state*/name").items()):
        state = path.removesuffix("/name")
        disabled = raw.files.get(f"{state}/disable") == "1"
        wake_us = number(raw.text(f"{state}/latency"))
        shown.append(f"{name} {wake_us} µs{' (disabled)' if disabled else ''}")
        deep |= place > 1 and not disabled
    if not shown:
        raise Unknown(f"this machine has no {folder}")
    return Judged(", ".join(shown), deep)


def stolen(raw: Raw) -> Judged:
    try:
        share = cpu_times(raw.text("/proc/stat"))["cpu"].stolen_pct
    except Damaged as error:
        raise Unknown(str(error)) from None
    if share is None:
        raise Unknown("/proc/stat has counted no time yet")
    return Judged(round(share, 2), share > MOST_STOLEN_PCT)


def namespace(raw: Raw) -> str:
    """Only the initial namespace has the sysctls that all share (sysctl_core_init)."""
    initial = "/proc/sys/net/core/netdev_max_backlog" in raw.files
    return "the initial one" if initial else "one of its own"


def ruleset(raw: Raw, begin: str) -> list[str]:
    """The lines of what nft listed that begin so, without the beginning. A kernel in which
    nf_tables is not loaded has no rules of it, so nft was not started."""
    if RULESET not in raw.outputs and raw.option("NF_TABLES") != "y":
        return []
    lines = raw.output(*RULESET).splitlines()
    return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


def tables(raw: Raw) -> str:
    return ", ".join(name.removesuffix(" {") for name in ruleset(raw, "table ")) or "none"


def queues(raw: Raw, device: str) -> Judged:
    """The receive queues that a device has, and how many it could have if ethtool can change it."""
    count = len(raw.matching(f"{NET}/{device}/queues/rx-*/rps_cpus"))
    try:
        text = raw.output("ethtool", "-l", device).partition("Current hardware settings")[0]
    except Unknown:
        return Judged(f"{count} (fixed by the driver)", None)
    limits = re.findall(r"^(?:RX|Combined):\s*(\d+)$", text, re.MULTILINE | re.ASCII)
    most = max(map(number, limits), default=count)
    return Judged(f"{count} of {most}", count < min(most, raw.cpus))


RULES: Mapping[str, Callable[[Raw], Value | Judged]] = {
    "cpu.online": online,
    "cpu.turbo": turbo,
    "cpu.idle_states": idle_states,
    "kernel.daemons": lambda raw: ", ".join(d for d in raw.daemons if d not in CLOCK_DAEMONS),
    "virtual.stolen": stolen,
    "virtual.namespace": namespace,
    "netfilter.tables": tables,
    # Each chain with a hook is called for every packet that passes there, idle or not.
    "netfilter.chains": lambda raw: len(ruleset(raw, "type ")),
    "netfilter.rules": lambda raw: sum(map(number, ruleset(raw, "rules "))),
}
DEVICE_RULES: Mapping[str, Callable[[Raw, str], Value | Judged]] = {"nic.queues": queues}
