"""The reasons for a silence on a connection, in words, with the kernel's source of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAGLE_AND_DELAYED_ACK: Final = "delayed ACK meets Nagle"
NAGLE: Final = "Nagle waits a round trip"
DELAYED_ACK: Final = "delayed ACK"
CLOSED_WINDOW: Final = "closed window"
FULL_WINDOW: Final = "full window"
RETRANSMISSION_TIMER: Final = "retransmission timer"
FAST_RETRANSMISSION: Final = "repair of a loss"
ROUND_TRIP: Final = "round trip"
APPLICATION: Final = "application"
IDLE: Final = "nothing to send"
UNEXPLAINED: Final = "unexplained"
RTT_UNKNOWN: Final = "RTT unknown"


@dataclass(frozen=True)
class Explanation:
    """`words` say what happens; `source` names the functions of Linux and the RFCs of the rule."""

    words: str
    source: str


_EXPLAINED: Final = {
    NAGLE_AND_DELAYED_ACK: Explanation(
        "The sender holds back a small segment because an earlier small one is not acknowledged; "
        "the receiver, which has taken in no more than one full segment and has nothing to send, "
        "holds back that acknowledgment until its timer ends: 40 ms at least (TCP_ATO_MIN, HZ/25).",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); __tcp_ack_snd_check "
        "(net/ipv4/tcp_input.c); tcp_send_delayed_ack (net/ipv4/tcp_output.c); TCP_ATO_MIN "
        "(include/net/tcp.h); RFC 896, RFC 1122 4.2.3.2 and 4.2.3.4",
    ),
    NAGLE: Explanation(
        "The sender holds back a small segment until an earlier small one is acknowledged, and "
        "the receiver acknowledges at once: it takes a round trip.",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); RFC 896, RFC 1122 4.2.3.4",
    ),
    DELAYED_ACK: Explanation(
        "The receiver holds back its acknowledgment until its timer ends; the sender has nothing "
        "more to send and does not wait for it.",
        "__tcp_ack_snd_check (net/ipv4/tcp_input.c); tcp_send_delayed_ack "
        "(net/ipv4/tcp_output.c); RFC 1122 4.2.3.2",
    ),
    CLOSED_WINDOW: Explanation(
        "The receiver's window is shut because its program does not read; the sender probes it "
        "from time to time until it opens.",
        "tcp_snd_wnd_test and tcp_send_probe0 (net/ipv4/tcp_output.c); tcp_probe_timer "
        "(net/ipv4/tcp_timer.c); __tcp_select_window (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    ),
    FULL_WINDOW: Explanation(
        "The sender has sent all that the receiver's window allows and waits for the "
        "acknowledgment that moves it on.",
        "tcp_snd_wnd_test (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    ),
    RETRANSMISSION_TIMER: Explanation(
        "A segment or its acknowledgment was lost and nothing came after it that would tell: the "
        "sender's timer ends (RTO, or the probe of a tail loss) and it sends again.",
        "tcp_retransmit_timer (net/ipv4/tcp_timer.c); tcp_send_loss_probe "
        "(net/ipv4/tcp_output.c); RFC 6298, RFC 8985 7",
    ),
    FAST_RETRANSMISSION: Explanation(
        "A segment was lost or overtaken; later ones arrived, and what they were answered with "
        "made the sender fill the hole.",
        "tcp_fastretrans_alert and tcp_rack_mark_lost (net/ipv4/tcp_input.c, tcp_recovery.c); "
        "RFC 5681 3.2, RFC 8985",
    ),
    ROUND_TRIP: Explanation(
        "What was sent is on its way, and so is its answer: the distance between the two.",
        "tcp_cwnd_test (net/ipv4/tcp_output.c), where the congestion window is what waits",
    ),
    APPLICATION: Explanation(
        "Nothing in TCP held it back: the program of the side that sends next had not written "
        "before.",
        "tcp_sendmsg_locked (net/ipv4/tcp.c)",
    ),
    IDLE: Explanation(
        "Neither side had anything to send; what ends the silence is a keep-alive or the end of "
        "the connection.",
        "tcp_keepalive_timer (net/ipv4/tcp_timer.c); RFC 9293 3.8.4",
    ),
    UNEXPLAINED: Explanation(
        "The capture does not tell: longer than a round trip, no timer fits and nothing is marked.",
        "none",
    ),
    RTT_UNKNOWN: Explanation(
        "The capture does not have the handshake of the connection, so its RTT is unknown, and the "
        "reason depends on it. A capture that begins before the connection tells.",
        "none",
    ),
}


def explained(reason: str) -> Explanation:
    """What a reason of `stalls` or `exchanges` means, and where it stands in the kernel."""
    return _EXPLAINED[reason]
