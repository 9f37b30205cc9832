"""Why a connection waited: the one vocabulary of `labs explain`, stalls, ladders and comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REFUSED: Final = "connection refused"
UNANSWERED: Final = "connection unanswered"
FILTERED: Final = "connection filtered"
UNREACHABLE_HOST: Final = "host unreachable"
SYN_REPEATED: Final = "SYN repeated"
HANDSHAKE: Final = "handshake"
RESET: Final = "reset"
TIMEOUT: Final = "retransmission timeout"
TAIL_LOSS: Final = "tail loss"
DOUBLE_LOSS: Final = "retransmission lost"
FAST_RECOVERY: Final = "fast recovery"
SPURIOUS: Final = "spurious retransmission"
NAGLE_AND_DELAYED_ACK: Final = "delayed ACK meets Nagle"
NAGLE: Final = "Nagle waits a round trip"
DELAYED_ACK: Final = "delayed ACK"
APPLICATION: Final = "application"
ZERO_WINDOW: Final = "zero window"
SILLY_WINDOW: Final = "window below one segment"
FULL_WINDOW: Final = "full window"
SEND_BUFFER: Final = "send buffer"
CONGESTION_WINDOW: Final = "congestion window"
PATH: Final = "path full"
SLOW_START: Final = "slow start"
TURN: Final = "request and response"
TLS_TURN: Final = "TLS round trip"
HTTP_TURN: Final = "HTTP round trip"
ROUND_TRIP: Final = "round trip"
SENDING: Final = "sending"
KEEP_ALIVE: Final = "keep-alive"
IDLE: Final = "nothing to send"
GAVE_UP: Final = "gave up"
CLOSED_LATE: Final = "closed late"
UNTOLD: Final = "cannot be told"

NOBODY: Final = "nobody"
NAMES: Final = ("client", "server")


@dataclass(frozen=True)
class Explanation:
    """`words` describe the reason; `source` names functions of Linux and the RFCs of the rule.

    `advice` is what to change, empty if nothing is wrong. `is_usual` is whether every connection
    spends time in this way, so that it is no trouble by itself. `costs` is false if its time is
    lost to nobody.
    """

    words: str
    source: str
    advice: str = ""
    is_usual: bool = False
    costs: bool = True


EXPLANATIONS: Final = {
    REFUSED: Explanation(
        "The host answered the SYN with a reset: no program listens on that port, or a firewall "
        "rejects the connection.",
        "tcp_v4_rcv and tcp_v4_send_reset (net/ipv4/tcp_ipv4.c); RFC 9293 3.5.2",
        "Start the server, check its address and port, or the firewall rule that rejects it.",
    ),
    UNANSWERED: Explanation(
        "Nothing answered the SYN, although it was repeated at doubling intervals: the host is "
        "down, its address is wrong, or a firewall drops the packets.",
        "tcp_retransmit_timer and tcp_write_timeout (net/ipv4/tcp_timer.c; tcp_syn_retries); "
        "RFC 6298 5",
        "Check the address and the route, then capture at the server: if the SYN arrives there, "
        "its firewall drops it.",
    ),
    FILTERED: Explanation(
        "A firewall refused the connection with an ICMP error.",
        "tcp_v4_err (net/ipv4/tcp_ipv4.c); RFC 1812 5.2.7.1, RFC 5927",
        "Allow the connection in the firewall that sent the ICMP error.",
    ),
    UNREACHABLE_HOST: Explanation(
        "A router answered the SYN with an ICMP error: it has no route to the host, or the host "
        "does not answer on its link.",
        "tcp_v4_err (net/ipv4/tcp_ipv4.c); RFC 1812 5.2.7.1, RFC 5927",
        "Check that the host is up, its address, and the routes to it.",
    ),
    SYN_REPEATED: Explanation(
        "A SYN or SYN-ACK was lost, or the server's queue of connections was full. The sender "
        "repeats it after 1, 3, 7 s.",
        "tcp_timeout_init (include/net/tcp.h: TCP_TIMEOUT_INIT); tcp_conn_request "
        "(net/ipv4/tcp_input.c); RFC 6298 2.1",
        "Look for loss on the path; at the server compare `nstat -az TcpExtListenOverflows`.",
    ),
    HANDSHAKE: Explanation(
        "The handshake takes one round trip before the first request.",
        "RFC 9293 3.5",
        "Keep connections open and use them again.",
        is_usual=True,
    ),
    RESET: Explanation(
        "One end aborted the connection with a reset. Any data not yet delivered is lost.",
        "tcp_send_active_reset (net/ipv4/tcp_output.c); tcp_close (net/ipv4/tcp.c); "
        "RFC 9293 3.5.2, RFC 2525 2.17",
        "Read the log of the program at the end that sent the reset: it closed with data unread, "
        "or ended.",
    ),
    TIMEOUT: Explanation(
        "Segments or their ACKs were lost and nothing that followed revealed it. The sender's "
        "timer expires, and doubles each time (RTO backoff).",
        "tcp_retransmit_timer (net/ipv4/tcp_timer.c); TCP_RTO_MIN (include/net/tcp.h); RFC 6298",
        "Find the outage or the loss on the path. On a path with a short RTT, `ip route ... "
        "rto_min` shortens the timer.",
    ),
    TAIL_LOSS: Explanation(
        "The last segment of a burst was lost. No later segment could reveal it, so a timer had to "
        "expire (tail loss probe or RTO).",
        "tcp_send_loss_probe, tcp_schedule_loss_probe (net/ipv4/tcp_output.c); RFC 8985 7",
        "Find the loss on the path; keep tcp_early_retrans at 3, so that the loss probe is sent.",
    ),
    DOUBLE_LOSS: Explanation(
        "A segment was lost, retransmitted, and lost again. The second loss needs a timer.",
        "tcp_fastretrans_alert (net/ipv4/tcp_input.c); tcp_retransmit_timer "
        "(net/ipv4/tcp_timer.c); RFC 8985, RFC 6298",
        "Find the loss on the path: it comes in bursts. A shorter queue or pacing (fq) helps.",
    ),
    FAST_RECOVERY: Explanation(
        "A segment was lost or reordered. Later segments arrived, and their ACKs made the sender "
        "retransmit it, at the price of a round trip and of a smaller congestion window.",
        "tcp_fastretrans_alert and tcp_rack_mark_lost (net/ipv4/tcp_input.c, tcp_recovery.c); "
        "RFC 5681 3.2, RFC 8985",
        "Find where packets are dropped: `tc -s qdisc`, `ethtool -S`, a policer.",
    ),
    SPURIOUS: Explanation(
        "The sender retransmitted what the receiver already had: the ACK was late or lost.",
        "tcp_check_dsack (net/ipv4/tcp_input.c); tcp_process_loss, F-RTO; RFC 2883, RFC 5682",
        "Look for a delay that jumps, or for ACKs lost on the reverse path.",
    ),
    NAGLE_AND_DELAYED_ACK: Explanation(
        "The sender holds back a small segment because an earlier small one is unacknowledged. The "
        "receiver has received neither more than one full-sized segment nor a second small one. It "
        "has nothing to send, so it delays that ACK until its timer expires, after at least 40 ms "
        "(TCP_ATO_MIN, HZ/25).",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); __tcp_ack_snd_check "
        "(net/ipv4/tcp_input.c); tcp_send_delayed_ack (net/ipv4/tcp_output.c); TCP_ATO_MIN "
        "(include/net/tcp.h); RFC 896, RFC 1122 4.2.3.2 and 4.2.3.4, RFC 5681 4.2",
        "Set TCP_NODELAY on the sending socket, or write each message with one call.",
    ),
    NAGLE: Explanation(
        "The sender holds back a small segment until an earlier small one is acknowledged. The "
        "receiver acknowledges at once, so this takes one round trip.",
        "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); RFC 896, RFC 1122 4.2.3.4",
        "Set TCP_NODELAY on the sending socket, or write each message with one call.",
    ),
    DELAYED_ACK: Explanation(
        "The receiver has received neither more than one full-sized segment nor a second small "
        "one. It delays the ACK until its timer expires. If nobody waits for that ACK, nothing is "
        "lost.",
        "__tcp_ack_snd_check (net/ipv4/tcp_input.c); tcp_send_delayed_ack "
        "(net/ipv4/tcp_output.c); RFC 1122 4.2.3.2, RFC 5681 4.2",
    ),
    APPLICATION: Explanation(
        "TCP held nothing back: the program that sends next had not written its data before.",
        "tcp_sendmsg_locked (net/ipv4/tcp.c)",
        "Measure that program: the network is not what limits it.",
    ),
    ZERO_WINDOW: Explanation(
        "The receiver's window is zero because its program does not read. The sender probes it at "
        "growing intervals until it opens.",
        "tcp_snd_wnd_test and tcp_send_probe0 (net/ipv4/tcp_output.c); tcp_probe_timer "
        "(net/ipv4/tcp_timer.c); __tcp_select_window (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
        "Make the receiving program read faster; a larger buffer only postpones the stop.",
    ),
    SILLY_WINDOW: Explanation(
        "The receiver's window is smaller than one full-sized segment, so that each round trip "
        "carries less than one.",
        "__tcp_select_window (net/ipv4/tcp_output.c); tcp_snd_wnd_test; RFC 1122 4.2.3.3 and "
        "4.2.3.4",
        "Enlarge the receiver's buffer (SO_RCVBUF, tcp_rmem), or make its program read.",
    ),
    FULL_WINDOW: Explanation(
        "The sender has sent all that the receiver's window permits and waits for an ACK that "
        "advances the window.",
        "tcp_snd_wnd_test (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
        "Enlarge the receiver's buffer (tcp_rmem, SO_RCVBUF) to the BDP or more.",
    ),
    SEND_BUFFER: Explanation(
        "The data in flight stays at one value below the receiver's window, and nothing was lost: "
        "the sender's buffer holds no more, or the program keeps no more in flight.",
        "sk_stream_memory_free (include/net/sock.h); tcp_sndbuf_expand (net/ipv4/tcp_input.c)",
        "Enlarge the sender's buffer (tcp_wmem, SO_SNDBUF) to twice the BDP.",
    ),
    CONGESTION_WINDOW: Explanation(
        "The congestion window is smaller than the receiver's window and the BDP. It grows by "
        "about a segment per round trip.",
        "tcp_cwnd_test (net/ipv4/tcp_output.c); tcp_cong_avoid_ai (net/ipv4/tcp_cong.c); RFC 5681, "
        "RFC 9438",
        "Look for the loss that reduced it; try another congestion control, such as bbr.",
    ),
    PATH: Explanation(
        "The path carries all it can: segments arrive evenly at its rate, or the RTT grows because "
        "they queue.",
        "RFC 9438; the BDP is in flight (docs/glossary.md)",
        "Nothing at the hosts: the path is used up. Compare its rate with what was expected.",
        is_usual=True,
    ),
    SLOW_START: Explanation(
        "The congestion window begins with ten segments and doubles with each round trip.",
        "TCP_INIT_CWND (include/net/tcp.h); tcp_slow_start (net/ipv4/tcp_cong.c); RFC 6928, "
        "RFC 5681 3.1",
        "Keep connections open and use them again.",
        is_usual=True,
    ),
    TURN: Explanation(
        "A request and its response take a round trip each.",
        "none",
        "Ask for more at once: pipelining, batches, fewer requests.",
        is_usual=True,
    ),
    TLS_TURN: Explanation(
        "The TLS handshake takes round trips: two for TLS 1.2, one for TLS 1.3.",
        "RFC 5246 7.3, RFC 8446 2",
        "Use TLS 1.3, resume sessions, keep connections open.",
        is_usual=True,
    ),
    HTTP_TURN: Explanation(
        "An HTTP request and its response take a round trip each.",
        "RFC 9112 9",
        "Send fewer requests, or several at once (HTTP/2).",
        is_usual=True,
    ),
    ROUND_TRIP: Explanation(
        "The segments or their acknowledgement are still in flight: the gap is the delay of the "
        "path.",
        "none",
        is_usual=True,
    ),
    SENDING: Explanation(
        "Segments follow each other closely.",
        "tcp_write_xmit (net/ipv4/tcp_output.c)",
        is_usual=True,
    ),
    KEEP_ALIVE: Explanation(
        "Neither side had anything to send; keep-alives confirm that the other end is there.",
        "tcp_keepalive_timer (net/ipv4/tcp_timer.c); RFC 9293 3.8.4",
        costs=False,
    ),
    IDLE: Explanation(
        "Neither side had anything to send until the connection ended.",
        "tcp_close (net/ipv4/tcp.c); RFC 9293 3.6",
        costs=False,
    ),
    GAVE_UP: Explanation(
        "The other end no longer answered. The sender repeated its data at doubling intervals and "
        "then gave up.",
        "tcp_write_timeout (net/ipv4/tcp_timer.c; tcp_retries2, TCP_USER_TIMEOUT); RFC 1122 "
        "4.2.3.5",
        "Find out why the other end became unreachable: it went down, or a firewall or NAT forgot "
        "the connection.",
    ),
    CLOSED_LATE: Explanation(
        "All data was delivered; the program closed the connection only after a wait.",
        "tcp_close (net/ipv4/tcp.c)",
        "Say where a response ends (Content-Length), or shorten the server's keep-alive timeout.",
    ),
    UNTOLD: Explanation(
        "The capture does not show the reason: it lacks packets or a direction, or the gap fits no "
        "rule.",
        "none",
        "Capture both directions, at one end, from before the connection, without drops.",
    ),
}


def explained(reason: str) -> Explanation:
    """The meaning of a reason, its place in the kernel, and what to change."""
    return EXPLANATIONS[reason]


@dataclass(frozen=True)
class Wait:
    """Why nothing was sent before a segment: a reason, and who waited for whom.

    `waiting` and `waited_for` are "client", "server" or "nobody".
    """

    reason: str
    waiting: str = NOBODY
    waited_for: str = NOBODY
