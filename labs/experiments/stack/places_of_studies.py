"""Names of studies by where they were measured."""

from __future__ import annotations

from collections.abc import Iterable

from labs.read.lab import Study
from labs.read.stats.machines import machines


def places(studies: Iterable[Study]) -> dict[str, Study]:
    """The studies that have runs, by testbed and driver of the server's device: "namespaces
    (veth)"; several of the same kind are numbered."""
    found: dict[str, Study] = {}
    for study in studies:
        if study.runs:
            name = _place(study)
            number = sum(one.partition(", number")[0] == name for one in found)
            found[f"{name}, number {number + 1}" if number else name] = study
    return found


def _place(study: Study) -> str:
    run = study.runs[0]
    known = machines(run).get("server")
    driver = known.driver if known else None
    return f"{run.testbed} ({driver.replace('_', '-')})" if driver else run.testbed
