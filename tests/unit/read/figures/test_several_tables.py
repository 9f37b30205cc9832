"""One table of several studies or tables of results."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame

from labs.read.figures.several_tables import joined


class Study:
    """A study with so many runs, which has this table of results."""

    def __init__(self, table: DataFrame) -> None:
        self.runs, self.table = tuple(table.index), table

    def results(self) -> DataFrame:
        assert self.runs
        return self.table


def of_kernel(kernel: str, *conditions: str) -> DataFrame:
    return DataFrame([{"condition": name, "kernel": kernel} for name in conditions])


def test_joined_has_the_oldest_kernel_first_and_each_condition_once() -> None:
    new, old = of_kernel("6.12.1", "wmem", "both"), of_kernel("6.1.192", "both")
    studies: list[Any] = [Study(new), Study(old), Study(DataFrame()), Study(old)]
    for sources in (studies, [new, old, DataFrame(), old]):
        rows = joined(*sources)
        assert rows["kernel"].tolist() == ["6.1.192", "6.12.1", "6.12.1"]
        assert rows["condition"].tolist() == ["both", "wmem", "both"]


def test_joined_of_nothing_is_empty() -> None:
    assert joined().empty
    assert joined(DataFrame()).empty
