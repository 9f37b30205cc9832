"""The entry of a run's own process: `inside.py TESTBED`, in the folder that holds `inputs.json`.

Started inside a virtual kernel, or on this machine for the testbeds that use its own kernel. What
goes wrong is left in `failure.json`, so that whoever started the process can say it in one line.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import cast

from labs.drive.condition import from_json
from labs.drive.execution import Experiment, drive
from labs.drive.testbed.contract import Testbed
from labs.drive.testbed.link import Link
from labs.drive.testbed.namespaces import Namespaces
from labs.errors import BadInput, LabError, RunFailed

INPUTS = "inputs.json"
FAILURE = "failure.json"


def experiment_of(module: str, source: str | None) -> Experiment:
    """The experiment: a module of the package, or a reader's own file beside the package."""
    if source is None:
        return cast(Experiment, importlib.import_module(module))
    path = Path(__file__).resolve().parents[2] / source
    spec = importlib.util.spec_from_file_location(module, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{source} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return cast(Experiment, loaded)


def testbed_of(kind: str, link: Link, ssh_config: str | None) -> Testbed:
    """The testbed of that kind, not laid yet."""
    if kind == "vagrant":
        from labs.drive.testbed.vagrant import Vagrant

        assert ssh_config is not None
        return cast(Testbed, Vagrant(link, Path(ssh_config)))
    return cast(Testbed, Namespaces(link, own_kernel=kind == "virtual"))


def await_fine_timers() -> None:
    """Sleep until the kernel's timers are fine ones (the last word of /proc/net/psched is 1e9).

    A kernel that has just booted still counts in ticks, and tc, which asks for that, would give
    htb a burst of a whole tick: 500 kB at 1000 Mbit/s.
    """
    for _ in range(500):
        if int(Path("/proc/net/psched").read_text().split()[3], 16) == 1_000_000_000:
            return
        time.sleep(0.01)
    raise RunFailed("the kernel's timers did not become fine ones within 5 s; "
                    "it needs CONFIG_HIGH_RES_TIMERS: labs kernel check")


def main(argv: list[str]) -> int:
    folder = Path.cwd()
    # Whoever started this process ends it so; what it has laid must be taken away first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        order = json.loads((folder / INPUTS).read_text())
        (folder / INPUTS).unlink()
        link = from_json(order["inputs"]["condition"]).link
        if argv[0] == "virtual":
            await_fine_timers()
        experiment = experiment_of(order["module"], order["source"])
        drive(order, experiment, testbed_of(argv[0], link, order["ssh_config"]), folder,
              lambda line: print(f"labs: {line}", flush=True))
    except BaseException as error:
        kind = type(error).__name__ if isinstance(error, LabError) else "RunFailed"
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = str(error) if isinstance(error, LabError) else (
            f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})")
        if isinstance(error, KeyboardInterrupt):
            message = "stopped by ^C; nothing is kept of this run, and running again goes on"
        (folder / FAILURE).write_text(json.dumps({"kind": kind, "message": message}))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
