"""Article 1: a download over a shaped link, what setsockopt grants, and what httping times."""

from __future__ import annotations

import json

from labs.drive.bench import PROGRAMS, Bench
from labs.drive.condition import Condition
from labs.drive.download import download, serve_file
from labs.drive.outcome import Buffer

GRANTS = PROGRAMS / "setsockopt_sizes.py"
# setsockopt: the kernel's minimum, its doubling, its cap of 212,992, the article's 50 MiB.
REQUESTS = (1, 1000, 2304, 4096, 65536, 106496, 212992, 212993, 1 << 20, 50 << 20)


def measure(bench: Bench, condition: Condition) -> None:
    """Do the condition's steps: a download, what setsockopt grants, or httping."""
    {"download": download, "grants": grants, "httping": httping}[steps(condition)](bench)


def steps(condition: Condition) -> str:
    """What is done; a condition that does not say it is a download."""
    return str(condition.settings.get("steps", "download"))


def grants(bench: Bench) -> None:
    """Ask for buffers on the client, and write down what was granted."""
    out = bench.path(bench.client, "grants.json")
    process = bench.client.program(GRANTS, ("--sizes", ",".join(map(str, REQUESTS)), "--out", out))
    bench.finish(process, 30)
    process.stop()
    bench.keep(bench.client, out, "grants.json")
    for row in json.loads(bench.client.read(out)):
        bench.buffers.append(Buffer("client", **row))


def httping(bench: Bench) -> None:
    """Time what httping times: a connection, and a request on it."""
    port = bench.condition.link.port
    server = serve_file(bench, int(str(bench.settings["transfer_bytes"])), port)
    url = f"http://{bench.server.address}:{port}/bigfile"
    done = bench.client.run(("httping", "-c", "5", "-g", url))
    bench.note(bench.client, "httping.txt", done.text)
    server.stop()
