"""What a lab finds in a run: values by column, and notes.

To read a run again takes a second, and a notebook reads hundreds of them. Equal bytes and equal
code give equal results, so those of the project's labs are kept for the next process. What takes
long and is computed later (`labs.read.later`) is kept once it was read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from labs.drive.record.kept_answers import digest_of
from labs.drive.record.seal import canonical, digest
from labs.drive.result_columns import Note
from labs.read.kept_or_computed import kept
from labs.read.later import is_later

NOTES = "notes"
"""The field of a lab's results that holds what a reader of the figures must know."""
SOURCES = ("drive/**", "read/**", "experiments/**")


@dataclass(frozen=True)
class Found:
    """What a lab finds in a run: plain values by column, and notes."""

    values: Mapping[str, Any]
    notes: tuple[Note, ...] = ()

    def has_note(self, code: str) -> bool:
        """Whether a note with this code is among them."""
        return any(note.code == code for note in self.notes)


class Values(Mapping[str, Any]):
    """A lab's results by column, from its dataclass, or from a reader's own dict. What its class
    computes later is computed when it is read, `reading`."""

    def __init__(self, results: Any, reading: Callable[[], AbstractContextManager[None]]) -> None:
        self._results, self._reading = results, reading
        self._declared = dataclasses.is_dataclass(results) and not isinstance(results, type)
        if self._declared:
            names = [one.name for one in dataclasses.fields(results)]
            self._own: Callable[[str], Any] = partial(getattr, results)
        else:
            self._results = dict(results)
            names = list(self._results)
            self._own = self._results.__getitem__
        self.notes = _notes((self._own(NOTES) if NOTES in names else None) or ())
        self._names = dict.fromkeys(name for name in names if name != NOTES)

    def is_later(self, name: str) -> bool:
        """Whether a value is computed when it is read."""
        return self._declared and is_later(self._results, name)

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        with self._reading():
            return self._own(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class KeptValues(Mapping[str, Any]):
    """Results by column as they were kept; `later` computes those that are not."""

    def __init__(
        self, names: list[str], known: dict[str, Any], later: Callable[[str], Any]
    ) -> None:
        self._names, self._known, self._later = dict.fromkeys(names), known, later

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._later(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def kept_results(
    lab: str, run_digest: str, said: Mapping[str, Any], compute: Callable[[], Values]
) -> Found:
    """What a lab of the project finds in the run of this digest, whose run.json says `said`: as it
    was kept, or as `compute` has it now. Values are what JSON has."""
    computed = cache(compute)
    asked = [lab, run_digest, digest(canonical(said))]  # a run may be a changed copy of one

    def found() -> str:
        values = computed()
        known = {name: values[name] for name in values if not values.is_later(name)}
        notes = [(note.code, note.text, note.excludes) for note in values.notes]
        return json.dumps({"names": list(values), "known": known, "notes": notes})

    def later(name: str) -> Any:
        question = json.dumps([*asked, name])
        return json.loads(kept(question, lambda: json.dumps(computed()[name]), _sources()))

    held = json.loads(kept(json.dumps(asked), found, _sources()))
    notes = tuple(Note(*one) for one in held["notes"])
    return Found(KeptValues(held["names"], held["known"], later), notes)


@cache
def _sources() -> str:
    """The digest of all code that can change a result."""
    return digest_of(*SOURCES, and_also=(version("numpy"), version("pandas")))


def _notes(notes: Any) -> tuple[Note, ...]:
    """Notes, of which a reader's own lab may write one, or text."""
    every = (notes,) if isinstance(notes, str | Note) else tuple(notes)
    return tuple(note if isinstance(note, Note) else Note("", str(note)) for note in every)
