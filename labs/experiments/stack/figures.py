"""What a notebook shows of the lab `stack`: figures, tables and sentences.

Conditions were repeated; disturbed runs are left out of all figures and tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas
from pandas import DataFrame

from labs.drive.result_columns import values_of
from labs.errors import BadInput
from labs.experiments.stack.claims import instructions as counted_instructions
from labs.experiments.stack.conditions import Parameters, lacking
from labs.experiments.stack.results import (
    COMPARED,
    Latencies,
    Results,
    article,
    loops,
    medians,
    merged,
    parameter,
    server,
)
from labs.experiments.stack.settings import Settings
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import Printed, last_match
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import in_digits, in_three_digits, is_known
from labs.read.display.provenance import of_table
from labs.read.display.rich_output import Table
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
from labs.read.theory.queueing import (
    SECOND_US,
    Server,
    capacity_per_s,
    closed_loop_us,
    evenly_spaced_us,
)

if TYPE_CHECKING:
    from pandas import Series
    from plotly.graph_objects import Figure

    from labs.read.study import Study

__all__ = ["capacity_per_s", "closed_loop_us", "evenly_spaced_us"]

MEDIAN, TAIL = "p50_us", "p99_us"
PERCENTILES = {column: words for column, words in COMPARED.columns.items() if words}
PERCENTS = {MEDIAN: 50.0, TAIL: 99.0}
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
WRK_LINES = ("Latency ", "Req/Sec ", "requests in ", "Requests/sec:", "Transfer/sec:")
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


def _source(study: Study, compared: Iterable[Repeated], _: DataFrame) -> str:
    """Testbed, kernels, link and source of the runs that are compared."""
    table = study.results()
    kernels = {each.condition: each.runs[0].kernel.release for each in compared}
    rows = table[table["condition"].isin(list(kernels))]
    return of_table(rows.assign(kernel=rows["condition"].map(kernels)))


def distribution(study: Study, *conditions: str) -> Figure:
    """The latency by percentile, over the requests of all repetitions together.

    Both axes are logarithmic; percentiles are placed by the share of slower requests. BadInput for
    more conditions than there are colours.
    """
    _check_count("conditions", len(conditions))
    compared = undisturbed(study.repeated, conditions)
    latencies = {each.condition: merged(each.counted) for each in compared}
    phrases = (
        f"{name}: {in_three_digits(total.percentile_us(50))} µs"
        for name, total in latencies.items()
    )
    ticks = {100 / (100 - percent): f"{percent:g} %" for percent in (50, 90, 99, 99.9, 99.99)}
    return Lines(
        "Distribution of the latency",
        rows=_percentiles,
        x=Axis("times_slower", "percentile, by slower requests", log=True, ticks=ticks),
        y=LATENCY,
        by="condition",
        named={name: f"{name}, n = {total.requests:,}" for name, total in latencies.items()},
        words=lambda row: f"{row['percent']:g} %: {row['latency_us']:,.0f} µs",
        caption=partial(_source, study, compared),
        note="the requests of all undisturbed repetitions together",
        describe=lambda rows: f"Medians. {'; '.join(phrases)}.",
        table=_table_of_percentiles,
        height=298,
    )(latencies)


def _check_count(what: str, count: int) -> None:
    if count > len(LOOKS):
        raise BadInput(
            f"{count} {what} are too many for this chart, which shows at most {len(LOOKS)}. "
            "Name fewer"
        )


def _percentiles(latencies: Mapping[str, Latencies]) -> DataFrame:
    rows = [
        (name, percent, 100 / (100 - percent), total.percentile_us(percent))
        for name, total in latencies.items()
        for percent in DRAWN_PERCENTILES
        if (100 - percent) * max(total.requests, FEWEST_SLOWER + 1) >= 100 * FEWEST_SLOWER
    ]
    return DataFrame(rows, columns=["condition", "percent", "times_slower", "latency_us"])


def _table_of_percentiles(rows: DataFrame) -> DataFrame:
    named = rows.assign(percent=rows["percent"].map("{:g} %".format))
    latencies = named.set_index(["condition", "percent"])["latency_us"].astype(object)
    table = latencies.unstack(sort=False)
    return table.where(table.notna(), None).reset_index()


def load_and_latency(study: Study) -> Figure:
    """The latency of an open loop by rate, and of a closed loop with the same server.

    Dashed and dotted: predicted from the capacity. The closed loop is drawn at the rate that it
    reaches. It cannot exceed the capacity, because each connection waits for its response.
    """
    title, measured, theory = "Load and latency", loops(study.repeated), server(study.repeated)
    if measured.empty or theory is None:
        return nothing(title, f"{NO_RUNS}; the closed loop is needed for the prediction")
    end = ROOM * max(theory.limit_per_s, measured["rate_s"].max())
    capacity, table = describe_server(theory), study.results()
    return Lines(
        title,
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
        caption=lambda rows: of_table(table[table["condition"].isin(measured["condition"])]),
        note=capacity,
        describe=lambda rows: f"{capacity}. {'; '.join(measured.apply(_describe_loop, axis=1))}.",
        table=lambda rows: _table_of_loops(measured, theory),
        height=348,
    )(pandas.concat(_points_of(measured, column) for column in PERCENTILES))


def _points_of(measured: DataFrame, column: str) -> DataFrame:
    is_closed = measured["rate_s"] == 0
    return DataFrame(
        {
            "condition": measured["condition"],
            "per_s": measured["rate_s"].mask(is_closed, measured["requests_s"]),
            "latency_us": measured[column],
            "series": is_closed.map({True: CLOSED_LOOP, False: OPEN_LOOP})
            + f", {PERCENTILES[column]}",
        }
    )


def _predicted_curves(theory: Server, end: float) -> Iterator[Prediction]:
    rates = [end * step / STEPS for step in range(1, STEPS + 1)]
    for column, percent in PERCENTS.items():
        look = Look(LOOK_OF[PERCENTILES[column]].colour, "dash", width=1.5)
        curve = {rate: theory.evenly_spaced_us(rate, percent) for rate in rates}
        yield _predicted("even intervals", curve, look)
    means = {rate: us for rate in rates if (us := theory.random_moments_us(rate)) is not None}
    yield _predicted("random moments, mean", means, Look(GREY, "dot"))
    closed = {theory.limit_per_s: theory.closed_loop_us}
    yield _predicted("the closed loop", closed, Look(GREEN, symbol="x-thin", size=12))


def _predicted(what: str, points: Mapping[float, float], look: Look) -> Prediction:
    drawn = [*points], [*points.values()]
    return Prediction(curve=lambda rows: drawn, name=f"predicted for {what}", look=look)


def describe_server(theory: Server) -> str:
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
    table = DataFrame({"condition": measured["condition"]})
    table["intended per second"] = [int(rate) or None for rate in rates]
    table["responses per second"] = measured["requests_s"].round().astype(int)
    for column, name in PERCENTILES.items():
        closed = in_unit(theory.closed_loop_us) if column == MEDIAN else ""
        table[name] = measured[column].map(in_unit)
        table[f"{name}, predicted"] = [
            in_unit(theory.evenly_spaced_us(rate, PERCENTS[column])) if rate else closed
            for rate in rates
        ]
    return table


def work_per_request(study: Study, *conditions: str) -> Figure:
    """Medians of the undisturbed runs of these conditions; one panel per measure, each with an axis
    of its own. Counters are those of the whole machine, so they include the load generator."""
    compared = undisturbed(study.repeated, conditions)
    return Panels(
        "Latency and work per request",
        panels=tuple(_panel(column, *look) for column, look in WORK.items()),
        caption=partial(_source, study, compared),
        note="medians of the undisturbed runs; switches, interrupts and softirqs of the whole "
        "machine",
        table={"condition": "condition", **{name: words for name, (words, _) in WORK.items()}},
    )(medians(compared, WORK))


def _panel(column: str, words: str, colour: str) -> Bars:
    """The bars of a measure; a server that does not report it has none."""
    return Bars(
        words,
        bars=(Bar(column, words, colour),),
        words=words,
        instead=lambda row: "" if is_known(row[column]) else "unknown",
        in_one_line=True,
    )


def effects(study: Study, *others: Study, connections: int = 1) -> Figure:
    """The latency of each condition with this number of connections, divided by that of the
    condition without its setting: median and 99th percentile. With `others`, the medians of all
    studies, for the conditions that one of the others has.

    Hollow marks: the setting was not applied on this machine. Studies without runs are left out.
    """
    kind = "1 connection" if connections == 1 else f"{connections} connections"
    title = f"Effects on the latency, {kind}"
    if others and not any(other.runs for other in others):
        return nothing(title, "there is no study on another testbed")
    by_place = _effects_by_place(study, *others, connections=connections)
    _check_count("studies", len(by_place))
    tables = [each.results() for each in (study, *others) if each.runs]
    source = pandas.concat(tables) if tables else DataFrame()
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
    rows = [
        (
            pair.name,
            COMPARED.describe_headline(pair.alone),
            COMPARED.describe_headline(pair.together),
            describe_ratio(pair.ratio),
            "yes" if pair.matters else "not shown",
        )
        for pair in COMPARED.interactions_of(study.repeated)
    ]
    columns = ["Settings", "Alone", "Together", "Together / alone", "They interact"]
    return Table(rows, columns=columns) if rows else Table()


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
    table = Table([*COMPARED.settings_of(study.repeated)], columns=[*heads])
    table = table.sort_values("effective", kind="stable", ignore_index=True)
    table["effective"] = table["effective"].map({True: "yes", False: "no"})
    return table.rename(columns=heads)


def littles_law(study: Study, *conditions: str) -> Table:
    """One row per closed loop: connections, responses per second, the mean latency that
    Little's law predicts from both, and the measured one."""
    by_name, rows = _counted(study), []
    shown = (by_name[name] for name in conditions if name in by_name)
    for name, count, per_s, mean_us in medians(shown, LITTLES_LAW).itertuples(index=False):
        rows.append(
            (name, int(count), round(per_s), closed_loop_us(count, SECOND_US / per_s), mean_us)
        )
    predicted = ["Connections / throughput (µs)", "Measured mean (µs)"]
    columns = ["Condition", "Connections", "Throughput (per second)", *predicted]
    return Table(rows, columns=columns) if rows else Table()


def article_figures(*studies: Study) -> Table:
    """The article's own figures, and those of each study: one row per condition and figure. The
    figures depend on the machine, so they are not judged. Studies without runs are left out, and so
    are the figures of runs whose parameters are not the article's."""
    by_place = {place: _counted(study) for place, study in places(studies).items()}

    def median_of(repeated: Repeated | None, column: str, claim: str) -> float | None:
        if repeated is None or not _as_in_the_article(repeated.counted[0], claim):
            return None
        return repeated.median(column)

    rows = []
    for claim in article().claims:
        for condition, figures in claim.rows.items():
            for column, figure in figures.items():
                ours = (median_of(e.get(condition), column, claim.id) for e in by_place.values())
                rows.append((condition, FIGURES[column], figure, *ours))
    return Table(rows, columns=["Condition", "Figure", "Article", *by_place])


def _as_in_the_article(run: Run, claim: str) -> bool:
    return has_articles_parameters(article(), run, claim, parameter)


def _counted(study: Study) -> dict[str, Repeated]:
    """The conditions of a study that have undisturbed runs."""
    alone = (repeated for each in study.repeated for repeated in on_one_kernel([each]))
    return {repeated.condition: repeated for repeated in alone if repeated.counted}


def as_printed(study: Study) -> Table:
    """What wrk prints about a run of each condition, next to what the article prints if the run has
    its parameters: one row per line."""
    by_name, lines = _counted(study), list[Printed]()
    for claim in article().claims:
        for condition, printed in claim.arguments.get("printed", {}).items():
            if condition not in by_name:
                continue
            run = by_name[condition].middle
            comparable = _as_in_the_article(run, claim.id)
            for theirs in printed:
                label = next(word for word in WRK_LINES if word in theirs)
                ours = last_match(run, "client/wrk.txt", rf"^.*{label}.*$")
                lines.append(Printed(f"wrk, {condition}", theirs if comparable else "", ours))
    return lines_as_printed(lines)


def instructions() -> Table:
    """One row per kernel of benchmarks/netfilter: the instructions per request, and their ratio to
    those of the kernel with neither option."""
    rounds = counted_instructions()
    counts = {words: rounds[name] for name, words in KERNELS.items() if name in rounds}
    base = median(rounds["none"])
    rows = [
        (kernel, *map(round, (median(each), min(each), max(each))), round(median(each) / base, 4))
        for kernel, each in counts.items()
    ]
    shown = ["Instructions per request", "Lowest round", "Highest round", "Ratio"]
    return Table(rows, columns=["Kernel", *shown])


def describe(table: DataFrame) -> str:
    """One line per condition: latency, throughput, and the work per request."""
    rows = table.to_dict("records")
    return "\n".join(f"- **{row['condition']}**: {_describe_figures(row)}" for row in rows)


def describe_run(run: Run) -> str:
    """One run: its latencies, including the largest one, and the work per request."""
    results = Results(run)
    values = values_of(results)
    values["notes"] = "; ".join(note.text for note in results.notes())
    largest = f"The largest latency of {results.requests:,} requests is {_us(results.max_us)}."
    return f"`{run.condition}`: {_describe_figures(values)} {largest}"


def _describe_figures(row: Mapping[Any, Any]) -> str:
    intended = f" of {in_digits(row['rate_s'])} intended" if row["rate_s"] else ""
    text = (
        f"median {_us(row['p50_us'])}, 99th percentile {_us(row['p99_us'])}, "
        f"{in_digits(round(row['requests_s']))} responses per s{intended}; per request "
        f"{in_three_digits(row['switches'])} context switches and "
        f"{in_three_digits(row['interrupts'])} interrupts"
    )
    if is_known(row["cpu_us"]):
        text += f", {_us(row['cpu_us'])} of server CPU time"
    return f"{text}. Note: {row['notes']}." if row.get("notes") else f"{text}."


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{in_three_digits(value)} µs"


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """One remark per missing program, with the conditions that need it."""
    missing = lacking(parameters).items()
    return {"remarks": [f"{text}. Left out: {', '.join(names)}" for text, names in missing]}


compared = COMPARED.report
