"""The output of two load generators: wrk with a script that prints its histogram, and vegeta.

wrk adds requests to its histogram that it never sent. For each latency of at least twice the mean
interval between requests it records what further requests would have waited (`stats_correct`,
src/stats.c, wrk 4.1). `wrk` takes these out again: they depend only on the counts of greater
latencies, so removing them from the greatest latency down is exact.

vegeta writes one line per request (`vegeta encode -to csv`): the time at which it began, its
status, its latency, and its sequence number. With a constant rate, request n was intended n
intervals after the first; a busy machine begins it later.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labs.errors import Damaged

_CONNECTIONS = re.compile(r"^  \d{1,6} threads and (\d{1,7}) connections$", re.ASCII | re.MULTILINE)
_FIGURE = re.compile(r"^(requests|duration_us|errors),(\d{1,15})$", re.ASCII | re.MULTILINE)
_ROW = re.compile(r"(\d{1,12}),(\d{1,15})", re.ASCII)
_HEADER = "latency_us,count\n"
MOST_STEPS = 5_000_000
"""A limit for damaged files: wrk itself counts no more corrections than microseconds passed."""
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
COLUMNS = 12
BEGAN, STATUS, LATENCY, SEQUENCE = 0, 1, 2, 8


@dataclass(frozen=True)
class Load:
    """The requests of a load: those that failed, the time that they took, and the number of
    requests per latency, without those that wrk adds; `added_mean_us` is the mean with them, which
    wrk prints."""

    requests: int
    failed: int
    duration_us: float
    latencies_us: Mapping[int, int]
    added_mean_us: float | None = None

    @property
    def per_s(self) -> float:
        return 1e6 * self.requests / self.duration_us

    @property
    def mean_us(self) -> float:
        return _mean(self.latencies_us)


def _mean(counts: Mapping[int, int]) -> float:
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def wrk(text: str) -> Load:
    """What wrk and the script printed, a closed loop; Damaged for other text."""
    connections = _CONNECTIONS.search(text)
    figures = {name: int(value) for name, value in _FIGURE.findall(text)}
    _, header, rows = text.partition(_HEADER)
    if connections is None or len(figures) != 3 or not header:
        raise Damaged("not the output of wrk with the script that prints its histogram")
    counts: dict[int, int] = {}
    for line in rows.splitlines():
        match = _ROW.fullmatch(line)
        if match is None:
            raise Damaged(f"a line of the histogram is {line[:40]!r}")
        counts[int(match[1])] = int(match[2])
    number = int(connections[1])
    if not counts or not figures["requests"] or not number:
        raise Damaged("wrk received no response")
    each = figures["requests"] // number
    interval = figures["duration_us"] // each if each else 0
    return Load(
        requests=figures["requests"],
        failed=figures["errors"],
        duration_us=figures["duration_us"],
        latencies_us=without_added(counts, interval) if interval else counts,
        added_mean_us=_mean(counts),
    )


def without_added(counts: Mapping[int, int], interval_us: int) -> dict[int, int]:
    """The histogram without the requests that `stats_correct` adds for this interval."""
    left, steps = dict(counts), 0
    for value in sorted(counts, reverse=True):
        if value < 2 * interval_us:
            break
        added = value - interval_us
        while left[value] and added > interval_us:
            if left.get(added, 0) < left[value] or steps > MOST_STEPS:
                raise Damaged("the histogram is not one that wrk corrected")
            left[added] -= left[value]
            added -= interval_us
            steps += 1
    return {value: count for value, count in sorted(left.items()) if count}


@dataclass(frozen=True)
class Hit:
    """A request of vegeta: its number, the time at which it began, its latency, its status."""

    sequence: int
    began_ns: int
    latency_ns: int
    status: int


def vegeta(text: str) -> tuple[Hit, ...]:
    """The requests in the order of their numbers; Damaged for other text, or if one is missing."""
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise Damaged(f"the lines of vegeta are not CSV: {error}") from None
    hits = sorted(map(_hit, rows), key=lambda hit: hit.sequence)
    if not hits or [hit.sequence for hit in hits] != list(range(len(hits))):
        raise Damaged("the requests of vegeta are not numbered from 0 without a gap")
    return tuple(hits)


def _hit(row: Sequence[str]) -> Hit:
    if len(row) != COLUMNS:
        raise Damaged(f"a line of vegeta has {len(row)} columns. Allowed: {COLUMNS}")
    words = [row[place] for place in (SEQUENCE, BEGAN, LATENCY, STATUS)]
    if not all(map(_NUMBER.fullmatch, words)):
        raise Damaged(f"a line of vegeta has no numbers: {','.join(words)[:60]!r}")
    return Hit(*map(int, words))


def intended_us(hits: Sequence[Hit], rate_per_s: int) -> list[int]:
    """The latency of each request from the moment at which it was intended, in microseconds; with
    rate 0 from the moment at which it was sent."""
    if not rate_per_s:
        return [hit.latency_ns // 1000 for hit in hits]
    first = hits[0].began_ns
    late_ns = (hit.began_ns - first - hit.sequence * 1_000_000_000 // rate_per_s for hit in hits)
    return [
        (hit.latency_ns + max(0, late)) // 1000 for hit, late in zip(hits, late_ns, strict=True)
    ]
