"""Sysctls of TCP and net.core that are not as this kernel starts with them.

No default is guessed. In this order, where it comes from:

1. a new network namespace of the same kernel, in which the namespace's own sysctls have just been
   set by the kernel; not those that it copies from the initial namespace (`INHERITED`) or shares
   with it, which it shows without a write bit;
2. the options with which the kernel was built, and formulae of its source that need a figure of
   the machine (`COMPUTED`);
3. a boot of the virtual kernel of this series (`sysctl_defaults.json`), or of the two series
   between which this one is, if they agree.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.read.audit.items import Item
from labs.read.audit.raw import PREFIXES, UNEXPECTED, Raw, Unknown, line_of, number, sysctl_name
from labs.read.theory.kernels import DEFAULT_WMEM, LARGE_CORE_MAX, default_rmem

HERE = Path(__file__).parent
ABOUT, DEFAULTS = HERE / "sysctls.toml", HERE / "sysctl_defaults.json"
QDISC, CONGESTION_CONTROL = "net.core.default_qdisc", "net.ipv4.tcp_congestion_control"
# net/ipv4/tcp_ipv4.c: tcp_sk_init copies these from the initial namespace.
INHERITED = frozenset({"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", CONGESTION_CONTROL})
REPORTS = frozenset(
    {
        "net.ipv4.tcp_available_congestion_control",
        "net.ipv4.tcp_available_ulp",
        "net.ipv4.tcp_allowed_congestion_control",
        "net.ipv4.tcp_ehash_entries",
    }
)
"""What no one sets: they say what the kernel has, or follow from its modules."""
OF_THE_MACHINE = frozenset({"net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_max_tw_buckets"})
"""Computed from the size of the connection table, so another machine's default says nothing."""
CHANGED_BY = {"net.core.rmem_max": LARGE_CORE_MAX, "net.core.wmem_max": LARGE_CORE_MAX}
"""Defaults that differ between two measured series, and what changed them."""
# What of the memory the kernel may have kept for itself at boot.
FREE_SHARE = 0.9
MEMORY_TOLERANCE = 0.05


@dataclass(frozen=True)
class Default:
    """The value with which this kernel starts, and how that is known."""

    value: str
    by: str


def items(raw: Raw) -> Iterator[Item]:
    """A summary, and an item for each sysctl that differs, that has no known default, or that the
    labs speak of."""
    listed = [_item(raw, name, text) for name, text in raw.sysctls().items() if name not in REPORTS]
    differ, unknown = (sum(item.deviates is state for item in listed) for state in (True, None))
    refused = sum(sysctl_name(path).startswith(PREFIXES) for path in raw.refused)
    description = about()["summary"]
    yield Item(
        name="sysctl.compared",
        group="Sysctls",
        value=f"compared {len(listed) - unknown}, differ {differ}, "
        f"without a known default {unknown}, not readable {refused}",
        **{**description, "matters": tuple(description["matters"])},
    )
    for item in listed:
        if item.deviates is not False or about().get(item.name, {}).get("shown"):
            yield item


def _item(raw: Raw, name: str, value: str) -> Item:
    description = about().get(name, {})
    default, unknown = None, ""
    try:
        default = default_of(raw, name)
    except Unknown as error:
        unknown = str(error)
    except UNEXPECTED as error:
        unknown = f"another format than expected ({type(error).__name__})"
    wanted = default.value if default else ""
    queueing = name in (QDISC, CONGESTION_CONTROL)
    return Item(
        name=name,
        group="Queues and congestion control" if queueing else "Sysctls",
        title=name,
        value=value,
        deviates=value != wanted if default else None,
        wanted=wanted,
        wanted_by=default.by if default else f"its default is unknown: {unknown}",
        matters=tuple(description.get("matters", ())),
        says=description.get("says", "The lab has no description of this sysctl."),
        source=description.get("source", documented(name)),
        change=f"sysctl -w {name}='{wanted or 'VALUE'}'",
    )


def documented(name: str) -> str:
    """The file of the kernel's documentation that describes a sysctl of this name."""
    if name.startswith("net.core."):
        return "Documentation/admin-guide/sysctl/net.rst"
    return "Documentation/networking/ip-sysctl.rst"


def default_of(raw: Raw, name: str) -> Default:
    """The value with which this kernel starts. Unknown, with the reason, if that is not known."""
    if name in raw.fresh and name not in raw.fresh_read_only | INHERITED:
        return Default(raw.fresh[name], "a new network namespace of this kernel")
    if name in COMPUTED:
        return COMPUTED[name](raw)
    description = about().get(name, {})
    if "default" in description:
        return Default(description["default"], description["default_by"])
    return measured(raw, name)


def measured(raw: Raw, name: str) -> Default:
    """The default on the virtual kernel of this series, or of its two neighbours."""
    if name in OF_THE_MACHINE:
        raise Unknown(f"it follows from tcp_ehash_entries; {raw.fresh_error or 'not measured'}")
    series, kernels = raw.series, defaults()
    older = max((kernel for kernel in kernels if kernel <= series), default=None)
    newer = min((kernel for kernel in kernels if kernel >= series), default=None)
    if older is None or newer is None:
        raise Unknown(f"Linux {text_of(series)} is not between two kernels that were booted")
    booted = "Linux " + " and ".join(map(text_of, sorted({older, newer})))
    by = f"{'a boot' if older == newer else 'boots'} of {booted}"
    before, after = kernels[older].get(name), kernels[newer].get(name)
    change = CHANGED_BY.get(name)
    if change and before != after:
        by += f"; changed in {text_of(change.since)} (commit {change.commit})"
        before = after = after if series >= change.since else before
    if before is None and after is None:
        raise Unknown(f"{booted} of the lab are built without it")
    if before is None or before != after:
        raise Unknown(f"it is not the same on {booted}")
    return Default(before, by)


def text_of(series: tuple[int, int]) -> str:
    return f"{series[0]}.{series[1]}"


def memory_bytes(raw: Raw) -> int:
    kib = line_of(raw.text("/proc/meminfo"), "MemTotal", "/proc/meminfo")
    return number(kib.removesuffix("kB").strip()) * 1024


def of_memory(raw: Raw) -> Default:
    """net/ipv4/tcp.c tcp_init_mem: a sixteenth of the free pages, and shares of that."""
    low, middle, high = map(number, raw.text("/proc/sys/net/ipv4/tcp_mem").split())
    by = "net/ipv4/tcp.c tcp_init_mem: from the pages free at boot"
    expected = memory_bytes(raw) // raw.page_bytes // 16
    fits = (low, high) == (middle // 4 * 3, middle // 4 * 6)
    if fits and abs(middle / expected - 1) <= MEMORY_TOLERANCE:
        return Default(f"{low} {middle} {high}", by)
    return Default(f"about {expected // 4 * 3} {expected} {expected // 4 * 6}", by)


def of_buffers(raw: Raw, middle: int, cap: int) -> Default:
    """net/ipv4/tcp.c tcp_init: the largest buffer is 1/128 of the free memory, up to a cap."""
    if memory_bytes(raw) * FREE_SHARE / 128 < cap:
        raise Unknown("with this little memory it depends on what was free at boot (tcp_init)")
    by = "net/ipv4/tcp.c tcp_init: the cap for this memory"
    return Default(f"{raw.page_bytes} {middle} {cap}", by)


def receive_buffers(raw: Raw) -> Default:
    _, middle, cap = default_rmem(text_of(raw.series))
    return of_buffers(raw, middle, cap)


def orphans(raw: Raw) -> Default:
    entries = number(raw.text("/proc/sys/net/ipv4/tcp_ehash_entries"))
    if entries <= 0:
        raise Unknown("the hash table belongs to another network namespace")
    return Default(f"{entries // 2}", "net/ipv4/tcp.c tcp_init: half of tcp_ehash_entries")


def of_config(raw: Raw, option: str, otherwise: str) -> Default:
    choice = raw.option(option)
    if choice in ("n", ""):
        return Default(otherwise, f"CONFIG_{option} is not set in the build of this kernel")
    return Default("1" if choice == "y" else choice, f"CONFIG_{option} of this kernel")


def budget(raw: Raw) -> Default:
    ticks = 2_000_000 // number(raw.option("HZ"))
    return Default(f"{ticks}", "net/core/hotdata.c: two ticks, by CONFIG_HZ")


def no_cpus(raw: Raw) -> Default:
    bitmap = raw.text("/proc/sys/net/core/flow_limit_cpu_bitmap")
    return Default(re.sub("[^,]", "0", bitmap), "net/core/dev.c: empty")


COMPUTED: Mapping[str, Callable[[Raw], Default]] = {
    CONGESTION_CONTROL: lambda raw: of_config(raw, "DEFAULT_TCP_CONG", "reno"),
    QDISC: lambda raw: of_config(raw, "DEFAULT_NET_SCH", "pfifo_fast"),
    "net.core.bpf_jit_enable": lambda raw: of_config(raw, "BPF_JIT_DEFAULT_ON", "0"),
    "net.core.bpf_jit_kallsyms": lambda raw: of_config(raw, "BPF_JIT_DEFAULT_ON", "0"),
    "net.core.flow_limit_cpu_bitmap": no_cpus,
    "net.core.netdev_budget_usecs": budget,
    "net.ipv4.tcp_max_orphans": orphans,
    "net.ipv4.tcp_mem": of_memory,
    "net.ipv4.tcp_rmem": receive_buffers,
    "net.ipv4.tcp_wmem": lambda raw: of_buffers(raw, *DEFAULT_WMEM[1:]),
}


@functools.cache
def about() -> Mapping[str, Mapping[str, Any]]:
    """What is known about each sysctl: labs/read/audit/sysctls.toml."""
    return tomllib.loads(ABOUT.read_text(encoding="utf-8"))


@functools.cache
def defaults() -> Mapping[tuple[int, int], Mapping[str, str]]:
    """The sysctls of each virtual kernel after its boot, by series."""
    by_series = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    return {
        (int(major), int(minor)): values
        for series, values in by_series.items()
        for major, minor in [series.split(".")]
    }
