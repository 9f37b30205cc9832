"""Article 3: Nagle's algorithm meets the delayed ACK, and a response in two parts stalls."""

from __future__ import annotations

from labs.drive.bench import Bench
from labs.drive.condition import Condition
from labs.experiments.nagle import http


def quick_route(verb: str, address: str, device: str) -> tuple[str, ...]:
    """The line that makes a client acknowledge everything from `address` at once."""
    return ("ip", "route", verb, f"{address}/32", "dev", device, "quickack", "1")


def measure(bench: Bench, condition: Condition) -> None:
    """Serve, watch, ask. The capture is the server's, as the article's is."""
    settings, port = condition.settings, condition.link.port
    serve = http.serve_page if settings["server"] == "nginx" else http.serve_writes
    client = bench.client
    quick = settings["quickack"] == "route"
    if quick:
        client.run(quick_route("add", bench.server.address, client.device))
    try:
        server = serve(bench, port)
        bench.watch(port, int(str(settings["sample_ms"])), capture=(bench.server,))
        (http.load if settings["client"] == "ab" else http.ask)(bench, port)
        bench.unwatch()
        server.stop()
        if settings["server"] == "nginx":
            bench.keep(bench.server, bench.path(bench.server, "access.log"), "access.log")
    finally:
        if quick:
            # Not kept among the commands: pasted, they are to leave the route in place.
            client.run(quick_route("del", bench.server.address, client.device), log=False)
