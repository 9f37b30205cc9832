"""What every figure of every lab must have: a title, axes with units, the source of its numbers,
these numbers as a table, and a text alternative."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from plotly.graph_objects import Figure

import labs
from labs.catalog import LABS
from labs.read.figures.declaration import Declared
from tests.same import OF_A_RUN, OF_A_STUDY, OF_A_TABLE, RECORDED_WITH

FIGURES = sorted(
    (lab, name)
    for kind in (OF_A_RUN, OF_A_TABLE, OF_A_STUDY)
    for lab, names in kind.items()
    for name in names
)
WITHOUT_UNIT = ("share", "ratio", "number", "packets", "connection", "tcp_adv_win_scale", "seconds")
"""Words of an axis whose values are counted, are ratios, or name their unit."""


@cache
def study_of(lab: str) -> Any:
    values = {"TESTBED": "recorded", "SIZE": "full", **RECORDED_WITH.get(lab, {})}
    return labs.study(labs.check(lab, values))


@cache
def results_of(lab: str) -> Any:
    return study_of(lab).results()


def figure_of(lab: str, name: str) -> Figure:
    """The figure, of the first run that it can be drawn of, or of all recorded runs."""
    draw = getattr(getattr(labs.charts, lab), name)
    study = study_of(lab)
    if name in OF_A_TABLE.get(lab, ()):
        return draw(results_of(lab))
    if name in OF_A_STUDY.get(lab, ()):
        return draw(study)
    runs = map(study.run, study.conditions)
    figures = (draw(run) for run in runs if run.condition not in NOT_DRAWN)
    return next(figure for figure in figures if figure.data)


NOT_DRAWN = ("one-flow", "single")
"""Conditions that a figure of two flows refuses."""


@pytest.mark.parametrize(("lab", "name"), FIGURES)
def test_a_figure_says_what_it_shows(lab: str, name: str) -> None:
    figure = figure_of(lab, name)
    layout, meta = figure.layout, figure.layout.meta
    assert layout.title.text
    assert meta["caption"] and meta["tell"]
    assert meta["table"]["heads"] and meta["table"]["rows"]
    assert any(text.name == "caption" and text.text for text in layout.annotations)
    assert all(has_unit(axis) for axis in axes_with_ticks(figure))


def axes_with_ticks(figure: Figure) -> list[Any]:
    """The axes whose values can be read, without those that have the title of another one."""
    axes = [*figure.select_xaxes(), *figure.select_yaxes()]
    shown = [a for a in axes if a.visible is not False and a.showticklabels is not False]
    titled = {axis.plotly_name[0] for axis in shown if axis.title.text}
    assert titled or not shown
    return [axis for axis in shown if axis.title.text or axis.plotly_name[0] not in titled]


def has_unit(axis: Any) -> bool:
    """Whether an axis says its unit, in its title or in its ticks, or has words."""
    title = str(axis.title.text or "")
    is_named = any(word in title for word in ("(", ", ", *WITHOUT_UNIT))
    return axis.type == "category" or is_named or bool(axis.ticktext)


def test_the_contract_has_every_declared_figure_of_a_lab() -> None:
    for lab in LABS:
        module = getattr(labs.charts, lab)
        names = {name for name in module.__all__ if isinstance(getattr(module, name), Declared)}
        listed = {name for other, name in FIGURES if other == lab}
        assert names <= listed | TAKES_SEVERAL.get(lab, set()), lab


TAKES_SEVERAL: dict[str, set[str]] = {
    lab: {"latency_against_throughput"} for lab in ("queues", "sharing")
}
"""Figures of several runs that the reader chooses."""
