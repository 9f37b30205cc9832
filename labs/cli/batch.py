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

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.errors import BadInput, Missing, RunFailed

if TYPE_CHECKING:
    from labs.batches.batch import Outcome
    from labs.batches.plan_file import PlanFile
    from labs.batches.prospect import Prospect
    from labs.launch.engine import Engine
    from labs.launch.plan import Planned

BATCHES = Path("batches")
SHOWN = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the plan, a .yaml or .json file")
    parser.add_argument(
        "--of",
        metavar="LAB|NOTEBOOK",
        help="a lab, a file ./mylab.py or a notebook, if the plan names none",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help=f"the folder of the batch (default: {BATCHES}/ and the name of PLAN)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fresh", action="store_true", help="repeat existing runs and notebooks")
    parser.add_argument(
        "--fail-fast", action="store_true", help="end the batch at the first failure"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="concurrent runs (default: LABS_JOBS, or one per CPU)"
    )
    machines = parser.add_argument_group("many machines")
    machines.add_argument(
        "--scheduler", metavar="ADDRESS", help="a dask scheduler, such as tcp://HOST:8786"
    )
    machines.add_argument(
        "--cluster", metavar="local:N", help="N dask workers on this machine, as a trial"
    )
    machines.add_argument(
        "--any-inputs",
        action="store_true",
        help="also use workers whose programs differ; their runs have different keys",
    )
    machines.add_argument("--testbed", help="required for real-time runs on a cluster: namespaces")
    machines.add_argument(
        "--shard",
        metavar="I/N",
        help="perform only shard I of N (default in a job array: the shard of the task)",
    )
    machines.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        default=(),
        metavar="DIR",
        help="first copy the runs of these batches (such as shards) or folders of runs",
    )


def main(args: argparse.Namespace) -> int:
    """Perform the batch and print its outcome. Raises LabError."""
    if args.jobs is not None and args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs} is out of range; allowed: 1 or more")
    from labs.batches.batch import RUNS
    from labs.batches.plan_file import read_plan
    from labs.batches.prospect import prospect

    shard = _shard(args)
    plan = read_plan(args.plan, subject=args.of)
    folder = args.into or BATCHES / (args.plan.stem + ("" if shard is None else _suffix(*shard)))
    found = prospect(plan, folder / RUNS)
    if args.dry_run:
        said = _prospect_as_json(plan, found, folder, args.jobs)
        print(json.dumps(said) if args.json else _prospect_as_text(said))
        return 0
    outcome = _perform(args, plan, found, folder, shard)
    said = _as_json(outcome)
    print(json.dumps(said) if args.json else _as_text(said))
    return _verdict(outcome, complete=shard is None)


def _shard(args: argparse.Namespace) -> tuple[int, int] | None:
    from labs.batches.shards import from_environment, parse

    found = from_environment(os.environ) if args.shard is None else parse(args.shard)
    if found is not None and (args.scheduler or args.cluster):
        raise BadInput("a shard runs on one machine. Omit --scheduler and --cluster")
    return found


def _suffix(index: int, count: int) -> str:
    return f"-shard-{index}-of-{count}"


def _perform(
    args: argparse.Namespace,
    plan: PlanFile,
    found: Prospect,
    folder: Path,
    shard: tuple[int, int] | None,
) -> Outcome:
    from labs.batches import shards
    from labs.batches.batch import RUNS, Options, owned, perform_batch
    from labs.batches.progress import Progress

    def chosen(runs: Sequence[Planned]) -> Sequence[Planned]:
        assert shard is not None
        return shards.shard(runs, *shard)

    options = Options(args.jobs, args.fresh, args.fail_fast, None if shard is None else chosen)
    runs = found.distinct if shard is None else chosen(found.distinct)
    progress = Progress(len(runs))
    try:
        with owned(folder), _engine(args, found) as engine:
            if args.merge:
                places = [one / RUNS if (one / RUNS).is_dir() else one for one in args.merge]
                shards.merge(places, found.runs, lambda line: print(line, file=sys.stderr))
            return perform_batch(plan, found, folder, options, progress, engine)
    finally:
        progress.close()


@contextmanager
def _engine(args: argparse.Namespace, found: Prospect) -> Iterator[Engine | None]:
    if args.scheduler is None and args.cluster is None:
        yield None
        return
    from labs.batches.cluster import connect

    testbed = found.parameters[0].testbed
    if testbed != "virtual" and args.testbed != testbed:
        raise BadInput(
            f"real-time runs (testbed {testbed}) must be requested on a cluster. "
            f"Add --testbed {testbed}"
        )
    with connect(
        args.scheduler,
        args.cluster,
        any_inputs=args.any_inputs,
        real_time=testbed != "virtual",
        tell=lambda line: print(line, file=sys.stderr),
    ) as engine:
        print(f"dashboard: {engine.dashboard}", file=sys.stderr)
        yield engine


def _prospect_as_json(
    plan: PlanFile, found: Prospect, folder: Path, jobs: int | None
) -> dict[str, Any]:
    from labs.launch import slots

    side_by_side = slots.side_by_side(jobs, len(found.missing))
    estimate = found.estimate(side_by_side, (found.runs, Path("runs")))
    known = estimate.runs > 0 or not found.missing
    return {
        "plan": str(plan.path),
        "of": plan.subject.name,
        "into": str(folder),
        "axes": {name: len({p.values[name] for p in found.points}) for name in found.varied},
        "points": len(found.points),
        "impossible": dict(found.impossible),
        "runs": len(found.distinct),
        "existing": len(found.distinct) - len(found.missing),
        "concurrent": side_by_side,
        "seconds": round(estimate.real_s, 1) if known else None,
        "bytes": round(estimate.size_bytes) if known else None,
        "estimated_from_runs": estimate.runs,
    }


def _prospect_as_text(said: dict[str, Any]) -> str:
    from labs.drive.units import MIB

    axes = " x ".join(f"{name} {count}" for name, count in said["axes"].items())
    lines = [
        f"{said['of']}: {said['points']} points" + (f" ({axes})" if axes else ""),
        f"distinct runs: {said['runs']}, of which {said['existing']} exist",
    ]
    if said["seconds"] is None:
        lines.append("time and space: unknown, because no run of this lab exists here yet")
    elif said["runs"] > said["existing"]:
        lines.append(
            f"time: about {_in_words(said['seconds'])} with {said['concurrent']} at a time; space: "
            f"about {said['bytes'] / MIB:.3g} MiB (from {said['estimated_from_runs']} earlier runs)"
        )
    lines += [f"{count} points cannot run: {why}" for why, count in said["impossible"].items()]
    return "\n".join([*lines, f"would write {said['into']}"])


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "into": str(outcome.folder),
        "index": str(outcome.index),
        "rows": dict(outcome.rows),
        "notebooks": outcome.notebooks,
        "failed_runs": {name: str(error) for name, error in outcome.failed_runs.items()},
        "failed_notebooks": {
            number: str(error) for number, error in outcome.failed_notebooks.items()
        },
        "impossible": dict(outcome.impossible),
    }


def _as_text(said: dict[str, Any]) -> str:
    rows = ", ".join(f"{count} {status}" for status, count in said["rows"].items())
    lines = [f"{said['index']}: {sum(said['rows'].values())} rows: {rows}"]
    if said["notebooks"]:
        lines.append(f"{said['notebooks']} notebooks executed into {said['into']}/notebooks")
    for what in ("failed_runs", "failed_notebooks"):
        found = list(said[what].items())
        lines += [f"{name}: {error}" for name, error in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"and {len(found) - SHOWN} more: see {said['into']}/failures")
    return "\n".join(lines)


def _verdict(outcome: Outcome, *, complete: bool) -> int:
    """0; raises RunFailed for failures, or else Missing for points that cannot run here."""
    failed = len(outcome.failed_runs) + len(outcome.failed_notebooks)
    if failed:
        raise RunFailed(
            f"{len(outcome.failed_runs)} runs and {len(outcome.failed_notebooks)} notebooks "
            "failed. See above. Repeat the command to retry them"
        )
    if outcome.impossible:
        why, count = next(iter(outcome.impossible.items()))
        raise Missing(f"{count} points cannot run: {why}")
    return 0
