"""Counting and listing points: products, axes that advance together, exclusions."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from labs.batches.points import Dimension, Exclusion, Grid, Interval
from labs.drive.parameters.declare import Scalar

RATES = Dimension(("RATE",), ((1,), (2,), (3,)))
PAIRS = Dimension(("DELAY", "SIZE"), ((10, "a"), (20, "b")))


def test_grid_lists_the_last_dimension_fastest() -> None:
    points = list(Grid((RATES, PAIRS)))
    assert [point.number for point in points] == [1, 2, 3, 4, 5, 6]
    assert [tuple(point.values.values()) for point in points[:3]] == [
        (1, 10, "a"),
        (1, 20, "b"),
        (2, 10, "a"),
    ]
    assert list(points[0].values) == ["RATE", "DELAY", "SIZE"]


def test_grid_without_dimensions_is_one_point() -> None:
    assert Grid(()).count == 1 and [point.values for point in Grid(())] == [{}]


def test_grid_numbers_what_the_exclusions_leave() -> None:
    exclusions: tuple[Exclusion, ...] = (
        {"RATE": Interval(low=2), "DELAY": frozenset({10})},
        {"SIZE": frozenset({"b"}), "RATE": frozenset({1})},
    )
    grid = Grid((RATES, PAIRS), exclusions)
    assert [(point.number, *point.values.values()) for point in grid] == [
        (1, 1, 10, "a"),
        (2, 2, 20, "b"),
        (3, 3, 20, "b"),
    ]
    assert grid.count == 3


VALUES = st.integers(0, 3)
AXES = st.lists(st.lists(VALUES, min_size=1, max_size=4, unique=True), min_size=1, max_size=4)
MATCHES = st.one_of(
    st.frozensets(VALUES, min_size=1),
    st.builds(Interval, low=VALUES),
    st.builds(Interval, high=VALUES),
)


@given(AXES, st.lists(st.dictionaries(st.sampled_from("ABCD"), MATCHES, min_size=1), max_size=5))
def test_grid_agrees_with_a_filter_over_the_product(
    axes: list[list[int]], drawn: list[dict[str, frozenset[Scalar] | Interval]]
) -> None:
    names = "ABCD"[: len(axes)]
    exclusions = tuple(exclusion for exclusion in drawn if set(exclusion) <= set(names))
    grid = Grid(
        tuple(
            Dimension((name,), tuple((value,) for value in axis))
            for name, axis in zip(names, axes, strict=True)
        ),
        exclusions,
    )
    wanted = [
        row
        for row in itertools.product(*axes)
        if not any(
            all(row[names.index(name)] in match for name, match in exclusion.items())
            for exclusion in exclusions
        )
    ]
    listed = [tuple(point.values.values()) for point in grid]
    assert listed == wanted and grid.count == len(wanted)
