"""The lab `sweeps`: goodput against the size of the socket buffers at both ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from labs.drive.condition_table import Changes, Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.experiments.sweeps.settings import WRITE_BYTES_MAX, Settings
from labs.guest.condition import Condition, Group, Sysctls, as_settings
from labs.guest.testbed.link import MSS_BYTES, Link
from labs.guest.units import KIB, MIB, bytes_carried

ARTICLE = Group("article", "The article's five series")
SURFACE = Group("surface", "Send buffer by receive buffer")
WRITES = Group("writes", "The size of a write, and Nagle")
TINY = Group("tiny", "Requests below the kernel's minimum")
CAPPED = Group("capped", "Requests beyond the kernel's maximum")
LITERAL = Group("literal", "The article's link (the clock limits this)")
IMPLIED = Group("implied", "The receive buffer at the BDP of the article's best goodput")
ADVISED = Group("advised", "The article's recommendations at the BDP of its best goodput")
OVERFLOW = Group("overflow", "An output queue that overflows")
GROUPS = (ARTICLE, SURFACE, WRITES, TINY, CAPPED, LITERAL, IMPLIED, ADVISED, OVERFLOW)
MARGIN = Margin(
    0.85,
    1.1,
    "the link check before a run allows deviations of 5 % in the rate and 2 % in the RTT; a small "
    "buffer passes once per round trip, which a machine's own work lengthens by up to a "
    "millisecond of 20",
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """A link, and the transfers that iperf3 makes over it with different socket buffers.

    The client always captures packets, because the times of a transfer are those of its arrivals.
    """

    # Emulated machines carry 100 Mbit/s; the BDP is between the sizes of the series there.
    rate_mbit: float = parameter(
        1000.0, unit="Mbit/s", low=0.1, high=100_000, on_machines=100.0, help="rate of the link"
    )
    delay_ms: float = parameter(
        8.0, unit="ms", low=0.01, high=10_000, on_machines=20.0, help="RTT of the link"
    )
    write_bytes: int = parameter(
        2048,
        unit="bytes",
        low=1,
        high=WRITE_BYTES_MAX,
        help="size of a write (iperf3 -l) of the series",
    )
    transfer_mib: int = parameter(
        8, unit="MiB", low=1, high=65_536, on_machines=16, help="bytes of a transfer, at most"
    )
    sndbuf_kib: int = parameter(
        64,
        unit="KiB",
        low=1,
        high=524_288,
        help="send buffer of the conditions that vary the size of a write",
    )
    limit_s: float = parameter(
        60.0, unit="s", low=0.1, high=3600, help="when a transfer is ended that has not finished"
    )


PORT = 5201
QUEUE_PACKETS = 1_000_000
"""More than any buffer here holds, so that the link never drops a packet."""
RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
CORE_MAX = ("net.core.rmem_max", "net.core.wmem_max")
CORE_MAX_BYTES = 212_992
"""The default of both until 6.17: the largest request that setsockopt grants, doubled."""
SIZES_KIB = (16, 64, 256, 1024, 4096, 16384)
SMALL_KIB = (64, 256, 1024, 4096)
FIXED_KIB = {256: (64, 256, 1024, 16384), 8192: (256, 1024, 4096, 16384)}
"""The receive buffers of two series, and the send buffers that each has in size small."""
SURFACE_KIB = (16, 64, 1024)
"""The receive buffers of the surface besides those of the series: automatic, 256 KiB and 8 MiB."""
CAPPED_KIB = (208, 256, 4096, 8192, 524_288, 1_048_576)
"""212,992 bytes, the next size, both about 4 MiB, the largest size that iperf3 takes, and 1 GiB."""
WRITE_BYTES = (MSS_BYTES, 2048, 10 * MSS_BYTES, 16_384, 20_000, 131_072)
BURST_BYTES = (14_480, 16_384)
NAGLE = {"": False, "-nodelay": True}
"""TCP_NODELAY, by the end of a condition's name."""
WRITES_PER_WAKE_MAX = 1000
"""The largest burst of iperf3 (MAX_BURST)."""
ROUND_TRIPS = 50
"""A transfer through a buffer smaller than the BDP takes at least so many round trips."""
IMPLIED_RATE_MBIT = {"100": 150.0, "150": 225.0, "200": 300.0}
"""By the RTT of the article's ping, in us: the rates at which 8 ms have the BDP of the article's
best goodput, 12 Gbit/s: 150 to 300 KB."""
OLD_SHARE = {"client": {"net.ipv4.tcp_adv_win_scale": "2"}}
"""Three quarters of a receive buffer become window, as in CentOS 6 (net/ipv4/tcp_input.c); the
default is 1, one half, since Linux 3.4 (b49960a05e32). Without effect since 6.6."""


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size.

    On machines size small is one series, at a rate that they carry.
    """
    link = Link(rate_mbit=p.rate_mbit, delay_ms=p.delay_ms, queue_packets=QUEUE_PACKETS, port=PORT)
    size_bytes = p.transfer_mib * MIB
    base = Settings(write_bytes=p.write_bytes, transfer_bytes=size_bytes, limit_s=p.limit_s)
    table = chain(_buffers(), _writes(p.sndbuf_kib), _of_other_links(link))
    return tuple(_condition(entry, base, link) for entry in select(p, table))


def _condition(entry: Row, base: Settings, link: Link) -> Condition:
    settings = entry.change(base)
    if entry.link is None:
        settings = _shortened(settings, link)
    return condition(entry.name, entry.link or link, settings, entry.group, entry.sysctls)


def _buffers() -> Iterator[Row]:
    """Both buffers, one of them, and the sender's with two receivers of a fixed size; the pairs
    that none of these series has."""
    yield from rows(
        ARTICLE,
        row("default", small=True, machines=True),
        each("both-{}", SIZES_KIB, size_name, small=True, machines=True, window_kib=same),
        each("sender-{}", SIZES_KIB, size_name, small=SMALL_KIB, sndbuf_kib=same),
        each("receiver-{}", SIZES_KIB, size_name, small=SMALL_KIB, rcvbuf_kib=same),
    )
    for receiver, small in FIXED_KIB.items():
        name = f"fixed-{size_name(receiver)}"
        varied = each(f"{name}-{{}}", SIZES_KIB, size_name, small=small, sndbuf_kib=same)
        yield from rows(ARTICLE, row(f"{name}-default"), varied, rcvbuf_kib=receiver)
    for sender in SIZES_KIB:
        pattern = f"surface-{size_name(sender)}-{{}}"
        pairs = each(pattern, SURFACE_KIB, size_name, rcvbuf_kib=same)
        yield from rows(SURFACE, pairs, sndbuf_kib=sender)


def _writes(sndbuf_kib: int) -> Iterator[Row]:
    """Writes of whole segments and of other sizes, with Nagle's algorithm and without it, ten per
    wake-up of the sender, and many; requests below the kernel's minimum and beyond its maximum.

    select() wakes a sender that has much room again. How far the writes after it may exceed the
    buffer is visible only if there are many of them.
    """
    for size in WRITE_BYTES:
        small = [""] if size in BURST_BYTES else []
        both = each(f"writes-{size}{{}}", NAGLE, small=small, nodelay=NAGLE.get)
        yield from rows(WRITES, both, write_bytes=size, sndbuf_kib=sndbuf_kib)
    burst: Changes = {"writes_per_wake": WRITES_PER_WAKE_MAX, "sndbuf_kib": sndbuf_kib}
    for size in BURST_BYTES:
        both = each(f"writes-{size}-burst{{}}", NAGLE, small=size == 16_384, nodelay=NAGLE.get)
        yield from rows(WRITES, both, write_bytes=size, **burst)
    # A transfer through the smallest buffers, which takes a second or more.
    tiny = each("w-{}k", (1, 2, 4), small=(1,), window_kib=same)
    yield from rows(TINY, tiny, transfer_bytes=64 * KIB)
    capped = each("w-{}", CAPPED_KIB, size_name, small=(256, MIB), window_kib=same)
    yield from rows(CAPPED, capped, may_be_refused=True)
    raised = {"client": dict.fromkeys(CORE_MAX, str(2**31 - 1))}  # the largest value of both
    grants = (row("setsockopt", small=True), row("setsockopt-raised", small=True, sysctls=raised))
    yield from rows(CAPPED, grants, grants=True)


def _of_other_links(link: Link) -> Iterator[Row]:
    """Conditions with links of their own; at the article's BDP with the window share of its kernel
    at the receiver."""
    yield from rows(
        LITERAL,
        row("literal", small=True),
        row("literal-128k", write_bytes=131_072),  # comes closer to the rate
        link=replace(link, rate_mbit=40_000.0, delay_ms=0.2),
        transfer_bytes=16 * MIB,
        sample_ms=1,
    )
    for rtt_us, rate_mbit in IMPLIED_RATE_MBIT.items():
        path = replace(link, rate_mbit=rate_mbit, delay_ms=8.0)
        receivers, name = (64, 128, 256, 4096), f"implied{rtt_us}-{{}}"
        implied = each(name, receivers, size_name, small=True, rcvbuf_kib=same)
        yield from rows(IMPLIED, implied, link=path, sysctls=OLD_SHARE)
        yield from rows(
            ADVISED,
            row(f"advised{rtt_us}-auto", small=True),
            each(f"advised{rtt_us}-{{}}", FIXED_KIB, size_name, small=True, rcvbuf_kib=same),
            link=path,
            sysctls=OLD_SHARE,
            sndbuf_kib=16_384,  # for which the article recommends these three receive buffers
        )
    # A queue that a window of some MB overflows.
    short = replace(link, queue_packets=45)
    yield from rows(OVERFLOW, row("overflow", small=True, link=short, window_kib=4096))


def _shortened(settings: Settings, link: Link) -> Settings:
    """The settings with fewer bytes where a buffer smaller than the BDP makes a transfer slow."""
    sizes = (settings.window_kib, settings.sndbuf_kib, settings.rcvbuf_kib)
    granted = [2 * kib * KIB for kib in sizes if kib]
    smallest = min([bytes_carried(link.rate_mbit or 0, link.delay_ms), *granted])
    enough = max(MIB, round(ROUND_TRIPS * smallest))
    return replace(settings, transfer_bytes=min(settings.transfer_bytes, enough))


def size_name(kib: int) -> str:
    """A size in the name of a condition, such as 64k, 4m or 1g."""
    for unit, letter in ((MIB, "g"), (KIB, "m")):
        if kib >= unit and kib % unit == 0:
            return f"{kib // unit}{letter}"
    return f"{kib}k"


def condition(
    name: str, link: Link, settings: Settings, group: str = "", sysctls: Sysctls | None = None
) -> Condition:
    """A condition, with the sysctls that its settings need besides its other ones."""
    hosts = {host: dict((sysctls or {}).get(host, {})) for host in ("server", "client")}
    ends = (("server", WMEM, settings.sndbuf_kib), ("client", RMEM, settings.rcvbuf_kib))
    for host, sysctl, requested_kib in ends:
        if requested_kib:
            # Fixed at the size granted for a request.
            hosts[host][sysctl] = "4096 {0} {0}".format(2 * requested_kib * KIB)
    requested = settings.requested_bytes or 0
    if requested > CORE_MAX_BYTES and not settings.may_be_refused:
        for values in hosts.values():
            values |= dict.fromkeys(CORE_MAX, str(requested))
    needed = {host: values for host, values in hosts.items() if values}
    return Condition(name, link, needed, as_settings(settings), group)


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    return ("iperf3", "tcpdump")
