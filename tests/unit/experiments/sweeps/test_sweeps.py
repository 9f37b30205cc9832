"""The lab `sweeps`: its conditions, results and figures, on real runs."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.catalog import find
from labs.drive.kernel.programs import programs
from labs.errors import Missing
from labs.experiments.sweeps import conditions as sweeps
from labs.experiments.sweeps import figures as charts
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.experiments.sweeps.figures import SERIES
from labs.experiments.sweeps.results import Results
from labs.guest.condition import Condition
from labs.read.readings.instruments import carried
from tests.real_runs import known, sweeps_study

KIB, MIB = 1 << 10, 1 << 20


def every(**given: object) -> dict[str, Condition]:
    conditions = find("sweeps").conditions(Sweeps(size="full", **given))  # type: ignore[arg-type]
    return {condition.name: condition for condition in conditions}


def test_conditions_on_machines_have_a_rate_that_they_carry() -> None:
    given = Sweeps.testbed_defaults("vagrant", "small")
    assert (given["rate_mbit"], given["delay_ms"]) == (100, 20)
    assert Sweeps.testbed_defaults("virtual", "small") == {}


def test_tools_name_the_package_of_iperf3(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **given: None if name == "iperf3" else which(name, **given)
    )
    with pytest.raises(Missing) as error:
        programs(sweeps.tools(every()["default"]))
    assert str(error.value) == "iperf3 is not installed. Run: apt-get install -y iperf3"


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


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> list[str]:
    return [str(note.text) for note in figure.layout.annotations]


def test_goodput_by_buffer_draws_a_run_of_two_studies_once() -> None:
    assert len(named(charts.goodput_by_buffer(STUDY, STUDY))[SERIES["sender"]].x) == 4


def series(*points: tuple[str, float | None, float | None, float | None]) -> list[str]:
    """The remarks on runs with these conditions, sizes of both buffers in KiB, and goodputs."""
    columns = ["condition", "requested_send_kib", "requested_receive_kib", "steady_mib_s"]
    return charts.remarks(DataFrame(points, columns=columns).assign(predicted_mib_s=None))


def test_series_is_full_from_the_smallest_size_with_95_percent_of_the_best() -> None:
    points = {1024: 96.0, 64: 7.0, 4096: 100.0, 16384: 80.0}
    names = {1024: "1m", 64: "64k", 4096: "4m", 16384: "16m"}
    (text,) = series(*((f"both-{names[kib]}", kib, kib, at) for kib, at in points.items()))
    assert "7.00 MiB/s at 64 KiB" in text and "80.0 MiB/s at 16 MiB" in text
    assert "from 1 MiB on" in text


def test_series_take_the_size_that_varies_and_leave_out_what_belongs_to_none() -> None:
    texts = series(
        ("receiver-64k", None, 64.0, 7.0),
        ("sender-1m", 1024.0, None, 90.0),
        ("fixed-256k-4m", 4096.0, 256.0, 80.0),
        ("fixed-8m-default", None, 8192.0, 80.0),
        ("sender-64k", 64.0, None, None),
        ("default", None, None, 113.0),
        ("surface-16k-1m", 16.0, 1024.0, 2.0),
    )
    assert [text.partition(":")[0] for text in texts] == [
        SERIES[name] for name in ("sender", "receiver", "fixed-256k")
    ]
    sizes = ("at 1 MiB", "at 64 KiB", "at 4 MiB")
    assert all(size in text for text, size in zip(texts, sizes, strict=True))
