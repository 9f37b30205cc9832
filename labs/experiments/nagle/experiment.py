"""Article 3: Nagle's algorithm meets the delayed ACK, and a response in two parts stalls."""

from __future__ import annotations

from labs.drive.bench import Bench
from labs.drive.condition import Condition, read_settings
from labs.experiments.nagle import http
from labs.experiments.nagle.settings import AB, BOTH, NGINX, ROUTE, Settings


def quick_route(verb: str, address: str, device: str) -> tuple[str, ...]:
    """The line that makes a client acknowledge everything from `address` at once."""
    return ("ip", "route", verb, f"{address}/32", "dev", device, "quickack", "1")


def measure(bench: Bench, condition: Condition) -> None:
    """Serve, watch, send requests. The server's packets are captured, as the article's are."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    client, quick = bench.client, settings.quickack == ROUTE
    nginx, ab = settings.server == NGINX, settings.client == AB
    if quick:
        client.run(quick_route("add", bench.server.address, client.device))
    try:
        server = (http.serve_page if nginx else http.serve_writes)(bench, settings, port)
        hosts = (bench.server, client) if settings.capture == BOTH else (bench.server,)
        bench.watch(port, settings.sample_ms, capture=hosts)
        (http.load if ab else http.ask)(bench, settings, port)
        bench.unwatch()
        server.stop()
        if nginx:
            bench.keep(bench.server, bench.path(bench.server, "access.log"), "access.log")
    finally:
        if quick:
            # Not kept among the commands: pasted, they are to leave the route in place.
            client.run(quick_route("del", bench.server.address, client.device), log=False)
