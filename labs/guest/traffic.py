"""Perform the traffic of a condition: lay the path, check it, run flows and requests, keep files.

A lab whose conditions come from `labs.guest.flows.Traffic` needs no more than
`from labs.guest.traffic import lines, measure, tools`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from labs.errors import RunFailed
from labs.guest.bench import MACHINES, PROGRAMS, Bench
from labs.guest.condition import Condition
from labs.guest.flows import FIRST_PORT, REQUEST_PORT, SERVER_PORT, Traffic, traffic_from_json
from labs.guest.laid_path import ECN_ADDRESS, Side, batch, check_direction, delays, ecn_lines, laid
from labs.guest.outcome import Moment
from labs.guest.testbed import path_lines as tc
from labs.guest.testbed.contract import Host, Process
from labs.guest.testbed.link import Argv
from labs.guest.units import SECOND_NS

STREAM = PROGRAMS / "stream.py"
REQUEST = PROGRAMS / "request.py"
RESPOND = PROGRAMS / "respond.py"
QUEUE_SAMPLER = PROGRAMS / "queue_sampler.py"
SNAP_BYTES = 96
"""Enough for a header with three SACK blocks (94 bytes)."""

LEAD_S, LEAD_OF_MACHINES_S = 1.0, 10.0
"""Between the start of the programs and that of the flows."""

DRAIN_S = 30.0
"""After the end: a reader waits up to 3 s for a reset that was lost, and a busy machine is slow."""


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
    lead_s = LEAD_OF_MACHINES_S if bench.testbed.kind in MACHINES else LEAD_S
    begin_ns = -(-(bench.client.clock_ns() + round(lead_s * SECOND_NS)) // 10**8) * 10**8
    end_ns = begin_ns + round(traffic.duration_s * SECOND_NS)
    programs = start(bench, traffic, begin_ns, end_ns)
    if bench.client.clock_ns() > begin_ns:
        raise RunFailed(f"the programs took over {lead_s:g} s to start: this machine is too busy")
    changes = change_in_time(bench, traffic, sides, begin_ns, programs[0][1])
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
    bench: Bench, traffic: Traffic, sides: tuple[Side, ...], begin_ns: int, flows: Process
) -> list[dict[str, Any]]:
    """Make the changes of the path at their moments; what was changed, and when."""
    current = {side.name: side for side in sides}
    made = []
    for change in sorted(traffic.path.changes, key=lambda one: one.at_s):
        at_ns = begin_ns + round(change.at_s * SECOND_NS)
        bench.finish(flows, (at_ns - bench.server.clock_ns()) / SECOND_NS)
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
    """Keep what tc says of the queues of all hosts that shape, as `queues-<when>.json`.

    tc gives a key of fq twice; the last one is kept, since JSON is read strictly.
    """
    names = dict.fromkeys(
        name for side in sides for name in (side.place.out_host, side.place.in_host)
    )
    for name in names:
        host = bench.testbed.hosts()[name]
        said = host.run(("tc", "-s", "-j", "qdisc", "show"), log=False).text
        bench.note(host, f"queues-{when}.json", json.dumps(json.loads(said)) + "\n")
