"""The testbeds that this machine can run, as a table; `labs doctor` has the details."""

from __future__ import annotations

from labs.drive.parameters.declare import LabParameters
from labs.drive.testbed.diagnosis import Diagnosis, examine
from labs.read.display.rich_output import Table


def testbeds(p: LabParameters) -> Table:
    """One row per testbed: what it is, whether it can run here, and what to do first if not.

    The virtual testbed is examined for the kernel that the parameters name.
    """
    found = examine(p.kernel)
    return Table(
        {
            "testbed": [one.testbed for one in found],
            "what it is": [one.what for one in found],
            "runs here": ["yes" if one.can_run else "no" for one in found],
            "if not, why": [_reason(one) for one in found],
            "the next step": [one.first_step() for one in found],
        }
    )


def _reason(one: Diagnosis) -> str:
    return next(
        (f"{check.name}: {check.found}" for check in one.checks if check.needed and not check.ok),
        "",
    )
