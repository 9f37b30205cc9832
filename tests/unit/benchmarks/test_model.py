"""The comparison of the model with the kernel: choice of points, conditions, errors, summaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import model, model_errors
from benchmarks.model_chart import bent, errors
from benchmarks.model_errors import Compared
from benchmarks.points import NAMES, read
from labs.errors import BadInput

POINT = read("a")[0]


def compared(
    steady_pct: float | None, time_pct: float | None, bound: str = "link", kernel: str = "6.1"
) -> Compared:
    is_predicted = steady_pct is not None
    return Compared(
        point=replace(POINT, kernel=kernel),
        run="sweeps-a-000-0123456789ab",
        measured_goodput_bytes_s=1e6,
        measured_steady_bytes_s=2e6,
        measured_s=1.0,
        predicted_goodput_bytes_s=1e6 if is_predicted else None,
        predicted_steady_bytes_s=2e6 if is_predicted else None,
        predicted_s=1.0 if is_predicted else None,
        steady_error_pct=steady_pct,
        time_error_pct=time_pct,
        bound=bound,
        reason="" if is_predicted else "too few packets",
        disturbed="",
    )


@pytest.mark.parametrize(
    ("only", "numbers"),
    [("", list(range(208))), ("7", [7]), ("3..5", [3, 4, 5]), ("9,0..1", [0, 1, 9])],
)
def test_chosen_takes_numbers_and_ranges(only: str, numbers: list[int]) -> None:
    assert [point.name for point in model.chosen(read("a"), only)] == [
        f"a-{number:03d}" for number in numbers
    ]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("208", "--only 208 is out of range. Allowed: 0 to 207"),
        ("5..3", "--only 5..3 is out of range. Allowed: 0 to 207"),
        ("x", "--only x cannot be read. Allowed: numbers such as 7 or 0..9"),
    ],
)
def test_chosen_refuses_in_one_line(only: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        model.chosen(read("a"), only)
    assert str(error.value) == message


def test_main_prints_one_line_for_a_bad_choice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words, message in (
        (["--set", "wget", "--only", "999"], "--only 999 is out of range. Allowed: 0 to 103"),
        (["--only", "9"], "--only selects points of one set. Name it: --set wget"),
    ):
        assert model.main([*words, "--into", str(tmp_path)]) == 2
        assert capsys.readouterr().err == f"model: {message}\n"


def test_condition_of_and_flow_of_describe_the_same_point() -> None:
    """iperf3 -M counts the 12 bytes of timestamps; setsockopt and the sysctls double a request."""
    for point in read("a"):
        condition, flow = model.condition_of(point), model.flow_of(point)
        settings, link = condition.settings, condition.link
        assert (link.rate_mbit, link.delay_ms) == (flow.rate_mbit, flow.rtt_ms)
        assert settings["write_bytes"] == flow.write_bytes
        assert settings["mss_bytes"] in (flow.mss_bytes + 12, 0)
        assert (settings["mss_bytes"] == 0) == (flow.mss_bytes == 1448)
        sndbuf = condition.sysctls.get("server", {}).get("net.ipv4.tcp_wmem")
        assert sndbuf == (flow.sndbuf_bytes and f"4096 {flow.sndbuf_bytes} {flow.sndbuf_bytes}")
        rcvbuf = condition.sysctls.get("client", {}).get("net.ipv4.tcp_rmem")
        assert rcvbuf == (flow.rcvbuf_bytes and f"4096 {flow.rcvbuf_bytes} {flow.rcvbuf_bytes}")


def test_compare_says_why_a_point_was_not_measured() -> None:
    result = model.compare(POINT, "the kernel panicked")
    assert (result.reason, result.run, result.error_pct) == ("the kernel panicked", None, None)
    assert result.predicted_steady_bytes_s is not None


@pytest.mark.parametrize("name", NAMES)
def test_named_finds_the_point_of_a_failed_run(name: str) -> None:
    points = read(name)
    assert model.named(f"sweeps {points[3].name}: the kernel was ended", points) == points[3]
    assert model.named("no space left", points) is None


def test_error_pct_is_relative_to_the_measurement() -> None:
    assert model_errors.error_pct(110.0, 100.0) == pytest.approx(10)
    assert model_errors.error_pct(None, 100.0) is model_errors.error_pct(1.0, None) is None


def test_summary_counts_the_larger_error_of_each_point() -> None:
    some = [compared(0.5, -1.0), compared(-3.0, 2.0), compared(None, None)]
    summary = model_errors.summary("x", some)
    assert (summary.points, summary.predicted, summary.median_pct, summary.worst_pct) == (
        3,
        2,
        2,
        3,
    )
    assert summary.silent_pct == pytest.approx(100 / 3)
    assert summary.p95_pct == pytest.approx(2.9)


def test_summary_of_points_without_a_prediction_has_no_figures() -> None:
    summary = model_errors.summary("x", [compared(None, None)])
    assert (summary.median_pct, summary.worst_pct, summary.silent_pct) == (None, None, 100)


def test_summaries_are_per_kernel_and_per_bound() -> None:
    some = [compared(0.1, 0.1), compared(0.2, 0.2, "send buffer", "7.2")]
    groups = [summary.group for summary in model_errors.summaries(some)]
    assert groups[:5] == [
        *("all points", "Linux 6.1", "Linux 7.2", "bound: link", "bound: send buffer")
    ]


def test_describe_lists_the_furthest_points_and_the_silent_ones() -> None:
    text = model_errors.describe([compared(9.5, 1.0), compared(None, None)])
    assert "+9.50" in text and "a-000: too few packets" in text
    assert "Not met: median 9.50 %, not 0.5 %; 95 % of the points 9.50 %, not 2 %; worst" in text


def test_goal() -> None:
    near = [compared(0.1, 0.2)] * 20
    assert model_errors.missed(near) == []
    assert model_errors.goal(near).endswith("Met.")
    assert model_errors.missed([*near, compared(5.5, 0.0)]) == ["worst 5.50 %, not 5 %"]
    assert model_errors.missed([*near, *[compared(None, None)] * 4]) == [
        "4 points without an error, not 3"
    ]


def test_goal_allows_what_the_interval_contains() -> None:
    near = [compared(0.1, 0.2)] * 99
    chance = replace(compared(5.5, 0.0), beyond_pct=0.4)
    assert model_errors.missed([*near, chance]) == []
    assert model_errors.goal([*near, chance]).endswith("Met. Above 5 % and in the interval: a-000.")
    beyond = replace(compared(5.5, 0.0), beyond_pct=0.6)
    assert model_errors.missed([*near, chance, beyond]) == ["worst 5.50 %, not 5 %"]
    another = replace(chance, point=read("a")[1])
    assert model_errors.missed([*near, chance, another]) == ["worst 5.50 %, not 5 %"]


def test_beyond_pct_of_a_point_that_chance_decides() -> None:
    """fresh-086 as measured on 6.12.117: one of two courses, of which the model takes the other."""
    point = next(point for point in read("fresh") if point.name == "fresh-086")
    result = replace(
        compared(5.96, -1.87),
        point=point,
        measured_steady_bytes_s=96_107_597.0,
        measured_goodput_bytes_s=89_352_781.0,
    )
    assert model.judged(result).beyond_pct == pytest.approx(0, abs=0.01)
    assert model.judged(replace(result, steady_error_pct=4.9)).beyond_pct is None
    slow = model.beyond_pct(replace(result, measured_steady_bytes_s=48e6))
    assert slow == pytest.approx(100, abs=1)


def test_bent_is_linear_up_to_1_percent_and_logarithmic_beyond() -> None:
    assert [bent(error) for error in (0.0, 0.5, -1.0, 10.0, -100.0)] == [0, 0.5, -1, 2, -3]


def test_errors_draws_every_predicted_point_in_both_panels() -> None:
    some = [compared(0.1, 0.1), compared(0.2, 0.3, "send buffer"), compared(None, None)]
    figure = errors(some, "a", 5.0)
    assert [len(trace.x) for trace in figure.data] == [1, 1, 1, 1]
    assert "2 of 3 points predicted" in figure.layout.meta["caption"]


def test_errors_without_a_prediction_says_so() -> None:
    assert not errors([compared(None, None)], "a", 5.0).data
