"""The runs of a lab as a claim sees them, with other figures or in each other's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from labs.read.claims.evidence import Evidence
from labs.read.stats.repetitions import Interval

Change = Callable[[float], float]


class ChangedRow(Mapping[str, Any]):
    """A row of results with other figures in some of its columns."""

    def __init__(self, row: Mapping[str, Any], other: Mapping[str, Change]) -> None:
        self._row, self._other = row, other

    def __getitem__(self, name: str) -> Any:
        value = self._row[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._other[name](value) if number and name in self._other else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)


class Changed(Evidence):
    """Evidence in which conditions have the runs of others, by name, or other figures."""

    def __init__(
        self,
        seen: Evidence,
        places: Mapping[str, str],
        figures: Mapping[str, Mapping[str, Change]] | None = None,
    ) -> None:
        self.__dict__.update(vars(seen))
        self._seen, self._places = seen, places
        self.runs = {name: seen.runs[self.place(name)] for name in seen.runs}
        self.rows = {
            name: ChangedRow(seen.row(self.place(name)), (figures or {}).get(name, {}))
            for name in seen.rows
        }

    def place(self, name: str) -> str:
        return self._places.get(name, name)

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        return self._seen.ratio(self.place(over), self.place(under), column)
