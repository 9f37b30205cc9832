"""Article 5: one transfer by iperf3, with socket buffers of a given size.

The shaped direction is from the server to the client, so the client starts iperf3 with -R.
"""

from __future__ import annotations

import json
import signal
from typing import Any

from labs.errors import RunFailed
from labs.experiments.sweeps.settings import WRITES_PER_WAKE, Settings
from labs.guest.bench import PROGRAMS, Bench
from labs.guest.condition import Condition, read_settings
from labs.guest.outcome import Buffer
from labs.guest.testbed.contract import Host, Process
from labs.guest.units import KIB, MIB

IPERF3 = "iperf3"
REPORT, SAID = "iperf3.json", "iperf3.txt"
REFUSED = "socket buffer size"
"""What iperf3 says of a size that the kernel does not grant ("... not set correctly"), or that is
larger than its own maximum of 512 MiB ("... too large")."""
INTERRUPTED = "the client has terminated"
RESET = "Connection reset by peer"
"""What the server says instead if it writes to the transfer's connection, which the interrupted
client has closed, before it reads that from the other connection."""
ENDING_S = 10.0
"""How long both ends of iperf3 may take to exchange their results."""
GRANTS_PROGRAM = PROGRAMS / "setsockopt_sizes.py"
# The kernel's minima, its doubling, its maxima, and the sizes at which twice the request overflows.
REQUESTS = (
    *(1, KIB, 1152, 2 * KIB, 2304, 4 * KIB, 64 * KIB, 212_992, 212_993, MIB, 4 * MIB),
    *(4 * MIB + 1, 512 * MIB, 1024 * MIB - 1, 1024 * MIB, 2048 * MIB - 1),
)


def measure(bench: Bench, condition: Condition) -> None:
    """Transfer once, or request buffers."""
    settings = read_settings(Settings, condition.settings)
    if settings.grants:
        request_buffers(bench)
    else:
        measure_transfer(bench, settings, condition.link.port)


def request_buffers(bench: Bench) -> None:
    """Request buffers of many sizes on the client, and record what was granted."""
    out = bench.path(bench.client, "grants.json")
    sizes = ",".join(map(str, REQUESTS))
    process = bench.client.program(GRANTS_PROGRAM, ("--sizes", sizes, "--out", out))
    bench.finish(process, ENDING_S)
    process.stop()
    bench.keep(bench.client, out, "grants.json")
    for row in json.loads(bench.client.read(out)):
        bench.buffers.append(Buffer(bench.client.name, **row))


def measure_transfer(bench: Bench, settings: Settings, port: int) -> None:
    """Start the server, watch both ends and the packets, and transfer once."""
    server = serve(bench, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,))
    client = bench.client.start(
        (IPERF3, "-c", bench.server.address, *arguments(settings, port)),
        stdout=bench.path(bench.client, REPORT),
        stderr=bench.path(bench.client, SAID),
    )
    if not transfer(bench, client, settings):
        bench.ended = "limit"
    client.wait(ENDING_S)
    accepted = keep_report(bench, bench.client, settings)
    if accepted:
        server.wait(ENDING_S)
    bench.unwatch()
    for process in (client, server):
        process.stop()
    if accepted:
        keep_report(bench, bench.server, settings)


def transfer(bench: Bench, client: Process, settings: Settings) -> bool:
    """Wait until the bytes of the transfer have arrived, and interrupt iperf3, or until it ends.
    False if neither happens within the limit."""
    # The device counts headers, too: less than a quarter of the payload.
    wanted = received_bytes(bench.client) + settings.transfer_bytes * 5 // 4
    step_s = settings.sample_ms / 1e3
    for _ in range(round(settings.limit_s / step_s)):
        if client.wait(step_s) is not None:
            return True
        if received_bytes(bench.client) >= wanted:
            client.signal(signal.SIGINT)
            return True
    client.signal(signal.SIGINT)
    return False


def received_bytes(host: Host) -> int:
    """The bytes that the device of a host has received."""
    lines = host.read("/proc/net/dev").decode("ascii").splitlines()
    return next(
        int(words.split()[0])
        for device, _, words in (line.partition(":") for line in lines)
        if device.strip() == host.device
    )


def serve(bench: Bench, port: int) -> Process:
    """Start the server, which ends after one transfer."""
    address = bench.server.address
    words = ("-s", "-1", "-4", "-B", address, "-p", str(port), "--json")
    return bench.serve(bench.server, (IPERF3, *words), port, REPORT)


def arguments(settings: Settings, port: int) -> tuple[str, ...]:
    """The arguments of the client of iperf3 after the server's address."""
    window, mss, burst = settings.requested_bytes, settings.mss_bytes, settings.writes_per_wake
    return (
        *("-4", "-p", str(port), "-R", "-t", "0"),
        *("-l", str(settings.write_bytes)),
        *(("-w", str(window)) if window else ()),
        *(("-M", str(mss)) if mss else ()),
        *(("-N",) if settings.nodelay else ()),
        *(("-b", f"0/{burst}") if burst != WRITES_PER_WAKE else ()),
        "--json",
    )


def keep_report(bench: Bench, host: Host, settings: Settings) -> bool:
    """Keep the report of iperf3 on a host, and record the buffers that it was granted; False if
    they were refused. RunFailed for any other error, and for a refusal that was not expected."""
    path = bench.path(host, REPORT)
    try:
        report: dict[str, Any] = json.loads(host.read(path))
        kept, error = REPORT, str(report.get("error", ""))
    except ValueError:  # it did not accept its arguments
        report, kept, error = {}, SAID, bench.last_word(host, SAID)
        lines = host.read(bench.path(host, SAID)).decode("utf-8", "replace").splitlines()
        error = next((line for line in lines if line.startswith(f"{IPERF3}: ")), error)
    refused = REFUSED in error
    if refused and not settings.may_be_refused:
        raise RunFailed(
            f"iperf3 on {host.name} refuses buffers of {settings.window_kib} KiB: {error}. "
            "Allowed: what net.core.rmem_max and wmem_max grant. Raise them, or request less"
        )
    expected = (INTERRUPTED, RESET) if host is bench.server else (INTERRUPTED,)
    if error and not refused and not any(words in error for words in expected):
        raise RunFailed(f"iperf3 on {host.name} failed: {error}")
    bench.keep(host, bench.path(host, kept), kept)
    for socket, name in (("send", "sndbuf_actual"), ("receive", "rcvbuf_actual")):
        granted = report.get("start", {}).get(name)
        bench.buffers.append(Buffer(host.name, socket, settings.requested_bytes, granted))
    return not refused
