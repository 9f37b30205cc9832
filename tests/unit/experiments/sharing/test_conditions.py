"""The conditions of the lab `sharing`: names, flows and paths."""

from __future__ import annotations

import pytest

from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.sharing.conditions import Parameters as Sharing
from labs.guest.condition import Condition
from labs.guest.flows import Traffic, traffic_from_json
from labs.read.readings.traffic_results import beyond_transfer_ms


def every(**given: object) -> dict[str, Condition]:
    found = find("sharing").conditions(Sharing(size="full", **given))  # type: ignore[arg-type]
    return {one.name: one for one in found}


def planned(name: str, **given: object) -> Traffic:
    return traffic_from_json(every(**given)[name].plan)


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


def test_time_beyond_the_transfer() -> None:
    """32 responses of 8 KiB at 50 Mbit/s: frames of 1514 bytes carry 1448, and the RTT is 10 ms."""
    needs_ms = 32 * 8192 * 8 / 50e6 * 1e3 * 1514 / 1448 + 10
    short = planned("incast-short")
    assert beyond_transfer_ms(short, 300.0) == pytest.approx(300 - needs_ms)
    assert beyond_transfer_ms(short, None) is None
