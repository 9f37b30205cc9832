"""The conditions of the lab `windows`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labs.drive.condition import Condition, Group, as_settings
from labs.drive.testbed.link import Link
from labs.drive.units import KIB, MIB
from labs.experiments.windows import paths
from labs.experiments.windows.parameters import Windows
from labs.experiments.windows.settings import (
    ACCEPT,
    BYTES,
    CHUNKS,
    DIRECT,
    LATE,
    LISTEN,
    MESSAGES,
    PIECES,
    RATE,
    ROUTER,
    SLOW,
    SPREAD,
    Settings,
)

ARTICLE = Group("article", "The article's rig: the loopback device")
HOSTS = Group("hosts", "The same on two hosts")
ROUTES = Group("routes", "Route options")
SENDERS = Group("senders", "A sender of small packets")
BUFFERS = Group("buffers", "Receive buffers, set on the accepted socket")
LISTENERS = Group("listeners", "Receive buffers, set on the listening socket")
SCALES = Group("scales", "tcp_adv_win_scale")
READERS = Group("readers", "A receiver that reads late or slowly")
SEGMENT_SIZES = Group("segment_sizes", "Segment sizes")
GROUPS = (*(ARTICLE, HOSTS, ROUTES, SENDERS), *(BUFFERS, LISTENERS, SCALES, READERS, SEGMENT_SIZES))

PORT = 1234
SIZES_KIB = (16, 32, 64, 128, 256, 512, 1024, 2048)
LARGE_KIB = 1024
CLAMP_KIB = 16
"""Half of the window that `article-scale1` offers."""
SCALE_VALUES = (-2, -1, 0, 1, 2, 3)
ETHERNET_BYTES = 1448
"""The payload of a full packet of Ethernet with timestamps."""
MSS_VALUES = (ETHERNET_BYTES, 536, 100)
FEW_SEGMENTS = 10
SLOW_S = 15.0
"""4 MiB at 64 KiB per round trip of 200 ms."""
EARLIER, PROGRAM_S = 3, 6.25
"""The article's program, four times: it waits for a second after connecting, and prints the
counters five seconds later."""
RMEM_MAX_BYTES = 212_992
"""The default of net.core.rmem_max until 6.17: the largest size that SO_RCVBUF may request."""
RAISED_RMEM_MAX = {"net.core.rmem_max": str(4 * MIB)}
"""The default from 6.18 on; below tcp_rmem[2], so that the window scale stays as it is."""
ARTICLES_OWN = {"net.ipv4.tcp_timestamps": "0", "net.ipv4.tcp_no_metrics_save": "1"}

PATCHED = "initrwnd-patched"
"""The condition `initrwnd`, for a kernel that is built with initrwnd.patch."""
ON_MACHINES = ("article-scale0", "article-scale1")
"""The conditions of size small on two machines, where runs take real time."""
SMALL = (
    "article-scale0",
    "article-scale0-4x",
    "article-scale1",
    "article-1m",
    "hosts-scale0",
    "hosts-scale1",
    "automatic",
    f"clamp-{CLAMP_KIB}k",
    "quickack",
    "initrwnd",
    "chunks",
    "chunks-spread",
    "messages",
    "unsampled",
    "rcvbuf-16k",
)


def conditions(p: Windows) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size.

    PATCHED needs a kernel of its own, so it is selected only by name. Machines have no router;
    there the two hosts are connected directly.
    """
    every = {one.name: one for one in _every(p)}
    if p.only or p.size == "full":
        offered = tuple(name for name in every if p.only or name != PATCHED)
        return tuple(every[name] for name in p.chosen(offered))
    small = ON_MACHINES if p.testbed == "vagrant" else SMALL
    return tuple(every[name] for name in small)


def _every(p: Windows) -> Iterator[Condition]:
    article = Settings(
        rcvbuf_kib=p.rcvbuf_kib,
        set_rcvbuf=LISTEN,
        adv_win_scale=1,
        mss_bytes=p.mss_bytes,
        initcwnd=p.initcwnd,
        duration_s=p.duration_s,
    )
    machines = p.testbed == "vagrant"
    hosts = replace(article, path=DIRECT if machines else ROUTER, capture_client=p.capture)
    for group, settings in (
        (ARTICLE, _article(article)),
        (HOSTS, _hosts(hosts)),
        (ROUTES, _routes(article, p.initrwnd)),
        (SENDERS, _senders(article)),
        (BUFFERS, _buffers(replace(hosts, set_rcvbuf=ACCEPT))),
        (LISTENERS, _listeners(hosts)),
        (SCALES, _scales(hosts)),
        (READERS, _readers(hosts)),
        (SEGMENT_SIZES, _segment_sizes(hosts)),
    ):
        for name, one in settings:
            yield _condition(name, one, p.delay_ms, group)


def _condition(name: str, settings: Settings, delay_ms: float, group: Group) -> Condition:
    shaped_at = "router" if settings.path == ROUTER else "server"
    link = Link(delay_ms=delay_ms, shaped_at=shaped_at, port=PORT)
    server = dict(ARTICLES_OWN)
    if settings.adv_win_scale is not None:
        server["net.ipv4.tcp_adv_win_scale"] = str(settings.adv_win_scale)
    if settings.rcvbuf_kib * KIB > RMEM_MAX_BYTES:
        server |= RAISED_RMEM_MAX
    sysctls = {"server": server, "client": ARTICLES_OWN}
    return Condition(name, link, sysctls, as_settings(settings), group.name)


def _article(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The article's conditions, and one whose receiver does not sample."""
    scale0 = replace(base, adv_win_scale=0)
    yield "article-scale0", scale0
    yield "article-scale0-4x", replace(scale0, earlier=EARLIER, duration_s=PROGRAM_S)
    yield "article-scale1", base
    yield "article-1m", replace(base, rcvbuf_kib=LARGE_KIB)
    yield "automatic", replace(base, rcvbuf_kib=0)
    yield f"automatic-{ETHERNET_BYTES}", replace(base, rcvbuf_kib=0, mss_bytes=ETHERNET_BYTES)
    yield "unsampled", replace(scale0, sampled=False)
    yield f"clamp-{CLAMP_KIB}k", replace(base, window_clamp_kib=CLAMP_KIB)


def _hosts(base: Settings) -> Iterator[tuple[str, Settings]]:
    yield "hosts-scale0", replace(base, adv_win_scale=0)
    yield "hosts-scale1", base
    yield "hosts-1m", replace(base, rcvbuf_kib=LARGE_KIB)


def _routes(base: Settings, initrwnd: int) -> Iterator[tuple[str, Settings]]:
    """Options of the receiver's route, and a sender with the kernel's default `initcwnd`."""
    yield "quickack", replace(base, quickack=True)
    for name in ("initrwnd", PATCHED):
        yield name, replace(base, rcvbuf_kib=LARGE_KIB, initrwnd=initrwnd)
    yield "initcwnd-10", replace(base, initcwnd=FEW_SEGMENTS)


def _senders(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The chunks of the article's program; the same, evenly spread over a round trip, so that none
    is acknowledged to the sender before the next arrives; and messages that are read slowly."""
    yield CHUNKS, replace(base, fill=CHUNKS)
    yield "chunks-spread", replace(base, fill=SPREAD, quickack=True)
    yield MESSAGES, replace(base, fill=MESSAGES, reader=SLOW)
    yield BYTES, replace(base, fill=BYTES)


def _buffers(base: Settings) -> Iterator[tuple[str, Settings]]:
    """Before 6.6 the window stays at what the handshake allowed, so a large buffer fills slowly."""
    for kib in SIZES_KIB:
        longer_s = SLOW_S if kib > LARGE_KIB else 0.0
        duration_s = max(base.duration_s, longer_s)
        yield f"rcvbuf-{_size(kib)}", replace(base, rcvbuf_kib=kib, duration_s=duration_s)


def _listeners(base: Settings) -> Iterator[tuple[str, Settings]]:
    for kib in SIZES_KIB:
        yield f"listen-{_size(kib)}", replace(base, rcvbuf_kib=kib)


def _size(kib: int) -> str:
    return f"{kib // 1024}m" if kib >= 1024 else f"{kib}k"


def _scales(base: Settings) -> Iterator[tuple[str, Settings]]:
    for value in SCALE_VALUES:
        name = f"minus{-value}" if value < 0 else str(value)
        yield f"scale-{name}", replace(base, adv_win_scale=value)


def _readers(base: Settings) -> Iterator[tuple[str, Settings]]:
    for reader in (RATE, LATE, PIECES):
        yield f"reader-{reader}", replace(base, reader=reader)


def _segment_sizes(base: Settings) -> Iterator[tuple[str, Settings]]:
    for mss_bytes in MSS_VALUES:
        yield f"mss-{mss_bytes}", replace(base, mss_bytes=mss_bytes)


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    return ("tcpdump", "ethtool")


def lines(condition: Condition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The commands that a condition adds to those of its link: host and words."""
    return paths.lines(condition)
