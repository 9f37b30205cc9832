"""The graded exercises of the notebooks about buffers, on the lab's default link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
    Parameters,
)
from labs.experiments.buffers.results import article, of_client
from labs.read.exercises.exercise import (
    LIMITS,
    Evidence,
    Exercise,
    Expected,
    Guess,
    GuessedValue,
    Measured,
    after_runs,
    around,
    drawn,
)
from labs.read.readings.buffer_sweep import FULL_PCT
from labs.read.readings.bulk_transfer import bdp_bytes as measured_bdp_bytes
from labs.read.readings.bulk_transfer import predicted, usable_bytes
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, of_the_wait_pct, utilisation_pct
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.defaults import DEFAULT_WMEM, default_core_max_bytes, default_rmem
from labs.read.theory.mathis import mathis_bytes_s
from labs.read.theory.windows import granted_bytes, receive_window_bytes, send_bound_bytes

START, BUFFERS, WINDOWS = "00-start-here", "01-buffers-and-bdp", "08-windows-kernels-and-loss"
COMPARED = "06-kernels-compared"
WITNESSES = "07-two-witnesses"
LINK = Parameters()
"""The link that the exercises refer to: the lab's default."""
FILE_BYTES = LINK.transfer_mib * MIB
DELAYS_MS = (22.0, 26.0, 30.0)
"""Delays around the one at which the default buffers stop being sufficient."""
BUFFERS_MIB = (41.0, 45.6)
"""Sizes around the smallest buffer that fills the link."""
Sizes = tuple[int, int, int]
RAISED: Sizes = (*DEFAULT_WMEM[:2], round(LINK.buffer_mib * MIB))
STOP_AND_WAIT = "A1.18"
"""The claim with the article's block, its rate, and the round trip that the article assumed."""
SHARE_SCALE = 2
LOSS_PCT = 0.1
"""The loss of the exercise, at which losses limit reno and not the link."""
REQUESTED_KIB = 128.0
"""What the condition `by-hand` requests."""
GOODPUT = "steady_mib_s"
NEW = "7.2"

# Tolerances in %, below the 4.9 % that MB and MiB differ by unless a reason is given.
EXACT_PCT = 2.0  # answers with two or three digits, and the deviation of the measured link
BOUND_PCT = 4.0  # the bound of a send buffer is known to 2 %; an answer has two digits
SHARE_PCT = 3.0  # two digits, and one packet's memory is missing from the window
HEADERS_PCT = 5.0  # counting the BDP with or without headers makes 4.6 %
DRAWS_PCT = 10.0  # losses are random, and other constants than 1.31 are in use for the formula

PER_ROUND_TRIP = "what the default buffers admit per round trip, with headers or as a BDP"
WINDOW_ALONE = "This is the limit of the receive window alone. The send buffer admits less."
WHOLE_BUFFER = "This counts the whole send buffer as payload. What it admits is send_bytes."
CAPPED = "The request is capped by net.core.rmem_max, then doubled."


def link_of(runs: Evidence, usual_ms: float = LINK.delay_ms) -> dict[str, float]:
    """Rate and delay of the link that a question is about."""
    usual = {"rate_mbit": LINK.rate_mbit, "delay_ms": usual_ms}
    return {name: drawn(runs, name, value) for name, value in usual.items()}


def download(
    runs: Evidence, link: Mapping[str, float], rmem: Sizes, wmem: Sizes, scale: int = 1
) -> Flow:
    """A download with these buffers on the exercise's kernel, as the model takes it."""
    return Flow(
        rate_mbit=link["rate_mbit"],
        rtt_ms=link["delay_ms"],
        kernel=runs.kernel,
        tcp_rmem=rmem,
        tcp_wmem=wmem,
        adv_win_scale=scale,
        **of_client(LINK.client, FILE_BYTES, LINK.read_bytes),
    )


def limit_of(
    condition: str, wmem: Sizes, usual_ms: float = LINK.delay_ms
) -> Callable[[Evidence], Expected]:
    """What limits a run of a condition, or in theory if there is none."""

    def limit(runs: Evidence) -> Expected:
        link = link_of(runs, usual_ms)
        measured = runs.measured(condition, "bound", **link)
        theory = predicted(download(runs, link, default_rmem(runs.kernel), wmem), FILE_BYTES)
        checked = after_runs("the smallest of the limits", measured)
        return Expected(checked, choice=measured.value or theory.bound)

    return limit


def shares_pct(
    runs: Evidence, condition: str, name: str, values: Sequence[float], **link: float
) -> dict[float, float]:
    """The steady goodput in % of the link's, by the values of a parameter that have a run."""
    shares = {}
    for value in values:
        parameters = {name: value, **link}
        if (run := runs.run(condition, **parameters)) is not None:
            speed = runs.measured(condition, GOODPUT, **parameters).value or 0.0
            rate_mbit = run.link.measured.rate_mbit or LINK.rate_mbit
            shares[value] = 100 * speed * MIB / line_goodput_bytes_s(rate_mbit)
    return shares


def measured_bdp_mib(runs: Evidence, **link: float) -> Measured:
    """The BDP of the link of `default`, as its run measured it."""
    run = runs.run(DEFAULT, **link)
    return Measured() if run is None else Measured(run.name, measured_bdp_bytes(run)).per(MIB)


def needed_mib(runs: Evidence) -> float:
    """The smallest buffer, for both ends, that the model says fills the link."""
    link = link_of(runs)
    needed = advise(link["rate_mbit"], link["delay_ms"], runs.kernel)
    return max(needed.receive_bytes, needed.send_bytes) / MIB


def bdp_mib(runs: Evidence) -> Expected:
    """The BDP of the link with a short delay, as requested and as measured before `default`: at the
    rate of the link, or at that of the payload."""
    link = link_of(runs, DELAYS_MS[0])
    (rate_mbit, delay_ms), usual_ms = link.values(), LINK.delay_ms
    payload_mib = line_goodput_bytes_s(rate_mbit) * delay_ms / 1e3 / MIB
    right = (bdp_bytes(rate_mbit, delay_ms) / MIB, payload_mib, measured_bdp_mib(runs, **link))
    return around(*right, pct=EXACT_PCT, checked="rate x RTT").mistake(
        bdp_bytes(rate_mbit, usual_ms) / MIB, f"This is the BDP at {usual_ms:g} ms."
    )


def longest_rtt_ms(runs: Evidence) -> Expected:
    """The longest RTT at which default buffers fill the link: the payload that the smaller one
    admits, divided by the payload's rate or, as in the BDP, by the rate of the link; narrowed by
    the runs at other delays."""
    rate_mbit = link_of(runs)["rate_mbit"]
    full_bytes_s = line_goodput_bytes_s(rate_mbit)
    window_bytes = receive_window_bytes(default_rmem(runs.kernel)[-1], runs.kernel)
    admitted = min(window_bytes, send_bound_bytes(DEFAULT_WMEM[-1], runs.kernel))
    as_bdp = 1e3 * admitted / bdp_bytes(rate_mbit, 1e3)
    shares = shares_pct(runs, DEFAULT, "delay_ms", DELAYS_MS, rate_mbit=rate_mbit)
    seen = "".join(f"; at {ms:g} ms {pct:.0f} % of the link" for ms, pct in shares.items())
    full = [ms for ms, pct in shares.items() if pct >= FULL_PCT]
    low = max([as_bdp * (1 - EXACT_PCT / 100), *full])
    most = 1e3 * admitted / full_bytes_s * (1 + BOUND_PCT / 100)
    high = min([most, *(shares.keys() - {*full})])
    return (
        Expected(f"{DEFAULT}: what the buffers admit over the link's rate{seen}", low, high)
        .mistake(1e3 * DEFAULT_WMEM[-1] / full_bytes_s, WHOLE_BUFFER)
        .mistake(1e3 * window_bytes / full_bytes_s, WINDOW_ALONE)
    )


def httping_ms(runs: Evidence) -> Expected:
    """What httping reports: the handshake, then the request, one round trip each."""
    link = link_of(runs)
    measured, rtt_ms = runs.measured("httping", "httping_ms", **link), link["delay_ms"]
    return around(2 * rtt_ms, measured, pct=EXACT_PCT, checked="two round trips").mistake(
        rtt_ms, "This is one round trip. httping opens a connection first: count the handshake too."
    )


def smallest_buffer_mib(runs: Evidence) -> Expected:
    """The smallest buffer, for both ends, with which one flow fills the link."""
    link = link_of(runs)
    bdp = bdp_bytes(link["rate_mbit"], link["delay_ms"])
    shares = shares_pct(runs, BOTH_RAISED, "buffer_mib", BUFFERS_MIB, **link)
    seen = "".join(f"; {mib:g} MiB: {pct:.0f} % of the link" for mib, pct in shares.items())
    checked = f"the theory of Linux {runs.kernel}{seen}"
    right = around(needed_mib(runs), pct=HEADERS_PCT, checked=checked)
    too_small = [mib for mib, pct in shares.items() if pct < FULL_PCT]
    hint = "This is one BDP. Only a part of a buffer is usable as window."
    return (
        replace(right, low=max([right.low, *too_small]))
        .mistake(bdp / MIB, hint)
        .mistake(bdp / 1e6, hint)
    )


def used_pct(runs: Evidence) -> Expected:
    """The share of the link that a stop-and-wait transfer uses, at the true round trip."""
    figures = article().claim(STOP_AND_WAIT).arguments
    block = figures["block_bytes"], figures["rate_bytes_s"]
    rtt_ms = drawn(runs, "delay_ms", LINK.delay_ms)
    assumed_ms = figures["assumed_rtt_ms"] * rtt_ms / LINK.delay_ms
    assumed = f"This is for an RTT of {assumed_ms:g} ms. httping timed two RTTs: halve its time."
    used, checked = utilisation_pct(*block, rtt_ms), "sending time over sending time plus RTT"
    of_wait = "Sending the block takes time, too: divide by the sending time plus RTT."
    return (
        around(used, pct=EXACT_PCT, checked=checked)
        .mistake(of_the_wait_pct(*block, rtt_ms), of_wait)
        .mistake(utilisation_pct(*block, assumed_ms), assumed)
        .mistake(of_the_wait_pct(*block, assumed_ms), assumed)
    )


def scaled_mib_s(runs: Evidence) -> Expected:
    """Goodput with a receive buffer of one BDP and tcp_adv_win_scale = 2."""
    size = round(ADV_BUFFER_BDP * bdp_bytes(LINK.rate_mbit, LINK.delay_ms) / KIB) * KIB

    def with_scale(scale: int) -> float:
        rmem, wmem = (size, size, size), (4 * size, 4 * size, 4 * size)
        flow = download(runs, link_of(runs), rmem, wmem, scale)
        return predicted(flow, FILE_BYTES).steady_bytes_s / MIB

    measured = runs.measured(f"adv-{SHARE_SCALE}", GOODPUT)
    return (
        around(with_scale(SHARE_SCALE), measured, pct=EXACT_PCT, checked="window / RTT")
        .mistake(with_scale(-SHARE_SCALE), "This is the reserved share, not the usable one.")
        .mistake(with_scale(1), "This is for tcp_adv_win_scale = 1.")
    )


def lossy_mib_s(runs: Evidence) -> Expected:
    """Goodput of reno with losses: by the formula of Mathis, and as measured in several draws."""
    share = LOSS_PCT / 100
    theory = mathis_bytes_s(LOSS_PCT, LOSS_DELAY_MS) / MIB
    names = [f"loss-{LOSS_PCT:g}-reno-{draw}" for draw in range(DRAWS[LINK.size])]
    speeds = [runs.measured(name, GOODPUT).value for name in names]
    measured = [speed for speed in speeds if speed is not None]
    checked = f"MSS / RTT * C / sqrt(p); {len(measured)} runs"
    in_pct, without_root = theory * (share / LOSS_PCT) ** 0.5, theory / share**0.5
    return (
        around(theory, *measured, pct=DRAWS_PCT, checked=checked)
        .mistake(in_pct, "This uses the loss in per cent. Use the share: 0.1 % is 0.001.")
        .mistake(without_root, "Goodput is in inverse proportion to the square root of the loss.")
    )


def granted_kib(runs: Evidence) -> Expected:
    """What getsockopt returns after 128 KiB were requested."""
    granted = runs.measured("by-hand", "receive_most_bytes").per(KIB)
    return around(2 * REQUESTED_KIB, granted, pct=EXACT_PCT, checked="setsockopt doubles").mistake(
        REQUESTED_KIB, "This is what the program requests. The kernel doubles it."
    )


def lowest_rate_mbit(runs: Evidence) -> Expected:
    """The rate of a link that default buffers just fill: what they admit per round trip, with the
    headers on the link."""
    flow = download(runs, link_of(runs), default_rmem(runs.kernel), DEFAULT_WMEM)
    window_bytes, send_bytes = usable_bytes(flow)
    seconds, per_mbit = LINK.delay_ms / 1e3, line_goodput_bytes_s(1.0)
    admitted = min(window_bytes, send_bytes) / seconds
    return (
        around(admitted / per_mbit, 8e-6 * admitted, pct=EXACT_PCT, checked=PER_ROUND_TRIP)
        .mistake(DEFAULT_WMEM[-1] / seconds / per_mbit, WHOLE_BUFFER)
        .mistake(window_bytes / seconds / per_mbit, WINDOW_ALONE)
    )


NEW_BYTES = default_rmem(NEW)[-1]
NEW_WINDOW_MIB = receive_window_bytes(NEW_BYTES, NEW) / MIB
NEW_WINDOW = (
    around(NEW_WINDOW_MIB, pct=SHARE_PCT, checked="the share measured on the first full packets")
    .mistake(NEW_BYTES / 2 / MIB, "A half was the share until 6.5. Now it is measured.")
    .mistake(NEW_BYTES / MIB, "This is the whole buffer. Overhead takes a part of it.")
)


def granted_by(kernel: str) -> Expected:
    """What a request for 1 MiB is granted with the core maximum that the kernel has by default."""
    core_max = default_core_max_bytes(kernel)
    granted = granted_bytes(MIB, core_max, "receive") / KIB
    right = around(granted, pct=EXACT_PCT, checked=f"the core maximum of Linux {kernel}")
    for other in sorted({MIB, 2 * MIB, core_max, 2 * core_max}):
        right = right.mistake(other / KIB, CAPPED)
    return right


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

DEFAULT_LIMIT = limit_of(DEFAULT, DEFAULT_WMEM, DELAYS_MS[0])
RAISED_LIMIT = limit_of(SENDER_RAISED, RAISED)
EXERCISES = (
    Exercise("bdp_mib", START, "the BDP at 22 ms", bdp_mib, "MiB").examined(
        SHORT, "What is the BDP of a link of {rate_mbit:g} Mbit/s and {delay_ms:g} ms, in MiB?"
    ),
    Exercise("limit", START, "what limits default at 22 ms", DEFAULT_LIMIT, "", LIMITS).examined(
        SHORT,
        "What limits a download over that link if both ends run Linux {kernel} with "
        "default buffers: link, receive window or send buffer?",
    ),
    Exercise("longest_rtt_ms", START, "the longest RTT for default", longest_rtt_ms, "ms").examined(
        SHORT, "What is the longest RTT at which such a download fills {rate_mbit:g} Mbit/s, in ms?"
    ),
    Exercise("httping_ms", BUFFERS, "what httping reports", httping_ms, "ms").examined(
        LONG, "What time does httping report at an RTT of {delay_ms:g} ms, in ms?"
    ),
    Exercise("wmem_limit", BUFFERS, "what limits wmem", RAISED_LIMIT, choices=LIMITS).examined(
        LONG,
        "Only the send buffer is enlarged, to 50 MiB. What limits a download over {rate_mbit:g} "
        "Mbit/s and {delay_ms:g} ms with Linux {kernel}: link, receive window or send buffer?",
    ),
    Exercise("buffer_mib", BUFFERS, "the smallest buffer", smallest_buffer_mib, "MiB").examined(
        LONG, "What is the smallest buffer, the same for both ends, that fills this link, in MiB?"
    ),
    Exercise("used_pct", BUFFERS, "use of the link by stop-and-wait", used_pct, "%").examined(
        LONG,
        "A program sends blocks of 1 MB over a link of 100 MB/s and waits for a response "
        "to each. What share of the link does it use at an RTT of {delay_ms:g} ms, in %?",
    ),
    Exercise("scaled_mib_s", WINDOWS, "goodput with another share", scaled_mib_s, "MiB/s"),
    Exercise("lossy_mib_s", WINDOWS, "goodput with losses", lossy_mib_s, "MiB/s"),
    Exercise("granted_kib", WINDOWS, "what setsockopt grants", granted_kib, "KiB"),
    Exercise("new_window_mib", COMPARED, "the largest window on 7.2", NEW_WINDOW, "MiB"),
    Exercise("granted_6_1_kib", COMPARED, "1 MiB requested on 6.1", granted_by("6.1"), "KiB"),
    Exercise("granted_7_2_kib", COMPARED, "1 MiB requested on 7.2", granted_by(NEW), "KiB"),
    Exercise("lowest_rate_mbit", WITNESSES, "rate default just fills", lowest_rate_mbit, "Mbit/s"),
)
LINK_BDP_MIB = bdp_bytes(LINK.rate_mbit, LINK.delay_ms) / MIB
GUESSES = (
    Guess("guess_default_mib_s", START, DEFAULT, GOODPUT),
    Guess("guess_both_mib_s", START, BOTH_RAISED, GOODPUT),
    GuessedValue(
        "guess_bdp_mib", BUFFERS, "MiB", lambda runs: (LINK_BDP_MIB, measured_bdp_mib(runs).value)
    ),
    GuessedValue("guess_buffer_mib", BUFFERS, "MiB", lambda runs: (needed_mib(runs), None)),
    Guess("guess_wmem_mib_s", BUFFERS, SENDER_RAISED, GOODPUT),
    Guess("guess_both_mib_s", BUFFERS, BOTH_RAISED, GOODPUT),
    Guess("guess_scale_2_mib_s", WINDOWS, "adv-2", GOODPUT),
    Guess("guess_scale_minus_2_mib_s", WINDOWS, "adv-m2", GOODPUT),
    *(
        Guess(f"guess_{kernel.replace('.', '_')}_mib_s", COMPARED, SENDER_RAISED, GOODPUT, kernel)
        for kernel in SERIES
    ),
    # Both witnesses should agree; what machines measure is theirs.
    *(
        GuessedValue(f"guess_{name}_ratio", WITNESSES, "ratio", lambda _: (1.0, None))
        for name in (DEFAULT, BOTH_RAISED)
    ),
)
