"""What `labs run` prints of a study: its results as plain data, and as a table with remarks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import LabParameters
from labs.read.display.format import terminal_table
from labs.read.lab import Lab

if TYPE_CHECKING:
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


def describe(lab: Lab, report: Mapping[str, Any]) -> str:
    """The results as a table, group by group, without hidden columns; below it the origin of the
    runs, and any problems."""
    rows: list[dict[str, Any]] = report["results"]
    others = report["other_kernels"]
    columns = shown_columns(lab, rows, {"kernel"} if others else set())
    names = [on_kernel["kernel"] for on_kernel in (report, *others) if on_kernel["kernel"]]
    kernel = f", Linux {', '.join(names)}" if names else ""
    lines = [
        terminal_table(rows, columns, [lab.title_of(row["group"]) for row in rows]),
        "",
        f"testbed {report['testbed']}{kernel}; the runs are in {report['into']}",
    ]
    lines += [
        f"{row['condition']}: the link is not as requested: {'; '.join(row['link']['problems'])}"
        for row in rows
        if not row["link"]["ok"]
    ]
    if any(_loses_in_pieces(row["link"]) for row in rows):
        lines.append(PIECES)
    lines += repetitions(report["repeated"])
    if not others:
        return "\n".join([*lines, *report["remarks"]])
    lines += [
        remark if remark.startswith("Linux ") else f"Linux {on_kernel['kernel']}: {remark}"
        for on_kernel in (report, *others)
        for remark in on_kernel["remarks"]
    ]
    return "\n".join(lines)
