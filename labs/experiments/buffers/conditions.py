"""How large socket buffers must be, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from labs.drive.condition_table import Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.errors import BadInput
from labs.experiments.buffers.settings import BLOCKS, DISCARD, GRANTS, HTTPING, WGET, Settings
from labs.guest.condition import Condition, Group, Sysctls
from labs.guest.testbed.link import BURST_BYTES, Link, queue_packets
from labs.guest.units import KIB, MIB, bytes_carried

# The article's own link: its commands are kept to the letter, netem's default queue included.
ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS = 1000.0, 200.0

RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
CORE = {"server": "net.core.wmem_max", "client": "net.core.rmem_max"}
CORE_RAISED = {"client": dict.fromkeys(("net.core.rmem_max", "net.core.wmem_max"), str(64 * MIB))}

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
MARGIN = Margin(
    0.9,
    1.1,
    (
        "at rates that both machines can carry, the link check before a run allows deviations of "
        "5 % in the rate and 2 % in the RTT, and goodput varies by 2 % with the size of the "
        "client's reads; a larger deviation than all of these together needs another explanation"
    ),
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """A link, the buffers at its two ends, and a download of a given size."""

    # Emulated machines carry 200 Mbit/s, and the default buffers limit a download at that rate.
    rate_mbit: float = parameter(
        1000.0, unit="Mbit/s", low=0.1, high=100_000, on_machines=200.0, help="rate of the link"
    )
    delay_ms: float = parameter(
        200.0, unit="ms", low=0, high=10_000, help="delay that the link adds to a round trip"
    )
    loss_pct: float = parameter(
        0.0, unit="%", low=0, high=50, help="share of the packets that the link drops"
    )
    jitter_ms: float = parameter(
        0.0, unit="ms", low=0, high=10_000, help="how far the delay may move to either side"
    )
    shaped_at: str = parameter(
        "server",
        choices=("server", "router"),
        help="where the link is shaped: on the sender itself, or on a router between the two",
    )
    buffer_mib: float = parameter(
        50.0, unit="MiB", low=0.01, high=1024, help="the size of a socket buffer that was raised"
    )
    client: str = parameter(
        "discard",
        choices=("discard", "wget"),
        help="who downloads: a program that discards in the kernel, or wget",
    )
    read_bytes: int = parameter(
        65_536, unit="bytes", low=1, high=67_108_864, help="what the client asks for in one read"
    )
    transfer_mib: int = parameter(
        1024, unit="MiB", low=1, high=65_536, on_machines=128, help="size of the served file"
    )
    limit_s: float = parameter(
        90.0, unit="s", low=0.1, high=3600, help="when a download is ended that has not finished"
    )


DEFAULT, SENDER_RAISED, BOTH_RAISED = "default", "wmem", "both"
"""The default buffers, an enlarged send buffer alone, and enlarged buffers at both ends."""
SWEEP_KIB = tuple(64 << step for step in range(12))
"""64 KiB to 128 MiB; multiples of the BDP are added, where the curve bends."""
SWEEP_BDP = (0.5, 1.0, 1.5, 1.75, 1.8, 1.85, 1.9, 2.0, 2.25, 2.5)
SWEEP_BDP_SMALL = (0.5, 1.0, 1.5, 1.9, 2.0, 2.25)
ADV_BUFFER_BDP = 1.0
LOSSES_PCT = (0.0, 0.001, 0.01, 0.1, 1.0)
ALGORITHMS = ("reno", "cubic", "bbr")
# The loss series has its own link: on the article's, a run with 0.1 % loss would take an hour.
LOSS_DELAY_MS, LOSS_S = 40.0, 20.0
LOSS_LINK = Link(100.0, LOSS_DELAY_MS, shaped_at="router", queue_packets=10_000)
SHORT_S = 15.0
"""The limit of downloads that show the size of buffers, and not a speed."""
# Pages of memory for TCP: it comes under pressure at 512 KiB, less than one flow needs here, and
# leaves it at 256 KiB; the hard limit of 512 MiB is out of reach.
PAGES = {"net.ipv4.tcp_mem": "64 128 131072"}
UNMODERATED = {"net.ipv4.tcp_moderate_rcvbuf": "0"}
CONTROL = "net.ipv4.tcp_congestion_control"
DRAWS = {"small": 2, "full": 5}
# Half of what httping reports before the delay is added: it times two round trips.
NEAR_RTT_MS = 0.6
BLOCK_BYTES, BLOCK_MBIT = 1_000_000, 800.0
"""The article's example: 1 MB at 100 MB/s, then a wait of one RTT."""
# On the article's own link, with its buffers and the kernel's. Its download is 741,000 packets:
# none, one or seven of them are lost.
FEW_LOSSES_PCT, FEW_DRAWS, FEW_S = (0.0, 0.0001, 0.001), 5, 45.0
FEW_LINK = Link(
    ARTICLE_RATE_MBIT,
    ARTICLE_DELAY_MS,
    shaped_at="router",
    queue_packets=queue_packets(ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS),
)


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The requested conditions: those of `only`, or those of the size."""
    base = Settings(
        client=p.client,
        read_bytes=p.read_bytes,
        transfer_bytes=p.transfer_mib * MIB,
        limit_s=p.limit_s,
        capture=p.capture,
    )
    path = link(p)
    return tuple(entry.condition(base, path) for entry in select(p, _table(p, path)))


def _table(p: Parameters, path: Link) -> Iterator[Row]:
    undelayed = replace(path, delay_ms=0.0, jitter_ms=0.0, loss_pct=0.0, queue_packets=None)
    raised = round(p.buffer_mib * MIB)
    yield from _article(p, undelayed, raised)
    yield from _sweeps(p)
    yield from _losses(DRAWS[p.size])
    yield from _other_limits(path, undelayed, raised)
    yield from _few_losses(raised)


def _article(p: Parameters, undelayed: Link, raised: int) -> Iterator[Row]:
    """The article's own measurements; what setsockopt grants, and buffers set by hand."""
    unshaped = Link(shaped_at=p.shaped_at)
    always = partial(row, small=True, machines=True)
    yield from rows(
        ARTICLE,
        always("unshaped", link=unshaped),
        always("shaped", link=undelayed),
        each("shaped-{}k", (256, 4096, 51200), small=(256,), link=undelayed, sysctls=_both_kib),
        always(DEFAULT),
        always(SENDER_RAISED, sysctls=fixed(raised)),
        always(BOTH_RAISED, sysctls=fixed(raised, raised)),
        always("rmem100", sysctls=fixed(raised, 2 * raised)),
    )
    yield from rows(
        REQUESTS,
        row("httping", small=True, steps=HTTPING, transfer_bytes=KIB),
        row("setsockopt", small=True, link=unshaped, steps=GRANTS),
        row("setsockopt-raised", link=unshaped, sysctls=CORE_RAISED, steps=GRANTS),
    )
    yield from rows(
        REQUESTS,
        row("by-hand", small=True, client=DISCARD, client_rcvbuf_bytes=131072),
        row("by-hand-send", client=DISCARD, server_sndbuf_bytes=131072),
        row("moderate-off", sysctls={"client": UNMODERATED}),
        row("moderate-off-send", sysctls={"server": UNMODERATED}),
        limit_s=SHORT_S,
    )


def _sweeps(p: Parameters) -> Iterator[Row]:
    """One size at both ends, automatic sizing off: by sysctl, then by setsockopt, which doubles
    what is requested, so half of it is requested. One receive buffer, with every share of it that
    the kernel can reserve for overhead."""
    sizes_kib = sorted({*SWEEP_KIB, *_kib_of_bdp(p, SWEEP_BDP)})
    yield from rows(
        SWEEP,
        each("sweep-{}k", sizes_kib, small=_kib_of_bdp(p, SWEEP_BDP_SMALL), sysctls=_both_kib),
        each(
            "sweep-set-{}k",
            [kib * KIB // 2 for kib in sizes_kib],
            lambda half: 2 * half // KIB,
            sysctls=_core_max,
            client=DISCARD,
            server_sndbuf_bytes=same,
            client_rcvbuf_bytes=same,
        ),
    )
    size = _kib_of_bdp(p, (ADV_BUFFER_BDP,))[0] * KIB
    yield from rows(
        SHARE,
        each(
            "adv-{}",
            (-2, -1, 0, 1, 2, 3),
            lambda scale: str(scale).replace("-", "m"),
            small=(-2, 2),
            sysctls=partial(_reserving, size),
        ),
    )


def _losses(draws: int) -> Iterator[Row]:
    """Congestion controls under loss, behind a router with offloads off: netem drops whole skbs."""
    for loss_pct, control in product(LOSSES_PCT, ALGORITHMS):
        yield from rows(
            LOSS,
            each(f"loss-{loss_pct:g}-{control}-{{}}", range(draws), draw=same),
            link=replace(LOSS_LINK, loss_pct=loss_pct),
            sysctls={"server": {CONTROL: control}},
            client=DISCARD,
            limit_s=LOSS_S,
        )


def _other_limits(path: Link, undelayed: Link, raised: int) -> Iterator[Row]:
    """Little memory for all TCP sockets of a host together; the rate alone, with the article's
    burst and with one that covers late timers; the article's network before the delay is added,
    with small buffers at both ends; a reader that pauses, with the article's two receive buffers;
    queues at the bottleneck of a twentieth of the article's BDP and of three times the BDP; a block
    of 1 MB per round trip."""
    pressed = {"server": PAGES, "client": PAGES}
    yield from rows(PRESSURE, row("pressure", small=True, sysctls=pressed, limit_s=SHORT_S))
    yield from rows(
        SHAPER,
        row("burst-20k", link=replace(undelayed, burst_bytes=BURST_BYTES)),
        row("burst-5ms", link=replace(undelayed, burst_bytes=None)),
    )
    yield from rows(
        NEAR,
        row("near"),
        each("near-{}k", (32, 64, 128, 256, 1024), sysctls=_both_kib),
        link=replace(undelayed, delay_ms=NEAR_RTT_MS),
        transfer_bytes=128 * MIB,
    )
    yield from rows(
        PAUSE,
        row("pause-both", sysctls=fixed(raised, raised)),
        row("pause-rmem100", sysctls=fixed(raised, 2 * raised)),
        client=DISCARD,
        pause_ms=250,
    )
    at_router = replace(path, shaped_at="router")
    yield from rows(
        QUEUE,
        row("queue-1000", link=replace(at_router, queue_packets=1_000)),
        row("queue-50000", link=replace(at_router, queue_packets=50_000)),
        limit_s=SHORT_S,
    )
    yield from rows(
        WAIT,
        each(
            "wait-{:g}",
            (200.0, 400.0),
            link=lambda ms: Link(BLOCK_MBIT, ms, queue_packets=queue_packets(BLOCK_MBIT, ms)),
        ),
        steps=BLOCKS,
        transfer_bytes=BLOCK_BYTES,
    )


def _few_losses(raised: int) -> Iterator[Row]:
    """Congestion controls with few losses, behind a router as in the loss series; and cubic with
    the kernel's own buffers, for the effect of the buffers."""
    server, client = fixed(raised, raised).values()

    def controlled(control: str) -> Sysctls:
        return {"server": {**server, CONTROL: control}, "client": client}

    for loss_pct in FEW_LOSSES_PCT:
        for draw in range(FEW_DRAWS if loss_pct else 1):
            yield from rows(
                FEW,
                each(f"few-{loss_pct:g}-{{}}-{draw}", ALGORITHMS, sysctls=controlled),
                row(f"few-default-{loss_pct:g}-{draw}"),
                link=replace(FEW_LINK, loss_pct=loss_pct),
                client=DISCARD,
                limit_s=FEW_S,
                draw=draw,
            )


def three(size_bytes: int) -> str:
    """A size as minimum, default and maximum of tcp_rmem or tcp_wmem."""
    return " ".join([str(size_bytes)] * 3)


def fixed(send_bytes: int, receive_bytes: int | None = None) -> Sysctls:
    """The sysctls that fix the send and the receive buffer; None leaves it to the kernel."""
    receiver = {"client": {RMEM: three(receive_bytes)}} if receive_bytes else {}
    return {"server": {WMEM: three(send_bytes)}, **receiver}


def _both_kib(size_kib: int) -> Sysctls:
    return fixed(size_kib * KIB, size_kib * KIB)


def _core_max(requested_bytes: int) -> Sysctls:
    """The maxima that allow this request, and are not below their default."""
    return {host: {name: str(max(requested_bytes, 212992))} for host, name in CORE.items()}


def _reserving(receive_bytes: int, scale: int) -> Sysctls:
    """A receive buffer with a share that tcp_adv_win_scale reserves, and a larger send buffer."""
    client = {RMEM: three(receive_bytes), **UNMODERATED, "net.ipv4.tcp_adv_win_scale": str(scale)}
    return {**fixed(4 * receive_bytes), "client": client}


def _kib_of_bdp(p: Parameters, shares: tuple[float, ...]) -> list[int]:
    """Multiples of the BDP in whole KiB, at least 16 KiB."""
    bdp_bytes = bytes_carried(p.rate_mbit, p.delay_ms)
    return [max(16, round(share * bdp_bytes / KIB)) for share in shares]


def link(p: Parameters) -> Link:
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
    path = p.rate_mbit, p.delay_ms, p.shaped_at
    literal = path == (ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS, "server")
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


PROGRAMS = {GRANTS: (), HTTPING: ("nginx", "httping"), BLOCKS: ("nginx",)}


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts."""
    download = ("nginx", "wget") if condition.settings.get("client") == WGET else ("nginx",)
    return PROGRAMS.get(str(condition.settings.get("steps")), download)
