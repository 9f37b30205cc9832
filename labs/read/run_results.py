"""The results of a run: values by column, and notes.

To read a run again takes a second, and a notebook reads hundreds of them. Equal bytes and equal
code give equal results, so those of the project's labs are kept for the next process. A costly
column is computed and kept when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from labs.drive.record.seal import canonical, digest
from labs.drive.record.sources import TRANSLATOR, digest_of_code, of_this_python
from labs.drive.result_columns import Column, Note
from labs.read import answers


@dataclass(frozen=True)
class Found:
    """The results of a run: plain values by column, and notes."""

    values: Mapping[str, Any]
    notes: tuple[Note, ...] = ()

    def has_note(self, code: str) -> bool:
        """Whether a note with this code is among them."""
        return any(note.code == code for note in self.notes)


class Values(Mapping[str, Any]):
    """Results by column; `compute` has those that are not among `values` when they are read."""

    def __init__(
        self, names: Iterable[str], values: dict[str, Any], compute: Callable[[str], Any]
    ) -> None:
        self._names, self._values, self._compute = dict.fromkeys(names), values, compute

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._values:
            self._values[name] = self._compute(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Computation:
    """A lab's `Results` of a run, whose columns are computed `reading`."""

    def __init__(
        self,
        make: Callable[[], Any],
        columns: Iterable[Column],
        reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._make, self._reading = make, reading
        self.costly = {column.name: column.costly for column in columns}

    @cached_property
    def _results(self) -> Any:
        return self._make()

    def value(self, name: str) -> Any:
        """The value of a column."""
        with self._reading():
            return getattr(self._results, name)

    def values(self) -> dict[str, Any]:
        """The values of all columns but the costly ones."""
        return {name: self.value(name) for name, costly in self.costly.items() if not costly}

    def notes(self) -> tuple[Note, ...]:
        """The notes on the run. A reader's own lab may give one, or text."""
        with self._reading():
            notes = self._results.notes() if hasattr(self._results, "notes") else ()
            all_notes = (notes,) if isinstance(notes, str | Note) else tuple(notes or ())
        return tuple(note if isinstance(note, Note) else Note("", str(note)) for note in all_notes)

    def results(self) -> Found:
        """All of it, costly columns when they are read."""
        return Found(Values(self.costly, self.values(), self.value), self.notes())


def kept_results(
    lab: str, run_digest: str, content: Mapping[str, Any], compute: Callable[[], Computation]
) -> Found:
    """The results of a run of this digest of a lab of the project, whose run.json has this content:
    as they were recorded or kept, or as `compute` has them now. Values are what JSON has."""
    computation, code = cache(compute), code_of(lab)
    asked = question(lab, run_digest, content)
    recorded = answers.recorded(lab, code, asked)
    sources = of_this_python(code, "numpy", "pandas")

    def costly(name: str) -> Any:
        of_column = json.dumps([asked, name])
        return json.loads(
            answers.kept(of_column, lambda: json.dumps(computation().value(name)), sources)
        )

    def now() -> str:
        return answer(computation().values(), computation().notes())

    held = json.loads(recorded or answers.kept(asked, now, sources))
    notes = tuple(Note(*note) for note in held["notes"])
    return Found(Values(computation().costly, held["values"], costly), notes)


def question(lab: str, run_digest: str, content: Mapping[str, Any]) -> str:
    """The question for the results of a run, which may be a changed copy of another."""
    return json.dumps([lab, run_digest, digest(canonical(content))])


def answer(values: Mapping[str, Any], notes: Iterable[Note]) -> str:
    """The answer to it, with the costly columns or without them."""
    as_lists = [(note.code, note.text, note.excludes) for note in notes]
    return json.dumps({"values": dict(values), "notes": as_lists})


@cache
def code_of(lab: str) -> str:
    """The digest of all code that can change the results of a lab's runs."""
    return digest_of_code(f"labs.experiments.{lab}.results", __name__, TRANSLATOR)
