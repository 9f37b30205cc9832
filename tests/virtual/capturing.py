"""Inside a kernel: capture a conversation as every run does, and say how long it was.

`main()` leaves the capture in client/ and what the client's kernel counted in counted.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from labs.guest.bench import Bench
from labs.guest.condition import Condition
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import Namespaces

PROBE = Path(__file__).parents[2] / "labs" / "guest" / "programs" / "probe.py"
PORT = 80
ROUNDS = 5


def segments(text: str) -> int:
    """TCP segments that a host's kernel counted, in and out."""
    names, numbers = (line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:"))
    found = dict(zip(names, map(int, numbers), strict=True))
    return found["InSegs"] + found["OutSegs"]


def converse(bench: Bench) -> None:
    """A few handshakes and goodbyes between client and server."""
    serve = bench.server.program(
        PROBE, ("serve", "--listen", bench.server.address, "--port", str(PORT), "--packets", "2")
    )
    bench.until(lambda: bench.listening(bench.server, PORT), "the server")
    measure = bench.client.program(
        PROBE,
        (
            "measure",
            "--to",
            bench.server.address,
            "--port",
            str(PORT),
            "--packets",
            "2",
            "--out",
            bench.path(bench.client, "probe.json"),
        ),
    )
    assert (measure.wait(60), serve.wait(60)) == (0, 0)


def main() -> int:
    link = Link(port=PORT)
    with Namespaces(link) as testbed:
        condition = Condition("captured", link, {}, {})
        bench = Bench(cast(Testbed, testbed), condition, Path.cwd(), print)
        bench.watch(PORT, 100, capture=(bench.client,))
        for _ in range(ROUNDS):
            converse(bench)
        bench.unwatch()
        counted = segments(bench.client.run(("cat", "/proc/net/snmp")).text)
    Path("counted.json").write_text(json.dumps(counted))
    return 0
