"""What the notebooks of the lab `buffers` show: figures, tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil, inf, log2
from typing import Any, NamedTuple

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.experiments.buffers.conditions import (
    ARTICLE,
    BOTH_RAISED,
    DEFAULT,
    LOSS,
    SENDER_RAISED,
    SHARE,
)
from labs.experiments.buffers.results import NO_RATE, Results, article, of_client, parameter
from labs.experiments.buffers.tables import as_printed, buffers_table, by_client, guessed_sizes
from labs.guest.units import GIB, MB, MIB
from labs.read.claims.formulas import describe as in_words
from labs.read.claims.ledger import figure_of_claim
from labs.read.display.advice import sizes_by_kernel as advice
from labs.read.display.advice import sysctls_to_paste as to_paste
from labs.read.display.format import is_known, milliseconds, size_in_mb, size_in_words
from labs.read.display.kernels import (
    ByKernel,
    defaults,
    describe_difference,
    grown,
    slow_start_ends,
)
from labs.read.display.rich_output import Words
from labs.read.display.summary import Summary
from labs.read.display.transfer import describe_transfer
from labs.read.figures.axes import DIGITS, SIZES, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.both_ends import timeline as both_ends
from labs.read.figures.declaration import in_group
from labs.read.figures.intervals import Expected, Intervals, Reference
from labs.read.figures.lines import CONTROLS, LOOKS, Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.panels import Panels
from labs.read.figures.plot import Look
from labs.read.figures.several_tables import by_kernel, joined
from labs.read.figures.style import BLACK, BLUE, GREEN, SKY, VERMILION, nothing
from labs.read.readings.buffer_sweep import (
    SWEEP,
    Smallest,
    describe_sweep,
    line_mib_s,
    of_each_kernel,
    points,
    remarks,
)
from labs.read.readings.bulk_transfer import SETSOCKOPT, SYSCTL, predicted
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.bdp import (
    FOLLOWS_MATHIS,
    bdp_bytes,
    line_goodput_bytes_s,
    mathis_bytes_s,
    utilisation_pct,
)
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.kernels import RATIO
from labs.read.theory.windows import receive_window_bytes

__all__ = ["advice", "mathis_bytes_s", "receive_window_bytes", "to_paste", "utilisation_pct"]
__all__ += ["as_printed", "buffers_table", "by_client", "guessed_sizes"]
"""What is not defined here."""

CURVE_ROUND_TRIPS, POINTS_A_DOUBLING = 60, 4
"""Enough to reach the steady state; how fine the curve of the theory is."""
PREDICTED = ("predicted_mean_mib_s", "predicted_mean_low_mib_s", "predicted_mean_high_mib_s")
BELIEVED = "With httping's {} as the RTT, the BDP would be {}. It is {}."
RIGHT = (
    "So the article's number is right (within {:.0f} %) for the wrong reason. Its RTT is {:.2f} "
    "times the true one, but only {:.0f} % of a receive buffer is usable as window; the two errors "
    "cancel."
)
COARSE = (
    "The sweep has no size near {}, so it does not show whether the article's number is sufficient."
)
TIMED = (
    "`httping` reports **{httping_ms:ms}**. A TCP handshake on the same port takes "
    "**{rtt_ms:ms}**. The ratio is {httping_ms / rtt_ms:.2f}, because httping times the handshake "
    "*and* a request: two round trips."
)
SAME = (DEFAULT, SENDER_RAISED, BOTH_RAISED)
NEEDED = "A1.10"
"""The claim with the computed buffer."""


def _articles_own(table: DataFrame) -> DataFrame:
    """The runs of the article's own conditions, which have no figure of their own; all if there
    are none."""
    of_article = in_group(ARTICLE)(table)
    return table if of_article.empty else of_article


def _note_of_unlimited(row: Mapping[Any, Any]) -> str:
    theirs = row["article_mib_s"]
    beside = f" (the article's machines: {theirs:g})" if is_known(theirs) else ""
    return row["notes"] + beside if NO_RATE in row["note_codes"] else ""


by_condition = Bars(
    "Goodput by condition",
    rows=lambda table: _articles_own(in_group(having=["bytes"])(table)),
    of=Results,
    bars=(
        Bar("goodput_mib_s", "whole file", BLUE, published="article_mib_s"),
        Bar("steady_mib_s", "last third", SKY, published="article_steady_mib_s"),
    ),
    words="goodput",
    instead=_note_of_unlimited,
    sets_end=lambda row: is_known(row["rate_mbit"]),
)


def promised(scale: int) -> str:
    """A setting of tcp_adv_win_scale, and the share of a buffer that it makes window.

    Source: include/net/tcp.h tcp_win_from_space(), up to Linux 6.5.
    """
    share = f"1/{2**-scale}" if scale < 0 else f"{2**scale - 1}/{2**scale}"
    return f"{scale}: {f'{share} of it' if scale else 'all of the buffer'}"


def _shares(table: DataFrame) -> DataFrame:
    rows = by_kernel(in_group(SHARE, having=["steady_mib_s"])(table))
    return rows.sort_values("adv_win_scale", kind="stable")


def _title_of_shares(rows: DataFrame) -> str:
    title = "Window share set by tcp_adv_win_scale"
    if rows.empty:
        return title
    return f"{title}, receive buffer {size_in_words(float(rows['buffer_bytes'].max()))}"


adv_win_scale = Bars(
    _title_of_shares,
    rows=_shares,
    of=Results,
    empty="none of these runs sets tcp_adv_win_scale",
    bars=(Bar("steady_mib_s", ""),),
    words="steady goodput",
    row="adv_win_scale",
    row_name=lambda scale: promised(int(scale)),
    by="kernel",
    named=lambda name: f"Linux {name}" + " (ignores it)" * (RATIO.holds(name)),
    marks=(Mark(line_mib_s, "line rate {digits}"),),
)


def curve(rows: DataFrame) -> tuple[list[float], list[float]]:
    """The prediction for every size between the smallest and the largest of a sweep's rows, which
    are of one kernel.

    Sizes in bytes, goodput in MiB/s; empty if the theory does not cover the rows (loss, jitter).
    """
    covered = rows[rows["predicted_mib_s"].notna()]
    if covered.empty:
        return [], []
    first, sizes = covered.iloc[0], covered["buffer_bytes"]
    low, high = float(sizes.min()), float(sizes.max())
    steps = max(1, ceil(POINTS_A_DOUBLING * log2(high / low)))
    drawn = [low * (high / low) ** (step / steps) for step in range(steps + 1)]
    flow = Flow(
        rate_mbit=float(first["rate_mbit"]),
        rtt_ms=float(first["rtt_ms"]),
        kernel=str(first["kernel"]),
        adv_win_scale=int(first["adv_win_scale"]),
        **of_client(),
    )
    return drawn, [_steady_mib_s(flow, size) for size in drawn]


def _steady_mib_s(flow: Flow, size: float) -> float:
    """The steady goodput of a flow with buffers of this size at both ends."""
    both = (4096, round(size), round(size))
    in_flight = min(bdp_bytes(flow.rate_mbit, flow.rtt_ms), size)
    size_bytes = min(GIB, round(CURVE_ROUND_TRIPS * in_flight))
    return predicted(replace(flow, tcp_rmem=both, tcp_wmem=both), size_bytes).steady_bytes_s / MIB


def _mark_of_filling(text: str, place: int, colour: str) -> Mark:
    """The line of the smallest buffer that fills the line on one of the kernels; in its text `{0}`
    stands for the answer of its sweep, `{1}` for its kernel series."""

    def value(rows: DataFrame) -> float | None:
        return next((each.buffer_bytes for each in of_each_kernel(rows)[place:]), None)

    def words(rows: DataFrame) -> str:
        answer = of_each_kernel(rows)[place]
        return text.format(answer, ".".join(answer.kernel.split(".")[:2]), size="{size}")

    return Mark(value, words, colour=colour, dash="dash")


SIZE = Axis("buffer_bytes", "size of both buffers", log=True, ticks=SIZES)
STEADY = Axis("steady_mib_s", "steady goodput", begins_at_0=True)
against_buffer_size = Lines(
    "Goodput against the size of both socket buffers",
    rows=points,
    of=Results,
    empty="none of these runs belongs to a sweep",
    x=SIZE,
    y=STEADY,
    by="series",
    named={SYSCTL: "set by sysctl, automatic sizing off", SETSOCKOPT: "set by setsockopt"},
    looks={SYSCTL: Look(BLUE), SETSOCKOPT: Look(BLACK, symbol="diamond-open", size=13)},
    mode="markers",
    predicted=Prediction(curve=curve, look=Look(VERMILION)),
    published="article_steady_mib_s",
    published_in=in_group(having=["article_steady_mib_s", "buffer_bytes"]),
    marks=(
        Mark("line_mib_s", "line rate {digits} MiB/s", axis="y"),
        Mark("bdp_bytes", "BDP {size}", colour=BLACK, dash="longdash"),
        _mark_of_filling("fills the line<br>from {size}<br>({0.of_the_bdp:.2f} BDP)", 0, GREEN),
    ),
    within_pct=5.0,
    describe=describe_sweep,
    table={
        "condition": "condition",
        "buffer_mib": "buffer, MiB",
        "of_the_bdp": "of the BDP",
        "steady_mib_s": "measured, MiB/s",
        "predicted_mib_s": "predicted, MiB/s",
    },
    height=255,
)


def _same_conditions(*tables: DataFrame) -> DataFrame:
    rows = joined(*tables)
    rows = rows[rows["condition"].isin(SAME) & rows["steady_mib_s"].notna()]
    return rows.sort_values("condition", key=lambda names: names.map(SAME.index), kind="stable")


def _swept_by_sysctl(*tables: DataFrame) -> DataFrame:
    rows = points(joined(*tables))
    return rows[rows["series"] == SYSCTL]


kernels = Panels(
    "The same conditions on several kernels",
    rows=lambda *tables: pandas.concat(
        [_same_conditions(*tables), _swept_by_sysctl(*tables)]
    ).sort_values(["condition", "kernel"]),
    empty=f"no table has {', '.join(SAME)} or a sweep",
    note=lambda rows: (
        "curves: predicted; dashed: smallest buffer that fills the line"
        if rows["group"].eq(SWEEP).any()
        else ""
    ),
    panels=(
        Bars(
            "Steady goodput by condition",
            rows=_same_conditions,
            of=Results,
            bars=(Bar("steady_mib_s", ""),),
            words="steady goodput",
            by="kernel",
            named="Linux {}".format,
        ),
        Lines(
            "Steady goodput by buffer size",
            rows=_swept_by_sysctl,
            of=Results,
            x=SIZE,
            y=STEADY,
            by="kernel",
            named="Linux {}",
            mode="markers",
            predicted=Prediction(curve=curve, each=True, look=Look("", width=1.5)),
            marks=tuple(
                _mark_of_filling("{1}: {size}", place, look.colour)
                for place, look in enumerate(LOOKS)
            ),
            describe=lambda rows: " ".join(remarks(rows)),
            height=320,
        ),
    ),
    table={name: name for name in ("condition", "kernel", "steady_mib_s", "predicted_mib_s")},
)


def _draws(table: DataFrame) -> DataFrame:
    """One row per loss and congestion control: the median of the draws, which differ in the seed
    alone, and their ends; Mathis's formula where it applies and is below the line rate."""
    rows = in_group(LOSS, having=["goodput_mib_s"])(table)
    if rows.empty:
        return rows
    place = rows["congestion_control"].map([*CONTROLS].index).rename("place")
    # Where no run has a value, a column is not of numbers.
    cells = rows.astype({"goodput_mib_s": float, "lost_pct": float}).groupby(["loss_pct", place])
    speeds = cells["goodput_mib_s"].agg(
        draws="size", values=list, middle="median", low="min", high="max"
    )
    dropped = cells["lost_pct"].agg(dropped_pct="mean", dropped_low="min", dropped_high="max")
    draws = cells.first().join([speeds, dropped]).reset_index()
    for end in PREDICTED[1:]:
        draws[end] = draws[end].fillna(draws[PREDICTED[0]])
    follows = draws["congestion_control"].isin(FOLLOWS_MATHIS) & (draws["loss_pct"] > 0)
    per_pct = partial(mathis_bytes_s, rtt_ms=float(rows["rtt_ms"].median()))
    mathis = draws["loss_pct"].where(follows).map(per_pct, na_action="ignore") / MIB
    return draws.assign(mathis=mathis.where(mathis <= line_mib_s(rows)))


def _heading_of_loss(rows: list[dict[Any, Any]]) -> str:
    """A requested loss, and the loss that was counted."""
    low = min(row["dropped_low"] for row in rows)
    high = max(row["dropped_high"] for row in rows)
    text = "<b>{:g} % loss</b> (dropped: {:.2g} to {:.2g} %)"
    asked = rows[0]["loss_pct"]
    return text.format(asked, low, high) if asked else "<b>no loss</b>"


def _title_of_loss(rows: DataFrame) -> str:
    of_draws = f": median and range of {rows['draws'].max()} draws" if "draws" in rows else ""
    return f"Loss and congestion control{of_draws}"


loss = Intervals(
    _title_of_loss,
    rows=_draws,
    empty="none of these runs belongs to the loss series; it is part of SIZE “full”",
    x=Axis("middle", "goodput", "MiB/s", log=True, ticks=DIGITS),
    row="loss_pct",
    row_name=_heading_of_loss,
    by="congestion_control",
    looks={name: Look(look.colour, symbol="diamond", size=11) for name, look in CONTROLS.items()},
    draws="values",
    expected=Expected(*PREDICTED, "predicted (simulation): median and 95 % of the draws"),
    reference=Reference("mathis", "Mathis: ", "predicted (Mathis)"),
    mark_px=18,
    marks=(Mark(line_mib_s, "line rate {digits} MiB/s"),),
    words=lambda row: in_words("{congestion_control} <b>{middle:3}</b>", row.get),
    says=lambda row: in_words(
        "{loss_pct} % loss, {congestion_control}: {middle:3} ({low:3} to {high:3})", row.get
    ),
    table={
        "loss_pct": "loss_pct",
        "congestion_control": "congestion control",
        "draws": "draws",
        "middle": "median, MiB/s",
        "low": "lowest, MiB/s",
        "high": "highest, MiB/s",
        "mathis": "predicted (Mathis), MiB/s",
        "predicted_mean_mib_s": "predicted (simulation), MiB/s",
        "predicted_mean_low_mib_s": "lowest simulated, MiB/s",
        "predicted_mean_high_mib_s": "highest simulated, MiB/s",
        "dropped_pct": "dropped_pct",
    },
)


class Theory(NamedTuple):
    """What the theory expects of a run: what the largest buffers admit by the formulas of
    `labs.read.theory.windows`, the payload that the link carries, and the steady goodput with its
    limit."""

    window_bytes: int
    send_bytes: int
    line_bytes_s: float
    goodput_mib_s: float
    bound: str


def expected(run: Run) -> Theory | None:
    """The theory of a run's download; None where it has no value."""
    results = Results(run)
    if (transfer := results.prediction) is None:
        return None
    receives, sends = results.usable.values()
    line_bytes_s = line_goodput_bytes_s(results.flow.rate_mbit)
    return Theory(receives, sends, line_bytes_s, transfer.steady_bytes_s / MIB, transfer.bound)


def timeline(run: Run) -> Figure:
    """TCP's state at both ends during a download; see `labs.read.figures.both_ends`. A run without
    a download gives a figure that says so."""
    results = Results(run)
    if results.download is None:
        return nothing(f"Condition “{run.condition}”", "this run has no download")
    return both_ends(run, results, describe_run(run))


def describe_run(run: Run) -> str:
    """One download: the link's BDP, the data in flight, what limits the goodput, and what the
    sender waited for. The limit is the predicted one, as in the figure."""
    results = Results(run)
    if results.download is None:
        return f"Nothing is downloaded under the condition {run.condition}."
    if results.window is None:
        return (
            f"The transfer took {1e3 * results.download.duration_s:.2g} ms and ended before the "
            "first sample, so there is no timeline."
        )
    return " ".join(describe_transfer(run, results.window, results.bound, results.steady_bytes_s))


describe = Summary(
    (
        "{goodput_mib_s:3} MiB/s over the whole file[?, {steady_mib_s:3} in the last third]",
        "predicted {predicted_mean_mib_s:3}, in steady state {predicted_mib_s:3}, limited by: "
        "{bound}",
        "the article ({article_claim}) reports {article_mib_s} MiB/s over the whole file",
        "the article ({article_claim}) reports {article_steady_mib_s} MiB/s in steady state",
        "httping reports {httping_ms:ms}",
    ),
    empty="no download",
    rows=_articles_own,
)


def tell_smallest(table: DataFrame) -> Words:
    """The smallest buffer of each sweep that fills the line."""
    return Words("\n\n".join(remarks(table)) or "None of these runs belongs to a sweep.")


def tell_httping(table: DataFrame) -> Words:
    """What httping reports, and the time of a handshake on the same link."""
    rows = table.dropna(subset=["httping_ms"])
    if rows.empty:
        return Words("No run of this study started httping.")
    if rows["rtt_ms"].iloc[0] <= 0:
        return Words("The link has no measurable RTT.")
    return Words(in_words(TIMED, rows.iloc[0].get))


def tell_computed_size(study: Study) -> Words:
    """The buffer that httping's time suggests, and the smallest of the sweep that fills the link;
    compared with the article's only if the runs have the article's parameters."""
    figures = (figure_of_claim(article(), run, NEEDED, parameter) for run in study.runs)
    return describe_computed_size(study.results(), next(filter(None, figures), None))


def describe_computed_size(table: DataFrame, articles_mb: float | None) -> Words:
    """The buffer that follows from httping's time, the true BDP, and the buffer that sufficed."""
    timed, answers = table["httping_ms"].dropna(), of_each_kernel(table)
    if timed.empty or not answers:
        return Words("This needs a run of `httping` and a sweep of buffer sizes.")
    time_ms = float(timed.iloc[0])
    believed = bdp_bytes(answers[0].rate_mbit, time_ms)
    sizes = map(size_in_mb, (believed, answers[0].bdp_bytes))
    sentences = [BELIEVED.format(milliseconds(time_ms), *sizes)]
    if articles_mb is None:
        sentences.append("The article's number is for other parameters, so it is not compared.")
    for answer in answers:
        sentences.append(answer.sentence(size_in_mb))
        if articles_mb is not None and answer.buffer_bytes is not None:
            sentences.append(_beside_articles(answer, articles_mb * MB, believed))
    return Words(" ".join(sentences))


def _beside_articles(answer: Smallest, articles_bytes: float, believed_bytes: float) -> str:
    """The article's buffer beside the smallest one that fills the link, and what both of its errors
    make of the BDP that it believed."""
    enough, allowed = answer.buffer_bytes or 0, article().claim(NEEDED).allowed
    if abs(enough / articles_bytes - 1) <= allowed:
        longer = believed_bytes / answer.bdp_bytes
        return RIGHT.format(100 * allowed, longer, answer.below_share_pct)
    if (answer.below_bytes or inf) < articles_bytes < enough:
        return COARSE.format(size_in_mb(articles_bytes))
    than, times = ("more", "less")[articles_bytes < enough], articles_bytes / enough
    return f"The article's number is {100 * abs(times - 1):.0f} % {than} than that."


def tell_kernels(*tables: DataFrame) -> Words:
    """Why one of two kernels is faster if only the send buffer was enlarged, from the tables of
    their results, and the smallest buffer of each sweep."""
    table = joined(*tables)
    rows = table[table["condition"] == SENDER_RAISED].dropna(subset=["steady_mib_s"])
    why = f"This needs a run of `{SENDER_RAISED}` in steady state on two kernels."
    if len(rows) == 2:
        why = describe_difference(*rows.to_dict("records"))
    answers = of_each_kernel(table)
    return Words("\n\n".join([why, *(each.sentence() + each.computed() for each in answers)]))


defaults_by_kernel = ByKernel(defaults, DEFAULT)
grown_by_kernel = ByKernel(grown, DEFAULT)
slow_start_by_kernel = ByKernel(slow_start_ends, BOTH_RAISED)
