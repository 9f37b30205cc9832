"""Verify published runs: checksums and schemas, runs performed again, and verdicts and notebooks.

What is given is a bundle, a folder of recorded data with SHA256SUMS, or runs: a run, a study, a
folder or a packed file. Nothing of a bundle is executed, unless notebooks are requested.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.catalog import LABS
from labs.drive.record.disk import owned_folder
from labs.drive.record.stored_files import read_json
from labs.errors import BadInput
from labs.publish.bundle_check import MOST_METADATA_BYTES, check
from labs.publish.bundle_contents import verdicts_on
from labs.publish.bundle_layout import COPY, METADATA, VERDICTS
from labs.publish.executed_again import Cells, execute_again
from labs.publish.rerun import BEYOND, GRADES, IDENTICAL, NotRepeated, Repeated, repeat
from labs.read.display.format import in_runs
from labs.read.notebook_file import NotebookFile
from labs.read.runs import recorded
from labs.read.runs.archive import BUNDLED, bundle_in, is_packed, run_folders, runs_folder, unpacked
from labs.read.runs.compare import Change, every_run
from labs.read.runs.run import Run, open_run
from labs.read.runs.zip_file import ENDING

INTACT, FAILED = "intact", "not repeated"


@dataclass(frozen=True)
class Subject:
    """What is verified, after its checksums and schemas were found right: the runs, the number of
    files with a checksum of their own, and the folder and notebooks of a bundle."""

    name: str
    files: int
    runs: tuple[Run, ...]
    bundle: Path | None = None
    notebooks: tuple[NotebookFile, ...] = ()


@dataclass(frozen=True)
class Verified:
    """What was found. `left_out` counts virtual runs that were not drawn; `foreign` are runs of
    labs that are not part of the package; `verdicts` are those that changed, in words."""

    subject: Subject
    repeated: Sequence[Repeated]
    lacking: Sequence[NotRepeated]
    left_out: int
    foreign: Sequence[Run]
    verdicts: Sequence[str] = ()
    notebooks: Sequence[Cells] = field(default=())

    @property
    def grade(self) -> str:
        """The worst grade of runs, verdicts and notebooks; `intact` if nothing could be repeated,
        because there are no runs in virtual time, `not repeated` if all of them failed."""
        if self.verdicts or not all(one.equal for one in self.notebooks):
            return BEYOND
        if self.repeated:
            return max((one.grade for one in self.repeated), key=GRADES.index)
        return FAILED if self.lacking else INTACT

    @property
    def real_time(self) -> tuple[Run, ...]:
        return tuple(run for run in self.subject.runs if not _is_virtual(run))

    @property
    def causes(self) -> dict[str, int]:
        """Why runs moved, and how many, the most frequent first."""
        found = Counter(cause for one in self.repeated for cause in one.causes)
        return dict(found.most_common())

    def as_json(self) -> dict[str, Any]:
        grades = Counter(one.grade for one in self.repeated)
        return {
            "grade": self.grade,
            "what": self.subject.name,
            "files": self.subject.files,
            "runs": {
                "checked": len(self.subject.runs),
                "repeated": len(self.repeated),
                **{name: grades[name] for name in GRADES},
                "not_repeated": len(self.lacking),
                "left_out": self.left_out,
                "real_time": len(self.real_time),
                "of_other_labs": len(self.foreign),
            },
            "causes": self.causes,
            "inputs_that_differ": self.inputs,
            "moved": [one.as_json() for one in self.repeated if one.grade != IDENTICAL],
            "not_repeated": [one.as_json() for one in self.lacking],
            "verdicts": list(self.verdicts),
            "notebooks": [one.as_json() for one in self.notebooks],
        }

    @property
    def inputs(self) -> list[str]:
        """All inputs in which runs and their repetitions differ: versions, or names of digests."""
        return sorted({_input(change) for one in self.repeated for change in one.pair.inputs})

    def lines(self) -> Iterator[str]:
        """The findings as text, the grade last."""
        files = f" and {self.subject.files} files" if self.subject.files else ""
        yield (
            f"{self.subject.name}: {in_runs(len(self.subject.runs))}{files} checked; all seals, "
            "checksums and schemas match"
        )
        for one in self.repeated:
            if one.grade != IDENTICAL:
                yield f"{one.pair.a.name}: {one.grade}"
                yield from _changes(one)
        counted = Counter(one.why for one in self.lacking)
        yield from (f"{in_runs(count)} not repeated: {why}" for why, count in counted.items())
        if self.real_time:
            yield (
                f"{in_runs(len(self.real_time))} in real time: intact. They do not repeat to the "
                "byte and were not repeated here; `labs runs compare` compares them with new ones "
                "by intervals"
            )
        if self.foreign:
            names = ", ".join(sorted({run.lab for run in self.foreign}))
            yield (
                f"{in_runs(len(self.foreign))} of labs that are not part of this package "
                f"({names}): intact, and not repeated. Name a lab file that you trust with --lab"
            )
        yield from self.verdicts
        for cells in self.notebooks:
            yield _of_notebook(cells)
        yield from (f"likely cause ({in_runs(count)}): {why}" for why, count in self.causes.items())
        if self.inputs and not self.causes:
            yield (
                "every byte of raw output is equal although these inputs differ: "
                f"{_few(self.inputs)}"
            )
        drawn = f", {self.left_out} not drawn" if self.left_out else ""
        yield f"{in_runs(len(self.repeated))} repeated{drawn}: {self.grade}"


SHOWN = 6
DIGEST = re.compile(r"[0-9a-f]{64}")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _input(change: Change) -> str:
    """An input that differs; digests say nothing to people."""
    digests = any(DIGEST.fullmatch(str(value)) for value in (change.a, change.b))
    return change.name if digests else str(change)


def _changes(one: Repeated) -> Iterator[str]:
    for change in one.pair.results[:SHOWN]:
        by = "" if change.percent is None else f" ({change.percent:+.3g} %)"
        yield f"  {change}{by}"
    if len(one.pair.results) > SHOWN:
        yield f"  and {len(one.pair.results) - SHOWN} more results"
    if not one.pair.results:
        yield f"  no result moved; bytes differ in {_few(one.pair.files)}"


def _of_notebook(cells: Cells) -> str:
    if cells.stopped:
        return f"{cells.notebook}: stopped when it was executed again: {cells.stopped}"
    if cells.changed:
        return (
            f"{cells.notebook}: other numbers in the code cells "
            f"{', '.join(map(str, cells.changed))} ({cells.first})"
        )
    return f"{cells.notebook}: executed again, equal numbers in {cells.compared} code cells"


def subject_of(what: Path) -> Subject:
    """What a path names, checked. BadInput if it has no runs; Damaged if anything was changed."""
    if is_packed(what) and what.name.endswith(ENDING):
        if (bundle_in(what) / METADATA).is_file():
            return _of_bundle(bundle_in(what), str(what))
    elif what.is_dir() and (what / METADATA).is_file():
        return _of_bundle(what, str(what))
    elif what.is_dir() and (what / recorded.SUMS).is_file():
        files = recorded.check(what)
        packed = sorted(path for path in what.iterdir() if is_packed(path))
        folders = [folder for path in packed for folder in run_folders(unpacked(path))]
        return Subject(str(what), files, tuple(map(open_run, folders)))
    return Subject(str(what), 0, tuple(every_run(what)))


def _of_bundle(bundle: Path, name: str) -> Subject:
    files, notebooks = check(bundle)
    runs = tuple(every_run(bundle / BUNDLED))
    return Subject(name, files, runs, bundle, notebooks)


def verify(
    what: Path,
    *,
    sample: int | None = None,
    seed: int = 1,
    jobs: int | None = None,
    notebooks: bool = False,
    labs: Sequence[str] = LABS,
    progress: bool = False,
) -> Verified:
    """Check what a path names, and perform its virtual runs again, or `sample` of them, drawn with
    `seed`. `labs` are the names of the labs that may be loaded; `notebooks` says whether the
    notebooks of a bundle are executed.

    Damaged if a checksum, a seal or a schema is wrong.
    """
    subject = subject_of(what)
    if notebooks and not subject.notebooks:
        raise BadInput(f"{what} has no notebooks to execute. Omit --execute, or name a bundle")
    # By its own name a run could load a lab from the current folder, which may be a stranger's.
    foreign = [run for run in subject.runs if run.lab not in labs]
    virtual = [run for run in subject.runs if _is_virtual(run) and run.lab in labs]
    drawn = virtual
    if sample is not None and sample < len(virtual):
        drawn = random.Random(seed).sample(sorted(virtual, key=lambda run: run.digest), sample)
    with owned_folder("labs-verify-", Path(tempfile.gettempdir())) as folder:
        (folder / "runs").mkdir()
        (folder / "work").mkdir()
        repeated, lacking = repeat(drawn, folder / "runs", jobs=jobs)
        cells = [
            execute_again(one, _packed_runs(subject), folder / "work", progress=progress)
            for one in (subject.notebooks if notebooks else ())
        ]
    left_out = len(virtual) - len(drawn)
    moved = tuple(_moved_verdicts(subject)) if subject.bundle else ()
    return Verified(subject, repeated, lacking, left_out, foreign, moved, cells)


def _packed_runs(subject: Subject) -> Path:
    assert subject.bundle is not None
    return (subject.bundle / BUNDLED).resolve()


def _is_virtual(run: Run) -> bool:
    return run.testbed == "virtual" and run.inputs["kernel"] is not None


def _moved_verdicts(subject: Subject) -> Iterator[str]:
    """The claims on which the runs of a bundle now give another verdict than it says."""
    assert subject.bundle is not None
    path = subject.bundle / VERDICTS
    said = _by_claim(read_json(path, most_bytes=MOST_METADATA_BYTES, next_step=COPY))
    found = _by_claim(verdicts_on(runs_folder(subject.bundle / BUNDLED), subject.runs))
    for claim in sorted(said.keys() | found.keys()):
        before, now = said.get(claim, "no verdict"), found.get(claim, "no verdict")
        if before != now:
            yield f"verdict on {claim}: {before[:80]} in the bundle, and {now} on its runs here"


def _by_claim(verdicts: Any) -> dict[str, str]:
    """Each claim and its verdict; of a file that is not ours, what can be read of it."""
    articles = verdicts.get("articles")
    rows = [
        one
        for article in (articles if isinstance(articles, list) else ())
        if isinstance(article, dict) and isinstance(article.get("verdicts"), list)
        for one in article["verdicts"]
        if isinstance(one, dict)
    ]
    return {str(one.get("id"))[:40]: str(one.get("verdict")) for one in rows}
