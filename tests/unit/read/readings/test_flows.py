"""Flows and queues of a run with several, from reports as programs write them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.errors import Damaged
from labs.guest.flows import Flow, Requests, Traffic
from labs.guest.testbed.path import Change, Direction, NetworkPath
from labs.read.parse.reports import StreamReport
from labs.read.readings.bottleneck import bytes_between
from labs.read.readings.flows import Carried, cuts_of, traffic_of_plan

SECOND = 10**9
PATH = NetworkPath(
    Direction(20.0, 10.0), changes=(Change(4, rate_mbit=5.0), Change(6, rate_mbit=10.0))
)


def flow(sent: str = "stop", received: str = "stop", end_s: int = 5) -> Carried:
    """1 MB per second from second 1 on; the reader's end at 0 is none."""
    timeline = tuple((s * SECOND, (s - 1) * 10**6) for s in range(2, 5))
    ends = [
        StreamReport(0, role, SECOND, end_s * SECOND, 4 * 10**6, timeline, ended, "cubic")
        for role, ended in (("send", sent), ("receive", received))
    ]
    return Carried(0, Flow(), *ends)


@pytest.mark.parametrize(("end_s", "last"), [(5, 4e6), (0, 3e6)])
def test_bytes_by_of_a_reader_that_did_not_end_are_those_that_it_noted(
    end_s: int, last: float
) -> None:
    """The reset of its sender was lost: stream.json has end_ns 0, and all bytes."""
    found = flow(received="run", end_s=end_s).bytes_by([0, 1.5 * SECOND, 3 * SECOND, 9 * SECOND])
    assert found.tolist() == [0, 0.5e6, 2e6, last]
    assert flow(end_s=end_s).mbit(2 * SECOND, 4 * SECOND) == pytest.approx(8)


@pytest.mark.parametrize(
    ("sent", "received", "said"),
    [
        ("stop", "stop", ""),
        ("size", "size", ""),
        ("stop", "run", ""),
        ("run", "run", "it did not end"),
        ("run", "Connection timed out", "Connection timed out"),
        ("Broken pipe", "stop", "Broken pipe"),
    ],
)
def test_failure_is_what_either_end_reports(sent: str, received: str, said: str) -> None:
    assert flow(sent, received).failure == said


@pytest.mark.parametrize(
    ("from_s", "until_s", "mbit"), [(0, 4, 80), (2, 5, 45), (5, 8, 25), (3, 7, 40), (7, 9, 20)]
)
def test_bytes_between_follow_the_changes_of_the_rate(
    from_s: float, until_s: float, mbit: float
) -> None:
    """20 Mbit/s, 5 from second 4 on, 10 from second 6 on."""
    assert bytes_between(PATH, "down", from_s, until_s) == pytest.approx(mbit * 1e6 / 8)
    assert bytes_between(PATH, "up", from_s, until_s) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"flows": 5},
        {"flows": [{"control": 5}]},
        {"flows": [{"speed": 5}]},
        {"duration_s": "long"},
        {"duration_s": -1},
        {"path": None},
        {"requests": {"every": 1}},
        {"more": 1},
    ],
)
def test_traffic_of_plan_refuses_what_is_none(changed: dict[str, Any]) -> None:
    plan = Traffic(PATH, (Flow(),), requests=Requests()).as_json()
    assert traffic_of_plan(plan, "run").path == PATH
    with pytest.raises(Damaged, match="run has a plan"):
        traffic_of_plan(plan | changed, "run")
    with pytest.raises(Damaged, match="run has a plan"):
        traffic_of_plan({name: value for name, value in plan.items() if name != "path"}, "run")


def test_cuts_of_counts_losses_that_leave_the_threshold_as_it_was() -> None:
    """CUBIC sets the same threshold at each loss from the same window; RFC 9438, section 4.6."""
    windows = [100.0, 130.0, 92.0, 120.0, 130.0, 110.0, 91.0, 128.0, 130.0, 91.0]
    assert cuts_of(windows, [91.0] * len(windows)) == pytest.approx((0.7, 0.7, 0.7))


def test_cuts_of_has_no_loss_where_a_window_grows_or_the_threshold_is_above_it() -> None:
    growing = [10.0, 20.0, 40.0, 80.0, 79.0]
    assert cuts_of(growing, [40.0] * 5) == ()
    assert cuts_of([80.0, 4.0, 80.0], [2.0**31] * 3) == ()
