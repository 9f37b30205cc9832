"""What holds a flow back, and its goodput in the long run."""

from __future__ import annotations

from dataclasses import dataclass

from labs.theory.bdp import MSS_BYTES, bdp_bytes, line_goodput_bytes_s
from labs.theory.windows import receive_window_bytes, send_bound_bytes

LINE = "line"
RECEIVE_WINDOW = "receive window"
SEND_BUFFER = "send buffer"

TOLERANCE_PCT = {LINE: 0.5, RECEIVE_WINDOW: 1.0, SEND_BUFFER: 2.0}
"""How far a steady flow may lie from its prediction, by what holds it back."""

SMALLEST_SENDBUF_BYTES = 1 << 20


@dataclass(frozen=True)
class Prediction:
    """A flow's goodput once it has settled, and why it is not more.

    `goodput_bytes_s` is payload; `under_way_bytes` what a round trip carries at that rate.
    `window_bytes` and `send_bytes` are what the receiver's and the sender's buffer allow to be
    under way, `line_bytes_s` what the link carries (None: it is not shaped). `tolerance_pct` is
    None where the formula of the bound is known to fall short (send buffers below 1 MiB).
    """

    goodput_bytes_s: float
    bound: str
    under_way_bytes: float
    window_bytes: int
    send_bytes: int
    bdp_bytes: float | None
    line_bytes_s: float | None
    tolerance_pct: float | None

    @property
    def goodput_mib_s(self) -> float:
        """In wget's unit, which it writes MB/s."""
        return self.goodput_bytes_s / (1 << 20)


def predict(
    *, rate_mbit: float | None, rtt_ms: float, tcp_rmem: tuple[int, int, int],
    tcp_wmem: tuple[int, int, int], kernel: str, adv_win_scale: int = 1, offloads: bool = True,
    mss_bytes: int = MSS_BYTES,
) -> Prediction | None:
    """The steady goodput of a bulk transfer whose buffers are sized automatically.

    The smallest of: the line's payload rate; the receive window over the round trip; the send
    buffer's bound over the round trip. `rtt_ms` is the unloaded one. None for a flow that nothing
    here bounds (no rate and no round trip): then the machine does.
    """
    window = receive_window_bytes(
        max(tcp_rmem[1:]), kernel, adv_win_scale=adv_win_scale, offloads=offloads,
        mss_bytes=mss_bytes,
    )
    # Only whole segments are sent into a window.
    window_payload = window // mss_bytes * mss_bytes
    send = send_bound_bytes(max(tcp_wmem[1:]), kernel, mss_bytes=mss_bytes)
    line = None if rate_mbit is None else line_goodput_bytes_s(rate_mbit, mss_bytes)
    rtt_s = rtt_ms / 1e3
    candidates: list[tuple[float, str]] = []
    if line is not None:
        candidates.append((line, LINE))
    if rtt_s > 0:
        candidates += [(window_payload / rtt_s, RECEIVE_WINDOW), (send / rtt_s, SEND_BUFFER)]
    if not candidates:
        return None
    goodput, bound = min(candidates, key=lambda candidate: candidate[0])
    too_small = bound == SEND_BUFFER and max(tcp_wmem[1:]) < SMALLEST_SENDBUF_BYTES
    return Prediction(
        goodput_bytes_s=goodput,
        bound=bound,
        under_way_bytes=goodput * rtt_s,
        window_bytes=window,
        send_bytes=send,
        bdp_bytes=None if rate_mbit is None else bdp_bytes(rate_mbit, rtt_ms),
        line_bytes_s=line,
        tolerance_pct=None if too_small else TOLERANCE_PCT[bound],
    )
