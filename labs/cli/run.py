"""Run a lab: perform the missing runs for the given parameters, and show the results.

LAB is a lab's name or a file of your own (./mylab.py). Existing runs are reused unless --fresh is
given; an interrupted study resumes where it stopped. Several values of a parameter, separated by
commas (--rate-mbit 50,100,200 --delay-ms 10,50), form a grid. The missing runs of all combinations
are performed concurrently, each of them once, and printed as one table, with the varied parameters
as its first columns; --dry-run shows the points and runs of the grid. With --testbed vagrant,
--size small is reduced to what virtual machines can carry. Parameters that you give are never
changed; --dry-run shows the result. With several kernels (--kernel 6.1,6.12) there is one study per
kernel. If one of them is not built, the others run, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labs.catalog import LABS, find
from labs.cli import run_flags
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import add_flags, from_flags
from labs.errors import BadInput, Missing
from labs.read.display.format import command_lines, terminal_table
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
OWN_LAB = (
    "For other settings, such as congestion controls, queues and flows, write a lab of your own: "
    "labs new mylab --flows"
)
REPEATED = ("condition", "figure", "middle", "low", "high", "width_pct", "counted", "disturbed")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = OWN_LAB
    parser.usage = (
        "labs run LAB [parameters of the lab] [--fresh] [--jobs N] [--boot MODE] [--dry-run] "
        "[--json]"
    )
    parser.add_argument("lab", metavar="LAB", help=f"{', '.join(LABS)}, or a file ./mylab.py")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that already exist")
    run_flags.add(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print every ip, tc and sysctl command and start nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the flags of the lab named in the arguments, or those of every lab if none is named."""
    named = lab_word(words)
    if named is not None:
        parser.prog = f"labs run {named}"
    add_flags(parser, find(named).Parameters if named is not None else LabParameters)


def lab_word(words: Sequence[str]) -> str | None:
    """The argument that names the lab: the first one, or after flags the first that can be one."""
    if words and not words[0].startswith("-"):
        return words[0]
    return next((word for word in words if word in LABS or word.endswith(".py")), None)


def main(args: argparse.Namespace) -> int:
    run_flags.take(args)
    lab = find(args.lab)
    parameters, over = from_flags(lab.Parameters, args)
    if over:
        from labs.cli import run_grid

        return run_grid.main(lab, parameters, over, args)
    if args.dry_run:
        steps = preview(lab, parameters)
        print(json.dumps(steps) if args.json else as_script(steps))
        return 0
    from labs.read.result_row import NO_RESULTS
    from labs.studies.study import study as study_of

    study = study_of(parameters, fresh=args.fresh, jobs=args.jobs)
    said = as_json(lab, parameters, study)
    print(json.dumps(said) if args.json else as_text(lab, said))
    if lacking := [one.lacks for one in study.kernels if one.lacks]:
        raise Missing("; ".join(lacking))
    without = [row["condition"] for row in said["results"] if NO_RESULTS in row["note_codes"]]
    if without:
        raise BadInput(f"no results of {', '.join(without)}: see the notes. Fix {lab.source}")
    return 0


def preview(lab: Lab, parameters: LabParameters) -> dict[str, Any]:
    """What would be done, per condition: the names of the runs, and every command in order."""
    from labs.drive.preview import preview as commands_of
    from labs.read.display.provenance import asked
    from labs.read.unused_parameters import in_words, unused

    on_each_kernel = (dataclasses.replace(parameters, kernel=one) for one in parameters.kernels)
    names = [run_names(lab, one) for one in on_each_kernel]
    conditions = lab.conditions(parameters)
    not_used = unused(lab, parameters, [one.name for one in conditions])
    return {
        "lab": lab.name,
        "testbed": parameters.testbed,
        "into": parameters.runs,
        "parameters": dataclasses.asdict(parameters),
        "repetitions": None
        if parameters.testbed == "virtual"
        else [
            parameters.repetitions_min,
            max(parameters.repetitions_min, parameters.repetitions_max),
        ],
        "conditions": [
            {
                "condition": condition.name,
                "group": condition.group,
                "link": asked(condition.link),
                "unused": not_used.get(condition.name, {}),
                "note": in_words(condition, not_used[condition.name])
                if condition.name in not_used
                else None,
                "runs": [one.get(condition.name) for one in names],
                "commands": [
                    {"host": line.host, "argv": list(line.argv)}
                    for line in commands_of(condition, lab.lines(condition), parameters.testbed)
                ],
            }
            for condition in conditions
        ],
    }


def run_names(lab: Lab, parameters: LabParameters) -> dict[str, str]:
    """The names of the runs by condition; empty if the kernel is not built."""
    from labs.launch.plan import plan

    try:
        return {one.condition.name: one.name for one in plan(lab, parameters)}
    except Missing:  # without a kernel the commands can still be shown
        return {}


def as_script(steps: Mapping[str, Any]) -> str:
    """The commands of each condition, in order, grouped by host."""
    lines = []
    for one in steps["conditions"]:
        often = (
            ""
            if steps["repetitions"] is None
            else "; {} to {} runs, in shuffled order".format(*steps["repetitions"])
        )
        lines += [
            "",
            f"## {steps['lab']} {one['condition']}, on the testbed {steps['testbed']}{often}",
        ]
        lines += [f"# {one['note']}"] if one["note"] else []
        first = "machines" if steps["testbed"] == "vagrant" else "kernel"
        lines += [f"# run: {name or f'needs the {first} first'}" for name in one["runs"]]
        lines += command_lines((line["host"], tuple(line["argv"])) for line in one["commands"])
    return "\n".join(lines[1:])


def as_json(lab: Lab, parameters: LabParameters, study: Study) -> dict[str, Any]:
    """The study and its results as plain data; missing numbers are null.

    The results are those of every kernel, condition by condition. `kernel` and what the lab finds
    in all runs together are of the first kernel; `other_kernels` has the same per further kernel.
    """
    on_kernels = [of_one_kernel(lab, one) for one in study.kernels if one.runs]
    places = {name: place for place, name in enumerate(study.conditions)}
    rows = [row for one in on_kernels for row in one.pop("results")]
    rows.sort(key=lambda row: places[row["condition"]])
    first, *others = on_kernels
    return {
        "lab": lab.name,
        "testbed": parameters.testbed,
        "into": parameters.runs,
        "results": rows,
        "repeated": [one.as_json() for one in study.repeated],
        "lacking": [one.lacks for one in study.kernels if one.lacks],
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
    found = dict(told_by(lab, "findings", runs, study.parameters) or {})
    repeated = dict(told_by(lab, "compared", study.repeated) or {}) if study.repeated else {}
    remarks = [
        *(told_by(lab, "remarks", results) or ()),
        *found.pop("remarks", ()),
        *repeated.pop("remarks", ()),
    ]
    return {
        "kernel": next((row["kernel"] for row in rows if row.get("kernel")), None),
        "results": rows,
        "remarks": remarks,
        **found,
        **repeated,
    }


def _loses_in_pieces(link: Mapping[str, Any]) -> bool:
    """Whether another share of packets was lost than requested, by a sender's own queue."""
    lost = any(" % lost, " in problem for problem in link["problems"])
    return lost and link["asked"]["shaped_at"] == "server"


def told_by(lab: Lab, name: str, *given: object) -> Any:
    """What a function of the lab's narrative says; None if the lab does not have it."""
    function = getattr(lab.part("narrative"), name, None)
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
    hidden = {name for name, one in lab.columns.items() if one.hidden}
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
            f"{one['condition']}: disturbed: {what}"
            for one in repeated
            for what in one["disturbances"]
        ),
    ]


def as_text(lab: Lab, said: Mapping[str, Any]) -> str:
    """The results as a table, group by group, without hidden columns; below it the origin of the
    runs, and any problems."""
    rows: list[dict[str, Any]] = said["results"]
    others = said["other_kernels"]
    columns = shown_columns(lab, rows, {"kernel"} if others else set())
    names = [one["kernel"] for one in (said, *others) if one["kernel"]]
    kernel = f", Linux {', '.join(names)}" if names else ""
    lines = [
        terminal_table(rows, columns, [lab.title_of(row["group"]) for row in rows]),
        "",
        f"testbed {said['testbed']}{kernel}; the runs are in {said['into']}",
    ]
    lines += [
        f"{row['condition']}: the link is not as requested: {'; '.join(row['link']['problems'])}"
        for row in rows
        if not row["link"]["ok"]
    ]
    if any(_loses_in_pieces(row["link"]) for row in rows):
        lines.append(PIECES)
    lines += repetitions(said["repeated"])
    if not others:
        return "\n".join([*lines, *said["remarks"]])
    lines += [
        remark if remark.startswith("Linux ") else f"Linux {one['kernel']}: {remark}"
        for one in (said, *others)
        for remark in one["remarks"]
    ]
    return "\n".join(lines)
