"""Repetitions on machines, derived from a real run in virtual time: never data, only for tests.

Each copy says of itself another testbed, which repetition it is, and what its machines did; its
download took `1 / speed` times as long. Everything else is the real run's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labs.drive.record.run_folder import Staging, run_name
from labs.drive.record.seal import NOT_SEALED, key
from labs.drive.record.study_file import Planned, StudyFile, write_study
from labs.read.runs.run import Run, open_run
from labs.studies.study import Study

OFFLOADS = """\
Features for eth1:
tcp-segmentation-offload: {tso}
\ttx-tcp-segmentation: {tso}
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
"""
TICKS_S = 20
UNSEALED = shutil.ignore_patterns(*NOT_SEALED)
"""What sealing a copy writes anew."""


def machine(
    *,
    busy_pct: float = 20,
    stolen_pct: float = 0,
    load: float = 0.4,
    hz: int = 250,
    release: str = "6.1.0-49-cloud-amd64",
    tso: str = "on",
) -> dict[str, Any]:
    """A machine as in `machines.json`: one CPU, observed for 20 seconds."""
    ticks = 100 * TICKS_S
    busy, stolen = round(ticks * busy_pct / 100), round(ticks * stolen_pct / 100)

    def moment(part: int) -> dict[str, str]:
        times = (busy * part, 0, 0, (ticks - busy - stolen) * part, 0, 0, 0, stolen * part, 0, 0)
        words = " ".join(map(str, times))
        return {
            "/proc/stat": f"cpu  {words}\ncpu0 {words}\n",
            "/proc/loadavg": f"{load} 0.10 0.05 1/90 4711\n",
            "/proc/timer_list": f"now at {10**9 + part * TICKS_S * 10**9} nsecs\n"
            f"jiffies: {4294900000 + part * TICKS_S * hz}\n",
        }

    return {
        "before": moment(0),
        "after": moment(1),
        "/proc/cpuinfo": "model name\t: QEMU Virtual CPU\n",
        "/proc/sys/kernel/osrelease": f"{release}\n",
        "driver": "driver: virtio_net\nversion: 1.0.0\n",
        "offloads": OFFLOADS.format(tso=tso),
    }


def machines(**client: Any) -> dict[str, Any]:
    """The three machines of a run on two; the arguments are those of the client."""
    return {"here": machine(), "server": machine(), "client": machine(**client)}


def repetition(
    runs: Path,
    run: Run,
    number: int,
    *,
    testbed: str = "vagrant",
    speed: float = 1.0,
    machines: dict[str, Any] | None = None,
    release: str = "6.1.0-49-cloud-amd64",
    problems: Sequence[str] = (),
) -> Run:
    """Write and seal one repetition, and open it."""
    record = deepcopy(dict(run.record))
    record["inputs"] |= {"testbed": testbed, "kernel": None, "repetition": number}
    record["key"] = key(record["inputs"])
    record["kernel"] = {"release": release, "hz": None}
    record["link"] |= {"ok": not problems, "problems": list(problems)}
    with Staging(runs, run_name(run.lab, run.condition, record["key"])) as staging:
        shutil.copytree(run.path, staging.folder, dirs_exist_ok=True, ignore=UNSEALED)
        staging.write_json("run.json", record)
        staging.write_json("machines.json", machines or globals()["machines"]())
        fetched = run.fetch()
        if fetched is not None:
            staging.write_json("client/fetch.json", _slower(fetched, speed))
        return open_run(staging.seal({}))


def _slower(fetched: dict[str, Any], speed: float) -> dict[str, Any]:
    """The download, stretched in time after its first byte."""
    first = fetched["first_byte_ns"]

    def moved(at_ns: int) -> int:
        return int(first + round((at_ns - first) / speed))

    return {
        **fetched,
        "end_ns": moved(fetched["end_ns"]),
        "timeline": [[moved(at_ns), size] for at_ns, size in fetched["timeline"]],
    }


def repetitions(runs: Path, run: Run, speeds: Sequence[float], **same: Any) -> tuple[Run, ...]:
    """One repetition per speed, numbered from 1."""
    return tuple(
        repetition(runs, run, number, speed=speed, **same)
        for number, speed in enumerate(speeds, start=1)
    )


def study_file(study: Study, runs: Sequence[Run], testbed: str = "vagrant") -> StudyFile:
    """The study of these repetitions, as `labs run` writes it."""
    parameters = json.loads(json.dumps({**asdict(study.parameters), "testbed": testbed}))
    return write_study(
        runs[0].path.parent,
        study.lab.name,
        parameters,
        [Planned(run.condition, run.key) for run in runs],
    )
