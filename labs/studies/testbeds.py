"""What this machine can run, as a table for a notebook; `labs doctor` says more of it."""

from __future__ import annotations

from labs.drive.testbed.doctor import Diagnosis, examine
from labs.read.display.notebook import Table


def what_runs_here(kernel: str) -> Table:
    """A row a testbed: what it is, whether it can run here, and what to do first if not.

    `kernel` is the one that the virtual testbed is to boot.
    """
    found = examine(kernel)
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
