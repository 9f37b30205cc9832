"""The lab `windows`: the contents of a receive buffer, and the growth of its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from labs.drive.condition_table import Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.experiments.windows.paths import lines as lines
from labs.experiments.windows.settings import ACCEPT, DIRECT, LISTEN, ROUTER, Settings
from labs.guest.condition import Condition, Group, as_settings
from labs.guest.testbed.link import Link
from labs.guest.units import KIB, MIB

ARTICLE = Group("article", "The article's rig: the loopback device")
HOSTS = Group("hosts", "The same on two hosts")
ROUTES = Group("routes", "Route options")
SENDERS = Group("senders", "A sender of small packets")
BUFFERS = Group("buffers", "Receive buffers, set on the accepted socket")
LISTENERS = Group("listeners", "Receive buffers, set on the listening socket")
SCALES = Group("scales", "tcp_adv_win_scale")
READERS = Group("readers", "A receiver that reads late or slowly")
SEGMENT_SIZES = Group("segment_sizes", "Segment sizes")
ON_LOOPBACK = (ARTICLE, ROUTES, SENDERS)
GROUPS = (ARTICLE, HOSTS, ROUTES, SENDERS, BUFFERS, LISTENERS, SCALES, READERS, SEGMENT_SIZES)
REASON = """\
the window decides how much is queued, in both testbeds by the same code; only the memory that a \
packet takes depends on the device"""
MARGIN = Margin(0.95, 1.05, REASON)


OTHERWISE = "for conditions without a size in their name"
segments = partial(parameter, unit="segments", low=1, high=100_000)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """The receive buffer, the segments and the path; each condition changes one of them.

    Packets are always captured at the receiver; with `capture` also at the sender, if it is
    another host.
    """

    rcvbuf_kib: int = parameter(
        32, unit="KiB", low=1, high=4096, help=f"SO_RCVBUF of the receiver, {OTHERWISE}"
    )
    mss_bytes: int = parameter(
        1024, unit="bytes", low=88, high=32_767, help=f"TCP_MAXSEG of both ends, {OTHERWISE}"
    )
    delay_ms: float = parameter(200.0, unit="ms", low=0, high=1000, help="RTT of the path")
    initcwnd: int = segments(10_000, help="initial congestion window (route option of the sender)")
    initrwnd: int = segments(
        1000,
        help="initial receive window of the condition `initrwnd` (route option of the receiver)",
    )
    duration_s: float = parameter(
        10.0, unit="s", low=2, high=1000, help="time from connecting to the end of the run"
    )


PORT = 1234
SIZES_KIB = (16, 32, 64, 128, 256, 512)
SLOW_S = 15.0
"""4 MiB at 64 KiB per round trip of 200 ms."""
PROGRAM_S = 6.25
"""The article's program waits for a second after connecting, and prints the counters five seconds
later."""
RMEM_MAX_BYTES = 212_992
"""The default of net.core.rmem_max until 6.17: the largest size that SO_RCVBUF may request."""
RAISED_RMEM_MAX = {"net.core.rmem_max": str(4 * MIB)}
"""The default from 6.18 on; below tcp_rmem[2], so that the window scale stays as it is."""
ARTICLES_OWN = {"net.ipv4.tcp_timestamps": "0", "net.ipv4.tcp_no_metrics_save": "1"}

PATCHED = "initrwnd-patched"
"""The condition `initrwnd`, for a kernel that is built with initrwnd.patch; selected only by its
name."""


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size.

    Machines have no router; there the two hosts are connected directly.
    """
    article = Settings(
        rcvbuf_kib=p.rcvbuf_kib,
        set_rcvbuf=LISTEN,
        adv_win_scale=1,
        mss_bytes=p.mss_bytes,
        initcwnd=p.initcwnd,
        duration_s=p.duration_s,
    )
    between = DIRECT if p.where.machines else ROUTER
    hosts = replace(article, path=between, capture_client=p.capture)
    base = {group.name: article if group in ON_LOOPBACK else hosts for group in GROUPS}
    table = select(p, chain(_on_loopback(p), _on_hosts(p)))
    return tuple(_condition(entry, entry.change(base[entry.group]), p) for entry in table)


def _condition(entry: Row, settings: Settings, p: Parameters) -> Condition:
    shaped_at = "router" if settings.path == ROUTER else "server"
    link = Link(delay_ms=p.delay_ms, shaped_at=shaped_at, port=PORT)
    scale = {"net.ipv4.tcp_adv_win_scale": str(settings.adv_win_scale)}
    raised = RAISED_RMEM_MAX if settings.rcvbuf_kib * KIB > RMEM_MAX_BYTES else {}
    sysctls = {"server": {**ARTICLES_OWN, **scale, **raised}, "client": ARTICLES_OWN}
    return Condition(entry.name, link, sysctls, as_settings(settings), entry.group)


def _on_loopback(p: Parameters) -> Iterator[Row]:
    """The article's rig. `article-scale0-4x` runs the article's program four times. Of the senders,
    `chunks-spread` spreads the chunks of that program evenly over a round trip, so that none is
    acknowledged to the sender before the next arrives; `clamp-16k` is half of the window that
    `article-scale1` offers, and 1448 the payload of a full packet of Ethernet with timestamps."""
    yield from rows(
        ARTICLE,
        row("article-scale0", small=1, machines=1, adv_win_scale=0),
        row("article-scale0-4x", small=1, adv_win_scale=0, earlier=3, duration_s=PROGRAM_S),
        row("article-scale1", small=1, machines=1),
        row("article-1m", small=1, rcvbuf_kib=1024),
        row("automatic", small=1, rcvbuf_kib=0),
        row("automatic-1448", rcvbuf_kib=0, mss_bytes=1448),
        row("unsampled", small=2, adv_win_scale=0, sampled=False),
        row("clamp-16k", small=1, window_clamp_kib=16),
    )
    yield from rows(
        ROUTES,
        row("quickack", small=1, quickack=True),
        row("initrwnd", small=1, rcvbuf_kib=1024, initrwnd=p.initrwnd),
        row(PATCHED, by_name=True, rcvbuf_kib=1024, initrwnd=p.initrwnd),
        row("initcwnd-10", initcwnd=10),
    )
    yield from rows(
        SENDERS,
        row("chunks", small=1, fill="chunks"),
        row("chunks-spread", small=1, fill="spread", quickack=True),
        row("messages", small=1, fill="messages", reader="slow"),
        row("bytes", fill="bytes"),
    )


def _on_hosts(p: Parameters) -> Iterator[Row]:
    """Before 6.6 the window stays at what the handshake allowed, so a large buffer that is set on
    the accepted socket fills slowly."""
    slow_s = max(p.duration_s, SLOW_S)
    yield from rows(
        HOSTS,
        row("hosts-scale0", small=1, adv_win_scale=0),
        row("hosts-scale1", small=1),
        row("hosts-1m", rcvbuf_kib=1024),
    )
    yield from rows(
        BUFFERS,
        each("rcvbuf-{}k", SIZES_KIB, small=(16,), rcvbuf_kib=same),
        row("rcvbuf-1m", rcvbuf_kib=1024),
        row("rcvbuf-2m", rcvbuf_kib=2048, duration_s=slow_s),
        set_rcvbuf=ACCEPT,
    )
    yield from rows(
        LISTENERS,
        each("listen-{}k", SIZES_KIB, rcvbuf_kib=same),
        row("listen-1m", rcvbuf_kib=1024),
        row("listen-2m", rcvbuf_kib=2048),
    )
    yield from rows(
        SCALES,
        each("scale-minus{}", (2, 1), adv_win_scale=lambda value: -value),
        each("scale-{}", (0, 1, 2, 3), adv_win_scale=same),
    )
    yield from rows(READERS, each("reader-{}", ("rate", "late", "pieces"), reader=same))
    yield from rows(SEGMENT_SIZES, each("mss-{}", (1448, 536, 100), mss_bytes=same))


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    return ("tcpdump", "ethtool")
