"""The conditions of the lab `queues`: names, queues and paths."""

from __future__ import annotations

from labs.catalog import find
from labs.experiments.queues.conditions import IDLE_S
from labs.experiments.queues.conditions import Parameters as Queues
from labs.guest.condition import Condition
from labs.guest.flows import Traffic, traffic_from_json
from labs.read.claims.ledger import read


def every(**given: object) -> dict[str, Condition]:
    found = find("queues").conditions(Queues(size="full", **given))  # type: ignore[arg-type]
    return {one.name: one for one in found}


def planned(name: str, **given: object) -> Traffic:
    return traffic_from_json(every(**given)[name].plan)


def test_conditions_of_size_small_are_among_all() -> None:
    small = find("queues").conditions(Queues())
    assert len(small) == 26 and {condition.name for condition in small} < set(every())
    compared = [condition.name for condition in small if condition.group == "aqm"]
    # FIFOs first, then the queues by what they have in common.
    assert compared == ["fifo", "fifo-bbr", "codel", "fq-codel", "fq-codel-ecn", "pie", "cake"]


def test_claims_are_judged_by_conditions_of_size_small() -> None:
    ledger = find("queues").ledger
    assert ledger is not None
    wanted = {name for claim in read(ledger).claims for name in claim.conditions}
    assert wanted <= {condition.name for condition in find("queues").conditions(Queues())}


def test_conditions_differ_as_their_names_say() -> None:
    half, whole = planned("reno-0.5bdp"), planned("reno-1bdp")
    # 20 Mbit/s over 40 ms are 100,000 bytes, 66 packets of 1514.
    sizes = [one.path.queue("down") for one in (half, whole)]
    assert [one.packets for one in sizes if one] == [33, 66]
    assert {flow.control for flow in half.flows} == {"reno"}
    marked = planned("fq-codel-ecn")
    queue = marked.path.queue("down")
    assert queue is not None and queue.ecn and all(flow.ecn for flow in marked.flows)
    assert [flow.direction for flow in planned("updown-fifo").flows] == ["down", "up"]
    assert len(planned("four-fifo").flows) == 4


def test_a_slow_reverse_path_queues_acks_or_drops_them() -> None:
    slow, queued = planned("acks-slow").path, planned("acks-queued").path
    assert slow.down == queued.down and slow.up.rate_mbit == queued.up.rate_mbit
    # 284 ACKs per second: 5,000 packets are more than half a minute of them.
    assert [one.up.queue.packets for one in (slow, queued) if one.up.queue] == [20, 5000]


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


def test_settings_have_the_parameters_that_a_condition_depends_on() -> None:
    assert every()["fifo"].settings == {"duration_s": 23.0, "aqm_mbit": 50.0, "path_rtt_ms": 40.0}
    assert every()["reno-1bdp"].settings == {
        "duration_s": 30.0,
        "bottleneck_mbit": 20.0,
        "path_rtt_ms": 40.0,
    }
