"""Lay the path of a run's traffic, refuse what cannot be had here, and check each direction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from labs.errors import BadInput, Missing, RunFailed
from labs.guest.bench import MACHINES, PROBE, TRAIN_PACKETS, Bench, train_of_machines
from labs.guest.flows import FIRST_PORT, REQUEST_PORT, SERVER_PORT, Traffic
from labs.guest.testbed import path_lines as tc
from labs.guest.testbed.link import FRAME_BYTES, ROUTED, Argv, Link, LinkReport, Measured, checked
from labs.guest.testbed.path import QUEUES, Change, Direction, NetworkPath, Queue

TIMERS_LATE_MS = 5.0
"""How late a timer of a virtual machine may fire (see the testbed `vagrant`)."""

ECN_ADDRESS = "10.77.1.2"
BACKLOG_PACKETS = "100000"
Delays = Mapping[float, tuple[int, ...]]


def delays(traffic: Traffic, direction: str) -> Delays:
    """The client's ports of the flows of a direction with an additional delay, by that delay."""
    found: dict[float, tuple[int, ...]] = {}
    for number, flow in enumerate(traffic.flows):
        if flow.extra_delay_ms and flow.direction == direction:
            ports = found.get(flow.extra_delay_ms, ())
            found[flow.extra_delay_ms] = (*ports, FIRST_PORT + number)
    return found


def ecn_lines(traffic: Traffic) -> tuple[tuple[str, Argv], ...]:
    """The second address of the server, whose route asks for ECN; none without a flow with ECN."""
    if not any(flow.ecn for flow in traffic.flows):
        return ()
    server, client = ROUTED.port("server"), ROUTED.port("client")
    add = ("ip", "address", "add", f"{ECN_ADDRESS}/24", "dev", server.device)
    route = ("ip", "route", "add", ECN_ADDRESS, "via", str(client.gateway), "features", "ecn")
    return (("server", add), ("client", route))


@dataclass(frozen=True)
class Side:
    """One direction of a path, where it is shaped."""

    place: tc.Place
    path: NetworkPath
    delays: Delays

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def direction(self) -> Direction:
        return self.path.direction(self.name)

    @property
    def queue(self) -> Queue | None:
        return self.path.queue(self.name)

    @property
    def late(self) -> bool:
        return bool(self.path.uses_netem(self.name) or self.delays)

    def for_the_check(self) -> Iterator[tuple[str, Argv]]:
        """The lines that lay the direction, without losses and with a long FIFO."""
        if self.queue is not None:
            for line in tc.out_lines(self.place, self.direction, self.queue):
                yield self.place.out_host, line
        if self.late:
            for line in tc.in_lines(self.place, self.direction, self.delays):
                yield self.place.in_host, line

    def after_the_check(self) -> Iterator[tuple[str, Argv]]:
        """The lines that put the queue in its place, and turn losses on."""
        if self.queue is not None:
            verb = "change" if self.queue.kind in ("cake", "tbf") else "replace"
            yield (self.place.out_host, tc.queue_line(self.place, self.direction, self.queue, verb))
        if self.direction.loss_pct:
            for line in tc.losing_lines(self.place, self.direction, self.delays):
                yield self.place.in_host, line
        if self.direction.drop_every:
            device = self.place.in_device
            yield (
                self.place.in_host,
                ("tc", "filter", "del", "dev", device, "parent", "ffff:", "prio", "1"),
            )
            for line in tc.redirections(self.place, self.direction.drop_every):
                yield self.place.in_host, line

    def changed(self, change: Change) -> Side:
        """The direction as a change leaves it; the size of the queue remains."""
        after = replace(self.direction, queue=self.queue, **change.values)
        return replace(self, path=replace(self.path, changes=(), **{self.name: after}))

    def changing(self, change: Change) -> Iterator[tuple[str, Argv]]:
        """The lines that turn this direction, which a change has reached, into what it asks."""
        if change.rate_mbit is not None and self.queue is not None:
            for line in tc.rate_lines(self.place, self.direction, self.queue):
                yield self.place.out_host, line
        if change.delay_ms is not None or change.loss_pct is not None:
            for line in tc.losing_lines(self.place, self.direction, self.delays):
                yield self.place.in_host, line


@contextmanager
def laid(bench: Bench, traffic: Traffic) -> Iterator[tuple[Side, ...]]:
    """Both directions of the path, ready for the check; machines are left as they were found."""
    refuse_what_is_missing(bench, traffic)
    machines = bench.testbed.kind in MACHINES
    places = tc.places_of_router()
    if machines:
        ports = (SERVER_PORT, REQUEST_PORT)
        devices = bench.server.device, bench.client.device
        places = tc.places_of_machines(*devices, ports, TIMERS_LATE_MS)
    sides = tuple(Side(one, traffic.path, delays(traffic, one.name)) for one in places)
    with ExitStack() as leaving:
        if machines:
            for side in sides:
                leave_as_found(bench, side, leaving)
            if traffic.flows[0].ecn:
                bench.client.set_sysctl("net.ipv4.tcp_ecn", "1")
        else:
            bench.server.set_sysctl("net.core.netdev_max_backlog", BACKLOG_PACKETS)
            batch(bench, ecn_lines(traffic))
        for side in sides:
            try:
                batch(bench, list(side.for_the_check()))
                trial(bench, side)
            except RunFailed:
                refuse_a_missing_queue(bench, side)
                raise
        yield sides


def batch(bench: Bench, found: Sequence[tuple[str, Argv]]) -> None:
    """Run lines on their hosts, in order per host."""
    hosts = bench.testbed.hosts()
    for name in dict.fromkeys(name for name, _ in found):
        hosts[name].batch([line for one, line in found if one == name])


def trial(bench: Bench, side: Side) -> None:
    """Put the queue in its place and take it out again: a kernel that lacks it says so here."""
    if side.queue is None or side.queue.kind in ("cake", "tbf"):
        return
    host = bench.testbed.hosts()[side.place.out_host]
    host.run(tc.queue_line(side.place, side.direction, side.queue, "replace"))
    host.run(tc.check_line(side.place, side.direction, side.queue, "replace"))


def leave_as_found(bench: Bench, side: Side, leaving: ExitStack) -> None:
    """Have the lines of a direction undone on machines, also if the connection is lost."""
    used = {side.place.out_host: side.queue is not None, side.place.in_host: side.late}
    for name, line in tc.removals(side.place):
        host = bench.testbed.hosts()[name]
        if used[name]:
            host.undo_if_lost(line)
            leaving.callback(host.run, line, check=False, log=False)


def refuse_what_is_missing(bench: Bench, traffic: Traffic) -> None:
    """One line for a congestion control or a feature of the path that cannot be had here."""
    if bench.testbed.kind in MACHINES:
        ecn = {flow.ecn for flow in traffic.flows}
        if len(ecn) > 1:
            raise BadInput("two machines have one sysctl for ECN. Allowed: all flows or none")
        if traffic.path.down.drop_every or traffic.path.up.drop_every:
            raise BadInput(
                "two machines have no router that drops every n-th packet. Allowed: loss_pct, or "
                "--testbed virtual"
            )
        return
    available = bench.server.sysctl("net.ipv4.tcp_available_congestion_control").split()
    for flow in traffic.flows:
        if flow.control not in available:
            raise Missing(
                f"this kernel has no congestion control {flow.control}. It has: "
                f"{', '.join(sorted(available))}"
            )


def refuse_a_missing_queue(bench: Bench, side: Side) -> None:
    """One line, with what is possible, if a kernel has no queue of the kind that a path needs."""
    host = bench.testbed.hosts()[side.place.out_host]
    has = []
    for kind in QUEUES:
        queue = Queue(kind, size_bytes=10**6 if kind in ("bfifo", "red", "tbf") else None)
        words = ("dev", "lo", "root", "handle", "99:", *tc.queue_words(queue, 10.0))
        if not host.run(("tc", "qdisc", "add", *words), check=False, log=False).exit_code:
            has.append(kind)
            host.run(("tc", "qdisc", "del", "dev", "lo", "root"), check=False, log=False)
    if side.queue is not None and side.queue.kind not in has:
        raise Missing(
            f"the kernel of {host.name} has no queue {side.queue.kind}. It has: {', '.join(has)}"
        )


def check_direction(bench: Bench, side: Side) -> LinkReport:
    """Measure the RTT and the rate of a direction before the run, as the check of a link does."""
    direction = side.direction
    jitter_ms = side.path.down.jitter_ms + side.path.up.jitter_ms
    asked = Link(direction.rate_mbit, side.path.rtt_ms, jitter_ms=jitter_ms, port=SERVER_PORT)
    machines = bench.testbed.kind in MACHINES
    packets = train_of_machines(asked.rate_mbit) if machines else TRAIN_PACKETS
    sender, receiver = bench.server, bench.client
    if side.name == "up":
        sender, receiver = receiver, sender
    words = ("--port", str(SERVER_PORT), "--packets", str(packets))
    serve = sender.program(PROBE, ("serve", "--listen", sender.address, *words))
    bench.until(lambda: bench.listening(sender, SERVER_PORT), f"the check of {side.name}")
    name = f"probe-{side.name}"
    out, log = bench.path(receiver, f"{name}.json"), bench.path(receiver, f"{name}.txt")
    measuring = receiver.program(
        PROBE, ("measure", "--to", sender.address, *words, "--out", out), stdout=log
    )
    train_s = packets * FRAME_BYTES * 8e-6 / (direction.rate_mbit or 1000.0)
    exit_code = bench.finish(measuring, 30 + 2 * train_s + 0.02 * side.path.rtt_ms)
    measuring.stop()
    serve.stop()
    if exit_code != 0:
        said = bench.last_word(receiver, f"{name}.txt")
        raise RunFailed(f"the check of the direction {side.name} failed: {said}")
    found = json.loads(receiver.read(out))
    rate = None if asked.rate_mbit is None or not found["rate_mbit"] else found["rate_mbit"]
    measured = Measured(round(found["rtt_ms"], 4), None if rate is None else round(rate, 3))
    return checked(asked, measured)
