"""The share of a FIFO that BBR version 1 takes from loss-based flows.

BBR's window is limited to two of its estimated BDPs. It estimates the RTT while its own queue is
drained (ProbeRTT), so that estimate includes the others' queue. The limit and what is in flight
meet at a share that depends on the buffer, not on the number of loss-based flows.

Source: R. Ware, M. K. Mukerjee, S. Seshan, J. Sherry, "Modeling BBR's Interactions with Loss-Based
Congestion Control", IMC 2019, equations 9 to 11. The constants are those of the kernel's BBR:
net/ipv4/tcp_bbr.c bbr_cwnd_min_target, bbr_probe_rtt_mode_ms, bbr_min_rtt_win_sec.
"""

from __future__ import annotations

PROBE_RTT_SEGMENTS = 4
PROBE_RTT_S = 0.2
PROBE_RTT_EVERY_S = 10.0


def bbr_share(buffer_bdp: float, capacity_per_s: float, rtt_ms: float, bbr_flows: int = 1) -> float:
    """The share of all BBR flows together on a link that carries so many segments per second.

    Below one BDP of buffer the limit exceeds all that fits into pipe and buffer, and the model
    gives BBR everything outside of ProbeRTT. 0.75 for 2 BDPs, 0.53 for 16 without ProbeRTT.
    """
    rtt_s = rtt_ms / 1e3
    buffer_segments = buffer_bdp * capacity_per_s * rtt_s
    others = 0.5 - 1 / (2 * buffer_bdp) - PROBE_RTT_SEGMENTS * bbr_flows / buffer_segments
    probing_s = buffer_segments / capacity_per_s + PROBE_RTT_S + rtt_s
    return (1 - max(0.0, others)) * max(0.0, 1 - probing_s / PROBE_RTT_EVERY_S)
