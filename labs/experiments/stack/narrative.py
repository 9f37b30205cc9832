"""A study of the lab `stack` in sentences, and its effects as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labs.experiments.stack.conditions import lacking
from labs.experiments.stack.effects import (
    effects,
    in_words,
    interaction_in_words,
    interactions,
    settings_read_back,
)

if TYPE_CHECKING:
    from labs.experiments.stack.parameters import Stack
    from labs.read.runs.run import Run
    from labs.read.stats.repetitions import Repeated


def compared(repeated: Sequence[Repeated]) -> dict[str, Any]:
    """The effects of a study whose conditions were repeated: ratios of medians, interactions, and
    every setting as read back. `remarks` says the same in lines."""
    found, together = effects(repeated), interactions(repeated)
    return {
        "effects": [one.as_json() for one in found],
        "interactions": {one.name: one.as_json() for one in together},
        "settings": list(settings_read_back(repeated)),
        "remarks": [
            *(
                ["", "effects on the latency, as ratios with 95 % bootstrap intervals:"]
                if found
                else []
            ),
            *(f"  {in_words(one)}." for one in found),
            *(["", "interactions of two settings:"] if together else []),
            *(f"  {interaction_in_words(one)}." for one in together),
        ],
    }


def findings(runs: Mapping[str, Run], parameters: Stack) -> dict[str, Any]:
    """A remark per program that is not installed here: the conditions that need it."""
    return {
        "remarks": [
            f"{told}. Left out: {', '.join(names)}" for told, names in lacking(parameters).items()
        ]
    }
