"""Judging functions: congestion controls under random loss.

Losses are chance: a verdict needs `DRAWS` draws of each loss and congestion control. It holds if it
holds in every draw, and is undecided if it holds in some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import MIB, bytes_carried
from labs.experiments.buffers.conditions import ALGORITHMS
from labs.read.claims.evidence import Evidence
from labs.read.claims.rules import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HOLDS, UNDECIDED, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run
from labs.read.theory.bdp import line_goodput_bytes_s

DRAWS = 5
SLOW_START, RECOVERY, AVOIDANCE = "slow start", "fast recovery", "congestion avoidance"
PHASES = (SLOW_START, RECOVERY, AVOIDANCE)
RECOVERING = (2, 3, 4)
"""TCP_CA_CWR, TCP_CA_Recovery and TCP_CA_Loss (include/uapi/linux/tcp.h)."""
UNRAISED = "default buffers"
"""What stands for the congestion control of the downloads whose buffers the kernel sizes."""

Speeds = Mapping[float, Mapping[str, Mapping[int, float]]]
"""Goodput in MiB/s by loss in %, congestion control and draw."""
Ratios = Mapping[float, list[float]]
"""A ratio of every draw, by loss in %."""


def bbr_over_cubic(claim: Claim, seen: Evidence) -> Finding:
    """The goodput of one control over that of another at each loss, whatever the draws."""
    faster, slower = claim.arguments["faster"], claim.arguments["slower"]
    found = _speeds(claim, seen)
    if lacking := _lacking(found, (faster, slower)):
        return not_judged(f"needs {lacking} too: labs run {seen.lab.name} --size full")
    above = [
        one > other
        for of_loss in found.values()
        for one in of_loss[faster].values()
        for other in of_loss[slower].values()
    ]
    return Finding(
        verdict=_of_draws(above),
        measured={
            f"{loss_pct:g} % loss": median(one[faster].values()) / median(one[slower].values())
            for loss_pct, one in found.items()
        },
        reason=_ranges(found),
    )


def few_losses(claim: Claim, seen: Evidence) -> Finding:
    """The fastest control over the slowest in each draw, on the article's link."""
    found = _speeds(claim, seen)
    if (finding := _unfit(claim, found, seen, ALGORITHMS)) is not None:
        return finding
    choice = _of_each_draw(found, _choice)
    few = _few(claim, found)
    told = "; ".join(
        f"at {_losses(claim, seen, loss)} by a factor of {_in_words(choice[loss])}" for loss in few
    )
    return Finding(
        verdict=_of_draws(ratio - 1 <= claim.allowed for ratio in choice[max(few)]),
        measured={f"{loss:g} % loss": median(ratios) for loss, ratios in choice.items()},
        reason=f"the slowest and the fastest of {', '.join(ALGORITHMS)} differ {told}. "
        f"Judged at {max(few):g} %. {_ranges(found)[0].upper()}{_ranges(found)[1:]}",
    )


def buffers_over_choice(claim: Claim, seen: Evidence) -> Finding:
    """What raising the buffers gains, over what the choice of the control gains, in each draw."""
    found = _speeds(claim, seen)
    if (finding := _unfit(claim, found, seen, (*ALGORITHMS, UNRAISED))) is not None:
        return finding
    choice, raised = _of_each_draw(found, _choice), _of_each_draw(found, _raised)
    more = {
        loss: [one / other for one, other in zip(raised[loss], choice[loss], strict=True)]
        for loss in found
    }
    few = _few(claim, found)
    told = "; ".join(
        f"at {_losses(claim, seen, loss)} the buffers (cubic, raised or not) change goodput by a "
        f"factor of {_in_words(raised[loss])}, the choice with raised buffers by "
        f"{_in_words(choice[loss])}"
        for loss in few
    )
    return Finding(
        verdict=_of_draws(ratio > 1 for ratio in more[max(few)]),
        measured={f"{loss:g} % loss": median(ratios) for loss, ratios in more.items()},
        reason=f"{told}. Judged at {max(few):g} %. {_ranges(found)[0].upper()}{_ranges(found)[1:]}",
    )


def _unfit(claim: Claim, found: Speeds, seen: Evidence, labels: tuple[str, ...]) -> Finding | None:
    """Why the draws of few losses cannot be judged; None if they can."""
    what = _lacking(found, labels)
    what = what or ("" if _few(claim, found) else "a loss of a few packets per download")
    return not_judged(f"needs {what} too: labs run {seen.lab.name} --size full") if what else None


def _few(claim: Claim, found: Iterable[float]) -> list[float]:
    """The losses that are still few: of the article's download at most `few` packets are lost."""
    return [loss for loss in found if 0 < _per_download(claim, loss) <= claim.arguments["few"]]


def _per_download(claim: Claim, loss_pct: float) -> float:
    return float(loss_pct / 100 * claim.arguments["download_mib"] * MIB / MSS_BYTES)


def _losses(claim: Claim, seen: Evidence, loss_pct: float) -> str:
    """A loss in words, with the packets lost per BDP of the link and per download."""
    row = seen.row(seen.matching(*claim.conditions)[0])
    in_flight = bytes_carried(row["rate_mbit"], row["rtt_ms"]) / MSS_BYTES
    return (
        f"{loss_pct:g} % loss ({loss_pct / 100 * in_flight:.2g} losses per BDP, "
        f"{_per_download(claim, loss_pct):.1g} per download)"
    )


def _choice(of_draw: Mapping[str, float]) -> float:
    """The fastest congestion control over the slowest."""
    speeds = [of_draw[control] for control in ALGORITHMS]
    return max(speeds) / min(speeds)


def _raised(of_draw: Mapping[str, float]) -> float:
    """Cubic with raised buffers over cubic with those that the kernel sizes."""
    return of_draw["cubic"] / of_draw[UNRAISED]


def _of_each_draw(found: Speeds, ratio: Callable[[Mapping[str, float]], float]) -> Ratios:
    return {
        loss: [
            ratio({label: speeds[draw] for label, speeds in one.items() if draw in speeds})
            for draw in sorted(set.intersection(*(set(speeds) for speeds in one.values())))
        ]
        for loss, one in found.items()
    }


def _of_draws(fits: Iterable[bool]) -> str:
    """The verdict of several draws."""
    each = list(fits)
    return HOLDS if all(each) else UNDECIDED if any(each) else WRONG


def _speeds(claim: Claim, seen: Evidence) -> Speeds:
    """Runs without a figure are omitted, so their draw counts as missing."""
    found: dict[float, dict[str, dict[int, float]]] = {}
    unraised = seen.matching(claim.arguments.get("unraised", ""))
    for name in seen.matching(*claim.conditions):
        row = seen.row(name)
        if row["goodput_mib_s"] is None:
            continue
        label = UNRAISED if name in unraised else row["congestion_control"]
        of_loss = found.setdefault(row["loss_pct"], {})
        of_loss.setdefault(label, {})[row["draw"]] = float(row["goodput_mib_s"])
    return dict(sorted(found.items()))


def _lacking(found: Speeds, labels: tuple[str, ...]) -> str:
    """What has too few draws, in words; without loss nothing is drawn."""
    return ", ".join(
        f"{needed} of {label} at {loss_pct:g} % loss"
        for loss_pct, one in found.items()
        for label in labels
        for least, needed in [(DRAWS, f"{DRAWS} draws") if loss_pct else (1, "a run")]
        if len(one.get(label, ())) < least
    )


def _in_words(values: Iterable[float]) -> str:
    """The median and the range: 3.9 (3.1 to 4.5); a single value as it is."""
    every = [round(value, 2) for value in values]
    if len(every) == 1:
        return in_digits(every[0])
    return f"{in_digits(median(every))} ({in_digits(min(every))} to {in_digits(max(every))})"


def _ranges(found: Speeds) -> str:
    """The median and range of each control's draws at each loss, in words."""
    return "goodput in MiB/s, median (range): " + "; ".join(
        f"at {loss_pct:g} % loss ({_draws(one)}) "
        + ", ".join(f"{label} {_in_words(drawn.values())}" for label, drawn in one.items())
        for loss_pct, one in found.items()
    )


def _draws(of_loss: Mapping[str, Mapping[int, float]]) -> str:
    """How many draws each control has at a loss: 5 draws."""
    counts = {len(drawn) for drawn in of_loss.values()}
    said = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    return "1 draw" if counts == {1} else f"{said} draws"


def where_it_acts(claim: Claim, seen: Evidence) -> Finding:
    """The part of the slower control's additional time in which its kernel was in slow start or in
    fast recovery, in each draw; the rest is congestion avoidance.

    A control loses time where it delivers less than the line carries; its phase is that of the
    sampled socket: recovery by tcpi_ca_state, slow start by cwnd < ssthresh.
    """
    slower, faster = claim.arguments["slower"], claim.arguments["faster"]
    lost: dict[tuple[str, int], Mapping[str, float]] = {}
    for name in seen.matching(*claim.conditions):
        row = seen.row(name)
        if row["congestion_control"] in (slower, faster):
            lost[row["congestion_control"], row["draw"]] = _lost_s(seen.run(name))
    draws = sorted(draw for control, draw in lost if control == slower and (faster, draw) in lost)
    if len(draws) < DRAWS:
        return not_judged(f"needs {DRAWS} draws of {slower} and {faster}")
    more = [
        {phase: lost[slower, draw][phase] - lost[faster, draw][phase] for phase in PHASES}
        for draw in draws
    ]
    shares = [100 * (sum(one.values()) - one[AVOIDANCE]) / sum(one.values()) for one in more]
    told = ", ".join(f"{phase} {_in_words(one[phase] for one in more)} s" for phase in PHASES)
    return Finding(
        verdict=_of_draws(share > claim.figure for share in shares),
        measured=median(shares),
        reason=f"time that {slower} loses beyond {faster}, each compared with a full link, median "
        f"(range) of {len(draws)} draws: {told}",
    )


def _lost_s(run: Run) -> Mapping[str, float]:
    """How much longer a download took than a full line would, by the phase of its sender."""
    rows = own_socket(run.samples("server"), "bytes_acked")
    slow_start = rows["snd_cwnd_segments"] < rows["snd_ssthresh_segments"]
    phases = slow_start.map({True: SLOW_START, False: AVOIDANCE})
    phases = phases.mask(rows["ca_state"].isin(RECOVERING), RECOVERY)
    line = line_goodput_bytes_s(float(run.link.measured.rate_mbit or 0.0))
    # What happens until the next sample belongs to the phase of this one.
    took_s = rows["at_ns"].diff().shift(-1) / 1e9
    lost_s = took_s - rows["bytes_acked"].diff().shift(-1) / line
    return {phase: float(lost_s[phases == phase].sum()) for phase in PHASES}
