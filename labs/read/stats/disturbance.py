"""Was a run disturbed by the machine that it ran on? The rule, written down before any run.

Such a run is kept, marked and counted, and left out of every interval.
"""

from __future__ import annotations

from labs.drive.host_load import HERE
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines

# A fifth of the width that an interval is to have (10 %): less than that cannot decide anything.
STOLEN_PCT = 2.0
# What waits for a CPU before a run begins belongs to others, but for what the run before has left
# in the average of a minute: up to one program a CPU, which may just have ended.
LOAD_A_CPU = 1.5
# Every fifth sample missed: the sampler, which works less than the download, did not get its turn.
PERIOD_OFF_PCT = 20.0


def disturbances(run: Run) -> tuple[str, ...]:
    """What disturbed a run on real time, each with its figure; none for a run that counts.

    A link that was not as asked is one of them: it was measured on this machine, just before.
    """
    seen = machines(run)
    found = [f"{_whose(name)}: {what}" for name, one in seen.items() for what in _of(one)]
    if seen and not run.link.ok:
        found.append(f"link {run.link.verdict}")
    return tuple(dict.fromkeys(found))


def _whose(name: str) -> str:
    return "this machine" if name == HERE else name


def _of(one: Machine) -> list[str]:
    found = []
    if one.stolen_pct is not None and one.stolen_pct > STOLEN_PCT:
        found.append(f"{one.stolen_pct:.1f} % of its CPU time stolen (allowed {STOLEN_PCT:g})")
    if one.load_before is not None and one.cpus and one.load_before > LOAD_A_CPU * one.cpus:
        found.append(
            f"load {one.load_before:.1f} before the run (allowed {LOAD_A_CPU * one.cpus:g})"
        )
    if one.period_ms is not None and one.asked_ms:
        off_pct = 100 * abs(one.period_ms / one.asked_ms - 1)
        if off_pct > PERIOD_OFF_PCT:
            found.append(
                f"sampled every {one.period_ms:.0f} ms, not {one.asked_ms:g} "
                f"(allowed {PERIOD_OFF_PCT:g} % off)"
            )
    return found
