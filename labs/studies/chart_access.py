"""Charts for notebooks: those of a lab, by its name, and those of any capture.

labs.charts.buffers.by_condition(study.results())
labs.charts.ladder.ladder(labs.capture.read("capture.pcapng"), rows=(0, 40))
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from labs.catalog import LABS, find

SHARED = {
    "ladder": "ladder",
    "latency": "ecdf",
    "time_sequence": "time_sequence",
    "steps": "steps",
    "witnesses": "ratios",
}


def __getattr__(name: str) -> ModuleType:
    if name in LABS:
        return find(name).require("figures")
    if name not in SHARED:
        raise AttributeError(f"module 'labs.charts' has no attribute {name!r}")
    return import_module(f"labs.read.figures.{SHARED[name]}")


def __dir__() -> list[str]:
    return sorted([*SHARED, *LABS])
