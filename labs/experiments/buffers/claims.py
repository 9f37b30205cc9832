"""The judging functions of article 1 for which no rule fits: the smallest buffer of a sweep, samples
of a growing window, default sizes, and draws of random losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from pandas import DataFrame

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import MB, MIB, bytes_carried
from labs.experiments.buffers.conditions import ALGORITHMS
from labs.experiments.buffers.results import SYSCTL
from labs.experiments.buffers.socket_buffers import parameter, window
from labs.experiments.buffers.sweep import FULL_PCT, NEARLY_FULL_PCT, Smallest, smallest
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.ledger import Claim
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, UNDECIDED, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.windows import receive_window_bytes

__all__ = ["JUDGES", "parameter"]

SCALE = "net.ipv4.tcp_adv_win_scale"
NEAR = 0.05
"""How close a sample must be to the article's sample, by the bytes received until then."""
HOSTS = {"rmem": ("client", "server"), "wmem": ("server", "client")}
"""Which host's value counts for a sysctl: rmem is the receiver's, wmem the sender's."""
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


def buffer_needed(claim: Claim, seen: Evidence) -> Finding:
    """The smallest buffer of the sweep that fills the link, and the BDP at the true RTT."""
    names = seen.matching(*claim.conditions)
    table = DataFrame([seen.row(name) for name in names])
    # One size at both ends, by sysctl, as in the article; setsockopt is the second series.
    table = table[table["series"] == SYSCTL]
    answers = smallest(table)
    if not answers:
        return not_judged("needs a sweep by sysctl in steady state")
    found = answers[0]
    if found.buffer_bytes is None:
        return not_judged(f"no buffer of the sweep reaches {FULL_PCT:g} % of the line rate")
    theory = smallest(table.assign(steady_mib_s=table["predicted_mib_s"]))[0].buffer_bytes
    believed, bdp, needed = (claim.figure, found.bdp_bytes / MB, (found.buffer_bytes / MB))
    edges = [believed * (1 + sign * claim.allowed) for sign in (-1, 1)]
    if between := [edge for edge in edges if (found.below_bytes or 0) / MB < edge < needed]:
        return not_judged(f"needs a sweep with a size near {between[0]:g} MB")
    right = abs(needed / believed - 1) <= claim.allowed
    reasoned = abs(bdp / believed - 1) <= claim.allowed
    suffices = believed >= needed
    rtt_ms = float(table["rtt_ms"].iloc[0])
    enough = str(table.loc[table["buffer_bytes"] == found.buffer_bytes, "condition"].iloc[0])
    verdict = (HOLDS if reasoned else RIGHT_NUMBER) if right else DIFFERS if suffices else WRONG
    return Finding(
        verdict=verdict,
        factor=needed / believed if verdict == DIFFERS else None,
        measured=needed,
        predicted=None if theory is None else theory / MB,
        reason=("" if right else _sufficient(believed, needed))
        + f"the RTT is {rtt_ms:.1f} ms, so the BDP is {bdp:.1f} MB; the smallest "
        f"buffer of the sweep that reaches {FULL_PCT:g} % of the line rate is "
        f"{needed:.1f} MB, {needed / bdp:.2f} times the BDP{_next_below(found)}; "
        f"{_of_the_limit(found, smallest(table, NEARLY_FULL_PCT)[0])}{_share(seen, enough)}",
    )


def _of_the_limit(found: Smallest, lower: Smallest) -> str:
    """How far the answer depends on the share of the line that counts as full."""
    if found.below_pct is None or lower.buffer_bytes is None:
        return ""
    return (
        f"it is the same for every limit above {found.below_pct:.2f} up to "
        f"{found.of_the_line_pct:.2f} %, and {lower.buffer_bytes / MB:.2f} MB for "
        f"{NEARLY_FULL_PCT:g} %; "
    )


def _sufficient(believed: float, needed: float) -> str:
    """Whether the size that an article computed is enough, and by how much."""
    if believed < needed:
        return f"not sufficient: {needed:.1f} MB are needed; "
    return f"sufficient, {believed / needed:.2f} times what is needed, for a wrong reason; "


def _next_below(found: Smallest) -> str:
    if found.below_bytes is None:
        return " (there is no smaller one in the sweep)"
    return (
        f" (the next smaller one, {found.below_bytes / MB:.1f} MB, reaches {found.below_pct:.1f} %)"
    )


def _share(seen: Evidence, name: str) -> str:
    """The share of the buffer that becomes window, as measured with the buffer that suffices."""
    found, kernel = window(seen.run(name)), seen.run(name).kernel.release
    if found is None or not found.receive_buffer_bytes:
        return f"measured on {kernel}"
    share = found.offered_bytes / found.receive_buffer_bytes
    return f"on {kernel} {100 * share:.0f} % of a receive buffer becomes window"


def share_of_scale(scale: int) -> float:
    """The share of a receive buffer that becomes window by the rule of tcp_adv_win_scale.

    Source: include/net/tcp.h tcp_win_from_space(), up to 6.5.
    """
    return float(2**scale if scale <= 0 else 1 - 2**-scale)


def window_share(claim: Claim, seen: Evidence) -> Finding:
    """The window's share of the receive buffer, by the setting of tcp_adv_win_scale."""
    measured: dict[str, float] = {}
    predicted: dict[str, float] = {}
    fits = True
    names = seen.matching(*claim.conditions)
    for name in names:
        run = seen.run(name)
        rows = _client(run)
        scale = int(run.sysctls["client"]["after"].get(SCALE, "1"))
        if rows.empty:
            return not_judged(f"{name} ended before its window was sampled")
        window, buffer = (
            int(rows[column].iloc[-1]) for column in ("rcv_ssthresh_bytes", "rcvbuf_bytes")
        )
        measured[str(scale)] = window / buffer
        predicted[str(scale)] = (
            receive_window_bytes(buffer, run.kernel.release, adv_win_scale=scale) / buffer
        )
        # One segment is always missing from the window.
        fits &= (
            abs(measured[str(scale)] - share_of_scale(scale)) <= claim.allowed + MSS_BYTES / buffer
        )
    return _of_shares(claim, seen.run(names[0]), _by_scale(measured), _by_scale(predicted), fits)


def _by_scale(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(shares.items(), key=lambda item: int(item[0])))


def _of_shares(
    claim: Claim, run: Run, measured: dict[str, float], predicted: dict[str, float], fits: bool
) -> Finding:
    """The verdict on the rule, from the measured shares."""
    kernel = run.kernel.release
    ignored = max(measured.values()) - min(measured.values()) <= claim.allowed
    figures: dict[str, Any] = {
        "measured": measured,
        "predicted": predicted,
        "judged": len(measured.keys() & claim.figures.keys()),
    }
    if len(measured) < 2 or (fits and ignored):
        return not_judged("needs two settings of tcp_adv_win_scale that differ in their share")
    if fits:
        reason = f"on {kernel} each share matches the rule"
        return Finding(verdict=HOLDS, reason=reason, **figures)
    shares = ", ".join(map(in_digits, measured.values()))
    reason = (
        f"on {kernel} the share is {in_digits(max(measured.values()))}, whatever the setting"
        if ignored
        else f"on {kernel} the shares are {shares}"
    )
    return Finding(verdict=WRONG, reason=reason, **figures)


def growth(claim: Claim, seen: Evidence) -> Finding:
    """rcv_space and rcv_ssthresh after as many bytes as at the article's three samples."""
    name = seen.matching(*claim.conditions)[0]
    run = seen.run(name)
    rows = _client(run)
    if rows.empty:
        return not_judged(f"{name} ended before its window was sampled")
    wanted = claim.figures
    measured: dict[str, float] = {}
    for look, received in enumerate(claim.arguments["received_bytes"], start=1):
        measured |= _at(rows, received, look)
    judged = [what for what in wanted if what not in claim.shown]
    missing = [what for what in judged if what not in measured]
    if missing:
        return not_judged(f"no sample of {name} is close enough to measure {', '.join(missing)}")
    buffer = int(rows["rcvbuf_bytes"].iloc[-1])
    window = receive_window_bytes(buffer, run.kernel.release)
    settled = float(rows["rcv_ssthresh_bytes"].max())
    figures: dict[str, Any] = {
        "measured": measured,
        "predicted": {"rcv_ssthresh, settled": float(window)},
    }
    farthest = max(
        (measured[what] / wanted[what] for what in judged), key=lambda ratio: abs(ratio - 1)
    )
    reason = f"rcv_ssthresh reaches {settled:,.0f}; predicted {window:,}. {_only_shown(claim)}"
    if abs(farthest - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=reason, **figures)
    return Finding(verdict=DIFFERS, factor=farthest, reason=reason, **figures)


def _only_shown(claim: Claim) -> str:
    """Why some of the figures are not judged."""
    return (
        f"{', '.join(claim.shown)}: not judged, because the amount read per round trip depends on "
        "the speed of the author's machine"
    )


def _client(run: Run) -> DataFrame:
    """The samples of the client's socket that contain its window."""
    rows = own_socket(run.samples("client"), "bytes_received")
    if not {"rcv_ssthresh_bytes", "rcv_space_bytes", "rcvbuf_bytes"} <= set(rows):
        return rows.iloc[:0]
    known: DataFrame = rows[rows["rcv_ssthresh_bytes"].notna() & rows["rcvbuf_bytes"].notna()]
    return known


def _at(rows: DataFrame, received: int, look: int) -> dict[str, float]:
    """Values at the last sample with at most `received` bytes; fast-changing ones are left out if
    that sample is too early."""
    until = rows[rows["bytes_received"] <= received * (1 + NEAR)]
    if until.empty:
        return {}
    last = until.iloc[-1]
    found = {
        f"rcv_space {look}": float(last["rcv_space_bytes"]),
        f"rcv_ssthresh {look}": float(last["rcv_ssthresh_bytes"]),
    }
    settled = rows["rcv_ssthresh_bytes"].max() * (1 - NEAR) <= last["rcv_ssthresh_bytes"]
    if settled or abs(last["bytes_received"] / received - 1) <= NEAR:
        return found
    return {}


def defaults(claim: Claim, seen: Evidence) -> Finding:
    """A kernel's default sizes, from hosts on which a run did not set them."""
    wanted = claim.texts
    found = {name: value for name in wanted for value in _untouched(seen, name)[:1]}
    if not found:
        return not_judged(f"needs a run that does not set them: labs run {seen.lab.name}")
    missing = [name for name in wanted if name not in found]
    if missing:
        return not_judged(f"no run has the default of {', '.join(missing)}")
    measured = {name: value for name, (value, _) in found.items()}
    witness = seen.witness([condition for _, condition in found.values()])
    other = [name for name in wanted if measured[name] != wanted[name]]
    kernel = next(seen.run(condition) for _, condition in found.values()).kernel.release
    said = ", ".join(f"{name} is {measured[name]}" for name in other) or "all are equal"
    return Finding(
        verdict=WRONG if other else HOLDS,
        measured=measured,
        witness=witness,
        reason=f"on {kernel} {said}",
    )


def _untouched(seen: Evidence, name: str) -> list[tuple[str, str]]:
    """The values of a sysctl on hosts where the condition did not set it, with the condition."""
    hosts = HOSTS["rmem" if "rmem" in name else "wmem"]
    found = []
    for host in hosts:
        for condition, run in seen.runs.items():
            before = run.sysctls.get(host, {}).get("before", {})
            if name in before and not _sets(run, host, name):
                found.append((" ".join(before[name].split()), condition))
    return found


def _sets(run: Run, host: str, name: str) -> bool:
    """Whether the condition sets it there. Network namespaces have the core maxima in common
    (net/core/sysctl_net_core.c net_core_table): set on one host, they are set on both."""
    by_host: dict[str, Iterable[str]] = run.inputs["condition"]["sysctls"]
    hosts = by_host if name.startswith("net.core.") else (host,)
    return any(name in by_host.get(one, ()) for one in hosts)


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


JUDGES: Mapping[str, Judge] = {
    "buffer_needed": buffer_needed,
    "window_share": window_share,
    "growth": growth,
    "defaults": defaults,
    "bbr_over_cubic": bbr_over_cubic,
    "few_losses": few_losses,
    "buffers_over_choice": buffers_over_choice,
    "where_it_acts": where_it_acts,
}
