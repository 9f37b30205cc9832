"""The results of real runs of the lab `sweeps`, worked out from their raw output."""

from __future__ import annotations

import pytest

from labs.errors import BadInput
from labs.experiments.sweeps.figures import granted
from labs.experiments.sweeps.results import Results
from labs.read.readings.instruments import carried
from tests.real_runs import known, sweeps_study

STUDY = sweeps_study()
TRANSFERS = [name for name in STUDY.conditions if Results(STUDY.run(name)).received]


def results_of(condition: str) -> Results:
    return Results(STUDY.run(condition))


@pytest.mark.parametrize("condition", TRANSFERS)
def test_payload_and_goodput_equal_those_of_another_reading(condition: str) -> None:
    """`carried` counts the same capture in another way, up to the end of the capture; iperf3 is
    interrupted a few round trips after the last byte that counts."""
    run, results = STUDY.run(condition), results_of(condition)
    path = run.capture("client")
    assert path is not None
    every = carried(path, run.link.asked.port)
    assert 0 < known(results.transfer_bytes) <= every.payload_bytes
    wanted = run.condition_asked.settings["transfer_bytes"]
    assert isinstance(wanted, int) and known(results.transfer_bytes) >= wanted
    assert known(results.goodput_bytes_s) == pytest.approx(
        known(results.transfer_bytes) / known(results.took_s)
    )


@pytest.mark.parametrize("condition", [name for name in TRANSFERS if name.startswith("both-")])
def test_steady_goodput_is_at_most_a_window_per_round_trip(condition: str) -> None:
    """The advertised window over 8 ms, and 114 MiB/s of payload; a burst at the end is 2 %."""
    results = results_of(condition)
    most = min(known(results.advertised_kib) / 1024 / 0.008, 114.1)
    assert 0.8 * most < known(results.steady_mib_s) <= 1.02 * most


@pytest.mark.parametrize(
    "condition",
    [name for name in TRANSFERS if name.startswith(("sender-", "receiver-", "fixed-", "default"))],
)
def test_prediction_is_within_the_goal_of_the_model(condition: str) -> None:
    """5 %: the goal of the model's test (`make model`), for points that it was not made for."""
    results = results_of(condition)
    assert known(results.predicted_mib_s) == pytest.approx(known(results.steady_mib_s), rel=0.05)
    assert results.bound


def test_granted_of_a_transfer_is_refused() -> None:
    with pytest.raises(BadInput, match="requests no buffers"):
        granted("literal", STUDY)
