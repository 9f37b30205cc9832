"""Shards are disjoint and complete, and their folders merge to what one job would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.batches.prospect import PlannedPoint, Prospect, shard_of
from labs.catalog import find
from labs.drive.record.seal import key
from labs.errors import BadInput
from labs.guest.condition import from_json
from labs.launch.plan import Planned
from tests.run_folders import inputs


def planned(seed: int) -> Planned:
    """A run that differs from others by its seed."""
    asked = inputs(seed=seed)
    condition = from_json(asked["condition"])
    return Planned("buffers", "", None, condition, asked, key(asked), {}, {}, None, None, None)


def shard(runs: Sequence[Planned], number: int, count: int) -> Sequence[Planned]:
    """The part of these runs, each of them that of a point."""
    lab = find("buffers")
    points = tuple(PlannedPoint(1, {}, lab.Parameters(), (run,)) for run in runs)
    return Prospect(lab, (), points, Path("runs"), (number, count)).distinct


@given(
    seeds=st.lists(st.integers(0, 50), max_size=40),
    count=st.integers(1, 9),
    order=st.randoms(use_true_random=False),
)
def test_shard_is_disjoint_and_complete_in_any_order(
    seeds: list[int], count: int, order: object
) -> None:
    every = [planned(seed) for seed in seeds]
    shuffled = every.copy()
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = [shard(every, number, count) for number in range(1, count + 1)]
    again = [shard(shuffled, number, count) for number in range(1, count + 1)]
    keys = [run.key for part in parts for run in part]
    assert sorted(keys) == sorted({run.key for run in every})
    assert [[run.key for run in part] for part in parts] == [
        [run.key for run in part] for part in again
    ]
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("text", "parsed"), [("1/1", (1, 1)), ("3/8", (3, 8)), ("08/8", (8, 8))])
def test_shard_of_reads_a_shard(text: str, parsed: tuple[int, int]) -> None:
    assert shard_of(text) == parsed


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "-1/4", "1/0", "1/4/2", "1.5/4", "٣/8"])
def test_shard_of_refuses_what_is_not_a_shard(text: str) -> None:
    with pytest.raises(BadInput):
        shard_of(text)
