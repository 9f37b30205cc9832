"""The conditions of the lab `sharing`: names, flows and paths."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.sharing.conditions import Parameters as Sharing
from labs.guest.condition import Condition
from labs.guest.flows import Traffic, traffic_from_json
from labs.read.claims.ledger import WILD, read
from labs.read.readings.traffic_results import beyond_transfer_ms


def every(**given: object) -> dict[str, Condition]:
    found = find("sharing").conditions(Sharing(size="full", **given))  # type: ignore[arg-type]
    return {one.name: one for one in found}


def planned(name: str, **given: object) -> Traffic:
    return traffic_from_json(every(**given)[name].plan)


def test_conditions_of_size_small_are_among_all() -> None:
    small = find("sharing").conditions(Sharing())
    assert len(small) == 25 and {condition.name for condition in small} < set(every())


def test_claims_are_judged_by_conditions_of_size_small() -> None:
    ledger = find("sharing").ledger
    assert ledger is not None
    names = {name for claim in read(ledger).claims for name in claim.conditions}
    assert {name for name in names if not set(name) & set(WILD)} <= {
        condition.name for condition in find("sharing").conditions(Sharing())
    }


def test_only_takes_all_that_begin_with_a_name() -> None:
    found = [one.name for one in find("sharing").conditions(Sharing(only="cubic-bbr"))]
    assert found == [
        *(f"cubic-bbr-{size:g}bdp" for size in (0.5, 1, 2, 4, 8, 16)),
        "cubic-bbr-fq-codel",
    ]
    one = find("sharing").conditions(Sharing(only="late-reno,crowd-1bdp"))
    assert [condition.name for condition in one] == ["late-reno", "crowd-1bdp"]
    with pytest.raises(BadInput, match="cubic-bb is not a condition"):
        find("sharing").conditions(Sharing(only="cubic-bb"))


def test_the_flow_in_question_comes_first() -> None:
    assert [flow.control for flow in planned("cubic-bbr-2bdp").flows] == ["bbr", "cubic"]
    far, near = planned("rtts-reno", far_times=3.0).flows
    assert (far.extra_delay_ms, near.extra_delay_ms) == (80, 0)
    late, early = planned("late-cubic").flows
    assert late.start_s > early.start_s == 0


def test_a_crowd_has_one_bbr_flow_or_none() -> None:
    assert [flow.control for flow in planned("crowd-one-bbr").flows].count("bbr") == 1
    starts = [flow.start_s for flow in planned("crowd-1bdp").flows]
    assert len(starts) == 16 and len(set(starts)) == 16
    answers = planned("incast-fifo").flows
    assert len(answers) == 32 and len({flow.start_s for flow in answers}) == 1
    assert all(flow.size_bytes == 131_072 for flow in answers)


def test_a_crowd_and_a_pair_have_one_path() -> None:
    """Ware and others 2019 vary only the number of CUBIC flows."""
    crowd, pair = planned("crowd-one-bbr"), planned("pair-one-bbr")
    assert crowd.path == pair.path and crowd.duration_s == pair.duration_s
    assert [flow.control for flow in pair.flows] == ["bbr", "cubic"]


def test_large_windows_are_outside_the_reno_friendly_region() -> None:
    """RFC 9438: by equation 2, W_cubic is back at W_max after (0.3 W_max / 0.4)^(1/3) seconds; by
    equation 4, W_est grows by 3 (1 - 0.7) / (1 + 0.7) segments per RTT meanwhile."""
    path = planned("rtts-cubic-large").path
    queue = path.queue("down")
    assert queue is not None and queue.packets is not None
    room = 2 * queue.packets  # one BDP of the near flow in the pipe, one in the queue
    rtt_s = path.rtt_ms * 1.5 / 1e3
    for windows, inside in ((room / 2, False), (room / 20, True)):
        took_s = (0.3 * windows / 0.4) ** (1 / 3)
        grown = 3 * (1 - 0.7) / (1 + 0.7) * took_s / rtt_s
        assert (grown > 0.3 * windows) == inside


def test_a_block_is_split_over_the_servers() -> None:
    block = planned("incast-block")
    assert sum(flow.size_bytes or 0 for flow in block.flows) == 1 << 20
    assert (block.path.down.rate_mbit, block.path.rtt_ms) == (1000, 0.1)


def test_time_beyond_the_transfer() -> None:
    """32 responses of 8 KiB at 50 Mbit/s: frames of 1514 bytes carry 1448, and the RTT is 10 ms."""
    needs_ms = 32 * 8192 * 8 / 50e6 * 1e3 * 1514 / 1448 + 10
    short = planned("incast-short")
    assert beyond_transfer_ms(short, 300.0) == pytest.approx(300 - needs_ms)
    assert beyond_transfer_ms(short, None) is None
