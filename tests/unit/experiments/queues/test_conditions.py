"""The conditions of the lab `queues`: names, queues and paths."""

from __future__ import annotations

from labs.catalog import find
from labs.experiments.queues.conditions import IDLE_S
from labs.experiments.queues.conditions import Parameters as Queues
from labs.guest.condition import Condition
from labs.guest.flows import Traffic, traffic_from_json


def every(**given: object) -> dict[str, Condition]:
    found = find("queues").conditions(Queues(size="full", **given))  # type: ignore[arg-type]
    return {one.name: one for one in found}


def planned(name: str, **given: object) -> Traffic:
    return traffic_from_json(every(**given)[name].plan)


def test_longer_flows_keep_their_rate() -> None:
    pie = planned("pie-long", aqm_mbit=30.0)
    assert pie.path.down.rate_mbit == 30 and pie.duration_s == 240
    assert {planned(name).duration_s for name in ("loss-random", "acks-queued")} == {240}


def test_requests_begin_before_the_flows() -> None:
    """So that their latency is measured when the link is idle."""
    plan = planned("fifo", aqm_mbit=30.0)
    assert plan.requests is not None and plan.requests.start_s == 0
    assert {flow.start_s for flow in plan.flows} == {IDLE_S}
    assert plan.path.down.rate_mbit == 30
    assert planned("reno-1bdp", aqm_mbit=30.0).path.down.rate_mbit == 20
