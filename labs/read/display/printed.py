"""What wget, httping and `ss` printed in a run, reduced to the lines that an article shows."""

from __future__ import annotations

import re
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.read.runs.run import Run

PROGRESS = re.compile(r"^ *(\d+K)[ .]+(\d+)% +([\d.]+[KMG]?) *=?(\S*)$", re.MULTILINE)
SAVED = re.compile(r"\([\d.]+ [KMG]?B/s\)")
SOCKET = re.compile(r"bytes_received:([1-9]\d*).*? rcv_space:(\d+) rcv_ssthresh:(\d+) minrtt:")
RECEIVED = re.compile(r"bytes_received:(\d+)")
SAMPLE = "bytes_received:{} ... rcv_space:{} rcv_ssthresh:{}"
BEGINNING = re.compile(r"(\d+)%")
ALL_PCT = 100


def wget_lines(run: Run, like: str) -> str:
    """The line of wget's progress at the percentage with which another begins, by default at the
    end, and behind the last one its mean."""
    percentage = BEGINNING.match(like)
    at_pct = int(percentage[1]) if percentage else ALL_PCT
    text = run.text("client/wget.txt")
    # Of a file that fills all lines the last one is without rate: "100% 0.00 =9.0s".
    lines = [line for line in PROGRESS.finditer(text) if float(line[3].rstrip("KMG"))]
    at = next((line for line in lines if int(line[2]) >= at_pct), lines[-1] if lines else None)
    shown = [f"{at[1]} ... {at[2]}% {at[3]} {at[4]}"] if at else []
    return " ... ".join([*shown, *(SAVED.findall(text)[-1:] if at_pct == ALL_PCT else [])])


def ss_sample(run: Run, like: str) -> str:
    """The sample of ss that is closest, in bytes received, to one that an article shows."""
    (received,) = map(int, RECEIVED.findall(like))
    matches = SOCKET.finditer(run.text("client/ss.txt"))
    samples = [tuple(map(int, match.groups())) for match in matches]
    near = min(samples, key=lambda sample: abs(log(sample[0] / received)), default=())
    return SAMPLE.format(*near) if near else ""
