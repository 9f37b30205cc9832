"""Perform the traffic of a condition: lay the path, check it, run flows and requests, keep files.

A lab whose conditions come from `labs.drive.flows.Traffic` needs no more than
`from labs.drive.traffic import lines, measure, tools`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from labs.drive.bench import MACHINES, PROBE, PROGRAMS, TRAIN_PACKETS, Bench, train_of_machines
from labs.drive.condition import Condition
from labs.drive.flows import FIRST_PORT, REQUEST_PORT, SERVER_PORT, Traffic, traffic_from_json
from labs.drive.outcome import Moment
from labs.drive.testbed import path_lines as tc
from labs.drive.testbed.contract import Host, Process
from labs.drive.testbed.link import FRAME_BYTES, ROUTED, Argv, Link, LinkReport, Measured, checked
from labs.drive.testbed.path import QUEUES, Change, Direction, NetworkPath, Queue
from labs.drive.units import SECOND_NS
from labs.errors import BadInput, Missing, RunFailed

STREAM = PROGRAMS / "stream.py"
REQUEST = PROGRAMS / "request.py"
RESPOND = PROGRAMS / "respond.py"
QUEUE_SAMPLER = PROGRAMS / "queue_sampler.py"
TIMERS_LATE_MS = 5.0
"""How late a timer of a virtual machine may fire (see the testbed `vagrant`)."""

ECN_ADDRESS = "10.77.1.2"
BACKLOG_PACKETS = "100000"
SNAP_BYTES = 96
"""Enough for a header with three SACK blocks (94 bytes)."""

LEAD_S = 0.2
DRAIN_S = 3.5
"""After the end: what the readers wait for, at most 3 s, and the time to write their reports."""

Delays = Mapping[float, tuple[int, ...]]


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a run of this traffic starts on the hosts."""
    return ("tc", "ip", "ethtool", *(("tcpdump",) if condition.plan["capture"] else ()))


def lines(condition: Condition) -> tuple[tuple[str, Argv], ...]:
    """The lines that lay the path of a condition, each with its host, as in a run at a router."""
    traffic = traffic_from_json(condition.plan)
    if condition.link.shaped_at != "router":
        return ()
    sides = [
        Side(place, traffic.path, delays(traffic, place.name)) for place in tc.places_of_router()
    ]
    return (
        *ecn_lines(traffic),
        *(one for side in sides for one in (*side.for_the_check(), *side.after_the_check())),
    )


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
        return bool(self.direction.uses_netem or self.delays)

    def for_the_check(self) -> Iterator[tuple[str, Argv]]:
        """The lines that lay the direction, without losses and with a long FIFO."""
        if self.queue is not None:
            for line in tc.out_lines(self.place, self.direction, self.queue):
                yield self.place.out_host, line
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


def measure(bench: Bench, condition: Condition) -> None:
    """Perform the traffic of a condition."""
    traffic = traffic_from_json(condition.plan)
    with laid(bench, traffic) as sides:
        reports = {side.name: check_direction(bench, side) for side in sides}
        batch(bench, [line for side in sides for line in side.after_the_check()])
        server = serve(bench, traffic)
        said = perform(bench, traffic, sides)
        for process in server:
            process.stop()
        about = {
            side.name: reports[side.name].as_json()
            | {"queue": None if side.queue is None else asdict(side.queue)}
            for side in sides
        }
        (bench.folder / "path.json").write_text(json.dumps(about | said, indent=1) + "\n")


def batch(bench: Bench, found: Sequence[tuple[str, Argv]]) -> None:
    """Run lines on their hosts, in order per host."""
    hosts = bench.testbed.hosts()
    for name in dict.fromkeys(name for name, _ in found):
        hosts[name].batch([line for one, line in found if one == name])


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
    asked = Link(direction.rate_mbit, side.path.rtt_ms, 0.0, direction.jitter_ms, port=SERVER_PORT)
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


def serve(bench: Bench, traffic: Traffic) -> list[Process]:
    """Start what answers requests; the flows' server starts with their plan."""
    if traffic.requests is None:
        return []
    body = str(traffic.requests.size_bytes)
    words = ("--listen", bench.server.address, "--port", str(REQUEST_PORT))
    log = bench.path(bench.server, "respond.txt")
    process = bench.server.program(
        RESPOND, (*words, "--writes", "one", "--body-bytes", body), stdout=log
    )
    bench.until(lambda: bench.listening(bench.server, REQUEST_PORT), "the server of requests")
    return [process]


def perform(bench: Bench, traffic: Traffic, sides: tuple[Side, ...]) -> dict[str, Any]:
    """Run flows, requests and changes under watch; what path.json says of the moments."""
    queues_shown(bench, sides, "before")
    samplers = sample_queues(bench, traffic, sides)
    hosts = (bench.server, bench.client)
    bench.watch(
        SERVER_PORT,
        traffic.sample_ms,
        capture=hosts if traffic.capture else (),
        also=(REQUEST_PORT,),
        snap_bytes=SNAP_BYTES,
    )
    begin_ns = -(-(bench.client.clock_ns() + round(LEAD_S * SECOND_NS)) // 10**8) * 10**8
    end_ns = begin_ns + round(traffic.duration_s * SECOND_NS)
    programs = start(bench, traffic, begin_ns, end_ns)
    changes = change_in_time(bench, traffic, sides, begin_ns)
    for host, process, name in programs:
        left_s = max(0.0, (end_ns - host.clock_ns()) / SECOND_NS) + DRAIN_S
        exit_code = bench.finish(process, left_s)
        process.stop()
        if exit_code != 0:
            said = bench.last_word(host, f"{name}.txt")
            raise RunFailed(f"{name} on {host.name} did not end well ({exit_code}): {said}")
    bench.marks += [Moment(begin_ns, "begin"), Moment(end_ns, "over")]
    for host, process in samplers:
        if exit_code := process.stop(5):
            raise RunFailed(f"the sampler of queues on {host.name} ended with {exit_code}")
    bench.unwatch()
    queues_shown(bench, sides, "after")
    for host, _, name in programs:
        bench.keep(host, bench.path(host, f"{name}.json"), f"{name}.json")
    for side in sides:
        if side.queue is not None:
            host = bench.testbed.hosts()[side.place.out_host]
            name = f"queue-{side.name}.bin"
            bench.keep(host, bench.path(host, name), name)
    return {"begin_ns": begin_ns, "end_ns": end_ns, "changes": changes}


def start(
    bench: Bench, traffic: Traffic, begin_ns: int, end_ns: int
) -> list[tuple[Host, Process, str]]:
    """Start the programs of both hosts; each with its host and the name of its files."""
    server, client = bench.server, bench.client
    plan = {
        "server_port": SERVER_PORT,
        "first_port": FIRST_PORT,
        "duration_s": traffic.duration_s,
        "flows": [asdict(flow) for flow in traffic.flows],
    }
    ecn_address = server.address if bench.testbed.kind in MACHINES else ECN_ADDRESS
    programs: list[tuple[Host, Process, str]] = []
    for host, side in ((server, "server"), (client, "client")):
        path = bench.path(host, "flows.json")
        host.write(path, json.dumps(plan).encode())
        words = ("--side", side, "--plan", path, "--begin-ns", str(begin_ns))
        to = ("--to", server.address, "--to-ecn", ecn_address)
        out = ("--out", bench.path(host, "stream.json"))
        process = host.program(STREAM, (*words, *to, *out), stdout=bench.path(host, "stream.txt"))
        programs.append((host, process, "stream"))
        if host is server:
            bench.until(lambda: bench.listening(server, SERVER_PORT), "the server of the flows")
    if (asked := traffic.requests) is not None:
        times = (
            *("--begin-ns", str(begin_ns + round(asked.start_s * SECOND_NS))),
            *(
                "--end-ns",
                str(end_ns if asked.stop_s is None else begin_ns + round(asked.stop_s * SECOND_NS)),
            ),
            *("--every-ms", str(asked.every_ms), "--kept", str(int(asked.kept))),
        )
        to = ("--to", server.address, "--port", str(REQUEST_PORT))
        out = ("--out", bench.path(client, "requests.json"))
        process = client.program(
            REQUEST, (*to, *times, *out), stdout=bench.path(client, "requests.txt")
        )
        programs.append((client, process, "requests"))
    return programs


def change_in_time(
    bench: Bench, traffic: Traffic, sides: tuple[Side, ...], begin_ns: int
) -> list[dict[str, Any]]:
    """Make the changes of the path at their moments; what was changed, and when."""
    current = {side.name: side for side in sides}
    made = []
    for change in sorted(traffic.path.changes, key=lambda one: one.at_s):
        at_ns = begin_ns + round(change.at_s * SECOND_NS)
        time.sleep(max(0, at_ns - bench.server.clock_ns()) / SECOND_NS)
        current[change.direction] = current[change.direction].changed(change)
        made.append({"at_ns": bench.server.clock_ns(), **asdict(change)})
        batch(bench, list(current[change.direction].changing(change)))
    return made


def sample_queues(
    bench: Bench, traffic: Traffic, sides: tuple[Side, ...]
) -> list[tuple[Host, Process]]:
    """Start a sampler on each host that has a queue."""
    by_host: dict[str, list[str]] = {}
    for side in sides:
        if side.queue is not None:
            host = bench.testbed.hosts()[side.place.out_host]
            file = bench.path(host, f"queue-{side.name}.bin")
            by_host.setdefault(host.name, []).extend((side.place.out_device, file))
    started = []
    for name, words in by_host.items():
        host = bench.testbed.hosts()[name]
        args = ("--interval-ms", str(traffic.queue_ms), "--parent", tc.SHAPED, *words)
        log = bench.path(host, "queue_sampler.txt")
        started.append((host, host.program(QUEUE_SAMPLER, args, stdout=log)))
    return started


def queues_shown(bench: Bench, sides: tuple[Side, ...], when: str) -> None:
    """Keep what tc says of the queues of all hosts that shape, as `queues-<when>.json`."""
    names = dict.fromkeys(
        name for side in sides for name in (side.place.out_host, side.place.in_host)
    )
    for name in names:
        host = bench.testbed.hosts()[name]
        said = host.run(("tc", "-s", "-j", "qdisc", "show"), log=False).text
        bench.note(host, f"queues-{when}.json", said)
