"""The YAML of a plan as plain values, each with the line on which it begins, and their shape.

A plan may come from an untrusted source. Tags, aliases and merges are refused, and the size of the
file, the depth and the number of values are limited before a value is constructed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.resolver import VersionedResolver

from labs.drive.parameters.declare import did_you_mean, shown
from labs.drive.record.stored_files import read_bytes
from labs.errors import BadInput, Damaged, LabError
from labs.read.json_schema import objection

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Place = tuple[str | int, ...]
"""The keys and indices that lead to a value, as in a JSON pointer."""
E = TypeVar("E", bound=LabError)

SCHEMA = Path(__file__).with_name("plan.schema.json")
MOST_BYTES = 1 << 20
MOST_VALUES = 50_000
"""Values in the whole file, which take a few seconds to read. Write longer lists as ranges."""
DEEPEST = 8
"""Levels of nesting; a plan has 4."""
LONG_NUMBER = re.compile(r"[-+.\d]\S{250}")
"""A number that Python or JSON may be unable to represent."""
NEXT_STEP = "Name a YAML or JSON file"


class _Resolver(VersionedResolver):
    """Dates are text, as in papermill."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        return self.DEFAULT_SCALAR_TAG if str(tag).endswith(":timestamp") else tag


@dataclass(frozen=True)
class PlanSource:
    """The content of a plan, a mapping with text as keys, and the line of each place in it."""

    path: Path
    content: Mapping[str, Any]
    lines: Mapping[Place, int] = field(repr=False)

    def line(self, *place: str | int) -> int:
        """The line of a place, or of the nearest enclosing one."""
        enclosing = (place[:end] for end in range(len(place), 0, -1))
        return next((self.lines[it] for it in enclosing if it in self.lines), 1)

    def complaint(self, text: str, *place: str | int) -> BadInput:
        """The error for a problem at a place, with the file's name and the line."""
        return _complaint(self.path, self.line(*place), text)

    def located(self, error: E, *place: str | int) -> E:
        """The same error, with the file's name and the line before its message."""
        return type(error)(f"{self.path}, line {self.line(*place)}: {error}")


def read_source(path: Path) -> PlanSource:
    """Read a plan's file; BadInput, in one line, for one that is not a plan."""
    try:
        content = read_bytes(path, most_bytes=MOST_BYTES, follow=True, next_step=NEXT_STEP)
        text = content.decode("utf-8-sig")
    except Damaged as error:
        raise BadInput(str(error)) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _complaint(path, line, f"byte {error.start} is not UTF-8. {NEXT_STEP}") from error
    if path.suffix == ".json":  # where a tab is white space; in YAML it is not
        text = text.replace("\t", " ")
    try:
        return PlanSource(path, *_loaded(text))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"the character {error.character:#x} is not allowed in YAML. {NEXT_STEP}"
        raise _complaint(path, line, reason) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem or error.context).split())[:200]
        line = mark.line + 1 if mark else 1
        raise _complaint(path, line, f"{problem}{place}. Correct the YAML") from error


def _complaint(path: Path, line: int, text: str) -> BadInput:
    return BadInput(f"{path}, line {line}: {text}")


def _loaded(text: str) -> tuple[dict[str, Any], dict[Place, int]]:
    """The document in a text, after its events were checked, and the line of each place."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version, yaml.Resolver = (1, 1), _Resolver
    _check(yaml.parse(text))
    node = yaml.compose(text)
    if not isinstance(node, MappingNode):
        raise MarkedYAMLError(problem="this is not a plan: write lines of the form NAME: VALUE")
    lines = dict(_lines(node, ()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about 1e6, which other readers take as text
        return yaml.load(text), lines


def _check(events: Iterable[Any]) -> None:
    """MarkedYAMLError for what a plan does not need and a reader should not construct."""
    depth = values = 0
    for event in events:
        depth -= isinstance(event, CollectionEndEvent)
        if not isinstance(event, CollectionStartEvent | ScalarEvent | AliasEvent):
            continue
        values += 1
        depth += isinstance(event, CollectionStartEvent)
        if problem := _problem_of(event, depth, values):
            raise MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _problem_of(event: Any, depth: int, values: int) -> str:
    text = event.value if isinstance(event, ScalarEvent) else ""
    if depth + bool(text) > DEEPEST:
        return f"it is nested more than {DEEPEST} levels deep"
    if values > MOST_VALUES:
        return f"it has more than {MOST_VALUES} values: write ranges instead of long lists"
    if isinstance(event, AliasEvent):
        return "an alias is not allowed: write the values"
    if event.ctag is not None:
        return f"the type {event.ctag} is not allowed: write a plain value"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"{shown(ascii(text))} is not Unicode text"
    if text and not event.style and LONG_NUMBER.match(text):
        return f"{shown(text)} cannot be read as a value"
    return ""


def _lines(node: Node, place: Place) -> Iterator[tuple[Place, int]]:
    """The places in a node, each with its line. MarkedYAMLError for a key that is not text."""
    parts: Iterable[tuple[Node, str | int, Node]] = ()
    if isinstance(node, SequenceNode):
        parts = ((part, at, part) for at, part in enumerate(node.value))
    elif isinstance(node, MappingNode):
        parts = ((key, key.value, value) for key, value in node.value)
    for first, name, value in parts:
        if first is not value and not str(first.tag).endswith(":str"):
            problem = "a key is not text: write a name"
            raise MarkedYAMLError(problem=problem, problem_mark=first.start_mark)
        yield (*place, name), first.start_mark.line + 1
        yield from _lines(value, (*place, name))


def check_shape(source: PlanSource) -> None:
    """BadInput, with the line, if the content does not match the schema. Each part of the schema
    describes what it allows."""
    error = objection(SCHEMA, source.content)
    if error is not None:
        assert isinstance(error.schema, Mapping)
        place, problem = _problem(error, error.schema)
        raise source.complaint(f"{problem} Allowed: {error.schema['description']}", *place)


def _problem(error: ValidationError, schema: Mapping[str, Any]) -> tuple[Place, str]:
    """The place of an error, and the problem there."""
    place = tuple(error.absolute_path)
    name = ".".join(str(part) for part in place) or "the plan"
    content: Any = error.instance
    match error.validator:
        case "additionalProperties":
            names = list(schema.get("properties", {}))
            allowed = re.compile("|".join([*names, *schema.get("patternProperties", {})]))
            extra = next(key for key in content if not allowed.fullmatch(key))
            nearest = did_you_mean(extra, names) or "."
            return (*place, extra), f"{extra} is not a key of {name}{nearest}"
        case "required":
            lacking = next(key for key in schema["required"] if key not in content)
            return place, f"{name} has no {lacking}."
        case "minItems" | "minProperties":
            return place, f"{name} {'has only one entry' if content else 'is empty'}."
    return place, f"{name} = {shown(content)} cannot be used."
