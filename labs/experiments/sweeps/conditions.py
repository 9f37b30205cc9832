"""The conditions of the lab `sweeps`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labs.drive.condition import Condition, Group, as_settings
from labs.drive.testbed.link import MSS_BYTES, Link
from labs.drive.units import KIB, MIB, bytes_carried
from labs.experiments.sweeps.parameters import Sweeps
from labs.experiments.sweeps.settings import Settings

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

PORT = 5201
QUEUE_PACKETS = 1_000_000
"""More than any buffer here holds, so that the link never drops a packet."""
RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
ADV_WIN_SCALE = "net.ipv4.tcp_adv_win_scale"
CORE_MAX = ("net.core.rmem_max", "net.core.wmem_max")
CORE_MAX_BYTES = 212_992
"""The default of both until 6.17: the largest request that setsockopt grants, doubled."""

RAISED = {"client": dict.fromkeys(CORE_MAX, str(2**31 - 1))}
"""The largest value of both maxima."""

SIZES_KIB = (16, 64, 256, 1024, 4096, 16384)
FIXED_KIB = (256, 8192)
"""The receive buffers of the article's last two series."""
SURFACE_KIB = (16, 64, 1024)
"""The receive buffers of the surface besides those of the series: automatic, and FIXED_KIB."""
TINY_KIB = (1, 2, 4)
CAPPED_KIB = (208, 256, 4096, 8192, 524_288, 1_048_576)
"""212,992 bytes, the next size, both about 4 MiB, the largest size that iperf3 takes, and 1 GiB."""
SEGMENTS_PER_WRITE = (1, 10)
ODD_WRITE_BYTES = (2048, 16_384, 20_000, 131_072)
BURST_WRITE_BYTES = (14_480, 16_384)
WRITES_PER_WAKE_MAX = 1000
"""The largest burst of iperf3 (MAX_BURST)."""
ROUND_TRIPS = 50
"""A transfer through a buffer smaller than the BDP takes at least so many round trips."""
SHORT_BYTES = 64 * KIB
"""A transfer through the smallest buffers, which takes a second or more."""
# The article's own link, and writes with which iperf3 comes closer to its rate.
LITERAL_RATE_MBIT, LITERAL_DELAY_MS = 40_000.0, 0.2
LITERAL_WRITE_BYTES = 131_072
LITERAL_MIB = 16
# The BDP of the article's best goodput, 12 Gbit/s, at the RTTs of its ping, 0.1 to 0.2 ms: 150 to
# 300 KB.
IMPLIED_DELAY_MS = 8.0
IMPLIED_RATE_MBIT = {"100": 150.0, "150": 225.0, "200": 300.0}
"""By the article's RTT, in us."""
RTTS_US = tuple(IMPLIED_RATE_MBIT)
OLD_ADV_WIN_SCALE = "2"
"""Three quarters of a receive buffer become window, as in CentOS 6 (net/ipv4/tcp_input.c); the
default is 1, one half, since Linux 3.4 (b49960a05e32). Without effect since 6.6."""
IMPLIED_KIB = (64, 128, 256, 4096)
ADVISED_KIB = {"auto": 0, "256k": 256, "8m": 8192}
"""The receive buffers that the article recommends for a send buffer of ADVISED_SENDER_KIB."""
ADVISED_SENDER_KIB = 16_384
OVERFLOW_PACKETS = 45
"""A queue that a window of some MB overflows."""

SMALL = (
    *("default", *(f"both-{size}" for size in ("16k", "64k", "256k", "1m", "4m", "16m"))),
    *(f"{end}-{size}" for end in ("sender", "receiver") for size in ("64k", "256k", "1m", "4m")),
    *(f"fixed-256k-{size}" for size in ("64k", "256k", "1m", "16m")),
    *(f"fixed-8m-{size}" for size in ("256k", "1m", "4m", "16m")),
    *("writes-14480", "writes-16384", "writes-16384-burst", "writes-16384-burst-nodelay"),
    *("w-1k", "w-256k", "w-1g", "setsockopt", "setsockopt-raised", "literal"),
    *(f"implied{rtt}-{size}" for rtt in RTTS_US for size in ("64k", "128k", "256k", "4m")),
    *(f"advised{rtt}-{size}" for rtt in RTTS_US for size in ("auto", "256k", "8m")),
    "overflow",
)


def conditions(p: Sweeps) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size.

    On machines size small is one series, at a rate that they carry.
    """
    every = {one.name: one for one in _every(p)}
    if p.only or p.size == "full":
        return tuple(every[name] for name in p.chosen(tuple(every)))
    if p.testbed == "vagrant":
        return tuple(one for one in every.values() if one.name.startswith(("default", "both-")))
    return tuple(every[name] for name in SMALL)


def _every(p: Sweeps) -> Iterator[Condition]:
    link = Link(rate_mbit=p.rate_mbit, delay_ms=p.delay_ms, queue_packets=QUEUE_PACKETS, port=PORT)
    base = Settings(
        write_bytes=p.write_bytes, transfer_bytes=p.transfer_mib * MIB, limit_s=p.limit_s
    )
    for group, named in (
        (ARTICLE, _article(base)),
        (SURFACE, _surface(base)),
        (WRITES, _writes(base, p.sndbuf_kib)),
        (TINY, _tiny(base)),
        (CAPPED, _capped(base)),
    ):
        for name, settings in named:
            one = condition(name, link, _shortened(settings, link), group.name)
            yield replace(one, sysctls=RAISED) if name == "setsockopt-raised" else one
    literal = replace(link, rate_mbit=LITERAL_RATE_MBIT, delay_ms=LITERAL_DELAY_MS)
    for name, settings in _literal(base):
        yield condition(name, literal, settings, LITERAL.name)
    for name, rate_mbit in IMPLIED_RATE_MBIT.items():
        implied = replace(link, rate_mbit=rate_mbit, delay_ms=IMPLIED_DELAY_MS)
        for kib in IMPLIED_KIB:
            one_end = replace(base, rcvbuf_kib=kib)
            yield _as_then(
                condition(f"implied{name}-{size_name(kib)}", implied, one_end, IMPLIED.name)
            )
        for size, kib in ADVISED_KIB.items():
            pair = replace(base, sndbuf_kib=ADVISED_SENDER_KIB, rcvbuf_kib=kib)
            yield _as_then(condition(f"advised{name}-{size}", implied, pair, ADVISED.name))
    short = replace(link, queue_packets=OVERFLOW_PACKETS)
    yield condition("overflow", short, replace(base, window_kib=4096), OVERFLOW.name)


def _as_then(one: Condition) -> Condition:
    """The condition with the window share of the article's kernel at the receiver."""
    sysctls = {host: dict(values) for host, values in one.sysctls.items()}
    sysctls.setdefault("client", {})[ADV_WIN_SCALE] = OLD_ADV_WIN_SCALE
    return replace(one, sysctls=sysctls)


def _article(base: Settings) -> Iterator[tuple[str, Settings]]:
    """Both buffers, one of them, and the sender's with two receivers of a fixed size."""
    yield "default", base
    for kib in SIZES_KIB:
        yield f"both-{size_name(kib)}", replace(base, window_kib=kib)
    for kib in SIZES_KIB:
        yield f"sender-{size_name(kib)}", replace(base, sndbuf_kib=kib)
    for kib in SIZES_KIB:
        yield f"receiver-{size_name(kib)}", replace(base, rcvbuf_kib=kib)
    for receiver in FIXED_KIB:
        series = f"fixed-{size_name(receiver)}"
        yield f"{series}-default", replace(base, rcvbuf_kib=receiver)
        for kib in SIZES_KIB:
            one = replace(base, sndbuf_kib=kib, rcvbuf_kib=receiver)
            yield f"{series}-{size_name(kib)}", one


def _surface(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The pairs of buffers that none of the series has."""
    for sender in SIZES_KIB:
        for receiver in SURFACE_KIB:
            one = replace(base, sndbuf_kib=sender, rcvbuf_kib=receiver)
            yield f"surface-{size_name(sender)}-{size_name(receiver)}", one


def _writes(base: Settings, sndbuf_kib: int) -> Iterator[tuple[str, Settings]]:
    """Writes of whole segments and of other sizes, with Nagle's algorithm and without it, ten per
    wake-up of the sender, and many.

    select() wakes a sender that has much room again. How far the writes after it may exceed the
    buffer is visible only if there are many of them.
    """
    whole = (count * MSS_BYTES for count in SEGMENTS_PER_WRITE)
    for write_bytes in sorted({*whole, *ODD_WRITE_BYTES}):
        one = replace(base, write_bytes=write_bytes, sndbuf_kib=sndbuf_kib)
        yield f"writes-{write_bytes}", one
        yield f"writes-{write_bytes}-nodelay", replace(one, nodelay=True)
    for write_bytes in BURST_WRITE_BYTES:
        one = replace(base, write_bytes=write_bytes, sndbuf_kib=sndbuf_kib)
        many = replace(one, writes_per_wake=WRITES_PER_WAKE_MAX)
        yield f"writes-{write_bytes}-burst", many
        yield f"writes-{write_bytes}-burst-nodelay", replace(many, nodelay=True)


def _tiny(base: Settings) -> Iterator[tuple[str, Settings]]:
    for kib in TINY_KIB:
        short = replace(base, window_kib=kib, transfer_bytes=SHORT_BYTES)
        yield f"w-{size_name(kib)}", short


def _capped(base: Settings) -> Iterator[tuple[str, Settings]]:
    """Requests with the kernel's own net.core.rmem_max and wmem_max."""
    for kib in CAPPED_KIB:
        yield f"w-{size_name(kib)}", replace(base, window_kib=kib, may_be_refused=True)
    yield "setsockopt", replace(base, grants=True)
    yield "setsockopt-raised", replace(base, grants=True)


def _literal(base: Settings) -> Iterator[tuple[str, Settings]]:
    short = replace(base, transfer_bytes=LITERAL_MIB * MIB, sample_ms=1)
    yield "literal", short
    yield "literal-128k", replace(short, write_bytes=LITERAL_WRITE_BYTES)


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
