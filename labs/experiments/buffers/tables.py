"""The tables of the lab `buffers`: its buffers, guessed sizes, what tools print, two clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pandas import DataFrame

from labs.experiments.buffers.conditions import DEFAULT
from labs.experiments.buffers.results import Results, article, parameter
from labs.guest.units import KIB, MIB
from labs.read.display.beside import Guess, guesses
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import in_three_digits
from labs.read.display.printed import beside_article
from labs.read.display.rich_output import Table
from labs.read.readings.buffer_sweep import smallest
from labs.read.readings.bulk_transfer import (
    AUTOMATIC,
    OF_HOST,
    RECEIVER,
    SENDER,
    SETSOCKOPT,
    Buffer,
    core_max_of,
    in_mib,
)
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes

SHORTEST_RTT_MS = 0.1
"""A shorter RTT is that of the machine, and says nothing about a buffer."""


CELLS = {
    **dict.fromkeys(
        ("requested", "core maximum", "granted"),
        lambda size: f"{size / KIB:,.3f}".rstrip("0").rstrip("."),
    ),
    **dict.fromkeys(("used", "advertised", "usable window"), lambda size: f"{size / KIB:,.0f}"),
    **dict.fromkeys(("allows MiB/s", "measured MiB/s"), in_three_digits),
}
"""How a table shows the figures of a buffer: sizes in KiB."""
COLUMNS = ("condition", "whose", "set by", *CELLS)


def buffer_rows(runs: Iterable[Run]) -> Table:
    """One row per buffer of the runs: of programs that only ask, and of the ends of downloads;
    sizes in bytes, empty where a run does not say.

    `requested` is what the program or the sysctl asked for (empty: the kernel sizes the buffer),
    `granted` what getsockopt says at the end of the transfer, `used` the most memory that was in
    it, `advertised` the largest window on the wire. `usable window` is the theory's: what the
    buffer lets be sent and not yet acknowledged; `allows MiB/s` is that over the round trip.
    """
    rows = [row for run in runs for row in _buffers(Results(run))]
    return Table(rows, columns=[*COLUMNS], dtype=object)


def buffers_table(study: Study) -> Table:
    """The same for a study, in KiB; what was requested and granted to the byte, else rounded."""
    rows = buffer_rows(study.runs)
    for name, in_words in CELLS.items():
        rows[name] = rows[name].map(in_words, na_action="ignore").fillna("")
    rows.attrs["units"] = {name: "KiB" for name in CELLS if "MiB/s" not in name}
    return rows


def _buffers(results: Results) -> Iterator[dict[str, Any]]:
    for request in results.run.buffers:
        sizes = request.requested_bytes, request.granted_bytes
        yield _buffer(results.run, request.socket, SETSOCKOPT, *sizes)
    if results.download is not None:
        offered = results.window and results.window.offered_bytes
        yield _end(results, SENDER, results.sends, "written")
        yield _end(results, RECEIVER, results.receives, "unread") | {"advertised": offered}


def _buffer(
    run: Run, end: str, set_by: str, requested: int | None, granted: int | None
) -> dict[str, Any]:
    return {
        "condition": run.condition,
        "whose": f"{end.removesuffix('e')}er",
        "set by": "the kernel" if set_by == AUTOMATIC else set_by,
        "requested": requested,
        "core maximum": core_max_of(run, end) if set_by == SETSOCKOPT else None,
        "granted": granted,
    }


def _end(results: Results, host: str, buffer: Buffer, memory: str) -> dict[str, Any]:
    """The buffer of a host, and what it lets be in flight in theory."""
    end, rtt_ms, usable = OF_HOST[host][0], results.run.measured.rtt_ms, results.usable.get(host)
    sizes = buffer.requested_bytes, results.sizes[end].get("last")
    allows = usable is not None and rtt_ms >= SHORTEST_RTT_MS
    return {
        **_buffer(results.run, end, buffer.fixed_by, *sizes),
        "used": results.sizes[memory].get("largest"),
        "usable window": usable,
        "allows MiB/s": (usable or 0) / (rtt_ms / 1e3) / MIB if allows else None,
        "measured MiB/s": results.download and in_mib(results.download.steady_bytes_s),
    }


def guessed_sizes(
    table: DataFrame, rate_mbit: float, delay_ms: float, *, bdp_mib: Guess, buffer_mib: Guess
) -> Table:
    """Two rows: the BDP, and the smallest buffer at both ends that fills the link.

    `table` is `study.results()`; the link is as requested, for the prediction.
    """
    needed = advise(rate_mbit, delay_ms, str(table["kernel"].iloc[0]))
    measured = float(table["bdp_bytes"][table["condition"] == DEFAULT].astype(float).max())
    enough = next((answer.buffer_bytes for answer in smallest(table)), None)
    most = max(needed.receive_bytes, needed.send_bytes)
    rows = {
        "BDP": (bdp_mib, bdp_bytes(rate_mbit, delay_ms) / MIB, measured / MIB),
        "smallest buffer": (buffer_mib, most / MIB, enough and enough / MIB),
    }
    return guesses(rows, "MiB")


def as_printed(*studies: Study) -> Table:
    """One row per output that the article shows: wget's bar and its last line, httping's summary,
    and three samples of `ss -io` in the download with the largest receive buffer."""
    runs = [run for study in studies for run in study.runs if run.wget() or run.httping()]
    lines = (line for run in runs for line in beside_article(article(), [run], parameter))
    return lines_as_printed(lines)


BUILT_IN = " with the built-in client"
BY_CLIENT = {
    "condition": "Condition",
    "article_steady_mib_s": "Article, near the end",
    "steady_mib_s": "wget, near the end",
    f"steady_mib_s{BUILT_IN}": "Built-in client, near the end",
    "article_mib_s": "Article, whole file",
    "wget_mib_s": "wget's own figure, whole file",
    f"goodput_mib_s{BUILT_IN}": "Built-in client, whole file",
    "over_wget_pct": "Built-in client over wget (%)",
}


def by_client(of_wget: Study, built_in: Study) -> Table:
    """One row per download that both clients made: the article's figures, wget's here, and those of
    the client that discards, near the end and over the whole file."""
    pairs = of_wget.results().merge(built_in.results(), on="condition", suffixes=("", BUILT_IN))
    ratio = pairs[f"goodput_mib_s{BUILT_IN}"] / pairs["goodput_mib_s"]
    table = Table(pairs[[*BY_CLIENT][:-1]]).assign(over_wget_pct=100 * (ratio - 1))
    table.attrs["units"] = dict.fromkeys([*BY_CLIENT.values()][1:-1], "MiB/s")
    return table.rename(columns=BY_CLIENT)
