"""What the path did to a connection, and what stands in it: too small an MTU, resets of others,
timeouts, firewalls; and what both ends offered in their SYNs.

Source: RFC 1191, RFC 4821 (path MTU), RFC 5961 (resets), RFC 3168 (ECN), RFC 2018 (SACK).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import ACK, CWR, ECE, FIN, RST, SYN
from labs.read.flows import reasons as why
from labs.read.flows.connection_state import Array
from labs.read.flows.losses import LEAST_TIMER_NS, Episode
from labs.read.flows.reasons import NAMES, Reason

if TYPE_CHECKING:
    from labs.read.flows.dialogue import Dialogue

HOST_CODES: Final = (0, 1, 5, 6, 7, 8, 11, 12)
"""Codes of ICMP type 3 by which a router says that it has no route, or that nobody is there. The
others are of a firewall: 9, 10 and 13 (RFC 1812 5.2.7.1), and 2 and 3, which a host never sends
about TCP (RFC 1122 3.2.2.1)."""
HEADERS_BYTES: Final = 40
LARGE_BYTES: Final = 500
ATTEMPTS: Final = 3
"""Transmissions of one segment in vain that suggest a black hole."""
SILENCE_NS: Final = 50_000_000_000
"""The shortest idle timeouts on paths are a minute; a timer of the capture may be coarse."""
PROBES: Final = 2
SOONER: Final = 0.5


@dataclass(frozen=True)
class Facts:
    """What else the capture tells of a connection: an ICMP error, and options of one SYN only."""

    refusal: Reason | None = None  # by an ICMP error
    mtu_bytes: int = 0  # that a router reported; 1 if it did not say which, 0 without a report
    mtu_frame: int = 0
    mtu_of: int = 0  # the direction whose packet was too large
    lacks_scaling: bool = False
    lacks_sack: bool = False
    scales: tuple[int, int] = (-1, -1)  # that the SYNs offered, where one lacks the option


NO_FACTS: Final = Facts()


def facts_of(connections: Array) -> dict[int, Facts]:
    """The facts of the connections of a reader that have any, by their numbers."""
    sides = [connections["by_client"], connections["by_server"]]
    both = (sides[0]["syn_seen"] != 0) & (sides[1]["syn_seen"] != 0)
    scaling = both & ((sides[0]["scale_offered"] >= 0) != (sides[1]["scale_offered"] >= 0))
    sack = both & ((sides[0]["sack_permitted"] > 0) != (sides[1]["sack_permitted"] > 0))
    words, mtu = connections["unreachable"], connections["too_big_mtu"]
    return {
        number: Facts(
            _refusal(int(words[number])),
            int(mtu[number]),
            int(connections["too_big_frame"][number]),
            int(connections["too_big_of"][number]),
            bool(scaling[number]),
            bool(sack[number]),
            (int(sides[0]["scale_offered"][number]), int(sides[1]["scale_offered"][number])),
        )
        for number in numpy.flatnonzero(scaling | sack | (words != 0) | (mtu != 0)).tolist()
    }


def _refusal(word: int) -> Reason | None:
    if not word:
        return None
    return why.UNREACHABLE_HOST if word - 1 in HOST_CODES else why.FILTERED


@dataclass(frozen=True)
class Options:
    """What one end offered in its SYN; None if that was not captured."""

    JSON: ClassVar = ("mss", "window_scale", "sack", "timestamps", "ecn")
    mss: int | None
    window_scale: int | None
    sack: bool
    timestamps: bool
    ecn: bool

    def __str__(self) -> str:
        scale = None if self.window_scale is None else f"window scale {self.window_scale}"
        switches = {"SACK": self.sack, "timestamps": self.timestamps, "ECN": self.ecn}
        every = [f"MSS {self.mss}" if self.mss else None, scale]
        every += [name for name, is_on in switches.items() if is_on]
        return ", ".join(filter(None, every)) or "none"


def offered(dialogue: Dialogue, row: dict[str, Any]) -> dict[str, Options]:
    """The options of each end whose SYN was captured."""
    every: dict[str, Options] = {}
    state = dialogue.state
    for side, places in enumerate(dialogue.sides):
        syns = places[(state.flags[places] & SYN) != 0]
        if len(syns):
            end = NAMES[side]
            mss, scale, sack, stamps = (
                row[f"{end}_{name}"] for name in ("mss", "wscale", "sack_permitted", "timestamps")
            )
            if dialogue.facts.scales[side] >= 0:
                scale = dialogue.facts.scales[side]
            ecn = bool(state.flags[syns[-1]] & ECE)
            every[end] = Options(mss or None, scale, bool(sack), bool(stamps), ecn)
    return every


def unanswered_options(every: dict[str, Options]) -> list[str]:
    """What the client offered and the server did not agree to."""
    if len(every) < len(NAMES):
        return []
    client, server = (every[end] for end in NAMES)
    names = {"window_scale": "window scaling", "sack": "SACK", "timestamps": "timestamps"}

    def is_offered(options: Options, name: str) -> bool:
        return getattr(options, name) not in (None, False)

    return [
        word
        for name, word in names.items()
        if is_offered(client, name) and not is_offered(server, name)
    ]


# The path MTU.


def judge_mtu(dialogue: Dialogue, episode: Episode) -> None:
    """Whether the segments of the episode were too large for the path."""
    each, by, facts = dialogue.each, episode.direction, dialogue.facts
    seq = each.begin[episode.places[0]]
    full = each.mss_bytes[episode.places[0]]
    tries = [at for at in dialogue.places[by] if each.begin[at] == seq and each.length[at]]
    tries = [at for at in tries if each.end[at] > seq and at <= episode.last]
    sizes = [min(each.length[at], full) for at in tries]
    if len(tries) < 2 or sizes[0] < LARGE_BYTES or episode.reason is why.SPURIOUS:
        return
    was_reported = facts.mtu_bytes and facts.mtu_of == by
    if was_reported and each.frame[tries[0]] < facts.mtu_frame < each.frame[episode.last]:
        mtu = f" of {facts.mtu_bytes:,} bytes" if facts.mtu_bytes > 1 else ""
        episode.reason = why.PATH_MTU
        episode.detail = f"a router reported an MTU{mtu} [frame {facts.mtu_frame}]"
    elif _passed(dialogue, by, min(sizes[:-1])):
        return
    elif episode.ended and sizes[-1] < min(sizes[:-1]):
        episode.reason = why.PATH_MTU
        episode.detail = f"segments of {sizes[0]:,} bytes were lost, one of {sizes[-1]:,} arrived"
    elif not episode.ended and len(tries) >= ATTEMPTS and _small_passed(dialogue, by, sizes[0]):
        episode.reason, episode.is_sure = why.PATH_MTU, False
        episode.detail = f"only segments of {sizes[0]:,} bytes were lost, smaller ones arrived"
        episode.last = dialogue.last - 1


def _passed(dialogue: Dialogue, by: int, size: int) -> bool:
    """Whether a segment of that size was sent once and acknowledged."""
    places = dialogue.sides[by]
    large = places[dialogue.state.length[places] >= size]
    return bool((dialogue.state.acked_by[large] >= 0).any())


def _small_passed(dialogue: Dialogue, by: int, size: int) -> bool:
    """Whether a smaller segment arrived: an ACK or a SACK covers it."""
    state, places = dialogue.state, dialogue.sides[by]
    small = places[(state.length[places] > 0) & (state.length[places] < size)]
    if (state.acked_by[small] >= 0).any():
        return True
    edges = state.sack_right[dialogue.sides[1 - by]]
    return bool(numpy.isin(state.end[small], edges).any())


# Data that never came.


def missing_data(dialogue: Dialogue) -> tuple[int, int, int] | None:
    """The side whose data is missing until the end although later data was acknowledged
    selectively, how many bytes, and the first such SACK."""
    state = dialogue.state
    for side in (0, 1):
        heard = dialogue.sides[1 - side]
        acks = heard[(state.flags[heard] & (ACK | RST)) == ACK]
        if not len(acks) or state.sack_left[acks[-1]] <= 0:
            continue
        reach = int(state.ack[acks].max())
        sent = dialogue.sides[side]
        covers = (state.begin[sent] <= reach) & (state.end[sent] > reach)
        left = int(state.sack_left[acks[-1]])
        if left > reach and not covers.any():
            shows = acks[(state.ack[acks] == reach) & (state.sack_left[acks] > 0)]
            if state.time_ns[dialogue.last - 1] - state.time_ns[shows[0]] > 2 * LEAST_TIMER_NS:
                return side, left - reach, int(shows[0])
    return None


# Resets.


def foreign_reset(dialogue: Dialogue, at: int) -> tuple[str, bool]:
    """What shows that the reset is not of the host that it names, and whether that is certain; an
    empty text if nothing does."""
    state, by = dialogue.state, dialogue.each.direction[at]
    places = dialogue.sides[by]
    others = places[(state.flags[places] & RST) == 0]
    after = others[others > at]
    shown = []
    if len(after) and not (state.flags[after] & SYN).any() and _goes_on(dialogue, at, after):
        shown.append(f"the {NAMES[by]} went on")
    asked = dialogue.previous(at, 1 - by)
    far_ns = dialogue.far.far_ns[by]
    took_ns = dialogue.each.time_ns[at] - dialogue.each.time_ns[max(asked, 0)]
    answers = dialogue.previous(at, by) < asked and dialogue.each.length[max(asked, 0)]
    if asked >= 0 and answers and dialogue.far.is_measured and took_ns < SOONER * far_ns - 1e6:
        shown.append(f"it came after {took_ns / 1e6:.1f} ms, sooner than {far_ns / 1e6:.1f} ms")
    is_sure = bool(shown)
    lives = set(state.ttl[others].tolist())
    if len(others) > 1 and len(lives) == 1 and int(state.ttl[at]) not in lives:
        shown.append(f"its TTL is {int(state.ttl[at])}, not {lives.pop()}")
    return "; ".join(shown), is_sure


def _goes_on(dialogue: Dialogue, at: int, after: Array) -> bool:
    """Whether that end sends new data, or acknowledges more, later than what was in flight."""
    state, by = dialogue.state, dialogue.each.direction[at]
    new_data = (state.length[after] > 0) & (state.end[after] > state.sent[by, at])
    acks_more = state.ack[after] > state.acked[1 - by, at]
    late = state.time_ns[after] - state.time_ns[at] > dialogue.far.far_ns[1 - by]
    return bool((new_data | (acks_more & late)).any())


def refuses_syn_ack(dialogue: Dialogue, at: int) -> bool:
    """Whether the reset is the client's answer to a SYN-ACK."""
    state, (client, server) = dialogue.state, dialogue.sides
    if dialogue.each.direction[at] != 0:
        return False
    before = client[client < at]
    answered = server[(server < at) & ((state.flags[server] & SYN) != 0)]
    return bool(len(answered)) and bool(((state.flags[before] & (SYN | ACK)) == SYN).all())


def meets_old_connection(dialogue: Dialogue, at: int) -> bool:
    """Whether an ACK without SYN, which the client reset, answered an earlier SYN."""
    state, (client, server) = dialogue.state, dialogue.sides
    agreed = server[(state.flags[server] & SYN) != 0].min(initial=at)
    strays = server[(server < agreed) & ((state.flags[server] & (ACK | RST)) == ACK)]
    resets = client[(client < at) & ((state.flags[client] & RST) != 0)]
    return len(strays) > 0 and len(resets) > 0 and int(resets[0]) > int(strays[0])


# Silence.


def forgotten_at(dialogue: Dialogue) -> int:
    """The data after a long silence that was answered by nothing, or by a reset; -1 if none."""
    state, first, last = dialogue.state, dialogue.first, dialogue.last
    long = numpy.flatnonzero(numpy.diff(state.time_ns[first:last]) >= SILENCE_NS) + first + 1
    for at in long.tolist():
        by = dialogue.each.direction[at]
        later = dialogue.sides[1 - by]
        later = later[later > at]
        answered = (later < at) if not len(later) else (state.flags[later] & RST) == 0
        was_used = dialogue.previous(at, 1 - by) >= 0 and dialogue.count_before(at, by, FIN) == 0
        carries = dialogue.each.length[at] and not dialogue.each.marks[at] & bits.KEEP_ALIVE
        is_ended = len(later) or dialogue.episode_at(last - 1) is not None
        if carries and was_used and is_ended and not answered.any():
            return int(at)
    return -1


def unanswered_probes(dialogue: Dialogue) -> list[int]:
    """The keep-alives after the last answer, if the connection ends with them."""
    state = dialogue.state
    probes = dialogue.first + numpy.flatnonzero(
        state.marks[dialogue.first : dialogue.last] & bits.KEEP_ALIVE
    )
    if len(probes) < PROBES:
        return []
    by = int(state.direction[probes[-1]])
    answers = dialogue.sides[1 - by]
    since = int(answers[-1]) if len(answers) else dialogue.first
    alone = probes[(probes > since) & (state.direction[probes] == by)]
    rest = dialogue.sides[by]
    carries = state.length[rest[rest > since]] > 1
    return alone.tolist() if len(alone) >= PROBES and not carries.any() else []


# The handshake.


def only_ecn_unanswered(dialogue: Dialogue) -> bool:
    """Whether SYNs with ECN were repeated until one without it was answered."""
    state, client = dialogue.state, dialogue.sides[0]
    syns = client[(state.flags[client] & (SYN | ACK)) == SYN]
    ecn = (state.flags[syns] & (ECE | CWR)) == ECE | CWR
    return len(syns) > 1 and bool(ecn[:-1].all()) and not bool(ecn[-1])


def lost_syn_ack(dialogue: Dialogue) -> bool:
    """Whether the first SYN was answered before it was repeated."""
    kinds = dialogue.state.flags[dialogue.first : dialogue.last] & (SYN | ACK)
    opening: list[int] = kinds[(kinds & SYN) != 0].tolist()
    return opening[:3] == [SYN, SYN | ACK, SYN]


def overflowed_until(dialogue: Dialogue) -> int:
    """The first answer of a server that had repeated its SYN-ACK although the client had
    acknowledged it; -1 if it did not."""
    state, (client, server) = dialogue.state, dialogue.sides
    agreed = client[(state.flags[client] & (SYN | RST | ACK)) == ACK]
    repeated = server[(state.flags[server] & SYN) != 0][1:]
    if not len(agreed) or not len(repeated):
        return -1
    late_ns = state.time_ns[repeated] - state.time_ns[agreed[0]]
    if not (late_ns > max(LEAST_TIMER_NS, dialogue.far.far_ns[1])).any():
        return -1
    answers = server[(server > repeated[-1]) & ((state.flags[server] & SYN) == 0)]
    return int(answers[0]) if len(answers) else dialogue.last - 1
