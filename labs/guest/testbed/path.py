"""A path between two hosts: two directions with delay, loss and a bottleneck queue each.

In the virtual kernel and on namespaces a router stands between the hosts. A packet of a direction
enters the router, where netem (on an ifb behind the ingress) loses, delays and reorders it, and
leaves through the port to the receiver, where htb limits the rate and the bottleneck queue stands.
The hosts send packets of one MSS (offloads are off), so that a queue counts packets of the wire.

Two machines have no router. There the queue stands at the sending side's port and netem behind the
ingress of the receiving side, and only the ports of the flows pass through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from labs.errors import BadInput
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.units import bytes_carried

SIZED_IN_BYTES = ("bfifo", "red", "cake", "tbf")
MARKING = ("red", "codel", "fq_codel", "pie", "fq_pie", "cake")
FIFO = ("pfifo", "bfifo", "red", "tbf")
"""Queues whose size is one BDP if none is given; the others have a default of their own."""

QUEUES = ("pfifo", "bfifo", "red", "codel", "fq_codel", "pie", "fq_pie", "cake", "fq", "tbf")
LEAST_PACKETS = 10
DIRECTIONS = ("down", "up")
ROUTER, SERVER = "router", "server"


def _refuse(wrong: str, allowed: str) -> BadInput:
    return BadInput(f"{wrong}. Allowed: {allowed}")


def check_whole(name: str, value: float | None, least: int) -> None:
    """BadInput for a number that is given and is not whole, or is below the least."""
    if value is not None and (not isinstance(value, int) or value < least):
        raise _refuse(f"{name} is {value}", f"a whole number from {least}")


def _within(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise _refuse(f"{name} is {value:g}", f"{low:g} to {high:g}")


@dataclass(frozen=True)
class Queue:
    """The bottleneck queue of a direction.

    Its size is given in packets, bytes, or BDPs of the path; at most one of them. If none is, a
    pfifo, bfifo, red or tbf has one BDP (at least 10 packets), the others the kernel's default.
    `ecn` marks packets instead of dropping them; cake always does. `options` are further words for
    tc, such as `target 5ms interval 100ms`.
    """

    kind: str = "pfifo"
    packets: int | None = None
    size_bytes: int | None = None
    bdp: float | None = None
    ecn: bool = False
    options: str = ""

    def __post_init__(self) -> None:
        if self.kind not in QUEUES:
            raise _refuse(f'there is no queue "{self.kind}"', ", ".join(QUEUES))
        given = [one for one in (self.packets, self.size_bytes, self.bdp) if one is not None]
        if len(given) > 1:
            raise _refuse("the queue has more than one size", "packets, size_bytes or bdp")
        if self.ecn and self.kind not in MARKING:
            raise _refuse(f"{self.kind} cannot mark packets (ECN)", ", ".join(MARKING))
        _within("packets of the queue", self.packets, 1, 10**6)
        _within("bytes of the queue", self.size_bytes, FRAME_BYTES, 10**9)
        check_whole("packets of the queue", self.packets, 1)
        check_whole("bytes of the queue", self.size_bytes, FRAME_BYTES)
        _within("BDPs of the queue", self.bdp, 0.001, 1000)


@dataclass(frozen=True)
class Direction:
    """One direction of a path.

    `rate_mbit` None: no limit, and no queue. `jitter_ms` varies the delay without reordering.
    `reorder_pct` is the share of packets that skip the delay. `loss_pct` is lost at random, in
    runs of `loss_run` packets on average if that is given (netem's Gilbert-Elliott model).
    `drop_every` n drops every n-th packet.
    """

    rate_mbit: float | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    reorder_pct: float = 0.0
    loss_pct: float = 0.0
    loss_run: float | None = None
    drop_every: int | None = None
    queue: Queue | None = None

    def __post_init__(self) -> None:
        _within("rate_mbit", self.rate_mbit, 0.05, 40_000)
        _within("delay_ms", self.delay_ms, 0, 10_000)
        _within("jitter_ms", self.jitter_ms, 0, self.delay_ms)
        _within("reorder_pct", self.reorder_pct, 0, 100)
        _within("loss_pct", self.loss_pct, 0, 100 if self.loss_run is None else 90)
        _within("loss_run", self.loss_run, 1, 1000)
        _within("drop_every", self.drop_every, 2, 10**6)
        check_whole("drop_every", self.drop_every, 2)
        if self.queue is not None and self.rate_mbit is None:
            raise _refuse("a queue needs a bottleneck", "rate_mbit and queue together")
        if self.reorder_pct and not self.delay_ms:
            raise _refuse("packets without delay cannot overtake", "reorder_pct with delay_ms")
        if self.loss_run is not None and not self.loss_pct:
            raise _refuse("loss_run without loss", "loss_run with loss_pct")


@dataclass(frozen=True)
class Change:
    """What becomes of a direction at a moment of the run, in seconds after the flows' start."""

    at_s: float
    direction: str = "down"
    rate_mbit: float | None = None
    delay_ms: float | None = None
    loss_pct: float | None = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise _refuse(f'there is no direction "{self.direction}"', ", ".join(DIRECTIONS))
        if not self.values:
            raise _refuse("a change changes nothing", "rate_mbit, delay_ms or loss_pct")
        _within("at_s", self.at_s, 0, 86_400)

    @property
    def values(self) -> dict[str, Any]:
        given = {"rate_mbit": self.rate_mbit, "delay_ms": self.delay_ms, "loss_pct": self.loss_pct}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class NetworkPath:
    """Two directions and their changes; `down` is from server to client."""

    down: Direction
    up: Direction = Direction()
    changes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        for change in self.changes:
            before = self.direction(change.direction)
            replace(before, **change.values)  # checks the values
            if change.rate_mbit is not None and before.rate_mbit is None:
                raise _refuse(
                    f"the rate of a direction without one cannot change at {change.at_s:g} s",
                    "a rate_mbit from the start",
                )

    def direction(self, name: str) -> Direction:
        return self.down if name == "down" else self.up

    def uses_netem(self, name: str) -> bool:
        """Whether a direction delays or loses packets, now or after a change."""
        direction = self.direction(name)
        changes = (one for one in self.changes if one.direction == name)
        return bool(
            direction.delay_ms
            or direction.loss_pct
            or direction.drop_every
            or any(one.values.keys() - {"rate_mbit"} for one in changes)
        )

    @property
    def rtt_ms(self) -> float:
        """The RTT of an idle path at the start."""
        return self.down.delay_ms + self.up.delay_ms

    def bdp_bytes(self, name: str = "down") -> float:
        """The BDP of a direction at the start; 0 without a rate."""
        return bytes_carried(self.direction(name).rate_mbit or 0.0, self.rtt_ms)

    def queue(self, name: str) -> Queue | None:
        """The queue of a direction with its size in the unit of its kind, as tc gets it: packets,
        or for bfifo, red, cake and tbf bytes. None without a rate."""
        direction = self.direction(name)
        if direction.rate_mbit is None:
            return None
        asked = direction.queue or Queue()
        size = asked.size_bytes
        if asked.packets is not None:
            size = asked.packets * FRAME_BYTES
        elif asked.bdp is not None:
            size = ceil(asked.bdp * self.bdp_bytes(name))
        elif size is None and asked.kind in FIFO:
            size = max(ceil(self.bdp_bytes(name)), LEAST_PACKETS * FRAME_BYTES)
        if size is None:
            return asked
        if size < FRAME_BYTES:
            raise _refuse(
                f"the queue {asked.kind} of {name} has room for no packet ({size} bytes)",
                f"at least {FRAME_BYTES} bytes, that is "
                f"{FRAME_BYTES / (self.bdp_bytes(name) or 1):.2g} BDP",
            )
        bare = replace(asked, packets=None, size_bytes=None, bdp=None)
        if asked.kind in SIZED_IN_BYTES:
            return replace(bare, size_bytes=size)
        return replace(bare, packets=asked.packets or max(1, round(size / FRAME_BYTES)))

    def as_json(self) -> dict[str, Any]:
        """The path as part of a condition; JSON only."""
        return asdict(self) | {"changes": [asdict(change) for change in self.changes]}


def path_from_json(data: Mapping[str, Any]) -> NetworkPath:
    """The path that `as_json` wrote."""

    def direction(given: Mapping[str, Any]) -> Direction:
        queue = given["queue"]
        return Direction(**{**given, "queue": None if queue is None else Queue(**queue)})

    changes = tuple(Change(**one) for one in data["changes"])
    return NetworkPath(direction(data["down"]), direction(data["up"]), changes)
