"""Which runs judge a claim: those that a user names, or on each testbed and kernel the newest that
can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput, Missing
from labs.read.claims.composition import composed
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import is_as_in_the_article, judge, judges_of, needed
from labs.read.claims.judged_runs import judged_runs
from labs.read.claims.ledger import Claim, read
from labs.read.claims.verdict import Verdict, Witness
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import is_packed, is_run, runs_folder, study_files
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import in_the_middle
from labs.read.stats.testbed_comparison import ConditionComparison, compare_every
from labs.read.theory.windows import series

# Parameters that say how much is run, and not how: studies that differ in nothing else belong
# together.
HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})


@dataclass(frozen=True)
class Source:
    """Runs that belong together: one per condition, of studies with the same parameters.

    `name` is for people: the newest of the studies, whose parameters `parameters` are. `every` has
    all repetitions of the runs.
    """

    name: str
    runs: tuple[Run, ...]
    every: tuple[Run, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)


Place = tuple[str, tuple[int, int]]
"""A testbed and a kernel series."""
NOWHERE: Place = ("", (0, 0))
"""For a source without runs."""


def verdicts_from(
    lab: Lab, sources: Sequence[Source], ids: Collection[str] = ()
) -> tuple[Verdict, ...]:
    """Each claim, or those with one of `ids`: judged on each testbed and kernel series by the first
    source that can, of which those with all of the article's parameters go first; and the verdicts
    side by side.

    BadInput for a lab without a ledger, or without sources.
    """
    if lab.ledger is None:
        raise BadInput(f"the lab {lab.name} has no claims to judge")
    if not sources:
        raise BadInput(f"there are no runs of {lab.name} with which to judge its claims")
    article = read(lab.ledger)
    judges = judges_of(lab)
    places: dict[Place, list[tuple[Source, Evidence]]] = {}
    for source in sources:
        for place in dict.fromkeys(map(_place, source.runs)) or [NOWHERE]:
            runs, every = (
                [run for run in some if _place(run) == place]
                for some in (source.runs, source.every)
            )
            seen = Evidence(lab, {run.condition: run for run in runs}, every)
            places.setdefault(place, []).append((replace(source, runs=tuple(runs)), seen))

    def on(claim: Claim, known: Sequence[tuple[Source, Evidence]]) -> Verdict:
        found = (
            replace(
                judge(claim, seen, judges, article.parameters),
                runs=source.name,
                behind=judged_runs(seen.behind(needed(claim)), source.parameters),
            )
            for source, seen in sorted(
                known, key=lambda one: not is_as_in_the_article(claim, one[1], article.parameters)
            )
        )
        return _first(found)

    every = [run for source in sources for run in (source.every or source.runs)]
    return tuple(
        composed(
            claim,
            [on(claim, known) for known in places.values()],
            partial(_compared, lab, claim, every),
        )
        for claim in article.claims
        if not ids or claim.id in ids
    )


def _place(run: Run) -> Place:
    return run.testbed, series(run.kernel.release)


def _first(found: Iterable[Verdict]) -> Verdict:
    """The first informative verdict; else the first with a figure, or the first."""
    seen: list[Verdict] = []
    for one in found:
        if one.is_known:
            return one
        seen.append(one)
    return min(seen, key=lambda one: (one.measured is None, one.witness is None))


def _compared(
    lab: Lab, claim: Claim, every: Sequence[Run], one: Verdict, other: Verdict
) -> Sequence[ConditionComparison]:
    """The conditions of a claim on the testbeds and kernels of two verdicts."""
    sides = [
        list(
            {
                run.digest: run
                for run in every
                if verdict.witness == Witness(run.testbed, run.kernel.release)
                and any(fnmatchcase(run.condition, pattern) for pattern in claim.conditions)
            }.values()
        )
        for verdict in (one, other)
    ]
    return compare_every(lab, *sides)[0] if all(sides) else ()


def sources_of(lab: Lab, where: Path, name: str = "") -> tuple[Source, ...]:
    """The runs of a lab in a study file, a run, a folder of runs or a packed file, newest first.

    In a folder, each source has the runs of one study, and those that studies with the same
    parameters add: conditions of `--only` are added to those of `--size`. Of repeated runs the
    median one is used. `name` is that of all sources, instead of the file of each study. BadInput
    if there are no runs, or several of one condition without a study.
    """
    found = _of_studies(lab, where, name)
    if found is None:
        runs = [run for run in every_run(where) if run.lab == lab.name]
        _check_once(runs, where)
        middle = in_the_middle(lab, runs)
        found = [Source(name or str(where), middle, tuple(runs))] if runs else []
    if not found:
        raise BadInput(f"{where} has no run of {lab.name}. Run: labs run {lab.name} --into DIR")
    return tuple(found)


def recorded_sources(lab: Lab, name: str = "") -> tuple[Source, ...]:
    """The recorded runs of a lab, of all packed files that have studies; none without recorded
    data."""
    try:
        places = recorded.places(lab.name)
    except Missing:
        return ()
    return tuple(
        source
        for place in places
        if (place / STUDIES / f"{lab.name}.json").is_file()
        for source in sources_of(lab, place, name)
    )


def labs_of(where: Path) -> frozenset[str]:
    """The labs that have runs in what a user named."""
    return frozenset(run.lab for run in every_run(where))


def _check_once(runs: Iterable[Run], where: Path) -> None:
    counted = Counter(run.condition for run in runs if "repetition" not in run.inputs)
    twice = [condition for condition, count in counted.items() if count > 1]
    if twice:
        raise BadInput(
            f"{where} has several runs of {', '.join(twice)}, and no study that says "
            "which belong together. Name a study file"
        )


def _of_studies(lab: Lab, where: Path, name: str) -> list[Source] | None:
    """A source for each set of parameters among the studies of a folder; None without studies."""
    if not is_packed(where) and (not where.is_dir() or is_run(where)):
        return None
    folder = runs_folder(where)
    newest = folder / STUDIES / f"{lab.name}.json"
    if not newest.is_file():
        return None
    others = [study for study in map(open_study, study_files(folder)) if study.lab == lab.name]
    others.sort(key=lambda study: study.path.stat().st_mtime_ns, reverse=True)
    alike: list[tuple[dict[str, object], list[StudyFile]]] = []
    for study in (open_study(newest), *others):
        parameters = but_how_much(study.parameters)
        same = next((studies for how, studies in alike if how == parameters), None)
        if same is None:
            alike.append((parameters, [study]))
        else:
            same.append(study)
    return [
        Source(
            name or str(where / STUDIES / f"{studies[0].name}.json"),
            in_the_middle(lab, runs),
            tuple(runs),
            studies[0].parameters,
        )
        for _, studies in alike
        if (runs := _runs(studies))
    ]


def _runs(studies: Iterable[StudyFile]) -> list[Run]:
    """The existing runs of studies, newest first: of a condition those of the first that has it."""
    chosen: dict[str, list[Path]] = {}
    for study in studies:
        there: dict[str, list[Path]] = {}
        for planned, path in zip(study.plan, study.folders(), strict=True):
            if is_run(path):
                there.setdefault(planned.condition, []).append(path)
        chosen = {**there, **chosen}
    return [open_run(path) for paths in chosen.values() for path in paths]


def but_how_much(parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters that are equal in studies whose runs are judged together."""
    return {name: value for name, value in parameters.items() if name not in HOW_MUCH}
