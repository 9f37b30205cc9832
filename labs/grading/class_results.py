"""What a class guessed and measured: guesses beside prediction and measurement, and the spread of
the runs over the students' machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.catalog import LABS, find
from labs.drive.record.seal import RUN, SEAL, canonical
from labs.errors import LabError
from labs.grading.grade_page import table
from labs.grading.gradebook import Gradebook, Guesses
from labs.grading.run_evidence import RunEvidence
from labs.grading.submissions import whose
from labs.read.display.format import heading, printable
from labs.read.display.provenance import asked_of
from labs.read.exercises.exercise import Guess, of_lab
from labs.read.figures.offline_page import drawn_figures, offline_page
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    dressed,
    log_ticks,
    log_title,
)
from labs.read.lab import Lab
from labs.read.runs.compare import changes
from labs.read.runs.run import Run, open_run
from labs.read.stats.repetitions import of_median

KERNEL = "6.1"
"""The kernel with which the notebooks begin."""
VIRTUAL = "virtual"


@dataclass(frozen=True)
class Guessed:
    """The guesses of a class for one figure; None for what is not known of it."""

    notebook: str
    name: str
    unit: str
    guesses: tuple[float, ...]
    low: float
    middle: float
    high: float
    predicted: float | None
    measured: float | None


@dataclass(frozen=True)
class ClassRuns:
    """The runs of a class with the same condition, testbed and kernel. `link` is the requested one,
    with the values in which runs of the same name differ. `digests` counts different contents: 1 in
    virtual time. `figure` is a column of results, in `unit`. `low` and `high` are the 95 % interval
    of the median over the runs of machines, or their range if there are fewer than five."""

    lab: str
    condition: str
    link: str
    testbed: str
    kernel: str
    students: int
    runs: int
    digests: int
    figure: str
    unit: str
    middle: float | None
    low: float | None
    high: float | None


def guessed(book: Gradebook) -> list[Guessed]:
    """One row per guess, in the order of the notebooks."""
    declared = {
        (guess.notebook, guess.name): (lab, guess)
        for lab in map(find, LABS)
        for guess in of_lab(lab)[1]
    }
    return [_guessed(guess, declared.get((guess.notebook, guess.name))) for guess in book.guesses]


def _guessed(guesses: Guesses, about: tuple[Lab, Guess] | None) -> Guessed:
    unit, predicted, measured = _known(*about) if about else ("", None, None)
    return Guessed(
        guesses.notebook,
        guesses.name,
        unit,
        guesses.numbers,
        *guesses.quartiles,
        predicted,
        measured,
    )


def _known(lab: Lab, guess: Guess) -> tuple[str, float | None, float | None]:
    """The unit of a guess, the prediction and the measurement."""
    runs = RunEvidence(lab, guess.kernel or KERNEL)
    if guess.unit:
        return (guess.unit, *guess.known(runs))
    condition, _, name = guess.column.rpartition(".")
    column, run = lab.columns[name], runs.run(condition)
    values = lab.results(run).values if run else {}
    predicted = values.get(column.predicted_by) if column.predicted_by else None
    return column.unit, predicted, values.get(name)


def class_runs(root: Path) -> tuple[list[ClassRuns], list[str]]:
    """The runs in a folder of submissions, and a line for each that cannot be read."""
    groups: dict[tuple[str, ...], list[tuple[str, Run]]] = {}
    problems = []
    for folder in _run_folders(root):
        try:
            run = open_run(folder)
        except LabError as error:
            problems.append(f"{printable(str(folder))}: not read. {error}")
            continue
        if run.lab in LABS:
            inside = Path(root.resolve().name) if folder == root else folder.relative_to(root)
            groups.setdefault(_place(run), []).append((whose(inside)[0], run))
    return [
        _of_group(_link(groups, place), groups[place], problems) for place in sorted(groups)
    ], problems


def _place(run: Run) -> tuple[str, ...]:
    """What the runs of a group have in common; the last part is the whole condition."""
    condition = canonical(run.condition_asked.as_json()).decode()
    return run.lab, run.condition, asked_of(run), run.testbed, str(run.kernel.release), condition


def _link(places: Iterable[tuple[str, ...]], place: tuple[str, ...]) -> str:
    """The requested link of a group, with the values in which it differs from other groups with the
    same name and link."""
    alike = [json.loads(other[-1]) for other in sorted(places) if other[:3] == place[:3]]
    differing = {
        change.name.rpartition(".")[2]: printable(str(change.b))
        for other in alike
        for change in changes(other, json.loads(place[-1]))
    }
    return ", ".join([place[2], *(f"{name} {value}" for name, value in differing.items())])


def _run_folders(root: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        if not {RUN, SEAL}.isdisjoint(names):
            below.clear()
            yield Path(folder)
        below.sort()


def _of_group(link: str, by_student: Sequence[tuple[str, Run]], problems: list[str]) -> ClassRuns:
    first = by_student[0][1]
    lab = find(first.lab)
    figures = []
    for _, run in by_student:
        try:
            figure = lab.headline(run)
        except LabError as error:
            problems.append(f"{printable(str(run.path))}: no results. {error}")
            continue
        figures += [] if figure is None else [figure]
    values = [value for _, value in figures]
    within = of_median(values) if first.testbed != VIRTUAL else None
    name = figures[0][0] if figures else ""
    return ClassRuns(
        lab=first.lab,
        condition=first.condition,
        link=link,
        testbed=first.testbed,
        kernel=str(first.kernel.release),
        students=len({student for student, _ in by_student}),
        runs=len(by_student),
        digests=len({run.digest for _, run in by_student}),
        figure=name,
        unit=lab.columns[name].unit if name else "",
        middle=median(values) if values else None,
        low=within.low if within else min(values, default=None),
        high=within.high if within else max(values, default=None),
    )


def as_json(guesses: Sequence[Guessed], runs: Sequence[ClassRuns]) -> dict[str, Any]:
    return {"guesses": [*map(asdict, guesses)], "runs": [*map(asdict, runs)]}


GUESS_HEADS = (
    *("Guess", "Guesses", "Lower quartile", "Median", "Upper quartile", "Predicted", "Measured"),
)
RUN_HEADS = (
    *("Run", "Link", "Testbed", "Kernel", "Students", "Runs", "Distinct"),
    *("Figure", "Median", "Low", "High"),
)


def guess_rows(guesses: Sequence[Guessed]) -> list[tuple[object, ...]]:
    return [
        (
            f"{guess.notebook} {guess.name}",
            len(guess.guesses),
            *(_number(value) for value in (guess.low, guess.middle, guess.high)),
            _number(guess.predicted),
            _number(guess.measured),
        )
        for guess in guesses
    ]


def run_rows(runs: Sequence[ClassRuns]) -> list[tuple[object, ...]]:
    return [
        (
            f"{run.lab} {run.condition}",
            *(run.link, run.testbed, run.kernel),
            *(run.students, run.runs, run.digests),
            heading(run.figure, run.unit),
            *(_number(value) for value in (run.middle, run.low, run.high)),
        )
        for run in runs
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def class_page(guesses: Sequence[Guessed], runs: Sequence[ClassRuns]) -> str:
    """Guesses and runs on one page."""
    notebooks = sorted({guess.notebook for guess in guesses})
    figures = [
        _spread([guess for guess in guesses if guess.notebook == name]) for name in notebooks
    ]
    body = ["<h1>Guesses and runs of a class</h1>"]
    for name, drawn in zip(notebooks, drawn_figures(figures), strict=True):
        body += [f"<h2>Guesses, {name}</h2>", drawn]
    body.append(table(GUESS_HEADS, guess_rows(guesses)) if guesses else "<p>No guesses.</p>")
    body += ["<h2>Runs</h2>", table(RUN_HEADS, run_rows(runs)) if runs else "<p>No runs.</p>"]
    return offline_page("Guesses and runs of a class", body, narrows=True)


def _spread(guesses: Sequence[Guessed]) -> Figure:
    """One row per guess: every guess, the middle half, the prediction and the measurement."""
    figure = Figure()
    names = [heading(guess.name.removeprefix("guess_"), guess.unit) for guess in guesses]
    labels = [name.replace(" (", "<br>(") for name in names]
    for place, (guess, label) in enumerate(zip(guesses, labels, strict=True)):
        shown = {"showlegend": not place, "y": [label]}
        above_0 = [value for value in guess.guesses if value > 0]
        figure.add_trace(
            Scatter(
                x=above_0,
                y=[label] * len(above_0),
                name="guesses",
                mode="markers",
                showlegend=not place,
                marker={"color": GREY, "symbol": "line-ns-open", "size": 14},
            )
        )
        figure.add_trace(
            Scatter(
                x=[guess.low, guess.high],
                y=[label] * 2,
                name="middle half",
                mode="lines",
                showlegend=not place,
                line={"color": BLUE, "width": 9},
                opacity=0.4,
            )
        )
        for name, value, symbol, colour in (
            ("median", guess.middle, "circle", BLUE),
            ("predicted", guess.predicted, "diamond-open", BLACK),
            ("measured", guess.measured, "star", ORANGE),
        ):
            marker = {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2}}
            figure.add_trace(Scatter(x=[value], name=name, mode="markers", marker=marker, **shown))
    figure.update_layout(legend=LEGEND_ABOVE)
    every = [x for trace in figure.data for x in trace.x if x is not None and x > 0]
    ticks = log_ticks(min(every) / 2, max(every) * 2) if every else None
    title = log_title("guess, in the unit of its row")
    figure.update_xaxes(title=title, type="log", tickvals=ticks)
    figure.update_yaxes(range=[len(guesses) - 0.4, -0.6], type="category")
    text = "; ".join(
        f"{guess.name}: median {_number(guess.middle)}, "
        f"measured {_number(guess.measured) or 'unknown'}"
        for guess in guesses
    )
    return dressed(
        figure,
        title="Guesses of the class",
        caption="measured: recorded run, initial values",
        height=190 + 54 * len(guesses),
        tell=text,
        table=DataFrame(guess_rows(guesses), columns=list(GUESS_HEADS)),
    )
