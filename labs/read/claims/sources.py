"""Which runs judge a claim: those that a user names, or on each testbed and kernel the newest that
can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import starmap
from pathlib import Path

from labs.drive.condition import Condition
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput, Missing
from labs.read.claims.composition import composed
from labs.read.claims.draw_index import Draw, recorded_draws
from labs.read.claims.draws import chance_of, of_draws
from labs.read.claims.evidence import Evidence, seed_of_study
from labs.read.claims.judge import is_as_in_the_article, judge, judges_of, needed
from labs.read.claims.judged_runs import but_how_much
from labs.read.claims.ledger import Claim, read
from labs.read.claims.rules import check_columns
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


@dataclass(frozen=True)
class Source:
    """Runs that belong together: one per condition, of studies with the same parameters.

    `name` is for people: the newest of the studies, whose parameters `parameters` are. `every` has
    all repetitions of the runs. A `draw` has rows of results instead of runs.
    """

    name: str
    runs: tuple[Run, ...]
    every: tuple[Run, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    draw: Draw | None = None


Place = tuple[str, tuple[int, int]]
"""A testbed and a kernel series."""
Part = tuple[Source, Evidence]
"""The part of a source that is of one place."""
OF_A_DRAW = ("seed", "kernel", "testbed")
"""Parameters in which draws of one experiment may differ, or which the place has."""
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
    check_columns(lab, article)
    judges = judges_of(lab)
    places: dict[Place, list[Part]] = {}
    for source in sources:
        for place, seen in evidence_of(lab, source):
            places.setdefault(place, []).append((source, seen))

    def by(claim: Claim, source: Source, seen: Evidence) -> Verdict:
        verdict = judge(claim, seen, judges, article.parameters)
        return replace(verdict, runs=source.name, behind=seen.judged(needed(claim)))

    def on(claim: Claim, evidence: Sequence[Part]) -> Verdict:
        as_in_article = sorted(
            evidence, key=lambda part: not is_as_in_the_article(claim, part[1], article.parameters)
        )
        return _first(
            verdict
            for experiment in _experiments(as_in_article)
            for verdict in _of_experiment(claim, experiment, partial(by, claim))
        )

    every = [run for source in sources for run in (source.every or source.runs)]
    return tuple(
        composed(
            claim,
            [on(claim, evidence) for evidence in places.values()],
            partial(_compared, lab, claim, every),
        )
        for claim in article.claims
        if not ids or claim.id in ids
    )


def evidence_of(lab: Lab, source: Source) -> Iterator[tuple[Place, Evidence]]:
    """What a source has of each testbed and kernel series."""
    if source.draw is not None:
        witness = source.draw.witness
        yield (witness.testbed, series(witness.kernel)), Evidence(lab, {}, draw=source.draw)
        return
    for place in dict.fromkeys(map(_place, source.runs)) or [NOWHERE]:
        runs, every = (
            [run for run in some if _place(run) == place] for some in (source.runs, source.every)
        )
        by_name = {run.condition: run for run in runs}
        yield place, Evidence(lab, by_name, every, source.parameters)


def _experiments(evidence: Sequence[Part]) -> Iterable[Sequence[Part]]:
    """The evidence of one testbed and kernel: what is alike but for the seed together. Rows and
    runs are kept apart."""
    alike: dict[object, list[Part]] = {}
    for source, seen in evidence:
        how = {
            name: str(value)
            for name, value in but_how_much(source.parameters).items()
            if name not in OF_A_DRAW
        }
        key = (source.draw is None, *sorted(how.items())) if how else source.name or id(source)
        alike.setdefault(key, []).append((source, seen))
    return alike.values()


def _of_experiment(
    claim: Claim, evidence: Sequence[Part], by: Callable[[Source, Evidence], Verdict]
) -> Iterator[Verdict]:
    """The verdict of each source; with chance, one of all draws."""
    asked = [
        seen.condition(name) for _, seen in evidence for name in seen.matching(*claim.conditions)
    ]
    why = "" if claim.hardware else chance_of(asked)
    if not why:
        yield from starmap(by, evidence)
        return
    by_seed = {
        seen.seed(seen.matching(*claim.conditions)): (source, seen)
        for source, seen in reversed(evidence)
    }
    seeds = sorted(by_seed)
    yield of_draws([by(*by_seed[seed]) for seed in seeds], seeds, why)


def _place(run: Run) -> Place:
    return run.testbed, series(run.kernel.release)


def _first(verdicts: Iterable[Verdict]) -> Verdict:
    """The first informative verdict; else the first with a figure, of most draws, or the first."""
    seen: list[Verdict] = []
    for verdict in verdicts:
        if verdict.is_known:
            return verdict
        seen.append(verdict)

    def place(verdict: Verdict) -> tuple[bool, bool, int]:
        draws = 0 if verdict.draws is None else verdict.draws.count
        return verdict.measured is None, verdict.witness is None, -draws

    return min(seen, key=place)


def _compared(
    lab: Lab, claim: Claim, every: Sequence[Run], first: Verdict, second: Verdict
) -> Sequence[ConditionComparison]:
    """The conditions of a claim on the testbeds and kernels of two verdicts."""
    runs = {
        run.digest: run
        for run in every
        if any(fnmatchcase(run.condition, pattern) for pattern in claim.conditions)
    }
    sides = [
        [
            run
            for run in runs.values()
            if verdict.witness == Witness(run.testbed, run.kernel.release)
        ]
        for verdict in (first, second)
    ]
    return compare_every(lab, *sides)[0] if all(sides) else ()


def sources_of(lab: Lab, where: Path, name: str = "") -> tuple[Source, ...]:
    """The runs of a lab in a study file, a run, a folder of runs or a packed file, newest first.

    In a folder, each source has the runs of one study, and those that studies with the same
    parameters add: conditions of `--only` are added to those of `--size`. Of repeated runs the
    median one is used. `name` is that of all sources, instead of the file of each study. Without a
    study there is a source per seed. BadInput if there are no runs, or then several of one
    condition.
    """
    sources = _of_studies(lab, where, name)
    if sources is None:
        by_seed: dict[int, list[Run]] = {}
        for run in every_run(where):
            if run.lab == lab.name:
                by_seed.setdefault(seed_of_study(run), []).append(run)
        _check_once(by_seed.values(), where)
        sources = [
            Source(name or str(where), in_the_middle(lab, runs), tuple(runs))
            for runs in by_seed.values()
        ]
    if not sources:
        raise BadInput(f"{where} has no run of {lab.name}. Run: labs run {lab.name} --into DIR")
    return tuple(sources)


def recorded_sources(lab: Lab, name: str = "") -> tuple[Source, ...]:
    """The recorded runs of a lab, of all packed files that have studies; none without recorded
    data."""
    try:
        places = recorded.places(lab.name)
    except Missing:
        return ()
    of_runs = [
        source
        for place in places
        if (place / STUDIES / f"{lab.name}.json").is_file()
        for source in sources_of(lab, place, name)
    ]
    return (*of_runs, *_drawn(name, recorded_draws(lab))) if of_runs else ()


def with_recorded_draws(lab: Lab, sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources, with the recorded draws of those of their runs that are recorded ones."""
    if not sources:
        return ()
    digests = {run.digest for source in sources for run in source.runs}
    return (*sources, *_drawn(sources[0].name, recorded_draws(lab, digests)))


def _drawn(name: str, draws: Iterable[Draw]) -> Iterator[Source]:
    for draw in draws:
        yield Source(name, (), (), draw.parameters, draw)


def labs_of(where: Path) -> frozenset[str]:
    """The labs that have runs in what a user named."""
    return frozenset(run.lab for run in every_run(where))


def _check_once(by_seed: Collection[Sequence[Run]], where: Path) -> None:
    """BadInput unless the runs of each seed are one per condition, requested alike for all."""
    asked: dict[str, Condition] = {}
    twice = [
        run.condition
        for runs in by_seed
        for run in runs
        if asked.setdefault(run.condition, run.condition_asked) != run.condition_asked
    ]
    for runs in by_seed:
        counted = Counter(run.condition for run in runs if "repetition" not in run.inputs)
        twice += [condition for condition, count in counted.items() if count > 1]
    if twice:
        raise BadInput(
            f"{where} has several runs of {', '.join(dict.fromkeys(twice))}, and no study that "
            "says which belong together. Name a study file"
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
    alike: list[list[StudyFile]] = []
    for study in (open_study(newest), *others):
        how = but_how_much(study.parameters)
        same = (studies for studies in alike if but_how_much(studies[0].parameters) == how)
        if (studies := next(same, None)) is None:
            alike.append([study])
        else:
            studies.append(study)
    return [
        Source(
            name or str(where / STUDIES / f"{studies[0].name}.json"),
            in_the_middle(lab, runs),
            tuple(runs),
            studies[0].parameters,
        )
        for studies in alike
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
