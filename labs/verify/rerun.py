"""Perform recorded runs in virtual time again, from the inputs stored in them, and grade each pair.

A run is identical if all of its raw output is, to the byte, and run.json is, apart from the inputs
that it names: tools that were built again, or code whose comments changed, may repeat every byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from labs.catalog import find
from labs.drive.record.seal import RUN, canonical
from labs.drive.testbeds import VIRTUAL
from labs.errors import BadInput, LabError
from labs.launch.launch import perform, prepare
from labs.launch.plan import Planned, Planner
from labs.launch.progress import Bar
from labs.launch.wanted import Opened, Wanted
from labs.read.display.format import few
from labs.read.lab import Lab
from labs.read.runs.compare import Change, Pair, graded
from labs.read.runs.run import Run
from labs.studies.run_access import results_of

IDENTICAL, COVERED = "identical", "covered"
WITHIN, BEYOND = "moved within tolerance", "moved beyond"
GRADES = (IDENTICAL, COVERED, WITHIN, BEYOND)
"""From best to worst; a result in real time is never identical, but its interval may cover it."""
# What run.json says about inputs, and not about what happened.
OF_THE_INPUTS = frozenset({"schema", "key", "inputs", "kernel", "tools"})


@dataclass(frozen=True)
class Repeated:
    """A recorded run and its repetition: the pair, its grade, and the causes, likeliest first."""

    pair: Pair
    grade: str
    causes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        comparison = self.pair.as_json()
        kept = ("lab", "condition", "changed", "inputs", "files")
        about = {"run": self.pair.a.name, "grade": self.grade, "causes": list(self.causes)}
        return about | {name: comparison[name] for name in kept}


@dataclass(frozen=True)
class NotRepeated:
    """A recorded run that could not be repeated here, and why."""

    run: Run
    why: str

    def as_json(self) -> dict[str, Any]:
        return {"run": self.run.name, "why": self.why}


def repeat(
    runs: Iterable[Run], into: Path, wanted: Wanted
) -> tuple[list[Repeated], list[NotRepeated]]:
    """Perform the runs again into the folder `into`, and compare each with its record. Progress and
    the time left are shown on stderr."""
    planned: list[tuple[Run, Planned]] = []
    lacking: list[NotRepeated] = []
    for name, of_lab in groupby(sorted(runs, key=lambda run: (run.lab, run.name)), _lab):
        _plan(find(name), of_lab, planned, lacking)
    if not planned:
        return [], lacking
    prepare(into)
    opened, failed = Opened(into), dict[str, LabError]()
    with Bar("labs", len(planned)) as bar:
        shown = replace(wanted, tell=bar.tell, keep_going=True)
        for _, pairs in groupby(planned, lambda pair: _lab(pair[0])):
            failed |= perform([again for _, again in pairs], opened, shown)
    repeated = []
    for run, again in planned:
        if again.name in failed:
            lacking.append(NotRepeated(run, str(failed[again.name])))
        else:
            repeated.append(judged(find(again.lab), run, opened[again.name]))
    return repeated, lacking


def _lab(run: Run) -> str:
    return run.lab


def _plan(
    lab: Lab, runs: Iterable[Run], planned: list[tuple[Run, Planned]], refused: list[NotRepeated]
) -> None:
    """Add the runs of a lab with what repeats them, and those that cannot be repeated here."""
    planner: Planner | None = None
    for run in runs:
        try:
            planner = planner or Planner(lab, VIRTUAL)
            again = planner.again(run.inputs, run.name)
        except LabError as error:
            refused.append(NotRepeated(run, str(error)))
        else:
            planned.append((run, replace(again, point=run.key[:8])))


def judged(lab: Lab, recorded: Run, again: Run) -> Repeated:
    """The grade of a run that was performed again, and why it moved."""
    pair = graded(recorded, again, results_of)
    if not pair.files or (pair.files == (RUN,) and _happened(recorded) == _happened(again)):
        return Repeated(pair, IDENTICAL, ())
    # With equal inputs every byte is, so what differs contradicts the record, however little.
    accepted = bool(pair.inputs) and (not pair.results or _within(lab, pair))
    grade = WITHIN if accepted else BEYOND
    return Repeated(pair, grade, tuple(causes(pair)))


def _happened(run: Run) -> bytes:
    return canonical({name: run.record[name] for name in run.record if name not in OF_THE_INPUTS})


def _within(lab: Lab, pair: Pair) -> bool:
    """Whether a lab accepts what moved: its headline figure, or, in a run without one, every
    figure, is within the margin that the lab grants two testbeds."""
    try:
        margin = lab.margin
    except BadInput:
        return False
    first, second = lab.headline(pair.a), lab.headline(pair.b)
    if first and second and first[0] == second[0] and first[1]:
        return margin.admits(second[1] / first[1])
    percents = [change.percent for change in pair.results]
    return all(percent is not None and margin.admits(1 + percent / 100) for percent in percents)


def causes(pair: Pair) -> Iterator[str]:
    """Why two runs of one record may differ, the likeliest cause first."""
    changed = {change.name: change for change in pair.inputs}
    commands = list(_other_commands(pair))
    yield from commands
    if not changed and not commands:
        yield (
            "the inputs are equal: a file was changed and sealed again, or something that is not "
            "an input affected the run"
        )
    version, build = changed.pop("kernel.version", None), changed.pop("kernel.digest", None)
    if version:
        yield f"kernel: Linux {version.a} was recorded, and {version.b} is built here"
    if build and not version:
        yield "kernel: the same version, but another build (compiler, options or patches)"
    if kit := changed.pop("tools.kit", None):
        recorded = f"the kit {str(kit.a)[:12]}" if kit.a else "the programs of its machine"
        yield f"kit: recorded with {recorded}, and the kit {str(kit.b)[:12]} is in use"
        programs = ("tools.", "libraries.")
        changed = {name: value for name, value in changed.items() if not name.startswith(programs)}
    tools = [change for change in changed.values() if _is_new_version(pair, change)]
    yield from (f"tool: {change}" for change in tools)
    if "code" in changed:
        yield "code: the labs that performed the run are another version"
    libraries = [name for name in changed if name.startswith("libraries.")]
    if libraries:
        yield f"library: other builds of {_names(libraries)}"
    builds = [name for name in changed if name.startswith("tools.") and changed[name] not in tools]
    if builds:
        yield f"tool: other builds of {_names(builds)}"
    rest = [
        name for name in changed if name.partition(".")[0] not in ("libraries", "tools", "code")
    ]
    if rest:
        yield f"input: {_names(rest, whole=True)}"


def _other_commands(pair: Pair) -> Iterator[str]:
    """The first setting of link or hosts that the record has otherwise than its inputs say."""
    first, second = (
        [command.argv for command in run.commands if command.argv[0] in ("tc", "sysctl", "ip")]
        for run in (pair.a, pair.b)
    )
    for issued, expected in zip(first, second, strict=False):
        if issued != expected:
            yield (
                f"parameter: the record issued `{' '.join(issued)}`, and its inputs lead to "
                f"`{' '.join(expected)}`: one of the two was changed after the run"
            )
            return


def _is_new_version(pair: Pair, change: Change) -> bool:
    """Whether a tool says another version; `Pair` then has the versions in place of the digests."""
    tool = change.name.removeprefix("tools.")
    return tool != change.name and pair.a.tools.get(tool) != pair.b.tools.get(tool)


SHOWN = 4


def _names(names: Sequence[str], *, whole: bool = False) -> str:
    return few([name if whole else name.partition(".")[2] for name in names], SHOWN)
