"""Parameters on the command line: flags, defaults of a testbed, help tables, JSON Schema."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TypeVar

import pytest

from labs.catalog import LABS, find
from labs.cli.command import Arguments
from labs.drive.parameters import parameter
from labs.drive.parameters.axes import MOST_POINTS, Axes
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import add_flags, from_flags
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.conditions import conditions
from labs.experiments.nagle.conditions import Parameters as Nagle

CLASSES = [find(lab).Parameters for lab in LABS]
P = TypeVar("P", bound=LabParameters)


def with_axes(cls: type[P], *words: str) -> tuple[P, Axes]:
    parser = Arguments(prog="labs run")
    add_flags(parser, cls)
    return from_flags(cls, parser.read(list(words)))


def read(cls: type[P], *words: str) -> P:
    return with_axes(cls, *words)[0]


def parsed(*words: str) -> Buffers:
    return read(Buffers, *words)


@pytest.mark.parametrize(
    ("words", "rate_mbit", "transfer_mib"),
    [
        ((), 1000, 1024),
        (("--testbed", "namespaces"), 1000, 1024),
        (("--testbed", "vagrant"), 200, 128),
        (("--testbed", "vagrant", "--rate-mbit", "1000"), 1000, 128),
        (("--testbed", "vagrant", "--size", "full"), 1000, 1024),
    ],
)
def test_testbed_defaults_of_buffers_on_machines(
    words: tuple[str, ...], rate_mbit: float, transfer_mib: int
) -> None:
    values = parsed(*words)
    assert (values.rate_mbit, values.transfer_mib) == (rate_mbit, transfer_mib)


def test_testbed_defaults_of_nagle_on_machines() -> None:
    assert read(Nagle).concurrency == 100
    assert read(Nagle, "--testbed", "vagrant").concurrency == 2
    assert read(Nagle, "--testbed", "vagrant", "--concurrency", "50").concurrency == 50


def test_conditions_of_size_small_on_machines() -> None:
    names = [condition.name for condition in conditions(parsed("--testbed", "vagrant"))]
    assert names == ["unshaped", "shaped", "default", "wmem", "both", "rmem100"]
    assert names[2] == "default"


def test_testbed_defaults_do_not_change_an_instance() -> None:
    assert Buffers(testbed="vagrant").rate_mbit == 1000


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
        (["both"], ["both is an unexpected argument"]),
        (["--rate-mbit", "50,x"], ['--rate-mbit "x" cannot be read', "0.1 to 100000 Mbit/s"]),
        (["--rate-mbit", "50,0"], ["--rate-mbit 0 is out of range"]),
        (["--rate-mbit", "50,,100"], ['--rate-mbit "50,,100" has an empty value']),
        (["--rate-mbit", ","], ['--rate-mbit "," has an empty value']),
        (["--client", "wget,curl"], ['--client "curl" is not a choice', "discard, wget"]),
        (["--seed", "1,2.5"], ['--seed "2.5" cannot be read']),
        (["--testbed", "virtual,vagrant"], ['--testbed "virtual,vagrant" is not a choice']),
        (["--size", "small,full"], ['--size "small,full" is not a choice']),
    ],
)
def test_from_flags_refuses_a_wrong_flag_in_one_line(words: list[str], parts: list[str]) -> None:
    with pytest.raises(BadInput) as caught:
        parsed(*words)
    line = str(caught.value)
    assert "\n" not in line
    for part in parts:
        assert part in line


def test_from_flags_of_several_values() -> None:
    values, axes = with_axes(
        Buffers, "--delay-ms", "10, 50", "--rate-mbit", "50,1e2,100", "--client", "wget,discard"
    )
    assert list(axes.items()) == [
        ("rate_mbit", (50.0, 100.0)),
        ("delay_ms", (10.0, 50.0)),
        ("client", ("wget", "discard")),
    ]
    assert values == Buffers(rate_mbit=50, delay_ms=10, client="wget")


def test_from_flags_of_values_with_commas_of_their_own() -> None:
    values, axes = with_axes(
        Nagle, "--only", "on,off", "--kernel", "6.1,6.12", "--into", "a,b", "--capture-file", "c,d"
    )
    assert not axes
    assert (values.only, values.runs, values.capture_file) == ("on,off", "a,b", "c,d")
    assert values.kernels == ("6.1", "6.12")


def test_from_flags_takes_a_list_for_a_text_unless_declared_otherwise() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Own(LabParameters):
        queue: str = parameter("fq", help="the queue")
        rules: str = parameter("", help="rules of a firewall", several=False)

    values, axes = with_axes(Own, "--queue", "fq,pfifo", "--rules", "a,b")
    assert axes == {"queue": ("fq", "pfifo")}
    assert (values.queue, values.rules) == ("fq", "a,b")


def test_from_flags_keeps_a_list_where_the_testbed_has_a_default() -> None:
    """The default rate on machines is 200 Mbit/s."""
    values, axes = with_axes(Buffers, "--testbed", "vagrant", "--rate-mbit", "50,100")
    assert axes == {"rate_mbit": (50.0, 100.0)}
    assert (values.rate_mbit, values.transfer_mib) == (50, 128)


def test_from_flags_refuses_too_many_points() -> None:
    many = ",".join(map(str, range(1, 202)))
    with pytest.raises(BadInput) as caught:
        parsed("--rate-mbit", many, "--delay-ms", many)
    assert f"{201 * 201} points" in str(caught.value) and str(MOST_POINTS) in str(caught.value)


def test_from_flags_turns_a_switch_off() -> None:
    assert not parsed("--capture", "--no-capture").capture


def test_add_flags_refuses_a_flag_of_the_command() -> None:
    parser = Arguments(prog="labs run")
    parser.add_argument("--seed")
    with pytest.raises(BadInput, match=r"^the parameter seed cannot have the flag --seed"):
        add_flags(parser, Buffers)


def test_add_flags_help_may_contain_percent_signs() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, Buffers)
    assert "0 to 50 %" in " ".join(parser.format_help().split())
