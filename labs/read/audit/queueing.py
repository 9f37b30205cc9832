"""Queues and congestion control: the way of a packet from the stack to the wire."""

from __future__ import annotations

from labs.read.audit.items import DeviceRule, Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown

NET = "/sys/class/net"
ROUTES = ("ip", "route", "show", "table", "all")


def qdisc(raw: Raw, device: str) -> str:
    """The disciplines of a device, root first, equal children counted."""
    lines = raw.said("tc", "qdisc", "show", "dev", device).splitlines()
    kinds = [line.split()[1] for line in lines if line.startswith("qdisc ")]
    if not kinds:
        raise Unknown(f"`tc qdisc show dev {device}` lists none")
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in counts.items())


def routes(raw: Raw) -> Finding:
    """The attributes of routes that change what TCP does."""
    found = raw.said(*ROUTES).split("\n")
    return wants(", ".join(line.strip() for line in found if line.strip()) or "none", "none")


RULES: dict[str, Rule] = {
    "queue.available": lambda raw: raw.text("/proc/sys/net/ipv4/tcp_available_congestion_control"),
    "queue.routes": routes,
}
DEVICE_RULES: dict[str, DeviceRule] = {
    "queue.qdisc": qdisc,
    "queue.length": lambda raw, device: raw.number(f"{NET}/{device}/tx_queue_len"),
}
