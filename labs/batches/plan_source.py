"""The YAML of a plan as plain values, each with the line on which it begins, and their shape.

A plan may come from an untrusted source. Tags and merges are refused, and the size of the file, the
depth and the number of values are limited before a value is constructed. A value counts wherever an
alias repeats it.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarbool import ScalarBoolean

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
    """The content of a plan, a mapping with text as keys; `nodes` is the same with lines."""

    path: Path
    content: Mapping[str, Any]
    nodes: CommentedMap = field(repr=False)

    def line(self, *place: str | int) -> int:
        """The line of a place, or of the nearest enclosing one."""
        node: Any = self.nodes
        line = 1
        for part in place:
            if not isinstance(node, CommentedMap | CommentedSeq) or part not in node.lc.data:
                break
            node, line = node[part], node.lc.data[part][0] + 1
        return line

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
    except Damaged as error:
        raise BadInput(str(error)) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _complaint(path, line, f"byte {error.start} is not UTF-8. {NEXT_STEP}") from error
    if path.suffix == ".json":  # where a tab is white space; in YAML it is not
        text = text.replace("\t", " ")
    nodes = _loaded(path, text)
    if type(nodes) is not CommentedMap:
        raise _complaint(path, 1, "this is not a plan. Write lines of the form NAME: VALUE")
    source = PlanSource(path, {}, nodes)
    return replace(source, content=_plain(source, nodes, (), itertools.count()))


def _loaded(path: Path, text: str) -> Any:
    """The document in a text, after its events were checked."""
    yaml = YAML(typ="rt", pure=True)
    yaml.version, yaml.Resolver = (1, 1), _Resolver
    try:
        _check(yaml.parse(text))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about 1e6, which other readers take as text
            return yaml.load(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"the character {error.character:#x} is not allowed in YAML. {NEXT_STEP}"
        raise _complaint(path, line, reason) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem or error.context).split())[:200]
        raise _complaint(
            path, mark.line + 1 if mark else 1, f"{problem}{place}. Correct the YAML"
        ) from error


def _complaint(path: Path, line: int, text: str) -> BadInput:
    return BadInput(f"{path}, line {line}: {text}")


def _check(events: Iterable[Any]) -> None:
    """MarkedYAMLError for what a plan does not need and a reader should not construct."""
    depth = values = 0
    for event in events:
        depth -= isinstance(event, CollectionEndEvent)
        if not isinstance(event, CollectionStartEvent | ScalarEvent | AliasEvent):
            continue
        values += 1
        problem = _over_limit(depth + 1, values)
        if not isinstance(event, AliasEvent) and event.ctag is not None:
            problem = f"the type {event.ctag} is not allowed: write a plain value"
        elif isinstance(event, ScalarEvent) and not event.style:
            if event.value == "<<":
                problem = "merging with << is not allowed: write the values"
            elif LONG_NUMBER.match(event.value):
                problem = f"{shown(event.value)} cannot be read as a value"
        if problem:
            raise MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        depth += isinstance(event, CollectionStartEvent)


def _over_limit(depth: int, values: int) -> str:
    if depth > DEEPEST:
        return f"it is nested more than {DEEPEST} levels deep"
    if values > MOST_VALUES:
        return f"it has more than {MOST_VALUES} values: write ranges instead of long lists"
    return ""


def _plain(source: PlanSource, node: Any, place: Place, count: Iterator[int]) -> Any:
    """A value of a document without its comments; what an alias names is counted again."""
    if problem := _over_limit(len(place), next(count)):
        # The value's own line is that of its anchor.
        raise source.complaint(f"with its aliases, {problem}", *place[:1])
    if isinstance(node, CommentedMap):
        for key in node:
            if not isinstance(key, str):
                text = f"the key {shown(key)} is not text. Write a name"
                raise source.complaint(text, *place, key)
        return {str(key): _plain(source, node[key], (*place, key), count) for key in node}
    if isinstance(node, CommentedSeq):
        return [_plain(source, part, (*place, at), count) for at, part in enumerate(node)]
    if isinstance(node, ScalarBoolean):
        return bool(node)
    kind = next((kind for kind in (str, bool, int, float) if isinstance(node, kind)), None)
    if kind is str and any("\ud800" <= letter <= "\udfff" for letter in node):
        raise source.complaint(f"{shown(ascii(node))} is not Unicode text", *place)
    return node if kind is None else kind(node)


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
    if error.validator == "additionalProperties":
        names, extra = _names(schema, content)
        return (*place, extra), f"{extra} is not a key of {name}{did_you_mean(extra, names) or '.'}"
    if error.validator == "required":
        lacking = next(name for name in schema["required"] if name not in content)
        return place, f"{name} has no {lacking}."
    if error.validator in ("minItems", "minProperties"):
        return place, f"{name} {'has only one entry' if content else 'is empty'}."
    return place, f"{name} = {shown(content)} cannot be used."


def _names(schema: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[list[str], str]:
    """The keys that a schema lists, and the first key of a mapping that is not allowed."""
    names = list(schema.get("properties", {}))
    patterns = list(schema.get("patternProperties", {}))
    return names, next(
        name
        for name in content
        if name not in names and not any(re.search(pattern, name) for pattern in patterns)
    )
