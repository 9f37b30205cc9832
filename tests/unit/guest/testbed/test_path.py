"""A path: its values, what it refuses, and its lines of tc."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from labs.errors import BadInput
from labs.guest.testbed.path import (
    MARKING,
    QUEUES,
    Change,
    Direction,
    NetworkPath,
    Queue,
    path_from_json,
)
from labs.guest.testbed.path_lines import (
    in_lines,
    netem_words,
    out_lines,
    places_of_machines,
    places_of_router,
    queue_words,
    redirections,
)

DOWN, UP = places_of_router()
PATH = NetworkPath(Direction(50, 20), Direction(5, 20, queue=Queue("codel")))
BDP_BYTES = 250_000  # 50 Mbit/s times 40 ms


def test_path_from_json_is_the_path_that_was_written() -> None:
    path = NetworkPath(
        Direction(50, 20, 1, 2, 1, 4, 100, Queue("red", bdp=2, ecn=True)),
        changes=(Change(3, "up", delay_ms=7), Change(1, rate_mbit=8)),
    )
    assert path_from_json(json.loads(json.dumps(path.as_json()))) == path


@pytest.mark.parametrize(
    ("queue", "packets", "size_bytes"),
    [
        (Queue(), 165, None),  # 250,000 / 1,514
        (Queue("pfifo", packets=7), 7, None),
        (Queue("pfifo", bdp=0.5), 83, None),
        (Queue("bfifo"), None, BDP_BYTES),
        (Queue("tbf", bdp=2), None, 2 * BDP_BYTES),
        (Queue("red", packets=10), None, 15_140),
        (Queue("fq_codel"), None, None),  # the kernel's default
        (Queue("codel", bdp=1), 165, None),
        (Queue("cake", size_bytes=90_000), None, 90_000),
    ],
)
def test_queue_has_its_size_in_the_unit_of_its_kind(
    queue: Queue, packets: int | None, size_bytes: int | None
) -> None:
    found = NetworkPath(Direction(50, 20, queue=queue), Direction(delay_ms=20)).queue("down")
    assert found is not None
    assert (found.packets, found.size_bytes) == (packets, size_bytes)


def test_queue_without_a_size_has_room_on_a_path_without_delay() -> None:
    found = NetworkPath(Direction(50)).queue("down")
    assert found is not None and found.packets == 10


def test_queue_is_none_without_a_rate() -> None:
    assert NetworkPath(Direction(50)).queue("up") is None


@pytest.mark.parametrize(
    ("make", "possible"),
    [
        (lambda: Queue("sfq"), QUEUES),
        (lambda: Queue("pfifo", ecn=True), MARKING),
        (lambda: Queue("fq", ecn=True), MARKING),
        (lambda: Queue("pfifo", packets=0), ("1 to",)),
        (lambda: Queue("bfifo", size_bytes=1513), ("1514",)),
        (lambda: Queue("pfifo", packets=5, bdp=1), ("packets, size_bytes or bdp",)),
        (lambda: Direction(queue=Queue()), ("rate_mbit",)),
        (lambda: Direction(0), ("0.05",)),
        (lambda: Direction(1, loss_pct=101), ("0 to 100",)),
        (lambda: Direction(1, 5, 6), ("0 to 5",)),
        (lambda: Direction(1, drop_every=1), ("2 to",)),
        (lambda: Change(1), ("rate_mbit", "delay_ms", "loss_pct")),
        (lambda: Change(1, "sideways", rate_mbit=1), ("down, up",)),
        (lambda: NetworkPath(Direction(), changes=(Change(1, rate_mbit=1),)), ("rate_mbit",)),
        (lambda: NetworkPath(Direction(1, 5, 5), changes=(Change(1, delay_ms=2),)), ("0 to 2",)),
        (lambda: NetworkPath(Direction(9, 1, queue=Queue(bdp=1))).queue("down"), ("1514 bytes",)),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_what_is_possible(
    make: Any, possible: tuple[str, ...]
) -> None:
    with pytest.raises(BadInput) as refused:
        make()
    assert "\n" not in str(refused.value)
    allowed = str(refused.value).partition("Allowed: ")[2]
    assert all(one in allowed for one in possible)


def test_bottleneck_stands_at_the_port_to_the_receiver_and_netem_at_the_other() -> None:
    # 10.77.2.254 (eth1) is the router's address towards the client.
    assert (DOWN.out_device, DOWN.in_device) == ("eth1", "eth0")
    assert (UP.out_device, UP.in_device) == ("eth0", "eth1")


@pytest.mark.parametrize("kind", QUEUES)
def test_check_has_a_long_queue_in_the_place_of_the_real_one(kind: str) -> None:
    path = NetworkPath(Direction(50, 20, queue=Queue(kind)), Direction(delay_ms=20))
    queue = path.queue("down")
    assert queue is not None
    *_, last = out_lines(DOWN, path.down, queue)
    own = kind in ("cake", "tbf")
    assert (kind if own else "pfifo") in last
    assert ("50mbit" in last) == own
    shaped = next(line for line in out_lines(DOWN, path.down, queue) if "1:10" in line)
    assert ("50mbit" in shaped) != own


def test_fq_codel_marks_only_if_it_is_asked_to() -> None:
    # Its default is ecn (tc-fq_codel(8)); codel's and pie's is noecn.
    assert queue_words(Queue("fq_codel"), 50)[-1] == "noecn"
    assert queue_words(Queue("fq_codel", ecn=True), 50)[-1] == "ecn"
    assert queue_words(Queue("codel"), 50) == ("codel",)


def test_loss_in_runs_has_the_share_and_the_length_that_were_asked() -> None:
    words = netem_words(Direction(50, 20, loss_pct=2, loss_run=4))
    p, r = (float(one.rstrip("%")) / 100 for one in words[words.index("gemodel") + 1 :][:2])
    # Stationary share of the bad state of a two-state Markov chain, and its mean stay.
    assert p / (p + r) == pytest.approx(0.02, rel=1e-4)
    assert 1 / r == pytest.approx(4)
    assert words[-2:] == ("100%", "0%")


def test_check_has_no_loss() -> None:
    assert "loss" not in netem_words(Direction(50, 20, loss_pct=2), losing=False)


def test_flows_with_a_delay_of_their_own_have_a_class_each() -> None:
    lines = [" ".join(line) for line in in_lines(DOWN, Direction(50, 20), {30.0: (6001, 6004)})]
    assert any(re.search(r"parent 1:31 .*delay 50ms", line) for line in lines)
    assert any(re.search(r"parent 1:30 .*delay 20ms", line) for line in lines)
    assert sum("dport 600" in line for line in lines) == 2


def test_every_nth_packet_is_dropped_before_netem() -> None:
    (line,) = redirections(DOWN, 100)
    words = " ".join(line)
    assert words.index("determ drop 100") < words.index("mirred egress redirect dev ifb-down")


def test_machines_shape_the_ports_of_the_flows_alone() -> None:
    down, up = places_of_machines("lab0", "lab0", (5201,), 5.0)
    assert (down.out_host, down.in_host, up.out_host, up.in_host) == (
        "server",
        "client",
        "client",
        "server",
    )
    lines = [" ".join(line) for line in out_lines(down, PATH.down, Queue(packets=10))]
    assert "tc qdisc add dev lab0 root handle 1: htb default 100" in lines
    assert sum("flowid 1:10" in line for line in lines) == 2
    assert any("gso_max_segs 1" in line for line in lines)
