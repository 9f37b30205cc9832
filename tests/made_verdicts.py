"""Verdicts that no run gave, for tests of how they are put together and told."""

from __future__ import annotations

from typing import Any

from labs.read.claims.verdict import DIFFERS, Verdict, Witness


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
