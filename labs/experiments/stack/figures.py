"""What a notebook shows of the lab `stack`: figures, tables and sentences.

Conditions were repeated; disturbed runs are left out of all figures and tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pandas import DataFrame, Series
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.experiments.stack.claims import instructions as counted_instructions
from labs.experiments.stack.conditions import Parameters, lacking
from labs.experiments.stack.results import (
    COMPARED,
    Results,
    article,
    loops,
    medians,
    merged,
    parameter,
    percentile_us,
    server,
)
from labs.experiments.stack.settings import Settings
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import counted, in_three_digits, is_known
from labs.read.display.printed import beside_article
from labs.read.display.provenance import facts
from labs.read.display.rich_output import Table
from labs.read.display.summary import Summary
from labs.read.figures.axes import DIGITS, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.effects import draw_effects
from labs.read.figures.lines import LOOKS, Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.panels import Panels
from labs.read.figures.plot import Look
from labs.read.figures.style import BLUE, GREEN, GREY, NO_RUNS, ORANGE, PURPLE, SKY, nothing
from labs.read.runs.run import Run
from labs.read.stats.effects import Effect, describe_ratio
from labs.read.stats.machines import places
from labs.read.stats.repetitions import Repeated, on_one_kernel, undisturbed
from labs.read.study import Study
from labs.read.theory.queueing import (
    SECOND_US,
    Server,
    capacity_per_s,
    closed_loop_us,
    evenly_spaced_us,
)

__all__ = ["capacity_per_s", "closed_loop_us", "evenly_spaced_us"]

PERCENTILES = {"p50_us": "median", "p99_us": "99th percentile"}
PERCENTS = {"p50_us": 50.0, "p99_us": 99.0}
LOOK_OF = dict(zip(PERCENTILES.values(), (Look(BLUE), Look(ORANGE, symbol="diamond")), strict=True))
DRAWN_PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
FEWEST_SLOWER = 10
"""A percentile with fewer slower requests is not drawn, because its value depends on chance."""
OPEN_LOOP, CLOSED_LOOP = "open loop", "closed loop"
STEPS = 120
"""Points of each predicted curve."""
ROOM = 1.08
"""The end of the axis of rates, as a multiple of the largest one."""
WORK = {
    "p50_us": ("median latency (µs)", BLUE),
    "cpu_us": ("server CPU time per request (µs)", ORANGE),
    "switches": ("context switches per request", GREEN),
    "interrupts": ("interrupts per request", PURPLE),
    "received_softirqs": ("NET_RX softirqs per request", SKY),
}
KERNELS = {
    "none": "neither option",
    "netfilter": "CONFIG_NETFILTER, no hook in use",
    "table": "CONFIG_NETFILTER, iptables' table filter without rules",
    "retpoline": "CONFIG_RETPOLINE, with CONFIG_CPU_MITIGATIONS",
}
FIGURES = {
    "printed_mean_us": "mean latency, as wrk prints it (µs)",
    "requests_s": "responses per s",
}
LITTLES_LAW = ("connections", "requests_s", "mean_us")
MS_US = 1000


def in_unit(us: float) -> str:
    """A latency in a suitable unit: 20 µs, 5 ms, 1.2 s."""
    if us >= SECOND_US:
        return f"{us / SECOND_US:.3g} s"
    return f"{us / MS_US:.3g} ms" if us >= MS_US else f"{us:.3g} µs"


LATENCY = Axis("latency_us", "latency", log=True, ticks=DIGITS, written=in_unit)


def _with_source(rows: DataFrame, compared: Iterable[Repeated]) -> DataFrame:
    """The rows of conditions, with what a caption says about their runs."""
    about = DataFrame([facts(each.middle) for each in compared])
    return rows if rows.empty else rows.merge(about, on="condition")


def _check_count(what: str, count: int) -> None:
    if count > len(LOOKS):
        raise BadInput(
            f"{count} {what} are too many for this chart, which shows at most {len(LOOKS)}. "
            "Name fewer"
        )


def _percentiles(study: Study, *conditions: str) -> DataFrame:
    """The latency by percentile; BadInput for more conditions than there are colours."""
    _check_count("conditions", len(conditions))
    compared = undisturbed(study.repeated, conditions)
    rows = []
    for each in compared:
        up_to = merged(each.counted)
        count = int(up_to.iloc[-1])
        series = f"{each.condition}, n = {count:,}"
        for percent in DRAWN_PERCENTILES:
            slower = 100 / (100 - percent)
            if max(count, FEWEST_SLOWER + 1) >= FEWEST_SLOWER * slower:
                us = percentile_us(up_to, percent)
                rows.append((each.condition, series, f"{percent:g} %", slower, us))
    columns = ["condition", "series", "percent", "times_slower", "latency_us"]
    return _with_source(DataFrame(rows, columns=columns), compared)


def _describe_medians(rows: DataFrame) -> str:
    medians = rows[rows["percent"] == "50 %"].set_index("condition")["latency_us"]
    phrases = (f"{name}: {in_three_digits(us)} µs" for name, us in medians.items())
    return f"Medians. {'; '.join(phrases)}."


def _table_of_percentiles(rows: DataFrame) -> DataFrame:
    latencies = rows.set_index(["condition", "percent"])["latency_us"].astype(object)
    table = latencies.unstack(sort=False)
    return table.where(table.notna(), None).reset_index()


distribution = Lines(
    "Distribution of the latency",
    rows=_percentiles,
    x=Axis(
        "times_slower",
        "percentile, by slower requests",
        log=True,
        ticks={100 / (100 - percent): f"{percent:g} %" for percent in (50, 90, 99, 99.9, 99.99)},
    ),
    y=LATENCY,
    by="series",
    words=lambda row: f"{row['percent']}: {row['latency_us']:,.0f} µs",
    note="the requests of all undisturbed repetitions together",
    describe=_describe_medians,
    table=_table_of_percentiles,
    height=298,
)
"""The latency by percentile, over the requests of all repetitions together. Both axes are
logarithmic; percentiles are placed by the share of slower requests."""


def load_and_latency(study: Study) -> Figure:
    """The latency of an open loop by rate, and of a closed loop with the same server.

    Dashed and dotted: predicted from the capacity. The closed loop is drawn at the rate that it
    reaches. It cannot exceed the capacity, because each connection waits for its response.
    """
    title, theory = "Load and latency", server(study.repeated)
    measured = _with_source(loops(study.repeated), study.repeated)
    if measured.empty or theory is None:
        return nothing(title, f"{NO_RUNS}; the closed loop is needed for the prediction")
    end = ROOM * max(theory.limit_per_s, measured["rate_s"].max())
    capacity = _describe_server(theory)
    return Lines(
        title,
        rows=_points,
        x=Axis("per_s", "requests per second", unit="", range=(0, end)),
        y=LATENCY,
        by="series",
        looks={
            f"{loop}, {name}": replace(look, symbol=look.symbol + hollow, size=11)
            for name, look in LOOK_OF.items()
            for loop, hollow in ((OPEN_LOOP, ""), (CLOSED_LOOP, "-open"))
        },
        mode="markers",
        predicted=[*_predicted_curves(theory, end)],
        marks=(Mark(theory.capacity_per_s, "capacity"), Mark(theory.limit_per_s, "plain limit")),
        words=lambda row: f"{row['condition']}: {in_unit(row['latency_us'])}",
        note=capacity,
        describe=lambda rows: f"{capacity}. {'; '.join(measured.apply(_describe_loop, axis=1))}.",
        table=lambda rows: _table_of_loops(measured, theory),
        height=348,
    )(measured)


def _points(measured: DataFrame) -> DataFrame:
    """The percentiles of each loop, at the rate that is requested, or reached."""
    is_closed = measured["rate_s"] == 0
    placed = measured.rename(columns=PERCENTILES).assign(
        per_s=measured["rate_s"].mask(is_closed, measured["requests_s"]),
        loop=is_closed.map({True: CLOSED_LOOP, False: OPEN_LOOP}),
    )
    others = [*placed.columns.difference([*PERCENTILES.values()])]
    points = placed.melt(others, var_name="percentile", value_name="latency_us")
    return points.assign(series=points["loop"] + ", " + points["percentile"])


def _predicted_curves(theory: Server, end: float) -> Iterator[Prediction]:
    rates = [end * step / STEPS for step in range(1, STEPS + 1)]
    for column, percent in PERCENTS.items():
        look = Look(LOOK_OF[PERCENTILES[column]].colour, "dash", width=1.5)
        us = [theory.evenly_spaced_us(rate, percent) for rate in rates]
        yield _predicted("even intervals", look, rates, us)
    below = [rate for rate in rates if rate < theory.capacity_per_s]
    means = [theory.random_moments_us(rate) or 0.0 for rate in below]
    yield _predicted("random moments, mean", Look(GREY, "dot"), below, means)
    look = Look(GREEN, symbol="x-thin", size=12)
    yield _predicted("the closed loop", look, [theory.limit_per_s], [theory.closed_loop_us])


def _predicted(what: str, look: Look, rates: Sequence[float], us: Sequence[float]) -> Prediction:
    return Prediction(curve=lambda rows: (rates, us), name=f"predicted for {what}", look=look)


def _describe_server(theory: Server) -> str:
    """The limits of a server, and the time of a request."""
    return (
        f"plain limit: {theory.limit_per_s:,.0f} requests per second (WORK_US = {theory.work_us}); "
        f"capacity: {theory.capacity_per_s:,.0f}, measured in the closed loop; "
        f"{theory.service_us:.0f} µs per request"
    )


def _describe_loop(row: Series[Any]) -> str:
    phrases = (f"{name} {in_unit(row[column])}" for column, name in PERCENTILES.items())
    return f"{row['condition']}: {', '.join(phrases)}"


def _table_of_loops(measured: DataFrame, theory: Server) -> DataFrame:
    rates = measured["rate_s"]
    table = DataFrame(
        {
            "condition": measured["condition"],
            "intended per second": [int(rate) or None for rate in rates],
            "responses per second": measured["requests_s"].round().astype(int),
        }
    )
    closed = {"p50_us": in_unit(theory.closed_loop_us)}
    for column, name in PERCENTILES.items():
        table[name] = measured[column].map(in_unit)
        table[f"{name}, predicted"] = [
            in_unit(theory.evenly_spaced_us(rate, PERCENTS[column]))
            if rate
            else closed.get(column, "")
            for rate in rates
        ]
    return table


def _panel(column: str, words: str, colour: str) -> Bars:
    """The bars of a measure; a server that does not report it has none."""
    return Bars(
        words,
        bars=(Bar(column, words, colour),),
        words=words,
        instead=lambda row: "" if is_known(row[column]) else "unknown",
        in_one_line=True,
    )


PER_REQUEST = Panels(
    "Latency and work per request",
    panels=tuple(_panel(column, *look) for column, look in WORK.items()),
    note="medians of the undisturbed runs; switches, interrupts and softirqs of the whole machine",
    table={"condition": "condition", **{name: words for name, (words, _) in WORK.items()}},
)


def work_per_request(study: Study, *conditions: str) -> Figure:
    """Medians of the undisturbed runs of these conditions; one panel per measure, each with an axis
    of its own. Counters are those of the whole machine, so they include the load generator."""
    compared = undisturbed(study.repeated, conditions)
    return PER_REQUEST(_with_source(medians(compared, WORK), compared))


def effects(study: Study, *others: Study, connections: int = 1) -> Figure:
    """The latency of each condition with this number of connections, divided by that of the
    condition without its setting: median and 99th percentile. With `others`, the medians of all
    studies, for the conditions that one of the others has.

    Hollow marks: the setting was not applied on this machine. Studies without runs are left out.
    """
    title = f"Effects on the latency, {counted(connections, 'connection')}"
    if others and not any(other.runs for other in others):
        return nothing(title, "there is no study on another testbed")
    by_place = _effects_by_place(study, *others, connections=connections)
    _check_count("studies", len(by_place))
    source = DataFrame([facts(run) for each in (study, *others) for run in each.runs])
    what, beside = "ratio of latencies", COMPARED.beside_in_words
    return draw_effects(title, by_place, PERCENTILES, source, what=what, beside=beside)


def _effects_by_place(
    study: Study, *others: Study, connections: int | None = None
) -> dict[str, list[Effect]]:
    """The effects of each study, of the conditions with this number of connections or of all; with
    `others`, those that one of them has."""
    wanted = {e.pair for other in others for e in COMPARED.effects_of(other.repeated)}
    by_place = {}
    for place, each in places((study, *others)).items():
        runs = {condition.condition: condition.middle for condition in each.repeated}
        by_place[place] = [
            effect
            for effect in COMPARED.effects_of(each.repeated)
            if connections in (None, runs[effect.condition].settings_as(Settings).connections)
            and (not others or effect.pair in wanted)
        ]
    return by_place


def ratio(study: Study, over: str, under: str) -> float | None:
    """The ratio of the median latencies of two conditions; None with too few undisturbed runs."""
    both = on_one_kernel(each for each in study.repeated if each.condition in (over, under))
    intervals = {each.condition: each.interval for each in both}
    first, second = intervals.get(over), intervals.get(under)
    return first.middle / second.middle if first and second else None


def effects_table(study: Study, *others: Study) -> Table:
    """One row per effect: the ratio of medians with its 95 % interval, for each study that has it,
    or why there is none. With `others`, the effects that one of them has. Studies without runs are
    left out."""
    by_place, heads = _effects_by_place(study, *others), ["Setting", "Condition", "Compared with"]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for place, shown in by_place.items():
        for effect in shown:
            names = dict(zip(heads, effect.pair, strict=True))
            rows.setdefault(effect.pair, names)[place] = COMPARED.describe_headline(effect)
    return Table([*rows.values()], columns=[*heads, *by_place])


def interactions(study: Study) -> Table:
    """One row per pair of settings: the effect of the first one alone, and together with the second
    one, as ratios of medians. The settings interact if the interval of the ratio of the two
    effects excludes 1."""
    return Table(
        {
            "Settings": pair.name,
            "Alone": COMPARED.describe_headline(pair.alone),
            "Together": COMPARED.describe_headline(pair.together),
            "Together / alone": describe_ratio(pair.ratio),
            "They interact": "yes" if pair.matters else "not shown",
        }
        for pair in COMPARED.interactions_of(study.repeated)
    )


def settings(study: Study) -> Table:
    """One row per setting of a condition: as requested, as read back, and whether it was applied.
    Settings that were not applied come first."""
    heads = {
        "condition": "Condition",
        "factor": "Setting",
        "requested": "Requested",
        "found": "Read back",
        "effective": "Applied",
        "because": "Reason",
    }
    table = Table(COMPARED.settings_of(study.repeated), columns=[*heads])
    table = table.sort_values("effective", kind="stable", ignore_index=True)
    table["effective"] = table["effective"].map({True: "yes", False: "no"})
    return table.rename(columns=heads)


def littles_law(study: Study, *conditions: str) -> Table:
    """One row per closed loop: connections, responses per second, the mean latency that
    Little's law predicts from both, and the measured one."""
    by_name = _counted(study)
    shown = medians((by_name[name] for name in conditions if name in by_name), LITTLES_LAW)
    return Table(
        {
            "Condition": name,
            "Connections": int(count),
            "Throughput (per second)": round(per_s),
            "Connections / throughput (µs)": closed_loop_us(count, SECOND_US / per_s),
            "Measured mean (µs)": mean_us,
        }
        for name, count, per_s, mean_us in shown.itertuples(index=False)
    )


def article_figures(*studies: Study) -> Table:
    """The article's own figures, and those of each study: one row per condition and figure. The
    figures depend on the machine, so they are not judged. Studies without runs are left out, and so
    are the figures of runs whose parameters are not the article's."""
    by_place = {place: _counted(study) for place, study in places(studies).items()}
    return Table(
        {
            "Condition": condition,
            "Figure": FIGURES[column],
            "Article": figure,
            **{
                place: _median_of(by_name.get(condition), column, claim.id)
                for place, by_name in by_place.items()
            },
        }
        for claim in article().claims
        for condition, figures in claim.rows.items()
        for column, figure in figures.items()
    )


def _median_of(repeated: Repeated | None, column: str, claim: str) -> float | None:
    if repeated and has_articles_parameters(article(), repeated.counted[0], claim, parameter):
        return repeated.median(column)
    return None


def _counted(study: Study) -> dict[str, Repeated]:
    """The conditions of a study that have undisturbed runs."""
    return {
        alone.condition: alone
        for repeated in study.repeated
        for alone in on_one_kernel([repeated])
        if alone.counted
    }


def as_printed(study: Study) -> Table:
    """What wrk prints about a run of each condition, next to what the article prints if the run has
    its parameters: one row per line."""
    runs = [repeated.middle for repeated in _counted(study).values()]
    return lines_as_printed(beside_article(article(), runs, parameter))


def instructions() -> Table:
    """One row per kernel of benchmarks/netfilter: the instructions per request, and their ratio to
    those of the kernel with neither option."""
    counts = DataFrame(counted_instructions())[[*KERNELS]]
    rounds = counts.agg(["median", "min", "max"]).T
    return Table(
        {
            "Kernel": [*KERNELS.values()],
            "Instructions per request": rounds["median"].round().astype(int),
            "Lowest round": rounds["min"].round().astype(int),
            "Highest round": rounds["max"].round().astype(int),
            "Ratio": (rounds["median"] / rounds["median"].iloc[0]).round(4),
        }
    )


describe = Summary(
    (
        "median {p50_us:3} µs, 99th percentile {p99_us:3} µs, {round(requests_s)} responses per s"
        "[? of {rate_s} intended]; per request {switches:3} context switches and {interrupts:3} "
        "interrupts[?, {cpu_us:3} µs of server CPU time]",
    ),
    empty="no response",
)


_whole = describe.also("the largest latency of {requests} requests is {max_us:3} µs")


def describe_run(run: Run) -> str:
    """One run: its latencies, including the largest one, and the work per request."""
    return f"`{run.condition}`: {_whole.of_run(Results(run))}"


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """One remark per missing program, with the conditions that need it."""
    missing = lacking(parameters).items()
    return {"remarks": [f"{text}. Left out: {', '.join(names)}" for text, names in missing]}


compared = COMPARED.report
