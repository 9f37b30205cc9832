"""Testbeds: which can run here, and the command that runs a study on a second one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from labs.catalog import lab_of
from labs.drive.parameters.declare import LabParameters, declared, plain
from labs.drive.testbed.diagnosis import SHAPING, Check, Diagnosis, examine
from labs.drive.testbeds import TESTBEDS
from labs.errors import BadInput
from labs.read.lab import Lab
from labs.read.loading import load

if TYPE_CHECKING:
    from labs.read.display.rich_output import Table

NOT_TOLD = frozenset({"testbed", "kernel", "runs", "size", "only"})
"""Not repeated in the command: the other testbed has its own values, and the folder of the runs
depends on where the command is given."""


def testbeds(p: LabParameters) -> Table:
    """One row per testbed: what it is, whether these conditions can run on it here, and if not,
    what to do first.

    The virtual testbed is checked for the first kernel that the parameters name.
    """
    # The trials are programs; meanwhile this process imports what shows a table.
    with ThreadPoolExecutor(1) as trials:
        examined = trials.submit(examine, p.kernels[0])
        table = load("labs.read.display.rich_output").Table
        diagnoses = examined.result()
    shaped = any(condition.link.shaped for condition in lab_of(p).conditions(p))
    shown: Table = table(_row(diagnosis, shaped) for diagnosis in diagnoses)
    return shown


def _row(diagnosis: Diagnosis, shaped: bool) -> dict[str, str]:
    lacking = next((check for check in diagnosis.checks if _lacks(check, shaped)), None)
    return {
        "Testbed": diagnosis.where.name,
        "What it is": diagnosis.where.what,
        "Runs here": "no" if lacking else "yes",
        "Reason if not": f"{lacking.name}: {lacking.finding}" if lacking else "",
        "Next step": lacking.next_step if lacking else "",
    }


def _lacks(check: Check, shaped: bool) -> bool:
    """Whether a requirement is not met; those of shaped links count if there are any."""
    return not check.ok and (check.needed or (shaped and check.name in SHAPING))


def check_second(testbed: str) -> None:
    """BadInput for a testbed that cannot be the second one."""
    allowed = [kind.name for kind in TESTBEDS.values() if kind.second]
    if testbed not in allowed:
        raise BadInput(f"{testbed} cannot be the second testbed. Allowed: {', '.join(allowed)}")


def command_for(
    lab: Lab, parameters: LabParameters, conditions: Sequence[str], testbed: str
) -> str:
    """The command that runs the conditions on another testbed."""
    flags = _flags(lab, parameters, testbed)
    words = ["labs", "run", lab.name, "--testbed", testbed, *flags, "--only", ",".join(conditions)]
    return TESTBEDS[testbed].before + shlex.join(words)


def _flags(lab: Lab, parameters: LabParameters, testbed: str) -> Iterator[str]:
    # A parameter with another default on that testbed is named even if it has its usual value.
    otherwise = parameters.testbed_defaults(testbed, lab.Parameters().size)
    for name, declaration in declared(lab.Parameters).items():
        value = getattr(parameters, name)
        if name not in NOT_TOLD and (value != declaration.default or name in otherwise):
            yield declaration.flag
            if not isinstance(value, bool):
                yield plain(value)
