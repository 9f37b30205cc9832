"""The machines of a run in real time and their load, as a table; and whether they disturbed it.

A disturbed run is kept, flagged and counted, and excluded from every interval. The criteria were
fixed before any run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from labs.guest.host_load import FILE, HERE
from labs.read.display.rich_output import Table
from labs.read.parse import proc
from labs.read.runs.raw_files import MACHINES, SAMPLING
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from labs.read.study import Study

STAT, LOAD, TICKS = "/proc/stat", "/proc/loadavg", "/proc/timer_list"
CPU, RELEASE = "/proc/cpuinfo", "/proc/sys/kernel/osrelease"
# The mean of fewer says nothing about the period: the first sample of a run may come at any time.
FEWEST_SAMPLES = 10

# A fifth of the width that an interval is to have (10 %): less than that cannot decide anything.
STOLEN_PCT = 2.0
# What waits for a CPU before a run begins belongs to others, but for what the run before has left
# in the average of a minute: up to one program a CPU, which may just have ended.
LOAD_A_CPU = 1.5
# Every fifth sample missed: the sampler, which works less than the download, did not get its turn.
PERIOD_OFF_PCT = 20.0

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


@dataclass(frozen=True)
class Machine:
    """A machine during a run; None for what it did not report.

    `busy_pct` and `stolen_pct` are of all its CPUs, `busiest_pct` of the busiest one;
    `load_before` is the load of the minute before. `asked_ms` and `period_ms` are the requested and
    the actual period of the sampler, both None for a machine without one.
    """

    release: str | None = None
    cpu: str | None = None
    cpus: int | None = None
    busy_pct: float | None = None
    busiest_pct: float | None = None
    stolen_pct: float | None = None
    load_before: float | None = None
    load_after: float | None = None
    hz: int | None = None
    driver: str | None = None
    offloads: Mapping[str, bool] | None = None
    asked_ms: float | None = None
    period_ms: float | None = None


@cache
def machines(run: Run) -> Mapping[str, Machine]:
    """The machines of a run by name (`here` drives it); empty for a run in virtual time."""
    if FILE not in run.seal.files:
        return {}
    recorded = run.read(FILE, MACHINES)
    return {name: _machine(run, name, about) for name, about in recorded.items()}


def _machine(run: Run, name: str, about: Mapping[str, Any]) -> Machine:
    before, after = about["before"], about["after"]
    worked: dict[str, Any] = {}
    if STAT in before and STAT in after:
        then, now = proc.cpu_times(before[STAT]), proc.cpu_times(after[STAT])
        spent = {cpu: times.since(then[cpu]) for cpu, times in now.items() if cpu in then}
        single = [times.busy_pct for cpu, times in spent.items() if cpu != "cpu"]
        worked = {
            "cpus": len(single),
            "busy_pct": spent["cpu"].busy_pct,
            "stolen_pct": spent["cpu"].stolen_pct,
            "busiest_pct": max((busy for busy in single if busy is not None), default=None),
        }
    if LOAD in before and LOAD in after:
        worked |= {"load_before": proc.load(before[LOAD]), "load_after": proc.load(after[LOAD])}
    if TICKS in before and TICKS in after:
        worked["hz"] = proc.hz(before[TICKS], after[TICKS])
    return Machine(
        release=about.get(RELEASE, "").strip() or None,
        cpu=about.get(CPU, "").partition(":")[2].strip().partition("\n")[0] or None,
        driver=proc.driver(about.get("driver", "")),
        offloads=proc.offloads(about["offloads"]) if "offloads" in about else None,
        **worked,
        **_sampling(run, name),
    )


def _sampling(run: Run, host: str) -> dict[str, Any]:
    """The sampler's period on a host: requested, and the actual mean."""
    name, asked = f"{host}/sampler.json", run.condition_asked.settings.get("sample_ms")
    if name not in run.seal.files or not isinstance(asked, int | float):
        return {}
    sampled = run.read(name, SAMPLING)
    if sampled.samples < FEWEST_SAMPLES:
        return {}
    return {"asked_ms": float(asked), "period_ms": sampled.mean_period_ms}


def disturbances(run: Run) -> tuple[str, ...]:
    """What disturbed a run in real time, each with its figure; empty for a usable run.

    A link off its target is one of them: it was measured on this machine, just before. What hosts
    that are namespaces report of this machine is not repeated.
    """
    seen = machines(run)
    shared = _disturbances(seen[HERE]) if run.where.on_this_kernel and HERE in seen else ()
    phrases = [
        f"{_whose(name)}: {what}"
        for name, machine in seen.items()
        for what in _disturbances(machine)
        if name == HERE or what not in shared
    ]
    if seen and not run.link.ok:
        phrases.append(f"link {run.link.verdict}")
    return tuple(dict.fromkeys(phrases))


def _whose(name: str) -> str:
    return "this machine" if name == HERE else name


def _disturbances(machine: Machine) -> list[str]:
    phrases = []
    if machine.stolen_pct is not None and machine.stolen_pct > STOLEN_PCT:
        phrases.append(
            f"{machine.stolen_pct:.1f} % of its CPU time stolen (allowed {STOLEN_PCT:g})"
        )
    if (
        machine.load_before is not None
        and machine.cpus
        and machine.load_before > LOAD_A_CPU * machine.cpus
    ):
        phrases.append(
            f"load {machine.load_before:.1f} before the run (allowed {LOAD_A_CPU * machine.cpus:g})"
        )
    if machine.period_ms is not None and machine.asked_ms:
        off_pct = 100 * abs(machine.period_ms / machine.asked_ms - 1)
        if off_pct > PERIOD_OFF_PCT:
            phrases.append(
                f"sampled every {machine.period_ms:.0f} ms, not {machine.asked_ms:g} "
                f"(allowed {PERIOD_OFF_PCT:g} % off)"
            )
    return phrases


def places(studies: Iterable[Study]) -> dict[str, Study]:
    """The studies that have runs, by testbed and driver of the server's device: "namespaces
    (veth)"; several of the same kind are numbered."""
    by_name: dict[str, Study] = {}
    for study in studies:
        if study.runs:
            name = _place(study.runs[0])
            number = sum(other.partition(", number")[0] == name for other in by_name)
            by_name[f"{name}, number {number + 1}" if number else name] = study
    return by_name


def _place(run: Run) -> str:
    driver = machines(run).get("server", Machine()).driver
    return f"{run.testbed} ({driver.replace('_', '-')})" if driver else run.testbed


def machine_rows(*studies: Iterable[Run]) -> Table:
    """One row per machine of each study's runs.

    A figure is the median over the runs, unless its name says that it is the highest. `off` lists
    the offloads that are off. In virtual time there are no machines: the row names the kernel, and
    the rest is empty.
    """
    rows = [row for study in studies for row in _rows(tuple(study))]
    return Table(rows, columns=list(COLUMNS))


def machine_columns(*studies: Iterable[Run]) -> Table:
    """The same to be read: one column per machine."""
    rows = machine_rows(*studies)
    names = [f"{row['testbed']}, {row['machine']}" for row in rows.to_dict("records")]
    shown = rows.drop(columns=["testbed", "machine"])
    return Table(
        {"": list(shown), **{name: shown.iloc[place].tolist() for place, name in enumerate(names)}}
    )


def _rows(runs: Sequence[Run]) -> list[dict[str, object]]:
    if not runs:
        return []
    seen: dict[str, list[Machine]] = {}
    for run in runs:
        for name, machine in machines(run).items():
            seen.setdefault(name, []).append(machine)
    if not seen:
        kernels = {f"{run.kernel.release}": run.kernel.hz for run in runs}
        return [
            {"testbed": runs[0].testbed, "machine": "both hosts", "Linux": release, "HZ": hz}
            for release, hz in kernels.items()
        ]
    return [{"testbed": runs[0].testbed, **_row(name, measured)} for name, measured in seen.items()]


def _row(name: str, seen: Sequence[Machine]) -> dict[str, object]:
    last = seen[-1]
    return {
        "machine": "host" if name == HERE else name,
        "Linux": last.release,
        "HZ": _middle(machine.hz for machine in seen),
        "CPUs": last.cpus and f"{last.cpus} of {last.cpu or 'an unknown kind'}",
        "driver": last.driver,
        "off": _off(last.offloads),
        "busiest CPU of any run, %": max(
            (machine.busiest_pct for machine in seen if machine.busiest_pct is not None),
            default=None,
        ),
        "all CPUs, %": _middle(machine.busy_pct for machine in seen),
        "stolen, %": _middle(machine.stolen_pct for machine in seen),
        "load before": _middle(machine.load_before for machine in seen),
        "sampled every, ms": _middle(machine.period_ms for machine in seen),
    }


def _middle(values: Iterable[float | None]) -> float | None:
    valued = [value for value in values if value is not None]
    return median(valued) if valued else None


def _off(offloads: Mapping[str, bool] | None) -> str | None:
    if offloads is None:
        return None
    return ", ".join(name for name, on in offloads.items() if not on) or "none"
