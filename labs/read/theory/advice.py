"""The buffers with which one flow fills a path, and the limits of a flow with other buffers.

On a path with random losses the sizes are those for one congestion control.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil, inf
from typing import Any

from labs.errors import BadInput
from labs.guest.testbed.link import MSS_BYTES
from labs.guest.units import KIB, MIB
from labs.read.theory.bdp import (
    BBR_TOLERATES_PCT,
    FOLLOWS_MATHIS,
    bdp_bytes,
    line_goodput_bytes_s,
    mathis_bytes_s,
)
from labs.read.theory.bulk import FUNCTIONS, LINK, Limit, transfer
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.bulk_interval import shown
from labs.read.theory.kernels import DEFAULT_WMEM, default_core_max_bytes, default_rmem, series
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
NO_RTT = (
    "nothing can be advised for an RTT of 0: every buffer fills such a path, and only the machine "
    "limits a flow. Measure the RTT (ping), and give it in ms"
)
WINDOWS_STOP_SHARE, SEND_BUFFERS_STOP_SHARE = 1 / 16, 3 / 64
"""tcp_mem[1], beyond which windows stop growing, and tcp_mem[0], beyond which send buffers do, as
shares of memory: net/ipv4/tcp.c tcp_init_mem(); net/ipv4/tcp_input.c tcp_grow_window(),
tcp_should_expand_sndbuf()."""
BBR = "bbr"
SIZES = ("receive_bytes", "receive_alone_bytes", "receive_locked_bytes", "send_bytes")
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

ROUND_TRIPS, LEAST_SEGMENTS = 40, 500
LOSSY_ROUND_TRIPS, LOSSY_SEGMENTS, LOSSY_MOST_S = 50, 150_000, 60.0
"""A flow with losses is observed for a minute, or for so many segments, if that is less."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """What is asked for: a path between two ends that run the same kernel."""

    rate_mbit: float
    rtt_ms: float
    kernel: str
    mss_bytes: int = MSS_BYTES
    loss_pct: float = 0.0

    @property
    def bdp_bytes(self) -> float:
        return bdp_bytes(self.rate_mbit, self.rtt_ms)

    @property
    def line_bytes_s(self) -> float:
        """The payload of the full link."""
        return line_goodput_bytes_s(self.rate_mbit, self.mss_bytes)

    @property
    def loss_based_bytes_s(self) -> float:
        """What Reno and CUBIC reach with random loss, whatever their buffers: at most the link."""
        mathis = (self.loss_pct, self.rtt_ms, self.mss_bytes)
        return min(self.line_bytes_s, mathis_bytes_s(*mathis) if self.loss_pct else inf)

    @property
    def default_rmem(self) -> tuple[int, int, int]:
        return default_rmem(self.kernel)

    @property
    def core_max_bytes(self) -> int:
        """The default of net.core.rmem_max and wmem_max, which cap what programs request."""
        return default_core_max_bytes(self.kernel)

    def checked(self) -> Path:
        """The path; BadInput, in one line, if no buffer can be advised for it."""
        rate, rtt, loss, mss = self.rate_mbit, self.rtt_ms, self.loss_pct, self.mss_bytes
        oldest = ".".join(map(str, OLDEST))
        for allowed, refusal in (
            (
                0 < rate <= 1e6,
                f"a rate of {rate:g} Mbit/s is out of range; allowed: above 0, to 1e6",
            ),
            (rtt != 0, NO_RTT),
            (0 < rtt <= 1e5, f"an RTT of {rtt:g} ms is out of range; allowed: above 0, to 100,000"),
            (0 <= loss < 100, f"a loss of {loss:g} % is out of range; allowed: 0 to below 100"),
            (
                SMALLEST_MSS_BYTES <= mss <= MSS_BYTES,
                f"an MSS of {mss} is out of range; allowed: {SMALLEST_MSS_BYTES} to {MSS_BYTES}, "
                "the payload of one segment without its headers and options",
            ),
            (
                series(self.kernel) >= OLDEST,
                f"nothing can be advised for Linux {self.kernel}: its default sizes are not known. "
                f"Allowed: {oldest} and later",
            ),
        ):
            if not allowed:
                raise BadInput(refusal)
        return self


@dataclass(frozen=True)
class End:
    """The buffers of one end: its sysctl with the kernel's default, the smallest size that is
    enough however packets arrive, and with coalesced packets (GRO), and what a program requests
    instead, half of what is granted; None if no request is enough. They grow until all connections
    use `stop_share` of memory."""

    does: str
    name: str
    sysctl: str
    option: str
    stop_share: float
    default: tuple[int, int, int]
    smallest_bytes: int
    coalesced_bytes: int
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
        return " ".join(map(str, _three(self.default, self.set_bytes)))


@dataclass(frozen=True, kw_only=True)
class Advice(Path):
    """The buffers with which one flow fills a path; sizes in bytes, at least one BDP.

    The sizes are those that getsockopt must return. `receive_bytes` is for packets that are
    coalesced in pairs (GRO), `receive_alone_bytes` for packets that arrive one by one: up to 6.5
    the two are the same. `receive_locked_bytes` is for a buffer that a program sets, however
    packets arrive; None if the largest is not enough. `holds_bdp` is how many
    BDP of payload each buffer holds. It is None, and no size means anything, if no rule is known
    for the congestion control `control` at this loss; `control` is None if none can be advised.
    """

    receive_bytes: int
    receive_alone_bytes: int
    receive_locked_bytes: int | None
    send_bytes: int
    control: str | None
    holds_bdp: float | None

    @property
    def receiver(self) -> End:
        locked = self.receive_locked_bytes
        return End(
            *("receive", "receiver", "tcp_rmem", "SO_RCVBUF", WINDOWS_STOP_SHARE),
            self.default_rmem,
            self.receive_alone_bytes,
            self.receive_bytes,
            None if locked is None else locked // 2,
        )

    @property
    def sender(self) -> End:
        size = self.send_bytes
        names = ("send", "sender", "tcp_wmem", "SO_SNDBUF", SEND_BUFFERS_STOP_SHARE)
        return End(*names, DEFAULT_WMEM, size, size, size // 2)

    @property
    def ends(self) -> tuple[End, End]:
        return self.receiver, self.sender

    @property
    def observed_s(self) -> float | None:
        """For how long a flow with losses, or one that the model does not simulate, is observed."""
        if not self.loss_pct and self.control in CONGESTION_CONTROLS:
            return None
        rate = self.loss_based_bytes_s if self.control in FOLLOWS_MATHIS else self.line_bytes_s
        enough_s = min(LOSSY_MOST_S, LOSSY_SEGMENTS * self.mss_bytes / rate)
        return max(enough_s, LOSSY_ROUND_TRIPS * self.rtt_ms / 1e3)


def _three(default: tuple[int, int, int], largest_bytes: int) -> tuple[int, int, int]:
    """tcp_rmem or tcp_wmem with another maximum."""
    least, first, _ = default
    return least, min(first, largest_bytes), largest_bytes


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
    path = Path(
        rate_mbit=rate_mbit, rtt_ms=rtt_ms, kernel=kernel, mss_bytes=mss_bytes, loss_pct=loss_pct
    )
    by_loss = path.loss_based_bytes_s / path.line_bytes_s
    control = control or advised_control(by_loss, loss_pct)
    alone = _smallest_buffers(path, control, held_bdp(control, by_loss, loss_pct))
    if alone.holds_bdp != 1 or _fills(alone, FACTOR_STEPS):
        return alone
    steps = range(FACTOR_STEPS + 1, LARGEST_FACTOR * FACTOR_STEPS + 1)
    enough = bisect_left(steps, True, key=lambda step: _fills(alone, step))
    return _enlarged(alone, steps[enough] if enough < len(steps) else FACTOR_STEPS)


def _smallest_buffers(path: Path, control: str | None, holds_bdp: float | None) -> Advice:
    """The smallest buffers that hold so many BDP of payload, by default one, each end on its
    own."""
    kernel, mss, held_bdp = path.kernel, path.mss_bytes, 1.0 if holds_bdp is None else holds_bdp
    needed = held_bdp * path.line_bytes_s * path.rtt_ms / 1e3
    if held_bdp < 1:
        needed = max(needed, LEAST_WINDOW_SEGMENTS * mss)
    if needed > LARGEST_WINDOW_BYTES:
        raise _too_large(path, needed, "a window", LARGEST_WINDOW_BYTES)
    window = partial(receive_window_bytes, kernel=kernel, mss_bytes=mss)
    holds: dict[str, Callable[[int], int]] = {
        "receive_bytes": partial(window, offloads=True),
        "receive_alone_bytes": partial(window, offloads=False),
        "receive_locked_bytes": partial(window, offloads=False, locked=True),
        "send_bytes": partial(send_bound_bytes, kernel=kernel, mss_bytes=mss),
    }
    sizes = {name: _smallest(needed, held) for name, held in holds.items()}
    for name, what in (
        ("receive_alone_bytes", f"a window of Linux {kernel}"),
        ("send_bytes", "a send buffer"),
    ):
        if sizes[name] is None:
            raise _too_large(path, needed, what, holds[name](LARGEST_BYTES))
    smallest = max(min(held_bdp, 1) * path.bdp_bytes, SMALLEST_BYTES["send"])
    least = ceil(smallest / STEP_BYTES) * STEP_BYTES
    at_least: dict[str, Any] = {name: size and max(least, size) for name, size in sizes.items()}
    return Advice(**vars(path), **at_least, control=control, holds_bdp=holds_bdp)


def _smallest(needed: float, held: Callable[[int], int]) -> int | None:
    """The smallest size in whole steps with which `held` reaches what is needed; None if the
    largest does not."""
    sizes = range(STEP_BYTES, LARGEST_BYTES, STEP_BYTES)
    place = bisect_left(sizes, needed, key=held)
    return sizes[place] if place < len(sizes) else None


def _too_large(path: Path, needed: float, what: str, most_bytes: float) -> BadInput:
    flows = ceil(needed / most_bytes)
    return BadInput(
        f"one flow cannot fill {path.rate_mbit:g} Mbit/s over {path.rtt_ms:g} ms: {what} holds at "
        f"most {most_bytes / MIB:,.0f} MiB of payload, but {needed / MIB:,.0f} MiB must be in "
        f"flight. Use at least {flows} connections, each with --rate-mbit "
        f"{path.rate_mbit / flows:g}"
    )


def _enlarged(advice: Advice, steps: int) -> Advice:
    """An advice with all sizes enlarged by the factor steps / FACTOR_STEPS."""
    sizes: dict[str, Any] = {}
    for name in SIZES:
        if size := getattr(advice, name):
            whole = ceil(size * steps / (FACTOR_STEPS * STEP_BYTES)) * STEP_BYTES
            sizes[name] = min(whole, LARGEST_BYTES - STEP_BYTES)
    return replace(advice, **sizes)


def _fills(advice: Advice, steps: int) -> bool:
    """Whether a flow with the smallest sizes at both ends, enlarged, fills the line."""
    return at_least(_enlarged(advice, steps)).goodput_bytes_s >= FULL * advice.line_bytes_s


@dataclass(frozen=True)
class Reached:
    """The steady goodput of a flow with certain buffers, and its limits, the lowest first.

    `sndbuf_bytes` and `rcvbuf_bytes` are the largest sizes that the buffers may have. `cannot_say`
    is empty, or says why nothing is predicted. Under random loss the goodput is that of the median
    draw.
    """

    advice: Advice
    sndbuf_bytes: int
    rcvbuf_bytes: int
    goodput_bytes_s: float = 0.0
    bound: str = ""
    limits: tuple[Limit, ...] = ()
    cannot_say: str = ""

    @property
    def flow(self) -> Flow:
        """The flow as the model takes it."""
        return Flow(
            rate_mbit=self.advice.rate_mbit,
            rtt_ms=self.advice.rtt_ms,
            kernel=self.advice.kernel,
            mss_bytes=self.advice.mss_bytes,
            tcp_rmem=_three(self.advice.default_rmem, self.rcvbuf_bytes),
            tcp_wmem=_three(DEFAULT_WMEM, self.sndbuf_bytes),
            congestion=self.advice.control or CUBIC,
            loss_pct=self.advice.loss_pct,
            offloads=not self.advice.loss_pct,
            limit_s=self.advice.observed_s,
        )

    @property
    def transfer_bytes(self) -> int:
        """The bytes of 40 round trips, in whole KiB: enough to reach the steady state. With losses
        what the link carries while the flow is observed."""
        advice = self.advice
        if advice.observed_s is not None:
            return round(advice.observed_s * advice.line_bytes_s) // KIB * KIB
        held = min(advice.bdp_bytes, self.sndbuf_bytes, self.rcvbuf_bytes)
        return max(LEAST_SEGMENTS * advice.mss_bytes, round(ROUND_TRIPS * held)) // KIB * KIB

    @property
    def between_bytes_s(self) -> tuple[float, float] | None:
        """The lowest and the highest goodput that are likely, where single packets or losses
        decide."""
        if self.cannot_say or (self.bound == LINK and not self.advice.loss_pct):
            return None
        wide = shown(self.flow, self.transfer_bytes)
        return None if wide is None else wide.steady_bytes_s


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
    reach = Reached(
        advice,
        DEFAULT_WMEM[-1] if sndbuf_bytes is None else sndbuf_bytes,
        advice.default_rmem[-1] if rcvbuf_bytes is None else rcvbuf_bytes,
    )
    line = advice.line_bytes_s
    if not advice.rtt_ms:  # no buffer limits a flow without a round trip
        link = Limit(LINK, line, FUNCTIONS[LINK])
        return replace(reach, goodput_bytes_s=line, bound=LINK, limits=(link,))
    if advice.control not in CONGESTION_CONTROLS:
        reason = f"the model does not simulate {advice.control or 'such losses'}"
        return replace(reach, cannot_say=reason)
    try:
        predicted = transfer(reach.flow, reach.transfer_bytes)
    except RuntimeError as error:  # both ends wait, which the model cannot end
        raise BadInput(
            f"nothing is predicted for a receive buffer of {reach.rcvbuf_bytes} bytes and a send "
            f"buffer of {reach.sndbuf_bytes}: they hold less than a few segments. Use larger ones, "
            "such as 16K"
        ) from error
    if predicted.cannot_say:
        return replace(reach, cannot_say=predicted.cannot_say)
    # A shaper's credit lets a short flow exceed the line, but not one without an end.
    goodput = min(predicted.steady_bytes_s, line)
    bound = LINK if goodput >= FULL * line else predicted.bound
    # The limit that applies first, then those that are known as a number, the lowest first.
    limits = tuple(
        sorted(
            (each for each in predicted.bounds if each.bytes_s is not None or each.name == bound),
            key=lambda each: (each.name != bound, each.bytes_s or 0.0),
        )
    )
    return replace(reach, goodput_bytes_s=goodput, bound=bound, limits=limits)
