"""The table of a lab's conditions: rows, series, groups, and what is selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from labs.drive.condition_table import Row, each, row, rows, same, select
from labs.drive.parameters.declare import LabParameters
from labs.errors import BadInput
from labs.guest.condition import Group
from labs.guest.testbed.link import Link

NEAR, FAR = Group("near", "Near"), Group("far", "Far")
LONG = Link(delay_ms=100.0)


@dataclass(frozen=True)
class Settings:
    size: int = 1
    draw: int | None = None


def table() -> Iterator[Row]:
    yield from rows(
        NEAR,
        row("first", small=2, machines=True),
        row("second", small=True, size=5),
        row("asked", by_name=True),
        size=3,
    )
    yield from rows(
        FAR, each("far-{}k", (1, 2), lambda size: 8 * size, small=(2,), draw=same), link=LONG
    )


def names(testbed: str = "virtual", size: str = "small", only: str = "") -> list[str]:
    p = LabParameters(testbed=testbed, size=size, only=only)
    return [entry.name for entry in select(p, table())]


def test_select_by_size_and_testbed() -> None:
    """The places of size small count before the order of the table."""
    assert names() == ["second", "far-16k", "first"]
    assert names("vagrant") == ["first"]
    assert (
        names(size="full") == names("vagrant", "full") == ["first", "second", "far-8k", "far-16k"]
    )


def test_select_of_a_table_without_places_on_machines() -> None:
    p = LabParameters(testbed="vagrant")
    assert [entry.name for entry in select(p, rows(NEAR, row("a", small=True), row("b")))] == ["a"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("second, first", ["first", "second"]),
        ("far", ["far-8k", "far-16k"]),
        ("asked", ["asked"]),
        (",", ["first", "second", "asked", "far-8k", "far-16k"]),
    ],
)
def test_select_by_name(only: str, expected: list[str]) -> None:
    assert names(only=only) == expected


def test_select_refuses_an_unknown_name_with_all() -> None:
    with pytest.raises(BadInput, match="frist is not a condition; did you mean first"):
        names(only="frist")


def test_select_computes_no_row_after_the_last_that_is_wanted() -> None:
    """A batch asks for a few conditions of very many links."""

    def until_second() -> Iterator[Row]:
        yield from rows(NEAR, row("first"), row("second"))
        raise AssertionError("a row after the last one was computed")

    selected = select(LabParameters(only="second,first"), until_second())
    assert [entry.name for entry in selected] == ["first", "second"]


def test_rows_have_what_their_group_has_unless_they_say_otherwise() -> None:
    made = [entry.condition(Settings(), Link()) for entry in table()]
    assert [condition.settings["size"] for condition in made] == [3, 5, 3, 1, 1]
    assert [condition.settings.get("draw") for condition in made] == [None, None, None, 1, 2]
    assert [condition.link.delay_ms for condition in made] == [0, 0, 0, 100, 100]
    assert [condition.group for condition in made] == ["near"] * 3 + ["far"] * 2


def test_condition_refuses_a_setting_that_the_lab_has_not() -> None:
    with pytest.raises(TypeError, match="sizes"):
        row("a", sizes=3).condition(Settings(), Link())
