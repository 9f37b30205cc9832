"""Article 2: the latency of a small HTTP server under a closed or an open loop of requests.

The server is compiled on first use. After a warm-up the load runs for a whole number of seconds;
the kernel's counters are read before and after it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from labs.drive.compiled import compiled
from labs.errors import Missing, RunFailed
from labs.experiments.stack.knobs import Knob, set_device, set_rules
from labs.experiments.stack.places import Places, allowed_cpus, pinning, places, set_places
from labs.experiments.stack.settings import EPOLL, WRK, Settings
from labs.guest.bench import MACHINES, PROGRAMS, Bench
from labs.guest.condition import Condition, read_settings
from labs.guest.download import serve_nginx
from labs.guest.testbed.contract import Host, Process

SOURCE = "epoll_server.c"
ASK = PROGRAMS / "ask.py"
LUA = """\
done = function(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("requests,%d\\nduration_us,%d\\nerrors,%d\\nlatency_us,count\\n",
    summary.requests, summary.duration, failed))
  for i = 1, #latency do
    local value, count = latency(i)
    io.write(string.format("%d,%d\\n", value, count))
  end
end
"""
"""Makes wrk print its whole histogram instead of a few percentiles."""
PAGE = "data"
"""With it the request of wrk to the addresses of the testbed has the article's 44 bytes."""
NGINX_DIRECTIVES = ("access_log off", "keepalive_requests 1000000000", "tcp_nodelay on")
BODY_BYTES = 71
WARM_UP_REQUESTS = 1000
COUNTERS = {"interrupts": "/proc/interrupts", "softirqs": "/proc/softirqs", "stat": "/proc/stat"}
BEYOND_S = 30
IN_USE = (
    "port {port} of {host} is in use. The server of this lab needs it. End the program that "
    "`ss -tlnp` shows on {host}, and run again"
)
VEGETA_ENCODED = "vegeta.csv"


def measure(bench: Bench, condition: Condition) -> None:
    """Set the knobs, start the server, warm up, load it, and keep what both report."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    if bench.listening(bench.server, port):
        raise RunFailed(IN_USE.format(port=port, host=bench.server.name))
    cpus = allowed_cpus(bench.server)
    machines = bench.testbed.kind in MACHINES
    of_client = allowed_cpus(bench.client) if machines else None
    where = places(settings, cpus, of_client)
    knobs = [pinning(settings, cpus, of_client)]
    knobs += set_device(bench.server, bench.client, settings, machines=machines)
    knobs += set_places(bench.server, settings, cpus)
    knobs += set_rules(bench.server, settings.rules)
    note_knobs(bench, knobs)
    server = serve(bench, settings, port, where)
    url = f"http://{bench.server.address}:{port}/{PAGE}"
    spinners = keep_awake(bench.server, cpus) if settings.awake else ()
    warm_up(bench, settings, port)
    note_counters(bench, "before")
    load(bench, settings, url, where)
    note_counters(bench, "after")
    for one in spinners:
        one.stop()
    exit_code = server.stop(5)
    if settings.server == EPOLL:
        if exit_code:
            raise RunFailed(f"the server failed: {bench.last_word(bench.server, 'server.json')}")
        bench.keep(bench.server, bench.path(bench.server, "server.json"), "server.json")


def note_knobs(bench: Bench, knobs: list[Knob]) -> None:
    """Keep what was set and what it is."""
    found = [dataclasses.asdict(one) for one in knobs]
    bench.note(bench.server, "knobs.json", json.dumps(found, indent=1) + "\n")


def note_counters(bench: Bench, when: str) -> None:
    """Keep the kernel's counters of interrupts, softirqs and CPU time."""
    for name, path in COUNTERS.items():
        bench.note(bench.server, f"{name}-{when}.txt", bench.server.read(path).decode("ascii"))


def serve(bench: Bench, settings: Settings, port: int, where: Places) -> Process:
    """Start the server; return once it listens."""
    if settings.server == EPOLL:
        return serve_epoll(bench, settings, port, where)
    for name in (PAGE, "index.html"):  # the second one for the warm-up
        page = bench.path(bench.server, f"www/{name}")
        bench.server.write(page, b"x" * (BODY_BYTES - 1) + b"\n")
    return serve_nginx(bench, port, NGINX_DIRECTIVES, connections=2048)


def serve_epoll(bench: Bench, settings: Settings, port: int, where: Places) -> Process:
    """Start the server in C."""
    program = carried(bench.server, compiled(PROGRAMS / Path(SOURCE).stem))
    return bench.serve(
        bench.server,
        (
            program,
            *("--address", bench.server.address, "--port", str(port)),
            *("--threads", str(settings.threads), "--timeout-ms", str(settings.timeout_ms)),
            *("--busy-poll-us", str(settings.busy_poll_us), "--work-us", str(settings.work_us)),
            *(("--cpus", ",".join(map(str, where.server))) if where.server else ()),
        ),
        port,
        "server.json",
    )


def carried(host: Host, program: Path) -> str:
    """The path of a copy of the program on a host."""
    path = str(host.folder / program.name)
    host.write(path, program.read_bytes())
    host.run(("chmod", "755", path))
    return path


def keep_awake(host: Host, cpus: Sequence[int]) -> tuple[Process, ...]:
    """Start a program on each CPU that runs only while nothing else does."""
    spin = ("chrt", "--idle", "0", "sh", "-c", "while :; do :; done")
    return tuple(host.start(("taskset", "-c", str(cpu), *spin)) for cpu in cpus)


def pinned(where: Places) -> tuple[str, ...]:
    """The words that pin the load to its CPUs."""
    return ("taskset", "-c", ",".join(map(str, where.load))) if where.load else ()


def warm_up(bench: Bench, settings: Settings, port: int) -> None:
    """Requests before the measurement: caches, page tables, the CPU's frequency."""
    slow = settings.work_us or bench.testbed.kind in MACHINES  # which may be emulated
    requests = WARM_UP_REQUESTS // 10 if slow else WARM_UP_REQUESTS
    process = bench.client.program(
        ASK,
        (
            *("--to", bench.server.address, "--port", str(port), "--requests", str(requests)),
            *("--quickack", "never", "--out", bench.path(bench.client, "warm-up.json")),
        ),
        stdout=bench.path(bench.client, "warm-up.txt"),
    )
    exit_code = bench.finish(process, BEYOND_S)
    process.stop()
    if exit_code != 0:
        raise RunFailed(f"the warm-up failed: {bench.last_word(bench.client, 'warm-up.txt')}")


def load(bench: Bench, settings: Settings, url: str, where: Places) -> None:
    """Load the server, and keep the file with every latency."""
    if settings.load == WRK:
        load_by_wrk(bench, settings, url, where)
    else:
        load_by_vegeta(bench, settings, url, where)


def load_by_wrk(bench: Bench, settings: Settings, url: str, where: Places) -> None:
    """A closed loop of one thread: a histogram of latencies in microseconds."""
    script = bench.path(bench.client, "histogram.lua")
    bench.client.write(script, LUA.encode())
    words = ("wrk", "-t", "1", "-c", str(settings.connections), "-d", f"{settings.duration_s}s")
    done = bench.client.run(
        (*pinned(where), *words, "-s", script, url), timeout_s=settings.duration_s + BEYOND_S
    )
    bench.note(bench.client, "wrk.txt", done.text)


def load_by_vegeta(bench: Bench, settings: Settings, url: str, where: Places) -> None:
    """A closed or an open loop: the start, the sequence number and the latency of each request."""
    attack, encoded = (bench.path(bench.client, name) for name in ("vegeta.bin", VEGETA_ENCODED))
    connections = str(settings.connections)
    most = () if settings.rate_per_s else ("-max-workers", connections)
    done = bench.client.run(
        (
            *pinned(where),
            *("vegeta", "attack", "-rate", f"{settings.rate_per_s}/1s"),
            *("-duration", f"{settings.duration_s}s", "-timeout", f"{BEYOND_S}s"),
            *("-workers", connections, *most, "-connections", connections),
            *("-max-connections", connections, "-max-body", "0", "-output", attack),
        ),
        stdin=f"GET {url}\n".encode(),
        timeout_s=settings.duration_s + 2 * BEYOND_S,
    )
    if done.stderr.strip():
        raise Missing(f"vegeta cannot be used: {done.stderr.decode('utf-8', 'replace').strip()}")
    bench.client.run(("vegeta", "encode", "-to", "csv", "-output", encoded, attack))
    bench.keep(bench.client, encoded, VEGETA_ENCODED)
