"""The lab `nagle`: the 40 ms stall of Nagle's algorithm and delayed ACKs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from labs.drive.condition_table import Changes, Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.errors import BadInput
from labs.experiments.nagle.experiment import drop_acks, pass_acks, quick_route
from labs.experiments.nagle.settings import (
    AB,
    ASK,
    BOTH,
    NGINX,
    OWN_SERVER,
    ROUTE,
    SERVER,
    Settings,
)
from labs.guest.condition import Condition, Group, read_settings
from labs.guest.programs.respond import HEAD_BYTES
from labs.guest.testbed.link import MSS_BYTES, Link, layout
from labs.guest.units import MIB

ARTICLE = Group("article", "Nagle's algorithm and delayed ACKs, on and off")
WRITES = Group("writes", "One response, written in different ways")
SIZES = Group("sizes", "Sizes around full segments")
PIECES = Group("pieces", "A response in many small writes")
OWN_CLIENT = Group("own_client", "A client that sets TCP_QUICKACK")
DROPPED = Group("dropped", "A client whose ACKs do not arrive")
FAR = Group("far", "Bulk data and many small writes over a link with a long delay")
GROUPS = (ARTICLE, WRITES, SIZES, PIECES, OWN_CLIENT, DROPPED, FAR)
REASON = """\
both testbeds wait for the kernel's timer; a machine adds the CPU time of 100 concurrent requests, \
14 ms in the article, and its tick may differ"""
MARGIN = Margin(0.95, 1.5, REASON)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """The load, the response and the link.

    The server's packets are always captured; with `capture` the client's too.
    """

    requests: int = parameter(
        1000, low=10, high=100_000, help="number of requests of the load generator (ab -n)"
    )
    # An emulated machine needs more than 1 ms of CPU time per request, which would mask the stall.
    concurrency: int = parameter(
        100, low=1, high=500, on_machines=2, help="number of concurrent requests (ab -c)"
    )
    page_bytes: int = parameter(612, unit="bytes", low=1, high=1_000_000, help="size of the page")
    pieces: int = parameter(
        10, low=2, high=100, help="number of writes per response in the conditions pieces-..."
    )
    delay_ms: float = parameter(0.0, unit="ms", low=0, high=1000, help="RTT that the link adds")
    capture_file: str = parameter(
        "",
        pattern=r"[^\x00\n]*",
        form="a pcap or pcapng file, or nothing",
        several=False,
        help="a capture of your own to analyse like those of the runs",
    )


DROP_ACKS_MS = 2500
"""The client's ACKs are dropped for several retransmission timeouts: they end 0.2, 0.6, 1.4 and
3.0 s after the segment was sent."""
NO_TAIL_LOSS_PROBE = {"server": {"net.ipv4.tcp_early_retrans": "0"}}
FAR_LINK = Link(rate_mbit=10.0, delay_ms=200.0)
IN_PIECES: Changes = {"server": OWN_SERVER, "writes": "pieces"}
MANY_WRITES: Changes = {
    **IN_PIECES,
    **{"pieces": 1000, "page_bytes": 1000 * 100 - HEAD_BYTES, "write_every_ms": 2},
}
"""Writes of 100 bytes."""
EDGES_BYTES = (MSS_BYTES - 1, MSS_BYTES, MSS_BYTES + 1, 2 * MSS_BYTES - 1, 2 * MSS_BYTES)
"""Sizes around one and two full segments: of a body after a header, and of whole responses."""


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters request: those of `only`, or those of the size.

    BadInput if `concurrency` exceeds `requests`, which ab refuses, and for a capture file that does
    not exist.
    """
    if p.capture_file and not Path(p.capture_file).is_file():
        raise BadInput(
            f"there is no capture {p.capture_file}. Allowed: a pcap or pcapng file, or nothing. "
            "Set capture_file"
        )
    if p.concurrency > p.requests:
        raise BadInput(
            f"concurrency {p.concurrency} is more than the {p.requests} requests. "
            f"Allowed: 1 to {p.requests}"
        )
    load = Settings(
        page_bytes=p.page_bytes,
        pieces=p.pieces,
        requests=p.requests,
        concurrency=p.concurrency,
        capture=BOTH if p.capture else SERVER,
    )
    # A load of their own: whatever the parameters, these runs are the same.
    single = Settings(client=ASK, own_client_requests=1, capture=load.capture)
    # The link is not shaped unless a delay is requested: the article has none.
    link = Link(delay_ms=p.delay_ms)
    return tuple(
        entry.condition(single if entry.group in (DROPPED.name, FAR.name) else load, link)
        for entry in select(p, chain(_of_the_load(), _of_one_request()))
    )


def _of_the_load() -> Iterator[Row]:
    yield from rows(
        ARTICLE,
        row("off", small=1, machines=1),
        row("off-no-k", small=2, machines=2, keepalive=False),
        row("quickack", small=3, machines=3, quickack=ROUTE),
        row("on", small=1, machines=1, nodelay=True),
        row("on-no-k", small=2, nodelay=True, keepalive=False),
        row("on-quickack", small=3, nodelay=True, quickack=ROUTE),
        row("off-nopush", small=3, nopush=True),
    )
    yield from rows(
        WRITES,
        each("write-{}", ("two", "one", "cork", "more"), small=1, writes=same),
        row("write-two-on", nodelay=True),
        server=OWN_SERVER,
    )
    yield from rows(
        SIZES,
        each("body-{}", EDGES_BYTES, small=(MSS_BYTES - 1, MSS_BYTES), page_bytes=same),
        each("whole-{}", EDGES_BYTES, writes="one", page_bytes=lambda size: size - HEAD_BYTES),
        server=OWN_SERVER,
    )
    yield from rows(
        PIECES,
        row("pieces", small=1),
        row("pieces-quickack", small=1, quickack=ROUTE),
        row("pieces-on", nodelay=True),
        **IN_PIECES,
    )
    yield from rows(
        OWN_CLIENT,
        row("ask", small=1),
        each("ask-{}", ("once", "each"), small=1, quickack=same),
        client=ASK,
    )


def _of_one_request() -> Iterator[Row]:
    """A response whose first part is not acknowledged for a while, by a server with tail loss
    probes (the default of Linux) and without; and one large page of nginx, and many small writes at
    regular intervals, over a long link."""
    yield from rows(
        DROPPED,
        row("acks-dropped", small=1),
        row("acks-dropped-no-tlp", small=1, sysctls=NO_TAIL_LOSS_PROBE),
        link=Link(),
        server=OWN_SERVER,
        drop_acks_ms=DROP_ACKS_MS,
    )
    yield from rows(
        FAR,
        row("bulk", small=1, page_bytes=2 * MIB),
        row("bulk-on", small=1, page_bytes=2 * MIB, nodelay=True),
        row("small-writes", small=1, **MANY_WRITES),
        row("small-writes-on", small=1, **MANY_WRITES, nodelay=True),
        link=FAR_LINK,
    )


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition needs."""
    settings = read_settings(Settings, condition.settings)
    return tuple(name for name in (NGINX, AB) if name in (settings.server, settings.client))


def lines(condition: Condition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The lines that a condition adds to those of its link: host and words."""
    settings = read_settings(Settings, condition.settings)
    plan, port = layout(condition.link), condition.link.port
    device = plan.port("client").device
    if settings.quickack == ROUTE:
        return (("client", quick_route("add", plan.port("server").address, device)),)
    if settings.drop_acks_ms is not None:
        return tuple(("client", line) for line in (*drop_acks(device, port), pass_acks(device)))
    return ()
