"""How fast the virtual testbed is, as ratios wherever there is something to compare with.

    python3 benchmarks/virtual.py [--json]

Needs a built kernel (`labs kernel build 6.1`) and a machine that does little else. Prints, for each
figure, what was measured and what the project holds itself to. Nothing here is a test: a slow
machine is no mistake.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from labs.catalog import find
from labs.drive.kernel import store
from labs.drive.kernel.boot import command_line
from labs.drive.parameters.declare import LabParameters
from labs.errors import LabError
from labs.launch.launch import plan_points, run, run_points
from labs.launch.wanted import Event, Wanted

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "00-start-here.ipynb"
SPIN = "import time\nt = time.process_time()\nwhile time.process_time() - t < 3: pass"
REPEATS = 5
NOTEBOOK_REPEATS = 15  # single ones differ by a fifth
AT_LINE_RATE_S = 3


def parameters(runs: str, **given: object) -> LabParameters:
    """The parameters of the lab `buffers` with some of them given."""
    return find("buffers").Parameters(runs=runs, **given)  # type: ignore[arg-type]


def clock(**given: object) -> list[tuple[float, int]]:
    """Make a fresh run; when (real seconds) it said how many virtual seconds its download took.

    The first seconds are left out: slow start has little to carry.
    """
    moments: list[tuple[float, int]] = []

    def tell(condition: str, event: Event) -> None:
        word = str(event).removesuffix(" s")
        if word.isdigit() and int(word) >= AT_LINE_RATE_S:
            moments.append((time.monotonic(), int(word)))

    with tempfile.TemporaryDirectory() as folder:
        run(find("buffers"), parameters(folder, **given), Wanted(jobs=1, tell=tell))
    return moments


def one_request() -> dict[str, object]:
    """A whole run that fetches one MiB (boot, link, check, request, halt, seal), over the boot of
    its kernel until the first program starts, in turns."""

    def request() -> None:
        clock(only="both", transfer_mib=1)

    request()
    ratios = [elapsed(request) / elapsed(boot_to_init) for _ in range(REPEATS)]
    return {
        "figure": "a run that sends one request, warm, over the boot of the bare kernel",
        "unit": "ratio",
        "measured": statistics.median(ratios),
        "at_most": 4.0,
    }


def boot_to_init() -> None:
    """Boot a kernel until it starts its first program, and end it."""
    words = (*command_line(4096, 1)[:-4], "init=/bin/true")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "guest").symlink_to("/")
        kernel = subprocess.Popen(
            (str(store.find("6.1").path.resolve()), *words),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"HOME": folder, "TMPDIR": folder},
            start_new_session=True,
        )
        with kernel:
            assert kernel.stdout is not None
            begun = any(b"as init process" in line for line in kernel.stdout)
            os.killpg(kernel.pid, signal.SIGKILL)  # the programs of the guest, too
            if not begun:
                raise RuntimeError("the kernel started no program")


def download(client: str, repeats: int, **given: object) -> dict[str, object]:
    """Virtual seconds a real second while 1 GiB goes over 1000 Mbit/s, 200 ms, 50 MiB buffers."""

    def once() -> float:
        moments = clock(only="both", client=client, **given)
        (first, started_s), (last, ended_s) = moments[0], moments[-1]
        return (ended_s - started_s) / (last - first)

    measured: dict[str, object] = {
        "figure": f"a download at the line rate, client {client}"
        + "".join(f", {name} {value}" for name, value in given.items()),
        "unit": "virtual s per real s",
        "measured": statistics.median(once() for _ in range(repeats)),
    }
    measured["at_least"] = 20.0 if client == "discard" else 1.5
    return measured


FLOWS = '''"""Flows over a FIFO of one BDP."""
from labs.guest.flows import Flow, Traffic
from labs.drive.parameters import LabParameters as Parameters
from labs.guest.testbed.path import Direction, NetworkPath
from labs.guest.traffic import lines, measure, tools

def conditions(p):
    path = NetworkPath(Direction({rate_mbit}, 20), Direction(delay_ms=20))
    return Traffic(path, (Flow(),) * {flows}, {duration_s}).condition("one", p.testbed),

class Results:
    def __init__(self, run):
        pass
'''


def traffic(flows: int, rate_mbit: int, duration_s: int) -> tuple[float, int]:
    """The real time of a whole run with flows, and the packets that left its queue. Its kernel
    boots as for a lab of the package; for a lab in a file it would trace the programs."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Path(folder) / f"flows_{flows}.py"
        lab.write_text(FLOWS.format(flows=flows, rate_mbit=rate_mbit, duration_s=duration_s))
        lab_of_flows = find(str(lab))
        p = lab_of_flows.Parameters(runs=folder)
        took_s = elapsed(lambda: run(lab_of_flows, p, Wanted(jobs=1, boot="seccomp")))
        (shown,) = Path(folder).glob("*/router/queues-after.json")
        packets = [
            queue["packets"] for queue in json.loads(shown.read_text()) if queue["kind"] == "pfifo"
        ]
    return took_s, sum(packets)


def eight_flows() -> dict[str, object]:
    """A run of 60 virtual seconds with eight flows."""
    return {
        "figure": "a run of 8 flows at 100 Mbit/s for 60 s",
        "unit": "s",
        "measured": traffic(8, 100, 60)[0],
        "at_most": 12.0,
    }


def cost_of_flows() -> dict[str, object]:
    """What a packet of eight flows costs, over one of a single flow, in turns."""

    def cost_s(flows: int) -> float:
        took_s, packets = traffic(flows, 100, 30)
        return took_s / packets

    return {
        "figure": "real time per packet of 8 flows over that of one flow",
        "unit": "ratio",
        "measured": statistics.median(cost_s(8) / cost_s(1) for _ in range(3)),
        "at_most": 1.3,
    }


def many_flows() -> dict[str, object]:
    """A run of ten virtual seconds with 64 flows."""
    return {
        "figure": "a run of 64 flows at 1000 Mbit/s for 10 s",
        "unit": "s",
        "measured": traffic(64, 1000, 10)[0],
        "at_most": 60.0,
    }


def elapsed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def spin(count: int) -> None:
    """Keep one or two CPUs busy for three seconds of their time each."""
    processes = [
        subprocess.Popen(("taskset", "-c", str(cpu), sys.executable, "-c", SPIN))
        for cpu in sorted(os.sched_getaffinity(0))[:count]
    ]
    for process in processes:
        process.wait()


def side_by_side() -> dict[str, object]:
    """What two runs of a batch side by side gain, against what two CPU-bound processes gain this
    minute. Both take equally long, so that their work in this interpreter falls at the same time:
    the worst case."""

    def runs(count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            points = [parameters(folder, only="default", seed=seed) for seed in range(count)]
            lab = find("buffers")
            planned = plan_points(lab, points)
            for made in run_points(lab, points, planned, Wanted(jobs=count)):
                if isinstance(made, LabError):
                    raise made

    def gain(work: Callable[[int], None]) -> float:
        return 2 * elapsed(lambda: work(1)) / elapsed(lambda: work(2))

    ratios = [gain(runs) / gain(wall_spin) for wall_spin in [spin] * 3]
    return {
        "figure": "gain of two runs side by side over that of two busy processes",
        "unit": "ratio",
        "measured": statistics.median(ratios),
        "at_least": 0.95,
    }


def run_all_again() -> dict[str, object]:
    """Run All of the first notebook, with its runs there, in a new process: the time of its cells,
    over that of importing pandas, timed in turns. A cell takes from the kernel's report that it is
    busy to the one that it is idle, which JupyterLab stores as well; papermill's durations also
    contain writing the notebook twice per cell."""

    def cells(folder: str) -> float:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        code[0].source += f"\nRUNS = {folder!r}"
        NotebookClient(notebook, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
        return sum(map(busy_s, code))

    def busy_s(cell: nbformat.NotebookNode) -> float:
        busy, idle = (
            datetime.fromisoformat(cell.metadata.execution[f"iopub.status.{state}"])
            for state in ("busy", "idle")
        )
        return (idle - busy).total_seconds()

    def import_pandas() -> None:
        subprocess.run((sys.executable, "-c", "import pandas"), check=True)

    with tempfile.TemporaryDirectory() as folder:
        cells(folder)
        ratios = [cells(folder) / elapsed(import_pandas) for _ in range(NOTEBOOK_REPEATS)]
    return {
        "figure": "Run All again in a new process over the import of pandas",
        "unit": "ratio",
        "measured": statistics.median(ratios),
        "at_most": 2.5,
    }


def describe(measured: dict[str, object]) -> str:
    """One figure as a line, with the bound that it is held to."""
    bound = "".join(
        f"  ({name.replace('_', ' ')} {measured[name]})"
        for name in ("at_least", "at_most")
        if name in measured
    )
    return f"{measured['figure']}: {measured['measured']:.2f} {measured['unit']}{bound}"


def main() -> int:
    figures = [
        one_request,
        lambda: download("discard", 3),
        lambda: download("discard", 3, read_bytes=1 << 20),
        lambda: download("wget", 1),
        side_by_side,
        run_all_again,
        eight_flows,
        cost_of_flows,
        many_flows,
    ]
    out = sys.stderr if "--json" in sys.argv else sys.stdout
    measured = []
    for figure in figures:
        measured.append(figure())
        print(describe(measured[-1]), file=out, flush=True)
    if "--json" in sys.argv:
        print(json.dumps(measured, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
