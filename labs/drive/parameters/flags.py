"""A parameter class on the command line: its flags, with their help."""

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
    describe_value,
    flag_name,
    plain,
    with_testbed_defaults,
)
from labs.errors import BadInput

P = TypeVar("P", bound=LabParameters)
METAVARS = {str: "TEXT", int: "N", float: "NUMBER"}
SEVERAL = (
    "Several values of a number, a choice or a text, separated by commas, are a grid: the runs of "
    "every combination, in one table. In a notebook, --rate-mbit is RATE_MBIT."
)


def add_flags(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
    """Add a flag for every parameter of the class; BadInput if the parser has one of that name."""
    group = parser.add_argument_group("parameters of the lab", SEVERAL)
    for parameter in declared(cls).values():
        settings: dict[str, Any] = {
            "dest": _dest(parameter),
            "default": argparse.SUPPRESS,
            "help": _help(parameter).replace("%", "%%"),
        }
        if parameter.kind is bool:
            settings["action"] = argparse.BooleanOptionalAction
        else:
            settings["metavar"] = (
                "|".join(parameter.choices)
                if parameter.choices is not None
                else METAVARS[parameter.kind]
            )
        try:
            group.add_argument(parameter.flag, **settings)
        except argparse.ArgumentError as error:
            raise BadInput(
                f"the parameter {parameter.name} cannot have the flag {parameter.flag}, which the "
                "command has. Rename the parameter"
            ) from error


def from_flags(cls: type[P], namespace: argparse.Namespace) -> tuple[P, Axes]:
    """The instance with the values of the parsed flags, the first of several, and all values of
    the flags that have several. BadInput, in one line, names the flag."""
    values: dict[str, object] = {}
    several: dict[str, list[Scalar]] = {}
    for parameter in declared(cls).values():
        given = getattr(namespace, _dest(parameter), None)
        if given is None:
            continue
        if parameter.kind is not bool and (texts := split(parameter, given)):
            several[parameter.name] = [_read(parameter, text) for text in texts]
        else:
            values[parameter.name] = given if parameter.kind is bool else _read(parameter, given)
    varied = axes(cls, several, spell=flag_name)
    values |= {name: listed[0] for name, listed in varied.items()}
    return with_testbed_defaults(cls, values, spell=flag_name), varied


def _dest(parameter: Parameter) -> str:
    return f"parameter {parameter.name}"  # a space: no flag of a command can have this name


def _read(parameter: Parameter, text: str) -> Scalar:
    if parameter.kind is str:
        return text
    for read in (int, float) if parameter.kind is float else (int,):
        with contextlib.suppress(ValueError):
            return read(text)
    raise BadInput(
        f"{describe_value(parameter.flag, text)} cannot be read; allowed: {parameter.allowed}"
    )


def _help(parameter: Parameter) -> str:
    if parameter.kind is bool:
        return f"{parameter.help} (default: {'yes' if parameter.default else 'no'})"
    allowed = "" if parameter.choices is not None else f"; {parameter.allowed}"
    default = f" (default: {plain(parameter.default)})" if parameter.default != "" else ""
    return f"{parameter.help}{allowed}{default}"
