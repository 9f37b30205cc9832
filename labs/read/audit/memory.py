"""Memory and NUMA: what makes memory access slow at times, or different after the next boot."""

from __future__ import annotations

import re

from labs.read.audit.cpu import OFF, switch
from labs.read.audit.items import Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown, whole

VM = "/proc/sys/vm"
HUGE = "/sys/kernel/mm/transparent_hugepage"
KIB_PER_MIB = 1024


def meminfo_kib(raw: Raw, name: str) -> int:
    """A line of /proc/meminfo, in KiB."""
    match = re.search(rf"^{name}:\s+(\d+)", raw.text("/proc/meminfo"), re.MULTILINE | re.ASCII)
    if match is None:
        raise Unknown(f"/proc/meminfo has no line {name}")
    return int(match[1])


def swapped(raw: Raw) -> Finding:
    used_kib = meminfo_kib(raw, "SwapTotal") - meminfo_kib(raw, "SwapFree")
    return wants(used_kib // KIB_PER_MIB, 0)


def chosen(raw: Raw, path: str) -> str:
    """The word in brackets of a file that lists what could be chosen."""
    match = re.search(r"\[(.+?)\]", raw.text(path))
    if match is None:
        raise Unknown(f"{path} marks no choice")
    return match[1]


def huge_pages(raw: Raw) -> Finding:
    choice = chosen(raw, f"{HUGE}/enabled")
    return Finding(choice, choice == "always", "madvise or never")


def compaction(raw: Raw) -> Finding:
    choice = chosen(raw, f"{HUGE}/defrag")
    return Finding(choice, choice == "always", "anything but always")


def reserved(raw: Raw) -> str:
    counts = raw.by_name("/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages")
    some = [
        f"{size.removeprefix('hugepages-')}: {count}"
        for size, count in counts.items()
        if whole(count, "nr_hugepages")
    ]
    return ", ".join(some) or "none"


def nodes(raw: Raw) -> str:
    cpu_lists = raw.by_name("/sys/devices/system/node/node[0-9]*/cpulist")
    return "; ".join(f"{node}: CPUs {cpus or 'none'}" for node, cpus in cpu_lists.items())


RULES: dict[str, Rule] = {
    "memory.total": lambda raw: meminfo_kib(raw, "MemTotal") // KIB_PER_MIB,
    "memory.available": lambda raw: meminfo_kib(raw, "MemAvailable") // KIB_PER_MIB,
    "memory.swap": lambda raw: meminfo_kib(raw, "SwapTotal") // KIB_PER_MIB,
    "memory.swapped": swapped,
    "memory.swappiness": lambda raw: raw.number(f"{VM}/swappiness"),
    "memory.huge_pages": huge_pages,
    "memory.huge_pages_defrag": compaction,
    "memory.huge_pages_reserved": reserved,
    "memory.same_page_merging": lambda raw: wants(switch(raw, "/sys/kernel/mm/ksm/run"), OFF),
    "memory.proactive_compaction": lambda raw: raw.number(f"{VM}/compaction_proactiveness"),
    "memory.statistics_interval": lambda raw: raw.number(f"{VM}/stat_interval"),
    "memory.random_addresses": lambda raw: raw.number("/proc/sys/kernel/randomize_va_space"),
    "numa.nodes": nodes,
    "numa.balancing": lambda raw: wants(switch(raw, "/proc/sys/kernel/numa_balancing"), OFF),
    "numa.zone_reclaim": lambda raw: wants(raw.number(f"{VM}/zone_reclaim_mode"), 0),
}
