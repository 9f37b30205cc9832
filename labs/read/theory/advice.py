"""The buffers with which one flow fills a path, and the limits of a flow with other buffers.

On a path with random losses the sizes are those for one congestion control.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import KIB, MIB
from labs.errors import BadInput
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.bulk import FUNCTIONS, LINK, Limit, transfer
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.bulk_interval import shown
from labs.read.theory.kernels import DEFAULT_WMEM, default_core_max_bytes, default_rmem, series
from labs.read.theory.mathis import BBR_TOLERATES_PCT, FOLLOWS_MATHIS, mathis_bytes_s
from labs.read.theory.windows import SMALLEST_BYTES, receive_window_bytes, send_bound_bytes

LARGEST_BYTES = 1 << 31
"""One more than the largest int, the type in which the kernel stores buffer sizes."""
LARGEST_WINDOW_BYTES = 65_535 << 14
STEP_BYTES = 2 * KIB
"""Half of a size, the request of a program, is whole KiB."""
FULL = 0.98
"""A link counts as filled from this share of its payload rate on."""
FACTOR_STEPS, LARGEST_FACTOR = 32, 4
SMALLEST_MSS_BYTES = 536
"""What every host accepts (RFC 9293 section 3.7.1)."""
OLDEST = (4, 20)
"""The first series with the default of tcp_rmem that the theory knows."""
WINDOWS_STOP_SHARE, SEND_BUFFERS_STOP_SHARE = 1 / 16, 3 / 64
"""tcp_mem[1], beyond which windows stop growing, and tcp_mem[0], beyond which send buffers do, as
shares of memory: net/ipv4/tcp.c tcp_init_mem(); net/ipv4/tcp_input.c tcp_grow_window(),
tcp_should_expand_sndbuf()."""
BBR = "bbr"
SIZED = (*CONGESTION_CONTROLS, BBR)
"""The congestion controls for which sizes are known."""
BBR_WINDOW_BDP, BBR_HOLDS_BDP = 2.0, 4.0
"""BBR's congestion window is two BDP (net/ipv4/tcp_bbr.c bbr_cwnd_gain). With losses more is in
flight: until data behind a hole is read, BBR sends for two round trips more, one until the loss is
reported, and one for the retransmission, which may be lost as well. Measured in virtual time:
docs/model.md, *Buffers under loss*."""
RECOVERY_WINDOWS, PEAK_WINDOWS, LEAST_WINDOW_SEGMENTS = 2, 4, 32
"""A loss-based flow needs at most twice its window in recovery: net/ipv4/tcp_input.c
tcp_sndbuf_expand(), "Cubic needs 1.7 factor, rounded to 2". Under random loss the largest windows
are a multiple of the mean. With these factors the model reaches 95 % of what it reaches with
buffers of 16 BDP (docs/model.md, *Buffers under loss*)."""


def three(default: tuple[int, int, int], largest_bytes: int) -> tuple[int, int, int]:
    """tcp_rmem or tcp_wmem with another maximum."""
    least, first, _ = default
    return least, min(first, largest_bytes), largest_bytes


@dataclass(frozen=True)
class End:
    """The buffers of one end: its sysctl with the kernel's default, the smallest size that is
    enough however packets arrive, and what a program requests instead, half of what is granted;
    None if no request is enough. They grow until all connections use `stop_share` of memory."""

    does: str
    name: str
    sysctl: str
    option: str
    stop_share: float
    default: tuple[int, int, int]
    smallest_bytes: int
    request_bytes: int | None

    @property
    def suffices(self) -> bool:
        """Whether the default maximum is enough."""
        return self.smallest_bytes <= self.default[-1]

    @property
    def set_bytes(self) -> int:
        """The advised maximum, which is not below the default."""
        return max(self.default[-1], self.smallest_bytes)

    @property
    def value(self) -> str:
        """What to set the sysctl to."""
        return " ".join(map(str, three(self.default, self.set_bytes)))


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The buffers with which one flow fills a path; sizes in bytes, at least one BDP.

    The sizes are those that getsockopt must return. `receive_bytes` is for packets that are
    coalesced in pairs (GRO), `receive_alone_bytes` for packets that arrive one by one: up to 6.5
    the two are the same. `receive_locked_bytes` is for a buffer that a program sets, however
    packets arrive; None if the largest is not enough. `holds_bdp` is how many
    BDP of payload each buffer holds. It is None, and no size means anything, if no rule is known
    for the congestion control `control` at this loss; `control` is None if none can be advised.
    """

    rate_mbit: float
    rtt_ms: float
    kernel: str
    mss_bytes: int
    bdp_bytes: float
    line_bytes_s: float
    default_rmem: tuple[int, int, int]
    receive_bytes: int
    receive_alone_bytes: int
    receive_locked_bytes: int | None
    send_bytes: int
    loss_pct: float = 0.0
    control: str | None = CUBIC
    holds_bdp: float | None = 1.0

    @property
    def receiver(self) -> End:
        locked = self.receive_locked_bytes
        return End(
            *("receive", "receiver", "tcp_rmem", "SO_RCVBUF", WINDOWS_STOP_SHARE),
            self.default_rmem,
            self.receive_alone_bytes,
            None if locked is None else locked // 2,
        )

    @property
    def sender(self) -> End:
        return End(
            *("send", "sender", "tcp_wmem", "SO_SNDBUF", SEND_BUFFERS_STOP_SHARE),
            DEFAULT_WMEM,
            self.send_bytes,
            self.send_bytes // 2,
        )

    @property
    def ends(self) -> tuple[End, End]:
        return self.receiver, self.sender

    @property
    def core_max_bytes(self) -> int:
        """The default of net.core.rmem_max and wmem_max, which cap what programs request."""
        return default_core_max_bytes(self.kernel)


def loss_based_bytes_s(line_bytes_s: float, loss_pct: float, rtt_ms: float, mss: int) -> float:
    """What Reno and CUBIC reach with random loss, whatever their buffers: at most the link."""
    return min(line_bytes_s, mathis_bytes_s(loss_pct, rtt_ms, mss)) if loss_pct else line_bytes_s


def advised_control(by_loss: float, loss_pct: float) -> str | None:
    """The congestion control for a path on which a loss-based one reaches the share `by_loss` of
    the link; None if none fills it."""
    if by_loss >= FULL:
        return CUBIC
    return BBR if loss_pct <= BBR_TOLERATES_PCT else None


def held_bdp(control: str | None, by_loss: float, loss_pct: float) -> float | None:
    """How many BDP of payload each buffer must hold for a congestion control, of which a loss-based
    one reaches the share `by_loss` of the link; None if no rule is known."""
    if control == BBR:
        most = BBR_HOLDS_BDP if loss_pct <= BBR_TOLERATES_PCT else None
        return most if loss_pct else BBR_WINDOW_BDP
    if control not in CONGESTION_CONTROLS:
        return None
    return RECOVERY_WINDOWS * min(1.0, PEAK_WINDOWS * by_loss) if loss_pct else 1.0


def advise(
    rate_mbit: float,
    rtt_ms: float,
    kernel: str,
    *,
    mss_bytes: int = MSS_BYTES,
    loss_pct: float = 0.0,
    control: str | None = None,
) -> Advice:
    """The smallest buffers that let one flow fill a line of this rate over this round trip; under
    random loss those for one congestion control (`held_bdp`), by default the one that is advised.

    The receiver's window and the sender's bound must each hold the payload of one round trip. Each
    buffer has at least one BDP, and at least the smallest size that a kernel grants, because below
    that the formulas are meaningless. Two such buffers together may still be too small if a buffer
    holds few packets. Then all sizes are enlarged by the same factor until the prediction for both
    together is FULL. If no factor up to LARGEST_FACTOR is enough, the sizes are not enlarged: the
    flow is then still growing after ROUND_TRIPS, and other sizes do not help. Both ends run the
    same kernel. BadInput if the path holds more than the largest window or buffer.
    """
    line = line_goodput_bytes_s(rate_mbit, mss_bytes)
    by_loss = loss_based_bytes_s(line, loss_pct, rtt_ms, mss_bytes) / line
    control = control or advised_control(by_loss, loss_pct)
    holds = held_bdp(control, by_loss, loss_pct)
    alone = replace(
        _smallest_buffers(rate_mbit, rtt_ms, kernel, mss_bytes, 1.0 if holds is None else holds),
        loss_pct=loss_pct,
        control=control,
        holds_bdp=holds,
    )
    if holds != 1 or _fills(alone, FACTOR_STEPS):
        return alone
    steps = range(FACTOR_STEPS + 1, LARGEST_FACTOR * FACTOR_STEPS + 1)
    enough = bisect_left(steps, True, key=lambda step: _fills(alone, step))
    return _enlarged(alone, steps[enough] if enough < len(steps) else FACTOR_STEPS)


def _smallest_buffers(
    rate_mbit: float, rtt_ms: float, kernel: str, mss_bytes: int, holds_bdp: float
) -> Advice:
    """The smallest buffers that hold so many BDP of payload, each end on its own."""
    line = line_goodput_bytes_s(rate_mbit, mss_bytes)
    needed = holds_bdp * line * rtt_ms / 1e3
    bdp = bdp_bytes(rate_mbit, rtt_ms)
    if holds_bdp < 1:
        needed = max(needed, LEAST_WINDOW_SEGMENTS * mss_bytes)
    if needed > LARGEST_WINDOW_BYTES:
        raise _too_large(rate_mbit, rtt_ms, needed, "a window", LARGEST_WINDOW_BYTES)
    least = ceil(max(min(holds_bdp, 1) * bdp, SMALLEST_BYTES["send"]) / STEP_BYTES) * STEP_BYTES

    def receive(*, offloads: bool, locked: bool = False) -> int | None:
        def window(size: int) -> int:
            return receive_window_bytes(
                size, kernel, offloads=offloads, locked=locked, mss_bytes=mss_bytes
            )

        size = _smallest(needed, window)
        return size if size is None else max(least, size)

    def send(size: int) -> int:
        return send_bound_bytes(size, kernel, mss_bytes=mss_bytes)

    receive_alone, sent = receive(offloads=False), _smallest(needed, send)
    receive_pairs = receive(offloads=True)
    if receive_alone is None or receive_pairs is None:
        most = receive_window_bytes(LARGEST_BYTES, kernel, offloads=False, mss_bytes=mss_bytes)
        raise _too_large(rate_mbit, rtt_ms, needed, f"a window of Linux {kernel}", most)
    if sent is None:
        raise _too_large(rate_mbit, rtt_ms, needed, "a send buffer", send(LARGEST_BYTES))

    return Advice(
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        kernel=kernel,
        mss_bytes=mss_bytes,
        bdp_bytes=bdp,
        line_bytes_s=line,
        default_rmem=default_rmem(kernel),
        receive_bytes=receive_pairs,
        receive_alone_bytes=receive_alone,
        receive_locked_bytes=receive(offloads=False, locked=True),
        send_bytes=max(least, sent),
    )


def _too_large(
    rate_mbit: float, rtt_ms: float, needed: float, what: str, most_bytes: float
) -> BadInput:
    flows = ceil(needed / most_bytes)
    return BadInput(
        f"one flow cannot fill {rate_mbit:g} Mbit/s over {rtt_ms:g} ms: {what} holds at most "
        f"{most_bytes / MIB:,.0f} MiB of payload, but {needed / MIB:,.0f} MiB must be in flight. "
        f"Use at least {flows} connections, each with --rate-mbit {rate_mbit / flows:g}"
    )


def _enlarged(advice: Advice, steps: int) -> Advice:
    """An advice with all sizes enlarged by the factor steps / FACTOR_STEPS."""

    def size(of: int) -> int:
        steps_of = ceil(of * steps / (FACTOR_STEPS * STEP_BYTES))
        return min(steps_of * STEP_BYTES, LARGEST_BYTES - STEP_BYTES)

    locked = advice.receive_locked_bytes
    return replace(
        advice,
        receive_bytes=size(advice.receive_bytes),
        receive_alone_bytes=size(advice.receive_alone_bytes),
        receive_locked_bytes=None if locked is None else size(locked),
        send_bytes=size(advice.send_bytes),
    )


def _fills(advice: Advice, steps: int) -> bool:
    """Whether a flow with the smallest sizes at both ends, enlarged, fills the line."""
    tried = _enlarged(advice, steps)
    reach = reached(tried, sndbuf_bytes=tried.send_bytes, rcvbuf_bytes=tried.receive_bytes)
    return reach.goodput_bytes_s >= FULL * advice.line_bytes_s


@dataclass(frozen=True)
class Reached:
    """The steady goodput of a flow with certain buffers, and its limits, the lowest first.

    `sndbuf_bytes` and `rcvbuf_bytes` are the largest sizes that the buffers may have. `cannot_say`
    is empty, or says why nothing is predicted. Under random loss the goodput is that of the median
    draw.
    """

    sndbuf_bytes: int
    rcvbuf_bytes: int
    goodput_bytes_s: float
    bound: str
    limits: tuple[Limit, ...]
    cannot_say: str = ""


ROUND_TRIPS, LEAST_SEGMENTS = 40, 500
LOSSY_ROUND_TRIPS, LOSSY_SEGMENTS, LOSSY_MOST_S = 50, 150_000, 60.0
"""A flow with losses is observed for a minute, or for so many segments, if that is less."""


def at_least(advice: Advice) -> Reached:
    """What a flow reaches with the smallest buffers that fill the link, as in virtual time, where
    packets are coalesced in pairs."""
    return reached(advice, sndbuf_bytes=advice.send_bytes, rcvbuf_bytes=advice.receive_bytes)


@lru_cache(maxsize=1024)
def reached(
    advice: Advice, *, sndbuf_bytes: int | None = None, rcvbuf_bytes: int | None = None
) -> Reached:
    """What one flow reaches on the path of an advice with these buffers, given as the maxima of
    tcp_wmem and tcp_rmem; None is the kernel's default.

    The flow is that of iperf3 with blocks of 128 KiB, as the model predicts it.
    """
    sndbuf = DEFAULT_WMEM[-1] if sndbuf_bytes is None else sndbuf_bytes
    rcvbuf = advice.default_rmem[-1] if rcvbuf_bytes is None else rcvbuf_bytes
    if not advice.rtt_ms:  # no buffer limits a flow without a round trip
        line = Limit(LINK, advice.line_bytes_s, FUNCTIONS[LINK])
        return Reached(sndbuf, rcvbuf, advice.line_bytes_s, LINK, (line,))
    if advice.control not in CONGESTION_CONTROLS:
        reason = f"the model does not simulate {advice.control or 'such losses'}"
        return Reached(sndbuf, rcvbuf, 0.0, "", (), reason)
    try:
        predicted = transfer(_flow(advice, sndbuf, rcvbuf), transfer_bytes(advice, sndbuf, rcvbuf))
    except RuntimeError as error:  # both ends wait, which the model cannot end
        raise BadInput(
            f"nothing is predicted for a receive buffer of {rcvbuf} bytes and a send buffer of "
            f"{sndbuf}: they hold less than a few segments. Use larger ones, such as 16K"
        ) from error
    if predicted.cannot_say:
        return Reached(sndbuf, rcvbuf, 0.0, "", (), predicted.cannot_say)
    # A shaper's credit lets a short flow exceed the line, but not one without an end.
    goodput = min(predicted.steady_bytes_s, advice.line_bytes_s)
    bound = LINK if goodput >= FULL * advice.line_bytes_s else predicted.bound
    return Reached(sndbuf, rcvbuf, goodput, bound, _ordered(predicted.bounds, bound))


def between_bytes_s(advice: Advice, reach: Reached) -> tuple[float, float] | None:
    """The lowest and the highest goodput that are likely, where single packets or losses decide."""
    if reach.cannot_say or (reach.bound == LINK and not advice.loss_pct):
        return None
    sizes = reach.sndbuf_bytes, reach.rcvbuf_bytes
    wide = shown(_flow(advice, *sizes), transfer_bytes(advice, *sizes))
    return None if wide is None else wide.steady_bytes_s


def _flow(advice: Advice, sndbuf_bytes: int, rcvbuf_bytes: int) -> Flow:
    return Flow(
        rate_mbit=advice.rate_mbit,
        rtt_ms=advice.rtt_ms,
        kernel=advice.kernel,
        mss_bytes=advice.mss_bytes,
        tcp_rmem=three(advice.default_rmem, rcvbuf_bytes),
        tcp_wmem=three(DEFAULT_WMEM, sndbuf_bytes),
        congestion=advice.control or CUBIC,
        loss_pct=advice.loss_pct,
        offloads=not advice.loss_pct,
        limit_s=observed_s(advice),
    )


def transfer_bytes(advice: Advice, sndbuf_bytes: int, rcvbuf_bytes: int) -> int:
    """The bytes of 40 round trips, in whole KiB: enough to reach the steady state. With losses what
    the link carries while the flow is observed."""
    if (limit_s := observed_s(advice)) is not None:
        return round(limit_s * advice.line_bytes_s) // KIB * KIB
    held = min(advice.bdp_bytes, sndbuf_bytes, rcvbuf_bytes)
    least = LEAST_SEGMENTS * advice.mss_bytes
    return max(least, round(ROUND_TRIPS * held)) // KIB * KIB


def observed_s(advice: Advice) -> float | None:
    """For how long a flow with losses, or one that the model does not simulate, is observed."""
    if not advice.loss_pct and advice.control in CONGESTION_CONTROLS:
        return None
    rate = advice.line_bytes_s
    if advice.control in FOLLOWS_MATHIS:
        rate = loss_based_bytes_s(rate, advice.loss_pct, advice.rtt_ms, advice.mss_bytes)
    enough_s = min(LOSSY_MOST_S, LOSSY_SEGMENTS * advice.mss_bytes / rate)
    return max(enough_s, LOSSY_ROUND_TRIPS * advice.rtt_ms / 1e3)


def _ordered(limits: Iterable[Limit], bound: str) -> tuple[Limit, ...]:
    """The limit that applies first, then those that are known as a number, the lowest first."""
    bounding = [limit for limit in limits if limit.bytes_s is not None or limit.name == bound]
    return tuple(sorted(bounding, key=lambda limit: (limit.name != bound, limit.bytes_s or 0.0)))


def checked_path(
    rate_mbit: float, rtt_ms: float, kernel: str, mss_bytes: int, loss_pct: float = 0.0
) -> None:
    """BadInput, in one line, for a path for which no buffer can be advised."""
    if not 0 < rate_mbit <= 1e6:
        raise BadInput(f"a rate of {rate_mbit:g} Mbit/s is out of range; allowed: above 0, to 1e6")
    if rtt_ms == 0:
        raise BadInput(
            "nothing can be advised for an RTT of 0: every buffer fills such a path, and only the "
            "machine limits a flow. Measure the RTT (ping), and give it in ms"
        )
    if not 0 < rtt_ms <= 1e5:
        raise BadInput(f"an RTT of {rtt_ms:g} ms is out of range; allowed: above 0, to 100,000")
    if not 0 <= loss_pct < 100:
        raise BadInput(f"a loss of {loss_pct:g} % is out of range; allowed: 0 to below 100")
    if not SMALLEST_MSS_BYTES <= mss_bytes <= MSS_BYTES:
        raise BadInput(
            f"an MSS of {mss_bytes} is out of range; allowed: {SMALLEST_MSS_BYTES} to {MSS_BYTES}, "
            "the payload of one segment without its headers and options"
        )
    if series(kernel) < OLDEST:
        raise BadInput(
            f"nothing can be advised for Linux {kernel}: its default sizes are not known. "
            f"Allowed: {'.'.join(map(str, OLDEST))} and later"
        )


def _smallest(needed: float, held: Callable[[int], int]) -> int | None:
    """The smallest size in whole steps with which `held` reaches what is needed; None if the
    largest does not."""
    sizes = range(STEP_BYTES, LARGEST_BYTES, STEP_BYTES)
    place = bisect_left(sizes, needed, key=held)
    return sizes[place] if place < len(sizes) else None
