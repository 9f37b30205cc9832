"""The YAML of a plan as plain values, each with the line on which it begins, and their shape.

A plan may come from an untrusted source. Only plain values are constructed, and the size of the
file, the depth and the number of values are limited. A value counts wherever an alias repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from labs.batches.axis_values import number_hint
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
TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")
}
TEXT = "tag:yaml.org,2002:str"
NEXT_STEP = "Name a YAML or JSON file"


@dataclass(frozen=True)
class PlanSource:
    """The content of a plan, a mapping with text as keys, and the line of every place in it."""

    path: Path
    content: Mapping[str, Any]
    lines: Mapping[Place, int] = field(repr=False)

    def line(self, *place: str | int) -> int:
        """The line of a place, or of the nearest enclosing one."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

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
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"the character {error.character:#x} is not allowed in YAML. {NEXT_STEP}"
        raise _complaint(path, line, reason) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _complaint(
            path, mark.line + 1 if mark else 1, f"{_describe_error(error)}. Correct the YAML"
        ) from error
    if not isinstance(node, yaml.MappingNode):
        raise _complaint(path, 1, "this is not a plan. Write lines of the form NAME: VALUE")
    reading = _Reading(path, loader)
    return PlanSource(path, reading.mapping(node, ()), reading.lines)


def _complaint(path: Path, line: int, text: str) -> BadInput:
    return BadInput(f"{path}, line {line}: {text}")


def _describe_error(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    parts = [error.context, error.problem, f"at column {mark.column + 1}" if mark else None]
    return " ".join(", ".join(part for part in parts if part).split())


class _Loader(yaml.SafeLoader):
    """The safe loader without dates, as papermill reads its parameters, and with limits."""

    # A copy, because the attribute of the class is shared with every user of yaml.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        self._values += 1
        problem = _over_limit(self._depth, self._values)
        if problem:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _over_limit(depth: int, values: int) -> str:
    if depth > DEEPEST:
        return f"it is nested more than {DEEPEST} levels deep"
    if values > MOST_VALUES:
        return f"it has more than {MOST_VALUES} values: write ranges instead of long lists"
    return ""


class _Reading:
    """Turns nodes into values, and keeps their lines. An alias shares its node, so a node is read,
    and counted, wherever it occurs."""

    def __init__(self, path: Path, loader: _Loader) -> None:
        self.lines: dict[Place, int] = {(): 1}
        self._path, self._loader = path, loader
        self._values = 0

    def mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != TEXT:
                written = f"{key.value} " if isinstance(key, yaml.ScalarNode) else ""
                raise self._wrong(key, f"the key {written}is not text. Write a name")
            name = self._scalar(key)
            if name in content:
                first = self.lines[*place, name]
                raise self._wrong(key, f"{name} is given twice, first in line {first}. Remove one")
            self.lines[*place, name] = key.start_mark.line + 1
            content[name] = self._value(value, (*place, name))
        return content

    def _value(self, node: yaml.Node, place: Place) -> Any:
        self._values += 1
        problem = _over_limit(len(place), self._values)
        if problem:
            # The node's own line is that of its anchor.
            raise _complaint(self._path, self.lines[place[:1]], f"with its aliases, {problem}")
        if node.tag not in TAGS:
            raise self._wrong(node, f"the type {node.tag} is not allowed. Write a plain value")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            for index, element in enumerate(node.value):
                self.lines[*place, index] = element.start_mark.line + 1
            return [
                self._value(element, (*place, index)) for index, element in enumerate(node.value)
            ]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            scalar = self._loader.construct_object(node)
            if isinstance(scalar, int):
                float(scalar)
            elif isinstance(scalar, str):
                scalar.encode()
        except (ValueError, LookupError, OverflowError, yaml.YAMLError):
            raise self._wrong(node, f"{shown(node.value)} cannot be read as a value") from None
        return scalar

    def _wrong(self, node: yaml.Node, text: str) -> BadInput:
        return _complaint(self._path, node.start_mark.line + 1, text)


def check_shape(source: PlanSource) -> None:
    """BadInput, with the line, if the content does not match the schema. Each part of the schema
    describes what it allows."""
    error = objection(SCHEMA, source.content)
    if error is not None:
        assert isinstance(error.schema, Mapping)
        place, problem = _problem(error, error.schema)
        hint = number_hint(error.instance) if error.validator == "type" else ""
        raise source.complaint(f"{problem} Allowed: {error.schema['description']}{hint}", *place)


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
