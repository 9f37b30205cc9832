"""Figures: functions from a table or a run to a plotly figure, a module a lab.

    labs.charts.buffers.by_condition(study.results())
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import labs.charts.buffers as buffers
    import labs.charts.ladder as ladder
    import labs.charts.latency as latency
    import labs.charts.nagle as nagle
    import labs.charts.time_sequence as time_sequence
    import labs.charts.witnesses as witnesses

__all__ = ["buffers", "ladder", "latency", "nagle", "time_sequence", "witnesses"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
