"""Which runs judge the claims: those that a user names, or the newest that can, claim by claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import is_as_in_the_article, judge, judges_of
from labs.read.claims.ledger import Article, Claim, read
from labs.read.claims.verdict import Verdict, by_both, by_kernel, on_another_kernel
from labs.read.lab import Lab
from labs.read.runs.archive import is_packed, is_run, runs_folder, study_files
from labs.read.runs.compare import side
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import in_the_middle

# Parameters that say how much is run, and not how: studies that differ in nothing else belong
# together.
HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})
KERNEL = "kernel"


@dataclass(frozen=True)
class Source:
    """Runs that belong together: one per condition, of studies with the same parameters.

    `name` is for people: the newest of the studies. `folder` and `parameters` are those of the
    studies; runs without a study have no parameters. `every` has all repetitions of the runs.
    """

    name: str
    folder: Path
    runs: tuple[Run, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    every: tuple[Run, ...] = ()

    @property
    def testbeds(self) -> frozenset[str]:
        return frozenset(run.testbed for run in self.runs)

    def differs_in_kernel_from(self, other: Source) -> bool:
        """Whether the other source has the same parameters, but for the kernel."""

        def rest(parameters: Mapping[str, object]) -> dict[str, object]:
            return {name: value for name, value in parameters.items() if name != KERNEL}

        return (
            self.folder == other.folder
            and self.parameters.get(KERNEL) != other.parameters.get(KERNEL)
            and rest(self.parameters) == rest(other.parameters)
        )


def verdicts_from(lab: Lab, sources: Sequence[Source]) -> tuple[tuple[Verdict, Source], ...]:
    """Each claim judged by the first source that can judge it, with that source; one with all of
    the article's parameters goes before others.

    A source with the same parameters on another kernel is another witness, and so is the first
    one on another testbed. BadInput for a lab without a ledger, or without sources.
    """
    if lab.ledger is None:
        raise BadInput(f"the lab {lab.name} has no claims to judge")
    if not sources:
        raise BadInput(f"there are no runs of {lab.name} with which to judge its claims")
    article = read(lab.ledger)
    judges = judges_of(lab)
    seen = [
        Evidence(lab, {run.condition: run for run in source.runs}, source.every)
        for source in sources
    ]

    def on(place: int, claim: Claim) -> Verdict:
        return judge(claim, seen[place], judges, article.parameters)

    def order(claim: Claim) -> list[int]:
        return sorted(
            range(len(sources)),
            key=lambda place: not is_as_in_the_article(claim, seen[place], article.parameters),
        )

    return tuple(
        _chosen(article, sources, order(claim), partial(on, claim=claim))
        for claim in article.claims
    )


def _chosen(
    article: Article, sources: Sequence[Source], places: Sequence[int], on: Callable[[int], Verdict]
) -> tuple[Verdict, Source]:
    """The verdict of the first source, in the order of `places`, that has one, with the witnesses
    beside it."""
    verdicts: dict[int, Verdict] = {}

    def verdict(place: int) -> Verdict:
        if place not in verdicts:
            verdicts[place] = on(place)
        return verdicts[place]

    chosen = next((place for place in places if verdict(place).is_known), None)
    if chosen is None:
        undecided = [place for place in places if verdict(place).measured is not None]
        first = next(iter(undecided), 0)
        testbeds = sources[first].testbeds
        second = next((one for one in undecided if not sources[one].testbeds & testbeds), None)
        found = verdict(first)
        if second is not None:
            (found,) = by_both(article, [found], [verdict(second)], [])
        return found, sources[first]
    found, source = verdict(chosen), sources[chosen]
    second = next(
        (
            place
            for place in places
            if not sources[place].testbeds & source.testbeds and verdict(place).is_known
        ),
        None,
    )
    on_kernels = [
        [verdict(place)] for place in places if source.differs_in_kernel_from(sources[place])
    ]
    if second is not None and on_another_kernel(found, verdict(second)):
        on_kernels.append([verdict(second)])
    elif second is not None:
        (found,) = by_both(article, [found], [verdict(second)], [])
    return by_kernel(article, [found], *on_kernels)[0], source


def sources_of(lab: Lab, where: Path, name: str = "") -> tuple[Source, ...]:
    """The runs of a lab in a study file, a run, a folder of runs or a packed file, newest first.

    In a folder, each source has the runs of one study, and those that studies with the same
    parameters add: conditions of `--only` are added to those of `--size`. Of repeated runs the
    median one is used. `name` is that of all sources, instead of the file of each study. BadInput
    if there are no runs, or several of one condition without a study.
    """
    found = _of_studies(lab, where, name)
    if found is None:
        runs = [run for run in side(where) if run.lab == lab.name]
        _check_once(runs, where)
        middle = in_the_middle(lab, runs)
        found = [Source(name or str(where), where, middle, every=tuple(runs))] if runs else []
    if not found:
        raise BadInput(f"{where} has no run of {lab.name}. Run: labs run {lab.name} --into DIR")
    return tuple(found)


def runs_of(lab: Lab, where: Path) -> tuple[Run, ...]:
    """The runs of the newest source in what a user named; BadInput as for `sources_of`."""
    return sources_of(lab, where)[0].runs


def labs_of(where: Path) -> frozenset[str]:
    """The labs that have runs in what a user named."""
    return frozenset(run.lab for run in side(where))


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
        parameters = _how(study)
        same = next((studies for how, studies in alike if how == parameters), None)
        if same is None:
            alike.append((parameters, [study]))
        else:
            same.append(study)
    return [
        Source(
            name or str(where / STUDIES / f"{studies[0].name}.json"),
            folder,
            in_the_middle(lab, runs),
            how,
            tuple(runs),
        )
        for how, studies in alike
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


def _how(study: StudyFile) -> dict[str, object]:
    return {name: value for name, value in study.parameters.items() if name not in HOW_MUCH}
