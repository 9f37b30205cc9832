"""A parameter class described: help table, JSON Schema, the text of a notebook's first cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labs.drive.parameters.declare import Parameter, Scalar, declared, plain, unknown
from labs.errors import BadInput

DIALECT = "https://json-schema.org/draft/2020-12/schema"
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def rows(cls: type[Any]) -> list[tuple[str, str, str, str, str]]:
    """A row a parameter: flag, notebook name, default, what is allowed, help."""
    return [
        (one.flag, one.notebook_name, plain(one.default), one.allowed, one.help)
        for one in declared(cls).values()
    ]


HEADS = ("flag", "in a notebook", "default", "allowed", "what it is")


def as_text(cls: type[Any]) -> str:
    """The help table for a terminal: names and default in columns, below them what it is."""
    table = [HEADS[:3], *(row[:3] for row in rows(cls))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    named = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    told = ["", *(f"\n    {help}; {allowed}" for *_, allowed, help in rows(cls))]
    return "\n".join(map("".join, zip(named, told, strict=True)))


def as_markdown(cls: type[Any]) -> str:
    """The help table for a page."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    for flag, name, default, allowed, help in rows(cls):
        cells = (f"`{flag}`", f"`{name}`", f"`{default}`" if default else "", allowed, help)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def schema(cls: type[Any]) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of an object of parameters by field name."""
    doc = (cls.__doc__ or "").strip().splitlines()
    return {
        "$schema": DIALECT,
        "title": cls.__name__,
        "description": doc[0] if doc else "",
        "type": "object",
        "additionalProperties": False,
        "properties": {one.name: _property(one) for one in declared(cls).values()},
    }


def _property(one: Parameter) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": JSON_TYPES[one.kind],
        "description": one.help,
        "default": one.default,
    }
    if one.unit:
        described["unit"] = one.unit
    if one.low is not None:
        described["minimum"] = one.low
    if one.high is not None:
        described["maximum"] = one.high
    if one.choices is not None:
        described["enum"] = list(one.choices)
    if one.pattern is not None:
        described["pattern"] = f"^(?:{one.pattern})$"
    return described


def literals(cls: type[Any], names: Iterable[str] | None = None) -> str:
    """The text of a notebook's parameters cell, a line a parameter: NAME = literal  # comment.

    `names` (field names) leaves the others out; their defaults hold. papermill reads the comment
    as the parameter's help.
    """
    known = declared(cls)
    wanted = list(known) if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise BadInput(unknown(name, known))
    lines = [
        (f"{known[name].notebook_name} = {_literal(known[name].default)}", known[name])
        for name in wanted
    ]
    width = max((len(line) for line, _ in lines), default=0)
    return "\n".join(f"{line.ljust(width)}  # {_comment(one)}" for line, one in lines)


def _comment(one: Parameter) -> str:
    limits = ", ".join(one.choices) if one.choices is not None else one.span
    return f"{one.help} ({limits})" if limits else one.help


def _literal(value: Scalar) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain(value)
