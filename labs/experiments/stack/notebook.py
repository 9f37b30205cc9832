"""The functions that a notebook calls as `labs.stack.NAME`: tables of effects, of settings as read
back, of connections and latency, of instructions per request, and of the article's own figures and
outputs."""

from __future__ import annotations

from statistics import median

from labs.experiments.stack.charts.chosen import places
from labs.experiments.stack.claims import instructions as counted_instructions
from labs.experiments.stack.claims import parameter
from labs.experiments.stack.effects import (
    Effect,
    median_in_words,
    ratio_in_words,
    settings_read_back,
)
from labs.experiments.stack.effects import effects as compared
from labs.experiments.stack.effects import interactions as compared_together
from labs.experiments.stack.results import article
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.as_printed import Printed, last_match
from labs.read.display.as_printed import as_printed as lines_as_printed
from labs.read.display.rich_output import Table
from labs.read.stats.repetitions import Repeated, on_one_kernel
from labs.read.study import Study
from labs.read.theory.queueing import SECOND_US, capacity_per_s, closed_loop_us, evenly_spaced_us

__all__ = [
    "article_figures",
    "as_printed",
    "capacity_per_s",
    "closed_loop_us",
    "effects",
    "evenly_spaced_us",
    "instructions",
    "interactions",
    "littles_law",
    "ratio",
    "settings",
]

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


def ratio(study: Study, over: str, under: str) -> float | None:
    """The ratio of the median latencies of two conditions; None with too few undisturbed runs."""
    both = on_one_kernel(one for one in study.repeated if one.condition in (over, under))
    known = {one.condition: one.interval for one in both}
    first, second = known.get(over), known.get(under)
    return first.middle / second.middle if first and second else None


def effects(study: Study, *others: Study) -> Table:
    """One row per effect: the ratio of medians with its 95 % interval, for each study that has it,
    or why there is none. With `others`, the effects that one of them has. Studies without runs are
    left out."""
    shown = {place: compared(one.repeated) for place, one in places([study, *others]).items()}
    wanted = {_pair(one) for other in others for one in compared(other.repeated)}
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for place, found in shown.items():
        for one in found:
            if _pair(one) in wanted or not others:
                rows.setdefault(_pair(one), {})[place] = median_in_words(one)
    return Table(
        [
            {"Setting": factor, "Condition": condition, "Compared with": against, **cells}
            for (factor, condition, against), cells in rows.items()
        ],
        columns=["Setting", "Condition", "Compared with", *shown],
    )


def _pair(one: Effect) -> tuple[str, str, str]:
    return one.factor, one.condition, one.against


def interactions(study: Study) -> Table:
    """One row per pair of settings: the effect of the first one alone, and together with the second
    one, as ratios of medians. The settings interact if the interval of the ratio of the two
    effects excludes 1."""
    return Table(
        [
            {
                "Settings": one.name,
                "Alone": median_in_words(one.alone),
                "Together": median_in_words(one.together),
                "Together / alone": ratio_in_words(one.ratio),
                "They interact": "yes" if one.matters else "not shown",
            }
            for one in compared_together(study.repeated)
        ]
    )


def settings(study: Study) -> Table:
    """One row per setting of a condition: as requested, as read back, and whether it was applied.
    Settings that were not applied come first."""
    rows = [
        {
            "Condition": one["condition"],
            "Setting": one["factor"],
            "Requested": one["requested"],
            "Read back": one["found"],
            "Applied": "yes" if one["effective"] else "no",
            "Reason": one["because"],
        }
        for one in settings_read_back(study.repeated)
    ]
    rows.sort(key=lambda one: bool(one["Applied"] == "yes"))
    return Table(
        rows, columns=["Condition", "Setting", "Requested", "Read back", "Applied", "Reason"]
    )


def littles_law(study: Study, *conditions: str) -> Table:
    """One row per closed loop: connections, responses per second, the mean latency that
    Little's law predicts from both, and the measured one."""
    by_name, rows = _counted(study), []
    for name in conditions:
        if name not in by_name:
            continue
        connections, per_second, mean_us = (
            median(by_name[name].column(column))
            for column in ("connections", "requests_s", "mean_us")
        )
        predicted_us = closed_loop_us(int(connections), SECOND_US / per_second)
        rows.append(
            {
                "Condition": name,
                "Connections": int(connections),
                "Throughput (per second)": round(per_second),
                "Connections / throughput (µs)": predicted_us,
                "Measured mean (µs)": mean_us,
            }
        )
    return Table(rows)


def article_figures(*studies: Study) -> Table:
    """The article's own figures, and those of each study: one row per condition and figure. The
    figures depend on the machine, so they are not judged. Studies without runs are left out, and so
    are the figures of runs whose parameters are not the article's."""
    by_place = {place: _counted(one) for place, one in places(studies).items()}
    return Table(
        [
            {
                "Condition": condition,
                "Figure": FIGURES[column],
                "Article": figure,
                **{
                    place: _median(by_name.get(condition), column, claim.id)
                    for place, by_name in by_place.items()
                },
            }
            for claim in article().claims
            for condition, figures in claim.rows.items()
            for column, figure in figures.items()
        ]
    )


def as_printed(study: Study) -> Table:
    """What wrk prints about a run of each condition, next to what the article prints if the run has
    its parameters: one row per line."""
    by_name, lines = _counted(study), list[Printed]()
    for claim in article().claims:
        for condition, printed in claim.arguments.get("printed", {}).items():
            if condition not in by_name:
                continue
            run = by_name[condition].middle
            comparable = has_articles_parameters(article(), run, claim.id, parameter)
            for theirs in printed:
                label = next(word for word in WRK_LINES if word in theirs)
                ours = last_match(run, "client/wrk.txt", rf"^.*{label}.*$")
                lines.append(Printed(f"wrk, {condition}", theirs if comparable else "", ours))
    return lines_as_printed(lines)


def instructions() -> Table:
    """One row per kernel of benchmarks/netfilter: the instructions per request, and their ratio to
    those of the kernel with neither option."""
    found = counted_instructions()
    return Table(
        [
            {
                "Kernel": words,
                "Instructions per request": round(median(found[name])),
                "Lowest round": round(min(found[name])),
                "Highest round": round(max(found[name])),
                "Ratio": round(median(found[name]) / median(found["none"]), 4),
            }
            for name, words in KERNELS.items()
            if name in found
        ]
    )


def _counted(study: Study) -> dict[str, Repeated]:
    """The conditions of a study that have undisturbed runs."""
    return {
        one.condition: one
        for every in study.repeated
        for one in on_one_kernel([every])
        if one.counted
    }


def _median(one: Repeated | None, column: str, id_: str) -> float | None:
    """The median of a column, if the runs can be compared with the figures of the claim."""
    if one is None or not has_articles_parameters(article(), one.counted[0], id_, parameter):
        return None
    return median(one.column(column))
