"""What a lab shows, as text by name, and the file below tests/golden that has it.

    python -m pytest tests/contract/test_golden.py --refresh-golden

writes the files; `git diff` then says what changed. Numbers have five digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from pandas import DataFrame

import labs
from labs.catalog import find
from labs.errors import BadInput, LabError
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of, split_reference
from labs.read.claims.ledger import Claim, read
from labs.read.claims.sources import recorded_sources
from labs.read.claims.verdict import NO_WORD
from labs.read.exercises.exercise import Evidence as Known
from labs.read.exercises.exercise import of_lab
from labs.read.readings.responses import requests_of
from tests import stack_studies
from tests.changed_evidence import Changed
from tests.real_runs import FOLDER as SINGLE
from tests.real_runs import real, real_study, recorded_nagle, study_of
from tests.same import OF_A_RUN, OF_A_STUDY, OF_A_TABLE

FOLDER = Path(__file__).parent / "golden"
AS_THEY_ARE = 12
"""The values of a longer list are shown by the first and the last three."""
PLACES = 3
"""Conditions of a claim that are left out, and pairs that change places."""
RUNS = 6
"""Runs of a study whose figures are shown."""
TESTBEDS = ("virtual", "vagrant", "recorded")
Golden = dict[str, Any]


def file_of(lab: str) -> Path:
    return FOLDER / f"{lab}.json"


def written(shown: Golden) -> str:
    """One line per name."""
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in shown.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def changed(kept: Golden, now: Golden) -> set[str]:
    """The names whose values are not the same."""
    return {name for name in kept.keys() | now.keys() if not same(kept.get(name), now.get(name))}


def same(a: Any, b: Any) -> bool:
    """Equal but for the last of the digits, which another numpy may round otherwise."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=2e-4)
    return bool(a == b)


def plain(value: Any) -> Any:
    """A value of numpy, pandas or a dataclass as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return shortened([plain(each) for each in value])
    if isinstance(value, float):
        return None if value != value else float(f"{value:.5g}")
    return value if value is None or isinstance(value, str | int) else str(value)


def shortened(values: list[Any]) -> list[Any]:
    if len(values) <= AS_THEY_ARE or not all(isinstance(value, int | float) for value in values):
        return values
    return [*values[:3], f"... {len(values)} values ...", *values[-3:]]


def studies(lab: str) -> tuple[Any, ...]:
    """The small studies that a lab is shown on, the default kernel's first."""
    if lab == "buffers":
        return real_study("6.1"), real_study("6.12")
    if lab == "nagle":
        return (recorded_nagle(),)
    if lab == "stack":
        return (stack_studies.undisturbed(),)
    if lab == "windows":
        return study_of(lab, "6.1"), study_of(lab, "6.12")
    if lab == "sweeps":
        return study_of(lab, "6.1"), study_of(lab, "7.2")
    return (labs.study(labs.check(lab, {"TESTBED": "recorded"})),)


@cache
def rows_of(lab: str) -> DataFrame:
    """The results of the first of them."""
    return studies(lab)[0].results()  # type: ignore[no-any-return]


def conditions(lab: str) -> Iterator[tuple[str, Any]]:
    """Each condition by testbed and size, and the commands of its link and of the lab."""
    found = find(lab)
    base: Golden = {}
    seen: dict[str, str] = {}
    for size in ("small", "full"):
        for testbed in TESTBEDS:
            try:
                every = found.conditions(found.Parameters(size=size, testbed=testbed))
            except BadInput as error:
                yield f"conditions {testbed} {size}", str(error)
                continue
            yield f"conditions {testbed} {size}", " ".join(each.name for each in every)
            if (size, testbed) != ("full", "recorded"):
                continue
            for condition in every:
                value = plain({**condition.as_json(), "group": condition.group})
                yield f"condition {condition.name}", differing(value, base)
                base = base or value
                lines = [f"{host}: {' '.join(argv)}" for host, argv in found.lines(condition)]
                first = seen.setdefault(str(lines), condition.name)
                same = first != condition.name
                yield f"lines {condition.name}", f"those of {first}" if same else lines


def differing(value: Any, base: Any) -> Any:
    """What a condition has that the first one has not."""
    if not isinstance(value, Mapping) or not isinstance(base, Mapping) or not base:
        return value
    return {
        name: differing(each, base.get(name))
        for name, each in value.items()
        if each != base.get(name)
    }


def results(lab: str) -> Iterator[tuple[str, Any]]:
    """Each row of results, without what is empty; computed here, not those that were recorded."""
    for study in studies(lab):
        for row in study.results().to_dict("records"):
            left_out = {"key", "digest", "link", "link_asked", "source", "testbed"}
            values = {
                name: value
                for name, value in plain(row).items()
                if value not in (None, "") and name not in left_out
            }
            yield f"result {row['condition']} {row['kernel']}", values


def single_runs(lab: str) -> Iterator[tuple[str, Any]]:
    """The results of the runs that are kept one by one, with the codes of their notes."""
    for path in sorted(SINGLE.glob("*.tar.xz")):
        run = real(path.name.removesuffix(".tar.xz"))
        if run.lab == lab:
            values, notes = find(lab).results(run).values, find(lab).results(run).notes
            shown = {name: value for name, value in plain(values).items() if value is not None}
            yield f"run {path.name}", {**shown, "notes": [note.code for note in notes]}


def figures(lab: str) -> Iterator[tuple[str, Any]]:
    """The table, the marks and the title of every figure of the small studies."""
    charts, every = getattr(labs.charts, lab), studies(lab)
    for study in every[:1]:
        calls: dict[str, tuple[Any, ...]] = {
            **{name: (study.results(),) for name in OF_A_TABLE.get(lab, ())},
            **dict.fromkeys(OF_A_STUDY.get(lab, ()), (study,)),
            **{
                f"{name} {run.condition}": (run,)
                for name in OF_A_RUN.get(lab, ())
                for run in study.runs[:RUNS]
            },
        }
        if lab == "stack":
            for name in ("distribution", "work_per_request"):
                calls[name] = (study, "polling-c1", "blocking-c1", "nginx-c1")
        for name, arguments in calls.items():
            try:
                figure = getattr(charts, name.split()[0])(*arguments)
            except LabError as error:
                yield f"figure {name}", str(error)
                continue
            yield f"figure {name}", drawn(figure)
    for name, (draw, given) in several(lab, every).items():
        yield f"figure {name}", drawn(getattr(charts, draw)(*given))


def several(lab: str, every: tuple[Any, ...]) -> Mapping[str, tuple[str, tuple[Any, ...]]]:
    """Figures of several studies, or of conditions that are named."""
    if lab == "buffers":
        tables = tuple(study.results() for study in every)
        return {"kernels of two": ("kernels", tables)}
    if lab == "windows":
        opening = ("article-1m", "automatic")
        return {
            "over_kernels": ("over_kernels", ("article-scale0", *every)),
            "over_scales": ("over_scales", (every[0], "article-scale0", "article-scale1")),
            "opening": ("opening", (every[0], *opening)),
            "opening_by_kernel": ("opening_by_kernel", ("article-1m", *every)),
        }
    return {}


def drawn(figure: Any) -> Any:
    """Title, text, axes, marks and series of a figure."""
    layout = figure.layout
    axes = [*figure.select_xaxes(), *figure.select_yaxes()]
    notes = [str(note.text) for note in layout.annotations if note.name != "caption"]
    return {
        "title": str(layout.title.text),
        "tell": str((layout.meta or {}).get("tell")),
        "axes": sorted({f"{axis.title.text} {axis.type or ''}" for axis in axes}),
        "notes": sorted(notes)[:AS_THEY_ARE],
        "series": {
            f"{trace.name} {place}": [plain(trace.x), plain(trace.y)]
            for place, trace in enumerate(figure.data)
        },
    }


def tables(lab: str) -> Iterator[tuple[str, Any]]:
    """What the lab's functions of a study, of its results or of a run answer."""
    charts, every = getattr(labs.charts, lab), studies(lab)
    study = every[0]
    rows = study.results()
    for name, call in calls_of(lab, charts, every, rows).items():
        answer = call()
        if isinstance(answer, DataFrame):
            answer = [list(map(str, answer)), *answer.astype(object).to_numpy().tolist()]
        yield f"table {name}", answer if isinstance(answer, str) else plain(answer)


FEW = ("off", "on", "quickack", "on-quickack")
"""Conditions of `nagle` that tables are made of."""
OF_ROWS: Mapping[str, tuple[str, ...]] = {
    "buffers": ("tell_httping", "tell_smallest", "describe", "remarks"),
    "nagle": ("remarks",),
    "sweeps": ("remarks",),
    "windows": ("remarks",),
}
"""The functions of a table of results."""
OF_SEVERAL: Mapping[str, tuple[str, ...]] = {
    "buffers": ("defaults_by_kernel", "slow_start_by_kernel", "grown_by_kernel"),
    "sweeps": ("sizes",),
    "windows": ("by_kernel",),
    "stack": ("article_figures", "as_printed", "effects_table", "interactions", "settings"),
}
"""The functions of all small studies of a lab."""
OF_CONDITIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "nagle": {
        "means": FEW,
        "by_ab": ("off", "on"),
        "held_segments": ("acks-dropped", "acks-dropped-no-tlp", "write-one"),
        "exchanged": ("bulk", "small-writes-on"),
    },
    "queues": {"compare_queues": ("fq-codel", "fifo"), "segments_per_ack": ("acks-slow",)},
    "sharing": dict.fromkeys(("assumptions", "powers"), ("rtts-reno", "late-reno")),
    "stack": {"littles_law": ("polling-c1", "polling-many")},
    "buffers": {"buffers_table": (), "tell_computed_size": ()},
}
"""The functions of the first small study and of some of its conditions."""


def calls_of(lab: str, charts: Any, every: Any, rows: DataFrame) -> Mapping[str, Any]:
    """The calls of a lab's functions, by name."""
    given: dict[str, tuple[Any, ...]] = dict.fromkeys(OF_ROWS.get(lab, ()), (rows,))
    given |= dict.fromkeys(OF_SEVERAL.get(lab, ()), every)
    named = OF_CONDITIONS.get(lab, {})
    given |= {name: (every[0], *conditions) for name, conditions in named.items()}
    given |= OTHERS.get(lab, lambda run: {})(every[0].run)
    if lab == "buffers":
        given["tell_kernels"] = tuple(study.results() for study in every)
    if hasattr(charts, "describe_run"):
        runs = map(every[0].run, FEW) if lab == "nagle" else every[0].runs
        given |= {f"describe_run {run.condition}": (run,) for run in runs}
    if lab == "sweeps":
        given["granted"] = ("setsockopt", *every)
    return {name: partial(getattr(charts, name.split()[0]), *of) for name, of in given.items()}


OTHERS: Mapping[str, Callable[[Any], Mapping[str, tuple[Any, ...]]]] = {
    "buffers": lambda run: {"advice": (1000, 200, "6.1", "6.12"), "to_paste": (1000, 200, "6.1")},
    "nagle": lambda run: {
        "waits": (requests_of(run("off")),),
        "sequences": ({name: requests_of(run(name)) for name in FEW},),
    },
    "stack": lambda run: {"instructions": ()},
    "windows": lambda run: {
        "as_printed": (run("article-scale0-4x"),),
        "budget_at": (run("article-scale0"), 1, -1),
        "drops": (run("article-scale0"),),
        "rounds": (run("automatic"),),
    },
}
"""The functions of runs and of numbers."""


def exercises(lab: str) -> Iterator[tuple[str, Any]]:
    """What each exercise expects on two kernels, and its mistakes with their hints."""
    for exercise in of_lab(find(lab))[0]:
        for kernel in ("6.1", "6.12"):
            expected = exercise.expected(Known(kernel))
            mistakes = {str(plain(each.value)): each.hint for each in expected.mistakes}
            value = [expected.low, expected.high, expected.choice, mistakes]
            yield f"exercise {exercise.name} {kernel}", plain(value)


def verdicts(lab: str) -> Iterator[tuple[str, Any]]:
    """The verdict on each claim, of the first recorded runs that judge it, then without each of its
    conditions, with two of them in each other's place, and with half and twice the figures."""
    found = find(lab)
    if found.ledger is None:
        return
    article = read(found.ledger)
    every = [seen for source in recorded_sources(found) for seen in source.evidence(found)]

    def word(claim: Claim, seen: Evidence) -> Any:
        verdict = judge(claim, seen, judges_of(found), article.parameters)
        figure = "" if verdict.verdict in NO_WORD else verdict.measured
        return plain([verdict.verdict, figure] if figure != "" else verdict.reason)

    for claim in article.claims:
        judging = (seen for seen in every if isinstance(word(claim, seen), list))
        seen = next(judging, None)
        if seen is None:
            continue
        yield f"verdict {claim.id}", word(claim, seen)
        names = [name for each in claim.conditions for name in seen.matching(each)]
        for name in names[:PLACES]:
            yield f"verdict {claim.id} without {name}", word(claim, without(seen, name))
        for first, second in islice(combinations(names, 2), PLACES):
            swapped = Changed(seen, {first: second, second: first})
            yield f"verdict {claim.id} {first} <> {second}", word(claim, swapped)
        columns = {
            *claim.columns.values(),
            *(split_reference(claim, r)[1] for r in claim.references),
        }
        for factor in (0.5, 2.0):
            other = dict.fromkeys(columns, factor.__mul__)
            changed = Changed(seen, {}, dict.fromkeys(names[:1], other))
            yield f"verdict {claim.id} {factor:g} x {''.join(names[:1])}", word(claim, changed)


def without(seen: Evidence, name: str) -> Evidence:
    """The evidence without the runs of a condition."""
    left = Changed(seen, {})
    left.runs = {other: run for other, run in left.runs.items() if other != name}
    left.rows = {other: row for other, row in left.rows.items() if other != name}
    return left


def shown(lab: str) -> Golden:
    """All of it."""
    golden: Golden = {}
    for part in (conditions, results, single_runs, figures, tables, exercises, verdicts):
        golden |= dict(part(lab))
    return json.loads(json.dumps(golden))  # type: ignore[no-any-return]
