"""One declaration: the check, the flags, the notebook names, the help and the schema agree."""

from __future__ import annotations

import argparse
import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.catalog import LABS, find
from labs.cli.__main__ import Arguments
from labs.drive.kernel.versions import read_kernel_spec
from labs.drive.parameters import LabParameters, check, parameter
from labs.drive.parameters.declare import declared, notebook_name
from labs.drive.parameters.flags import add_flags, as_markdown, as_text, from_flags, rows, schema
from labs.drive.parameters.notebook_cell import from_globals, literals
from labs.errors import BadInput
from labs.experiments.buffers.parameters import Buffers

CLASSES = [find(lab).Parameters for lab in LABS]

# Another value than the default for every parameter of Buffers, as one would write it.
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
    return from_flags(Buffers, parser.read(words))


def test_what_is_not_named_keeps_its_default() -> None:
    assert check(Buffers, {}) == Buffers()
    assert check(Buffers, {"rate_mbit": 10}).rate_mbit == 10.0


def test_numbers_are_kept_in_their_own_kind() -> None:
    made = check(Buffers, {"rate_mbit": 10, "seed": 3})
    assert type(made.rate_mbit) is float and type(made.seed) is int
    assert type(Buffers(delay_ms=5).delay_ms) is float


def test_every_way_in_gives_the_same_parameters() -> None:
    assert set(OTHER) == set(declared(Buffers))
    asked = check(Buffers, OTHER)
    assert all(getattr(asked, name) != getattr(Buffers(), name) for name in OTHER)
    words = []
    for name, one in declared(Buffers).items():
        words += [one.flag] if one.kind is bool else [one.flag, str(OTHER[name])]
    assert read_flags(*words) == asked
    assert from_globals(Buffers, {name.upper(): value for name, value in OTHER.items()}) == asked
    assert Buffers(**OTHER) == asked


def test_flags_are_made_from_the_names() -> None:
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
def test_an_odd_value_is_refused_in_one_line(values: dict[str, Any], parts: list[str]) -> None:
    line = refused(values)
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--rate-mbti", "10"], ["--rate-mbti is not a flag of labs run", "--rate-mbit?"]),
        (["--rate", "10"], ["--rate is not a flag"]),
        (["--rate-mbit", "ten"], ['--rate-mbit "ten" cannot be read', "0.1 to 100000 Mbit/s"]),
        (["--rate-mbit", "0"], ["--rate-mbit 0 is out of range"]),
        (["--rate-mbit", "nan"], ["--rate-mbit nan is not finite"]),
        (["--loss-pct", "-1"], ["--loss-pct -1 is out of range"]),
        (["--seed", "1.5"], ['--seed "1.5" cannot be read', "a whole number"]),
        (["--size", "smal"], ["did you mean small?"]),
        (["--rate-mbit"], ["--rate-mbit", "expected one argument"]),
        (["--capture=yes"], ["--capture"]),
        (["both"], ["both is one word too many"]),
    ],
)
def test_an_odd_flag_is_refused_in_one_line(words: list[str], parts: list[str]) -> None:
    with pytest.raises(BadInput) as caught:
        read_flags(*words)
    line = str(caught.value)
    assert "\n" not in line
    for part in parts:
        assert part in line


def test_a_switch_can_be_turned_off() -> None:
    assert not read_flags("--capture", "--no-capture").capture


def test_an_instance_is_right_by_construction() -> None:
    with pytest.raises(BadInput, match="rate_mbit = -1 is out of range"):
        Buffers(rate_mbit=-1)
    with pytest.raises(BadInput, match="is out of range"):
        dataclasses.replace(Buffers(), seed=-1)


def test_a_lab_s_flag_may_not_be_one_of_the_command() -> None:
    parser = Arguments(prog="labs run")
    parser.add_argument("--seed")
    with pytest.raises(BadInput, match="the parameter seed cannot be --seed"):
        add_flags(parser, Buffers)


def test_only_names_conditions() -> None:
    there = ("unshaped", "default", "both")
    assert LabParameters().chosen(there) == there
    assert LabParameters(only="both, default").chosen(there) == ("default", "both")
    with pytest.raises(BadInput, match=r"defalt is not a condition; did you mean default\?"):
        LabParameters(only="defalt").chosen(there)


@pytest.mark.parametrize(
    "text", ["6.1", "6.12", "6.1.192", "6.1.192-2", "6.12.9-1~bpo12+1", "8a2551657a66", "12345678"]
)
def test_a_kernel_is_named_as_the_store_names_it(text: str) -> None:
    assert LabParameters(kernel=text).kernel == text
    assert read_kernel_spec(text).text == text


@pytest.mark.parametrize("text", ["", "6", "six", "6.1-2", "v6.1", "8a25516", "6.1 "])
def test_what_no_kernel_can_be_called_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        LabParameters(kernel=text)
    with pytest.raises(BadInput):
        read_kernel_spec(text)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_schema_is_one_and_takes_the_defaults(cls: type[Any]) -> None:
    made = schema(cls)
    jsonschema.Draft202012Validator.check_schema(made)
    jsonschema.validate(dataclasses.asdict(cls()), made)
    assert made["additionalProperties"] is False
    assert set(made["properties"]) == set(declared(cls))
    for name, one in declared(cls).items():
        assert made["properties"][name]["default"] == one.default
        assert made["properties"][name]["description"]


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(declared(Buffers))),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-10, 10),
        st.integers(),
        st.floats(-10, 10),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["small", "server", "wget", "6.1", "12345678", "virtual", " "]),
        st.text(st.characters(exclude_characters="\n\r"), max_size=12),
    ),
)
def test_schema_and_check_accept_the_same(name: str, value: Any) -> None:
    whole = isinstance(value, float) and value.is_integer()
    if whole and declared(Buffers)[name].kind is int:
        return  # JSON Schema cannot tell 1.0 from 1
    try:
        check(Buffers, {name: value})
        accepted = True
    except BadInput as error:
        accepted = False
        assert "\n" not in str(error)
    found = jsonschema.Draft202012Validator(schema(Buffers)).is_valid({name: value})
    assert found == accepted


def test_the_schema_refuses_what_is_not_declared() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"rate_mbti": 10}, schema(Buffers))


@pytest.mark.parametrize("cls", CLASSES)
def test_the_cell_s_text_gives_the_defaults_back(cls: type[Any]) -> None:
    names: dict[str, Any] = {}
    for line in literals(cls).splitlines():
        code, _, comment = line.partition("  # ")
        assert comment
        name, _, literal = code.partition(" = ")
        names[name] = ast.literal_eval(literal.strip())
    assert from_globals(cls, names) == cls()


def test_the_cell_s_text_may_hold_some_names_only() -> None:
    text = literals(Buffers, ["size", "rate_mbit"])
    assert text.splitlines() == [
        'SIZE = "small"    # number of conditions: a few, or all of them (small, full)',
        "RATE_MBIT = 1000  # rate of the link (0.1 to 100000 Mbit/s)",
    ]
    with pytest.raises(BadInput, match=r"rate_mbti is not a parameter; did you mean rate_mbit\?"):
        literals(Buffers, ["rate_mbti"])


@pytest.mark.parametrize("cls", CLASSES)
def test_the_help_tables_name_every_parameter(cls: type[Any]) -> None:
    text, page = as_text(cls), as_markdown(cls)
    assert len(text.splitlines()) == 2 * len(rows(cls)) + 1
    assert len(page.splitlines()) == len(rows(cls)) + 2
    for one in declared(cls).values():
        assert one.help and one.flag in text and one.notebook_name in page
        assert one.allowed in text


def test_flag_help_survives_per_cent_signs() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, Buffers)
    assert "0 to 50 %" in " ".join(parser.format_help().split())


def test_declarations_that_cannot_be_used_are_told_so() -> None:
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
