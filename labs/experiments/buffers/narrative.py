"""A study of the lab `buffers` in sentences, as Markdown that contains the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.drive.units import MB
from labs.experiments.buffers.conditions import ARTICLE, SENDER_RAISED
from labs.experiments.buffers.results import NO_RATE, Results, article
from labs.experiments.buffers.settings import Settings
from labs.experiments.buffers.sweep import FULL_PCT, Smallest, in_words, remarks, smallest
from labs.read.display.format import (
    RTT_BELOW_MS,
    in_three_digits,
    is_known,
    milliseconds,
    size_in_mb,
    size_in_words,
)
from labs.read.display.rich_output import Words
from labs.read.readings.bulk_transfer import Window, bdp_bytes, window
from labs.read.readings.goodput import download
from labs.read.readings.instruments import shaper_drops
from labs.read.runs.run import Run
from labs.read.theory import bdp as theory
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import (
    CONGESTION_WINDOW,
    NAGLE_HOLDS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
)
from labs.read.theory.windows import RATIO_SINCE, series

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["computed_size", "describe", "describe_run", "remarks", "tell_httping", "tell_kernels"]

NEEDED = "A1.10"
"""The claim with the buffer that the article computes."""
MOST_PCT = 50.0
# Data in flight as a share of what fills the link: at the first it is full, at the second as much
# again waits in the queue.
FULL, QUEUED = 0.95, 2.0
BOUNDS = {
    LINK: "the rate of the link",
    RECEIVE_WINDOW: "the receive window",
    SEND_BUFFER: "the send buffer",
    CONGESTION_WINDOW: "the congestion window",
    SLOW_START: "slow start",
    NAGLE_HOLDS: "Nagle's algorithm",
}
WAITED = {
    "receive window": "for the receive window",
    "send buffer": "for room in its send buffer, which was full of unacknowledged data",
}
"""What a sender waits for, by the clocks of tcp_info."""


def describe(table: DataFrame) -> str:
    """One line per run: measured, predicted, the article's figure, and notes.

    A study that has the article's own conditions is described by these; the others have charts.
    """
    own = table[table["group"] == ARTICLE.name]
    rows = (table if own.empty else own).to_dict("records")
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in rows)


def _one(row: dict[Any, Any]) -> str:
    if not is_known(row["bytes"]):
        return "no download." + (
            f" httping reports {milliseconds(row['httping_ms'])}."
            if is_known(row["httping_ms"])
            else ""
        )
    if NO_RATE in row["note_codes"].split():
        said = "no meaningful rate: an unshaped link is unlimited in virtual time."
        if is_known(row["article_mib_s"]):
            said += (
                f" The article reports {row['article_mib_s']:g} MiB/s ({row['article_claim']}), "
                "the speed of its machines."
            )
        return said
    said = f"{in_three_digits(row['goodput_mib_s'])} MiB/s over the whole file"
    if is_known(row["steady_mib_s"]):
        said += f", {in_three_digits(row['steady_mib_s'])} in the last third"
    said += "."
    if is_known(row["predicted_mib_s"]):
        said += (
            f" Predicted: {in_three_digits(row['predicted_mean_mib_s'])}, in steady state "
            f"{in_three_digits(row['predicted_mib_s'])}, limited by "
            f"{BOUNDS[row['bound']]}."
        )
    theirs = _of_the_article(row)
    if theirs:
        said += f" The article ({row['article_claim']}) reports {theirs}."
    return said + (f" Note: {row['notes']}." if row["notes"] else "")


def _of_the_article(row: dict[Any, Any]) -> str:
    """The article's figures, each with the part of the download that it refers to."""
    known = {
        "over the whole file": row["article_mib_s"],
        "in the steady state": row["article_steady_mib_s"],
    }
    return " and ".join(
        f"{figure:g} MiB/s {of}" for of, figure in known.items() if is_known(figure)
    )


def describe_run(run: Run) -> str:
    """One download: the link's BDP, the data in flight, what limits the goodput, and what the
    sender waited for. The limit is that of `expected`, as in the figure."""
    if not run.settings_as(Settings).is_download:
        return f"Nothing is downloaded under the condition {run.condition}."
    found, bdp = window(run), bdp_bytes(run)
    if found is None:
        return (
            f"The transfer took {1e3 * download(run).duration_s:.2g} ms and ended before "
            "the first sample, so there is no timeline."
        )
    link = run.link.measured
    said = []
    if bdp is not None:
        said.append(
            f"The link carries {link.rate_mbit:.4g} Mbit/s and its RTT is "
            f"{milliseconds(link.rtt_ms)}, so {_bdp_in_words(run, bdp)} must be in flight to "
            "fill it (the bandwidth-delay product, BDP)."
        )
    said.append(
        f"The median of the data in flight was **{size_in_words(found.usually_in_flight_bytes)}**, "
        f"the maximum {size_in_words(found.in_flight_bytes)}. The receiver advertised at most "
        f"{size_in_words(found.offered_bytes)}, and the congestion window reached "
        f"{size_in_words(found.congestion_bytes)}."
    )
    limit, full = Results(run).bound, False
    if bdp is not None:
        # In flight is counted in payload; the link carries headers, too.
        share = found.usually_in_flight_bytes / (bdp * theory.payload_share())
        full = share >= FULL and limit in (LINK, None) and _fills(run)
        said.append(
            f"This is {100 * share:.0f} % of the payload that fills the link"
            f"{', but it was less at other times' if share >= FULL else ''}."
            if not full
            else "This fills the link."
            if share < QUEUED
            else "This fills the link, and most of it waited in the queue in front of the link."
        )
    again = run.nstat("server").get("TcpRetransSegs", 0)
    if again:
        said.append(f"{again} segments were retransmitted.")
    drops = 0 if run.link.asked.loss_pct else shaper_drops(run)
    if drops:
        said.append(f"The queue in front of the link overflowed and dropped {drops} packets.")
    if limit is not None:
        said.append(f"The goodput is limited by {BOUNDS[limit]}.")
    waits = _waits(found)
    said += waits
    if waits and full and limit == LINK:
        said.append(
            "This costs no goodput: the link is full, and what exceeds the BDP waits in the queue."
        )
    return " ".join(said)


def _fills(run: Run) -> bool:
    """Whether the payload reached the rate of the link in the steady state, if that is known."""
    steady, rate_mbit = Results(run).steady_bytes_s, run.link.measured.rate_mbit
    return (
        steady is None
        or rate_mbit is None
        or steady >= FULL * theory.line_goodput_bytes_s(rate_mbit)
    )


def _bdp_in_words(run: Run, bdp: float) -> str:
    """The BDP, or an upper bound of it if the RTT is too short to be measured."""
    link = run.link.measured
    if link.rate_mbit is None or link.rtt_ms >= RTT_BELOW_MS:
        return f"**{size_in_words(bdp)}**"
    return f"less than **{size_in_words(theory.bdp_bytes(link.rate_mbit, RTT_BELOW_MS))}**"


def _waits(found: Window) -> list[str]:
    """What the sender waited for most of the time, by its kernel's own clocks. It also waits if the
    link is full, so this need not limit the goodput."""
    return [
        f"While it had data to send, the sender waited {share:.0f} % of the time {WAITED[name]} "
        "(`tcp_info`)."
        for name, share in found.limited_pct.items()
        if share >= MOST_PCT
    ]


def tell_httping(table: DataFrame) -> Words:
    """What httping reports, and the time of a handshake on the same link."""
    rows = table[table["httping_ms"].notna()]
    if rows.empty:
        return Words("No run of this study started httping.")
    row = rows.iloc[0]
    said, rtt = float(row["httping_ms"]), float(row["rtt_ms"])
    if rtt <= 0:
        return Words("The link has no measurable RTT.")
    return Words(
        f"`httping` reports **{milliseconds(said)}**. A TCP handshake on the same port takes "
        f"**{milliseconds(rtt)}**. The ratio is {said / rtt:.2f}, because httping times the "
        "handshake *and* a request: two round trips."
    )


def computed_size(table: DataFrame, articles_mb: float | None) -> Words:
    """The buffer that follows from httping's time, the true BDP, and the buffer that sufficed.

    `articles_mb` is the article's buffer, None if the runs do not have the article's parameters.
    """
    timed, found = table[table["httping_ms"].notna()], smallest(table)
    if timed.empty or not found:
        return Words("This needs a run of `httping` and a sweep of buffer sizes.")
    row, rate = timed.iloc[0], float(found[0].rate_mbit)
    believed = theory.bdp_bytes(rate, float(row["httping_ms"]))
    told = (
        f"With httping's {milliseconds(float(row['httping_ms']))} as the RTT, the BDP would be "
        f"{size_in_mb(believed)}. It is {size_in_mb(found[0].bdp_bytes)}."
    )
    if articles_mb is None:
        told += " The article's number is for other parameters, so it is not compared."
    enough = [_enough(one, believed, articles_mb) for one in _one_a_kernel(found)]
    return Words(" ".join([told, *enough]))


def _enough(found: Smallest, believed: float, articles_mb: float | None) -> str:
    if found.buffer_bytes is None or found.of_the_bdp is None:
        return (
            f"On Linux {found.kernel} no buffer of the sweep filled the link, so these runs do not "
            "show which size would."
        )
    said = (
        f"On Linux {found.kernel} the smallest of the {found.points} sizes that reaches "
        f"{FULL_PCT:g} % of the line rate is {size_in_mb(found.buffer_bytes)}, "
        f"{found.of_the_bdp:.2f} times the BDP{_below(found)}."
    )
    if articles_mb is None:
        return said
    articles_bytes = articles_mb * MB
    right_pct = article().claim(NEEDED).tolerance_pct or 0.0
    apart = 100 * (found.buffer_bytes / articles_bytes - 1)
    if abs(apart) <= right_pct:
        return said + (
            f" So the article's number is right (within {right_pct:.0f} %) for the wrong reason. "
            f"Its RTT is {believed / found.bdp_bytes:.2f} times the true one{_kept_back(found)}."
        )
    if found.below_bytes is not None and found.below_bytes < articles_bytes < found.buffer_bytes:
        return said + (
            f" The sweep has no size near {size_in_mb(articles_bytes)}, so it does not show "
            "whether the article's number is sufficient."
        )
    word = "more" if apart < 0 else "less"
    share = 100 * abs(articles_bytes / found.buffer_bytes - 1)
    return said + f" The article's number is {share:.0f} % {word} than that."


def _kept_back(found: Smallest) -> str:
    if found.below_share_pct is None:
        return ""
    return (
        f", but only {found.below_share_pct:.0f} % of a receive buffer is usable as window; "
        "the two errors cancel"
    )


def _below(found: Smallest) -> str:
    if found.below_bytes is None or found.below_pct is None:
        return ""
    return f" ({size_in_mb(found.below_bytes)} reaches {found.below_pct:.1f} %)"


def _one_a_kernel(found: list[Smallest]) -> list[Smallest]:
    first: dict[str, Smallest] = {}
    for one in found:
        first.setdefault(one.kernel, one)
    return list(first.values())


@dataclass(frozen=True)
class _Seen:
    """One kernel's run with an enlarged send buffer."""

    kernel: str
    speed_mib_s: float
    under_way_bytes: float
    share: float
    bound: str

    @property
    def by_packets(self) -> bool:
        return series(self.kernel) >= RATIO_SINCE


def tell_kernels(table: DataFrame, other: DataFrame) -> Words:
    """Why one kernel is faster than the other if only the send buffer was enlarged.

    Both tables are `study.results()`; every figure is from their runs.
    """
    found = [_seen(one) for one in (table, other)]
    told = [
        _why(*sorted(filter(None, found), key=lambda one: one.speed_mib_s))
        if None not in found
        else f"This needs a run of `{SENDER_RAISED}` in steady state on two kernels."
    ]
    told += [in_words(one) for one in _sweeps(table, other)]
    return Words("\n\n".join(told))


def _sweeps(*tables: DataFrame) -> list[Any]:
    found = [one for table in tables if not table.empty for one in smallest(table)]
    first = {one.kernel: one for one in reversed(found)}
    return [one for one in found if first[one.kernel] is one]


def _seen(table: DataFrame) -> _Seen | None:
    if table.empty:
        return None
    rows = table[(table["condition"] == SENDER_RAISED) & table["steady_mib_s"].notna()]
    if rows.empty:
        return None
    row = rows.iloc[0]
    under_way = float(row["steady_bytes_s"]) * float(row["rtt_ms"]) / 1e3
    return _Seen(
        str(row["kernel"]),
        float(row["steady_mib_s"]),
        under_way,
        under_way / float(row["receive_most_bytes"]),
        str(row["bound"]),
    )


def _why(slow: _Seen, fast: _Seen) -> str:
    if slow.kernel == fast.kernel:
        return f"Both tables are of Linux {slow.kernel}."
    speeds = (
        f"If only the send buffer is enlarged (`{SENDER_RAISED}`), Linux {slow.kernel} "
        f"reaches {in_three_digits(slow.speed_mib_s)} MiB/s and Linux {fast.kernel} "
        f"{in_three_digits(fast.speed_mib_s)}."
    )
    if slow.bound == fast.bound != RECEIVE_WINDOW:
        return speeds + f" The limit is {BOUNDS.get(slow.bound, 'unknown')} on both."
    if slow.bound != fast.bound:
        return speeds + (
            f" The limit is {BOUNDS.get(slow.bound, 'unknown')} on the first, and "
            f"{BOUNDS.get(fast.bound, 'unknown')} on the second."
        )
    held = (
        f" The limit is the receive window on both: "
        f"{size_in_words(slow.under_way_bytes)} and {size_in_words(fast.under_way_bytes)} "
        f"are in flight, which is {100 * slow.share:.0f} % and {100 * fast.share:.0f} % of the "
        f"largest receive buffer, {size_in_words(slow.under_way_bytes / slow.share)}."
    )
    if slow.by_packets == fast.by_packets:
        return speeds + held
    old, new = (fast, slow) if fast.by_packets is False else (slow, fast)
    return (
        speeds
        + held
        + (
            f" Linux {old.kernel} reserves a fixed share of a buffer for overhead "
            f"(tcp_adv_win_scale). Linux {new.kernel} measures on the first full packet how much "
            "of the memory is payload, and uses that share as window. Packets that are "
            "coalesced in pairs (GRO), as on this link, have little overhead, so the same buffer "
            "yields a larger window. With another network card the share may differ."
        )
    )
