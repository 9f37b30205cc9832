"""Article 6, live: the readings of flows, queues and requests against each other and the theory."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.catalog import find
from labs.experiments.queues.conditions import Parameters as Queues
from labs.experiments.sharing.conditions import Parameters as Sharing
from labs.read.display.traffic import acks_of_runs, describe_run, flows
from labs.read.figures import traffic as charts
from labs.read.readings import bottleneck
from labs.read.readings.flows import (
    apart_pct,
    captured_bytes,
    carried,
    goodputs_mbit,
    jain_in_windows,
    over_time,
    window_cuts,
)
from labs.read.runs.run import Run
from tests.kept_runs import make

pytestmark = pytest.mark.virtual


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def queues(folder: Path) -> dict[str, Run]:
    p = Queues(
        only="reno-0.5bdp,fq-codel", capture=True, duration_s=15, aqm_mbit=20.0, runs=str(folder)
    )
    return {run.condition: run for run in make(find("queues"), p).runs}


@pytest.fixture(scope="module")
def pair(folder: Path) -> Run:
    p = Sharing(only="rtts-fq-codel", duration_s=20, runs=str(folder))
    return make(find("sharing"), p).runs[0]


def test_instruments_agree(queues: dict[str, Run]) -> None:
    """The receiving program, its kernel and its capture count the same bytes."""
    for run in queues.values():
        (one,) = carried(run)
        seen = captured_bytes(run)[0]
        assert seen == pytest.approx(one.received.bytes, rel=0.005)
        apart = apart_pct(run)
        assert apart is not None and apart <= 0.5
        assert not find("queues").results(run).notes


def test_queue_and_goodput_follow_the_sawtooth(queues: dict[str, Run]) -> None:
    """A cycle takes 2.9 s here, so 7.5 s have two or three: 2 points of utilisation."""
    run = queues["reno-0.5bdp"]
    found = find("queues").results(run).values
    assert found["utilisation_pct"] == pytest.approx(found["predicted_utilisation_pct"], abs=2)
    assert found["goodput_mbit"] == pytest.approx(
        found["utilisation_pct"] / 100 * 20 * 1448 / 1514, rel=0.01
    )
    # Half a BDP is 20 ms at most.
    assert max(bottleneck.delays_ms(run)) <= 20.5
    cuts = window_cuts(run)
    assert found["window_cuts"] == len(cuts) > 0 and all(0.45 < cut < 0.55 for cut in cuts)
    assert min(cuts) <= found["window_left"] <= max(cuts)
    assert found["outside_probe_rtt_pct"] is None and found["timeouts"] == 0
    total = over_time(run)["goodput_mbit"].sum() * 0.5 / 8 * 1e6
    assert total == pytest.approx(carried(run)[0].received.bytes, rel=0.02)


def test_requests_do_not_wait_in_the_queue_of_another_flow(queues: dict[str, Run]) -> None:
    """RFC 8290, section 1.3; a request takes two round trips of 40 ms."""
    found = find("queues").results(queues["fq-codel"]).values
    assert found["request_idle_ms"] == pytest.approx(80, abs=1.5)
    assert 1 <= found["request_ratio"] < 1.25
    assert found["queue_p50_ms"] < 10


def test_fair_queueing_limits_the_share_of_the_near_flow(pair: Run) -> None:
    """A fair queue gives a flow half of the link while it has packets there (RFC 8290, section
    4.2). CoDel keeps 5 ms of queue, so the window of the flow of 160 ms moves between its share and
    half of it: on average at least three quarters. By the ratio of the RTTs it would get a fifth.
    """
    far, near = goodputs_mbit(pair)
    assert 0.75 / 2 < far / (far + near) < 0.5
    assert min(jain_in_windows(pair)) > 0.85
    found = find("sharing").results(pair).values
    assert found["predicted_share_pct"] == 50 and found["jain"] > 0.95
    # RTTs of 160 and 40 ms; equal shares would be the power 0, those of Reno in a FIFO 2.
    assert 0 < found["power_of_rtt"] < 0.5


def test_tables_and_charts_show_every_flow(queues: dict[str, Run], pair: Run) -> None:
    table = flows(pair)
    assert list(table["Own RTT (ms)"]) == [160, 40]
    assert sum(table["Share (%)"]) == pytest.approx(100, abs=0.1)
    assert "flow 1 reno" in describe_run(pair)
    acks = acks_of_runs(queues)
    # Delayed ACKs: at most two segments, except for those that arrive coalesced.
    assert 1 < acks["Segments per ACK"].iloc[0] < 3
    for figure in (
        charts.goodput(pair),
        charts.windows(pair),
        charts.phase(pair),
        charts.queue(*queues.values()),
        charts.latency_against_throughput(*queues.values()),
    ):
        assert figure.data and figure.layout.meta["tell"] and figure.layout.meta["table"]
