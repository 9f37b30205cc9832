"""Article 3: Nagle's algorithm meets the delayed ACK, and a response in two parts stalls.

HTTP requests and responses: nginx or our own server, ab or our own client.
"""

from __future__ import annotations

import time

from labs.errors import RunFailed
from labs.experiments.nagle.settings import AB, BOTH, NGINX, ROUTE, Settings
from labs.guest.bench import PROGRAMS, Bench
from labs.guest.condition import Condition, read_settings
from labs.guest.download import serve_nginx
from labs.guest.testbed.contract import Process
from labs.guest.testbed.link import Argv

RESPOND = PROGRAMS / "respond.py"
ASK = PROGRAMS / "ask.py"

_PAGE = "<!doctype html>\n<title>Welcome</title>\n<p>This page is as long as it was asked to be.\n"
PAGE_DATE = "2020-04-13T14:01:33Z"


def quick_route(verb: str, address: str, device: str) -> tuple[str, ...]:
    """The line that makes a client acknowledge everything from `address` at once."""
    return ("ip", "route", verb, f"{address}/32", "dev", device, "quickack", "1")


def drop_acks(device: str, port: int) -> tuple[Argv, ...]:
    """The lines that make a client drop every segment to `port` whose only flag is ACK.

    SYNs, data with PSH and FINs are sent. Byte 33 of a packet without IP options has the TCP flags.
    """
    add = ("tc", "class", "add", "dev", device, "parent", "1:", "classid", "1:10", "htb")
    return (
        ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb"),
        (*add, "rate", "1000mbit", "burst", "20k"),
        ("tc", "qdisc", "add", "dev", device, "parent", "1:10", "netem", "loss", "100%"),
        (
            *("tc", "filter", "add", "dev", device, "protocol", "ip", "parent", "1:0", "prio", "1"),
            *("u32", "match", "ip", "protocol", "6", "0xff"),
            *("match", "ip", "dport", str(port), "0xffff", "match", "u8", "0x10", "0xff", "at"),
            *("33", "flowid", "1:10"),
        ),
    )


def pass_acks(device: str) -> Argv:
    """The line that ends `drop_acks`."""
    return ("tc", "qdisc", "del", "dev", device, "root")


def measure(bench: Bench, condition: Condition) -> None:
    """Serve, watch, send requests. The server's packets are captured, as the article's are."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    client, quick = bench.client, settings.quickack == ROUTE
    by_nginx, by_ab = settings.server == NGINX, settings.client == AB
    if quick:
        client.run(quick_route("add", bench.server.address, client.device))
    try:
        server = (serve_page if by_nginx else serve_writes)(bench, settings, port)
        hosts = (bench.server, client) if settings.capture == BOTH else (bench.server,)
        bench.watch(port, settings.sample_ms, capture=hosts)
        (load if by_ab else ask)(bench, settings, port)
        bench.unwatch()
        server.stop()
        if by_nginx:
            bench.keep(bench.server, bench.path(bench.server, "access.log"), "access.log")
    finally:
        if quick:
            # Not kept among the commands: pasted, they are to leave the route in place.
            client.run(quick_route("del", bench.server.address, client.device), log=False)


def serve_page(bench: Bench, settings: Settings, port: int) -> Process:
    """Start nginx with the article's configuration and a page of the requested size.

    Header and page are written separately unless tcp_nopush is on, which sets TCP_CORK.
    """
    server, size = bench.server, settings.page_bytes
    page = bench.path(server, "www/index.html")
    server.write(page, _PAGE.ljust(size, ".")[:size].encode())
    server.run(("touch", "-d", PAGE_DATE, page))  # Last-Modified is on the wire
    return serve_nginx(
        bench,
        port,
        (
            "default_type text/html",
            f"access_log {server.folder}/access.log",
            "sendfile on",
            f"tcp_nodelay {'on' if settings.nodelay else 'off'}",
            *(("tcp_nopush on",) if settings.nopush else ()),
            "keepalive_timeout 65",
        ),
        connections=1024,
    )


def serve_writes(bench: Bench, settings: Settings, port: int) -> Process:
    """Start our own server, which writes its response as the condition says."""
    server = bench.server
    log = bench.path(server, "respond.txt")
    process = server.program(
        RESPOND,
        (
            "--listen",
            server.address,
            "--port",
            str(port),
            "--writes",
            settings.writes,
            "--body-bytes",
            str(settings.page_bytes),
            "--pieces",
            str(settings.pieces),
            "--nodelay",
            "1" if settings.nodelay else "0",
            *(
                ("--every-ms", str(settings.write_every_ms))
                if settings.write_every_ms is not None
                else ()
            ),
        ),
        stdout=log,
    )

    def ready() -> bool:
        if process.wait(0) is not None:
            raise RunFailed(f"the server ended at once: {bench.last_word(server, 'respond.txt')}")
        return bench.listening(server, port)

    bench.until(ready, "the server")
    return process


def load(bench: Bench, settings: Settings, port: int) -> None:
    """Send requests with ab as the article does; keep its report, percentiles and times."""
    client = bench.client
    times, percentiles = (bench.path(client, name) for name in ("ab.tsv", "ab.csv"))
    process = client.start(
        (
            "ab",
            "-q",
            "-n",
            str(settings.requests),
            "-c",
            str(settings.concurrency),
            *(("-k",) if settings.keepalive else ()),
            "-g",
            times,
            "-e",
            percentiles,
            f"http://{bench.server.address}:{port}/",
        ),
        stdout=bench.path(client, "ab.txt"),
    )
    _finished(bench, process, "ab", settings.limit_s)
    for name in ("ab.txt", "ab.tsv", "ab.csv"):
        bench.keep(client, bench.path(client, name), name)


def ask(bench: Bench, settings: Settings, port: int) -> None:
    """Send requests with our own client, one after the other on one connection; drop its ACKs
    meanwhile if the condition says so."""
    client = bench.client
    out = bench.path(client, "ask.json")
    words = (
        *("--to", bench.server.address, "--port", str(port)),
        *("--requests", str(settings.on_a_connection)),
        *("--quickack", settings.quickack, "--out", out),
    )

    dropped_ms = settings.drop_acks_ms
    if dropped_ms is not None:
        client.batch(drop_acks(client.device, port))
    try:
        process = client.program(ASK, words, stdout=bench.path(client, "ask.txt"))
        time.sleep((dropped_ms or 0) / 1e3)
    finally:
        if dropped_ms is not None:
            client.run(pass_acks(client.device))
    _finished(bench, process, "ask", settings.limit_s)
    bench.keep(client, out, "ask.json")


def _finished(bench: Bench, process: Process, name: str, limit_s: float) -> None:
    exit_code = bench.finish(process, limit_s)
    process.stop()
    if exit_code is None:
        raise RunFailed(f"{name} had not finished within {limit_s:g} s. Set fewer requests")
    if exit_code:
        raise RunFailed(
            f"{name} ended with exit code {exit_code}: "
            f"{bench.last_word(bench.client, f'{name}.txt')}"
        )
