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
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.read.audit.items import Item
from labs.read.audit.memory import meminfo_kib
from labs.read.audit.raw import PREFIXES, UNEXPECTED, Raw, Unknown, sysctl_name, whole
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
SHOWN = frozenset(
    {
        QDISC, CONGESTION_CONTROL, "net.core.busy_poll", "net.core.busy_read",
        "net.core.netdev_budget", "net.core.netdev_max_backlog", "net.core.rmem_max",
        "net.core.somaxconn", "net.core.wmem_max", "net.ipv4.tcp_limit_output_bytes",
        "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
"""Shown although they have their default: the labs and the articles speak of them."""
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
    differ = unknown = 0
    listed = []
    for name, value in raw.sysctls().items():
        if name in REPORTS:
            continue
        item = _compared(raw, name, value)
        differ += item.deviates is True
        unknown += item.deviates is None
        if item.deviates is not False or name in SHOWN:
            listed.append(item)
    refused = [path for path in raw.refused if sysctl_name(path).startswith(PREFIXES)]
    compared = len(raw.sysctls()) - len(REPORTS & set(raw.sysctls())) - unknown
    description = about()["summary"]
    yield Item(
        name="sysctl.compared",
        group="Sysctls",
        title=description["title"],
        value=f"compared {compared}, differ {differ}, without a known default {unknown}, "
        f"not readable {len(refused)}",
        matters=tuple(description["matters"]),
        says=description["says"],
        source=description["source"],
        change=description["change"],
    )
    yield from listed


def _compared(raw: Raw, name: str, value: str) -> Item:
    description = about().get(name, {})
    wanted, by, deviates = "", "", None
    try:
        default = default_of(raw, name)
        wanted, by, deviates = default.value, default.by, value != default.value
    except Unknown as error:
        by = f"its default is unknown: {error}"
    except UNEXPECTED as error:
        by = f"its default is unknown: another format than expected ({type(error).__name__})"
    queueing = name in (QDISC, CONGESTION_CONTROL)
    return Item(
        name=name,
        group="Queues and congestion control" if queueing else "Sysctls",
        title=description.get("title", name),
        value=value,
        deviates=deviates,
        wanted=wanted,
        wanted_by=by,
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
    return measured(raw, name)


def measured(raw: Raw, name: str) -> Default:
    """The default on the virtual kernel of this series, or of its two neighbours."""
    if name in OF_THE_MACHINE:
        raise Unknown(f"it follows from tcp_ehash_entries; {raw.fresh_error or 'not measured'}")
    series = raw.series
    every = defaults()
    if series in every:
        if name in every[series]:
            return Default(every[series][name], f"a boot of Linux {text_of(series)}")
        raise Unknown(f"the virtual kernel {text_of(series)} was built without it")
    older = max((kernel for kernel in every if kernel < series), default=None)
    newer = min((kernel for kernel in every if kernel > series), default=None)
    if older is None or newer is None:
        raise Unknown(f"Linux {text_of(series)} is not between two kernels that were measured")
    before, after = every[older].get(name), every[newer].get(name)
    between = f"Linux {text_of(older)} and {text_of(newer)}"
    change = CHANGED_BY.get(name)
    if change is not None and before is not None and after is not None:
        value = after if series >= change.since else before
        source = f"changed in {text_of(change.since)} (commit {change.commit})"
        return Default(value, f"boots of {between}; {source}")
    if before is None and after is None:
        raise Unknown(f"{between}, which were measured, were built without it")
    if before is None or before != after:
        raise Unknown(f"it is not the same on {between}, and {text_of(series)} was not measured")
    return Default(before, f"boots of {between}, which agree")


def text_of(series: tuple[int, int]) -> str:
    return f"{series[0]}.{series[1]}"


def of_memory(raw: Raw) -> Default:
    """net/ipv4/tcp.c tcp_init_mem: a sixteenth of the free pages, and shares of that."""
    pages = meminfo_kib(raw, "MemTotal") * 1024 // int(raw.fact("page_bytes"))
    low, middle, high = (
        whole(word, "tcp_mem") for word in raw.text("/proc/sys/net/ipv4/tcp_mem").split()
    )
    by = "net/ipv4/tcp.c tcp_init_mem: from the pages free at boot"
    fits = (low, high) == (middle // 4 * 3, middle // 4 * 6)
    if fits and abs(middle * 16 / pages - 1) <= MEMORY_TOLERANCE:
        return Default(f"{low} {middle} {high}", by)
    about_middle = pages // 16
    return Default(f"about {about_middle // 4 * 3} {about_middle} {about_middle // 4 * 6}", by)


def of_buffers(raw: Raw, middle: int, cap: int) -> Default:
    """net/ipv4/tcp.c tcp_init: the largest buffer is 1/128 of the free memory, up to a cap."""
    if meminfo_kib(raw, "MemTotal") * 1024 * FREE_SHARE / 128 < cap:
        raise Unknown("with this little memory it depends on what was free at boot (tcp_init)")
    page = raw.fact("page_bytes")
    return Default(f"{page} {middle} {cap}", "net/ipv4/tcp.c tcp_init: the cap for this memory")


def receive_buffers(raw: Raw) -> Default:
    _, middle, cap = default_rmem(text_of(raw.series))
    return of_buffers(raw, middle, cap)


def orphans(raw: Raw) -> Default:
    entries = raw.number("/proc/sys/net/ipv4/tcp_ehash_entries")
    if entries <= 0:
        raise Unknown("the hash table belongs to another network namespace")
    return Default(f"{entries // 2}", "net/ipv4/tcp.c tcp_init: half of tcp_ehash_entries")


def of_config(raw: Raw, option: str, otherwise: str) -> Default:
    choice = raw.option(option)
    if choice in ("n", ""):
        return Default(otherwise, f"CONFIG_{option} is not set in the build of this kernel")
    return Default(choice, f"CONFIG_{option} of this kernel")


def compiled_filters(raw: Raw) -> Default:
    on = raw.option("BPF_JIT_DEFAULT_ON") == "y"
    return Default("1" if on else "0", "CONFIG_BPF_JIT_DEFAULT_ON of this kernel")


def budget(raw: Raw) -> Default:
    hz = whole(raw.option("HZ"), "CONFIG_HZ")
    return Default(f"{2_000_000 // hz}", "net/core/hotdata.c: two ticks, by CONFIG_HZ")


def no_cpus(raw: Raw) -> Default:
    shape = raw.text("/proc/sys/net/core/flow_limit_cpu_bitmap")
    return Default(
        "".join("," if character == "," else "0" for character in shape), "net/core/dev.c: empty"
    )


def constant(value: str, source: str) -> Callable[[Raw], Default]:
    return lambda raw: Default(value, source)


XFRM = "net/xfrm/xfrm_sysctl.c: __xfrm_sysctl_init"
COMPUTED: dict[str, Callable[[Raw], Default]] = {
    CONGESTION_CONTROL: lambda raw: of_config(raw, "DEFAULT_TCP_CONG", "reno"),
    QDISC: lambda raw: of_config(raw, "DEFAULT_NET_SCH", "pfifo_fast"),
    "net.core.bpf_jit_enable": compiled_filters,
    "net.core.bpf_jit_kallsyms": compiled_filters,
    "net.core.bpf_jit_harden": constant("0", "kernel/bpf/core.c: bpf_jit_harden"),
    "net.core.flow_limit_cpu_bitmap": no_cpus,
    "net.core.flow_limit_table_len": constant("4096", "net/core/dev.c: 1 << 12"),
    "net.core.netdev_budget_usecs": budget,
    "net.core.rps_sock_flow_entries": constant("0", "net/core/sysctl_net_core.c: no table"),
    "net.core.xfrm_acq_expires": constant("30", XFRM),
    "net.core.xfrm_aevent_etime": constant("10", XFRM),
    "net.core.xfrm_aevent_rseqth": constant("2", XFRM),
    "net.core.xfrm_larval_drop": constant("1", XFRM),
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
        (int(major), int(minor)): {str(name): str(value) for name, value in values.items()}
        for series, values in by_series.items()
        for major, minor in [series.split(".")]
    }
