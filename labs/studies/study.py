"""The study that a notebook uses: its runs as tables and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.catalog import lab_of
from labs.drive.parameters.declare import LabParameters, declared, did_you_mean, unknown
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import Planned, StudyFile, write_study
from labs.drive.testbeds import TESTBEDS, VAGRANT
from labs.errors import BadInput, LabError, Missing
from labs.launch.wanted import Wanted
from labs.read.display.beside import Guess, guesses
from labs.read.display.format import command_lines, few
from labs.read.display.provenance import LIVE, RECORDED, asked_of, measured
from labs.read.display.rich_output import Summary, Table, Text, Words
from labs.read.existing_studies import parameters_of, refusal, sharing
from labs.read.lab import Lab
from labs.read.result_row import NO_RESULTS, result_row, results_of
from labs.read.runs import recorded
from labs.read.runs.archive import ENDINGS, is_packed, unpacked
from labs.read.runs.run import Run, open_run
from labs.read.stats.machines import machine_columns
from labs.read.stats.repetitions import Repeated, in_the_middle, on_one_kernel, repeated
from labs.read.unused_parameters import Unused, describe_unused, unused

if TYPE_CHECKING:
    from labs.launch.launch import Made

NAMED = 20
"""How many conditions the summary of a study names."""


@dataclass(frozen=True, eq=False, repr=False)
class Study(Summary):
    """A lab's runs for one set of parameters, in the order of its conditions.

    `runs` has one run per condition; for repeated conditions it is the median of the runs that
    count. `every` has all runs. `folder` contains the runs; `file` is the study's own file, if it
    has one; `live` is false for the recorded runs that come with the project. `lacks` says what is
    missing in a study without runs. All runs in virtual time are of one kernel; `others` are the
    studies of the further kernels that the parameters named.
    """

    parameters: LabParameters
    runs: tuple[Run, ...]
    folder: Path
    file: Path | None
    live: bool
    lab: Lab = field(kw_only=True)
    lacks: str = field(default="", kw_only=True)
    every: tuple[Run, ...] = field(default=(), kw_only=True)
    others: tuple[Study, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", self.every or self.runs)

    @property
    def source(self) -> str:
        return LIVE if self.live else RECORDED

    @property
    def kernels(self) -> tuple[Study, ...]:
        """One study per kernel that the parameters named, beginning with this one. Those that have
        no runs say in `lacks` what to do."""
        return (self, *self.others)

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(run.condition for run in self.runs)

    @property
    def link(self) -> Table:
        """The link of each run: as requested, as measured before the run, and the verdict; a note
        where the condition does not use a parameter."""
        rows = [
            (run.condition, asked_of(run), measured(run.measured), run.link.verdict)
            for run in self.runs
        ]
        table = Table(rows, columns=["Condition", "Requested", "Measured", "Verdict"])
        notes = list(map(self._unused, self.runs))
        return table.assign(Note=notes) if any(notes) else table

    def results(self) -> Table:
        """One row per run: the results of the lab, and the origin of the run.

        `notes` are joined with "; ", their codes with " "; a missing figure is NaN. A run from
        which a lab of your own cannot compute results has the reason among its notes; if that is so
        for all runs, it is raised.
        """
        rows = [
            result_row(
                *(run, results_of(self.lab, run)),
                group=self.lab.group_of(run),
                source=self.source,
                unused=self._unused(run),
            )
            for run in self.runs
        ]
        table = Table(rows)
        if self.runs and all(NO_RESULTS in codes.split() for codes in table["note_codes"]):
            self.lab.results(self.runs[0])
        empty = [name for name in table if table[name].isna().all()]
        return table.astype(dict.fromkeys(empty, float))

    def guesses(
        self, column: str, guessed: Mapping[str, Guess], *, virtual_below: float = 0.0
    ) -> Table:
        """Guesses by condition, next to the prediction and the measurement of a column of the
        results. In virtual time a figure below `virtual_below` is meaningless, and not shown.
        BadInput for an unknown column or condition, and a guess that is not a number."""
        if column not in self.lab.columns:
            raise BadInput(unknown(column, self.lab.columns, "column of the results"))
        runs = {condition: self.run(condition) for condition in guessed}
        rows = {
            name: (guessed[name], *self.lab.predicted_and_measured(run, column))
            for name, run in runs.items()
        }
        below = virtual_below if all(run.where.virtual_time for run in runs.values()) else 0.0
        return guesses(rows, self.lab.columns[column].unit, below=below)

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """The conditions that were repeated; empty for a study in virtual time."""
        return repeated(self.lab, (run for run in self.every if run.repetition is not None))

    def repetitions(self) -> Table:
        """One row per repeated condition: the median of its figure, its 95 % interval, its runs.
        BadInput for a study without runs, with what it lacks."""
        if self.lacks:
            raise BadInput(self.lacks)
        rows = [
            {**condition.as_json(), "by what": "; ".join(condition.why)}
            for every in self.repeated
            for condition in on_one_kernel([every])
        ]
        return Table(rows).rename(columns={"width_pct": "width, %"})

    def run(self, condition: str) -> Run:
        """The run of a condition; BadInput, naming the conditions, if the study has no such one."""
        for run in self.runs:
            if run.condition == condition:
                return run
        raise BadInput(
            f"{condition} is not in this study (available: {', '.join(self.conditions)})"
            f"{did_you_mean(condition, self.conditions)}"
        )

    def commands(self, condition: str) -> str:
        """The commands that set up a run, host by host, to paste: those of `labs run --dry-run`."""
        # Needs more of the operating system than recorded runs do.
        from labs.drive.preview import preview  # noqa: PLC0415

        run = self.run(condition)
        lines = preview(
            run.condition_asked, self.lab.lines(run.condition_asked), run.where.machines
        )
        return Text("\n".join(command_lines((line.host, line.argv) for line in lines)))

    def describe(self, condition: str | None = None) -> str:
        """A summary of the study, or of one run, as Markdown with its figures. BadInput if the lab
        has no text summary."""
        name = "describe" if condition is None else "describe_run"
        describe = getattr(self.lab.part("figures"), name, None)
        if describe is None:
            raise BadInput(f"the lab {self.lab.name} has no text summary. Use study.results()")
        return Words(describe(self.results() if condition is None else self.run(condition)))

    def on(self, kernel: str, *conditions: str) -> Study:
        """The same study on another kernel, with the conditions that match one of the patterns.

        Missing runs are performed. If that is impossible (the kernel is not built, or has no
        recorded runs), the study has no runs, and `lacks` says what to do.
        """
        names = ",".join(_matching(self.conditions, conditions or ("*",)))
        return self._compared_with(replace(self.parameters, kernel=kernel, only=names))

    def with_conditions(self, *conditions: str) -> Study:
        """A study with the same parameters of those conditions of size full that match one of the
        patterns; BadInput for a pattern that none matches. Missing runs are performed, as by `on`.
        """
        every = replace(self.parameters, size="full", only="")
        names = [condition.name for condition in self.lab.conditions(every)]
        if lost := [pattern for pattern in conditions if not _matching(names, (pattern,))]:
            raise BadInput(
                f"no condition of {self.lab.name} matches {lost[0]}"
                f"{did_you_mean(lost[0], names)}. See labs run {self.lab.name} --help"
            )
        return self._compared_with(replace(every, only=",".join(_matching(names, conditions))))

    def _compared_with(self, requested: LabParameters) -> Study:
        """Another study; this one stays the newest of its folder."""
        try:
            other = study(requested)
        except (Missing, BadInput) as error:
            return self.without_runs(requested, str(error))
        if self.live and self.file is not None:
            self.write(self.folder)
        return other

    def write(self, folder: Path) -> None:
        """Write the study file into a folder of runs, as the newest of its lab."""
        plan = [Planned(run.condition, run.key) for run in self.every]
        write_study(folder, self.lab.name, asdict(self.parameters), plan)

    def on_testbed(self, testbed: str = VAGRANT.name) -> Study:
        """The newest study of the same conditions on another testbed, from the folder of this
        study's runs or from the recorded runs. Nothing is run. If there is no such study, `lacks`
        names the command that creates it."""
        return self.all_on_testbed(testbed)[0]

    def all_on_testbed(self, testbed: str = VAGRANT.name) -> tuple[Study, ...]:
        """As `on_testbed`, but all recorded studies that share conditions with this one: they may
        be from different machines."""
        from labs.studies.testbeds import check_second  # noqa: PLC0415  few studies need it

        check_second(testbed)
        cls = type(self.parameters)
        studies = tuple(
            opened(file, parameters_of(file, cls, testbed), self.lab, live=is_here and self.live)
            for file, is_here in sharing(
                self.lab, self.runs, self.folder, testbed, packed=not self.live
            )
        )
        lacks = f"there is no study of these conditions on {testbed}. "
        lacks += f"Run: {self.command_on(testbed)}"
        return studies or (self.without_runs(self.parameters, lacks),)

    def without_runs(self, p: LabParameters, lacks: str) -> Study:
        """A study with other parameters that has no runs, for the reason in `lacks`."""
        return Study(p, (), self.folder, None, self.live, lab=self.lab, lacks=lacks)

    def command_on(self, testbed: str) -> Text:
        """The command that runs this study's conditions on another testbed."""
        from labs.studies.testbeds import command_for  # noqa: PLC0415  few studies need it

        return Text(command_for(self.lab, self.parameters, self.conditions, testbed))

    def compare(self, other: Study) -> Table:
        """The conditions that this study shares with one on another testbed: their figures, the
        ratio with its 95 % interval, and whether they agree."""
        # Here, because few notebooks compare testbeds.
        from labs.read.stats import testbed_comparison as comparison  # noqa: PLC0415

        return comparison.as_table(comparison.compare_testbeds(self.lab, self.every, other.every))

    @property
    def margin(self) -> Words:
        """The range of ratios that counts as agreement of two testbeds, and the reason for it."""
        from labs.read.stats.testbed_comparison import describe_margin  # noqa: PLC0415

        return describe_margin(self.lab)

    def machines(self, other: Study) -> Table:
        """The machines of this study and another: one column per machine."""
        return machine_columns(self.every, other.every)

    @cached_property
    def unused(self) -> Mapping[str, Unused]:
        """The parameters of the study that a condition does not use, by condition."""
        return unused(self.lab, self.parameters, self.conditions)

    def _unused(self, run: Run) -> str:
        """These parameters of a run in words; empty if its condition uses all."""
        values = self.unused.get(run.condition)
        return "" if values is None else describe_unused(run.condition_asked, values)

    def summary(self) -> str:
        if self.lacks:
            return f"of {self.lab.name} without runs: {self.lacks}"
        kernels = ", ".join(dict.fromkeys(f"Linux {run.kernel.release}" for run in self.runs))
        testbeds = ", ".join(dict.fromkeys(run.testbed for run in self.runs))
        where = f"live, in {self.folder}" if self.live else self.source
        names = few(self.conditions, NAMED)
        return f"of {self.lab.name}: {names} · {testbeds} · {kernels} · {where}"


def study(p: LabParameters, wanted: Wanted | None = None) -> Study:
    """Perform the missing runs of the study that the parameters describe; return the study.

    If the parameters name several kernels, `kernels` of the study has one study per kernel. A
    kernel without runs (it is not built, or has no recorded runs) does not prevent the others.

    With the testbed "recorded" nothing is run; the runs are those that come with the project. If
    RUNS is a packed file (`labs runs pack`), nothing is run either; the runs are those in the file.
    Raises BadInput, Missing or RunFailed with a one-line message, as `labs run` does.
    """
    wanted = wanted or Wanted()
    points = [replace(p, kernel=name) for name in p.kernels]
    if not p.where.any_kernel or len(points) == 1:
        return _on_one_kernel(points[0], wanted)
    studies: list[Study] = []
    lacking: dict[LabParameters, LabError] = {}
    # In reverse order: the study of the first kernel is then the newest one of its folder.
    for point in reversed(points):
        try:
            studies.insert(0, _on_one_kernel(point, wanted, f", Linux {point.kernel}"))
        except (Missing, BadInput) as error:
            lacking[point] = error
    if not studies:
        reason = lacking.pop(points[0])
        others = ", ".join(point.kernel for point in lacking)
        raise type(reason)(f"{reason}{others and f'. The same holds for {others}'}")
    first, *more = studies
    more += [first.without_runs(point, str(lacking[point])) for point in points if point in lacking]
    return replace(first, others=tuple(more))


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _on_one_kernel(p: LabParameters, wanted: Wanted, title: str = "") -> Study:
    packed = Path(p.runs)
    if is_packed(packed):
        return _recorded(p, unpacked(packed))
    if packed.name.endswith(ENDINGS) and not packed.exists():
        raise BadInput(f"there is no packed file {packed}. Name a file that exists, or a folder")
    return performed(p, wanted, title) if p.where.performs else _recorded(p)


def performed(p: LabParameters, wanted: Wanted, title: str) -> Study:
    """The study on one kernel, its missing runs performed; `title` follows the lab's name in
    progress."""
    # Performing runs needs a Unix system; reading recorded ones does not.
    from labs.launch import launch, plan, progress  # noqa: PLC0415

    lab = lab_of(p)
    groups = [lab.title_of(condition.group) for condition in lab.conditions(p)]
    runs = len(groups) * plan.least_repetitions(p)
    with progress.Bar(f"{lab.name}{title}", runs, groups) as bar:
        made = launch.run(lab, p, replace(wanted, tell=bar.tell))
    return of_made(made, p, lab)


def of_made(made: Made, p: LabParameters, lab: Lab) -> Study:
    """The study of runs that were performed here."""
    return opened(made.file, p, lab, live=True, runs=made.runs)


def opened(
    file: StudyFile, p: LabParameters, lab: Lab, *, live: bool, runs: tuple[Run, ...] = ()
) -> Study:
    """The study of a study file, whose runs must all exist; `runs` if they are open already."""
    every = runs or tuple(map(open_run, file.folders()))
    return Study(p, in_the_middle(lab, every), file.runs, file.path, live, lab=lab, every=every)


def _recorded(p: LabParameters, packed: Path | None = None) -> Study:
    """The study of the runs that come with the project, or of those that were unpacked."""
    lab = lab_of(p)
    folder = packed or recorded.runs_of(lab.name)
    requested = [condition.as_json() for condition in lab.conditions(p)]
    default = str(declared(type(p))["testbed"].default)
    where = p.where if packed and p.where.performs else TESTBEDS[default]
    inputs: dict[str, Any] = {"kernel": p.kernel, "seed": p.seed, "memory_mib": p.memory_mib}
    try:
        every = (
            recorded.matching(lab.name, requested, data=packed, **inputs)
            if where.virtual_time
            # On a wall clock, so its runs were repeated.
            else recorded.repetitions(lab.name, requested, where.name, packed)
        )
    except recorded.NotRecorded as error:
        is_told = not packed and where.virtual_time
        reason = refusal(lab, p, error.condition) if is_told else None
        raise BadInput(reason or str(error)) from None
    file = folder / STUDIES / f"{lab.name}.json"
    runs = in_the_middle(lab, every)
    named = file if file.is_file() else None
    return Study(p, runs, folder, named, False, lab=lab, every=tuple(every))
