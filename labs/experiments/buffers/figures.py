"""What the notebooks of the lab `buffers` show: figures, tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil, inf, log2, nan
from typing import Any, NamedTuple

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.drive.units import GIB, KIB, MB, MIB
from labs.experiments.buffers.conditions import (
    ARTICLE,
    BOTH_RAISED,
    DEFAULT,
    LOSS,
    SENDER_RAISED,
    SHARE,
)
from labs.experiments.buffers.results import (
    DEEPEST,
    NO_RATE,
    Results,
    article,
    of_client,
    parameter,
)
from labs.experiments.buffers.settings import DISCARD, WGET, Settings
from labs.read.claims.ledger import figure_of_claim, figures_by_column, has_articles_parameters
from labs.read.display.advice import sizes_by_kernel as advice
from labs.read.display.advice import sysctls_to_paste as to_paste
from labs.read.display.beside import Guess, Printed, guesses, last_match
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import (
    in_three_digits,
    is_known,
    milliseconds,
    size_in_mb,
    size_in_words,
)
from labs.read.display.kernels import (
    ByKernel,
    defaults,
    describe_difference,
    grown,
    slow_start_ends,
)
from labs.read.display.printed import ALL_PCT, describe_socket, ss_sample, wget_lines
from labs.read.display.rich_output import Table, Words
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
    smallest,
)
from labs.read.readings.bulk_transfer import RECEIVER, SENDER, SETSOCKOPT, SYSCTL, predicted
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, utilisation_pct
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.mathis import FOLLOWS_MATHIS, mathis_bytes_s
from labs.read.theory.windows import RATIO_SINCE, receive_window_bytes, series

__all__ = ["advice", "mathis_bytes_s", "receive_window_bytes", "to_paste", "utilisation_pct"]
"""What is not defined here."""

CURVE_ROUND_TRIPS, POINTS_A_DOUBLING = 60, 4
"""Enough to reach the steady state; how fine the curve of the theory is."""
DRAWS: Mapping[str, Any] = {
    "draws": ("goodput_mib_s", "size"),
    "values": ("goodput_mib_s", list),
    "median": ("goodput_mib_s", "median"),
    "low": ("goodput_mib_s", "min"),
    "high": ("goodput_mib_s", "max"),
    "simulated": ("predicted_mean_mib_s", "median"),
    "simulated_low": ("predicted_mean_low_mib_s", "median"),
    "simulated_high": ("predicted_mean_high_mib_s", "median"),
    "dropped_pct": ("lost_pct", "mean"),
    "dropped_low": ("lost_pct", "min"),
    "dropped_high": ("lost_pct", "max"),
}
"""What the figure of the losses has of draws, which differ in the seed alone."""
SAME = (DEFAULT, SENDER_RAISED, BOTH_RAISED)
NEEDED, HTTPING = "A1.10", "A1.4"
"""The claims with the computed buffer and httping's times."""


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


def _kernel_with_rule(kernel: str) -> str:
    return f"Linux {kernel}" + (" (ignores it)" if series(kernel) >= RATIO_SINCE else "")


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
    largest = "" if rows.empty else size_in_words(float(rows["buffer_bytes"].max()))
    return "Window share set by tcp_adv_win_scale" + f", receive buffer {largest}" * bool(largest)


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
    named=_kernel_with_rule,
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
        **of_client(DISCARD, GIB, Settings.read_bytes),
    )
    return drawn, [_steady_mib_s(flow, size) for size in drawn]


def _steady_mib_s(flow: Flow, size: float) -> float:
    """The steady goodput of a flow with buffers of this size at both ends."""
    both = (4096, round(size), round(size))
    in_flight = min(bdp_bytes(flow.rate_mbit, flow.rtt_ms), size)
    size_bytes = min(GIB, round(CURVE_ROUND_TRIPS * in_flight))
    return predicted(replace(flow, tcp_rmem=both, tcp_wmem=both), size_bytes).steady_bytes_s / MIB


def _mark_of_filling(text: str, place: int, colour: str) -> Mark:
    """The line of the smallest buffer that fills the line on one of the kernels; in its text
    `{kernel}` and `{of_the_bdp}` stand for its figures."""

    def value(rows: DataFrame) -> float | None:
        return next((each.buffer_bytes for each in of_each_kernel(rows)[place:]), None)

    def words(rows: DataFrame) -> str:
        answer = of_each_kernel(rows)[place]
        kernel, of_the_bdp = ".".join(answer.kernel.split(".")[:2]), f"{answer.of_the_bdp:.2f}"
        return text.format(kernel=kernel, of_the_bdp=of_the_bdp, size="{size}")

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
        _mark_of_filling("fills the line<br>from {size}<br>({of_the_bdp} BDP)", 0, GREEN),
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
                _mark_of_filling("{kernel}: {size}", place, look.colour)
                for place, look in enumerate(LOOKS)
            ),
            describe=lambda rows: " ".join(remarks(rows)),
            height=320,
        ),
    ),
    table={name: name for name in ("condition", "kernel", "steady_mib_s", "predicted_mib_s")},
)


def _draws(table: DataFrame) -> DataFrame:
    """One row per loss and congestion control: the median of the draws, their ends, the medians of
    the simulation's, and Mathis's formula where it applies."""
    rows = in_group(LOSS, having=["goodput_mib_s"])(table)
    if rows.empty:
        return rows
    in_order = [*CONTROLS].index
    rows = rows.sort_values(
        "congestion_control", key=lambda names: names.map(in_order), kind="stable"
    ).sort_values("loss_pct", kind="stable")
    # Where no run has a value, a column is not of numbers.
    rows = rows.astype({column: float for column, kind in DRAWS.values()})
    cells = rows.assign(mathis=_mathis_mib_s(rows)).groupby(["loss_pct", "congestion_control"])
    draws = cells.head(1).set_index(cells.keys).join(cells.agg(**DRAWS)).reset_index()
    for end in ("simulated_low", "simulated_high"):
        draws[end] = draws[end].fillna(draws["simulated"])
    return draws


def _mathis_mib_s(rows: DataFrame) -> list[float]:
    """The formula of Mathis, where it applies and is below the line rate."""
    line, rtt_ms = line_mib_s(rows), float(rows["rtt_ms"].median())
    speeds = [
        mathis_bytes_s(pct, rtt_ms) / MIB if pct > 0 and control in FOLLOWS_MATHIS else nan
        for pct, control in zip(rows["loss_pct"], rows["congestion_control"], strict=True)
    ]
    return [speed if speed <= line else nan for speed in speeds]


def _heading_of_loss(rows: list[dict[Any, Any]]) -> str:
    """A requested loss, and the loss that was counted."""
    asked = rows[0]["loss_pct"]
    low = min(row["dropped_low"] for row in rows)
    high = max(row["dropped_high"] for row in rows)
    counted = f" (dropped: {low:.2g} to {high:.2g} %)"
    return f"<b>{asked:g} % loss</b>{counted}" if asked else "<b>no loss</b>"


def _title_of_loss(rows: DataFrame) -> str:
    title = "Loss and congestion control"
    if "draws" not in rows:
        return title
    return f"{title}: median and range of {rows['draws'].max()} draws"


loss = Intervals(
    _title_of_loss,
    rows=_draws,
    empty="none of these runs belongs to the loss series; it is part of SIZE “full”",
    x=Axis("median", "goodput", "MiB/s", log=True, ticks=DIGITS),
    row="loss_pct",
    row_name=_heading_of_loss,
    by="congestion_control",
    looks={name: Look(look.colour, symbol="diamond", size=11) for name, look in CONTROLS.items()},
    draws="values",
    expected=Expected(
        *("simulated", "simulated_low", "simulated_high"),
        "predicted (simulation): median and 95 % of the draws",
    ),
    reference=Reference("mathis", "Mathis: ", "predicted (Mathis)"),
    mark_px=18,
    marks=(Mark(line_mib_s, "line rate {digits} MiB/s"),),
    words=lambda row: f"{row['congestion_control']} <b>{in_three_digits(row['median'])}</b>",
    says=lambda row: (
        f"{row['loss_pct']:g} % loss, {row['congestion_control']}: "
        f"{in_three_digits(row['median'])} ({in_three_digits(row['low'])} to "
        f"{in_three_digits(row['high'])})"
    ),
    table={
        "loss_pct": "loss_pct",
        "congestion_control": "congestion control",
        "draws": "draws",
        "median": "median, MiB/s",
        "low": "lowest, MiB/s",
        "high": "highest, MiB/s",
        "mathis": "predicted (Mathis), MiB/s",
        "simulated": "predicted (simulation), MiB/s",
        "simulated_low": "lowest simulated, MiB/s",
        "simulated_high": "highest simulated, MiB/s",
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
    line_bytes_s = line_goodput_bytes_s(results.flow.rate_mbit)
    sizes = results.usable[RECEIVER], results.usable[SENDER]
    return Theory(*sizes, line_bytes_s, transfer.steady_bytes_s / MIB, transfer.bound)


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
    rows = table[table["httping_ms"].notna()]
    if rows.empty:
        return Words("No run of this study started httping.")
    reported, rtt_ms = (float(rows.iloc[0][name]) for name in ("httping_ms", "rtt_ms"))
    if rtt_ms <= 0:
        return Words("The link has no measurable RTT.")
    return Words(
        f"`httping` reports **{milliseconds(reported)}**. A TCP handshake on the same port takes "
        f"**{milliseconds(rtt_ms)}**. The ratio is {reported / rtt_ms:.2f}, because httping times "
        "the handshake *and* a request: two round trips."
    )


def tell_computed_size(study: Study) -> Words:
    """The buffer that httping's time suggests, and the smallest of the sweep that fills the link;
    compared with the article's only if the runs have the article's parameters."""
    figures = (figure_of_claim(article(), run, NEEDED, parameter) for run in study.runs)
    published = next((mb for mb in figures if mb is not None), None)
    return describe_computed_size(study.results(), published)


def describe_computed_size(table: DataFrame, articles_mb: float | None) -> Words:
    """The buffer that follows from httping's time, the true BDP, and the buffer that sufficed."""
    timed, answers = table["httping_ms"].dropna(), of_each_kernel(table)
    if timed.empty or not answers:
        return Words("This needs a run of `httping` and a sweep of buffer sizes.")
    believed = bdp_bytes(answers[0].rate_mbit, float(timed.iloc[0]))
    sentences = [
        f"With httping's {milliseconds(float(timed.iloc[0]))} as the RTT, the BDP would be "
        f"{size_in_mb(believed)}. It is {size_in_mb(answers[0].bdp_bytes)}."
    ]
    if articles_mb is None:
        sentences.append("The article's number is for other parameters, so it is not compared.")
    for answer in answers:
        sentences.append(answer.sentence(size_in_mb))
        if articles_mb is not None and answer.buffer_bytes is not None:
            longer = believed / answer.bdp_bytes
            sentences.append(_beside_articles(answer, articles_mb * MB, longer))
    return Words(" ".join(sentences))


def _beside_articles(answer: Smallest, articles_bytes: float, longer: float) -> str:
    """The article's buffer beside the smallest one that fills the link; its RTT is so many times
    longer than the true one."""
    enough, within_pct = answer.buffer_bytes or 0, article().claim(NEEDED).tolerance_pct or 0.0
    more_pct, share = 100 * (articles_bytes / enough - 1), answer.below_share_pct
    if 100 * abs(enough / articles_bytes - 1) <= within_pct:
        usable = f"{share:.0f} % of a receive buffer is usable as window; the two errors cancel"
        return (
            f"So the article's number is right (within {within_pct:.0f} %) for the wrong reason. "
            f"Its RTT is {longer:.2f} times the true one, but only {usable}."
        )
    if (answer.below_bytes or inf) < articles_bytes < enough:
        return (
            f"The sweep has no size near {size_in_mb(articles_bytes)}, so it does not show "
            "whether the article's number is sufficient."
        )
    return (
        f"The article's number is {abs(more_pct):.0f} % {'more' if more_pct > 0 else 'less'} than "
        "that."
    )


def tell_kernels(*tables: DataFrame) -> Words:
    """Why one of two kernels is faster if only the send buffer was enlarged, from the tables of
    their results, and the smallest buffer of each sweep."""
    table = joined(*tables)
    rows = table[(table["condition"] == SENDER_RAISED) & table["steady_mib_s"].notna()]
    why = f"This needs a run of `{SENDER_RAISED}` in steady state on two kernels."
    if len(rows) == 2:
        why = describe_difference(*rows.to_dict("records"))
    answers = of_each_kernel(table)
    return Words("\n\n".join([why, *(each.sentence() + each.computed() for each in answers)]))


EXACT, ROUNDED = ("requested", "core maximum", "granted"), ("used", "advertised", "usable window")
SPEEDS = ("allows MiB/s", "measured MiB/s")
COLUMNS = ("condition", "whose", "set by", *EXACT, *ROUNDED, *SPEEDS)


def buffer_rows(runs: Iterable[Run]) -> Table:
    """One row per buffer of the runs; sizes in bytes, empty where a run does not say.

    `requested` is what the program or the sysctl asked for (empty: the kernel sizes the buffer),
    `granted` what getsockopt says at the end of the transfer, `used` the most memory that was in
    it, `advertised` the largest window on the wire. `usable window` is the theory's: what the
    buffer lets be sent and not yet acknowledged; `allows MiB/s` is that over the round trip.
    """
    rows = [row for run in runs for row in Results(run).buffers()]
    return Table(rows, columns=[*COLUMNS], dtype=object)


def buffers_table(study: Study) -> Table:
    """The same for a study, in KiB; what was requested and granted to the byte, else rounded."""
    rows = buffer_rows(study.runs)
    formats = {
        **dict.fromkeys(EXACT, lambda size: f"{size / KIB:,.3f}".rstrip("0").rstrip(".")),
        **dict.fromkeys(ROUNDED, lambda size: f"{size / KIB:,.0f}"),
        **dict.fromkeys(SPEEDS, in_three_digits),
    }
    for name, in_words in formats.items():
        rows[name] = rows[name].map(in_words, na_action="ignore").fillna("")
    rows.attrs["units"] = dict.fromkeys((*EXACT, *ROUNDED), "KiB")
    return rows


def guessed_sizes(
    table: DataFrame, rate_mbit: float, delay_ms: float, *, bdp_mib: Guess, buffer_mib: Guess
) -> Table:
    """Two rows: the BDP, and the smallest buffer at both ends that fills the link.

    `table` is `study.results()`; the link is as requested, for the prediction.
    """
    needed = advise(rate_mbit, delay_ms, str(table["kernel"].iloc[0]))
    measured = float(table["bdp_bytes"][table["condition"] == DEFAULT].astype(float).max())
    enough = next((answer.buffer_bytes or nan for answer in smallest(table)), nan)
    most = max(needed.receive_bytes, needed.send_bytes)
    return guesses(
        {
            "BDP": (bdp_mib, bdp_bytes(rate_mbit, delay_ms) / MIB, measured / MIB),
            "smallest buffer": (buffer_mib, most / MIB, enough / MIB),
        },
        "MiB",
    )


defaults_by_kernel = ByKernel(defaults, DEFAULT)
grown_by_kernel = ByKernel(grown, DEFAULT)
slow_start_by_kernel = ByKernel(slow_start_ends, BOTH_RAISED)


def as_printed(*studies: Study) -> Table:
    """One row per output that the article shows: wget's bar and its last line, httping's summary,
    and three samples of `ss -io` in the download with the largest receive buffer."""
    runs = (run for study in studies for run in study.runs)
    return lines_as_printed(line for run in runs for line in _printed(run))


def _printed(run: Run) -> Iterator[Printed]:
    if run.httping() is not None:
        yield _of_httping(run)
    if run.settings_as(Settings).client == WGET and run.wget() is not None:
        yield _of_wget(run)
        if run.condition in article().claim(DEEPEST).conditions:
            yield from _of_ss(run)


def _published(run: Run, claim: str) -> Mapping[str, Any]:
    """The article's figures of a claim; none if the run has other parameters."""
    comparable = has_articles_parameters(article(), run, claim, parameter)
    return article().claim(claim).figures if comparable else {}


def _of_httping(run: Run) -> Printed:
    theirs = "round-trip min/avg/max = {min:.1f}/{mean:.1f}/{max:.1f} ms"
    figures = _published(run, HTTPING)
    ours = last_match(run, "client/httping.txt", r"^round-trip .*$")
    return Printed("httping", theirs.format(**figures) if figures else "", ours)


def _of_wget(run: Run) -> Printed:
    """The line of wget's progress at the percentage that the article shows, and its last line."""
    id_, figures = figures_by_column(article(), run, parameter) or ("", {})
    at_pct = article().claim(id_).arguments.get("shown_pct", ALL_PCT) if id_ else ALL_PCT
    theirs = [f"{at_pct}% {figures['steady_mib_s']:g}MB/s"] if "steady_mib_s" in figures else []
    if at_pct == ALL_PCT and "goodput_mib_s" in figures:
        theirs.append(f"({figures['goodput_mib_s']:g} MB/s)")
    return Printed(f"wget, {run.condition}", " ... ".join(theirs), wget_lines(run, at_pct))


def _of_ss(run: Run) -> Iterator[Printed]:
    """The samples of ss closest, in bytes received, to the article's."""
    figures = _published(run, DEEPEST)
    for number, received in enumerate(article().claim(DEEPEST).arguments["received_bytes"], 1):
        sizes = [figures.get(f"{name} {number}", 0) for name in ("rcv_space", "rcv_ssthresh")]
        theirs = describe_socket([received, *sizes]) if figures else ""
        yield Printed(f"ss -io, sample {number}", theirs, ss_sample(run, received))


BUILT_IN = " with the built-in client"
BY_CLIENT = {
    "Condition": "condition",
    "Article, near the end": "article_steady_mib_s",
    "wget, near the end": "steady_mib_s",
    "Built-in client, near the end": f"steady_mib_s{BUILT_IN}",
    "Article, whole file": "article_mib_s",
    "wget's own figure, whole file": "wget_mib_s",
    "Built-in client, whole file": f"goodput_mib_s{BUILT_IN}",
}


def by_client(of_wget: Study, built_in: Study) -> Table:
    """One row per download that both clients made: the article's figures, wget's here, and those of
    the client that discards, near the end and over the whole file."""
    pairs = of_wget.results().merge(built_in.results(), on="condition", suffixes=("", BUILT_IN))
    ratio = pairs[f"goodput_mib_s{BUILT_IN}"] / pairs["goodput_mib_s"]
    table = Table(
        {"Condition": pairs["condition"], **{head: pairs[name] for head, name in BY_CLIENT.items()}}
    )
    table["Built-in client over wget (%)"] = 100 * (ratio - 1)
    table.attrs["units"] = dict.fromkeys([*BY_CLIENT][1:], "MiB/s")
    return table
