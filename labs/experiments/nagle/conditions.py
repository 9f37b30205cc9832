"""What the lab `nagle` runs: every condition, from the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labs.drive.condition import Condition, Setting
from labs.drive.programs.respond import HEAD_BYTES
from labs.drive.testbed.layout import layout
from labs.drive.testbed.link import Link
from labs.errors import BadInput
from labs.experiments.nagle.experiment import quick_route
from labs.experiments.nagle.parameters import Nagle

MSS_BYTES = 1448
"""An MTU of 1500 less the headers of IP and TCP with timestamps."""
LIMIT_S = 600.0

ON_MACHINES = ("off", "on", "off-no-k", "quickack")
"""What two machines are asked, which take their time for each run."""
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

    BadInput for more requests at a time than there are, which ab refuses, and for a capture of the
    reader's own that is not there.
    """
    if p.capture and not Path(p.capture).is_file():
        raise BadInput(f"there is no capture {p.capture}; name a pcap or pcapng file, or nothing")
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
    yield from _article(p)
    yield from _writes(p)
    yield from _sizes(p)
    yield from _pieces(p)
    for name, wish in (("ask", "never"), ("ask-once", "once"), ("ask-each", "each")):
        yield _condition(p, name, client="ask", quickack=wish)


def _condition(p: Nagle, name: str, **settings: Setting) -> Condition:
    """nginx with tcp_nodelay off, asked by ab with keep-alive, but for what `settings` say.

    The link is not shaped unless a delay is asked for: the article has none.
    """
    base: dict[str, Setting] = {
        "client": "ab",
        "server": "nginx",
        "nodelay": False,
        "keepalive": True,
        "quickack": "never",
        "writes": "two",
        "page_bytes": p.page_bytes,
        "pieces": p.pieces,
        "requests": p.requests,
        "concurrency": p.concurrency,
        "limit_s": LIMIT_S,
        "sample_ms": 100,
        "capture": "server",
    }
    return Condition(name, Link(delay_ms=p.delay_ms), {}, {**base, **settings})


def _article(p: Nagle) -> Iterator[Condition]:
    """The article's own rows, and Nagle's algorithm and the delayed ACK on and off in turn."""
    for name, nodelay in (("off", False), ("on", True)):
        yield _condition(p, name, nodelay=nodelay)
        yield _condition(p, f"{name}-no-k", nodelay=nodelay, keepalive=False)
        quick = "quickack" if name == "off" else f"{name}-quickack"
        yield _condition(p, quick, nodelay=nodelay, quickack="route")


def _writes(p: Nagle) -> Iterator[Condition]:
    """The same answer, handed to the kernel in different ways."""
    for way in ("two", "one", "cork", "more"):
        yield _condition(p, f"write-{way}", server="writes", writes=way)
    yield _condition(p, "write-two-on", server="writes", nodelay=True)


def _sizes(p: Nagle) -> Iterator[Condition]:
    """Bodies around one and two full segments, behind a head; whole answers of these sizes."""
    edges = [MSS_BYTES - 1, MSS_BYTES, MSS_BYTES + 1, 2 * MSS_BYTES - 1, 2 * MSS_BYTES]
    for size in edges:
        yield _condition(p, f"body-{size}", server="writes", page_bytes=size)
    for size in edges:
        yield _condition(
            p, f"whole-{size}", server="writes", writes="one", page_bytes=size - HEAD_BYTES
        )


def _pieces(p: Nagle) -> Iterator[Condition]:
    """An answer in many small writes: what of them Nagle's algorithm joins."""
    yield _condition(p, "pieces", server="writes", writes="pieces")
    yield _condition(p, "pieces-quickack", server="writes", writes="pieces", quickack="route")
    yield _condition(p, "pieces-on", server="writes", writes="pieces", nodelay=True)


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts."""
    return (
        *(("nginx",) if condition.settings["server"] == "nginx" else ()),
        *(("ab",) if condition.settings["client"] == "ab" else ()),
    )


def lines(condition: Condition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The lines that a condition adds to those of its link: host and words."""
    if condition.settings["quickack"] != "route":
        return ()
    plan = layout(condition.link)
    return (
        ("client", quick_route("add", plan.port("server").address, plan.port("client").device)),
    )
