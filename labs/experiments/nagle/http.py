"""Requests and their answers: a server that writes, a client that asks, a capture between them."""

from __future__ import annotations

from labs.drive import nginx
from labs.drive.bench import PROGRAMS, Bench
from labs.drive.testbed.contract import Process
from labs.errors import RunFailed

RESPOND = PROGRAMS / "respond.py"
ASK = PROGRAMS / "ask.py"
ASKED = 20
"""How many requests our own client makes: more than the quick ACKs of a new connection."""

_PAGE = "<!doctype html>\n<title>Welcome</title>\n<p>This page is as long as it was asked to be.\n"
PAGE_DATE = "2020-04-13T14:01:33Z"


def serve_page(bench: Bench, port: int) -> Process:
    """Start nginx with the article's configuration and a page of the wished size.

    Head and page are written apart because tcp_nopush is off, as it is where nobody names it.
    """
    server, settings = bench.server, bench.settings
    page = bench.path(server, "www/index.html")
    size = int(str(settings["page_bytes"]))
    server.write(page, _PAGE.ljust(size, ".")[:size].encode())
    server.run(("touch", "-d", PAGE_DATE, page))  # Last-Modified is on the wire
    return nginx.serve(
        bench,
        port,
        (
            "default_type text/html",
            f"access_log {server.folder}/access.log",
            "sendfile on",
            f"tcp_nodelay {'on' if settings['nodelay'] else 'off'}",
            "keepalive_timeout 65",
        ),
        connections=1024,
    )


def serve_writes(bench: Bench, port: int) -> Process:
    """Start our own server, which writes its answer as the condition says."""
    server, settings = bench.server, bench.settings
    log = bench.path(server, "respond.txt")
    process = server.program(
        RESPOND,
        (
            "--listen",
            server.address,
            "--port",
            str(port),
            "--writes",
            str(settings["writes"]),
            "--body-bytes",
            str(settings["page_bytes"]),
            "--pieces",
            str(settings["pieces"]),
            "--nodelay",
            "1" if settings["nodelay"] else "0",
        ),
        stdout=log,
    )

    def ready() -> bool:
        if process.wait(0) is not None:
            raise RunFailed(f"the server ended at once: {bench.last_word(server, 'respond.txt')}")
        return bench.listening(server, port)

    bench.until(ready, "the server")
    return process


def load(bench: Bench, port: int) -> None:
    """Ask with ab as the article does; keep its report, percentiles and times as they are."""
    client, settings = bench.client, bench.settings
    times, percentiles = (bench.path(client, name) for name in ("ab.tsv", "ab.csv"))
    process = client.start(
        (
            "ab",
            "-q",
            "-n",
            str(settings["requests"]),
            "-c",
            str(settings["concurrency"]),
            *(("-k",) if settings["keepalive"] else ()),
            "-g",
            times,
            "-e",
            percentiles,
            f"http://{bench.server.address}:{port}/",
        ),
        stdout=bench.path(client, "ab.txt"),
    )
    _finished(bench, process, "ab")
    for name in ("ab.txt", "ab.tsv", "ab.csv"):
        bench.keep(client, bench.path(client, name), name)


def ask(bench: Bench, port: int) -> None:
    """Ask with our own client, one request behind the other on one connection."""
    client = bench.client
    out = bench.path(client, "ask.json")
    process = client.program(
        ASK,
        (
            "--to",
            bench.server.address,
            "--port",
            str(port),
            "--requests",
            str(ASKED),
            "--quickack",
            str(bench.settings["quickack"]),
            "--out",
            out,
        ),
        stdout=bench.path(client, "ask.txt"),
    )
    _finished(bench, process, "ask")
    bench.keep(client, out, "ask.json")


def _finished(bench: Bench, process: Process, name: str) -> None:
    exit_code = bench.finish(process, float(str(bench.settings["limit_s"])))
    process.stop()
    if exit_code is None:
        raise RunFailed(
            f"{name} had not finished within {bench.settings['limit_s']:g} s; "
            "ask for fewer requests"
        )
    if exit_code:
        raise RunFailed(
            f"{name} ended with exit code {exit_code}: "
            f"{bench.last_word(bench.client, f'{name}.txt')}"
        )
