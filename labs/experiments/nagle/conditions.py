"""What the lab `nagle` runs: every condition, from the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from labs.drive.condition import Condition, Group, as_settings, read_settings
from labs.drive.programs.respond import HEAD_BYTES
from labs.drive.testbed.link import MSS_BYTES, Link, layout
from labs.errors import BadInput
from labs.experiments.nagle.experiment import quick_route
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
GROUPS = (ARTICLE, WRITES, SIZES, PIECES, OWN_CLIENT)

ON_MACHINES = ("off", "on", "off-no-k", "quickack")
"""What is run on two machines, where each run takes real time."""
SMALL = (
    "off",
    "on",
    "off-no-k",
    "on-no-k",
    "quickack",
    "on-quickack",
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
)


def conditions(p: Nagle) -> tuple[Condition, ...]:
    """The conditions that parameters ask for: those of `only`, or those of the size.

    BadInput for more requests at a time than there are, which ab refuses, and for a capture
    file that does not exist.
    """
    if p.capture_file and not Path(p.capture_file).is_file():
        raise BadInput(
            f"there is no capture {p.capture_file}. Set capture_file to a pcap or pcapng file, "
            "or to nothing"
        )
    if p.concurrency > p.requests:
        raise BadInput(
            f"concurrency {p.concurrency} is more than the {p.requests} requests there "
            f"are; allowed: 1 to {p.requests}"
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


def _article(base: Settings) -> Iterator[tuple[str, Settings]]:
    """The article's own rows, and Nagle's algorithm and the delayed ACK on and off in turn."""
    for name, nodelay in (("off", False), ("on", True)):
        own = replace(base, nodelay=nodelay)
        yield name, own
        yield f"{name}-no-k", replace(own, keepalive=False)
        yield "quickack" if name == "off" else f"{name}-quickack", replace(own, quickack=ROUTE)


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
    """A response in many small writes: what of them Nagle's algorithm coalesces."""
    yield "pieces", base
    yield "pieces-quickack", replace(base, quickack=ROUTE)
    yield "pieces-on", replace(base, nodelay=True)


def _own_client(base: Settings) -> Iterator[tuple[str, Settings]]:
    """A client that sets TCP_QUICKACK itself: never, once, before each read."""
    for name, quickack in (("ask", NEVER), ("ask-once", ONCE), ("ask-each", EACH)):
        yield name, replace(base, quickack=quickack)


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts."""
    settings = read_settings(Settings, condition.settings)
    return tuple(name for name in (NGINX, AB) if name in (settings.server, settings.client))


def lines(condition: Condition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The lines that a condition adds to those of its link: host and words."""
    if read_settings(Settings, condition.settings).quickack != ROUTE:
        return ()
    plan = layout(condition.link)
    return (
        ("client", quick_route("add", plan.port("server").address, plan.port("client").device)),
    )
