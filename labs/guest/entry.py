"""The entry of a run's own process, started in the folder that holds `inputs.json`.

It runs inside a virtual kernel, or on this machine for the testbeds that use its own kernel. What
goes wrong is left in `failure.json`, so that whoever started the process can say it in one line.
"""

from __future__ import annotations

import importlib
import json
import signal
import traceback
from pathlib import Path
from typing import cast

from labs.errors import LabError
from labs.guest.condition import from_json
from labs.guest.execution import Experiment, drive

INPUTS = "inputs.json"
FAILURE = "failure.json"
# -c, not -m: isolated mode keeps the working folder off the path.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from labs.guest.entry import main; raise SystemExit(main(*sys.argv[2:]))"
)


def argv(interpreter: Path, code: str, testbed: str, experiment: str) -> tuple[str, ...]:
    """The words that start a run with the code at `code`, without site packages or settings.

    `testbed` is the module that opens the testbed, `experiment` the one that has `measure`.
    """
    return (str(interpreter), "-I", "-S", "-c", _START, code, testbed, experiment)


def main(testbed: str, experiment: str) -> int:
    """Make the run that `inputs.json` asks for; both names are modules that this loads."""
    folder = Path.cwd()
    # Whoever started this process ends it so; what it has set up must be torn down first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        order = json.loads((folder / INPUTS).read_text())
        (folder / INPUTS).unlink()
        link = from_json(order["inputs"]["condition"]).link
        hosts = importlib.import_module(testbed).open_testbed(link, order["ssh_config"])
        measured = cast(Experiment, importlib.import_module(experiment))
        drive(order, measured, hosts, folder, lambda line: print(f"labs: {line}", flush=True))
    except BaseException as error:
        kind = type(error).__name__ if isinstance(error, LabError) else "RunFailed"
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = (
            str(error)
            if isinstance(error, LabError)
            else (
                f"{type(error).__name__}: {error} ({Path(where.filename).name}, line "
                f"{where.lineno})"
            )
        )
        if isinstance(error, KeyboardInterrupt):
            message = "stopped by ^C; nothing is kept of this run, and running again goes on"
        (folder / FAILURE).write_text(json.dumps({"kind": kind, "message": message}))
        return 1
    return 0
