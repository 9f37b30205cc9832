"""The conditions that a figure compares, and the line below it that names where they ran."""

from __future__ import annotations

from collections.abc import Sequence

from labs.read.display.provenance import of_table
from labs.read.lab import Study
from labs.read.stats.repetitions import Repeated, on_one_kernel


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
