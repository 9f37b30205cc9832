"""Verify published runs: checksums and schemas, runs performed again, and verdicts and notebooks.

The input is a bundle, a folder of recorded data with SHA256SUMS, or runs: a run, a study, a folder
or a packed file. Nothing in a bundle is executed unless its notebooks are requested.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.catalog import LABS, with_ledgers
from labs.drive.kernel.versions import KernelSpec, age
from labs.drive.record.disk import owned_folder
from labs.drive.testbeds import VIRTUAL
from labs.errors import BadInput, Damaged
from labs.launch.wanted import Wanted
from labs.publish.bundle_contents import as_bytes, intervals, verdicts_on
from labs.publish.bundle_contents import conditions as timed_conditions
from labs.publish.crate import COPY, METADATA
from labs.read.claims.moved import (
    Comparison,
    PlainVerdict,
    compare_verdicts,
    read_verdicts,
    rounded,
)
from labs.read.claims.sources import recorded_sources, verdicts_from
from labs.read.runs import recorded
from labs.read.runs.archive import (
    BUNDLED,
    content_of,
    foreign_entry,
    is_packed,
    run_folders,
    runs_folder,
    study_files,
    unpacked,
)
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.runs.zip_file import ENDING
from labs.verify import real_time
from labs.verify.bundle_check import check, check_preview
from labs.verify.bundle_claims import objections
from labs.verify.executed_again import execute_again
from labs.verify.notebook_claims import Objection
from labs.verify.recorded_verdicts import TABLE, intervals_of, of_bundle
from labs.verify.rerun import repeat
from labs.verify.verified import Subject, Verified


@dataclass(frozen=True)
class Draw:
    """Which runs are repeated: those in virtual time, all or only on one `kernel`, of these all or
    a `sample`; and so many conditions in `real_time`, each several times. `seed` draws."""

    kernel: KernelSpec | None = None
    sample: int | None = None
    real_time: int = 0
    seed: int = 1


EVERYTHING = Draw()


def subject_of(what: Path) -> Subject:
    """What a path names, checked. BadInput if it has no runs; Damaged if anything was changed."""
    if is_packed(what) and what.name.endswith(ENDING):
        if (content_of(what) / METADATA).is_file():
            return _of_bundle(content_of(what), str(what))
    elif what.is_dir() and (what / METADATA).is_file():
        return _of_bundle(what, str(what))
    elif what.is_dir() and (what / recorded.SUMS).is_file():
        files = recorded.check(what)
        packed = sorted(path for path in what.iterdir() if is_packed(path))
        folders = [folder for path in packed for folder in run_folders(unpacked(path))]
        table = what.resolve().parent / TABLE
        ours = what.resolve() == recorded.folder().resolve() and table.is_file()
        return Subject(
            str(what), files, tuple(map(open_run, folders)), table=table if ours else None
        )
    return Subject(str(what), 0, tuple(every_run(what)))


def _of_bundle(bundle: Path, name: str) -> Subject:
    files, notebooks = check(bundle)
    folder = runs_folder(bundle / BUNDLED)
    if (foreign := foreign_entry(folder)) is not None:
        raise Damaged(f"{BUNDLED} has {foreign!r}. Allowed: runs and studies. {COPY}")
    for path in study_files(folder):
        open_study(path)
    runs = tuple(every_run(folder))
    check_preview(bundle, notebooks, runs)
    return Subject(name, files, runs, bundle, notebooks)


def verify(
    what: Path,
    draw: Draw = EVERYTHING,
    wanted: Wanted | None = None,
    *,
    notebooks: bool = False,
    labs: Sequence[str] = LABS,
    progress: bool = False,
) -> Verified:
    """Check what a path names, and repeat the runs that are drawn. `labs` are the names of the labs
    that may be loaded; `notebooks` says whether the notebooks of a bundle are executed.

    BadInput for a kernel of which there is no run; Damaged if a checksum, a seal or a schema is
    wrong.
    """
    subject = subject_of(what)
    if notebooks and not subject.notebooks:
        raise BadInput(f"{what} has no notebooks to execute. Omit --execute, or name a bundle")
    # By its own name a run could load a lab from the current folder, which may be a stranger's.
    runs = [run for run in subject.runs if run.lab in labs]
    virtual = [run for run in runs if run.is_virtual]
    conditions = timed_conditions(run for run in runs if not run.is_virtual)
    drawn = virtual if draw.kernel is None else _on_kernel(virtual, draw.kernel)
    chance = random.Random(draw.seed)
    if draw.sample is not None and draw.sample < len(drawn):
        drawn = chance.sample(sorted(drawn, key=lambda run: run.digest), draw.sample)
    timed = chance.sample(conditions, min(draw.real_time, len(conditions)))
    with owned_folder("labs-verify-", Path(tempfile.gettempdir())) as folder:
        (folder / "runs").mkdir()
        (folder / "work").mkdir()
        repeated, lacking = repeat(drawn, folder / "runs", wanted or Wanted())
        again, failed = real_time.repeat_conditions(timed, folder / "runs")
        cells = [
            execute_again(
                notebook, (bundle / BUNDLED).resolve(), folder / "work", progress=progress
            )
            for notebook in (subject.notebooks if notebooks else ())
            if (bundle := subject.bundle) is not None
        ]
    verdicts, objections = _claims(subject, labs)
    return Verified(
        subject,
        repeated,
        again,
        (*lacking, *failed),
        left_out=len(virtual) - len(drawn),
        foreign=[run for run in subject.runs if run.lab not in labs],
        conditions=conditions,
        verdicts=verdicts,
        other_intervals=_other_intervals(subject),
        notebooks=cells,
        objections=objections,
    )


def _on_kernel(runs: Sequence[Run], spec: KernelSpec) -> list[Run]:
    matching = [run for run in runs if spec.matches(*_kernel(run))]
    if not matching:
        versions = {_kernel(run)[0] for run in runs}
        raise BadInput(
            f"there is no run in virtual time on Linux {spec.text}. Available: "
            f"{', '.join(sorted(versions, key=age)) or 'none'}"
        )
    return matching


def _kernel(run: Run) -> tuple[str, str]:
    """Version and digest of the kernel of a run in virtual time."""
    kernel = run.inputs["kernel"]
    return kernel["version"], kernel["digest"]


def _claims(
    subject: Subject, labs: Sequence[str]
) -> tuple[Comparison | None, tuple[Objection, ...]]:
    """The recorded verdicts of a bundle, or of the recorded runs in a clone, compared with those
    that its runs give here, and the objections to other parts of a bundle; None for runs without
    recorded verdicts.

    Of the recorded runs only claims on real time are judged: those in virtual time are repeated.
    """
    if subject.bundle is not None:
        found_here = verdicts_on(runs_folder(subject.bundle / BUNDLED), subject.runs)
        judged_here = json.loads(as_bytes(found_here))
        now = [verdict for each in judged_here["articles"] for verdict in each["verdicts"]]
        compared = compare_verdicts(of_bundle(subject.bundle), now)
        every = objections(subject.bundle, subject.runs, subject.notebooks, judged_here, compared)
        return compared, tuple(every)
    if subject.table is None:
        return None, ()
    before = [verdict for verdict in read_verdicts(subject.table) if _is_in_real_time(verdict)]
    ids = [str(verdict["id"]) for verdict in before]
    judged = [
        verdict.as_json()
        for lab in with_ledgers()
        if lab.name in labs and (sources := recorded_sources(lab))
        for verdict in verdicts_from(lab, sources, ids)
    ]
    return compare_verdicts(before, judged), ()


def _is_in_real_time(verdict: PlainVerdict) -> bool:
    return any(witness["testbed"] != VIRTUAL.name for witness in verdict.get("witnesses", ()))


def _other_intervals(subject: Subject) -> list[str]:
    """The conditions in real time whose interval is not the one that the bundle says."""
    written = None if subject.bundle is None else intervals_of(subject.bundle)
    if written is None:
        return []
    now = json.loads(as_bytes({"intervals": intervals(subject.runs)}))["intervals"]
    before, after = ([rounded(interval) for interval in some] for some in (written, now))
    differing = [interval for interval in before if interval not in after]
    differing += [interval for interval in after if interval not in before]
    return sorted({_interval_name(interval) for interval in differing})


def _interval_name(interval: Any) -> str:
    fields = interval if isinstance(interval, dict) else {}
    return f"{fields.get('lab')} {fields.get('condition')} on {fields.get('testbed')}"
