"""Traffic over a path: up to 64 flows, and small requests beside them.

`Traffic` is the plan of a run. It travels as JSON in the condition (`Condition.plan`), and
`labs.guest.traffic.measure` performs it. Files of such a run, besides those of every run:

    path.json                   per direction ("down", "up"): the report of the check as in run.json
                                (asked, measured, ok, problems); "queue" as tc got it, or null;
                                "changes": at_ns and the change; "begin_ns": the flows' start
    <host>/stream.json          {"flows": [{flow, role ("send" or "receive"), begin_ns, end_ns,
                                bytes, ended ("size", "stop" or an error), sndbuf_bytes,
                                rcvbuf_bytes, control, timeline: [[at_ns, bytes], ...],
                                kernel_bytes (tcpi_bytes_acked of a sender, tcpi_bytes_received of
                                a receiver, at the end; a FIN counts as one),
                                retransmitted_segments}]}
    client/requests.json        {"requests": [{due_ns, sent_ns, done_ns, bytes}]}; null where a
                                request had no answer when the run ended; the latency of a user is
                                done_ns - due_ns
    <host>/samples.bin, ss.txt  the sockets of SERVER_PORT on both hosts, as in every run
    <host>/capture.pcap         both hosts' packets of the flows and requests (unless capture=False)
    <host>/queue-<direction>.bin   the queue: records of u64le at_ns, u32le length, and one
                                rtnetlink message (struct tcmsg and attributes) of the qdisc.
                                Host: the router; on two machines the sending host
    <host>/queues-before.json, queues-after.json    `tc -s -j qdisc show` of the hosts with a queue

The marks "begin" and "over" in run.json are the flows' start and the end of the run. Flow `i` (from
0) is the connection from the client's port FIRST_PORT + i to the server's SERVER_PORT, in both
captures and in all samples. Requests go to REQUEST_PORT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labs.errors import BadInput
from labs.guest.condition import Condition, Setting, Sysctls
from labs.guest.testbed.link import MSS_BYTES, Link
from labs.guest.testbed.path import (
    DIRECTIONS,
    ROUTER,
    SERVER,
    NetworkPath,
    check_whole,
    path_from_json,
)

SERVER_PORT = 5201
REQUEST_PORT = 8080
FIRST_PORT = 6000
MOST_FLOWS = 64


def _refuse(wrong: str, allowed: str) -> BadInput:
    return BadInput(f"{wrong}. Allowed: {allowed}")


@dataclass(frozen=True)
class Flow:
    """One connection that carries data in one direction.

    It ends at `stop_s` (by a reset: a user who leaves), after `size_bytes`, or with the run. Its
    sender uses the congestion control `control`. `extra_delay_ms` adds to its RTT. The application
    writes as fast as it can; with `app_mbit` at that rate, every 10 ms; with `chunk_s`, too, in
    chunks of that many seconds, as video does. The reader stops reading at `pause_at_s` for
    `pause_s`. Times count from the start of the traffic.
    """

    control: str = "cubic"
    direction: str = "down"
    start_s: float = 0.0
    stop_s: float | None = None
    size_bytes: int | None = None
    ecn: bool = False
    extra_delay_ms: float = 0.0
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None
    app_mbit: float | None = None
    chunk_s: float | None = None
    pause_at_s: float | None = None
    pause_s: float | None = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise _refuse(f'there is no direction "{self.direction}"', ", ".join(DIRECTIONS))
        if not self.control.isidentifier():
            raise _refuse(f"{self.control!r} is no congestion control", "a name such as cubic")
        if self.control == "dctcp" and not self.ecn:
            raise _refuse("dctcp needs marks (ECN)", "ecn=True, over a queue that marks")
        if self.stop_s is not None and self.start_s >= self.stop_s:
            raise _refuse(
                f"a flow starts at {self.start_s:g} s, after its end at {self.stop_s:g} s",
                "start_s before stop_s",
            )
        for name in ("sndbuf_bytes", "rcvbuf_bytes"):
            check_whole(name, getattr(self, name), MSS_BYTES)  # room for a packet
        check_whole("size_bytes", self.size_bytes, 1)
        if not 0 <= self.extra_delay_ms <= 10_000:
            raise _refuse(f"extra_delay_ms is {self.extra_delay_ms:g}", "0 to 10000")
        if self.app_mbit is not None and self.app_mbit <= 0:
            raise _refuse(f"app_mbit is {self.app_mbit:g}", "more than 0")
        if self.chunk_s is not None and (self.app_mbit is None or self.chunk_s <= 0):
            raise _refuse("chunk_s needs a rate", "chunk_s above 0, with app_mbit")
        if (self.pause_at_s is None) != (self.pause_s is None):
            raise _refuse("a pause needs a start and a length", "pause_at_s with pause_s")
        if self.pause_s is not None and self.pause_s <= 0:
            raise _refuse(f"pause_s is {self.pause_s:g}", "more than 0")


@dataclass(frozen=True)
class Requests:
    """HTTP requests of the client, one every `every_ms`, each on a connection of its own, or all
    on one with `kept`. They are due at fixed moments, however late the answers are."""

    every_ms: float = 200.0
    size_bytes: int = 10_000
    start_s: float = 0.0
    stop_s: float | None = None
    kept: bool = False

    def __post_init__(self) -> None:
        if self.every_ms < 1:
            raise _refuse(f"every_ms is {self.every_ms:g}", "1 and more")
        check_whole("size_bytes", self.size_bytes, 1)
        if self.stop_s is not None and self.start_s >= self.stop_s:
            raise _refuse("the requests start after their end", "start_s before stop_s")


@dataclass(frozen=True)
class Traffic:
    """The path, the flows over it, and what is observed: the plan of a run of `duration_s`.

    `sample_ms` is the interval of the sockets' samples, `queue_ms` that of the queues'.
    """

    path: NetworkPath
    flows: tuple[Flow, ...]
    duration_s: float = 30.0
    requests: Requests | None = None
    sample_ms: int = 100
    queue_ms: int = 20
    capture: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.flows) <= MOST_FLOWS:
            raise _refuse(f"{len(self.flows)} flows", f"1 to {MOST_FLOWS}")
        check_whole("sample_ms", self.sample_ms, 1)
        check_whole("queue_ms", self.queue_ms, 1)
        if not 0 < self.duration_s <= 3600:
            raise _refuse(f"duration_s is {self.duration_s:g}", "up to 3600")
        moments = [
            *(("the start of a flow", flow.start_s) for flow in self.flows),
            *(("the end of a flow", flow.stop_s) for flow in self.flows),
            *(("the pause of a reader", flow.pause_at_s) for flow in self.flows),
            *(("a change of the path", change.at_s) for change in self.path.changes),
            *([] if self.requests is None else [("the first request", self.requests.start_s)]),
            *([] if self.requests is None else [("the last request", self.requests.stop_s)]),
        ]
        for what, at_s in moments:
            if at_s is not None and not 0 <= at_s <= self.duration_s:
                raise _refuse(
                    f"{what} at {at_s:g} s is outside the run", f"0 to {self.duration_s:g} s"
                )
        for name in DIRECTIONS:
            self.path.queue(name)  # a size in BDPs is checked with the path

    def condition(
        self,
        name: str,
        testbed: str = "virtual",
        sysctls: Sysctls | None = None,
        settings: Mapping[str, Setting] | None = None,
        group: str = "",
    ) -> Condition:
        """The condition of this traffic on a testbed (`p.testbed`): the wires of its link, without
        a shaper, and this plan."""
        link = Link(shaped_at=SERVER if testbed == "vagrant" else ROUTER, port=SERVER_PORT)
        return Condition(name, link, sysctls or {}, settings or {}, group, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The plan as part of a condition; JSON only."""
        return asdict(self) | {
            "path": self.path.as_json(),
            "flows": [asdict(flow) for flow in self.flows],
        }


def traffic_from_json(data: Mapping[str, Any]) -> Traffic:
    """The traffic that `as_json` wrote: `traffic_from_json(condition.plan)`."""
    requests = data["requests"]
    return Traffic(
        **{
            **data,
            "path": path_from_json(data["path"]),
            "flows": tuple(Flow(**one) for one in data["flows"]),
            "requests": None if requests is None else Requests(**requests),
        }
    )
