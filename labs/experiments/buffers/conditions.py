"""The conditions of the lab `buffers`, from its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from labs.drive.condition import Condition, Group, Setting, Sysctls, as_settings, read_settings
from labs.drive.testbed.link import BURST_BYTES, Link, queue_packets
from labs.drive.units import KIB, MIB, bytes_carried
from labs.errors import BadInput
from labs.experiments.buffers.parameters import Buffers
from labs.experiments.buffers.settings import BLOCKS, DISCARD, GRANTS, HTTPING, WGET, Settings

# The article's own link: its commands are kept to the letter, netem's default queue included.
ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS = 1000.0, 200.0

RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
CORE = {"server": "net.core.wmem_max", "client": "net.core.rmem_max"}

ARTICLE = Group("article", "The article's downloads")
REQUESTS = Group("requests", "Buffers by setsockopt, and httping")
SWEEP = Group("sweep", "One buffer size at both ends")
SHARE = Group("share", "tcp_adv_win_scale")
LOSS = Group("loss", "Loss and congestion control")
PRESSURE = Group("pressure", "Memory pressure")
SHAPER = Group("shaper", "The shaper's burst")
NEAR = Group("near", "Buffers at a short RTT")
PAUSE = Group("pause", "A reader that pauses")
QUEUE = Group("queue", "The queue at the bottleneck")
WAIT = Group("wait", "One block per round trip")
FEW = Group("few", "Few losses on the article's link")
GROUPS = (ARTICLE, REQUESTS, SWEEP, SHARE, LOSS, PRESSURE, SHAPER, NEAR, PAUSE, QUEUE, WAIT, FEW)

DEFAULT, SENDER_RAISED, BOTH_RAISED = "default", "wmem", "both"
"""The default buffers, an enlarged send buffer alone, and enlarged buffers at both ends."""
SHAPED_SIZES_KIB = (256, 4096, 51200)
SWEEP_KIB = tuple(64 << step for step in range(12))
"""64 KiB to 128 MiB; multiples of the BDP are added, where the curve bends."""
SWEEP_BDP = (0.5, 1.0, 1.5, 1.75, 1.8, 1.85, 1.9, 2.0, 2.25, 2.5)
SWEEP_BDP_SMALL = (0.5, 1.0, 1.5, 1.9, 2.0, 2.25)
ADV_WIN_SCALES = (-2, -1, 0, 1, 2, 3)
ADV_BUFFER_BDP = 1.0
LOSSES_PCT = (0.0, 0.001, 0.01, 0.1, 1.0)
ALGORITHMS = ("reno", "cubic", "bbr")
# The loss series has its own link: on the article's, a run with 0.1 % loss would take an hour.
LOSS_RATE_MBIT, LOSS_DELAY_MS, LOSS_S = 100.0, 40.0, 20.0
LOSS_QUEUE_PACKETS = 10_000
SHORT_S = 15.0
"""The limit of downloads that show the size of buffers, and not a speed."""
# Pages of memory for TCP: it comes under pressure at 512 KiB, less than one flow needs here, and
# leaves it at 256 KiB; the hard limit of 512 MiB is out of reach.
PRESSURE_PAGES = (64, 128, 131_072)
DRAWS = {"small": 2, "full": 5}
# Half of what httping reports before the delay is added: it times two round trips.
NEAR_RTT_MS = 0.6
NEAR_KIB = (32, 64, 128, 256, 1024)
NEAR_MIB = 128
PAUSE_MS = 250
QUEUES_PACKETS = (1_000, 50_000)
"""A twentieth of the article's BDP, and three times the BDP."""
BLOCK_BYTES, BLOCK_RATE_MBIT = 1_000_000, 800.0
"""The article's example: 1 MB at 100 MB/s, then a wait of one RTT."""
WAITS_MS = (200, 400)
# On the article's own link, with its buffers and the kernel's. Its download is 741,000 packets:
# none, one or seven of them are lost.
FEW_LOSSES_PCT, FEW_DRAWS, FEW_S = (0.0, 0.0001, 0.001), 5, 45.0

SMALL = (
    "unshaped",
    "shaped",
    "shaped-256k",
    "httping",
    DEFAULT,
    SENDER_RAISED,
    BOTH_RAISED,
    "rmem100",
    "adv-m2",
    "adv-2",
    "setsockopt",
    "by-hand",
    "pressure",
)

# A few minutes on two machines: no shaper, no delay, and the article's buffers.
SMALL_ON_MACHINES = ("unshaped", "shaped", DEFAULT, SENDER_RAISED, BOTH_RAISED, "rmem100")


def conditions(p: Buffers) -> tuple[Condition, ...]:
    """The requested conditions: those of `only`, or those of the size."""
    if p.only and (found := _first_of(p)):
        return found
    every = {condition.name: condition for condition in _every(p)}
    if p.only or p.size == "full":
        return tuple(every[name] for name in p.chosen(tuple(every)))
    if p.testbed == "vagrant":
        return tuple(every[name] for name in SMALL_ON_MACHINES)
    sweep = [name_of_size(bytes_) for bytes_ in _of_bdp(p, SWEEP_BDP_SMALL)]
    # With a very small BDP, its multiples are one size.
    return tuple(every[name] for name in dict.fromkeys((*SMALL, *sweep)))


def _first_of(p: Buffers) -> tuple[Condition, ...]:
    """The conditions of `only`, without computing those after them; none if a name is unknown.
    A batch asks for a few conditions of very many links."""
    wanted = {name.strip() for name in p.only.split(",")} - {""}
    found = (condition for condition in _every(p) if condition.name in wanted)
    first = tuple(islice(found, len(wanted)))
    return first if {one.name for one in first} == wanted else ()


def _every(p: Buffers) -> Iterator[Condition]:
    base = Settings(
        client=p.client,
        read_bytes=p.read_bytes,
        transfer_bytes=p.transfer_mib * MIB,
        limit_s=p.limit_s,
        capture=p.capture,
    )
    yield from _article(p, base)
    yield from _sweep(p, base)
    yield from _adv_win_scale(p, base)
    yield from _setsockopt(p, base)
    yield from _loss(p, base)
    yield from _pressure(p, base)
    yield from _bursts(p, base)
    yield from _near(p, base)
    yield from _path(p, base)
    yield from _waits(base)
    yield from _few_losses(p, base)


def _condition(
    group: Group, name: str, link: Link, sysctls: Sysctls, settings: Settings
) -> Condition:
    return Condition(name, link, sysctls, _as_settings(settings), group.name)


@lru_cache(maxsize=4096)
def _as_settings(settings: Settings) -> Mapping[str, Setting]:
    """As `as_settings`, once for the many conditions of many links that share their settings."""
    return as_settings(settings)


def _article(p: Buffers, base: Settings) -> Iterator[Condition]:
    """The article's own measurements, in its order, including httping."""
    shaped, undelayed = link(p), _without_delay(p)
    raised = round(p.buffer_mib * MIB)
    httping = replace(base, steps=HTTPING, transfer_bytes=KIB)
    yield _condition(ARTICLE, "unshaped", Link(shaped_at=p.shaped_at), {}, base)
    yield _condition(ARTICLE, "shaped", undelayed, {}, base)
    for size in SHAPED_SIZES_KIB:
        both = fixed(size * KIB, size * KIB)
        yield _condition(ARTICLE, f"shaped-{size}k", undelayed, both, base)
    yield _condition(REQUESTS, "httping", shaped, {}, httping)
    yield _condition(ARTICLE, DEFAULT, shaped, {}, base)
    yield _condition(ARTICLE, SENDER_RAISED, shaped, fixed(raised, None), base)
    yield _condition(ARTICLE, BOTH_RAISED, shaped, fixed(raised, raised), base)
    yield _condition(ARTICLE, "rmem100", shaped, fixed(raised, 2 * raised), base)


def _sweep(p: Buffers, base: Settings) -> Iterator[Condition]:
    """One size at both ends, automatic sizing off: by sysctl, then by setsockopt."""
    sizes = sorted({*(kib * KIB for kib in SWEEP_KIB), *_of_bdp(p, SWEEP_BDP)})
    for size in sizes:
        yield _condition(SWEEP, name_of_size(size), link(p), fixed(size, size), base)
    for size in sizes:
        # setsockopt doubles what is requested, so half of it is requested.
        half = size // 2
        by_setsockopt = replace(
            base, client=DISCARD, server_sndbuf_bytes=half, client_rcvbuf_bytes=half
        )
        caps = {host: {name: str(max(half, 212992))} for host, name in CORE.items()}
        name = name_of_size(size, "sweep-set")
        yield _condition(SWEEP, name, link(p), caps, by_setsockopt)


def _adv_win_scale(p: Buffers, base: Settings) -> Iterator[Condition]:
    """One receive buffer, with every share of it that the kernel can reserve for overhead."""
    size = _of_bdp(p, (ADV_BUFFER_BDP,))[0]
    for scale in ADV_WIN_SCALES:
        sysctls = {
            "server": {WMEM: three(4 * size)},
            "client": {
                RMEM: three(size),
                "net.ipv4.tcp_moderate_rcvbuf": "0",
                "net.ipv4.tcp_adv_win_scale": str(scale),
            },
        }
        name = f"adv-{scale}" if scale >= 0 else f"adv-m{-scale}"
        yield _condition(SHARE, name, link(p), sysctls, base)


def _setsockopt(p: Buffers, base: Settings) -> Iterator[Condition]:
    """What setsockopt grants with the default cap and a raised one; a buffer set by hand."""
    grants, cap = replace(base, steps=GRANTS), str(64 * MIB)
    raised = {"client": {"net.core.rmem_max": cap, "net.core.wmem_max": cap}}
    by_hand = replace(base, client=DISCARD, client_rcvbuf_bytes=131072, limit_s=SHORT_S)
    yield _condition(REQUESTS, "setsockopt", Link(shaped_at=p.shaped_at), {}, grants)
    yield _condition(REQUESTS, "setsockopt-raised", Link(shaped_at=p.shaped_at), raised, grants)
    yield _condition(REQUESTS, "by-hand", link(p), {}, by_hand)
    sender = replace(base, client=DISCARD, server_sndbuf_bytes=131072, limit_s=SHORT_S)
    yield _condition(REQUESTS, "by-hand-send", link(p), {}, sender)
    unmoderated, short = {"net.ipv4.tcp_moderate_rcvbuf": "0"}, replace(base, limit_s=SHORT_S)
    yield _condition(REQUESTS, "moderate-off", link(p), {"client": unmoderated}, short)
    yield _condition(REQUESTS, "moderate-off-send", link(p), {"server": unmoderated}, short)


def _loss(p: Buffers, base: Settings) -> Iterator[Condition]:
    """Congestion controls under loss, behind a router with offloads off: netem drops whole skbs."""
    for loss_pct in LOSSES_PCT:
        path = Link(
            LOSS_RATE_MBIT,
            LOSS_DELAY_MS,
            loss_pct,
            shaped_at="router",
            queue_packets=LOSS_QUEUE_PACKETS,
        )
        for algorithm in ALGORITHMS:
            control = {"server": {"net.ipv4.tcp_congestion_control": algorithm}}
            for draw in range(DRAWS[p.size]):
                settings = replace(base, client=DISCARD, limit_s=LOSS_S, draw=draw)
                name = f"loss-{loss_pct:g}-{algorithm}-{draw}"
                yield _condition(LOSS, name, path, control, settings)


def _pressure(p: Buffers, base: Settings) -> Iterator[Condition]:
    """The default buffers, with little memory for all TCP sockets of a host together."""
    pages = {"net.ipv4.tcp_mem": " ".join(map(str, PRESSURE_PAGES))}
    short = replace(base, limit_s=SHORT_S)
    yield _condition(PRESSURE, "pressure", link(p), {"server": pages, "client": pages}, short)


def _bursts(p: Buffers, base: Settings) -> Iterator[Condition]:
    """The rate alone, once with the article's burst and once with one that covers late timers."""
    undelayed = _without_delay(p)
    for name, burst_bytes in (("burst-20k", BURST_BYTES), ("burst-5ms", None)):
        path = replace(undelayed, burst_bytes=burst_bytes)
        yield _condition(SHAPER, name, path, {}, base)


def _near(p: Buffers, base: Settings) -> Iterator[Condition]:
    """The article's network before the delay is added, with small buffers at both ends."""
    path = replace(_without_delay(p), delay_ms=NEAR_RTT_MS)
    settings = replace(base, transfer_bytes=NEAR_MIB * MIB)
    yield _condition(NEAR, "near", path, {}, settings)
    for kib in NEAR_KIB:
        yield _condition(NEAR, f"near-{kib}k", path, fixed(kib * KIB, kib * KIB), settings)


def _path(p: Buffers, base: Settings) -> Iterator[Condition]:
    """A reader that pauses, with the article's two receive buffers; queues at the bottleneck."""
    raised = round(p.buffer_mib * MIB)
    pausing = replace(base, client=DISCARD, pause_ms=PAUSE_MS)
    for name, receive in (("pause-both", raised), ("pause-rmem100", 2 * raised)):
        yield _condition(PAUSE, name, link(p), fixed(raised, receive), pausing)
    short = replace(base, limit_s=SHORT_S)
    for packets in QUEUES_PACKETS:
        path = replace(link(p), shaped_at="router", queue_packets=packets)
        yield _condition(QUEUE, f"queue-{packets}", path, {}, short)


def _waits(base: Settings) -> Iterator[Condition]:
    """A block of 1 MB per round trip."""
    settings = replace(base, steps=BLOCKS, transfer_bytes=BLOCK_BYTES)
    for delay_ms in WAITS_MS:
        path = Link(
            BLOCK_RATE_MBIT,
            float(delay_ms),
            queue_packets=queue_packets(BLOCK_RATE_MBIT, float(delay_ms)),
        )
        yield _condition(WAIT, f"wait-{delay_ms}", path, {}, settings)


def _few_losses(p: Buffers, base: Settings) -> Iterator[Condition]:
    """Congestion controls with few losses, behind a router as in the loss series; and cubic with
    the kernel's own buffers, for the effect of the buffers."""
    raised = round(p.buffer_mib * MIB)
    for loss_pct in FEW_LOSSES_PCT:
        path = Link(
            ARTICLE_RATE_MBIT,
            ARTICLE_DELAY_MS,
            loss_pct,
            shaped_at="router",
            queue_packets=queue_packets(ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS),
        )
        for draw in range(FEW_DRAWS if loss_pct else 1):
            settings = replace(base, client=DISCARD, limit_s=FEW_S, draw=draw)
            for algorithm in ALGORITHMS:
                sysctls = fixed(raised, raised)
                control = {"net.ipv4.tcp_congestion_control": algorithm}
                both = {**sysctls, "server": {**sysctls["server"], **control}}
                yield _condition(FEW, f"few-{loss_pct:g}-{algorithm}-{draw}", path, both, settings)
            name = f"few-default-{loss_pct:g}-{draw}"
            yield _condition(FEW, name, path, {}, settings)


def _without_delay(p: Buffers) -> Link:
    return replace(link(p), delay_ms=0.0, jitter_ms=0.0, loss_pct=0.0, queue_packets=None)


def three(size_bytes: int) -> str:
    """A size as minimum, default and maximum of tcp_rmem or tcp_wmem."""
    return " ".join([str(size_bytes)] * 3)


def fixed(send_bytes: int | None, receive_bytes: int | None) -> Sysctls:
    """The sysctls that fix the send and the receive buffer; None leaves a buffer to the kernel."""
    sysctls: dict[str, dict[str, str]] = {}
    if send_bytes is not None:
        sysctls["server"] = {WMEM: three(send_bytes)}
    if receive_bytes is not None:
        sysctls["client"] = {RMEM: three(receive_bytes)}
    return sysctls


def name_of_size(size_bytes: int, series: str = "sweep") -> str:
    """The name of a sweep's point."""
    return f"{series}-{size_bytes // KIB}k"


def _of_bdp(p: Buffers, shares: tuple[float, ...]) -> list[int]:
    """Multiples of the BDP in whole KiB, at least 16 KiB."""
    bdp_bytes = bytes_carried(p.rate_mbit, p.delay_ms)
    return [max(16, round(share * bdp_bytes / KIB)) * KIB for share in shares]


def link(p: Buffers) -> Link:
    """The shaped link; the article's own has netem's default queue, others one and a half BDP
    (behind a router, too, because packets are counted one by one there).

    BadInput for loss on the sender itself: there netem drops what TCP hands down in one piece, up
    to 45 packets at a time, whatever the offloads (net/ipv4/tcp_output.c builds them so).
    """
    if p.loss_pct and p.shaped_at == "server":
        raise BadInput(
            f"loss_pct {p.loss_pct:g} at the server would drop up to 45 packets at "
            "once; set shaped_at to router, where they pass one by one"
        )
    published = (ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS, "server")
    literal = (p.rate_mbit, p.delay_ms, p.shaped_at) == published
    return Link(
        rate_mbit=p.rate_mbit,
        delay_ms=p.delay_ms,
        loss_pct=p.loss_pct,
        jitter_ms=p.jitter_ms,
        shaped_at=p.shaped_at,
        queue_packets=None if literal else queue_packets(p.rate_mbit, p.delay_ms),
        # The article's own tc line, also where a timer is late.
        burst_bytes=BURST_BYTES if p.rate_mbit == ARTICLE_RATE_MBIT else None,
    )


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts."""
    return _tools_of(frozenset(condition.settings.items()))


@lru_cache(maxsize=4096)
def _tools_of(named: frozenset[tuple[str, Setting]]) -> tuple[str, ...]:
    settings = read_settings(Settings, dict(named))
    if settings.steps == GRANTS:
        return ()
    if settings.steps == HTTPING:
        return ("nginx", "httping")
    if settings.steps == BLOCKS:
        return ("nginx",)
    return ("nginx", "wget") if settings.client == WGET else ("nginx",)
