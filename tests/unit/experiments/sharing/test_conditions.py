"""The conditions of the lab `sharing`: names, flows and paths."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.drive.condition import Condition
from labs.drive.flows import Traffic, traffic_from_json
from labs.errors import BadInput
from labs.experiments.sharing.conditions import SIZES_BDP, SMALL
from labs.experiments.sharing.parameters import Sharing
from labs.read.claims.ledger import WILD, read


def every(**given: object) -> dict[str, Condition]:
    found = find("sharing").conditions(Sharing(size="full", **given))  # type: ignore[arg-type]
    return {one.name: one for one in found}


def planned(name: str, **given: object) -> Traffic:
    return traffic_from_json(every(**given)[name].plan)


def test_conditions_of_size_small_are_among_all() -> None:
    small = find("sharing").conditions(Sharing())
    assert sorted(one.name for one in small) == sorted(SMALL)
    assert set(SMALL) < set(every())


def test_claims_are_judged_by_conditions_of_size_small() -> None:
    ledger = find("sharing").ledger
    assert ledger is not None
    names = {name for claim in read(ledger).claims for name in claim.conditions}
    assert {name for name in names if not set(name) & set(WILD)} <= set(SMALL)


def test_only_takes_all_that_begin_with_a_name() -> None:
    found = [one.name for one in find("sharing").conditions(Sharing(only="cubic-bbr"))]
    assert found == [*(f"cubic-bbr-{size:g}bdp" for size in SIZES_BDP), "cubic-bbr-fq-codel"]
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
