"""What every testbed is held to: one set of checks, run against each of the testbeds.

A check is a function `check_...` that is given a `Setting` (how to open a testbed) or, most often,
a testbed that is open. It asserts, or raises NotApplicable with the reason. Standard library only,
for the checks also run inside a booted kernel, where there is nothing else.
"""

from __future__ import annotations

from tests.contract import files, leaving, links, running, starting, sysctls
from tests.contract.setting import Check, NotApplicable, Setting, checks_of, run

__all__ = ["CHECKS", "Check", "NotApplicable", "Setting", "run"]

CHECKS: dict[str, Check] = {
    name: check
    for subject in (running, starting, files, sysctls, links, leaving)
    for name, check in checks_of(subject).items()
}
