"""One text for one value: canonical JSON, digests, and the key of a run.

Two values that are equal as JSON have the same canonical bytes on every machine and under every
Python: keys sorted, no spaces, ASCII, numbers without a fraction written as integers (`200.0`
and `200` are one number in JSON), all other floats as Python's `repr`, which is the shortest text
that reads back to the same double.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping

from labs.errors import BadInput


def canonical(value: object) -> bytes:
    """Return the canonical JSON of a value.

    `value` is made of None, bool, int, float, str, lists or tuples, and mappings with str keys.
    Raises BadInput for NaN, an infinity, a key that is not a str, or any other type.
    """
    return json.dumps(
        normalised(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True
    ).encode("ascii")


def pretty(value: object) -> bytes:
    """Return the same value for people: sorted keys, indent 1, a newline at the end."""
    return (json.dumps(normalised(value), sort_keys=True, indent=1) + "\n").encode("ascii")


def normalised(value: object, where: str = "") -> object:
    """Return `value` as plain JSON types; `where` is its dotted name, for the message."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(value, where)
    if isinstance(value, Mapping):
        return {
            _name(name, where): normalised(item, _below(where, name))
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [normalised(item, _below(where, at)) for at, item in enumerate(value)]
    raise BadInput(
        f"{where or 'the value'} is of type {type(value).__name__}, which JSON does not have; "
        "give numbers, text, true/false, null, lists or objects"
    )


def _number(value: float, where: str) -> int | float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadInput(
            f"{where or 'the value'} is {value}, which JSON does not have; "
            "give a finite number, or null for none"
        )
    return int(value) if value.is_integer() else float(value)


def _name(name: object, where: str) -> str:
    if isinstance(name, str):
        return name
    raise BadInput(f"a key of {where or 'the value'} is {name!r}; keys of JSON are text")


def _below(where: str, part: object) -> str:
    return f"{where}.{part}" if where else str(part)


def parse(text: bytes) -> object:
    """Read JSON strictly: ValueError also for NaN, infinities, and a key given twice."""
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def digest(content: bytes | os.PathLike[str]) -> str:
    """Return the sha256, as 64 hex digits, of bytes or of the file at a path."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with open(content, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key(inputs: Mapping[str, object]) -> str:
    """Return the key of a run: the sha256 of its inputs in canonical JSON."""
    return digest(canonical(inputs))
