"""The contract of testbeds: one set of checks, run against each of them.

A check is a function `check_...` with a parameter `setting` (how to open a testbed) or, usually,
`testbed` (an open one). It asserts, or raises NotApplicable with the reason. Standard library only,
because the checks also run inside a booted kernel, where nothing else exists.
"""

from __future__ import annotations

from tests.contract import files, leaving, links, running, starting, sysctls, watching
from tests.contract.setting import Check, NotApplicable, Setting, checks_of, run

__all__ = ["CHECKS", "Check", "NotApplicable", "Setting", "run"]

CHECKS: dict[str, Check] = {
    name: check
    for subject in (running, starting, files, sysctls, links, watching, leaving)
    for name, check in checks_of(subject).items()
}
