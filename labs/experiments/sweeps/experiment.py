"""Article 5: one transfer by iperf3, with socket buffers of a given size.

The shaped direction is from the server to the client, so the client starts iperf3 with -R.
"""

from __future__ import annotations

import json
from typing import Any

from labs.drive.bench import Bench
from labs.drive.condition import Condition, read_settings
from labs.drive.outcome import Buffer
from labs.drive.testbed.contract import Host, Process
from labs.errors import RunFailed
from labs.experiments.sweeps.settings import Settings

IPERF3 = "iperf3"
REPORT = "iperf3.json"
REFUSED = ("socket buffer size not set correctly", "TCP window size")
"""What iperf3 says of a size that it, or the kernel, does not grant."""


def measure(bench: Bench, condition: Condition) -> None:
    """Start the server, watch both ends and the packets, and transfer once."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    server = serve(bench, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,))
    client = bench.client.start(
        (IPERF3, "-c", bench.server.address, *arguments(settings, port)),
        stdout=bench.path(bench.client, REPORT),
        stderr=bench.path(bench.client, "iperf3.txt"),
    )
    exit_code = bench.finish(client, settings.limit_s)
    if exit_code is None:
        bench.ended = "limit"
    elif exit_code == 0:
        server.wait(10)
    bench.unwatch()
    for process in (client, server):
        process.stop()
    if exit_code is not None:
        keep_report(bench, bench.client, settings)
    if exit_code == 0:
        keep_report(bench, bench.server, settings)


def serve(bench: Bench, port: int) -> Process:
    """Start the server, which ends after one transfer."""
    address = bench.server.address
    words = ("-s", "-1", "-4", "-B", address, "-p", str(port), "--json")
    return bench.serve(bench.server, (IPERF3, *words), port, REPORT)


def arguments(settings: Settings, port: int) -> tuple[str, ...]:
    """The arguments of the client of iperf3 after the server's address."""
    window, mss = settings.requested_bytes, settings.mss_bytes
    return (
        *("-4", "-p", str(port), "-R", "-n", str(settings.transfer_bytes)),
        *("-l", str(settings.write_bytes)),
        *(("-w", str(window)) if window else ()),
        *(("-M", str(mss)) if mss else ()),
        *(("-N",) if settings.nodelay else ()),
        "--json",
    )


def keep_report(bench: Bench, host: Host, settings: Settings) -> None:
    """Keep the report of iperf3 on a host, and record the buffers that it was granted."""
    path = bench.path(host, REPORT)
    try:
        report: dict[str, Any] = json.loads(host.read(path))
    except ValueError:
        raise RunFailed(f"iperf3 on {host.name} failed: {bench.last_word(host, REPORT)}") from None
    error = str(report.get("error", ""))
    if error and not (settings.may_be_refused and any(one in error for one in REFUSED)):
        raise RunFailed(f"iperf3 on {host.name} failed: {error}")
    bench.keep(host, path, REPORT)
    requested = settings.requested_bytes
    for socket, name in (("send", "sndbuf_actual"), ("receive", "rcvbuf_actual")):
        granted = report.get("start", {}).get(name)
        bench.buffers.append(Buffer(host.name, socket, requested, granted))
