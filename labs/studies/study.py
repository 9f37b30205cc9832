"""The study that a notebook holds: its runs, opened, as tables and words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from labs.catalog import lab_of
from labs.drive.parameters.base import LabParameters
from labs.drive.parameters.declare import did_you_mean
from labs.drive.record.study_file import Planned, StudyFile, write_study
from labs.errors import BadInput, Missing
from labs.read.display.notebook import Table, Text, Words
from labs.read.display.provenance import LIVE, RECORDED, asked, measured
from labs.read.lab import Lab
from labs.read.runs.run import Run
from labs.read.stats.disturbance import disturbances
from labs.read.stats.repetitions import Repeated, in_the_middle, repeated

# How many conditions a study names when it says what it is.
NAMED = 20


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A lab's runs for one set of parameters, in the order of its conditions.

    `runs` has one a condition: where it was repeated, the run in the middle of those that count.
    `every` has all of them. `folder` keeps the runs, `file` is the study's own file (None if it
    has none); `live` says that the runs were made on this machine or another of the reader's, not
    taken from the recorded ones. `lacks` says, of a study without runs, what is missing.
    """

    parameters: LabParameters
    runs: tuple[Run, ...]
    folder: Path
    file: Path | None
    live: bool
    lab: Lab = field(kw_only=True)
    lacks: str = field(default="", kw_only=True)
    every: tuple[Run, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", self.every or self.runs)

    @property
    def source(self) -> str:
        return LIVE if self.live else RECORDED

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(run.condition for run in self.runs)

    @property
    def link(self) -> Table:
        """The link of each run: what was asked, what was measured before it, and the verdict."""
        return Table(
            {
                "condition": self.conditions,
                "asked": [asked(run.link.asked) for run in self.runs],
                "measured": [measured(run.link.measured) for run in self.runs],
                "verdict": [run.link.verdict for run in self.runs],
            }
        )

    def results(self) -> Table:
        """A row a run: what its lab's `results` finds, and where it is from.

        `notes` are joined with "; ", their codes with " "; a figure that there is not is NaN.
        """
        table = Table([self._row(run) for run in self.runs])
        for name in table:
            if table[name].isna().all():
                table[name] = table[name].astype(float)
        return table

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """The conditions that were repeated; none of a study on virtual time."""
        return repeated(self.lab, (run for run in self.every if "repetition" in run.inputs))

    def repetitions(self) -> Table:
        """A row a repeated condition: the median of its figure, the 95 % interval, the runs."""
        rows = [{**one.as_json(), "disturbances": "; ".join(one.why)} for one in self.repeated]
        return Table(rows).rename(columns={"width_pct": "width, %", "disturbances": "by what"})

    def run(self, condition: str) -> Run:
        """The run of a condition; BadInput, naming those there are, for another."""
        for run in self.runs:
            if run.condition == condition:
                return run
        raise BadInput(
            f"{condition} is not in this study{did_you_mean(condition, self.conditions)}"
            f"; it has {', '.join(self.conditions)}"
        )

    def commands(self, condition: str) -> str:
        """The ip, tc, sysctl and ethtool lines of a run, a host at a time, to be pasted."""
        return Text(self.run(condition).commands_text())

    def tell(self, condition: str | None = None) -> str:
        """What the study shows, or one run of it, as Markdown with the figures in it.

        BadInput if the lab has no words of its own for that.
        """
        narrative = self.lab.part("narrative")
        name = "describe" if condition is None else "describe_run"
        if not hasattr(narrative, name):
            raise BadInput(f"the lab {self.lab.name} has no text summary; use study.results()")
        return Words(
            getattr(narrative, name)(self.results() if condition is None else self.run(condition))
        )

    def on(self, kernel: str, *conditions: str) -> Study:
        """The same study on another kernel, of it the conditions that fit one of the patterns.

        Runs that are missing are made. Where that cannot be (the kernel is not built, or not among
        the recorded runs) the study has no runs, and `lacks` says what to do.
        """
        names = [
            name
            for name in self.conditions
            if any(fnmatchcase(name, pattern) for pattern in conditions or ("*",))
        ]
        wished = replace(self.parameters, kernel=kernel, only=",".join(names))
        try:
            found = study(wished)
        except (Missing, BadInput) as error:
            return Study(wished, (), self.folder, None, self.live, lab=self.lab, lacks=str(error))
        if self.live and self.file is not None:
            # It stays the newest one of its folder: the other only stands beside it.
            write_study(
                self.folder,
                self.lab.name,
                asdict(self.parameters),
                [Planned(run.condition, run.key) for run in self.every],
            )
        return found

    def witness(self, testbed: str = "vagrant") -> Study:
        """The newest study of the same conditions on another testbed, if there is one: in the
        folder of this study's runs, or recorded. Nothing is made; `lacks` says how to make it."""
        from labs.studies.second_testbed import find

        return find(self, testbed)

    def beside(self, other: Study) -> Table:
        """Each condition of this study and another, two witnesses, side by side: their figures,
        the ratio with its 95 % interval, and whether they agree."""
        from labs.read.stats.testbed_comparison import as_table, beside

        return as_table(beside(self.lab, self.every, other.every))

    def _row(self, run: Run) -> dict[str, Any]:
        found = self.lab.results(run)
        notes = [note.text for note in found.notes]
        disturbed = [f"disturbed: {what}" for what in disturbances(run)]
        of_the_run = {
            "notes": "; ".join([*notes, *disturbed]),
            "note_codes": " ".join(note.code for note in found.notes if note.code),
            "testbed": run.testbed,
            "kernel": run.kernel.release,
            "source": self.source,
            "rtt_ms": run.link.measured.rtt_ms,
            "rate_mbit": run.link.measured.rate_mbit,
            "link": run.link.verdict,
            "link_ok": run.link.ok,
            "link_asked": asked(run.link.asked),
            "link_shaped": run.link.asked.shaped,
            "key": run.key,
            "digest": run.digest,
        }
        return {"condition": run.condition, **found.values, **of_the_run}

    def __repr__(self) -> str:
        return f"<Study {self._words()}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>Study {escape(self._words())}</p>"

    def _words(self) -> str:
        if self.lacks:
            return f"of {self.lab.name} without runs: {self.lacks}"
        kernels = ", ".join(dict.fromkeys(f"Linux {run.kernel.release}" for run in self.runs))
        testbeds = ", ".join(dict.fromkeys(run.testbed for run in self.runs))
        kept = f", in {self.folder}" if self.live else ""
        named = ", ".join(self.conditions[:NAMED])
        if len(self.conditions) > NAMED:
            named += f" and {len(self.conditions) - NAMED} more"
        return f"of {self.lab.name}: {named} · {testbeds} · {kernels} · {self.source}{kept}"


def study(p: LabParameters) -> Study:
    """Make the runs that the parameters ask for and that are not there yet; return all of them.

    With the testbed "recorded" nothing is made: the runs are those that came with the project.
    BadInput, Missing or RunFailed in one line, as for `labs run`.
    """
    return _recorded(p) if p.testbed == RECORDED else _made(p)


def _made(p: LabParameters) -> Study:
    from labs.launch.launch import run
    from labs.launch.plan import titles
    from labs.studies.progress import Bar

    lab = lab_of(p)
    with Bar(lab.name, titles(lab, p)) as bar:
        file = run(lab, p, progress=bar.tell)
    return opened(file, p, lab, live=True)


def opened(file: StudyFile, p: LabParameters, lab: Lab, *, live: bool) -> Study:
    """The study of a study file, whose runs are all there."""
    from labs.read.runs.run import open_run

    every = tuple(map(open_run, file.folders()))
    return Study(p, in_the_middle(lab, every), file.runs, file.path, live, lab=lab, every=every)


def _recorded(p: LabParameters) -> Study:
    from labs.drive.record.run_folder import STUDIES
    from labs.read.runs import recorded

    lab = lab_of(p)
    folder = recorded.runs_of(lab.name)
    wished = [condition.as_json() for condition in lab.conditions(p)]
    runs = recorded.matching(
        lab.name, wished, kernel=p.kernel, seed=p.seed, memory_mib=p.memory_mib
    )
    file = folder / STUDIES / f"{lab.name}.json"
    return Study(p, tuple(runs), folder, file if file.is_file() else None, False, lab=lab)
