"""The conditions of the lab `sweeps`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labs.drive.condition import Condition, Group, as_settings
from labs.drive.testbed.link import Link
from labs.drive.units import KIB, MIB
from labs.experiments.sweeps.parameters import Sweeps
from labs.experiments.sweeps.settings import Settings

ARTICLE = Group("article", "The article's five series")
GROUPS = (ARTICLE,)

PORT = 5201
QUEUE_PACKETS = 1_000_000
"""More than any buffer here holds, so that the link never drops a packet."""
RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
CORE_MAX = ("net.core.rmem_max", "net.core.wmem_max")
CORE_MAX_BYTES = 212_992
"""The default of both core maxima until 6.17: the largest size that setsockopt grants, doubled."""
SIZES_KIB = (16, 64, 256, 1024, 4096, 16384)


def conditions(p: Sweeps) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    every = {one.name: one for one in _every(p)}
    return tuple(every[name] for name in p.chosen(tuple(every)))


def _every(p: Sweeps) -> Iterator[Condition]:
    link = Link(rate_mbit=p.rate_mbit, delay_ms=p.delay_ms, queue_packets=QUEUE_PACKETS, port=PORT)
    base = Settings(
        write_bytes=p.write_bytes, transfer_bytes=p.transfer_mib * MIB, limit_s=p.limit_s
    )
    yield condition("default", link, base, ARTICLE.name)
    for kib in SIZES_KIB:
        one = replace(base, window_kib=kib)
        yield condition(f"both-{size_name(kib)}", link, one, ARTICLE.name)


def size_name(kib: int) -> str:
    """A size in the name of a condition, such as 64k or 4m."""
    return f"{kib // 1024}m" if kib >= 1024 and kib % 1024 == 0 else f"{kib}k"


def condition(name: str, link: Link, settings: Settings, group: str = "") -> Condition:
    """A condition, with the sysctls that its settings need."""
    server: dict[str, str] = {}
    client: dict[str, str] = {}
    if settings.sndbuf_kib:
        server[WMEM] = fixed(settings.sndbuf_kib)
    if settings.rcvbuf_kib:
        client[RMEM] = fixed(settings.rcvbuf_kib)
    requested = settings.requested_bytes or 0
    if requested > CORE_MAX_BYTES and not settings.may_be_refused:
        for host in (server, client):
            host |= dict.fromkeys(CORE_MAX, str(requested))
    sysctls = {host: values for host, values in (("server", server), ("client", client)) if values}
    return Condition(name, link, sysctls, as_settings(settings), group)


def fixed(requested_kib: int) -> str:
    """A value of tcp_rmem or tcp_wmem that fixes a buffer at the size granted for a request."""
    granted = 2 * requested_kib * KIB
    return f"4096 {granted} {granted}"


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    return ("iperf3", "tcpdump")
