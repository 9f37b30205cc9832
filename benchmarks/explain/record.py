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
from labs.drive.kernel.boot import PATH, boot
from labs.drive.kernel.guest_root import guest_root, kept_root
from labs.drive.kernel.store import find
from labs.errors import Missing

GUEST = Path(__file__).with_name("guest.py")
INTERPRETER = Path("/usr/bin/python3")
PROGRAMS = ("ip", "cp")
AT_ONCE = 12
MEMORY_MIB = 512


def record(scenarios: Sequence[Scenario], out: Path, *, jobs: int = 2) -> None:
    """Play the scenarios that `out` lacks: NAME.pcap and NAME.json of each."""
    missing = [one for one in scenarios if not (out / f"{one['name']}.json").exists()]
    out.mkdir(parents=True, exist_ok=True)
    found = {name: shutil.which(name, path=PATH) for name in PROGRAMS}
    for name, path in found.items():
        if path is None:
            raise Missing(
                f"{name} is not installed. Install it: apt-get install iproute2 coreutils"
            )
    programs = {name: Path(path) for name, path in found.items() if path}
    root = kept_root(guest_root(programs, INTERPRETER), INTERPRETER).folder
    batches = []
    for kernel in sorted({one["kernel"] for one in missing}):
        own = [one for one in missing if one["kernel"] == kernel]
        batches += [(kernel, own[at : at + AT_ONCE]) for at in range(0, len(own), AT_ONCE)]
    done = 0

    def play(batch: tuple[str, list[Scenario]]) -> None:
        nonlocal done
        kernel, own = batch
        _play(kernel, own, root, out)
        done += len(own)
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
        for one in scenarios:
            folder = staging / one["name"]
            shutil.copy(folder / f"{one['place']}.pcap", out / f"{one['name']}.pcap")
            truth = {"scenario": one, **json.loads((folder / "truth.json").read_text())}
            (out / f"{one['name']}.json").write_text(json.dumps(truth))
