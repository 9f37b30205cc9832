"""The four runs of Nagle's algorithm and delayed ACKs as they are on a link with a delay.

Their captures are made: what the server's tcpdump sees when netem, at the server, holds back each
of the server's packets for the whole delay. Everything else is that of the recorded runs.
"""

from __future__ import annotations

import dataclasses
import shutil
from copy import deepcopy
from pathlib import Path

from labs.studies.study import Study
from tests.made_flows import ACK, BEGIN_US, PSH, SYN, Segment, capture, segment
from tests.real_runs import recorded_nagle

CONNECTIONS, REQUESTS = 2, 10
REQUEST_BYTES, HEAD_BYTES, PAGE_BYTES = 100, 238, 612
STALL_MS = 44
# Whether Nagle's algorithm is on, and whether the client always acknowledges at once.
WAYS = {
    "off": (True, False),
    "quickack": (True, True),
    "on": (False, False),
    "on-quickack": (False, True),
}


def usual_ms(condition: str, delay_ms: int) -> int:
    """The duration of all requests of a connection except the first."""
    nagle, quick = WAYS[condition]
    return delay_ms * (2 if nagle else 1) + (STALL_MS if nagle and not quick else 0)


def delayed(folder: Path, delay_ms: int, *, late_ms: int = 0) -> Study:
    """The study on a link with that delay; the last request of each run takes `late_ms` longer."""
    whole = recorded_nagle()
    runs = []
    for name in WAYS:
        run = whole.run(name)
        copy = folder / run.path.name
        shutil.copytree(run.path, copy)
        capture(copy / "server" / "capture.pcap", _packets(name, 1000 * delay_ms, 1000 * late_ms))
        record = deepcopy(dict(run.record))
        record["link"]["asked"]["delay_ms"] = delay_ms
        record["link"]["measured"]["rtt_ms"] = float(delay_ms)
        runs.append(dataclasses.replace(run, path=copy, record=record))
    return Study(whole.parameters, tuple(runs), folder, None, True, lab=whole.lab)


def _packets(condition: str, delay_us: int, late_us: int) -> list[Segment]:
    nagle, quick = WAYS[condition]
    made: list[Segment] = []
    for connection in range(CONNECTIONS):
        port, at = 20_000 + connection, BEGIN_US + 100_000_000 * connection
        made.append((at, segment(port, 0, 0, 0, SYN)))
        at += delay_us
        made += [(at, segment(port, 1, 0, 1, SYN | ACK)), (at, segment(port, 0, 1, 1, ACK))]
        for number in range(REQUESTS):
            last = (connection, number) == (CONNECTIONS - 1, REQUESTS - 1)
            asked = 1 + REQUEST_BYTES * number
            sent = 1 + (HEAD_BYTES + PAGE_BYTES) * number
            made.append((at, segment(port, 0, asked, sent, ACK | PSH, length=REQUEST_BYTES)))
            asked += REQUEST_BYTES
            at += delay_us + (late_us if last else 0)
            made.append((at, segment(port, 1, sent, asked, ACK | PSH, length=HEAD_BYTES)))
            sent += HEAD_BYTES
            if nagle:
                at += 0 if quick or number == 0 else 1000 * STALL_MS
                made.append((at, segment(port, 0, asked, sent, ACK)))
                at += delay_us
            made.append((at, segment(port, 1, sent, asked, ACK | PSH, length=PAGE_BYTES)))
            made.append((at, segment(port, 0, asked, sent + PAGE_BYTES, ACK)))
    return made
