"""The machines of a study's runs side by side: what each is, and what it did meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from labs.drive.host_load import HERE
from labs.read.display.notebook import Table
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines

COLUMNS = (
    "testbed",
    "machine",
    "Linux",
    "HZ",
    "CPUs",
    "driver",
    "off",
    "busiest CPU of any run, %",
    "all CPUs, %",
    "stolen, %",
    "load before",
    "sampled every, ms",
)


def machine_rows(*studies: Iterable[Run]) -> Table:
    """A row a machine of each study's runs.

    What was measured in every run is the median over them, unless its name says that it is the
    highest. `off` are the offloads that are off. On virtual time there are no machines: the row
    says which kernel, and the rest is empty.
    """
    rows = [row for study in studies for row in _rows(tuple(study))]
    return Table(rows, columns=list(COLUMNS))


def machine_columns(*studies: Iterable[Run]) -> Table:
    """The same to be read: a column a machine, a row what is known of it."""
    rows = machine_rows(*studies)
    names = [f"{row['testbed']}, {row['machine']}" for row in rows.to_dict("records")]
    told = rows.drop(columns=["testbed", "machine"])
    return Table(
        {"": list(told), **{name: told.iloc[place].tolist() for place, name in enumerate(names)}}
    )


def _rows(runs: Sequence[Run]) -> list[dict[str, object]]:
    if not runs:
        return []
    seen: dict[str, list[Machine]] = {}
    for run in runs:
        for name, one in machines(run).items():
            seen.setdefault(name, []).append(one)
    if not seen:
        kernels = {f"{run.kernel.release}": run.kernel.hz for run in runs}
        return [
            {"testbed": runs[0].testbed, "machine": "both hosts", "Linux": release, "HZ": hz}
            for release, hz in kernels.items()
        ]
    return [{"testbed": runs[0].testbed, **_row(name, found)} for name, found in seen.items()]


def _row(name: str, seen: Sequence[Machine]) -> dict[str, object]:
    last = seen[-1]
    return {
        "machine": "the one below" if name == HERE else name,
        "Linux": last.release,
        "HZ": _middle(one.hz for one in seen),
        "CPUs": last.cpus and f"{last.cpus} of {last.cpu or 'an unknown kind'}",
        "driver": last.driver,
        "off": _off(last.offloads),
        "busiest CPU of any run, %": max(
            (one.busiest_pct for one in seen if one.busiest_pct is not None), default=None
        ),
        "all CPUs, %": _middle(one.busy_pct for one in seen),
        "stolen, %": _middle(one.stolen_pct for one in seen),
        "load before": _middle(one.load_before for one in seen),
        "sampled every, ms": _middle(one.period_ms for one in seen),
    }


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _off(offloads: Mapping[str, bool] | None) -> str | None:
    if offloads is None:
        return None
    return ", ".join(name for name, on in offloads.items() if not on) or "none"
