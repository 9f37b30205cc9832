"""The summary of a study: a line per run, with the figures that the run has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from labs.drive.result_columns import values_of
from labs.read.claims.formulas import OPTIONAL, PLACE, describe, formula_of
from labs.read.display.format import is_known

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.readings.run_results import RunResults


@dataclass(frozen=True)
class Summary:
    """Phrases with the columns of a row of results, as in a ledger (`labs.read.claims.formulas`):
    `"{steady_mib_s:3} MiB/s[?, {rtt_ms:ms}]"`. A phrase without one of its figures is left out, and
    the notes on the run are added; `empty` is for a run without any phrase. `rows` chooses the runs
    of a table."""

    phrases: tuple[str, ...]
    empty: str
    rows: Callable[[DataFrame], DataFrame] = lambda table: table

    def also(self, *phrases: str) -> Summary:
        """The same with more phrases."""
        return replace(self, phrases=(*self.phrases, *phrases))

    def of(self, row: Mapping[Any, Any]) -> str:
        """One run in a sentence."""

        def look(name: str) -> Any:
            return row[name] if is_known(row[name]) else None

        told = [
            describe(phrase, look)
            for phrase in self.phrases
            if all(
                formula_of(place.partition(":")[0]).value(look) is not None
                for place in PLACE.findall(OPTIONAL.sub("", phrase))
            )
        ]
        note = f" Note: {row['notes']}." if row.get("notes") else ""
        return f"{'; '.join(told) or self.empty}.{note}"

    def of_run(self, results: RunResults) -> str:
        """One run in a sentence, by its results."""
        notes = "; ".join(note.text for note in results.notes())
        return self.of({**values_of(results), "notes": notes})

    def __call__(self, table: DataFrame) -> str:
        """The runs of a table of results, each in a line of Markdown."""
        rows = self.rows(table).to_dict("records")
        return "\n".join(f"- **{row['condition']}**: {self.of(row)}" for row in rows)
