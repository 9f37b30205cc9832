"""The commands that a condition of the lab `windows` adds to those of its link.

On loopback they include the article's. Both paths deliver one segment at a time to the receiver, so
it can sample after each arrival: the segments of one large buffer would otherwise arrive at the
same instant.
Loopback needs an ifb device for this. The queue of `lo` holds whole buffers, which are segmented
only after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labs.experiments.windows.settings import DIRECT, LOOPBACK, ROUTER, Settings
from labs.guest.condition import Condition, read_settings
from labs.guest.testbed.link import Argv, Link, layout, number, offloads_off

LOOPBACK_SENDER, LOOPBACK_RECEIVER = "127.0.0.2", "127.0.0.3"
LOOPBACK_ROUTE = ("local", "127.0.0.0/8", "dev", "lo")
ARRIVALS = "arrivals"
"""The ifb device through which the packets of the loopback device arrive one by one."""
QUEUE_PACKETS = 100_000
CELL_BYTES = 4000
SPACING = ("rate", "1000mbit", "0", str(CELL_BYTES))
"""netem's options that deliver packets of up to CELL_BYTES one by one, 32 us apart."""

Line = tuple[str, Argv]
"""A host and the words of a command."""


@dataclass(frozen=True)
class End:
    """An end of the path between two hosts: its address, its device, and its gateway, if any."""

    address: str
    device: str
    gateway: str | None = None


def lines(condition: Condition) -> tuple[Line, ...]:
    """The commands in order, each with its host."""
    settings, plan = read_settings(Settings, condition.settings), layout(condition.link)
    server, client = (
        End(port.address, port.device, port.gateway)
        for port in (plan.port("server"), plan.port("client"))
    )
    return tuple(arranging(settings, condition.link, server, client))


def arranging(settings: Settings, link: Link, server: End, client: End) -> Iterator[Line]:
    """The commands that set up a path."""
    if settings.path == LOOPBACK:
        for argv in loopback(settings, link.delay_ms):
            yield "server", argv
        return
    if settings.path == ROUTER:
        to_server, to_client = (port.device for port in layout(link).ports if port.host == "router")
        half = ("delay", f"{number(link.delay_ms / 2)}ms")
        yield "router", queue(to_server, *half, *SPACING)
        yield "router", ("tc", "qdisc", "replace", "dev", to_client, "root", "netem", *half)
    if settings.path == DIRECT:
        yield "server", offloads_off(server.device)
        yield "client", offloads_off(client.device)
    yield from routes("add", settings, server, client)


def undoing(settings: Settings, server: End, client: End) -> Iterator[Line]:
    """The commands that undo `arranging` on hosts that outlive the run."""
    if settings.path == DIRECT:
        yield from routes("del", settings, server, client)
        yield "server", offloads_on(server.device)
        yield "client", offloads_on(client.device)
    if settings.path == LOOPBACK:
        yield "server", ("tc", "qdisc", "del", "dev", "lo", "ingress")
        yield "server", ("tc", "qdisc", "del", "dev", "lo", "root")
        yield "server", ("ip", "link", "del", ARRIVALS)
        yield "server", ("ip", "route", "change", *LOOPBACK_ROUTE)
        yield "server", offloads_on("lo")


def loopback(settings: Settings, delay_ms: float) -> Iterator[Argv]:
    """The article's commands for the loopback device, which delays a packet by half the RTT, and
    those that deliver its packets one by one."""
    options = ("initcwnd", str(settings.initcwnd), *receiver_options(settings))
    yield offloads_off("lo")
    yield ("ip", "route", "change", *LOOPBACK_ROUTE, *options)
    yield ("ip", "link", "add", ARRIVALS, "type", "ifb")
    yield ("ip", "link", "set", ARRIVALS, "up")
    yield queue("lo", "delay", f"{number(delay_ms / 2)}ms")
    yield queue(ARRIVALS, *SPACING)
    yield ("tc", "qdisc", "add", "dev", "lo", "handle", "ffff:", "ingress")
    redirect = ("action", "mirred", "egress", "redirect", "dev", ARRIVALS)
    yield ("tc", "filter", "add", "dev", "lo", "parent", "ffff:", "matchall", *redirect)


def offloads_on(device: str) -> Argv:
    """The command that reverts `offloads_off`."""
    return tuple("on" if word == "off" else word for word in offloads_off(device))


def queue(device: str, *options: str) -> Argv:
    """The command that makes netem the queue of a device."""
    words = ("tc", "qdisc", "add", "dev", device, "root", "netem")
    return (*words, "limit", str(QUEUE_PACKETS), *options)


def receiver_options(settings: Settings) -> tuple[str, ...]:
    """The options of the receiver's route."""
    return (
        *(("initrwnd", str(settings.initrwnd)) if settings.initrwnd else ()),
        *(("quickack", "1") if settings.quickack else ()),
    )


def routes(verb: str, settings: Settings, server: End, client: End) -> Iterator[Line]:
    """The commands that add or delete the routes of sender and receiver with their options."""
    for host, end, peer, options in (
        ("client", client, server, ("initcwnd", str(settings.initcwnd))),
        ("server", server, client, receiver_options(settings)),
    ):
        via = ("via", end.gateway) if end.gateway else ()
        if options:
            where = (f"{peer.address}/32", *via, "dev", end.device)
            yield host, ("ip", "route", verb, *where, *options)
