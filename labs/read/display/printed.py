"""What wget, httping and `ss` printed in a run, reduced to the lines that an article shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import log
from typing import TYPE_CHECKING

from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import Printed, last_match

if TYPE_CHECKING:
    from labs.read.claims.ledger import Article, OwnParameter
    from labs.read.runs.run import Run

PROGRESS = re.compile(r"^ *(\d+K)[ .]+(\d+)% +([\d.]+[KMG]?) *=?(\S*)$", re.MULTILINE)
SAVED = re.compile(r"\([\d.]+ [KMG]?B/s\)")
SOCKET = re.compile(r"bytes_received:([1-9]\d*).*? rcv_space:(\d+) rcv_ssthresh:(\d+) minrtt:")
RECEIVED = re.compile(r"bytes_received:(\d+)")
SAMPLE = "bytes_received:{} ... rcv_space:{} rcv_ssthresh:{}"
BEGINNING = re.compile(r"(\d+)%")
ALL_PCT = 100
WRK_LABELS = ("Latency ", "Req/Sec ", "requests in ", "Requests/sec:", "Transfer/sec:")


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


def wrk_line(run: Run, like: str) -> str:
    """The line of wrk with the label of another one."""
    label = next(label for label in WRK_LABELS if label in like)
    return last_match(run, "client/wrk.txt", rf"^.*{label}.*$")


def httping_line(run: Run, like: str) -> str:
    """The last line of httping."""
    return last_match(run, "client/httping.txt", r"^round-trip .*$")


TOOLS: Mapping[str, Callable[[Run, str], str]] = {
    "httping": httping_line,
    "ss": ss_sample,
    "wget": wget_lines,
    "wrk": wrk_line,
}
"""What is read of a run's output, by the first word of a command."""


def beside_article(
    article: Article, runs: Iterable[Run], of_lab: OwnParameter | None = None
) -> Iterator[Printed]:
    """The lines that an article shows, and those of these runs. A claim's argument `printed` has
    them by condition and command."""
    by_condition = {run.condition: run for run in runs}
    for claim in article.claims:
        for condition, commands in claim.arguments.get("printed", {}).items():
            if run := by_condition.get(condition):
                comparable = has_articles_parameters(article, run, claim.id, of_lab)
                yield from _printed(run, commands, comparable)


def _printed(
    run: Run, commands: Mapping[str, Iterable[str]], comparable: bool
) -> Iterator[Printed]:
    for command, lines in commands.items():
        tool = re.split(r"\W", command)[0]
        for line in lines:
            theirs = line if comparable else ""
            # Of another download, the end is shown.
            ours = TOOLS[tool](run, theirs if tool == "wget" else line)
            yield Printed(command, theirs, ours)
