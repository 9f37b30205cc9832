"""The conditions that a figure compares, and where they ran: places of studies, and the caption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labs.read.display.provenance import of_table
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import Repeated, on_one_kernel
from labs.read.study import Study


def chosen(study: Study, conditions: Sequence[str]) -> list[Repeated]:
    """Those of these conditions that have undisturbed runs, in this order: with their runs on one
    kernel, or if none has them all, each with its runs on the kernel that has most."""
    by_name = {one.condition: one for one in study.repeated if one.counted}
    some = [by_name[name] for name in conditions if name in by_name]
    return list(on_one_kernel(some) or (alone for one in some for alone in on_one_kernel([one])))


def where(study: Study, compared: Sequence[Repeated]) -> str:
    """Testbed, kernels, link and source of the runs that are compared."""
    table = study.results()
    kernels = {one.condition: one.runs[0].kernel.release for one in compared}
    rows = table[table["condition"].isin(list(kernels))]
    return of_table(rows.assign(kernel=rows["condition"].map(kernels)))


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
