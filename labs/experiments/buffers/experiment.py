"""Article 1: a download over a shaped link, blocks one per round trip, what setsockopt grants, and
what httping times."""

from __future__ import annotations

import json

from labs.errors import RunFailed
from labs.experiments.buffers.settings import BLOCKS, GRANTS, HTTPING, WGET, Settings
from labs.guest.bench import PROGRAMS, Bench
from labs.guest.condition import Condition, read_settings
from labs.guest.download import fetch_and_discard, fetch_with_wget, serve_file
from labs.guest.outcome import Buffer
from labs.guest.units import MIB

GRANTS_PROGRAM, ASK = PROGRAMS / "setsockopt_sizes.py", PROGRAMS / "ask.py"
REQUESTED_BLOCKS = 40
"""Slow start takes the first ten; the median is of the others."""
# setsockopt: the kernel's minimum, its doubling, its cap of 212,992, the article's 50 MiB.
REQUESTS = (1, 1000, 2304, 4096, 65536, 106496, 212992, 212993, MIB, 50 * MIB)


def measure(bench: Bench, condition: Condition) -> None:
    """Do the condition's steps: a download, what setsockopt grants, or httping."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    if settings.steps == GRANTS:
        grants(bench)
    elif settings.steps == HTTPING:
        httping(bench, settings, port)
    elif settings.steps == BLOCKS:
        blocks(bench, settings, port)
    else:
        download(bench, settings, port)


def download(bench: Bench, settings: Settings, port: int) -> None:
    """Serve a file, watch both ends, fetch it once."""
    server = serve_file(
        bench, settings.transfer_bytes, port, sndbuf_bytes=settings.server_sndbuf_bytes
    )
    bench.watch(port, settings.sample_ms, capture=(bench.client,) if settings.capture else ())
    if settings.client == WGET:
        fetch_with_wget(bench, limit_s=settings.limit_s)
    else:
        fetch_and_discard(
            bench,
            limit_s=settings.limit_s,
            read_bytes=settings.read_bytes,
            rcvbuf_bytes=settings.client_rcvbuf_bytes,
            pause_ms=settings.pause_ms,
        )
    bench.unwatch()
    server.stop()


def grants(bench: Bench) -> None:
    """Request buffers on the client, and record what was granted."""
    out = bench.path(bench.client, "grants.json")
    sizes = ",".join(map(str, REQUESTS))
    process = bench.client.program(GRANTS_PROGRAM, ("--sizes", sizes, "--out", out))
    bench.finish(process, 30)
    process.stop()
    bench.keep(bench.client, out, "grants.json")
    for row in json.loads(bench.client.read(out)):
        bench.buffers.append(Buffer("client", **row))


def httping(bench: Bench, settings: Settings, port: int) -> None:
    """Time what httping times: a connection, and a request on it."""
    server = serve_file(bench, settings.transfer_bytes, port)
    url = f"http://{bench.server.address}:{port}/bigfile"
    done = bench.client.run(("httping", "-c", "5", "-g", url))
    bench.note(bench.client, "httping.txt", done.text)
    server.stop()


def blocks(bench: Bench, settings: Settings, port: int) -> None:
    """Fetch a file again and again on one connection: one block, then a wait for the next."""
    server = serve_file(bench, settings.transfer_bytes, port)
    out = bench.path(bench.client, "ask.json")
    words = (
        *("--to", bench.server.address, "--port", str(port), "--path", "/bigfile"),
        *("--requests", str(REQUESTED_BLOCKS), "--quickack", "never", "--out", out),
    )
    process = bench.client.program(ASK, words, stdout=bench.path(bench.client, "ask.txt"))
    code = bench.finish(process, settings.limit_s)
    process.stop()
    if code != 0:
        raise RunFailed(f"the client failed: {bench.last_word(bench.client, 'ask.txt')}")
    bench.keep(bench.client, out, "ask.json")
    server.stop()
