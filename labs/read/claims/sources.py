"""Which runs judge a claim: those that a user names, or on each testbed and kernel the newest that
can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput, Missing
from labs.read.claims.composition import chance_of, composed, of_draws
from labs.read.claims.evidence import Evidence, recorded_draws, seed_of_study
from labs.read.claims.judge import check_columns, judge, judges_of, unlike_the_article
from labs.read.claims.ledger import Claim, read
from labs.read.claims.verdict import Verdict, Witness, but_how_much
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import is_packed, is_run, runs_folder, study_files
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import in_the_middle
from labs.read.stats.testbed_comparison import ConditionComparison, compare_every
from labs.read.theory.kernels import series


@dataclass(frozen=True)
class Source:
    """Runs that belong together: one per condition, of studies with the same parameters.

    `name` is for people: the newest of the studies, whose parameters `parameters` are. `every` has
    all repetitions of the runs. A recorded draw has rows of results instead of runs.
    """

    name: str
    runs: tuple[Run, ...] = ()
    every: tuple[Run, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    draw: Evidence | None = None

    def evidence(self, lab: Lab) -> Iterator[Evidence]:
        """What it has of each testbed and kernel series."""
        if self.draw is not None:
            yield self.draw
            return
        for place in dict.fromkeys(map(_place, self.runs)) or [None]:
            runs = {run.condition: run for run in self.runs if _place(run) == place}
            every = [run for run in self.every if _place(run) == place]
            yield Evidence(lab, runs, every, self.parameters, self.name)


Place = tuple[str, tuple[int, int]]
"""A testbed and a kernel series."""
OF_A_DRAW = ("seed", "kernel", "testbed")
"""Parameters in which draws of one experiment may differ, or which the place has."""


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
    article, judges = read(lab.ledger), judges_of(lab)
    check_columns(lab, article)
    places: dict[object, list[Evidence]] = {}
    for source in sources:
        for seen in source.evidence(lab):
            row = next(iter(seen.rows.values()), None)
            place = row and (row["testbed"], series(str(row["kernel"])))
            places.setdefault(place, []).append(seen)
    runs = [run for source in sources for run in (source.every or source.runs)]

    def on(claim: Claim, every: Sequence[Evidence]) -> Verdict:
        def unlike(seen: Evidence) -> bool:
            return bool(unlike_the_article(claim, seen, article.parameters))

        def judged(seen: Evidence) -> Verdict:
            return judge(claim, seen, judges, article.parameters)

        experiments = _experiments(sorted(every, key=unlike))
        return _first(verdict for some in experiments for verdict in _verdicts(claim, some, judged))

    return tuple(
        composed(
            claim,
            [on(claim, evidence) for evidence in places.values()],
            partial(_compared, lab, claim, runs),
        )
        for claim in article.claims
        if not ids or claim.id in ids
    )


def _place(run: Run) -> Place:
    return run.testbed, series(run.kernel.release)


def _experiments(every: Iterable[Evidence]) -> Iterable[Sequence[Evidence]]:
    """The evidence of one testbed and kernel: what is alike but for the seed together. Rows and
    runs are kept apart."""
    alike: dict[object, list[Evidence]] = {}
    for seen in every:
        how = but_how_much(seen.parameters).items()
        key = [(name, str(value)) for name, value in sorted(how) if name not in OF_A_DRAW]
        alike.setdefault((seen.file, *key) if key else seen.name or id(seen), []).append(seen)
    return alike.values()


def _verdicts(
    claim: Claim, every: Sequence[Evidence], judged: Callable[[Evidence], Verdict]
) -> Iterator[Verdict]:
    """The verdict of each source; with chance, one of all draws."""
    rows = [[seen.row(name) for name in seen.matching(*claim.conditions)] for seen in every]
    why = "" if claim.hardware else chance_of(row["asked"] for some in rows for row in some)
    if not why:
        yield from map(judged, every)
        return
    by_seed = {
        some[0]["seed"] if some else 0: seen
        for seen, some in reversed(list(zip(every, rows, strict=True)))
    }
    seeds = sorted(by_seed)
    yield of_draws([judged(by_seed[seed]) for seed in seeds], seeds, why)


def _first(verdicts: Iterable[Verdict]) -> Verdict:
    """The first informative verdict; else the first with a figure, of most draws, or the first."""
    seen: list[Verdict] = []
    for verdict in verdicts:
        if verdict.is_known:
            return verdict
        seen.append(verdict)

    def place(verdict: Verdict) -> tuple[bool, bool, int]:
        judged = [draw for draw in verdict.drawn if draw.is_judged]
        return verdict.measured is None, verdict.witness is None, -len(judged)

    return min(seen, key=place)


def _compared(
    lab: Lab, claim: Claim, every: Iterable[Run], first: Verdict, second: Verdict
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
    return compare_every(lab, *sides).rows if all(sides) else ()


def sources_of(lab: Lab, where: Path, name: str = "") -> tuple[Source, ...]:
    """The runs of a lab in a study file, a run, a folder of runs or a packed file, newest first.

    In a folder, each source has the runs of one study, and those that studies with the same
    parameters add: conditions of `--only` are added to those of `--size`. Of repeated runs the
    median one is used. `name` is that of all sources, instead of the file of each study. Without a
    study there is a source per seed. BadInput if there are no runs, or then several of one
    condition.
    """
    groups = [
        (name or str(where / STUDIES / f"{studies[0].name}.json"), runs, studies[0].parameters)
        for studies in _studies(lab, where)
        if (runs := _runs(studies))
    ] or [(name or str(where), runs, {}) for runs in _by_seed(lab, where)]
    if not groups:
        raise BadInput(f"{where} has no run of {lab.name}. Run: labs run {lab.name} --into DIR")
    return tuple(
        Source(of, in_the_middle(lab, runs), tuple(runs), parameters)
        for of, runs, parameters in groups
    )


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
    return (*of_runs, *_drawn(recorded_draws(lab, name))) if of_runs else ()


def with_recorded_draws(lab: Lab, sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources, with the recorded draws of those of their runs that are recorded ones."""
    if not sources:
        return ()
    digests = {run.digest for source in sources for run in source.runs}
    return (*sources, *_drawn(recorded_draws(lab, sources[0].name, digests)))


def _drawn(draws: Iterable[Evidence]) -> Iterator[Source]:
    for draw in draws:
        yield Source(draw.name, draw=draw)


def labs_of(where: Path) -> frozenset[str]:
    """The labs that have runs in what a user named."""
    return frozenset(run.lab for run in every_run(where))


def _by_seed(lab: Lab, where: Path) -> Collection[list[Run]]:
    """The runs of each seed. BadInput unless they are one per condition, requested alike for
    all."""
    by_seed: dict[int, list[Run]] = {}
    for run in every_run(where):
        if run.lab == lab.name:
            by_seed.setdefault(seed_of_study(run), []).append(run)
    runs = [run for some in by_seed.values() for run in some]
    asked = {run.condition: run.condition_asked for run in runs}
    twice = [run.condition for run in runs if asked[run.condition] != run.condition_asked]
    for some in by_seed.values():
        counted = Counter(run.condition for run in some if "repetition" not in run.inputs)
        twice += [condition for condition, count in counted.items() if count > 1]
    if twice:
        raise BadInput(
            f"{where} has several runs of {', '.join(dict.fromkeys(twice))}, and no study that "
            "says which belong together. Name a study file"
        )
    return by_seed.values()


def _studies(lab: Lab, where: Path) -> Collection[Sequence[StudyFile]]:
    """The studies of a folder with the same parameters together, newest first; none for what is
    not a folder with studies."""
    if not is_packed(where) and (not where.is_dir() or is_run(where)):
        return ()
    folder = runs_folder(where)
    newest = folder / STUDIES / f"{lab.name}.json"
    if not newest.is_file():
        return ()
    others = [study for study in map(open_study, study_files(folder)) if study.lab == lab.name]
    others.sort(key=lambda study: study.path.stat().st_mtime_ns, reverse=True)
    alike: dict[str, list[StudyFile]] = {}
    for study in (open_study(newest), *others):
        how = but_how_much(study.parameters)
        alike.setdefault(str(sorted(how.items())), []).append(study)
    return alike.values()


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
