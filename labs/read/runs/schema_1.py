"""Runs and studies of schema 1, in today's form: what changed stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIXED_BURST_MBIT, FIXED_BURST_BYTES = 1000, 20 << 10
OK, NOT_OK = "as asked", "not as asked: "
PARAMETERS = {"at": "shaped_at", "width_pct": "ci_width_pct"}
"""What parameters were called before, and what they are called now."""


def upgraded(said: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run.json of schema 1 as schema 2 has it."""
    condition = said["inputs"]["condition"]
    report = said["link"]
    verdict = report["verdict"]
    problems = [] if verdict == OK else verdict.removeprefix(NOT_OK).split("; ")
    return {
        **said,
        "schema": 2,
        "inputs": {
            **said["inputs"],
            "schema": 2,
            "condition": {**condition, "link": _link(condition["link"])},
        },
        "link": {
            "asked": _link(report["asked"]),
            "measured": report["measured"],
            "ok": not problems,
            "problems": problems,
        },
    }


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    """`at` is `shaped_at` now. The burst was not kept: it was a fixed one at 1000 Mbit/s alone."""
    renamed = {("shaped_at" if name == "at" else name): value for name, value in link.items()}
    fixed = link["rate_mbit"] == FIXED_BURST_MBIT
    return {**renamed, "burst_bytes": FIXED_BURST_BYTES if fixed else None}


def upgraded_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a study file by the names that they have today."""
    return {PARAMETERS.get(name, name): value for name, value in parameters.items()}
