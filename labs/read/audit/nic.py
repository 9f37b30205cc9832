"""Network cards, their queues, and congestion control: the way of a packet to and from the wire."""

from __future__ import annotations

import re

from labs.read.audit.cpu import OFF, ON, cpus, switch
from labs.read.audit.items import DeviceRule, Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown, natural, whole

NET = "/sys/class/net"
ROUTES = ("ip", "route", "show", "table", "all")
NO_VALUE = "n/a"
SECTION_MAXIMUM, SECTION_CURRENT = "Pre-set maximums", "Current hardware settings"
INTERRUPT = re.compile(r"\s*(\d+):((?:\s+\d+)+)\s+(.*)", re.ASCII)
CONFIG_VECTOR = re.compile(r"\bconfig$|-config\b")
FEATURES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "checksum_receive": "rx-checksumming",
    "checksum_send": "tx-checksumming",
    "ntuple": "ntuple-filters",
}


def field(raw: Raw, flag: str, device: str, name: str, section: str = "") -> str:
    """A line `name: value` that ethtool prints, of a section if there are several."""
    text = raw.output("ethtool", flag, device)
    part = text.partition(f"{section}:")[2] if section else text
    match = re.search(rf"^\s*{re.escape(name)}:[ \t]*(.*)$", part, re.MULTILINE)
    if match is None:
        raise Unknown(f"`ethtool {flag} {device}` says nothing of {name}")
    value = match[1].strip()
    if value == NO_VALUE or not value:
        raise Unknown(f"the driver of {device} does not report {name}")
    return value


def link(raw: Raw, device: str) -> str:
    speed = raw.files.get(f"{NET}/{device}/speed", "").strip()
    state = raw.text(f"{NET}/{device}/operstate")
    if speed in ("", "-1"):
        return f"{state}, speed not reported"
    return f"{state}, {speed} Mbit/s, {raw.text(f'{NET}/{device}/duplex')} duplex"


def queues(raw: Raw, device: str) -> Finding:
    """Combined queues, or those for receiving where a card has separate ones. Where ethtool cannot
    change them, those that the device has."""
    for name in ("Combined", "RX"):
        try:
            now = whole(field(raw, "-l", device, name, SECTION_CURRENT), name)
            most = whole(field(raw, "-l", device, name, SECTION_MAXIMUM), name)
        except Unknown as error:
            reason = error
            continue
        return Finding(
            f"{now} of {most}", now < min(most, int(raw.fact("cpus"))), "one per CPU in use"
        )
    there = raw.each.get(f"{NET}/{device}/queues/rx-*/rps_cpus", {})
    count = sum(len(paths) for paths in there.values())
    if not count:
        raise reason
    return Finding(f"{count} (fixed by the driver)")


def microseconds(raw: Raw, device: str, name: str) -> Finding:
    return wants(whole(field(raw, "-c", device, name), name), 0)


def frames(raw: Raw, device: str) -> int:
    return whole(field(raw, "-c", device, "rx-frames"), "rx-frames")


def adaptive(raw: Raw, device: str) -> Finding:
    match = re.match(r"(\S+)\s+TX: (\S+)", field(raw, "-c", device, "Adaptive RX"))
    if match is None or match[1] == NO_VALUE:
        raise Unknown(f"the driver of {device} does not report adaptive coalescing")
    send = "not reported" if match[2] == NO_VALUE else match[2]
    return Finding(f"receive {match[1]}, send {send}", ON in match.groups(), OFF)


def ring(raw: Raw, device: str, name: str) -> str:
    now = field(raw, "-g", device, name, SECTION_CURRENT)
    return f"{now} of {field(raw, '-g', device, name, SECTION_MAXIMUM)}"


def feature(raw: Raw, device: str, name: str) -> str:
    text = field(raw, "-k", device, FEATURES[name])
    return f"{text.split()[0]} (fixed)" if "[fixed]" in text else text.split()[0]


def merged_by_hardware(raw: Raw, device: str) -> Finding:
    """Large receive offload merges packets before the stack sees them."""
    state = feature(raw, device, "lro")
    return Finding(state, state.startswith(ON), OFF)


def flow_hash(raw: Raw, device: str) -> str:
    lines = raw.output("ethtool", "-n", device, "rx-flow-hash", "tcp4").strip().splitlines()
    fields = [line.strip() for line in lines[1:] if line.strip() not in ("", "None")]
    return ", ".join(fields) or "no fields"


def spread(raw: Raw, device: str) -> str:
    """The queues that the table of receive side scaling names, and how often."""
    text = raw.output("ethtool", "-x", device)
    entries = re.findall(r"^\s*\d+:((?:\s+\d+)+)\s*$", text, re.MULTILINE | re.ASCII)
    counts: dict[str, int] = {}
    for queue in (number for entry in entries for number in entry.split()):
        counts[queue] = counts.get(queue, 0) + 1
    if not counts:
        raise Unknown(f"the driver of {device} shows no table of receive side scaling")
    return ", ".join(f"queue {queue}: {counts[queue]}" for queue in sorted(counts, key=natural))


def interrupts(raw: Raw, device: str) -> dict[str, tuple[str, list[int]]]:
    """The interrupts of a device by number: name, and how many each CPU has served."""
    text = raw.text(f"/proc/interrupts#{device}")
    served = {}
    for line in text.splitlines():
        seen = INTERRUPT.fullmatch(line)
        if seen and not CONFIG_VECTOR.search(seen[3].strip()):
            served[seen[1]] = (seen[3].split()[-1], [int(count) for count in seen[2].split()])
    if not served:
        raise Unknown(f"{device} has no interrupts of its own (no msi_irqs in /sys)")
    return served


def affinity(raw: Raw, device: str, what: str) -> str:
    irqs = interrupts(raw, device)
    return "; ".join(
        f"{name} (irq {number}): {raw.text(f'/proc/irq/{number}/{what}') or 'none'}"
        for number, (name, _) in irqs.items()
    )


def on_isolated(raw: Raw, device: str) -> Finding:
    """CPUs that take interrupts of the device although they are isolated."""
    apart = cpus(raw.text("/sys/devices/system/cpu/isolated"))
    used: set[int] = set()
    for number in interrupts(raw, device):
        used |= cpus(raw.text(f"/proc/irq/{number}/effective_affinity_list"))
    both = sorted(apart & used)
    if not apart:
        return Finding("no CPU is isolated")
    return wants(", ".join(map(str, both)) or "none", "none")


def served(raw: Raw, device: str) -> str:
    totals = [
        sum(counts)
        for counts in zip(*(c for _, c in interrupts(raw, device).values()), strict=False)
    ]
    whole_count = sum(totals) or 1
    return (
        ", ".join(
            f"CPU {cpu}: {100 * count / whole_count:.0f} %"
            for cpu, count in enumerate(totals)
            if count
        )
        or "none yet"
    )


def mask(raw: Raw, device: str, pattern: str) -> str:
    """A bit mask of CPUs that each queue has; `none` where all bits are 0."""
    full = f"{NET}/{device}/queues/{pattern}"
    if full not in raw.each and any(
        path.startswith(f"{NET}/{device}/queues/") for path in raw.refused
    ):
        return "none (one queue)"
    bits = raw.common(full)
    return "none" if not bits.strip("0,") else bits


def flow_steering(raw: Raw, device: str) -> str:
    entries = raw.number("/proc/sys/net/core/rps_sock_flow_entries")
    flows = raw.common(f"{NET}/{device}/queues/rx-*/rps_flow_cnt")
    return "off" if not entries or flows == "0" else f"{entries} entries, {flows} per queue"


def numa_node(raw: Raw, device: str) -> str:
    for path in ("device/numa_node", "device/../numa_node"):
        node = raw.files.get(f"{NET}/{device}/{path}", "").strip()
        if node:
            return "not reported" if node == "-1" else f"node {node}"
    raise Unknown(f"{device} has no numa_node")


def pause(raw: Raw, device: str) -> str:
    names = {"receive": "RX", "send": "TX"}
    states = {word: field(raw, "-a", device, name) for word, name in names.items()}
    return ", ".join(f"{word} {value}" for word, value in states.items())


def energy_efficient(raw: Raw, device: str) -> Finding:
    status = field(raw, "--show-eee", device, "EEE status")
    return Finding(status, status.startswith("enabled"), "disabled")


def of_link(raw: Raw, device: str, name: str) -> int:
    """A number that `ip -d link` prints."""
    text = raw.output("ip", "-d", "-o", "link", "show", "dev", device)
    match = re.search(rf"^{name} (\d+)$", text, re.MULTILINE | re.ASCII)
    if match is None:
        raise Unknown(f"`ip -d link show dev {device}` says nothing of {name}")
    return int(match[1])


def express_path(raw: Raw, device: str) -> Finding:
    text = raw.output("ip", "-d", "-o", "link", "show", "dev", device)
    return wants("attached" if re.search(r"^xdp", text, re.MULTILINE) else "none", "none")


def dropped(raw: Raw, device: str) -> Finding:
    names = ("rx_dropped", "rx_missed_errors", "rx_errors", "tx_dropped", "tx_errors")
    counts = {name: raw.number(f"{NET}/{device}/statistics/{name}") for name in names}
    some = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return wants(some or "none", "none")


def qdisc(raw: Raw, device: str) -> str:
    """The disciplines of a device, root first, equal children counted."""
    lines = raw.output("tc", "qdisc", "show", "dev", device).splitlines()
    kinds = [line.split()[1] for line in lines if line.startswith("qdisc ")]
    if not kinds:
        raise Unknown(f"`tc qdisc show dev {device}` lists none")
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in counts.items())


def routes(raw: Raw) -> Finding:
    """The attributes of routes that change what TCP does."""
    lines = raw.output(*ROUTES).split("\n")
    return wants(", ".join(line.strip() for line in lines if line.strip()) or "none", "none")


RULES: dict[str, Rule] = {
    "queue.available": lambda raw: raw.text("/proc/sys/net/ipv4/tcp_available_congestion_control"),
    "queue.routes": routes,
}
DEVICE_RULES: dict[str, DeviceRule] = {
    "nic.driver": lambda raw, device: field(raw, "-i", device, "driver"),
    "nic.link": link,
    "nic.mtu": lambda raw, device: raw.number(f"{NET}/{device}/mtu"),
    "nic.queues": queues,
    "nic.rx_usecs": lambda raw, device: microseconds(raw, device, "rx-usecs"),
    "nic.tx_usecs": lambda raw, device: microseconds(raw, device, "tx-usecs"),
    "nic.rx_frames": frames,
    "nic.adaptive": adaptive,
    "nic.ring_receive": lambda raw, device: ring(raw, device, "RX"),
    "nic.ring_send": lambda raw, device: ring(raw, device, "TX"),
    "nic.tso": lambda raw, device: feature(raw, device, "tso"),
    "nic.gso": lambda raw, device: feature(raw, device, "gso"),
    "nic.gro": lambda raw, device: feature(raw, device, "gro"),
    "nic.lro": merged_by_hardware,
    "nic.checksum_receive": lambda raw, device: feature(raw, device, "checksum_receive"),
    "nic.checksum_send": lambda raw, device: feature(raw, device, "checksum_send"),
    "nic.ntuple": lambda raw, device: feature(raw, device, "ntuple"),
    "nic.gso_max_size": lambda raw, device: of_link(raw, device, "gso_max_size"),
    "nic.flow_hash": flow_hash,
    "nic.rss": spread,
    "nic.interrupts_allowed": lambda raw, device: affinity(raw, device, "smp_affinity_list"),
    "nic.interrupts_served_by": lambda raw, device: affinity(
        raw, device, "effective_affinity_list"
    ),
    "nic.interrupts_isolated": on_isolated,
    "nic.interrupts_counted": served,
    "nic.rps": lambda raw, device: mask(raw, device, "rx-*/rps_cpus"),
    "nic.rfs": flow_steering,
    "nic.xps": lambda raw, device: mask(raw, device, "tx-*/xps_cpus"),
    "nic.defer_hard_irqs": lambda raw, device: raw.number(f"{NET}/{device}/napi_defer_hard_irqs"),
    "nic.gro_flush_timeout": lambda raw, device: raw.number(f"{NET}/{device}/gro_flush_timeout"),
    "nic.threaded": lambda raw, device: switch(raw, f"{NET}/{device}/threaded"),
    "nic.pause": pause,
    "nic.energy_efficient": energy_efficient,
    "nic.numa_node": numa_node,
    "nic.xdp": express_path,
    "nic.dropped": dropped,
    "queue.qdisc": qdisc,
    "queue.length": lambda raw, device: raw.number(f"{NET}/{device}/tx_queue_len"),
}
