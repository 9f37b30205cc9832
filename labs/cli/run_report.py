"""What `labs run` prints of a study or a grid: its results as plain data, and as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import LabParameters, Scalar
from labs.drive.parameters.declare import plain as spelt
from labs.read.display.format import few, in_runs, terminal_table
from labs.read.lab import Lab

if TYPE_CHECKING:
    from labs.studies.grid import Grid
    from labs.studies.study import Study

# Columns that every study adds and that are printed elsewhere, or are meant for programs.
OF_EVERY_STUDY = frozenset(
    {
        *("group", "testbed", "kernel", "source", "key", "digest", "note_codes"),
        *("link", "link_ok", "link_asked", "link_shaped", "unused"),
    }
)

PIECES = (
    "a sender hands down up to 45 packets in one piece, of which netem drops all or none. Write "
    'Link(..., shaped_at="router"), or --shaped-at router, where packets pass one by one'
)
NAMED = 3
"""The maximum number of points that a line names."""
LACKING = "no results at "
REPEATED = ("condition", "figure", "middle", "low", "high", "width_pct", "counted", "disturbed")


def as_json(lab: Lab, parameters: LabParameters, study: Study) -> dict[str, Any]:
    """The study and its results as plain data; missing numbers are null.

    The results are those of every kernel, condition by condition. `kernel` and what the lab finds
    in all runs together are of the first kernel; `other_kernels` has the same per further kernel.
    """
    on_kernels = [of_one_kernel(lab, on_kernel) for on_kernel in study.kernels if on_kernel.runs]
    places = {name: place for place, name in enumerate(study.conditions)}
    rows = [row for on_kernel in on_kernels for row in on_kernel.pop("results")]
    rows.sort(key=lambda row: places[row["condition"]])
    first, *others = on_kernels
    return {
        "lab": lab.name,
        "testbed": parameters.testbed,
        "into": parameters.runs,
        "results": rows,
        "repeated": [condition.as_json() for condition in study.repeated],
        "lacking": [on_kernel.lacks for on_kernel in study.kernels if on_kernel.lacks],
        "other_kernels": others,
        **first,
    }


def of_one_kernel(lab: Lab, study: Study) -> dict[str, Any]:
    """The results of a study on one kernel, and what the lab finds in its runs together."""
    results = study.results()
    rows = [
        {str(name): plain(value) for name, value in row.items()}
        for row in results.to_dict("records")
    ]
    for row in rows:
        condition = str(row["condition"])
        row["link"] = study.run(condition).link.as_json()
        row["unused"] = study.unused.get(condition, {})
    runs = {run.condition: run for run in study.runs}
    findings = dict(from_narrative(lab, "findings", runs, study.parameters) or {})
    repeated = dict(from_narrative(lab, "compared", study.repeated) or {}) if study.repeated else {}
    remarks = [
        *(from_narrative(lab, "remarks", results) or ()),
        *findings.pop("remarks", ()),
        *repeated.pop("remarks", ()),
    ]
    return {
        "kernel": next((row["kernel"] for row in rows if row.get("kernel")), None),
        "results": rows,
        "remarks": remarks,
        **findings,
        **repeated,
    }


def _loses_in_pieces(link: Mapping[str, Any]) -> bool:
    """Whether another share of packets was lost than requested, by a sender's own queue."""
    lost = any(" % lost, " in problem for problem in link["problems"])
    return lost and link["asked"]["shaped_at"] == "server"


def from_narrative(lab: Lab, name: str, *given: object) -> Any:
    """What a function of the lab's narrative returns; None if the lab does not have it."""
    function = getattr(lab.part("figures"), name, None)
    return None if function is None else function(*given)


def plain(value: object) -> object:
    """A cell of a table as a JSON scalar: numpy's numbers as Python's, NaN as None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def shown_columns(
    lab: Lab, rows: Sequence[Mapping[str, Any]], also: Collection[str] = ()
) -> list[str]:
    """The columns of a printed table, without hidden and empty ones. Of the columns of every study,
    only those in `also` are shown."""
    hidden = {name for name, column in lab.columns.items() if column.hidden}
    columns = [
        name
        for name in rows[0]
        if (name not in OF_EVERY_STUDY or name in also)
        and name not in hidden
        and any(row[name] is not None for row in rows)
    ]
    columns.sort(key=lambda name: (name == "notes", name not in ("condition", "kernel")))
    return columns


def repetitions(repeated: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> list[str]:
    """The table of repeated conditions, beginning with the columns `first`, and the disturbances of
    their runs; empty without repeated conditions."""
    if not repeated:
        return []
    return [
        "",
        "repeated conditions: the median and its 95 % interval, without disturbed runs",
        terminal_table(repeated, (*first, *REPEATED)),
        *(
            f"{row['condition']}: disturbed: {what}"
            for row in repeated
            for what in row["disturbances"]
        ),
    ]


def grid_as_json(lab: Lab, p: LabParameters, grid: Grid) -> dict[str, Any]:
    """The grid and its results as plain data; missing numbers are null.

    `points` has, for each point, what the lab computes from all runs of its study together.
    """
    rows = [
        {str(name): plain(value) for name, value in row.items()}
        for row in grid.results().to_dict("records")
    ]
    readable = [point for point in grid.points if point.lacks is None]
    links = [run.link.as_json() for point in readable for run in point.study.runs]
    for row, link in zip(rows, links, strict=True):
        row["link"] = link
    points = []
    for point in readable:
        summary = of_one_kernel(lab, point.study)
        summary.pop("results")
        points.append({"values": dict(point.values), **summary})
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in grid.over.items()},
        "results": rows,
        "repeated": [
            {**point.values, **condition.as_json()}
            for point in readable
            for condition in point.study.repeated
        ],
        "runs": len(grid.keys),
        "points": points,
        "lacking": [
            {"values": dict(point.values), "lacks": str(point.lacks)}
            for point in grid.points
            if point.lacks
        ],
    }


def describe(lab: Lab, report: Mapping[str, Any]) -> str:
    """The results as a table without hidden columns, group by group or, of a grid, with the varied
    parameters first; below it the origin of the runs, and any problems."""
    rows: list[dict[str, Any]] = report["results"]
    axes, points = list(report.get("axes", ())), _points(report)
    first = [*axes, "condition"]
    shown = shown_columns(lab, rows, {"kernel"} if report.get("other_kernels") else ())
    kernels = dict.fromkeys(point["kernel"] for _, point in points if point["kernel"])
    kernel = f", Linux {', '.join(kernels)}" if kernels else ""
    count = f"{len(points)} points, {in_runs(report['runs'])}; " if axes else ""
    titles = [] if axes else [lab.title_of(row["group"]) for row in rows]
    remarks = [(values, text) for values, point in points for text in point["remarks"]]
    lacking = [(of["values"], of["lacks"]) for of in report["lacking"]] if axes else []
    return "\n".join(
        [
            terminal_table(rows, list(dict.fromkeys([*first, *shown])), titles),
            "",
            f"{count}testbed {report['testbed']}{kernel}; the runs are in {report['into']}",
            *(
                f"{' '.join(str(row[name]) for name in first)}: the link is not as requested: "
                f"{'; '.join(row['link']['problems'])}"
                for row in rows
                if not row["link"]["ok"]
            ),
            *([PIECES] if any(_loses_in_pieces(row["link"]) for row in rows) else []),
            *repetitions(report["repeated"], axes),
            *describe_points(remarks),
            *describe_points(lacking, LACKING),
        ]
    )


def _points(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Scalar], Mapping[str, Any]]]:
    """The points of a grid, or the kernels of a study, with their values; one kernel has none."""
    if "points" in report:
        return [(point["values"], point) for point in report["points"]]
    others = report["other_kernels"]
    return [({"Linux": of["kernel"]} if others else {}, of) for of in (report, *others)]


def describe_points(
    texts: Sequence[tuple[Mapping[str, Scalar], str]], about: str = ""
) -> list[str]:
    """One line per text, with the points to which it applies; each line begins with `about`."""
    points: dict[str, list[str]] = {}
    for values, text in texts:
        words = " ".join(f"{name} {spelt(value)}" for name, value in values.items())
        points.setdefault(text, []).append(words)
    return [
        f"{about}{few(where, NAMED, '; ')}{' points' * (len(where) > NAMED)}: {text}"
        if any(where)
        else text
        for text, where in points.items()
    ]
