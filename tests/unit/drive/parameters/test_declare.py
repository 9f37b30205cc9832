"""One declaration of parameters, checked in the same way wherever the values come from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import LABS, find
from labs.cli.command import Arguments
from labs.drive.kernel.versions import read_kernel_spec
from labs.drive.parameters import LabParameters, check, parameter
from labs.drive.parameters.declare import declared, notebook_name
from labs.drive.parameters.flags import add_flags, from_flags
from labs.drive.parameters.notebook_cell import from_globals
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers

CLASSES = [find(lab).Parameters for lab in LABS]

# A value other than the default for every parameter of Buffers, as a person writes it.
OTHER: dict[str, Any] = {
    "size": "full",
    "only": "default, both",
    "testbed": "namespaces",
    "kernel": "6.12",
    "runs": "elsewhere",
    "seed": 7,
    "memory_mib": 8192,
    "capture": True,
    "rate_mbit": 10.5,
    "delay_ms": 0,
    "loss_pct": 0.1,
    "jitter_ms": 3,
    "shaped_at": "router",
    "buffer_mib": 0.5,
    "client": "wget",
    "read_bytes": 1,
    "transfer_mib": 2,
    "limit_s": 5,
    "repetitions_min": 6,
    "repetitions_max": 12,
    "ci_width_pct": 5,
}


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        check(Buffers, values, spell=notebook_name)
    line = str(caught.value)
    assert "\n" not in line
    return line


def read_flags(*words: str) -> Buffers:
    parser = Arguments(prog="labs run")
    add_flags(parser, Buffers)
    return from_flags(Buffers, parser.read(words))[0]


def test_check_keeps_defaults() -> None:
    assert check(Buffers, {}) == Buffers()
    assert check(Buffers, {"rate_mbit": 10}).rate_mbit == 10.0


def test_check_keeps_the_kind_of_numbers() -> None:
    made = check(Buffers, {"rate_mbit": 10, "seed": 3})
    assert type(made.rate_mbit) is float and type(made.seed) is int
    assert type(Buffers(delay_ms=5).delay_ms) is float


def test_check_agrees_with_flags_and_globals() -> None:
    assert set(OTHER) == set(declared(Buffers))
    asked = check(Buffers, OTHER)
    assert all(getattr(asked, name) != getattr(Buffers(), name) for name in OTHER)
    words = []
    for name, one in declared(Buffers).items():
        words += [one.flag] if one.kind is bool else [one.flag, str(OTHER[name])]
    assert read_flags(*words) == asked
    assert from_globals(Buffers, {name.upper(): value for name, value in OTHER.items()}) == asked
    assert Buffers(**OTHER) == asked


def test_declared_gives_flags_and_notebook_names() -> None:
    other_flags = {"runs": "--into"}
    for name, one in declared(Buffers).items():
        assert one.flag == other_flags.get(name, "--" + name.replace("_", "-"))
        assert one.notebook_name == name.upper()


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"RATE_MBTI": 10}, ["RATE_MBTI is not a parameter", "did you mean RATE_MBIT?"]),
        ({"rate-mbit": 10}, ["rate-mbit is not a parameter", "did you mean RATE_MBIT?"]),
        ({"zork": 10}, ["zork is not a parameter", "RATE_MBIT", "SEED"]),
        ({"rate_mbit": "200"}, ['RATE_MBIT = "200" is text, not a number', "0.1 to 100000 Mbit/s"]),
        ({"rate_mbit": None}, ["RATE_MBIT = None", "not a number"]),
        ({"rate_mbit": True}, ["RATE_MBIT = True is a switch, not a number"]),
        ({"rate_mbit": [10]}, ["RATE_MBIT = [10] is a list"]),
        ({"seed": True}, ["SEED = True is a switch, not a whole number"]),
        ({"seed": 1.0}, ["SEED = 1.0 is a number, not a whole number"]),
        ({"capture": 1}, ["CAPTURE = 1 is a whole number", "True or False"]),
        ({"capture": "yes"}, ['CAPTURE = "yes"', "True or False"]),
        ({"runs": Path("runs")}, ["RUNS = ", "not text", "a folder"]),
        ({"kernel": 6.1}, ["KERNEL = 6.1 is a number", 'in quotes, "6.1"', "-r KERNEL 6.1"]),
        ({"kernel": "six"}, ['KERNEL = "six"', "6.1.192-2", "digest"]),
        ({"rate_mbit": 0}, ["RATE_MBIT = 0 is out of range", "0.1 to 100000 Mbit/s"]),
        ({"loss_pct": 50.1}, ["LOSS_PCT = 50.1 is out of range", "0 to 50 %"]),
        ({"seed": -1}, ["SEED = -1 is out of range", "0 to 2147483647"]),
        ({"memory_mib": 512}, ["MEMORY_MIB = 512 is out of range", "1024 to 65536 MiB"]),
        ({"rate_mbit": float("nan")}, ["RATE_MBIT = nan is not finite"]),
        ({"rate_mbit": float("inf")}, ["RATE_MBIT = inf is not finite"]),
        ({"rate_mbit": 10**400}, ["RATE_MBIT = 1000", "is not finite"]),
        ({"seed": 10**5000}, ["SEED = a number too long to print is out of range"]),
        ({"kernel": 10**5000}, ["KERNEL = a number too long to print"]),
        ({"size": "smal"}, ['SIZE = "smal" is not a choice', "small, full", "did you mean small?"]),
        ({"size": ""}, ['SIZE = "" is not a choice']),
        ({"testbed": "vm"}, ["virtual, namespaces, vagrant, recorded"]),
        ({"runs": ""}, ['RUNS = "" cannot be read', "a folder"]),
        ({"runs": "a\nb"}, ['RUNS = "a b" cannot be read']),
        ({"runs": "a\0b"}, ["cannot be read"]),
    ],
)
def test_check_refuses_a_wrong_value_in_one_line(values: dict[str, Any], parts: list[str]) -> None:
    line = refused(values)
    for part in parts:
        assert part in line


def test_lab_parameters_are_validated_by_construction() -> None:
    with pytest.raises(BadInput, match="rate_mbit = -1 is out of range"):
        Buffers(rate_mbit=-1)
    with pytest.raises(BadInput, match="is out of range"):
        dataclasses.replace(Buffers(), seed=-1)


def test_chosen_names_conditions() -> None:
    there = ("unshaped", "default", "both")
    assert LabParameters().chosen(there) == there
    assert LabParameters(only="both, default").chosen(there) == ("default", "both")
    family = ("sweep-1", "sweep-2", "sweeping", "both")
    assert LabParameters(only="sweep").chosen(family) == ("sweep-1", "sweep-2")
    assert LabParameters(only="sweep,both").chosen((*family, "sweep")) == ("both", "sweep")
    with pytest.raises(BadInput, match=r"defalt is not a condition; did you mean default\?"):
        LabParameters(only="defalt").chosen(there)


@pytest.mark.parametrize(
    "text", ["6.1", "6.12", "6.1.192", "6.1.192-2", "6.12.9-1~bpo12+1", "8a2551657a66", "12345678"]
)
def test_lab_parameters_accept_the_kernel_names_of_the_store(text: str) -> None:
    assert LabParameters(kernel=text).kernel == text
    assert read_kernel_spec(text).text == text


def test_kernels_are_the_names_between_commas() -> None:
    assert LabParameters(kernel="6.1").kernels == ("6.1",)
    named = LabParameters(kernel="5.10, 6.1.192-2,8a2551657a66 ,6.1.192-2")
    assert named.kernels == ("5.10", "6.1.192-2", "8a2551657a66")
    for text in ("6.1,", ",6.1", "6.1,,7.2", "6.1 7.2", "6.1,six"):
        with pytest.raises(BadInput, match="separated by commas"):
            LabParameters(kernel=text)


@pytest.mark.parametrize("text", ["", "6", "six", "6.1-2", "v6.1", "8a25516", "6.1 "])
def test_lab_parameters_refuse_other_kernel_names(text: str) -> None:
    with pytest.raises(BadInput):
        LabParameters(kernel=text)
    with pytest.raises(BadInput):
        read_kernel_spec(text)


def test_declared_refuses_unusable_declarations() -> None:
    class Bare(LabParameters):
        rate: float = parameter(1.0, help="")

    @dataclass(frozen=True, kw_only=True)
    class Optional(LabParameters):
        rate: float | None = None

    @dataclass(frozen=True, kw_only=True)
    class Shouting(LabParameters):
        RATE: float = parameter(1.0, help="")

    @dataclass(frozen=True, kw_only=True)
    class Wrong(LabParameters):
        rate: float = parameter(1.0, low=2, help="")

    for cls, said in (
        (Bare, "write @dataclass"),
        (Optional, "str, int, float or bool"),
        (Shouting, "lower case"),
        (Wrong, "Wrong.rate: default = 1.0 is out of"),
    ):
        with pytest.raises(BadInput) as caught:
            declared(cls)
        assert said in str(caught.value)
