"""The sending end of a flow with losses: what is lost, what is sent again, and how fast.

Source: net/ipv4/tcp_input.c tcp_sacktag_write_queue(), tcp_clean_rtx_queue(),
tcp_fastretrans_alert(), tcp_cwnd_reduction(), tcp_enter_loss(), tcp_process_loss(),
tcp_process_tlp_ack(); net/ipv4/tcp_recovery.c; net/ipv4/tcp_output.c tcp_xmit_retransmit_queue(),
tcp_schedule_loss_probe(), tcp_send_loss_probe(); net/ipv4/tcp_timer.c tcp_retransmit_timer().
Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from labs.read.theory.bulk_link import NEVER_NS, Sent
from labs.read.theory.bulk_receiver import Block
from labs.read.theory.bulk_scoreboard import (
    DISORDER,
    EVER_RESENT,
    LOSS,
    LOST,
    OPEN,
    RECOVERY,
    REDUCED,
    RESENT,
    SACKED,
    Ack,
    Scoreboard,
)
from labs.read.theory.bulk_send_queue import NAGLE_OFF
from labs.read.theory.bulk_sender import LEAST_PROBE_US, TICK_NS, ticks
from labs.read.theory.congestion import INFINITE
from labs.read.theory.kernels import REDUCED_GROWS
from labs.read.theory.receiver import LEAST_RTO_US

MOST_RTO_NS = 120 * 1_000_000_000
PROBE, REORDER, TIMEOUT = "probe", "reorder", "timeout"
"""What the one timer of a sender is set for."""
LEAST_TIMEOUT_TICKS = 2


class RecoveringSender(Scoreboard):
    """A sender that finds its losses by selective ACKs and by time (RACK), and repairs them."""

    def __init__(self, kernel: str, **of_sender: Any) -> None:
        self.undo = self.probe_repeats = self.suspects = False
        self.prior_cwnd = self.prior_ssthresh = self.reduced_delivered = self.reduced_out = 0
        self.timeouts, self.kind = 0, PROBE
        self.grows_reduced = REDUCED_GROWS.holds(kernel)
        super().__init__(kernel, **of_sender)

    # What an ACK tells.

    def acknowledged(self, now_ns: int, ack: int, edge: int, blocks: deque[Block]) -> None:
        """Take an ACK with the blocks that it reports."""
        if edge - ack > self.most_window:
            self.most_window = edge - ack
            self.goal = self._size_goal()
        self.edge, self.heard_ns = max(edge, self.edge), now_ns
        change = Ack(
            self.una, ack > self.una, self.delivered, self.lost_ever, self.packets - self.left
        )
        had_packets = self.packets
        if change.advanced:
            self.timeouts = 0
        self.una = ack
        self._tag(now_ns, blocks, change)
        if had_packets:
            self._clean(now_ns, ack, change)
            self._process_probe(ack, change)
            if change.sacked or not change.acked or self.state != OPEN:
                self._alert(now_ns, change)
            if change.sets_timer:
                self._schedule_probe(now_ns)
            self._control(now_ns, change)
            if change.sends_new:
                self._transmit_some(now_ns, NAGLE_OFF)
                change.resends = self.nxt <= self.high_seq
                self.suspects &= not change.resends
            if change.resends:
                self._resend(now_ns)
        if self.unsent:
            self._transmit_some(now_ns, self.nagle)
        if self.no_space:
            self._check_space(now_ns)

    # The states of the sender.

    def _alert(self, now_ns: int, change: Ack) -> None:
        """tcp_fastretrans_alert()."""
        if self.state != OPEN and self.una >= self.high_seq:
            if self.state == REDUCED:
                if self.una != self.high_seq:
                    self._end_reduction()
                    self.state = OPEN
            elif self.state == RECOVERY:
                self._end_reduction()
                self.state = OPEN
        if self.state == LOSS:
            self._in_loss(change)
            self._find_lost(now_ns, change)
            if self.state != OPEN and not change.lost_again:
                return
        else:
            self._find_lost(now_ns, change)
        if self.state != RECOVERY:
            if not self.lost_out:
                self._keep_open()
                return
            self._enter_recovery()
        change.resends, change.sends_new = True, False

    def _keep_open(self) -> None:
        if self.state == REDUCED:
            return
        state = DISORDER if self.left or self.resent_out else OPEN
        if self.state != state:
            self.state, self.high_seq = state, self.nxt

    def _in_loss(self, change: Ack) -> None:
        """After a timeout: F-RTO, until all that was in flight is acknowledged."""
        recovered = self.una >= self.high_seq
        if self.suspects:
            if change.originals:
                self._undo_loss()
                return
            if self.nxt > self.high_seq:
                if change.sacked or not change.advanced:
                    self.suspects = False
            elif change.advanced and not recovered:
                self.high_seq = self.nxt
                if self.unsent and self.edge > self.nxt:
                    change.sends_new = True
                    return
                self.suspects = False
        if recovered:
            self.state = OPEN
            return
        change.resends = True

    def _undo_loss(self) -> None:
        """The timeout was spurious: nothing was lost, and the windows are as before."""
        for packet in self.flight:
            packet.state &= ~LOST
        self.lost_out = 0
        self._count()
        self.control.cwnd = max(self.control.cwnd, self.prior_cwnd)
        self.control.ssthresh = max(self.control.ssthresh, self.prior_ssthresh)
        self.suspects = self.undo = False
        self.state = OPEN

    def _find_lost(self, now_ns: int, change: Ack) -> None:
        if not self.rack_advanced:
            return
        self.rack_advanced = False
        resent = self.resent_out
        wait_ns = self._detect(now_ns)
        if wait_ns:
            change.sets_timer = False
            waits = ticks(wait_ns // 1000) + LEAST_TIMEOUT_TICKS
            self._set(REORDER, now_ns, waits)
        change.lost_again |= self.resent_out < resent

    def _begin_reduction(self) -> None:
        self.high_seq, self.probed, self.control.credit = self.nxt, 0, 0
        self.prior_cwnd = self.control.cwnd
        self.reduced_delivered = self.reduced_out = 0
        self.control.ssthresh = self.control.threshold()

    def _enter_recovery(self) -> None:
        self.undo = True
        if self.state not in (REDUCED, RECOVERY):
            self._begin_reduction()
        self.state = RECOVERY

    def _end_reduction(self) -> None:
        if self.control.ssthresh < INFINITE and (self.state == REDUCED or self.undo):
            self.control.cwnd = self.control.ssthresh

    def _control(self, now_ns: int, change: Ack) -> None:
        """tcp_cong_control(): proportional rate reduction, or growth."""
        delivered = self.delivered - change.delivered
        if self.state in (REDUCED, RECOVERY):
            self._reduce(delivered, self.lost_ever - change.lost, change)
        elif change.acked and self._is_limited():
            self.control.grow(now_ns // 1000, delivered)
        if change.acked:
            self.cwnd_stamp = now_ns // TICK_NS
        self._pace()

    def _reduce(self, delivered: int, lost: int, change: Ack) -> None:
        """tcp_cwnd_reduction()."""
        if delivered <= 0:
            return
        control, in_flight = self.control, self.packets - self.left
        self.reduced_delivered += delivered
        missing = control.ssthresh - in_flight
        if missing < 0:
            due = control.ssthresh * self.reduced_delivered + self.prior_cwnd - 1
            sends = due // self.prior_cwnd - self.reduced_out
        elif self.grows_reduced:
            sends = max(self.reduced_delivered - self.reduced_out, delivered)
            sends = min(missing, sends + (change.advanced and not lost))
        elif change.resent and not change.lost_again:
            sends = min(missing, max(self.reduced_delivered - self.reduced_out, delivered) + 1)
        else:
            sends = min(missing, delivered)
        control.cwnd = in_flight + max(sends, 0 if self.reduced_out else 1)

    # What is sent.

    def _transmit_some(
        self, now_ns: int, nagle: int, push_one: bool = False, probes: bool = False
    ) -> None:
        had = self.packets
        super()._transmit_some(now_ns, nagle, push_one, probes)
        if self.state in (REDUCED, RECOVERY):
            self.reduced_out += self.packets - had

    def _deferred_by(self, now_ns: int, length: int) -> str:
        if self.state >= RECOVERY:
            return ""
        return super()._deferred_by(now_ns, length)

    def _refused(self, packet: Sent) -> None:
        """tcp_enter_cwr(): the window is reduced as after a loss, and the packet is sent later."""
        super()._refused(packet)
        if self.state < REDUCED:
            self.undo = False
            self._begin_reduction()
            self.state = REDUCED

    def _resend(self, now_ns: int) -> None:
        """tcp_xmit_retransmit_queue()."""
        if not self.lost_out:
            return
        flight = self.flight
        at = self._place(self.resend_from)
        while at < len(flight) and self.resent_out < self.lost_out:
            packet = flight[at]
            self.resend_from = packet.end - packet.length
            room = self.control.cwnd - (self.packets - self.left)
            if room <= 0:
                return
            if packet.state & LOST and not packet.state & (SACKED | RESENT):
                most = min(room, self.most_segments)
                if packet.segments > most:
                    self._split(at, most * self.mss)
                if not self._repeat(now_ns, packet):
                    return
                packet.state |= RESENT
                self.resent_out += packet.segments
                self._count()
                if self.state in (REDUCED, RECOVERY):
                    self.reduced_out += packet.segments
                if not at and self.kind != REORDER:
                    self._set_timeout(now_ns)
            at += 1

    def _repeat(self, now_ns: int, packet: Sent) -> bool:
        """Send a packet again; whether it was queued."""
        if packet.state & EVER_RESENT and packet in self.repeats:
            self.repeats.remove(packet)
        packet.state |= EVER_RESENT
        packet.sent_ns = now_ns
        self.repeats.append(packet)
        return self.transmit(now_ns, packet, packet.segments > 1)

    # The timer.

    def probe(self, now_ns: int) -> None:
        """The timer fires: a loss probe, packets that are overdue, or a timeout."""
        kind, self.probe_ns = self.kind, NEVER_NS
        if kind == PROBE:
            self._send_probe(now_ns)
        elif kind == REORDER:
            in_flight = self.packets - self.left
            lost = self.lost_ever
            self._detect(now_ns)
            if in_flight != self.packets - self.left:
                if self.state != RECOVERY:
                    self._enter_recovery()
                    self._reduce(1, self.lost_ever - lost, Ack(self.una, False, 0, 0, 0))
                self._resend(now_ns)
            if self.kind != TIMEOUT:
                self._rearm_timeout(now_ns)
        else:
            self._time_out(now_ns)

    def _send_probe(self, now_ns: int) -> None:
        if not self.probed and self.packets:
            before = self.nxt
            if self.unsent and self.nxt < self.edge:
                self._transmit_some(now_ns, NAGLE_OFF, push_one=True, probes=True)
            last = len(self.flight) - 1
            packet = self.flight[last]
            self.probe_repeats = self.nxt == before and not self.link.holds(packet.end)
            if self.probe_repeats:
                if packet.segments > 1:
                    self._split(last, (packet.segments - 1) * self.mss)
                    packet = self.flight[last + 1]
                self._repeat(now_ns, packet)
            if self.probe_repeats or self.nxt > before:
                self.probed = self.nxt
        self.probe_ns = NEVER_NS
        self._rearm_timeout(now_ns)

    def _process_probe(self, ack: int, change: Ack) -> None:
        """tcp_process_tlp_ack()."""
        if not self.probed or ack < self.probed:
            return
        if not self.probe_repeats:
            self.probed = 0
        elif ack > self.probed:
            self._begin_reduction()
            self.state = REDUCED
            self._end_reduction()
            self.state = OPEN
            self._keep_open()
        elif not change.advanced and not change.sacked:
            self.probed = 0

    def _time_out(self, now_ns: int) -> None:
        """tcp_enter_loss(), and the first packet again."""
        if not self.packets:
            return
        new = self.state < RECOVERY
        for packet in self.flight:
            if packet.state & SACKED:
                continue
            overdue = self.rack_rtt_ns <= now_ns - packet.sent_ns
            if packet is self.flight[0] or overdue:
                self._mark_lost(packet)
        control = self.control
        fresh = self.state == LOSS and not self.timeouts
        if self.state <= DISORDER or self.high_seq <= self.una or fresh:
            self.prior_ssthresh, self.prior_cwnd = control.ssthresh, control.cwnd
            control.ssthresh = control.threshold()
            self.undo = True
        control.cwnd, control.credit = self.packets - self.left + 1, 0
        self.state, self.high_seq, self.probed = LOSS, self.nxt, 0
        control.timed_out()
        self.suspects = new or self.timeouts > 0
        self.timeouts += 1
        head = self.flight[0]
        if head.segments > 1:
            self._split(0, self.mss)
        if self._repeat(now_ns, head):
            head.state |= RESENT
            self.resent_out += head.segments
            self._count()
        self.rto_ns = min(self.rto_ns * 2, MOST_RTO_NS)
        self._set_timeout(now_ns)

    def _set(self, kind: str, now_ns: int, after: int) -> None:
        self.kind = kind
        self.probe_ns = (now_ns // TICK_NS + after + 1) * TICK_NS

    def _set_timeout(self, now_ns: int) -> None:
        self._set(TIMEOUT, now_ns, self.rto_ns // TICK_NS)

    def _rearm_timeout(self, now_ns: int) -> None:
        """The timeout counts from when the first packet was sent."""
        if not self.packets:
            self.probe_ns = NEVER_NS
            return
        left_ns = max(self.flight[0].sent_ns + self.rto_ns - now_ns, 1000)
        self._set(TIMEOUT, now_ns, ticks(left_ns // 1000))

    def _schedule_probe(self, now_ns: int) -> None:
        """A loss probe after two RTTs, or else a timeout."""
        if not self.packets:
            self.probe_ns = NEVER_NS
            return
        if self.state not in (OPEN, REDUCED):
            self._set_timeout(now_ns)
            return
        least_us = LEAST_RTO_US if self.packets == 1 else LEAST_PROBE_US
        wait = ticks((self.srtt_us8 >> 2) + least_us)
        left_ns = self.flight[0].sent_ns + self.rto_ns - now_ns
        if left_ns > 0:
            wait = min(wait, ticks(left_ns // 1000))
        self._set(PROBE, now_ns, wait)
