"""The study that a notebook uses: its runs as tables and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.catalog import lab_of
from labs.drive.parameters.declare import LabParameters, declared, did_you_mean, unknown
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import Planned, StudyFile, write_study
from labs.errors import BadInput, LabError, Missing
from labs.read.display.commands import as_lines
from labs.read.display.format import few
from labs.read.display.guesses import Guess, guesses
from labs.read.display.provenance import LIVE, RECORDED, asked_of, measured
from labs.read.display.rich_output import Table, Text, Words
from labs.read.lab import Lab
from labs.read.result_row import NO_RESULTS, result_row, results_of
from labs.read.runs import recorded
from labs.read.runs.archive import ENDINGS, is_packed, unpacked
from labs.read.runs.run import Run, open_run
from labs.read.stats.machines import machine_columns
from labs.read.stats.repetitions import Repeated, in_the_middle, on_one_kernel, repeated
from labs.read.unused_parameters import Unused, describe_unused, unused
from labs.studies.progress import Bar
from labs.studies.recorded_parameters import VIRTUAL, refusal
from labs.studies.testbeds import command_for, on_testbed, parameters_of

if TYPE_CHECKING:
    from labs.launch.launch import Made

# Testbeds whose kernel a user chooses.
ON_ANY_KERNEL = ("virtual", RECORDED)

# How many conditions the summary of a study names.
NAMED = 20


@dataclass(frozen=True, eq=False, repr=False)
class Study:
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
        columns = {
            "Condition": self.conditions,
            "Requested": [asked_of(run) for run in self.runs],
            "Measured": [measured(run.measured) for run in self.runs],
            "Verdict": [run.link.verdict for run in self.runs],
        }
        if any(told := [self._unused(run) for run in self.runs]):
            columns["Note"] = told
        return Table(columns)

    def results(self) -> Table:
        """One row per run: the results of the lab, and the origin of the run.

        `notes` are joined with "; ", their codes with " "; a missing figure is NaN. A run from
        which a lab of your own cannot compute results has the reason among its notes; if that is so
        for all runs, it is raised.
        """
        table = Table([self._row(run) for run in self.runs])
        if self.runs and all(NO_RESULTS in codes.split() for codes in table["note_codes"]):
            self.lab.results(self.runs[0])
        for name in table:
            if table[name].isna().all():
                table[name] = table[name].astype(float)
        return table

    def guesses(
        self, column: str, guessed: Mapping[str, Guess], *, virtual_below: float = 0.0
    ) -> Table:
        """Guesses by condition, next to the prediction and the measurement of a column of the
        results. In virtual time a figure below `virtual_below` is meaningless, and not shown.
        BadInput for an unknown column or condition, and a guess that is not a number."""
        if column not in self.lab.columns:
            raise BadInput(unknown(column, self.lab.columns, "column of the results"))
        one = self.lab.columns[column]
        rows = {}
        for condition, guess in guessed.items():
            values = self.lab.results(self.run(condition)).values
            predicted = None if one.predicted_by is None else values.get(one.predicted_by)
            rows[condition] = (guess, predicted, values.get(column))
        virtual = all(self.run(condition).testbed == "virtual" for condition in guessed)
        return guesses(rows, one.unit, below=virtual_below if virtual else 0.0)

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
            {**one.as_json(), "disturbances": "; ".join(one.why)}
            for every in self.repeated
            for one in on_one_kernel([every])
        ]
        return Table(rows).rename(columns={"width_pct": "width, %", "disturbances": "by what"})

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
        asked = run.condition_asked
        found = preview(asked, self.lab.lines(asked), run.testbed)
        return Text("\n".join(as_lines((one.host, one.argv) for one in found)))

    def describe(self, condition: str | None = None) -> str:
        """A summary of the study, or of one run, as Markdown with its figures.

        BadInput if the lab has no text summary.
        """
        narrative = self.lab.part("narrative")
        name = "describe" if condition is None else "describe_run"
        if not hasattr(narrative, name):
            raise BadInput(f"the lab {self.lab.name} has no text summary. Use study.results()")
        return Words(
            getattr(narrative, name)(self.results() if condition is None else self.run(condition))
        )

    def on(self, kernel: str, *conditions: str) -> Study:
        """The same study on another kernel, with the conditions that match one of the patterns.

        Missing runs are performed. If that is impossible (the kernel is not built, or has no
        recorded runs), the study has no runs, and `lacks` says what to do.
        """
        names = [
            name
            for name in self.conditions
            if any(fnmatchcase(name, pattern) for pattern in conditions or ("*",))
        ]
        return self._compared_with(replace(self.parameters, kernel=kernel, only=",".join(names)))

    def with_conditions(self, *conditions: str) -> Study:
        """A study with the same parameters of those conditions of size full that match one of the
        patterns; BadInput for a pattern that none matches.

        Missing runs are performed. If that is impossible, the study has no runs, and `lacks` says
        what to do.
        """
        every = replace(self.parameters, size="full", only="")
        known = [one.name for one in self.lab.conditions(every)]
        for pattern in conditions:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise BadInput(
                    f"no condition of {self.lab.name} matches {pattern}"
                    f"{did_you_mean(pattern, known)}. See labs parameters {self.lab.name}"
                )
        names = [name for name in known if any(fnmatchcase(name, one) for one in conditions)]
        return self._compared_with(replace(every, only=",".join(names)))

    def _compared_with(self, requested: LabParameters) -> Study:
        """Another study; this one stays the newest of its folder."""
        try:
            found = study(requested)
        except (Missing, BadInput) as error:
            return Study(
                requested, (), self.folder, None, self.live, lab=self.lab, lacks=str(error)
            )
        if self.live and self.file is not None:
            write_study(
                self.folder,
                self.lab.name,
                asdict(self.parameters),
                [Planned(run.condition, run.key) for run in self.every],
            )
        return found

    def on_testbed(self, testbed: str = "vagrant") -> Study:
        """The newest study of the same conditions on another testbed, from the folder of this
        study's runs or from the recorded runs. Nothing is run. If there is no such study, `lacks`
        names the command that creates it."""
        return self.all_on_testbed(testbed)[0]

    def all_on_testbed(self, testbed: str = "vagrant") -> tuple[Study, ...]:
        """As `on_testbed`, but all recorded studies that share conditions with this one: they may
        be from different machines."""
        found = on_testbed(self.lab, self.runs, self.folder, testbed, packed=not self.live)
        if not found:
            lacks = (
                f"there is no study of these conditions on {testbed}. "
                f"Run: {self.command_on(testbed)}"
            )
            without = (self.parameters, (), self.folder, None, self.live)
            return (Study(*without, lab=self.lab, lacks=lacks),)
        return tuple(
            opened(
                file,
                parameters_of(file, type(self.parameters), testbed),
                self.lab,
                live=own and self.live,
            )
            for file, own in found
        )

    def command_on(self, testbed: str) -> Text:
        """The command that runs this study's conditions on another testbed."""
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

    def _row(self, run: Run) -> dict[str, Any]:
        return result_row(
            run,
            results_of(self.lab, run),
            group=self.lab.group_of(run),
            source=self.source,
            unused=self._unused(run) if run.condition in self.unused else "",
        )

    @cached_property
    def unused(self) -> Mapping[str, Unused]:
        """The parameters of the study that a condition does not use, by condition."""
        return unused(self.lab, self.parameters, self.conditions)

    def _unused(self, run: Run) -> str:
        """These parameters of a run in words; empty if its condition uses all."""
        values = self.unused.get(run.condition)
        return "" if values is None else describe_unused(run.condition_asked, values)

    def __repr__(self) -> str:
        return f"<Study {self._words()}>"

    def _repr_html_(self) -> str:
        return f"<p>Study {escape(self._words())}</p>"

    def _words(self) -> str:
        if self.lacks:
            return f"of {self.lab.name} without runs: {self.lacks}"
        kernels = ", ".join(dict.fromkeys(f"Linux {run.kernel.release}" for run in self.runs))
        testbeds = ", ".join(dict.fromkeys(run.testbed for run in self.runs))
        kept = f", in {self.folder}" if self.live else ""
        named = few(self.conditions, NAMED)
        return f"of {self.lab.name}: {named} · {testbeds} · {kernels} · {self.source}{kept}"


def study(p: LabParameters, *, fresh: bool = False, jobs: int | None = None) -> Study:
    """Perform the missing runs of the study that the parameters describe; return the study.

    `fresh` repeats existing runs, too; `jobs` limits the number of concurrent runs.

    If the parameters name several kernels, `kernels` of the study has one study per kernel. A
    kernel without runs (it is not built, or has no recorded runs) does not prevent the others.

    With the testbed "recorded" nothing is run; the runs are those that come with the project. If
    RUNS is a packed file (`labs runs pack`), nothing is run either; the runs are those in the file.
    Raises BadInput, Missing or RunFailed with a one-line message, as `labs run` does.
    """
    wanted = [replace(p, kernel=name) for name in p.kernels]
    if p.testbed not in ON_ANY_KERNEL or len(wanted) == 1:
        return _on_one_kernel(wanted[0], fresh, jobs)
    found: list[Study] = []
    lacking: dict[str, LabError] = {}
    # In reverse order: the study of the first kernel is then the newest one of its folder.
    for one in reversed(wanted):
        try:
            found.insert(0, _on_one_kernel(one, fresh, jobs, f", Linux {one.kernel}"))
        except (Missing, BadInput) as error:
            lacking[one.kernel] = error
    if not found:
        said = lacking.pop(wanted[0].kernel)
        more = f". The same holds for {', '.join(lacking)}" if lacking else ""
        raise type(said)(f"{said}{more}")
    first, *others = found
    without_runs = [
        replace(first, parameters=one, runs=(), every=(), file=None, lacks=str(lacking[one.kernel]))
        for one in wanted
        if one.kernel in lacking
    ]
    return replace(first, others=(*others, *without_runs))


def _on_one_kernel(p: LabParameters, fresh: bool, jobs: int | None, title: str = "") -> Study:
    packed = Path(p.runs)
    if is_packed(packed):
        return _recorded(p, unpacked(packed))
    if packed.name.endswith(ENDINGS) and not packed.exists():
        raise BadInput(f"there is no packed file {packed}. Name a file that exists, or a folder")
    return _recorded(p) if p.testbed == RECORDED else _made(p, fresh, jobs, title)


def _made(p: LabParameters, fresh: bool, jobs: int | None, title: str) -> Study:
    # Performing runs needs a Unix system; reading recorded ones does not.
    from labs.launch import launch  # noqa: PLC0415
    from labs.launch.plan import titles  # noqa: PLC0415

    lab = lab_of(p)
    groups = [lab.title_of(one.group) for one in lab.conditions(p)]
    with Bar(f"{lab.name}{title}", titles(lab, p), groups) as bar:
        made = launch.run(lab, p, fresh=fresh, jobs=jobs, progress=bar.tell)
    return of_made(made, p, lab)


def of_made(made: Made, p: LabParameters, lab: Lab) -> Study:
    """The study of runs that were performed here."""
    return _of_runs(made.file, made.runs, p, lab, live=True)


def opened(file: StudyFile, p: LabParameters, lab: Lab, *, live: bool) -> Study:
    """The study of a study file; all of its runs must exist."""
    return _of_runs(file, tuple(map(open_run, file.folders())), p, lab, live=live)


def _of_runs(
    file: StudyFile, every: tuple[Run, ...], p: LabParameters, lab: Lab, *, live: bool
) -> Study:
    return Study(p, in_the_middle(lab, every), file.runs, file.path, live, lab=lab, every=every)


def _recorded(p: LabParameters, packed: Path | None = None) -> Study:
    """The study of the runs that come with the project, or of those that were unpacked."""
    lab = lab_of(p)
    folder = packed or recorded.runs_of(lab.name)
    requested = [condition.as_json() for condition in lab.conditions(p)]
    file = folder / STUDIES / f"{lab.name}.json"
    default = str(declared(type(p))["testbed"].default)
    own = p.testbed if packed and p.testbed != RECORDED else default
    if own != VIRTUAL:  # on a wall clock, so its runs were repeated
        every = tuple(recorded.repetitions(lab.name, requested, own, packed))
        middle = in_the_middle(lab, every)
        path = file if file.is_file() else None
        return Study(p, middle, folder, path, False, lab=lab, every=every)
    try:
        runs = recorded.matching(
            lab.name, requested, kernel=p.kernel, seed=p.seed, memory_mib=p.memory_mib, data=packed
        )
    except recorded.NotRecorded as error:
        said = "" if packed else refusal(lab, p, error.condition)
        raise BadInput(said or str(error)) from None
    return Study(p, tuple(runs), folder, file if file.is_file() else None, False, lab=lab)
