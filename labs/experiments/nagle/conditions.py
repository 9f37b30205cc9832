"""The conditions of the lab `nagle`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from labs.drive.condition import Condition, Group, as_settings, read_settings
from labs.drive.programs.respond import HEAD_BYTES
from labs.drive.testbed.link import MSS_BYTES, Link, layout
from labs.drive.units import MIB
from labs.errors import BadInput
from labs.experiments.nagle.experiment import drop_acks, pass_acks, quick_route
from labs.experiments.nagle.parameters import Nagle
from labs.experiments.nagle.settings import (
    AB,
    ASK,
    BOTH,
    EACH,
    NEVER,
    NGINX,
    ONCE,
    OWN_SERVER,
    ROUTE,
    SERVER,
    Settings,
)

ARTICLE = Group("article", "Nagle's algorithm and delayed ACKs, on and off")
WRITES = Group("writes", "One response, written in different ways")
SIZES = Group("sizes", "Sizes around full segments")
PIECES = Group("pieces", "A response in many small writes")
OWN_CLIENT = Group("own_client", "A client that sets TCP_QUICKACK")
DROPPED = Group("dropped", "A client whose ACKs do not arrive")
FAR = Group("far", "Bulk data and many small writes over a link with a long delay")
GROUPS = (ARTICLE, WRITES, SIZES, PIECES, OWN_CLIENT, DROPPED, FAR)

DROP_ACKS_MS = 2500
"""The client's ACKs are dropped for several retransmission timeouts: they end 0.2, 0.6, 1.4 and
3.0 s after the segment was sent."""
NO_TAIL_LOSS_PROBE = {"server": {"net.ipv4.tcp_early_retrans": "0"}}
FAR_LINK = Link(rate_mbit=10.0, delay_ms=200.0)
BULK_BYTES = 2 * MIB
SMALL_WRITES, SMALL_WRITE_BYTES, WRITE_EVERY_MS = 1000, 100, 2

ON_MACHINES = ("off", "on", "off-no-k", "quickack")
"""The conditions of size small on two machines, where each run takes real time."""
SMALL = (
    "off",
    "on",
    "off-no-k",
    "on-no-k",
    "quickack",
    "on-quickack",
    "off-nopush",
    "write-two",
    "write-one",
    "write-cork",
    "write-more",
    f"body-{MSS_BYTES - 1}",
    f"body-{MSS_BYTES}",
    "pieces",
    "pieces-quickack",
    "ask",
    "ask-once",
    "ask-each",
    "acks-dropped",
    "acks-dropped-no-tlp",
    "bulk",
    "bulk-on",
    "small-writes",
    "small-writes-on",
)


def conditions(p: Nagle) -> tuple[Condition, ...]:
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
    every = {condition.name: condition for condition in _every(p)}
    if p.only or p.size == "full":
        return tuple(every[name] for name in p.chosen(tuple(every)))
    small = ON_MACHINES if p.testbed == "vagrant" else SMALL
    return tuple(every[name] for name in small)


def _every(p: Nagle) -> Iterator[Condition]:
    base = Settings(
        page_bytes=p.page_bytes,
        pieces=p.pieces,
        requests=p.requests,
        concurrency=p.concurrency,
        capture=BOTH if p.capture else SERVER,
    )
    # The link is not shaped unless a delay is requested: the article has none.
    link = Link(delay_ms=p.delay_ms)
    for group, settings in (
        (ARTICLE, _article(base)),
        (WRITES, _writes(replace(base, server=OWN_SERVER))),
        (SIZES, _sizes(replace(base, server=OWN_SERVER))),
        (PIECES, _pieces(replace(base, server=OWN_SERVER, writes="pieces"))),
        (OWN_CLIENT, _own_client(replace(base, client=ASK))),
    ):
        for name, one in settings:
            yield Condition(name, link, {}, as_settings(one), group.name)
    # A load and a link of their own: whatever the parameters, these runs are the same.
    one_request = Settings(client=ASK, own_client_requests=1, capture=base.capture)
    yield from _dropped(replace(one_request, server=OWN_SERVER))
    for name, one in _far(one_request):
        yield Condition(name, FAR_LINK, {}, as_settings(one), FAR.name)


def _article(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The article's conditions, Nagle's algorithm and delayed ACKs on and off, and tcp_nopush."""
    for name, nodelay in (("off", False), ("on", True)):
        own = replace(base, nodelay=nodelay)
        yield name, own
        yield f"{name}-no-k", replace(own, keepalive=False)
        yield "quickack" if name == "off" else f"{name}-quickack", replace(own, quickack=ROUTE)
    yield "off-nopush", replace(base, nopush=True)


def _writes(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The same response, handed to the kernel in different ways."""
    for way in ("two", "one", "cork", "more"):
        yield f"write-{way}", replace(base, writes=way)
    yield "write-two-on", replace(base, nodelay=True)


def _sizes(base: Settings) -> Iterator[tuple[str, Settings]]:
    """Bodies around one and two full segments, after a header; whole responses of these sizes."""
    edges = [MSS_BYTES - 1, MSS_BYTES, MSS_BYTES + 1, 2 * MSS_BYTES - 1, 2 * MSS_BYTES]
    for size in edges:
        yield f"body-{size}", replace(base, page_bytes=size)
    for size in edges:
        yield f"whole-{size}", replace(base, writes="one", page_bytes=size - HEAD_BYTES)


def _pieces(base: Settings) -> Iterator[tuple[str, Settings]]:
    """A response in many small writes, which Nagle's algorithm may coalesce."""
    yield "pieces", base
    yield "pieces-quickack", replace(base, quickack=ROUTE)
    yield "pieces-on", replace(base, nodelay=True)


def _own_client(base: Settings) -> Iterator[tuple[str, Settings]]:
    """A client that sets TCP_QUICKACK itself: never, once, before each read."""
    for name, quickack in (("ask", NEVER), ("ask-once", ONCE), ("ask-each", EACH)):
        yield name, replace(base, quickack=quickack)


def _dropped(base: Settings) -> Iterator[Condition]:
    """A response whose first part is not acknowledged for a while, by a server with tail loss
    probes (the default of Linux) and without."""
    settings = as_settings(replace(base, drop_acks_ms=DROP_ACKS_MS))
    for name, sysctls in (("acks-dropped", {}), ("acks-dropped-no-tlp", NO_TAIL_LOSS_PROBE)):
        yield Condition(name, Link(), sysctls, settings, DROPPED.name)


def _far(base: Settings) -> Iterator[tuple[str, Settings]]:
    """One large page of nginx, and many small writes at regular intervals."""
    bulk = replace(base, page_bytes=BULK_BYTES)
    small = replace(
        base,
        server=OWN_SERVER,
        writes="pieces",
        pieces=SMALL_WRITES,
        page_bytes=SMALL_WRITES * SMALL_WRITE_BYTES - HEAD_BYTES,
        write_every_ms=WRITE_EVERY_MS,
    )
    for name, settings in (("bulk", bulk), ("small-writes", small)):
        yield name, settings
        yield f"{name}-on", replace(settings, nodelay=True)


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
