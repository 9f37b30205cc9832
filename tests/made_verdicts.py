"""Verdicts that no run gave, for tests of how they are put together and told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labs.read.claims.sources import Source, sources_of, verdicts_from
from labs.read.claims.verdict import DIFFERS, Verdict, Witness
from labs.read.lab import Lab
from labs.read.runs.run import Run


def verdict(**changed: Any) -> Verdict:
    return Verdict(
        **{
            "id": "A1.2",
            "statement": "It is fast.",
            "expected": 91.6,
            "unit": "MiB/s",
            "tolerance_pct": 3.0,
            "tolerance_reason": "three digits",
            "predicted": 114.0,
            "measured": 114.0,
            "verdict": DIFFERS,
            "factor": 1.2446,
            "reason": "no machine",
            "conditions": "shaped",
            "link": "1000 Mbit/s",
            "figures": 1,
            "judged": 1,
            "witness": Witness("virtual", "6.1.192"),
            **changed,
        }
    )


def verdicts(lab: Lab, runs: Iterable[Run], every: Iterable[Run] = ()) -> tuple[Verdict, ...]:
    """The verdicts of a lab on the runs of one study, with all repetitions."""
    return verdicts_from(lab, [Source("", tuple(runs), tuple(every))])


def runs_of(lab: Lab, where: Path) -> tuple[Run, ...]:
    """The runs of the newest study in a file or a folder."""
    return sources_of(lab, where)[0].runs
