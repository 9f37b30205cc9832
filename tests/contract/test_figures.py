"""What every figure of every lab must have: a title, axes with units, the source of its numbers,
these numbers as a table, and a text alternative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from plotly.graph_objects import Figure

import labs
from labs.catalog import LABS
from labs.errors import BadInput
from labs.read.figures.declaration import Declared
from tests.same import OF_A_RUN, OF_A_STUDY, OF_A_TABLE, RECORDED_WITH

TAKES_MORE: Mapping[str, set[str]] = {
    "queues": {"latency_against_throughput"},
    "sharing": {"latency_against_throughput"},
    "windows": {"opening", "opening_by_kernel", "over_kernels", "over_scales"},
}
"""Figures of runs or conditions that the reader chooses, which notebooks draw."""
CHOSEN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("stack", name): ("polling-c1", "blocking-c1") for name in ("work_per_request", "distribution")
}
"""The conditions of figures that are drawn of some."""
FIGURES = sorted(
    (lab, name)
    for kind in (OF_A_RUN, OF_A_TABLE, OF_A_STUDY)
    for lab, names in kind.items()
    for name in names
)
WITHOUT_UNIT = ("share", "ratio", "number", "packets", "tcp_adv_win_scale", "second", "latency")
"""Words of an axis whose values are counted, are ratios, or name their unit."""


@cache
def study_of(lab: str) -> Any:
    values = {"TESTBED": "recorded", "SIZE": "full", **RECORDED_WITH.get(lab, {})}
    return labs.study(labs.check(lab, values))


def figures_of(lab: str, name: str) -> Iterator[Figure]:
    """The figure, of each run that it can be drawn of, or of all recorded runs."""
    draw = getattr(getattr(labs.charts, lab), name)
    study = study_of(lab)
    if name in OF_A_TABLE.get(lab, ()):
        yield draw(study.results())
    elif name in OF_A_STUDY.get(lab, ()):
        yield draw(study, *CHOSEN.get((lab, name), ()))
    else:
        for condition in study.conditions:
            with suppress(BadInput):  # one flow, where a figure has two
                yield draw(study.run(condition))


@pytest.mark.parametrize(("lab", "name"), FIGURES)
def test_a_figure_says_what_it_shows(lab: str, name: str) -> None:
    figure = next(figure for figure in figures_of(lab, name) if figure.data)
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
    title = str(axis.title.text or "").removesuffix(" (logarithmic)")
    is_named = any(word in title for word in ("(", ", ", *WITHOUT_UNIT))
    return axis.type == "category" or is_named or bool(axis.ticktext)


def test_the_contract_has_every_declared_figure_of_a_lab() -> None:
    for lab in LABS:
        module = getattr(labs.charts, lab)
        drawn = {name for name, value in vars(module).items() if isinstance(value, Declared)}
        names = set(filter(str.islower, drawn))
        listed = {name for other, name in FIGURES if other == lab}
        assert names <= listed | TAKES_MORE.get(lab, set()), lab
