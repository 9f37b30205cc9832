"""Plays scenarios inside virtual kernels and keeps one capture of each with its truth."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.explain.scenarios import Scenario
from labs.drive.kernel.boot import boot
from labs.drive.kernel.guest_root import kept_root
from labs.drive.kernel.kept_copy import file
from labs.drive.kernel.kit_maker import sources
from labs.drive.kernel.programs import programs
from labs.drive.kernel.store import find

GUEST = Path(__file__).with_name("guest.py")
INTERPRETER = Path("/usr/bin/python3")
PROGRAMS = ("ip", "cp")
AT_ONCE = 12
MEMORY_MIB = 512


def record(scenarios: Sequence[Scenario], out: Path, *, jobs: int = 2) -> None:
    """Play the scenarios that `out` lacks: NAME.pcap and NAME.json of each."""
    missing = [
        scenario for scenario in scenarios if not (out / f"{scenario['name']}.json").exists()
    ]
    out.mkdir(parents=True, exist_ok=True)
    paths = sources(programs(PROGRAMS), INTERPRETER)
    files = {name: file(path, not name.endswith(".py")) for name, path in paths.items()}
    root = kept_root(files, (INTERPRETER,)).folder
    batches = []
    for kernel in sorted({scenario["kernel"] for scenario in missing}):
        of_kernel = [scenario for scenario in missing if scenario["kernel"] == kernel]
        batches += [
            (kernel, of_kernel[at : at + AT_ONCE]) for at in range(0, len(of_kernel), AT_ONCE)
        ]
    done = 0

    def play(batch: tuple[str, list[Scenario]]) -> None:
        nonlocal done
        kernel, of_batch = batch
        _play(kernel, of_batch, root, out)
        done += len(of_batch)
        print(f"{done} of {len(missing)} scenarios recorded", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(play, batches))


def _play(kernel: str, scenarios: list[Scenario], root: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        staging = Path(name)
        shutil.copy(GUEST, staging / GUEST.name)
        (staging / "plan.json").write_text(json.dumps(scenarios))
        boot(
            find(kernel).path,
            root=root,
            staging=staging,
            code=GUEST.parent,
            argv=(str(INTERPRETER), "-I", "-S", f"/run/labs/run/{GUEST.name}"),
            memory_mib=MEMORY_MIB,
            seed=1,
        )
        for scenario in scenarios:
            folder = staging / scenario["name"]
            shutil.copy(folder / f"{scenario['place']}.pcap", out / f"{scenario['name']}.pcap")
            truth = {"scenario": scenario, **json.loads((folder / "truth.json").read_text())}
            (out / f"{scenario['name']}.json").write_text(json.dumps(truth))
