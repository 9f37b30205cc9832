"""Traffic: its values, what it refuses, and its place in a condition and in the code of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labs.errors import BadInput
from labs.guest.condition import Condition, from_json
from labs.guest.flows import Flow, Requests, Traffic, traffic_from_json
from labs.guest.laid_path import delays
from labs.guest.testbed.link import Link
from labs.guest.testbed.path import Change, Direction, NetworkPath, Queue
from labs.guest.traffic import lines

HALF: Any = 0.5
"""No whole number, in a value that mypy does not refuse."""
PATH = NetworkPath(Direction(50, 20), Direction(delay_ms=20))


def test_condition_without_a_plan_has_the_json_that_it_always_had() -> None:
    # The key of a run is computed from it: a further field would make every kept run stale.
    assert Condition("one", Link(100.0, 40.0), {}, {"draw": 1}, "group").as_json() == {
        "name": "one",
        "link": {
            "rate_mbit": 100.0,
            "delay_ms": 40.0,
            "loss_pct": 0.0,
            "jitter_ms": 0.0,
            "shaped_at": "server",
            "queue_packets": None,
            "port": 80,
            "burst_bytes": None,
        },
        "sysctls": {},
        "settings": {"draw": 1},
    }


def test_plan_travels_as_json_in_the_condition() -> None:
    traffic = Traffic(
        NetworkPath(
            Direction(50, 20, queue=Queue("red", ecn=True)), changes=(Change(1, delay_ms=3),)
        ),
        (Flow(ecn=True), Flow("bbr", "up", 1.0, 4.0, pause_at_s=2, pause_s=1)),
        10.0,
        Requests(50, kept=True),
    )
    condition = from_json(json.loads(json.dumps(traffic.condition("one").as_json())))
    assert traffic_from_json(condition.plan) == traffic
    assert condition.link.shaped_at == "router"
    assert not condition.link.shaped
    assert traffic.condition("one", "vagrant").link.shaped_at == "server"


@pytest.mark.parametrize(
    ("make", "possible"),
    [
        (lambda: Traffic(PATH, (Flow(),) * 65), "1 to 64"),
        (lambda: Traffic(PATH, ()), "1 to 64"),
        (lambda: Flow(start_s=3, stop_s=2), "start_s before stop_s"),
        (lambda: Traffic(PATH, (Flow(start_s=31),)), "0 to 30 s"),
        (lambda: Traffic(PATH, (Flow(stop_s=31),)), "0 to 30 s"),
        (lambda: Traffic(PATH, (Flow(pause_at_s=31, pause_s=1),)), "0 to 30 s"),
        (lambda: Traffic(PATH, (Flow(),), requests=Requests(start_s=31)), "0 to 30 s"),
        (
            lambda: Traffic(NetworkPath(PATH.down, changes=(Change(31, delay_ms=1),)), (Flow(),)),
            "0 to 30 s",
        ),
        (lambda: Flow(rcvbuf_bytes=1447), "1448"),
        (lambda: Flow(sndbuf_bytes=0), "1448"),
        (lambda: Flow(direction="left"), "down, up"),
        (lambda: Flow(control="b b r"), "cubic"),
        (lambda: Flow("dctcp"), "ecn=True"),
        (lambda: Flow(chunk_s=1), "app_mbit"),
        (lambda: Flow(pause_s=1), "pause_at_s"),
        (lambda: Requests(every_ms=0), "1 and more"),
        (lambda: Requests(size_bytes=0), "from 1"),
        (lambda: Flow(size_bytes=1e6 + HALF), "a whole number from 1"),
        (lambda: Flow(rcvbuf_bytes=65536 + HALF), "a whole number from 1448"),
        (lambda: Flow(pause_at_s=1, pause_s=-1), "more than 0"),
        (lambda: Traffic(PATH, (Flow(),), sample_ms=0), "a whole number from 1"),
        (lambda: Traffic(PATH, (Flow(),), queue_ms=2 + HALF), "a whole number from 1"),
        (lambda: Queue(packets=10 + HALF), "a whole number from 1"),
        (lambda: Queue("bfifo", size_bytes=50_000 + HALF), "a whole number from 1514"),
        (lambda: Direction(drop_every=2 + HALF), "a whole number from 2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_what_is_possible(
    make: Any, possible: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert possible in str(refused.value).partition("Allowed: ")[2]


def test_delays_are_those_of_the_direction_of_the_data() -> None:
    flows = (
        Flow(),
        Flow(extra_delay_ms=5),
        Flow(direction="up", extra_delay_ms=7),
        Flow(extra_delay_ms=5),
    )
    traffic = Traffic(PATH, flows)
    assert delays(traffic, "down") == {5: (6001, 6003)}
    assert delays(traffic, "up") == {7: (6002,)}


@pytest.mark.parametrize("change", [{"delay_ms": 5}, {"loss_pct": 1}, {"loss_pct": 0}])
def test_netem_stands_from_the_start_where_a_change_needs_it(change: dict[str, float]) -> None:
    quick = Direction(delay_ms=0)
    later = NetworkPath(PATH.down, quick, (Change(1, "up", **change),))
    for path, laid in ((NetworkPath(PATH.down, quick), False), (later, True)):
        condition = Traffic(path, (Flow(),)).condition("one")
        words = [words for _, words in lines(condition) if "ifb-up" in words and "netem" in words]
        assert bool(words) is laid


def test_lines_are_those_that_a_run_issues_at_the_router() -> None:
    traffic = Traffic(PATH, (Flow(ecn=True),))
    found = [(host, " ".join(words)) for host, words in lines(traffic.condition("one"))]
    assert ("client", "ip route add 10.77.1.2 via 10.77.2.254 features ecn") in found
    assert ("router", "tc qdisc replace dev eth1 parent 1:10 handle 10: pfifo limit 165") in found
    assert lines(traffic.condition("one", "vagrant")) == ()
