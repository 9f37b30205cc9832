"""What is said about parameters that were not recorded."""

from __future__ import annotations

import dataclasses

import pytest

import labs
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers

RECORDED = Buffers(testbed="recorded", only="default,both")


def refused(**changed: object) -> str:
    with pytest.raises(BadInput) as caught:
        labs.study(dataclasses.replace(RECORDED, **changed))  # type: ignore[arg-type]
    return str(caught.value)


def test_refusal_names_the_parameter_and_the_recorded_values() -> None:
    assert refused(delay_ms=24) == (
        "no recorded run of `default` with DELAY_MS = 24 (recorded: 22, 26, 30, 200). "
        'To run it, set TESTBED = "virtual" (on Linux).'
    )


def test_refusal_names_no_derived_setting() -> None:
    """The length of netem's queue follows from rate and delay."""
    assert "queue_packets" not in refused(rate_mbit=300, delay_ms=24)


def test_refusal_names_two_parameters_and_omits_what_has_no_effect() -> None:
    message = refused(delay_ms=24, kernel="6.10", repetitions_min=7)
    assert "DELAY_MS = 24" in message and "KERNEL = 6.10" in message
    assert "REPETITIONS_MIN" not in message


@pytest.mark.parametrize("delay_ms", [22, 26, 30])
def test_study_finds_the_runs_of_the_exercises(delay_ms: float) -> None:
    study = labs.study(dataclasses.replace(RECORDED, delay_ms=delay_ms))
    assert study.conditions == ("default", "both")


@pytest.mark.parametrize("buffer_mib", [41.0, 45.6])
def test_study_finds_the_buffers_of_the_exercises(buffer_mib: float) -> None:
    p = dataclasses.replace(RECORDED, only="wmem,both,rmem100", buffer_mib=buffer_mib)
    assert labs.study(p).conditions == ("wmem", "both", "rmem100")


def test_study_with_conditions_adds_those_of_size_full() -> None:
    study = labs.study(RECORDED)
    lossy = study.with_conditions("loss-0.1-cubic-[01]")
    assert lossy.conditions == ("loss-0.1-cubic-0", "loss-0.1-cubic-1")
    with pytest.raises(BadInput, match=r"no condition of buffers matches lss-\*"):
        study.with_conditions("default", "lss-*")
    with pytest.raises(BadInput, match="there is no study of these conditions on vagrant"):
        lossy.on_testbed("vagrant").repetitions()


def test_study_guesses_are_beside_the_columns_prediction() -> None:
    study = labs.study(RECORDED)
    table = study.guesses("steady_mib_s", {"default": 20, "both": None})
    assert list(table["Guessed"]) == ["default", "both"]
    assert table["Measured / guess"][0] == pytest.approx(13.6 / 20, rel=0.02)
    with pytest.raises(BadInput, match="did you mean steady_mib_s"):
        study.guesses("stedy_mib_s", {})
