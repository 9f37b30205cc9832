"""A path as lines of ip and tc: where each direction is shaped, and the lines that do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from labs.guest.testbed.link import FRAME_BYTES, ROUTED, Argv, number, offloads_off
from labs.guest.testbed.path import Direction, Queue
from labs.guest.units import bytes_carried

SHAPED, QUEUE, OF_THE_CHECK = "1:10", "10:", "11:"
UNSHAPED_MBIT = 20_000.0
NETEM_PACKETS = 1_000_000
CHECK_PACKETS = 1_000
CAKE_RTT = "100ms"
"""The default of cake, which drops only after its RTT."""

RED_PROBABILITY = 0.02
RED_PACKET_BYTES = 1_000


@dataclass(frozen=True)
class Place:
    """Where a direction is shaped: the port whose egress has the queue, and the one behind whose
    ingress netem stands. With `ports`, only TCP and UDP of these ports pass through both."""

    name: str
    out_host: str
    out_device: str
    in_host: str
    in_device: str
    ports: tuple[int, ...] = ()
    late_ms: float = 0.0

    @property
    def ifb(self) -> str:
        return f"ifb-{self.name}"


def places_of_router() -> tuple[Place, Place]:
    """The places of both directions at the router."""
    (_, near), (far, _) = ROUTED.wires
    return (
        Place("down", "router", far.device, "router", near.device),
        Place("up", "router", near.device, "router", far.device),
    )


def places_of_machines(
    server_device: str, client_device: str, ports: tuple[int, ...], late_ms: float
) -> tuple[Place, Place]:
    """The places between two machines: the queue at the sender, netem at the receiver."""
    server, client = ("server", server_device), ("client", client_device)
    return (
        Place("down", *server, *client, ports, late_ms),
        Place("up", *client, *server, ports, late_ms),
    )


def _tc(kind: str, verb: str, device: str, *words: str) -> Argv:
    return ("tc", kind, verb, "dev", device, *words)


def shaper(place: Place, direction: Direction, queue: Queue, verb: str) -> Argv:
    """The class that limits the rate; cake and tbf limit it themselves.

    Its burst is two frames, or what the line carries in 0.1 ms; more where timers are late
    (`net/sched/sch_htb.c` grants missed tokens up to burst and cburst only).
    """
    assert direction.rate_mbit is not None
    rate = UNSHAPED_MBIT if queue.kind in ("cake", "tbf") else direction.rate_mbit
    words = ("parent", "1:", "classid", SHAPED, "htb", "rate", f"{number(rate)}mbit")
    burst = str(_burst_bytes(rate, place.late_ms))
    limits = ("burst", burst, "cburst", burst, "quantum", str(FRAME_BYTES))
    return _tc("class", verb, place.out_device, *words, *limits)


def _burst_bytes(rate_mbit: float, late_ms: float) -> int:
    return max(2 * FRAME_BYTES, round(bytes_carried(rate_mbit, 0.1 + late_ms)))


def queue_words(queue: Queue, rate_mbit: float, late_ms: float = 0.0) -> Argv:
    """A queue with its size, in the words of tc."""
    limit: Argv = ()
    if queue.kind == "cake":
        limit = ("bandwidth", f"{number(rate_mbit)}mbit", "rtt", CAKE_RTT)
        limit += () if queue.size_bytes is None else ("memlimit", str(queue.size_bytes))
    elif queue.size_bytes is not None:
        limit = ("limit", str(queue.size_bytes))
    elif queue.packets is not None:
        limit = ("limit", str(queue.packets))
        limit += ("flow_limit", str(queue.packets)) if queue.kind == "fq" else ()
    if queue.kind == "tbf":
        burst = str(_burst_bytes(rate_mbit, late_ms))
        limit += ("rate", f"{number(rate_mbit)}mbit", "burst", burst)
    if queue.kind == "red":
        limit += _thresholds(queue.size_bytes or 0, rate_mbit)
    marks: Argv = ("ecn",) if queue.ecn and queue.kind != "cake" else ()
    if not queue.ecn and queue.kind == "fq_codel":
        marks = ("noecn",)
    return (queue.kind, *limit, *marks, *queue.options.split())


def _thresholds(limit_bytes: int, rate_mbit: float) -> Argv:
    """RED's thresholds for a limit, in the proportions that tc-red(8) recommends."""
    most = max(limit_bytes // 4, 3 * RED_PACKET_BYTES)
    least = max(most // 3, RED_PACKET_BYTES)
    burst = ceil((2 * least + most) / (3 * RED_PACKET_BYTES)) + 1
    numbers = {"min": least, "max": most, "avpkt": RED_PACKET_BYTES, "burst": burst}
    words = [word for name, value in numbers.items() for word in (name, str(value))]
    return (*words, "probability", str(RED_PROBABILITY), "bandwidth", f"{number(rate_mbit)}mbit")


def netem_words(direction: Direction, extra_ms: float = 0.0, *, losing: bool = True) -> Argv:
    """Delay, jitter, reordering and loss in the words of tc.

    netem keeps the order of packets whose delay varies only if it has a rate, which is that of
    no link here (`net/sched/sch_netem.c`, netem_enqueue).
    """
    words: Argv = ("netem", "limit", str(NETEM_PACKETS))
    words += ("delay", f"{number(direction.delay_ms + extra_ms)}ms")
    if direction.jitter_ms:
        words += (f"{number(direction.jitter_ms)}ms",)
    if direction.reorder_pct:
        words += ("reorder", f"{number(direction.reorder_pct)}%")
    elif direction.jitter_ms:
        words += ("rate", "1000gbit")
    return words + (_loss_words(direction) if losing else ())


def _loss_words(direction: Direction) -> Argv:
    if not direction.loss_pct:
        return ()
    if direction.loss_run is None:
        return ("loss", f"{number(direction.loss_pct)}%")
    # In the bad state every packet is lost and in the good state none; runs end with 1/loss_run.
    ends = 1 / direction.loss_run
    begins = ends * direction.loss_pct / (100 - direction.loss_pct)
    return ("loss", "gemodel", *(f"{number(100 * one)}%" for one in (begins, ends)), "100%", "0%")


def out_lines(place: Place, direction: Direction, queue: Queue) -> tuple[Argv, ...]:
    """The lines of the port with the queue, for the check: a long FIFO in its place."""
    assert direction.rate_mbit is not None
    device = place.out_device
    default = "100" if place.ports else "10"
    lines = [
        _tc("qdisc", "add", device, "root", "handle", "1:", "htb", "default", default),
        shaper(place, direction, queue, "add"),
    ]
    if place.ports:
        unshaped = ("rate", f"{number(UNSHAPED_MBIT)}mbit", "burst", "20k")
        lines.append(
            _tc("class", "add", device, "parent", "1:", "classid", "1:100", "htb", *unshaped)
        )
        lines += [
            _tc("filter", "add", device, "parent", "1:", *one)
            for one in _only(place, ("flowid", SHAPED))
        ]
        lines.insert(0, ("ip", "link", "set", "dev", device, "gso_max_segs", "1"))
        lines.insert(0, offloads_off(device))
    return (*lines, check_line(place, direction, queue, "add"))


def check_line(place: Place, direction: Direction, queue: Queue, verb: str) -> Argv:
    """The line that puts the queue of the check in its place: a FIFO of 1,000 packets, or what
    limits the rate by itself, here without drops. A qdisc of another kind needs another handle."""
    if queue.kind == "tbf":
        long = replace(queue, size_bytes=CHECK_PACKETS * FRAME_BYTES)
        return queue_line(place, direction, long, verb)
    if queue.kind == "cake":
        return queue_line(place, direction, replace(queue, options="rtt 1000s"), verb)
    return queue_line(place, direction, Queue("pfifo", CHECK_PACKETS), verb, OF_THE_CHECK)


def _only(place: Place, then: Argv) -> tuple[Argv, ...]:
    """Filters for packets from and to the ports of a place."""
    return tuple(
        ("protocol", "ip", "prio", "1", "u32", "match", "ip", which, str(port), "0xffff", *then)
        for port in place.ports
        for which in ("sport", "dport")
    )


def in_lines(
    place: Place, direction: Direction, delays: Mapping[float, tuple[int, ...]]
) -> tuple[Argv, ...]:
    """The lines of the port where packets are delayed.

    `delays` has the client's ports of the flows by their additional delay in milliseconds.
    """
    device, ifb = place.in_device, place.ifb
    lines: list[Argv] = [
        ("ip", "link", "add", ifb, "type", "ifb"),
        ("ip", "link", "set", "dev", ifb, "up"),
        _tc("qdisc", "add", device, "handle", "ffff:", "ingress"),
        *redirections(place, None),
    ]
    if not delays:
        words = ("root", "handle", "30:")
        return (*lines, _tc("qdisc", "add", ifb, *words, *netem_words(direction, losing=False)))
    lines.append(_tc("qdisc", "add", ifb, "root", "handle", "1:", "htb", "default", "30"))
    unshaped = ("htb", "rate", f"{number(UNSHAPED_MBIT)}mbit", "burst", "20k", "quantum", "1514")
    which = "dport" if place.name == "down" else "sport"
    for handle, extra_ms in netems(delays):
        minor = handle.rstrip(":")
        lines.append(_tc("class", "add", ifb, "parent", "1:", "classid", f"1:{minor}", *unshaped))
        netem = netem_words(direction, extra_ms, losing=False)
        lines.append(_tc("qdisc", "add", ifb, "parent", f"1:{minor}", "handle", handle, *netem))
        for port in delays.get(extra_ms, ()) if extra_ms else ():
            match = ("u32", "match", "ip", which, str(port), "0xffff", "flowid", f"1:{minor}")
            lines.append(
                _tc("filter", "add", ifb, "parent", "1:", "protocol", "ip", "prio", "1", *match)
            )
    return tuple(lines)


def netems(delays: Mapping[float, tuple[int, ...]]) -> tuple[tuple[str, float], ...]:
    """The handles of a direction's netems with the additional delay of each; the first has none."""
    return tuple((f"{30 + i}:", extra_ms) for i, extra_ms in enumerate((0.0, *sorted(delays))))


def redirections(place: Place, drop_every: int | None) -> tuple[Argv, ...]:
    """The filters that lead incoming packets to netem, dropping every n-th (gact, determ)."""
    drop: Argv = ()
    if drop_every is not None:
        drop = ("action", "pipe", "random", "determ", "drop", str(drop_every))
    then = (*drop, "action", "mirred", "egress", "redirect", "dev", place.ifb)
    matches = (
        _only(place, then) if place.ports else (("protocol", "ip", "prio", "1", "matchall", *then),)
    )
    return tuple(_tc("filter", "add", place.in_device, "parent", "ffff:", *one) for one in matches)


def losing_lines(
    place: Place, direction: Direction, delays: Mapping[float, tuple[int, ...]]
) -> tuple[Argv, ...]:
    """The lines that turn losses on after the check, or set what a change asks for."""
    return tuple(
        _tc("qdisc", "change", place.ifb, *_parent(handle, delays), *netem_words(direction, extra))
        for handle, extra in netems(delays)
    )


def _parent(handle: str, delays: Mapping[float, tuple[int, ...]]) -> Argv:
    place = ("parent", f"1:{handle.rstrip(':')}") if delays else ("root",)
    return (*place, "handle", handle)


def queue_line(
    place: Place, direction: Direction, queue: Queue, verb: str, handle: str = QUEUE
) -> Argv:
    """The line that puts the queue in its place, or changes its rate."""
    assert direction.rate_mbit is not None
    words = queue_words(queue, direction.rate_mbit, place.late_ms)
    return _tc("qdisc", verb, place.out_device, "parent", SHAPED, "handle", handle, *words)


def rate_lines(place: Place, direction: Direction, queue: Queue) -> tuple[Argv, ...]:
    """The line that changes the rate of a direction."""
    if queue.kind in ("cake", "tbf"):
        return (queue_line(place, direction, queue, "change"),)
    return (shaper(place, direction, queue, "change"),)


def removals(place: Place) -> tuple[tuple[str, Argv], ...]:
    """The lines that remove a direction from machines, with their hosts."""
    return (
        (place.out_host, _tc("qdisc", "del", place.out_device, "root")),
        (place.in_host, _tc("qdisc", "del", place.in_device, "ingress")),
        (place.in_host, ("ip", "link", "del", place.ifb)),
    )
