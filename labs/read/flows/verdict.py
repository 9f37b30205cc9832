"""The verdict on a capture before anything is explained: what it lacks, and where it was taken."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy

from labs.read.capture.segment_table import ACK, FIN, SYN, Remarks
from labs.read.flows.dialogue import Dialogue
from labs.read.flows.waits import Waits

NEAR: Final = 0.1
"""At an end, the distance to that end is at most this share of the RTT."""
LEAST_RTT_NS: Final = 300_000
STEP_NS: Final = 500_000_000
LEAST_STAMPS: Final = 20
TICKS_NS: Final = (1e3, 1e6, 1e9 / 300, 4e6, 1e7)
"""What a timestamp counts (RFC 7323 5.4): in Linux 1 ms, or 1 us with tcp_usec_ts; elsewhere ticks
of 100 to 1000 Hz."""
TICK_ERROR: Final = 0.2
SENTENCES: Final = {
    "copies_removed": "{n} [packet was|packets were] captured twice. The [copy is|copies are] "
    "ignored.",
    "one_direction": "{this} [has|have] packets of one direction only. Few reasons can be given.",
    "without_syn": "{this} began before the capture, so [its|their] window scale is unknown.",
    "rtt_unknown": "{this} [has|have] no measurable RTT. Reasons that need it are not given.",
    "holes": "[Once|{n} times] the capture lacks packets. No reason is given for [a wait|waits] "
    "next to them.",
    "filtered": "{this} [lacks|lack] nearly all [its|their] data: a capture filter removed it.",
    "clipped": "{n} [packet was|packets were] captured without [its|their] whole headers.",
    "clock_steps": "[The|{n} times the] clock of the capture was set while it ran.",
    "answered_nearby": "{this} [was|were] answered by something nearer than the server: a proxy or "
    "firewall completes the handshake.",
}
"""For a count that is not 0, by its field; [of 1|of more]."""
CHOICE: Final = re.compile(r"\[(.*?)\|(.*?)\]")


@dataclass(frozen=True)
class Verdict:
    """What a capture is good for. Counts are of connections, unless the name says otherwise."""

    connections: int
    copies_removed: int  # packets that were captured twice
    one_direction: int
    without_syn: int
    holes: int  # places at which packets are missing
    filtered: int  # connections of whose data next to nothing was captured
    rtt_unknown: int
    clock_steps: int
    backwards: int  # packets earlier than the one before
    clipped: int  # packets whose headers were not captured whole
    place: str  # "client", "server", "between", "one host" or "unknown"
    large_segments: int  # segments larger than the MSS: offloads at the place of the capture
    answered_nearby: int  # a middlebox completes the handshake

    @property
    def lines(self) -> tuple[str, ...]:
        """One sentence per finding."""
        sentences = [self._describe_place()]
        if self.large_segments:
            sentences.append(
                f"{self.large_segments:,} segments are larger than the MSS: the network card cuts "
                "or joins them (TSO, GRO), so times within a burst are not those of the wire."
            )
        for name, text in SENTENCES.items():
            if count := getattr(self, name):
                is_only = self.connections == count == 1
                this = (
                    "The connection"
                    if is_only
                    else f"{count:,} of {self.connections:,} connections"
                )
                words = CHOICE.sub(r"\1" if count == 1 else r"\2", text)
                sentences.append(words.format(n=f"{count:,}", this=this))
        return tuple(sentences)

    def _describe_place(self) -> str:
        return {
            "client": "The capture was taken at the client.",
            "server": "The capture was taken at the server.",
            "between": "The capture was taken between client and server.",
            "one host": "Client and server are so close that the place of the capture does not "
            "matter.",
        }.get(self.place, "Where the capture was taken cannot be told.")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "lines": list(self.lines)}


class Judge:
    """The verdict on a capture, whose connections may come in parts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._far_ns: list[tuple[int, int]] = []  # of measured connections

    def add(self, waits: Waits) -> None:
        """Judge some connections."""
        state = waits.state
        for connection in waits.connections:
            self._counts.update(_of_connection(connection))
            if connection.far.is_measured:
                self._far_ns.append(connection.far.far_ns)
        self._counts["connections"] += len(waits.connections)
        self._counts["copies_removed"] += waits.copies
        self._counts["large_segments"] += int((state.length > state.mss_bytes).sum())

    def verdict(self, held: Remarks | None = None) -> Verdict:
        """The verdict on all that was added, and on what the reader counted."""
        counts: dict[str, Any] = {field.name: self._counts[field.name] for field in fields(Verdict)}
        if held is not None:
            counts["clipped"] = held.counts.get("headers_cut", 0)
            counts["backwards"] = held.counts.get("backwards", 0)
        return Verdict(**{**counts, "place": _place(self._far_ns)})


def _of_connection(connection: Dialogue) -> dict[str, int]:
    """What one connection adds to the counts of the verdict."""
    state, here = connection.state, slice(connection.first, connection.last)
    flags = state.flags[here]
    opened = bool(((flags & SYN) != 0).any())
    only_syns = bool(((flags & (SYN | ACK)) == SYN).all())
    reach = int(max(state.end[here].max(), state.ack[here].max()))
    carried = int(state.length[here].sum())
    missing = sum(int(state.end[places].max(initial=0)) for places in connection.sides)
    closed = bool(((flags & FIN) != 0).any())
    return {
        "one_direction": not connection.has_both and not only_syns,
        "without_syn": not opened,
        "rtt_unknown": not connection.far.is_measured
        and connection.has_both
        and connection.is_established,
        "filtered": opened and closed and reach > 5000 and carried < 0.1 * missing,
        "holes": connection.hole_count,
        "answered_nearby": _is_answered_nearby(connection),
        "clock_steps": _steps(connection),
    }


def _place(far_ns: list[tuple[int, int]]) -> str:
    """Where the capture was taken, by the distances of most connections."""
    if not far_ns:
        return "unknown"
    client, server = numpy.median(far_ns, axis=0)
    rtt = client + server
    if rtt < LEAST_RTT_NS:
        return "one host"
    if client <= NEAR * rtt:
        return "client"
    return "server" if server <= NEAR * rtt else "between"


def _is_answered_nearby(connection: Dialogue) -> bool:
    """Whether the SYN-ACK came much sooner than any ACK of data ever does."""
    state, (sent, heard) = connection.state, connection.sides
    syns = [places[(state.flags[places] & SYN) != 0] for places in (sent, heard)]
    if [*map(len, syns)] != [1, 1] or syns[0] > syns[1]:
        return False
    handshake = int((state.time_ns[syns[1]] - state.time_ns[syns[0]])[0])
    asked = sent[state.acked_by[sent] >= 0]
    times = state.time_ns[state.acked_by[asked]] - state.time_ns[asked]
    return bool(
        len(times) >= 5
        and times.min() > 4 * handshake
        and times.min() - handshake > 5_000_000
        and numpy.percentile(times, 80) < 2 * times.min()
        and times.min() < 35_000_000
    )


def _steps(connection: Dialogue) -> int:
    """How often the capture's clock and the timestamps of both ends disagree by half a second."""
    counts, state = list[int](), connection.state
    for places in connection.sides:
        values, times = state.tsval[places], state.time_ns[places]
        if len(values) < LEAST_STAMPS or (values < 0).any():
            return 0
        ticks, lengths = numpy.diff(values), numpy.diff(times)
        total, span = int(values[-1] - values[0]), int(times[-1] - times[0])
        if total <= 0 or span <= STEP_NS:
            return 0
        moving = ticks > 0
        if moving.sum() < LEAST_STAMPS // 2:
            return 0
        measured_ns = float(numpy.median(lengths[moving] / ticks[moving]))
        tick_ns = min(TICKS_NS, key=lambda usual_ns: abs(usual_ns - measured_ns))
        if abs(measured_ns - tick_ns) > TICK_ERROR * tick_ns:
            return 0  # a clock of another rate, of which no step can be told
        counts.append(int((numpy.abs(lengths - ticks * tick_ns) > STEP_NS).sum()))
    return min(counts)
