"""Columns that are parts of a value: their names, order, values and types; refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import pytest

from labs.drive.result_columns import column, columns_of, computed_columns, part, values_of
from labs.errors import BadInput
from labs.guest.units import KIB

hidden = partial(part, unit="bytes", hidden=True)


@dataclass(frozen=True)
class Sizes:
    first: int
    window: float | None
    rounds: tuple[int, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def half(self) -> float:
        return self.first / 2


def largest(run: Sizes) -> int | None:
    return max(run.rounds, default=None)


def in_words(rounds: tuple[int, ...]) -> str | None:
    return ", ".join(map(str, rounds)) or None


class Results:
    def __init__(self, run: Sizes | None) -> None:
        self.run = run

    @cached_property
    def sizes(self) -> Sizes | None:
        return self.run

    half = part("sizes.half", "half of it", unit="bytes", predicted_by="first")
    first = hidden("sizes.first", "the first size")

    @column("twice")
    def twice(self) -> int | None:
        return 2 * self.run.first if self.run else None

    window = hidden("run.window", "the window")
    first_kib = part("sizes.first", "the same", unit="KiB", per=KIB)
    second_round = part("sizes.rounds.1", "payload of the second round")
    drops = part("run.counters.TCPRcvQDrop", "a counter")
    largest = part(largest, "a function of the run")
    typed = part("window", "the same", kind=int)
    rounds = part("run.rounds", "all rounds in words", kind=in_words)


def test_values_are_those_of_the_path() -> None:
    results = Results(Sizes(2048, None, (5, 7), {"TCPRcvQDrop": 3}))
    assert values_of(results) == {
        "half": 1024.0,
        "first": 2048,
        "twice": 4096,
        "window": None,
        "first_kib": 2.0,
        "second_round": 7,
        "drops": 3,
        "largest": 7,
        "typed": None,
        "rounds": "5, 7",
    }


@pytest.mark.parametrize("run", [None, Sizes(1, 2.0, (3,))])
def test_what_is_missing_is_empty(run: Sizes | None) -> None:
    results = Results(run)
    assert results.second_round is None and results.drops is None


def test_declarations_keep_order_names_and_flags() -> None:
    columns = columns_of(Results)
    assert [column.name for column in columns][:4] == ["half", "first", "twice", "window"]
    assert columns[1].unit == "bytes" and columns[1].hidden and not columns[0].hidden
    assert columns[0].predicted_by == "first"


def test_types_are_those_of_the_annotations() -> None:
    types = {name: value.type_in(Results) for name, value in computed_columns(Results).items()}
    assert types == {
        "half": float,
        "first": int,
        "twice": int | None,
        "window": float | None,
        "first_kib": float,
        "second_round": int,
        "drops": int,
        "largest": int | None,
        "typed": int,
        "rounds": str | None,
    }


def test_a_path_that_does_not_exist_is_refused() -> None:
    class Wrong(Results):
        last = part("sizes.frist", "misspelt")

    with pytest.raises(BadInput, match=r"sizes\.frist, but Sizes has no frist; did you mean first"):
        columns_of(Wrong)


def test_a_type_that_is_not_annotated_is_unknown() -> None:
    class Unannotated:
        def __init__(self, run: Sizes) -> None:
            self.sizes = run

        first = part("sizes.first", "the first size")
        window = part("sizes.window", "the window", kind=float)

    columns = computed_columns(Unannotated)
    assert columns["first"].type_in(Unannotated) is Any
    assert columns["window"].type_in(Unannotated) is float
    assert Unannotated(Sizes(7, None)).first == 7
