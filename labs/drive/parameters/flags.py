"""A parameter class as flags of a command."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, TypeVar

from labs.drive.parameters.base import LabParameters
from labs.drive.parameters.declare import Parameter, Scalar, check, declared, flag_name, plain, told
from labs.errors import BadInput

P = TypeVar("P", bound=LabParameters)
METAVARS = {str: "TEXT", int: "N", float: "NUMBER"}


def add_flags(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
    """Add a flag for every parameter of the class; BadInput if one is the parser's own already."""
    group = parser.add_argument_group("parameters of the lab")
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
                f"the parameter {one.name} cannot be {one.flag}, a flag of the command itself; "
                "give it another name"
            ) from error


def from_flags(cls: type[P], namespace: argparse.Namespace) -> P:
    """The instance that the parsed flags ask for; BadInput, in one line, names the flag."""
    values: dict[str, object] = {}
    for one in declared(cls).values():
        given = getattr(namespace, _dest(one), None)
        if given is not None:
            values[one.name] = given if one.kind is bool else _read(one, given)
    requested = check(cls, values, spell=flag_name)
    defaults = requested.testbed_defaults(requested.testbed, requested.size)
    if defaults.keys() <= values.keys():
        return requested
    return check(cls, {**defaults, **values}, spell=flag_name)


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
