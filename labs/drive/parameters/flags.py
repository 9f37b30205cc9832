"""A parameter class on the command line: flags, help table, JSON Schema."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, TypeVar

from labs.drive.parameters.axes import Axes, axes, split
from labs.drive.parameters.declare import (
    LabParameters,
    Parameter,
    Scalar,
    declared,
    flag_name,
    plain,
    told,
    with_testbed_defaults,
)
from labs.errors import BadInput

P = TypeVar("P", bound=LabParameters)
METAVARS = {str: "TEXT", int: "N", float: "NUMBER"}
SEVERAL = (
    "Several values of a number, a choice or a text, separated by commas, are a grid: the runs of "
    "every combination, in one table."
)
HEADS = ("flag", "in a notebook", "default", "allowed", "meaning")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def add_flags(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
    """Add a flag for every parameter of the class; BadInput if the parser has one of that name."""
    group = parser.add_argument_group("parameters of the lab", SEVERAL)
    for one in declared(cls).values():
        settings: dict[str, Any] = {
            "dest": _dest(one),
            "default": argparse.SUPPRESS,
            "help": _help(one).replace("%", "%%"),
        }
        if one.kind is bool:
            settings["action"] = argparse.BooleanOptionalAction
        else:
            settings["metavar"] = (
                "|".join(one.choices) if one.choices is not None else METAVARS[one.kind]
            )
        try:
            group.add_argument(one.flag, **settings)
        except argparse.ArgumentError as error:
            raise BadInput(
                f"the parameter {one.name} cannot have the flag {one.flag}, which the command has. "
                "Rename the parameter"
            ) from error


def from_flags(cls: type[P], namespace: argparse.Namespace) -> tuple[P, Axes]:
    """The instance with the values of the parsed flags, the first of several, and all values of
    the flags that have several. BadInput, in one line, names the flag."""
    values: dict[str, object] = {}
    several: dict[str, list[Scalar]] = {}
    for one in declared(cls).values():
        given = getattr(namespace, _dest(one), None)
        if given is None:
            continue
        if one.kind is not bool and (texts := split(one, given)):
            several[one.name] = [_read(one, text) for text in texts]
        else:
            values[one.name] = given if one.kind is bool else _read(one, given)
    varied = axes(cls, several, spell=flag_name)
    values |= {name: found[0] for name, found in varied.items()}
    return with_testbed_defaults(cls, values, spell=flag_name), varied


def _dest(one: Parameter) -> str:
    return f"parameter {one.name}"  # a space: no flag of a command can have this name


def _read(one: Parameter, text: str) -> Scalar:
    if one.kind is str:
        return text
    for read in (int, float) if one.kind is float else (int,):
        with contextlib.suppress(ValueError):
            return read(text)
    raise BadInput(f"{told(one.flag, text)} cannot be read; allowed: {one.allowed}")


def _help(one: Parameter) -> str:
    if one.kind is bool:
        return f"{one.help} (default: {'yes' if one.default else 'no'})"
    allowed = "" if one.choices is not None else f"; {one.allowed}"
    default = f" (default: {plain(one.default)})" if one.default != "" else ""
    return f"{one.help}{allowed}{default}"


def rows(cls: type[Any]) -> list[tuple[str, str, str, str, str]]:
    """One row per parameter: flag, notebook name, default, allowed values, help."""
    return [
        (one.flag, one.notebook_name, plain(one.default), one.allowed, one.help)
        for one in declared(cls).values()
    ]


def as_text(cls: type[Any]) -> str:
    """The help table for a terminal: names and default in columns, below them the meaning."""
    table = [HEADS[:3], *(row[:3] for row in rows(cls))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    named = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    told = ["", *(f"\n    {help}; {allowed}" for *_, allowed, help in rows(cls))]
    return "\n".join(map("".join, zip(named, told, strict=True)))


def as_markdown(cls: type[Any]) -> str:
    """The help table in Markdown."""
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
