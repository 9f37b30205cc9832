"""Which theory a prediction takes, from the traffic alone, and the figures that follow by hand."""

from __future__ import annotations

from typing import Any

import pytest

from labs.guest.flows import Flow, Requests, Traffic
from labs.guest.testbed.path import Direction, NetworkPath, Queue
from labs.read.readings.traffic_prediction import buffer_segments, first_ones, predicted
from labs.read.theory.queues import reno_utilisation

LINE_MBIT = 20 * 1448 / 1514


def traffic(queue: Queue, *flows: Flow, up: Direction | None = None, **given: Any) -> Traffic:
    """Flows over 20 Mbit/s and 40 ms."""
    requests = given.pop("requests", None)
    path = NetworkPath(Direction(20.0, 20.0, queue=queue, **given), up or Direction(delay_ms=20.0))
    return Traffic(path, flows, requests=requests)


@pytest.mark.parametrize(
    ("plan", "theory"),
    [
        (traffic(Queue(bdp=0.5), Flow("reno")), "sawtooth in a FIFO"),
        (traffic(Queue("codel"), Flow()), "sawtooth up to CoDel's first drop"),
        (traffic(Queue(bdp=1.0), Flow("bbr")), "BBR: all but ProbeRTT"),
        (traffic(Queue("fq_codel"), Flow(), Flow("bbr")), "fair queueing: max-min"),
        (traffic(Queue(bdp=1.0), Flow("bbr"), Flow()), "Ware and others 2019"),
        (traffic(Queue(bdp=1.0), Flow(), Flow(extra_delay_ms=60)), "synchronised losses"),
        (traffic(Queue(bdp=1.0), *(Flow("reno"),) * 16), "square-root rule"),
        (traffic(Queue(bdp=1.0), Flow("reno"), loss_pct=1.0), "Mathis and others 1997"),
        (
            traffic(
                Queue(bdp=1.0), Flow(), up=Direction(0.1, 20.0, queue=Queue("pfifo", packets=20))
            ),
            "RFC 3449: clocked by ACKs",
        ),
        (traffic(Queue(bdp=1.0), Flow("vegas"), Flow()), ""),
        (traffic(Queue("pie"), Flow()), ""),
        (traffic(Queue(bdp=1.0), Flow(), Flow(direction="up"), up=Direction(5.0, 20.0)), ""),
        (traffic(Queue(bdp=1.0), Flow(app_mbit=1.0)), ""),
    ],
)
def test_predicted_takes_the_theory_of_queue_controls_and_losses(
    plan: Traffic, theory: str
) -> None:
    assert predicted(plan).theory == (theory or None)


def test_predicted_goodput_is_the_payload_of_the_link_in_use() -> None:
    found = predicted(traffic(Queue(bdp=1.0), Flow("reno")))
    assert found.goodput_mbit == pytest.approx(LINE_MBIT, rel=1e-3)
    small = predicted(traffic(Queue(bdp=0.1), Flow("reno")))
    # The queue holds whole packets: 7 of the 66 that one BDP has.
    packets = 7 / (20e6 / 8 / 1514 * 0.04)
    assert small.utilisation_pct == pytest.approx(100 * reno_utilisation(packets), abs=0.2)


def test_predicted_latency_of_requests_has_the_queue_twice_or_not_at_all() -> None:
    """A request on a connection of its own takes two round trips."""
    requests = Requests(size_bytes=1000)
    fifo = predicted(traffic(Queue(bdp=2.0), Flow(), requests=requests))
    by_flow = predicted(traffic(Queue("fq_codel"), Flow(), requests=requests))
    assert fifo.queue_ms is not None and fifo.request_ms is not None
    assert by_flow.request_ms == pytest.approx(80.4)
    assert fifo.request_ms == pytest.approx(80.4 + 2 * fifo.queue_ms)


def test_predicted_shares_of_limited_flows_are_max_min() -> None:
    found = predicted(traffic(Queue("fq_codel"), Flow(app_mbit=2.0), Flow(), Flow()))
    assert found.share_pct == pytest.approx(100 * 2 / LINE_MBIT)  # of the goodput


def test_first_ones_are_all_with_the_first_control_if_there_are_several() -> None:
    assert first_ones((Flow("bbr"), Flow(), Flow("bbr"))) == (0, 2)
    assert first_ones((Flow("reno"), Flow("reno"))) == (0,)


def test_buffer_segments_counts_packets_and_bytes() -> None:
    assert buffer_segments(traffic(Queue("pfifo", packets=7), Flow())) == 7
    assert buffer_segments(traffic(Queue("bfifo", size_bytes=15_140), Flow())) == 10
    assert buffer_segments(traffic(Queue("codel"), Flow())) is None


def test_fair_queueing_leaves_what_applications_do_not_want() -> None:
    """Two of 2 and 6 Mbit/s; then a flow that takes the rest."""
    limited = (Flow(app_mbit=2.0), Flow("reno", app_mbit=6.0))
    found = predicted(traffic(Queue("fq_codel"), *limited))
    assert found.goodput_mbit == pytest.approx(8)
    assert found.share_pct == pytest.approx(25)
    found = predicted(traffic(Queue("fq_codel"), *limited, Flow("reno")))
    assert found.goodput_mbit == pytest.approx(LINE_MBIT)


@pytest.mark.parametrize(
    "flows", [(Flow(),), (Flow(), Flow()), (Flow(), Flow("bbr")), (Flow("reno"),) * 16]
)
@pytest.mark.parametrize("loss_pct", [0.0, 1.0])
def test_predicted_without_a_delay_is_finite_or_nothing(
    flows: tuple[Flow, ...], loss_pct: float
) -> None:
    found = predicted(Traffic(NetworkPath(Direction(20.0, loss_pct=loss_pct)), flows))
    for value in (found.utilisation_pct, found.share_pct, found.queue_ms):
        assert value is None or 0 <= value <= 101
    assert (found.theory is None) is (len(flows) > 1 or bool(loss_pct))
