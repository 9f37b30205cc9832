"""The graded exercises of the notebooks about buffers. They refer to the lab's default link;
each right answer is computed from the theory and, where they exist, from runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labs.drive.kernel.versions import SERIES
from labs.drive.parameters.declare import Scalar
from labs.drive.units import KIB, MIB
from labs.experiments.buffers.conditions import (
    ADV_BUFFER_BDP,
    BOTH_RAISED,
    DEFAULT,
    DRAWS,
    LOSS_DELAY_MS,
    SENDER_RAISED,
)
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.prediction import Prediction, of_client, predicted
from labs.experiments.buffers.prediction import expected as predicted_for
from labs.experiments.buffers.results import Results, article
from labs.experiments.buffers.settings import Settings
from labs.experiments.buffers.socket_buffers import bdp_bytes as measured_bdp_bytes
from labs.experiments.buffers.socket_buffers import receive_buffer
from labs.experiments.buffers.sweep import FULL_PCT
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around, drawn
from labs.read.exercises.guess import Guess, GuessedValue
from labs.read.runs.run import Run
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, of_the_wait_pct, utilisation_pct
from labs.read.theory.bulk import LINK as OF_THE_LINK
from labs.read.theory.bulk import transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.defaults import DEFAULT_WMEM, default_core_max_bytes, default_rmem
from labs.read.theory.mathis import mathis_bytes_s
from labs.read.theory.windows import granted_bytes, receive_window_bytes, send_bound_bytes

START, BUFFERS, WINDOWS = "00-start-here", "01-buffers-and-bdp", "08-windows-kernels-and-loss"
COMPARED = "06-kernels-compared"
WITNESSES = "07-two-witnesses"
LIMITS = {OF_THE_LINK: "link", RECEIVE_WINDOW: "receive window", SEND_BUFFER: "send buffer"}
"""What may limit a flow, as an answer names it."""
LINK = Buffers()
"""The link that the exercises refer to: the lab's default."""
DELAYS_MS = (22.0, 26.0, 30.0)
"""Delays around the one at which the default buffers stop being sufficient."""
BUFFERS_MIB = (41.0, 45.6)
"""Sizes around the smallest buffer that fills the link."""
STOP_AND_WAIT = "A1.18"
"""The claim with the article's block, its rate, and the round trip that the article assumed."""
SHARE_SCALE = 2
LOSS_PCT = 0.1
"""The loss of the exercise, at which losses limit reno and not the link."""

# Tolerances in %, below the 4.9 % that MB and MiB differ by unless a reason is given.
EXACT_PCT = 2.0
"""Answers with two or three digits, and the deviation of the measured link."""
BOUND_PCT = 4.0
"""The bound of a send buffer is known to 2 %; an answer has two digits."""
SHARE_PCT = 3.0
"""An answer has two digits, and one packet's memory is missing from the window."""
HEADERS_PCT = 5.0
"""Counting the BDP with or without headers makes 4.6 %."""
DRAWS_PCT = 10.0
"""Losses are random, and other constants than 1.31 are in use for the formula."""


def bdp_mib(runs: Evidence) -> Expected:
    """The BDP of the link with a short delay, as requested and as measured before `default`: at the
    rate of the link, or at that of the payload."""
    rate_mbit, delay_ms = _link(runs, DELAYS_MS[0])
    found = [bdp_bytes(rate_mbit, delay_ms) / MIB]
    found.append(line_goodput_bytes_s(rate_mbit) * delay_ms / 1e3 / MIB)
    run = runs.run(DEFAULT, rate_mbit=rate_mbit, delay_ms=delay_ms)
    measured = None if run is None else measured_bdp_bytes(run)
    if measured is not None:
        found.append(measured / MIB)
    long_mib = bdp_bytes(rate_mbit, LINK.delay_ms) / MIB
    hint = f"This is the BDP at {LINK.delay_ms:g} ms."
    return around(tuple(found), EXACT_PCT, _checked("rate x RTT", run), Mistake(long_mib, hint))


def default_limit(runs: Evidence) -> Expected:
    """What limits the run `default` with a short delay."""
    rate_mbit, delay_ms = _link(runs, DELAYS_MS[0])
    flow, file_bytes = _flow(runs, default_rmem(runs.kernel), DEFAULT_WMEM, delay_ms=delay_ms)
    run = runs.run(DEFAULT, rate_mbit=rate_mbit, delay_ms=delay_ms)
    return _limit(run, transfer(flow, file_bytes).bound)


def longest_rtt_ms(runs: Evidence) -> Expected:
    """The longest RTT at which default buffers fill the link: the payload that the smaller one
    admits, divided by the payload's rate or, as in the BDP, by the rate of the link; narrowed by
    the runs at other delays."""
    rate_mbit, _ = _link(runs)
    full_bytes_s = line_goodput_bytes_s(rate_mbit)
    window_bytes = receive_window_bytes(default_rmem(runs.kernel)[-1], runs.kernel)
    admitted = min(window_bytes, send_bound_bytes(DEFAULT_WMEM[-1], runs.kernel))
    longest = 1e3 * admitted / full_bytes_s
    as_bdp = 1e3 * admitted / bdp_bytes(rate_mbit, 1e3)
    low, high = as_bdp * (1 - EXACT_PCT / 100), longest * (1 + BOUND_PCT / 100)
    found = [(delay, runs.run(DEFAULT, rate_mbit=rate_mbit, delay_ms=delay)) for delay in DELAYS_MS]
    shares = [(delay, _of_the_link_pct(run)) for delay, run in found if run is not None]
    low = max([low, *(delay for delay, share in shares if share >= FULL_PCT)])
    high = min([high, *(delay for delay, share in shares if share < FULL_PCT)])
    said = "".join(f"; at {delay:g} ms {share:.0f} % of the link" for delay, share in shares)
    buffer_ms = 1e3 * DEFAULT_WMEM[-1] / full_bytes_s
    return Expected(
        f"{DEFAULT}: what the buffers admit over the link's rate{said}",
        low=low,
        high=high,
        mistakes=(
            Mistake(
                buffer_ms,
                "This is the size of the send buffer divided by the rate. Not all of it "
                "is payload: use send_bytes.",
            ),
            Mistake(
                1e3 * window_bytes / full_bytes_s,
                "This is the limit of the receive window alone. The send buffer admits less.",
            ),
        ),
    )


def httping_ms(runs: Evidence) -> Expected:
    """What httping reports: the handshake, then the request, one round trip each."""
    rate_mbit, delay_ms = _link(runs)
    run = runs.run("httping", rate_mbit=rate_mbit, delay_ms=delay_ms)
    timed = None if run is None else run.httping()
    found = (2 * delay_ms, *(() if timed is None else (timed.mean_ms,)))
    hint = (
        "This is one round trip. httping opens a connection and sends a request: count the "
        "handshake too."
    )
    return around(found, EXACT_PCT, _checked("two round trips", run), Mistake(delay_ms, hint))


def wmem_limit(runs: Evidence) -> Expected:
    """What limits the run with a larger buffer at the sender alone."""
    raised = (*DEFAULT_WMEM[:2], round(LINK.buffer_mib * MIB))
    rate_mbit, delay_ms = _link(runs)
    flow, file_bytes = _flow(runs, default_rmem(runs.kernel), raised, delay_ms=delay_ms)
    run = runs.run(SENDER_RAISED, rate_mbit=rate_mbit, delay_ms=delay_ms)
    return _limit(run, transfer(flow, file_bytes).bound)


def smallest_buffer_mib(runs: Evidence) -> Expected:
    """The smallest buffer, for both ends, with which one flow fills the link."""
    rate_mbit, delay_ms = _link(runs)
    link = {"rate_mbit": rate_mbit, "delay_ms": delay_ms}
    needed = advise(rate_mbit, delay_ms, runs.kernel)
    smallest = max(needed.receive_bytes, needed.send_bytes) / MIB
    low, high = smallest * (1 - HEADERS_PCT / 100), smallest * (1 + HEADERS_PCT / 100)
    found = [(size, runs.run(BOTH_RAISED, buffer_mib=size, **link)) for size in BUFFERS_MIB]
    shares = [(size, _of_the_link_pct(run)) for size, run in found if run is not None]
    low = max([low, *(size for size, share in shares if share < FULL_PCT)])
    said = "".join(f"; {size:g} MiB: {share:.0f} % of the link" for size, share in shares)
    hint = "This is one BDP. Only a part of a buffer is usable as window."
    return Expected(
        f"the theory of Linux {runs.kernel}{said}",
        low=low,
        high=high,
        mistakes=(Mistake(needed.bdp_bytes / MIB, hint), Mistake(needed.bdp_bytes / 1e6, hint)),
    )


def used_pct(runs: Evidence) -> Expected:
    """The share of the link that a stop-and-wait transfer uses, at the true round trip."""
    figures = article().claim(STOP_AND_WAIT).arguments
    block_bytes, rate_bytes_s = figures["block_bytes"], figures["rate_bytes_s"]
    rtt_ms = drawn(runs, "delay_ms", LINK.delay_ms)
    assumed_ms = figures["rtt_ms"] * rtt_ms / LINK.delay_ms
    right = utilisation_pct(block_bytes, rate_bytes_s, rtt_ms)
    assumed = (
        f"This is for an RTT of {assumed_ms:g} ms. httping timed two round trips: the RTT is half "
        "of its time."
    )
    return around(
        (right,),
        EXACT_PCT,
        "sending time over sending time plus RTT",
        Mistake(
            of_the_wait_pct(block_bytes, rate_bytes_s, rtt_ms),
            "Sending the block takes time, too: divide by the sending time plus RTT.",
        ),
        Mistake(utilisation_pct(block_bytes, rate_bytes_s, assumed_ms), assumed),
        Mistake(of_the_wait_pct(block_bytes, rate_bytes_s, assumed_ms), assumed),
    )


def scaled_mib_s(runs: Evidence) -> Expected:
    """Goodput with a receive buffer of one BDP and tcp_adv_win_scale = 2."""
    run = runs.run(f"adv-{SHARE_SCALE}")
    size = round(ADV_BUFFER_BDP * bdp_bytes(LINK.rate_mbit, LINK.delay_ms) / KIB) * KIB
    fixed = (size, size, size)
    larger = (4 * size,) * 3

    def with_scale(scale: int) -> float:
        return _predicted(runs, fixed, larger, scale).goodput_mib_s

    kept = "This is the reserved share, not the usable one."
    right = with_scale(SHARE_SCALE)
    # 1/4 of the buffer is usable with -2, which is the share that 2 keeps back.
    mistakes = (
        Mistake(with_scale(-SHARE_SCALE), kept),
        Mistake(with_scale(1), "This is for tcp_adv_win_scale = 1."),
    )
    return around(
        (right, *_steady_mib_s(run)),
        EXACT_PCT,
        _checked("window / RTT", run),
        *(one for one in mistakes if one.value != right),
    )


def lossy_mib_s(runs: Evidence) -> Expected:
    """Goodput of reno with losses: by the formula of Mathis, and as measured in several draws."""
    share = LOSS_PCT / 100
    theory = mathis_bytes_s(LOSS_PCT, LOSS_DELAY_MS) / MIB
    names = [f"loss-{LOSS_PCT:g}-reno-{draw}" for draw in range(DRAWS[LINK.size])]
    measured = [speed for name in names for speed in _steady_mib_s(runs.run(name))]
    per_cent = "This uses the loss in per cent. Use the share: 0.1 % is 0.001."
    no_root = "The goodput is inversely proportional to the square root of the loss."
    return around(
        (theory, *measured),
        DRAWS_PCT,
        f"MSS / RTT * C / sqrt(p); {len(measured)} runs",
        Mistake(theory * (share / LOSS_PCT) ** 0.5, per_cent),
        Mistake(theory / share**0.5, no_root),
    )


def granted_kib(runs: Evidence) -> Expected:
    """What getsockopt returns after 128 KiB were requested (`by-hand`)."""
    run = runs.run("by-hand")
    requested = 128.0 * KIB if run is None else _requested_bytes(run)
    granted = 2 * requested if run is None else float(receive_buffer(run).most_bytes)
    hint = "This is what the program requests. The kernel doubles it."
    return around(
        (granted / KIB,),
        EXACT_PCT,
        _checked("setsockopt doubles", run),
        Mistake(requested / KIB, hint),
    )


def lowest_rate_mbit(runs: Evidence) -> Expected:
    """The rate of a link that default buffers just fill: what they admit per round trip, with the
    headers on the link."""
    theory = _predicted(runs, default_rmem(runs.kernel), DEFAULT_WMEM)
    seconds = LINK.delay_ms / 1e3
    per_mbit = line_goodput_bytes_s(1.0)
    admitted = min(theory.window_bytes, theory.send_bytes) / seconds
    return around(
        (admitted / per_mbit, 8e-6 * admitted),
        EXACT_PCT,
        "what the default buffers admit per round trip, with headers or as a BDP",
        Mistake(
            DEFAULT_WMEM[-1] / seconds / per_mbit,
            "This counts the whole send buffer as payload. The payload it admits is send_bytes.",
        ),
        Mistake(
            theory.window_bytes / seconds / per_mbit,
            "This is the limit of the receive window alone. The send buffer admits less.",
        ),
    )


NEW = "7.2"


def new_window_mib(runs: Evidence) -> Expected:
    """The largest window of the default receive buffer of Linux 7.2 on the lab's link."""
    largest = default_rmem(NEW)[-1]
    return around(
        (receive_window_bytes(largest, NEW) / MIB,),
        SHARE_PCT,
        "the share that is measured on the first full packets",
        Mistake(largest / 2 / MIB, "A half was the share until 6.5. Now it is measured."),
        Mistake(largest / MIB, "This is the whole buffer. Overhead takes a part of it."),
    )


def granted_by(kernel: str) -> Callable[[Evidence], Expected]:
    """What a request for 1 MiB is granted with the core maximum that the kernel has by default."""

    def found(runs: Evidence) -> Expected:
        core_max = default_core_max_bytes(kernel)
        granted = granted_bytes(MIB, core_max, "receive")
        hint = "The request is capped by net.core.rmem_max, then doubled."
        others = {MIB, 2 * MIB, core_max, 2 * core_max} - {granted}
        return around(
            (granted / KIB,),
            EXACT_PCT,
            f"the core maximum of Linux {kernel}",
            *(Mistake(one / KIB, hint) for one in sorted(others)),
        )

    return found


LIMIT_CHOICES = tuple(LIMITS.values())
SHORT: Mapping[str, tuple[Scalar, ...]] = {
    "rate_mbit": (100.0, 200.0, 400.0, 800.0),
    "delay_ms": (10.0, 20.0, 80.0, 160.0),
    "kernel": SERIES,
}
LONG: Mapping[str, tuple[Scalar, ...]] = {
    "rate_mbit": (300.0, 500.0, 900.0),
    "delay_ms": (120.0, 160.0, 280.0),
    "kernel": SERIES,
}
"""What an examination on notebook 00 or 01 draws from."""

EXERCISES = (
    Exercise(
        "bdp_mib",
        START,
        "the BDP at 22 ms",
        bdp_mib,
        "MiB",
        question="What is the BDP of a link of {rate_mbit:g} Mbit/s and {delay_ms:g} ms, in MiB?",
        draws=SHORT,
    ),
    Exercise(
        "limit",
        START,
        "what limits default at 22 ms",
        default_limit,
        choices=LIMIT_CHOICES,
        question="What limits a download over that link if both ends run Linux {kernel} with "
        "default buffers: link, receive window or send buffer?",
        draws=SHORT,
    ),
    Exercise(
        "longest_rtt_ms",
        START,
        "the longest RTT for default",
        longest_rtt_ms,
        "ms",
        question="What is the longest RTT at which such a download fills a link of "
        "{rate_mbit:g} Mbit/s, in ms?",
        draws=SHORT,
    ),
    Exercise(
        "httping_ms",
        BUFFERS,
        "what httping reports",
        httping_ms,
        "ms",
        question="What time does httping report at an RTT of {delay_ms:g} ms, in ms?",
        draws=LONG,
    ),
    Exercise(
        "wmem_limit",
        BUFFERS,
        "what limits wmem",
        wmem_limit,
        choices=LIMIT_CHOICES,
        question="Only the send buffer is enlarged, to 50 MiB. What limits a download over a link "
        "of {rate_mbit:g} Mbit/s and {delay_ms:g} ms with Linux {kernel}: link, receive window or "
        "send buffer?",
        draws=LONG,
    ),
    Exercise(
        "buffer_mib",
        BUFFERS,
        "the smallest buffer",
        smallest_buffer_mib,
        "MiB",
        question="How large is the smallest buffer, the same for both ends, that fills this link, "
        "in MiB?",
        draws=LONG,
    ),
    Exercise(
        "used_pct",
        BUFFERS,
        "use of the link by stop-and-wait",
        used_pct,
        "%",
        question="A program sends blocks of 1 MB over a link of 100 MB/s and waits for a response "
        "to each. What share of the link does it use at an RTT of {delay_ms:g} ms, in %?",
        draws=LONG,
    ),
    Exercise("scaled_mib_s", WINDOWS, "goodput with another share", scaled_mib_s, "MiB/s"),
    Exercise("lossy_mib_s", WINDOWS, "goodput with losses", lossy_mib_s, "MiB/s"),
    Exercise("granted_kib", WINDOWS, "what setsockopt grants", granted_kib, "KiB"),
    Exercise("new_window_mib", COMPARED, "the largest window on 7.2", new_window_mib, "MiB"),
    Exercise("granted_6_1_kib", COMPARED, "1 MiB requested on 6.1", granted_by("6.1"), "KiB"),
    Exercise("granted_7_2_kib", COMPARED, "1 MiB requested on 7.2", granted_by(NEW), "KiB"),
    Exercise(
        "lowest_rate_mbit", WITNESSES, "the rate default just fills", lowest_rate_mbit, "Mbit/s"
    ),
)
GOODPUT = "steady_mib_s"


def _bdp_mib(runs: Evidence) -> tuple[float | None, float | None]:
    """The BDP of the link as requested, and as its run measured it."""
    requested = bdp_bytes(LINK.rate_mbit, LINK.delay_ms) / MIB
    run = runs.run(DEFAULT)
    measured = measured_bdp_bytes(run) if run else None
    return requested, measured and measured / MIB


def _buffer_mib(runs: Evidence) -> tuple[float | None, float | None]:
    """The smallest buffer that the model says fills the link. One run does not show it."""
    needed = advise(LINK.rate_mbit, LINK.delay_ms, runs.kernel)
    return max(needed.receive_bytes, needed.send_bytes) / MIB, None


GUESSES = (
    Guess("guess_default_mib_s", START, DEFAULT, GOODPUT),
    Guess("guess_both_mib_s", START, BOTH_RAISED, GOODPUT),
    GuessedValue("guess_bdp_mib", BUFFERS, "MiB", _bdp_mib),
    GuessedValue("guess_buffer_mib", BUFFERS, "MiB", _buffer_mib),
    Guess("guess_wmem_mib_s", BUFFERS, SENDER_RAISED, GOODPUT),
    Guess("guess_both_mib_s", BUFFERS, BOTH_RAISED, GOODPUT),
    Guess("guess_scale_2_mib_s", WINDOWS, "adv-2", GOODPUT),
    Guess("guess_scale_minus_2_mib_s", WINDOWS, "adv-m2", GOODPUT),
    *(
        Guess(f"guess_{one.replace('.', '_')}_mib_s", COMPARED, SENDER_RAISED, GOODPUT, one)
        for one in SERIES
    ),
    # Both witnesses should agree; what machines measure is theirs.
    *(
        GuessedValue(f"guess_{one}_ratio", WITNESSES, "ratio", lambda _: (1.0, None))
        for one in (DEFAULT, BOTH_RAISED)
    ),
)


def _predicted(
    runs: Evidence,
    tcp_rmem: tuple[int, int, int],
    tcp_wmem: tuple[int, ...],
    adv_win_scale: int = 1,
) -> Prediction:
    """The theory's prediction for the default link, the exercise's kernel and these buffers."""
    return predicted(*_flow(runs, tcp_rmem, tcp_wmem, adv_win_scale))


def _flow(
    runs: Evidence,
    tcp_rmem: tuple[int, int, int],
    tcp_wmem: tuple[int, ...],
    adv_win_scale: int = 1,
    delay_ms: float = LINK.delay_ms,
) -> tuple[Flow, int]:
    """A download at the rate of the exercise's link with these buffers, and its size in bytes."""
    smallest, first, largest = tcp_wmem
    file_bytes = LINK.transfer_mib * MIB
    flow = Flow(
        rate_mbit=drawn(runs, "rate_mbit", LINK.rate_mbit),
        rtt_ms=delay_ms,
        kernel=runs.kernel,
        tcp_rmem=tcp_rmem,
        tcp_wmem=(smallest, first, largest),
        adv_win_scale=adv_win_scale,
        **of_client(LINK.client, file_bytes, LINK.read_bytes),
    )
    return flow, file_bytes


def _link(runs: Evidence, usual_ms: float = LINK.delay_ms) -> tuple[float, float]:
    """Rate and delay of the link that a question is about."""
    return drawn(runs, "rate_mbit", LINK.rate_mbit), drawn(runs, "delay_ms", usual_ms)


def _limit(run: Run | None, bound: str) -> Expected:
    """What limits a run, or in theory if there is none."""
    found = None if run is None else predicted_for(run)
    bound = bound if found is None else found.bound
    choice = LIMITS[SEND_BUFFER if bound == WAKE_UP else bound]
    return Expected(_checked("the smallest of the limits", run), choice=choice)


def _checked(theory: str, run: Run | None) -> str:
    return theory if run is None else f"{theory}; the run {run.name}"


def _steady_mib_s(run: Run | None) -> Sequence[float]:
    speed = None if run is None else Results(run).steady_mib_s
    return () if speed is None else (speed,)


def _of_the_link_pct(run: Run) -> float:
    """The steady goodput of a run in % of what its link carries."""
    speed = sum(_steady_mib_s(run)) * MIB
    return 100 * speed / line_goodput_bytes_s(run.link.measured.rate_mbit or LINK.rate_mbit)


def _requested_bytes(run: Run) -> float:
    return float(run.settings_as(Settings).client_rcvbuf_bytes or 0)
