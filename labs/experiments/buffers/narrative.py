"""A study of the lab `buffers` in sentences, as Markdown with the figures in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.experiments.buffers.results import NO_RATE
from labs.experiments.buffers.settings import ARTICLE
from labs.experiments.buffers.socket_buffers import Window, bdp_bytes, settings_of, window
from labs.experiments.buffers.sweep import remarks
from labs.read.display.format import in_three_digits, is_known, milliseconds, size_in_words
from labs.read.readings.goodput import download
from labs.read.runs.run import Run
from labs.read.theory.bounds import LINE, RECEIVE_WINDOW, SEND_BUFFER

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["describe", "describe_run", "remarks"]

MOST_PCT = 50.0
# Shares of the BDP: from here on the link is full, and from there on a queue holds more than it.
FULL, QUEUED = 0.95, 2.0
BOUNDS = {
    LINE: "the rate of the link",
    RECEIVE_WINDOW: "the receive window",
    SEND_BUFFER: "the send buffer",
}
HELD = {
    "receive window": "the receiver's window kept the sender from sending more",
    "send buffer": "the sender's own buffer was full: what it holds waits to be acknowledged, "
    "and nothing more fits in",
}


def describe(table: DataFrame) -> str:
    """A line a run: what was measured, what was predicted, what the article has, what to mind.

    Of a study with many runs those of the article's own conditions are told of; the others have
    charts.
    """
    own = table[table["group"] == ARTICLE]
    rows = (table if own.empty else own).to_dict("records")
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in rows)


def _one(row: dict[Any, Any]) -> str:
    if not is_known(row["bytes"]):
        return "no download." + (
            f" httping says {milliseconds(row['httping_ms'])}."
            if is_known(row["httping_ms"])
            else ""
        )
    if NO_RATE in row["note_codes"].split():
        said = "no figure: on virtual time nothing limits a link that is not shaped."
        if is_known(row["article_mib_s"]):
            said += (
                f" The article has {row['article_mib_s']:g} MiB/s ({row['article_claim']}), "
                "the speed of its machines."
            )
        return said
    said = f"{in_three_digits(row['goodput_mib_s'])} MiB/s over the whole file"
    if is_known(row["steady_mib_s"]):
        said += f", {in_three_digits(row['steady_mib_s'])} in the last third of the time"
    said += "."
    if is_known(row["predicted_mib_s"]):
        said += (
            f" Predicted: {in_three_digits(row['predicted_mean_mib_s'])}, in the long run "
            f"{in_three_digits(row['predicted_mib_s'])}, held there by "
            f"{BOUNDS[row['bound']]}."
        )
    theirs = _of_the_article(row)
    if theirs:
        said += f" The article ({row['article_claim']}) has {theirs}."
    return said + (f" Note: {row['notes']}." if row["notes"] else "")


def _of_the_article(row: dict[Any, Any]) -> str:
    """The article's figures, each with what it is a figure of."""
    known = {
        "over the whole file": row["article_mib_s"],
        "in the steady state": row["article_steady_mib_s"],
    }
    return " and ".join(
        f"{figure:g} MiB/s {of}" for of, figure in known.items() if is_known(figure)
    )


def describe_run(run: Run) -> str:
    """What one download shows: the link's BDP, what was in flight, what held the sender back."""
    if not settings_of(run).is_download:
        return f"Nothing is downloaded under the condition {run.condition}."
    found, bdp = window(run), bdp_bytes(run)
    if found is None:
        return (
            f"The transfer took {1e3 * download(run).duration_s:.2g} ms and was over before "
            "the first sample: there is no timeline to look at."
        )
    link = run.link.measured
    said = []
    if bdp is not None:
        said.append(
            f"The link carries {link.rate_mbit:.4g} Mbit/s and a round trip takes "
            f"{milliseconds(link.rtt_ms)}, so **{size_in_words(bdp)}** must be on their way to "
            "keep it busy (the bandwidth-delay product, BDP)."
        )
    said.append(
        f"Usually **{size_in_words(found.usually_in_flight_bytes)}** were in flight, at most "
        f"{size_in_words(found.in_flight_bytes)}. The receiver offered a window of at most "
        f"{size_in_words(found.offered_bytes)}, and the sender's congestion window came to "
        f"{size_in_words(found.congestion_bytes)}."
    )
    if bdp is not None:
        share = found.usually_in_flight_bytes / bdp
        said.append(
            f"So {100 * share:.2g} % of the link was used."
            if share < FULL
            else "So the link was full."
            if share < QUEUED
            else "So the link was full, and most of that waited in the queue before it."
        )
    again = run.nstat("server").get("TcpRetransSegs", 0)
    if again:
        said.append(f"{again} segments were sent again.")
    return " ".join([*said, *_held_back(found)])


def _held_back(found: Window) -> list[str]:
    """What held the sender back for most of the time, by its kernel's own clocks."""
    return [
        f"For {share:.0f} % of the time {HELD[name]}."
        for name, share in found.limited_pct.items()
        if share >= MOST_PCT
    ]
