"""Why nothing was sent before a segment: the rules, in the order in which they are asked.

A gap ends with a segment. Its sender had heard something from the other end a while before: the
time from the place of the capture to that end and back. What exceeds that time is a wait, and the
segment and its neighbours show for what. If the distances are not measured, the reason must be the
same for every possible distance; else it cannot be told.

A rule takes the segment that ends a gap and returns what the gap was, or None if it does not apply.
`RULES` has a list for each kind of segment: the first rule that applies decides.

The place of the capture matters: at the sender, a gap that a timer ended is followed by a
retransmission; at the receiver, the retransmission of a last segment looks like new data, unless
the identification of its IP packet shows that another one was lost before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import ACK, FIN, RST, SYN
from labs.read.flows import path
from labs.read.flows import reasons as why
from labs.read.flows.dialogue import Dialogue, Ending, Gap
from labs.read.flows.losses import LEAST_TIMER_NS
from labs.read.flows.reasons import NAMES, NOBODY, WINDOWS, Reason, Wait
from labs.read.flows.rtt import NEXT_DOOR, SOON_NS

SYN_TIMER_NS: Final = 500_000_000
"""Half of the first timer of a SYN (TCP_TIMEOUT_INIT)."""
SHORTEST_DELAY_NS: Final = 30_000_000
LONGEST_DELAY_NS: Final = 260_000_000
"""An ACK is delayed by 40 to 200 ms (TCP_ATO_MIN, TCP_DELACK_MAX), and one or two ticks more."""
MOST_LOOKED_AT: Final = 200
REPETITIONS: Final = 3
"""Repetitions of one segment, without an answer, by which its sender gives up."""
IDLE_NS: Final = 10_000_000_000
"""From here on a pause of a client between two requests is no program's delay."""
KEPT_ALIVE: Final = bits.KEEP_ALIVE | bits.KEEP_ALIVE_ACK
PROBED: Final = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE
ANSWERED: Final = bits.KEEP_ALIVE_ACK | bits.ZERO_WINDOW_PROBE_ACK

Rule = Callable[[Ending], Gap | None]


def gap_before(dialogue: Dialogue, at: int) -> Gap | None:
    """The gap before the segment at that place; None if it may be no more than a round trip."""
    most = _explained(Ending(dialogue, at, dialogue.far))
    if dialogue.far.is_measured:
        return most
    least = _explained(Ending(dialogue, at, NEXT_DOOR))
    if most.wait == least.wait:
        return most if most.wait_ns else least if least.wait_ns < SOON_NS else None
    if not most.wait_ns and dialogue.far.rtt_ns + SOON_NS >= most.length_ns:
        return None
    wait_ns, wait = most.wait_ns or most.length_ns, Wait(why.UNTOLD)
    return Gap(at, most.length_ns, wait, wait_ns, why.ROUND_TRIP, doubt=why.BEGUN_LATE)


def wait_instead(dialogue: Dialogue, gap: Gap) -> Gap | None:
    """What was waited for while a segment was sent that ended nothing, such as a delayed ACK that
    nobody waits for; None if it ended something, or if nothing came."""
    if not _ends_nothing(dialogue, gap):
        return None
    each = dialogue.each
    for place in range(gap.place + 1, min(dialogue.last, gap.place + MOST_LOOKED_AT)):
        ends = each.length[place] or each.flags[place] & (FIN | RST)
        episode = dialogue.episode_at(place)
        if not ends or each.marks[place] & PROBED or (episode and place in episode.in_vain):
            continue
        if episode is not None and episode.reason is not why.SPURIOUS:
            return None
        ending = Ending(dialogue, place, dialogue.far, since=gap.place)
        if ending.flags & RST:
            return _first(RESETS, ending)
        if ending.heard >= 0 and each.marks[ending.heard] & KEPT_ALIVE:
            ending.late_ns = ending.length_ns  # what it heard last did not make it send
        if ending.is_at_once:
            return None
        return _first(DATA if ending.length else FINS, ending)
    return None


def _ends_nothing(dialogue: Dialogue, gap: Gap) -> bool:
    each, at = dialogue.each, gap.place
    return (
        gap.wait.reason.ends_nothing
        and gap.wait.waiting == NOBODY
        and (gap.wait.reason is why.SPURIOUS or each.length[at] <= 1)
        and not each.flags[at] & (SYN | FIN | RST)
        and dialogue.has_both
        and not dialogue.is_beside_hole(at)
    )


def _explained(ending: Ending) -> Gap:
    return _first(RULES[_kind(ending)], ending)


def _first(rules: Sequence[Rule], ending: Ending) -> Gap:
    for rule in rules:
        gap = rule(ending)
        if gap is not None:
            return gap
    return ending.untold(why.ACK_OR_LATE if not ending.length else why.LOST_OR_LATE)


def _kind(ending: Ending) -> str:
    """Which kind of segment ends the gap."""
    if ending.flags & RST:
        return "reset"
    if ending.flags & SYN:
        return "SYN"
    if ending.length:
        return "data"
    if ending.flags & FIN:
        return "FIN"
    return "new ACK" if ending.acked_bytes > 0 else "repeated ACK"


# What the capture lacks.


def one_direction(ending: Ending) -> Gap | None:
    dialogue, at = ending.dialogue, ending.at
    if dialogue.has_both:
        return None
    if _repeats_to_the_end(ending):
        return replace(ending.whole(why.GAVE_UP), is_sure=False)
    flags = dialogue.state.flags[dialogue.first : dialogue.last]
    repeats = dialogue.each.flags[at - 1] & ending.flags & SYN
    if repeats and not (flags & ACK).any():
        return ending.whole(Wait(dialogue.facts.refusal or why.UNANSWERED, *NAMES))
    return ending.untold(why.ONE_SIDED, is_whole=True)


def _repeats_to_the_end(ending: Ending) -> bool:
    """Whether the last segments of the capture repeat one, at growing intervals."""
    each, last = ending.each, ending.dialogue.last
    times = [
        each.time_ns[place]
        for place in range(ending.dialogue.first, last)
        if each.length[place] > 1 and each.begin[place] == each.begin[last - 1]
    ]
    steps = [after - before for before, after in pairwise(times)]
    is_repeated = each.begin[ending.at] == each.begin[last - 1] < each.sent[ending.by][ending.at]
    return is_repeated and len(steps) >= REPETITIONS and all(a < b for a, b in pairwise(steps))


def beside_a_hole(ending: Ending) -> Gap | None:
    if ending.dialogue.is_beside_hole(ending.at):
        return ending.untold(why.HOLED, is_whole=True)
    return None


# What the path did.


def lacks_data(ending: Ending) -> Gap | None:
    missing = ending.dialogue.missing
    if missing is None or ending.at <= missing[2]:
        return None
    return ending.whole(Wait(why.NEVER_ARRIVED, NAMES[1 - missing[0]], NAMES[missing[0]]))


def was_overflowed(ending: Ending) -> Gap | None:
    if ending.at > ending.dialogue.overflowed_until or ending.is_at_once:
        return None
    return ending.whole(Wait(why.ACCEPT_QUEUE, *NAMES), why.HANDSHAKE)


def was_forgotten(ending: Ending) -> Gap | None:
    """What follows the first data after a long silence, which nobody answered."""
    at = ending.dialogue.forgotten_at
    if not 0 <= at < ending.at:
        return None
    by = ending.each.direction[at]
    return ending.whole(Wait(why.IDLE_TIMEOUT, NAMES[by], NAMES[1 - by]))


def probes_in_vain(ending: Ending) -> Gap | None:
    probes = ending.dialogue.probes
    if not probes or ending.at < probes[0]:
        return None
    by = ending.each.direction[probes[0]]
    if ending.at == probes[0]:
        return ending.whole(Wait(why.KEEP_ALIVE))
    return ending.whole(Wait(why.KEEP_ALIVE_UNANSWERED, NAMES[by], NAMES[1 - by]))


# A reset.


def is_of_another(ending: Ending) -> Gap | None:
    """A reset that the host did not send ends nothing."""
    if path.foreign_reset(ending.dialogue, ending.at)[0]:
        return ending.passed(why.ROUND_TRIP)
    return None


def refuses(ending: Ending) -> Gap | None:
    if ending.at in ending.dialogue.refusals:
        return ending.whole(why.REFUSED, why.HANDSHAKE)
    return None


def reacts_at_once(ending: Ending) -> Gap | None:
    return ending.passed(why.ROUND_TRIP) if ending.is_at_once else None


def gives_up(ending: Ending) -> Gap | None:
    if ending.episode is not None and ending.episode.direction == ending.by:
        return ending.late(why.GAVE_UP)
    return None


def aborts(ending: Ending) -> Gap | None:
    sent, acked, at = ending.each.sent, ending.each.acked, ending.at
    by, other = ending.by, ending.other
    if sent[by][at] > acked[by][at] or sent[other][at] > max(0, acked[other][at]):
        return ending.late(why.RESET)
    return None


def ends_idle(ending: Ending) -> Gap | None:
    """Everything was acknowledged, and its sender had nothing to wait for."""
    return ending.whole(Wait(why.IDLE)) if ending.length_ns >= IDLE_NS else None


def resets_early(ending: Ending) -> Gap | None:
    return ending.untold(why.CLOSED_OR_LOST)


# A SYN or SYN-ACK.


def answer_was_lost(ending: Ending) -> Gap | None:
    """An earlier answer to one of several SYNs was lost before it passed the capture."""
    by, other = (ending.dialogue.count_before(ending.at, side, SYN) for side in ending.sides)
    if ending.beyond_ns < SYN_TIMER_NS or by or other < 2:
        return None
    return ending.waited(ending.beyond_ns, why.SYN_REPEATED, why.HANDSHAKE)


def opens(ending: Ending) -> Gap | None:
    if ending.dialogue.count_before(ending.at, ending.by, SYN):
        return None
    return ending.passed(why.HANDSHAKE)


def asks_in_vain(ending: Ending) -> Gap | None:
    dialogue = ending.dialogue
    if dialogue.is_answered:
        return None
    if not dialogue.refusals:
        return ending.untold(why.ANSWER_UNSEEN, why.HANDSHAKE, is_whole=True)
    return ending.whole(ending.waiting(why.REFUSED), why.HANDSHAKE)


def repeats_syn(ending: Ending) -> Gap | None:
    reason = why.SYN_REPEATED
    if ending.dialogue.is_ecn_blocked:
        reason = why.ECN_BLOCKED
    elif ending.by == 0 and path.meets_old_connection(ending.dialogue, ending.at):
        return ending.whole(Wait(why.OLD_CONNECTION, *NAMES), why.HANDSHAKE)
    return ending.whole(reason, why.HANDSHAKE)


# Whatever else a segment is.


def completes_handshake(ending: Ending) -> Gap | None:
    if ending.each.flags[ending.at - 1] & SYN and ending.by == 0 and not ending.length:
        return ending.passed(why.HANDSHAKE)
    return None


def repeats_in_vain(ending: Ending) -> Gap | None:
    if ending.episode is not None and ending.at in ending.episode.in_vain:
        return ending.whole(Wait(why.SPURIOUS))
    return None


def repairs(ending: Ending) -> Gap | None:
    episode = ending.episode
    if episode is None or episode.reason is why.SPURIOUS or ending.marks & PROBED:
        return None
    if episode.reason in (
        why.FAST_RECOVERY,
        why.NO_SACK,
    ):  # a round trip of it is the price of any repair
        return ending.waited(ending.beyond_ns, episode.wait, episode.reason)
    doubt = why.LOST_OR_LATE if episode.reason is why.UNTOLD else None
    return replace(ending.whole(episode.wait), is_sure=episode.is_sure, doubt=doubt)


def window_was_zero(ending: Ending) -> Gap | None:
    each, at = ending.each, ending.at
    for sender in (ending.other, ending.by):
        receiver = 1 - sender
        if each.shut[receiver][at] != 1 or ending.flags & FIN:
            continue
        if ending.by == receiver and ending.length:
            continue
        probes = ending.marks & (PROBED | ANSWERED) or each.marks[at - 1] & PROBED
        if probes or ending.next_data_of(sender):
            return ending.whole(Wait(why.ZERO_WINDOW, NAMES[sender], NAMES[receiver]))
    return None


def keeps_alive(ending: Ending) -> Gap | None:
    return ending.whole(Wait(why.KEEP_ALIVE)) if ending.marks & KEPT_ALIVE else None


def answers_probe(ending: Ending) -> Gap | None:
    return ending.passed(why.ROUND_TRIP) if ending.marks & ANSWERED else None


# New data.


def was_under_way(ending: Ending) -> Gap | None:
    return ending.passed(ending.rest, ending.awaited(ending.rest)) if ending.is_at_once else None


def lost_upstream(ending: Ending) -> Gap | None:
    """The identification of IP packets shows that one was lost before it passed the capture."""
    lost = ending.dialogue.lost_before(ending.at, ending.by) if ending.is_away else 0
    if not lost:
        return None
    return ending.late(why.TAIL_LOSS if lost == 1 else why.TIMEOUT, ending.rest)


def begins_the_capture(ending: Ending) -> Gap | None:
    if ending.heard >= 0 or ending.each.flags[ending.dialogue.first] & SYN:
        return None
    return ending.untold(why.BEGUN_LATE, ending.rest)


def had_no_room(ending: Ending) -> Gap | None:
    """The window left less than was to send. If that is below a segment, a timer has to expire
    before the sender fills it (persist timer)."""
    each, at, by = ending.each, ending.at, ending.by
    edge, full = each.edge[by][at], each.mss_bytes[at]
    if 0 <= each.window[ending.other][at] < full and ending.length >= edge - each.sent[by][at]:
        return ending.late(ending.waiting(why.SILLY_WINDOW), ending.rest)
    if ending.rest in WINDOWS or 0 <= edge <= each.sent[by][at] + full:
        return ending.untold(why.WINDOW_OR_LATE, ending.rest)
    return None


def was_idle(ending: Ending) -> Gap | None:
    """A client that asks for something new long after everything was answered and acknowledged:
    a person's pause, or a connection that is kept for later."""
    each, at = ending.each, ending.at
    heard = each.acked[1][at] >= each.sent[1][at] and each.acked[0][at] >= each.sent[0][at]
    is_turn = ending.heard >= 0 and ending.by == 0
    if is_turn and heard and ending.late_ns >= IDLE_NS and not _was_asked(ending):
        return ending.late(Wait(why.IDLE), ending.rest)
    return None


def _was_asked(ending: Ending) -> bool:
    """Whether the last data before was its sender's: nothing answered it."""
    each, number = ending.each, bisect_left(ending.each.carrying, ending.at) - 1
    before = each.carrying[number] if number >= 0 else -1
    return before >= ending.dialogue.first and each.direction[before] == ending.by


def may_be_repeated(ending: Ending) -> Gap | None:
    """The data goes on with what its sender sent before: the last segment of that may have been
    lost before the capture, and this be its retransmission by a loss probe, after two round trips
    or more, or by a timer (RFC 8985 7.2, RFC 6298)."""
    each = ending.each
    number = bisect_left(each.carrying, ending.at) - 1
    before = each.carrying[number] if number >= 0 else -1
    goes_on = before >= ending.dialogue.first and each.direction[before] == ending.by
    is_late = ending.late_ns >= min(LEAST_TIMER_NS, 2 * ending.far.rtt_ns)
    if goes_on and is_late and ending.hides_losses:
        return ending.untold(why.LOST_OR_LATE, ending.rest)
    return None


def was_not_written(ending: Ending) -> Gap | None:
    is_sure = ending.late_ns < LEAST_TIMER_NS or not ending.hides_losses
    return ending.waited(ending.late_ns, why.APPLICATION, ending.rest, is_sure=is_sure)


# The end of one direction.


def closes(ending: Ending) -> Gap | None:
    """The other end visibly waits for that end if it has closed before."""
    if ending.dialogue.count_before(ending.at, ending.other, FIN):
        return ending.late(why.CLOSED_LATE)
    return ending.late(Wait(why.CLOSED_LATE, NOBODY, NAMES[ending.by]))


# An ACK without data: the other end is the sender of data.


def opens_window(ending: Ending) -> Gap | None:
    each, at = ending.each, ending.at
    is_new = each.offered[at] != each.window[ending.by][at]
    if is_new and ending.is_window_full and ending.released is not None:
        return ending.whole(ending.window_limit)
    return None


def repeats_in_time(ending: Ending) -> Gap | None:
    if ending.is_at_once or ending.limit is not why.ROUND_TRIP:
        return ending.passed(ending.limit, ending.awaited(why.ROUND_TRIP))
    return None


def repeats_late(ending: Ending) -> Gap | None:
    return ending.untold(why.ACK_OR_LATE, is_whole=True)


def acknowledges_at_once(ending: Ending) -> Gap | None:
    if not ending.is_at_once:
        return None
    rest: Reason = why.ROUND_TRIP
    if ending.is_window_full:
        rest = ending.window_limit
    elif ending.frees_small and ending.limit is not why.PROGRAM_WINDOW:
        rest = why.NAGLE
    elif ending.released is not None or ending.dialogue.bulk[ending.other] is not None:
        rest = ending.limit
    return ending.passed(rest, ending.awaited(why.ROUND_TRIP))


def was_short_of_window(ending: Ending) -> Gap | None:
    limit = ending.window_limit
    if ending.is_window_full and (not ending.is_small or limit is why.SILLY_WINDOW):
        return ending.late(limit)
    return None


def was_queued(ending: Ending) -> Gap | None:
    """The ACK is late because its data was."""
    if ending.limit is why.PATH:
        return ending.passed(why.PATH, ending.awaited(why.ROUND_TRIP))
    return None


def delays_for_nobody(ending: Ending) -> Gap | None:
    """With more in flight than it covers, the sender waits for the ACKs of that as well."""
    each, at = ending.each, ending.at
    has_more = ending.limit is not why.ROUND_TRIP and each.sent[ending.other][at] > each.ack[at]
    if _is_delayed(ending) and (ending.released is None or (has_more and not ending.frees_small)):
        return ending.late(Wait(why.DELAYED_ACK), ending.limit)
    return None


def meets_nagle(ending: Ending) -> Gap | None:
    if _is_delayed(ending) and ending.frees_small:
        return ending.late(why.NAGLE_AND_DELAYED_ACK, ending.limit)
    return None


def delays(ending: Ending) -> Gap | None:
    if not _is_delayed(ending) or ending.released is None:
        return None
    has_room = ending.room is None or ending.room >= ending.each.length[ending.released]
    if has_room and ending.limit is why.ROUND_TRIP:
        # Nothing that this ACK frees held the data back.
        return ending.untold(why.ACK_OR_LATE, ending.limit)
    return ending.late(why.DELAYED_ACK, ending.limit)


def ends_a_round(ending: Ending) -> Gap | None:
    if ending.is_small or ending.limit is why.ROUND_TRIP:
        return None
    return ending.passed(ending.limit, ending.awaited(why.ROUND_TRIP))


def frees_nothing(ending: Ending) -> Gap | None:
    return ending.untold(why.ACK_OR_LATE) if ending.released is None else None


def _is_delayed(ending: Ending) -> bool:
    return ending.is_small and SHORTEST_DELAY_NS <= ending.late_ns <= LONGEST_DELAY_NS


CAPTURE: Final = (one_direction, beside_a_hole)
PATH: Final = (lacks_data, was_overflowed, was_forgotten, probes_in_vain)
RESETS: Final = (refuses, is_of_another, reacts_at_once, gives_up, aborts, ends_idle, resets_early)
SYNS: Final = (answer_was_lost, opens, asks_in_vain, repeats_syn)
REPAIRS: Final = (
    completes_handshake,
    repeats_in_vain,
    repairs,
    window_was_zero,
    keeps_alive,
    answers_probe,
)
DATA: Final = (
    was_under_way,
    lost_upstream,
    begins_the_capture,
    had_no_room,
    was_idle,
    may_be_repeated,
    was_not_written,
)
FINS: Final = (reacts_at_once, closes)
REPEATED_ACKS: Final = (opens_window, repeats_in_time, repeats_late)
NEW_ACKS: Final = (
    acknowledges_at_once,
    was_short_of_window,
    was_queued,
    delays_for_nobody,
    meets_nagle,
    delays,
    ends_a_round,
    frees_nothing,
)
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "reset": (*PATH, *CAPTURE, *RESETS),
    "SYN": (*PATH, *CAPTURE, *SYNS),
    "data": (*PATH, *CAPTURE, *REPAIRS, *DATA),
    "FIN": (*PATH, *CAPTURE, *REPAIRS, *FINS),
    "new ACK": (*PATH, *CAPTURE, *REPAIRS, *NEW_ACKS),
    "repeated ACK": (*PATH, *CAPTURE, *REPAIRS, *REPEATED_ACKS),
}
"""For each kind of segment that ends a gap: the rules in order. If none applies, the reason cannot
be told."""
