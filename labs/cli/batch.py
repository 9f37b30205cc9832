"""Repeat a lab or a notebook over the parameter values of a plan.

PLAN is a YAML or JSON file. It has parameters in capitals, as in a file for papermill's -f; each of
them may be a list or a range instead of one value.

    lab: buffers                                # or notebook: notebooks/00-start-here.ipynb
    ONLY: default,both
    RATE_MBIT: [50, 100, 200]
    DELAY_MS: {from: 1, to: 100, steps: 5, scale: log}
    KERNEL: ["6.1", "7.2"]

First, all distinct runs are performed concurrently, each of them once. Then the notebooks are
executed, and reuse these runs. DIR receives runs/, notebooks/, failures/ and index.parquet. The
index has one row per point and condition; labs.batch(DIR) and notebook 10-batch-report read it. To
resume an interrupted batch, repeat the command. If a run fails, its log is kept and the others
continue. docs/batches.md explains plans, clusters and job arrays.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.cli.command import DRY_RUN, FRESH, JOBS, Answer, arg
from labs.errors import BadInput, Damaged, LabError, Missing, RunFailed
from labs.read.display.format import counted, few

if TYPE_CHECKING:
    from labs.batches.batch import Outcome
    from labs.batches.plan_file import PlanFile
    from labs.batches.prospect import Prospect
    from labs.launch.wanted import Engine

BATCHES = Path("batches")
SHOWN = 5
SHOWN_VALUES = 12
MACHINES = "many machines"
ARGUMENTS = (
    arg("PLAN", "the plan, a .yaml or .json file", Path),
    arg("--of LAB|NOTEBOOK", "a lab, a file ./mylab.py or a notebook, if the plan names none"),
    arg("--into DIR", f"the folder of the batch (default: {BATCHES}/ and the name of PLAN)", Path),
    arg("--fail-fast", "end the batch at the first failure"),
    FRESH,
    JOBS,
    DRY_RUN,
    arg("--scheduler ADDRESS", "a dask scheduler, such as tcp://HOST:8786", group=MACHINES),
    arg("--cluster local:N", "N dask workers on this machine, as a trial", group=MACHINES),
    arg(
        "--testbed TESTBED", "required for real-time runs on a cluster: namespaces", group=MACHINES
    ),
    arg("--shard I/N", "perform only shard I of N", group=MACHINES),
)


def main(args: Namespace) -> Answer:
    """Perform the batch, or show what would be done. Raises LabError."""
    from labs.batches.batch import RUNS
    from labs.batches.plan_file import read_plan
    from labs.batches.prospect import prospect_of

    shard = _shard(args)
    plan = read_plan(args.plan, subject=args.of)
    folder = args.into or BATCHES / (args.plan.stem + ("" if shard is None else _suffix(*shard)))
    prospect = prospect_of(plan, folder / RUNS, shard)
    _check_testbed(args, prospect)
    if args.dry_run:
        report = _prospect_as_json(args, plan, prospect, folder)
        return Answer(report, _describe_prospect(report))
    outcome = _perform(args, plan, prospect, folder)
    report = _as_json(outcome)
    return Answer(report, _describe(report), error=_error(outcome))


def _shard(args: Namespace) -> tuple[int, int] | None:
    """The shard that is requested; None for the whole batch."""
    from labs.batches.prospect import shard_of

    if args.shard is None:
        return None
    if args.scheduler or args.cluster:
        raise BadInput("a shard runs on one machine. Omit --scheduler and --cluster")
    shard = shard_of(args.shard)
    return None if shard == (1, 1) else shard


def _check_testbed(args: Namespace, prospect: Prospect) -> None:
    """Refuse flags that would have no effect, or another one than requested."""
    where = prospect.where
    testbed = where.name
    cluster = args.scheduler is not None or args.cluster is not None
    if prospect.shard is not None and not where.virtual_time:
        raise BadInput(
            f"runs on {testbed} cannot be divided into shards, because their repetitions depend on "
            "one another. Write a plan per machine"
        )
    if args.testbed and not cluster:
        raise BadInput("--testbed is for a cluster. Add --scheduler or --cluster, or omit it")
    if cluster and where.machines:
        raise BadInput(
            f"the testbed {testbed} cannot be used on a cluster. Use the testbed virtual, or omit "
            "--scheduler and --cluster"
        )
    if cluster and args.testbed != (None if where.virtual_time else testbed):
        raise BadInput(
            f"the testbed of the plan is {testbed}. On a cluster, real-time runs must be requested "
            f"with --testbed {testbed}, and others without --testbed"
        )


def _suffix(index: int, count: int) -> str:
    return f"-shard-{index}-of-{count}"


def _perform(args: Namespace, plan: PlanFile, prospect: Prospect, folder: Path) -> Outcome:
    from labs.batches.batch import owned, perform_batch
    from labs.batches.progress import Progress
    from labs.launch.plan import least_repetitions
    from labs.launch.wanted import Wanted

    wanted = Wanted(args.fresh, args.jobs, keep_going=not args.fail_fast)
    progress = Progress(len(prospect.distinct) * least_repetitions(prospect.points[0].parameters))
    try:
        with owned(folder), _engine(args) as engine:
            return perform_batch(plan, prospect, folder, replace(wanted, engine=engine), progress)
    finally:
        progress.close()


@contextmanager
def _engine(args: Namespace) -> Iterator[Engine | None]:
    if args.scheduler is None and args.cluster is None:
        yield None
        return
    from labs.batches.cluster import connect

    with connect(
        args.scheduler, args.cluster, tell=lambda line: print(line, file=sys.stderr)
    ) as engine:
        print(f"dashboard: {engine.dashboard}", file=sys.stderr)
        yield engine


def _prospect_as_json(
    args: Namespace, plan: PlanFile, prospect: Prospect, folder: Path
) -> dict[str, Any]:
    from labs.launch import slots
    from labs.read.runs.archive import is_run

    missing = [run for run in prospect.distinct if not is_run(prospect.runs / run.name)]
    side_by_side = slots.side_by_side(args.jobs, len(missing))
    estimate = prospect.estimate(missing, side_by_side, (prospect.runs, Path("runs")))
    return {
        "plan": str(plan.path),
        "of": plan.subject.name,
        "into": str(folder),
        "axes": {
            name: list(dict.fromkeys(point.values[name] for point in prospect.points))
            for name in prospect.varied
        },
        "points": len(prospect.points),
        "excluded": plan.product - plan.count,
        "impossible": dict(prospect.impossible),
        "runs": len(prospect.distinct),
        "existing": len(prospect.distinct) - len(missing),
        "notebooks": len(prospect.points) if plan.subject.path and prospect.shard is None else 0,
        "concurrent": side_by_side,
        "seconds": round(estimate.real_s, 1),
        "bytes": round(estimate.size_bytes),
        "estimated_from_runs": estimate.runs,
        "estimated_runs": estimate.covers,
        "estimated_roughly": estimate.rough,
    }


def _describe_prospect(preview: dict[str, Any]) -> str:
    from labs.drive.parameters.declare import plain
    from labs.guest.units import MIB

    excluded = f", without {preview['excluded']} excluded ones" if preview["excluded"] else ""
    lines = [f"{preview['of']}: {counted(preview['points'], 'point')}{excluded}"]
    for name, values in preview["axes"].items():
        lines.append(f"  {name}: {few(list(map(plain, values)), SHOWN_VALUES)}")
    lines.append(f"distinct runs: {preview['runs']}, of which {preview['existing']} exist")
    missing = preview["runs"] - preview["existing"]
    if preview["estimated_runs"]:
        duration = _describe_duration(preview["seconds"])
        lines.append(
            f"time: about {duration} with {preview['concurrent']} at a time; "
            f"space: about {preview['bytes'] / MIB:.3g} MiB, "
            f"for {counted(preview['estimated_runs'], 'run')}, "
            f"from {counted(preview['estimated_from_runs'], 'earlier run')} of the same conditions"
        )
    if rough := preview["estimated_roughly"]:
        lines.append(
            f"this estimate is rough: no earlier run has the settings of {counted(rough, 'run')}"
        )
    if without := missing - preview["estimated_runs"]:
        lines.append(
            f"time and space of {counted(without, 'run')} are unknown: no earlier run of the same "
            "condition exists here"
        )
    if preview["notebooks"]:
        lines.append(f"then {counted(preview['notebooks'], 'notebook')}, of a few seconds each")
    lines += [
        f"{counted(many, 'point')} cannot run: {why}" for why, many in preview["impossible"].items()
    ]
    return "\n".join([*lines, f"would write {preview['into']}"])


def _describe_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "into": str(outcome.folder),
        "index": str(outcome.index),
        "rows": dict(outcome.rows),
        "notes": dict(outcome.notes),
        "notebooks": outcome.notebooks,
        "failed_runs": {name: str(error) for name, error in outcome.failed_runs.items()},
        "failed_notebooks": {
            number: str(error) for number, error in outcome.failed_notebooks.items()
        },
        "impossible": dict(outcome.impossible),
    }


def _describe(report: dict[str, Any]) -> str:
    rows = ", ".join(f"{count} {status}" for status, count in report["rows"].items())
    lines = [f"{report['index']}: {sum(report['rows'].values())} rows: {rows}"]
    if report["notebooks"]:
        many = counted(report["notebooks"], "notebook")
        lines.append(f"{many} executed into {report['into']}/notebooks")
    noted = ", ".join(f"{code} {count}" for code, count in report["notes"].items())
    if noted:
        lines.append(f"rows with notes, by code: {noted}")
    for what in ("failed_runs", "failed_notebooks"):
        failures = list(report[what].items())
        lines += [f"{name}: {error}" for name, error in failures[:SHOWN]]
        if len(failures) > SHOWN:
            lines.append(f"and {len(failures) - SHOWN} more: see {report['into']}/failures")
    return "\n".join(lines)


def _error(outcome: Outcome) -> LabError | None:
    """What went wrong: failures, then damage, then points that cannot run here."""
    from labs.read.batch_index_schema import DAMAGED

    runs, notebooks = len(outcome.failed_runs), len(outcome.failed_notebooks)
    if runs or notebooks:
        return RunFailed(
            f"{counted(runs, 'run')} and {counted(notebooks, 'notebook')} failed. "
            "See above. Repeat the command to retry them"
        )
    if damaged := outcome.rows.get(DAMAGED):
        return Damaged(
            f"{counted(damaged, 'row')} damaged: the message column of {outcome.index} says why. "
            "Repeat the command with --fresh"
        )
    if outcome.without_results:
        return BadInput(
            f"the lab computes no results of {counted(outcome.without_results, 'row')}: see the "
            f"notes in {outcome.index}. Fix the lab"
        )
    for why, count in outcome.impossible.items():
        return Missing(f"{counted(count, 'point')} cannot run: {why}")
    return None
