"""Why a connection waited: the one vocabulary of `labs explain`, stalls, ladders and comments.

A reason is one record. The rules that give it are in `labs.read.flows.rules`, those of losses in
`labs.read.flows.losses`, and those of limits in `labs.read.flows.limits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple

End = Literal["client", "server", "nobody"]
NOBODY: Final = "nobody"
NAMES: Final[tuple[End, End]] = ("client", "server")


class Rank(Enum):
    """What a reason means for a connection, and so which are told first."""

    END = "it ended the connection, or kept it from beginning"
    EVENT = "trouble, even if it costs no time"
    COST = "trouble if it costs time"
    UNKNOWN = "the capture does not decide it: told after what is certain"
    USUAL = "every connection spends time in this way"
    HARMLESS = "its time is lost to nobody"


class Certainty(Enum):
    """How certain a reason is."""

    PLAIN = "certain even if the capture lacks packets or the RTT: no connection came about"
    SHOWN = "certain, unless the capture lacks packets or the RTT"
    INFERRED = "likely: shown only by what is missing or by a pattern"


@dataclass(frozen=True, eq=False, repr=False)
class Reason:
    """A reason: `name` as in JSON, `words` what it means, `advice` what to change.

    `sentence` tells a finding: {n} is its count of `counts`, {who} whom they waited for, {other}
    who waited, {it} the counted, {time} how long. `for_nobody` is the sentence if nobody waited.
    `source` names functions of Linux and the RFCs of the rule. The time of what `ends_nothing`
    belongs to what comes next.
    """

    name: str
    sentence: str
    words: str
    source: str = "none"
    advice: str = ""
    counts: str = "wait"
    for_nobody: str = ""
    rank: Rank = Rank.COST
    certainty: Certainty = Certainty.SHOWN
    ends_nothing: bool = False

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def is_event(self) -> bool:
        """Whether it is told even if it costs no time."""
        return self.rank in (Rank.END, Rank.EVENT)

    @property
    def is_usual(self) -> bool:
        """Whether every connection spends time in this way."""
        return self.rank is Rank.USUAL


REFUSED: Final = Reason(
    "connection refused",
    "The server refused the connection: {n} answered with a reset",
    "The host answered the SYN with a reset: no program listens on that port, or a firewall "
    "rejects the connection.",
    "tcp_v4_rcv and tcp_v4_send_reset (net/ipv4/tcp_ipv4.c); RFC 9293 3.5.2",
    "Start the server, check its address and port, or the firewall rule that rejects it.",
    counts="SYN",
    rank=Rank.END,
    certainty=Certainty.PLAIN,
)
UNANSWERED: Final = Reason(
    "connection unanswered",
    "Nothing answered the SYN, in spite of {n}",
    "Nothing answered the SYN, although it was repeated at doubling intervals: the host is down, "
    "its address is wrong, or a firewall drops the packets.",
    "tcp_retransmit_timer and tcp_write_timeout (net/ipv4/tcp_timer.c; tcp_syn_retries); RFC 6298 "
    "5",
    "Check the address and the route, then capture at the server: if the SYN arrives there, its "
    "firewall drops it.",
    counts="repetition",
    rank=Rank.END,
    certainty=Certainty.PLAIN,
)
FILTERED: Final = Reason(
    "connection filtered",
    "A firewall refused the connection with an ICMP error",
    "A firewall refused the connection with an ICMP error.",
    "tcp_v4_err (net/ipv4/tcp_ipv4.c); RFC 1812 5.2.7.1, RFC 5927",
    "Allow the connection in the firewall that sent the ICMP error.",
    counts="SYN",
    rank=Rank.END,
    certainty=Certainty.PLAIN,
)
UNREACHABLE_HOST: Final = Reason(
    "host unreachable",
    "A router answered {n} with an ICMP error: host unreachable",
    "A router answered the SYN with an ICMP error: it has no route to the host, or the host does "
    "not answer on its link.",
    "tcp_v4_err (net/ipv4/tcp_ipv4.c); RFC 1812 5.2.7.1, RFC 5927",
    "Check that the host is up, its address, and the routes to it.",
    counts="SYN",
    rank=Rank.END,
    certainty=Certainty.PLAIN,
)
SYN_REPEATED: Final = Reason(
    "SYN repeated",
    "a lost SYN or SYN-ACK was repeated {n}",
    "A SYN or SYN-ACK was lost, or the server's queue of connections was full. The sender repeats "
    "it after 1, 3, 7 s.",
    "tcp_timeout_init (include/net/tcp.h: TCP_TIMEOUT_INIT); tcp_conn_request "
    "(net/ipv4/tcp_input.c); RFC 6298 2.1",
    "Look for loss on the path; at the server compare `nstat -az TcpExtListenOverflows`.",
    counts="time",
)
HANDSHAKE: Final = Reason(
    "handshake",
    "the handshake took {time}",
    "The handshake takes one round trip before the first request.",
    "RFC 9293 3.5",
    "Keep connections open and use them again.",
    counts="step",
    rank=Rank.USUAL,
)
RESET: Final = Reason(
    "reset",
    "The {who} aborted the connection with a reset",
    "One end aborted the connection with a reset. Any data not yet delivered is lost.",
    "tcp_send_active_reset (net/ipv4/tcp_output.c); tcp_close (net/ipv4/tcp.c); RFC 9293 3.5.2, "
    "RFC 2525 2.17",
    "Read the log of the program at the end that sent the reset: it closed with data unread, or "
    "ended.",
    counts="reset",
    rank=Rank.END,
)
TIMEOUT: Final = Reason(
    "retransmission timeout",
    "the {who}'s retransmission timer expired {n} before a retransmission got through",
    "Segments or their ACKs were lost and nothing that followed revealed it. The sender's timer "
    "expires, and doubles each time (RTO backoff).",
    "tcp_retransmit_timer (net/ipv4/tcp_timer.c); TCP_RTO_MIN (include/net/tcp.h); RFC 6298",
    "Find the outage or the loss on the path. On a path with a short RTT, `ip route ... rto_min` "
    "shortens the timer.",
    counts="time",
    rank=Rank.EVENT,
)
TAIL_LOSS: Final = Reason(
    "tail loss",
    "the last segment of a burst of the {who} was lost ({n})",
    "The last segment of a burst was lost. No later segment could reveal it, so a timer had to "
    "expire (tail loss probe or RTO).",
    "tcp_send_loss_probe, tcp_schedule_loss_probe (net/ipv4/tcp_output.c); RFC 8985 7",
    "Find the loss on the path; keep tcp_early_retrans at 3, so that the loss probe is sent.",
    counts="loss",
    rank=Rank.EVENT,
    certainty=Certainty.INFERRED,
)
DOUBLE_LOSS: Final = Reason(
    "retransmission lost",
    "{n} of the {who} had to be retransmitted more than once",
    "A segment was lost, retransmitted, and lost again. The second loss needs a timer.",
    "tcp_fastretrans_alert (net/ipv4/tcp_input.c); tcp_retransmit_timer (net/ipv4/tcp_timer.c); "
    "RFC 8985, RFC 6298",
    "Find the loss on the path: it comes in bursts.",
    counts="segment",
    rank=Rank.EVENT,
)
FAST_RECOVERY: Final = Reason(
    "fast recovery",
    "the {who} repaired {n} by fast recovery",
    "A segment was lost or reordered. Later segments arrived, and their ACKs made the sender "
    "retransmit it, at the price of a round trip and of a smaller congestion window.",
    "tcp_fastretrans_alert and tcp_rack_mark_lost (net/ipv4/tcp_input.c, tcp_recovery.c); RFC 5681"
    " 3.2, RFC 8985",
    "Find where packets are dropped: `tc -s qdisc`, `ethtool -S`, a policer.",
    counts="loss",
    rank=Rank.EVENT,
)
SPURIOUS: Final = Reason(
    "spurious retransmission",
    "the {who} retransmitted data that had arrived ({n})",
    "The sender retransmitted what the receiver already had: the ACK was late or lost.",
    "tcp_check_dsack (net/ipv4/tcp_input.c); tcp_process_loss, F-RTO; RFC 2883, RFC 5682",
    "Look for a delay that jumps, or for ACKs lost on the reverse path.",
    counts="time",
    rank=Rank.EVENT,
    ends_nothing=True,
)
NAGLE_AND_DELAYED_ACK: Final = Reason(
    "delayed ACK meets Nagle",
    "{n} of the {who} met Nagle's algorithm of the {other}",
    "The sender holds back a small segment because an earlier small one is unacknowledged. The "
    "receiver has received neither more than one full-sized segment nor a second small one. It has"
    " nothing to send, so it delays that ACK until its timer expires, after at least 40 ms "
    "(TCP_ATO_MIN, HZ/25).",
    "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); __tcp_ack_snd_check "
    "(net/ipv4/tcp_input.c); tcp_send_delayed_ack (net/ipv4/tcp_output.c); TCP_ATO_MIN "
    "(include/net/tcp.h); RFC 896, RFC 1122 4.2.3.2 and 4.2.3.4, RFC 5681 4.2",
    "Set TCP_NODELAY on the sending socket, or write each message with one call.",
    counts="delayed ACK",
)
NAGLE: Final = Reason(
    "Nagle waits a round trip",
    "Nagle's algorithm held back {n} for a round trip",
    "The sender holds back a small segment until an earlier small one is acknowledged. The "
    "receiver acknowledges at once, so this takes one round trip.",
    "tcp_nagle_check and tcp_minshall_check (net/ipv4/tcp_output.c); RFC 896, RFC 1122 4.2.3.4",
    "Set TCP_NODELAY on the sending socket, or write each message with one call.",
    counts="small segment",
)
DELAYED_ACK: Final = Reason(
    "delayed ACK",
    "the {who} delayed {n}, and the {other} waited for {it}",
    "The receiver has received neither more than one full-sized segment nor a second small one. It"
    " delays the ACK until its timer expires. If nobody waits for that ACK, nothing is lost.",
    "__tcp_ack_snd_check (net/ipv4/tcp_input.c); tcp_send_delayed_ack (net/ipv4/tcp_output.c); RFC"
    " 1122 4.2.3.2, RFC 5681 4.2",
    counts="ACK",
    for_nobody="{n} {was} delayed, but nobody waited for {it}",
    ends_nothing=True,
)
APPLICATION: Final = Reason(
    "application",
    "the {who}'s program had not written its data yet ({n})",
    "TCP held nothing back: the program that sends next had not written its data before.",
    "tcp_sendmsg_locked (net/ipv4/tcp.c)",
    "Measure that program.",
)
ZERO_WINDOW: Final = Reason(
    "zero window",
    "the {who}'s window was zero, because its program did not read ({n})",
    "The receiver's window is zero because its program does not read. The sender probes it at "
    "growing intervals until it opens.",
    "tcp_snd_wnd_test and tcp_send_probe0 (net/ipv4/tcp_output.c); tcp_probe_timer "
    "(net/ipv4/tcp_timer.c); __tcp_select_window (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    "Make the receiving program read faster; a larger buffer only postpones the stop.",
)
SILLY_WINDOW: Final = Reason(
    "window below one segment",
    "the {who}'s window was smaller than one segment ({n})",
    "The receiver's window is smaller than one full-sized segment, so that each round trip carries"
    " less than one, sent when the persist timer expires.",
    "__tcp_select_window (net/ipv4/tcp_output.c); tcp_snd_wnd_test; RFC 1122 4.2.3.3 and 4.2.3.4",
    "Enlarge the receiver's buffer (SO_RCVBUF, tcp_rmem), or make its program read.",
    counts="round trip",
)
FULL_WINDOW: Final = Reason(
    "full window",
    "the {who}'s window was full ({n})",
    "The sender has sent all that the receiver's window permits and waits for an ACK that advances"
    " the window.",
    "tcp_snd_wnd_test (net/ipv4/tcp_output.c); RFC 9293 3.8.6",
    "Enlarge the receiver's buffer (tcp_rmem, SO_RCVBUF) to the BDP or more.",
    counts="round trip",
)
SEND_BUFFER: Final = Reason(
    "send buffer",
    "the {who}'s send buffer or program limited the flight ({n})",
    "The data in flight stays at one value below the receiver's window, and nothing was lost: the "
    "sender's buffer holds no more, or the program keeps no more in flight.",
    "sk_stream_memory_free (include/net/sock.h); tcp_sndbuf_expand (net/ipv4/tcp_input.c)",
    "Enlarge the sender's buffer (tcp_wmem, SO_SNDBUF) to twice the BDP.",
    counts="round trip",
    certainty=Certainty.INFERRED,
)
CONGESTION_WINDOW: Final = Reason(
    "congestion window",
    "the {who}'s congestion window limited the flight ({n})",
    "A loss reduced the congestion window below the receiver's window and the BDP. It grows by "
    "about a segment per round trip.",
    "tcp_cwnd_test (net/ipv4/tcp_output.c); tcp_cong_avoid_ai (net/ipv4/tcp_cong.c); RFC 5681, RFC"
    " 9438",
    "Look for the loss that reduced it.",
    counts="round trip",
    certainty=Certainty.INFERRED,
)
PATH: Final = Reason(
    "path full",
    "the path carried all it can ({n})",
    "The path carries all it can: segments arrive evenly at its rate, or the RTT grows because "
    "they queue.",
    "RFC 9438; the BDP is in flight (docs/glossary.md)",
    "Nothing at the hosts: the path is used up. Compare its rate with what was expected.",
    counts="round trip",
    rank=Rank.USUAL,
    certainty=Certainty.INFERRED,
)
SLOW_START: Final = Reason(
    "slow start",
    "slow start opened the congestion window ({n})",
    "The congestion window begins with ten segments and doubles with each round trip.",
    "TCP_INIT_CWND (include/net/tcp.h); tcp_slow_start (net/ipv4/tcp_cong.c); RFC 6928, RFC 5681 "
    "3.1",
    "Keep connections open and use them again.",
    counts="round trip",
    rank=Rank.USUAL,
)
TURN: Final = Reason(
    "request and response",
    "requests and responses were in flight ({n})",
    "A request and its response take a round trip each.",
    "none",
    "Ask for more at once: pipelining, batches, fewer requests.",
    rank=Rank.USUAL,
)
TLS_TURN: Final = Reason(
    "TLS round trip",
    "the TLS handshake was in flight ({n})",
    "The TLS handshake takes round trips: two for TLS 1.2, one for TLS 1.3.",
    "RFC 5246 7.3, RFC 8446 2",
    "Use TLS 1.3, resume sessions, keep connections open.",
    rank=Rank.USUAL,
)
HTTP_TURN: Final = Reason(
    "HTTP round trip",
    "HTTP requests and responses were in flight ({n})",
    "An HTTP request and its response take a round trip each.",
    "RFC 9112 9",
    "Send fewer requests, or several at once (HTTP/2).",
    rank=Rank.USUAL,
)
ROUND_TRIP: Final = Reason(
    "round trip",
    "segments or their ACKs were in flight ({n})",
    "The segments or their acknowledgement are still in flight: the gap is the delay of the path.",
    advice="Look at the path: its RTT takes the time. Use a nearer server, or fewer round trips.",
    rank=Rank.USUAL,
)
SENDING: Final = Reason(
    "sending",
    "segments followed each other",
    "Segments follow each other closely.",
    "tcp_write_xmit (net/ipv4/tcp_output.c)",
    counts="stretch",
    rank=Rank.USUAL,
)
KEEP_ALIVE: Final = Reason(
    "keep-alive",
    "nobody had anything to send; {n} kept the connection alive",
    "Neither side had anything to send; keep-alives confirm that the other end is there.",
    "tcp_keepalive_timer (net/ipv4/tcp_timer.c); RFC 9293 3.8.4",
    counts="keep-alive",
    for_nobody="{n} kept the connection alive",
    rank=Rank.HARMLESS,
    ends_nothing=True,
)
IDLE: Final = Reason(
    "nothing to send",
    "nobody had anything to send",
    "Neither side had anything to send until the connection ended.",
    "tcp_close (net/ipv4/tcp.c); RFC 9293 3.6",
    rank=Rank.HARMLESS,
)
GAVE_UP: Final = Reason(
    "gave up",
    "the {who} repeated its data and gave up: the {other} no longer answered",
    "The other end no longer answered. The sender repeated its data at doubling intervals and then"
    " gave up, or the capture ends.",
    "tcp_write_timeout (net/ipv4/tcp_timer.c; tcp_retries2, TCP_USER_TIMEOUT); RFC 1122 4.2.3.5",
    "Find out why the other end became unreachable: it went down, or a firewall or NAT forgot the "
    "connection.",
    counts="time",
    rank=Rank.END,
)
CLOSED_LATE: Final = Reason(
    "closed late",
    "all was delivered, but the {who}'s program had not closed yet",
    "All data was delivered; the program closed the connection only after a wait.",
    "tcp_close (net/ipv4/tcp.c)",
    "Say where a response ends (Content-Length), or shorten the server's keep-alive timeout.",
)
UNTOLD: Final = Reason(
    "cannot be told",
    "the capture does not show the reason for {n}",
    "The capture does not show the reason. The sentence names the two that remain, and what to "
    "capture to decide.",
    certainty=Certainty.INFERRED,
    rank=Rank.UNKNOWN,
    ends_nothing=True,
)

# The path, and what stands in it.

PATH_MTU: Final = Reason(
    "path MTU",
    "the path does not carry full-sized segments of the {who} ({n})",
    "The MTU of the path is smaller than the packets. A router reports that by ICMP, or drops them "
    "in silence (black hole): then only small segments arrive.",
    "tcp_v4_mtu_reduced (net/ipv4/tcp_ipv4.c); tcp_mtu_probing; RFC 1191, RFC 4821, RFC 2923",
    "Clamp the MSS at the tunnel or VPN to its MTU less 40, or let ICMP errors of type 3 pass.",
    counts="retransmission",
    rank=Rank.EVENT,
)
NEVER_ARRIVED: Final = Reason(
    "data never arrived",
    "data of the {who} never arrived and was not repeated ({n})",
    "The other end acknowledges selectively what follows, but this data neither came nor was sent "
    "again where it was captured.",
    "tcp_sack_new_ofo_skb (net/ipv4/tcp_input.c); RFC 2018",
    "Capture at the sender: if it repeats full-sized segments, the path MTU is too small.",
    rank=Rank.EVENT,
)
FOREIGN_RESET: Final = Reason(
    "reset by another host",
    "A firewall or middlebox sent a reset in the name of the {who}",
    "The reset is not of the host that it names: it came sooner than the RTT, has another TTL, or "
    "that host went on.",
    "tcp_reset (net/ipv4/tcp_input.c); RFC 5961 3, RFC 3360",
    "Capture on both sides of the firewall or filter, and compare the TTL of the reset.",
    counts="reset",
    rank=Rank.END,
)
CLOSED_BY_RESET: Final = Reason(
    "closed by reset",
    "The {who} closed the idle connection with a reset; nothing was lost",
    "Everything had been acknowledged and nobody waited: a reset instead of a FIN costs nothing.",
    "tcp_disconnect (net/ipv4/tcp.c); RFC 9293 3.5.2",
    counts="reset",
    for_nobody="The {who} closed the idle connection with a reset; nothing was lost",
    rank=Rank.HARMLESS,
)
SYN_ACK_REFUSED: Final = Reason(
    "SYN-ACK refused",
    "The {who} answered the SYN-ACK with a reset: it does not know this connection",
    "The host that should have sent the SYN answers the SYN-ACK with a reset: NAT translates one "
    "direction only, the address was forged, or its program had closed.",
    "tcp_v4_send_reset (net/ipv4/tcp_ipv4.c); RFC 9293 3.5.2",
    "Check NAT and routes of both directions: compare the addresses at both ends.",
    counts="reset",
    rank=Rank.END,
)
OLD_CONNECTION: Final = Reason(
    "old connection",
    "the {who} still had an old connection on this port and answered the SYN with an ACK",
    "The SYN met a connection with the same ports: the answer is an ACK of that one, which the "
    "client resets. It then repeats its SYN.",
    "tcp_send_challenge_ack (net/ipv4/tcp_input.c); RFC 9293 3.5.1, RFC 5961 4",
    "Use a port again later, or close connections in order.",
    rank=Rank.EVENT,
)
IDLE_TIMEOUT: Final = Reason(
    "idle timeout",
    "After a long silence the {who} no longer knew the connection: an idle timeout on the path",
    "After a long silence data is answered by a reset or not at all: a NAT, firewall or load "
    "balancer forgot the connection, or the other end went down meanwhile.",
    "nf_conntrack_tcp_timeout_established; RFC 5382 5",
    "Send keep-alives more often than the idle timeout on the path (tcp_keepalive_time).",
    rank=Rank.END,
    certainty=Certainty.INFERRED,
)
KEEP_ALIVE_UNANSWERED: Final = Reason(
    "keep-alive unanswered",
    "the {who} no longer answered keep-alives ({n})",
    "The other end is gone, or something on the path forgot the connection.",
    "tcp_keepalive_timer (net/ipv4/tcp_timer.c; tcp_keepalive_probes); RFC 9293 3.8.4",
    "Find out why that end became unreachable.",
    counts="probe",
    rank=Rank.END,
)
ECN_MARKS: Final = Reason(
    "ECN marks",
    "marks of the path (ECN) limited the {who}'s congestion window ({n})",
    "A queue marked packets instead of dropping them, and the sender reduced its window.",
    "tcp_enter_cwr (net/ipv4/tcp_input.c); RFC 3168 6.1",
    counts="round trip",
)
ECN_BLOCKED: Final = Reason(
    "ECN blocked",
    "only SYNs with ECN went unanswered ({n})",
    "A firewall drops SYNs that offer ECN; the first one without it is answered.",
    "tcp_ecn_send_syn (net/ipv4/tcp_output.c; tcp_ecn_fallback); RFC 3168 6.1.1.1",
    "Set tcp_ecn=2 at the client, or correct the firewall.",
    counts="time",
    rank=Rank.EVENT,
    certainty=Certainty.INFERRED,
)
NO_SCALING: Final = Reason(
    "window scaling not agreed",
    "the {who}'s window was full at 64 KB: window scaling was not agreed ({n})",
    "One SYN offers window scaling and the other lacks it, so no window exceeds 65,535 bytes.",
    "tcp_select_initial_window (net/ipv4/tcp_output.c); RFC 7323 2.2",
    "Find the end or middlebox that removes the option: a larger buffer does not help.",
    counts="round trip",
)
NO_SACK: Final = Reason(
    "SACK not agreed",
    "the {who} repaired {n} by a round trip each: SACK was not agreed",
    "Without selective acknowledgement a sender learns of one loss per round trip.",
    "tcp_try_undo_partial (net/ipv4/tcp_input.c); RFC 6582",
    "Find the end or middlebox that removes the option SACK-permitted (tcp_sack).",
    counts="loss",
    rank=Rank.EVENT,
)
ACCEPT_QUEUE: Final = Reason(
    "accept queue full",
    "the {who} repeated its SYN-ACK although it had been acknowledged ({n})",
    "The accept queue was full, so that the server ignored the ACK, or TCP_DEFER_ACCEPT waited for "
    "data.",
    "tcp_v4_syn_recv_sock (net/ipv4/tcp_ipv4.c); TCP_DEFER_ACCEPT, tcp(7)",
    "Compare `nstat -az TcpExtListenOverflows`; enlarge listen()'s backlog and somaxconn, or "
    "accept faster.",
    rank=Rank.EVENT,
    certainty=Certainty.INFERRED,
)
REORDERED: Final = Reason(
    "reordering",
    "{n} of the {who} arrived out of order, and nothing was lost",
    "The path reorders segments; the hole closes sooner than a retransmission could.",
    "tcp_check_sack_reordering (net/ipv4/tcp_input.c); RFC 4737",
    counts="segment",
    for_nobody="{n} of the {who} arrived out of order, and nothing was lost",
    rank=Rank.HARMLESS,
    certainty=Certainty.INFERRED,
)
DELAY_SPIKE: Final = Reason(
    "delay spike",
    "the path delayed segments or ACKs, and a timer of the {who} expired meanwhile for nothing",
    "Nothing was lost: everything arrived late, after the retransmission timer.",
    "tcp_process_loss, F-RTO (net/ipv4/tcp_input.c); RFC 5682",
    "Look for what delays the path: Wi-Fi power save, a handover, a queue.",
)
RENEGED: Final = Reason(
    "SACK reneging",
    "the {other} dropped what it had acknowledged selectively ({n})",
    "The receiver dropped data that it had acknowledged selectively, so it had to be sent again.",
    "tcp_check_sack_reneging (net/ipv4/tcp_input.c); RFC 2018 8",
    "Give the receiver more memory (tcp_rmem, tcp_mem).",
    rank=Rank.EVENT,
)
PROGRAM_WINDOW: Final = Reason(
    "program window",
    "the program's own window limited the flight of the {who} ({n})",
    "The flight ends at one size below the receiver's window, without loss, and goes on when the "
    "other program has written. Protocols with such a window: ssh, HTTP/2, SFTP, SMB.",
    "RFC 4254 5.2, RFC 9113 5.2",
    "Enlarge the window of the protocol (ssh, HTTP/2, SFTP, SMB) at the receiving program, such as "
    "SETTINGS_INITIAL_WINDOW_SIZE of HTTP/2.",
    counts="round trip",
    certainty=Certainty.INFERRED,
)


REASONS: Final = {value.name: value for value in [*globals().values()] if isinstance(value, Reason)}
"""By name."""
ROUND_LIMITS: Final = (
    *(SILLY_WINDOW, FULL_WINDOW, SEND_BUFFER, CONGESTION_WINDOW, PATH, SLOW_START),
    *(PROGRAM_WINDOW, NO_SCALING, ECN_MARKS),
)
"""What limits whole rounds (`labs.read.flows.limits`)."""
WINDOWS: Final = (SILLY_WINDOW, FULL_WINDOW, ZERO_WINDOW, NO_SCALING)


def explained(name: str) -> Reason:
    """The reason of that name."""
    return REASONS[name]


class Wait(NamedTuple):
    """Why nothing was sent before a segment: a reason, and who waited for whom."""

    reason: Reason
    waiting: End = NOBODY
    waited_for: End = NOBODY


@dataclass(frozen=True)
class Doubt:
    """Why a wait cannot be told: the two reasons that remain, and what to capture to decide."""

    either: tuple[Reason, Reason]
    decide: str


ONE_SIDED: Final = Doubt((APPLICATION, TIMEOUT), "capture both directions")
HOLED: Final = Doubt((APPLICATION, TIMEOUT), "capture without drops: a larger buffer (-B)")
BEGUN_LATE: Final = Doubt((APPLICATION, ROUND_TRIP), "capture from before the connection")
LOST_OR_LATE: Final = Doubt((TAIL_LOSS, APPLICATION), "capture at the sender of the data")
WINDOW_OR_LATE: Final = Doubt((FULL_WINDOW, APPLICATION), "sample `ss -tmi` at both ends")
ACK_OR_LATE: Final = Doubt((DELAYED_ACK, APPLICATION), "capture at the sender of the data")
PATH_OR_PACED: Final = Doubt((PATH, APPLICATION), "sample `ss -ti` at the sender (app_limited)")
SENDER_LIMIT: Final = Doubt((CONGESTION_WINDOW, SEND_BUFFER), "sample `ss -tmi` at the sender")
SCALE_UNKNOWN: Final = Doubt((FULL_WINDOW, SEND_BUFFER), "capture from before the connection")
CLOSED_OR_LOST: Final = Doubt((APPLICATION, TIMEOUT), "read the log of the end that sent the reset")
ANSWER_UNSEEN: Final = Doubt((UNANSWERED, REFUSED), "capture at the server")
