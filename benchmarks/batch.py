"""What a batch costs beyond its runs, and what a second worker gains.

    python3 benchmarks/batch.py [--json] [FIGURE ...]

Needs a built kernel (`labs kernel build 6.1`) and a machine that does little else. Each figure is
compared with another one of the same call: the runs' own time, one worker, two busy processes.
FIGURE is plan, overhead, gain, dask, or notebooks; by default all are measured. Nothing here is a
test.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.virtual import describe, elapsed, spin

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "00-start-here.ipynb"
RUNS = "lab: nagle\nONLY: 'off'\nREQUESTS: 100\nDELAY_MS: {{from: 1, to: {runs}, step: 1}}\n"
MANY = "lab: buffers\nONLY: default\nRATE_MBIT: {from: 1, to: 1000, steps: 100, scale: log}\n"
MANY += "DELAY_MS: {from: 1, to: 300, steps: 100}\n"
NINE = f"notebook: {NOTEBOOK}\nRATE_MBIT: [50, 100, 200]\nDELAY_MS: [10, 20, 50]\n"
COUNT = 20
LARGE = 12
REPEATS = 3


def batch(plan: str, folder: Path, *words: str) -> float:
    """Perform a batch in a process of its own, from a plan's text; its seconds."""
    file = folder / "plan.yaml"
    file.write_text(plan)
    command = (sys.executable, "-m", "labs.cli", "batch", str(file), "--into", str(folder / "b"))
    return elapsed(lambda: subprocess.run((*command, *words), check=True, capture_output=True))


def real_s(folder: Path) -> list[float]:
    """The seconds of every run of a batch."""
    hosts = (folder / "b" / "runs").glob("*/host.json")
    return [float(json.loads(host.read_text())["real_s"]) for host in hosts]


def in_a_folder(measure: Callable[[Path], float]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder))


def plan() -> list[dict[str, object]]:
    """A dry run of 10,000 points: seconds and memory."""
    took_s = in_a_folder(lambda folder: batch(MANY, folder, "--dry-run"))
    kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return [
        {"figure": "10,000 points planned", "unit": "s real", "measured": took_s, "at_most": 10.0},
        {
            "figure": "10,000 points planned",
            "unit": "MB at most in use",
            "measured": kib * 1024 / 1e6,
            "at_most": 500.0,
        },
    ]


def overhead(*words: str) -> float:
    """Seconds per run that a batch of COUNT runs, one at a time, takes beyond the runs and beyond
    the same batch when all runs exist."""

    def once(folder: Path) -> float:
        text = RUNS.format(runs=COUNT)
        whole_s = batch(text, folder, "--jobs", "1", *words)
        started_s = batch(text, folder, "--jobs", "1", *words)
        return (whole_s - started_s - sum(real_s(folder))) / COUNT

    return in_a_folder(once)


def local() -> list[dict[str, object]]:
    """The overhead on this machine."""
    return [
        {
            "figure": "a run of a batch beyond the run itself, local",
            "unit": "s real",
            "measured": statistics.median(overhead() for _ in range(REPEATS)),
            "at_most": 0.3,
        }
    ]


def by_dask() -> list[dict[str, object]]:
    """The overhead on one worker process of dask."""
    return [
        {
            "figure": "a run of a batch beyond the run itself, by dask",
            "unit": "s real",
            "measured": statistics.median(overhead("--cluster", "local:1") for _ in range(REPEATS)),
            "at_most": 0.5,
        }
    ]


def gain() -> list[dict[str, object]]:
    """What two workers gain over one, and what two busy processes gain at the same time."""

    def seconds(jobs: int) -> float:
        text = "lab: buffers\nONLY: default\nTRANSFER_MIB: 256\nSEED: {from: 1, to: %d, step: 1}\n"
        return in_a_folder(lambda folder: batch(text % LARGE, folder, "--jobs", str(jobs)))

    gains, busy = [], []
    for _ in range(REPEATS):
        gains.append(seconds(1) / seconds(2))
        busy.append(2 * elapsed(lambda: spin(1)) / elapsed(lambda: spin(2)))
    return [
        {
            "figure": "gain of two workers over one",
            "unit": "times",
            "measured": statistics.median(gains),
            "at_least": 1.85,
        },
        {
            "figure": "gain of two busy processes over one",
            "unit": "times",
            "measured": statistics.median(busy),
        },
    ]


def notebooks() -> list[dict[str, object]]:
    """CPU seconds of nine notebooks as a batch, over 1.3 times those of their distinct runs and 5 s
    per notebook."""

    def cpu_s(text: str, folder: Path) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        batch(text, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)

    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as other:
        lab = "lab: buffers\nONLY: unshaped,default,both"
        runs_s = cpu_s(NINE.replace(f"notebook: {NOTEBOOK}", lab), Path(first))
        whole_s = cpu_s(NINE, Path(other))
        runs = len(real_s(Path(other)))
    return [
        {
            "figure": f"nine notebooks ({runs} runs) over 1.3 times their runs plus 5 s each",
            "unit": "ratio of CPU time",
            "measured": whole_s / (1.3 * runs_s + 9 * 5.0),
            "at_most": 1.0,
        }
    ]


FIGURES = {"plan": plan, "overhead": local, "dask": by_dask, "gain": gain, "notebooks": notebooks}


def main() -> int:
    as_json = "--json" in sys.argv
    chosen = [word for word in sys.argv[1:] if word != "--json"] or list(FIGURES)
    if wrong := [word for word in chosen if word not in FIGURES]:
        print(f"{wrong[0]} is not a figure. Allowed: {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    os.environ["PYTHONPATH"] = str(ROOT)
    figures = []
    for name in chosen:
        for figure in FIGURES[name]():
            figures.append(figure)
            print(describe(figure), file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
