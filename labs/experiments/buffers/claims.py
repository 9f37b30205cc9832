"""The judging functions of article 1 for which no rule fits: the smallest buffer of a sweep, the
window by setting, and default sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pandas import DataFrame

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import MB
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.ledger import Claim
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.buffer_sweep import FULL_PCT, NEARLY_FULL_PCT, Smallest, smallest
from labs.read.readings.bulk_transfer import SYSCTL, window
from labs.read.runs.run import Run

HOSTS = {"rmem": ("client", "server"), "wmem": ("server", "client")}
"""Which host's value counts for a sysctl: rmem is the receiver's, wmem the sender's."""

READ = (
    *("condition", "group", "kernel", "series", "settled", "buffer_bytes", "rate_mbit", "rtt_ms"),
    *("steady_mib_s", "steady_bytes_s", "predicted_mib_s"),
)
"""What is read of each point of a sweep."""


def buffer_needed(claim: Claim, seen: Evidence) -> Finding:
    """The smallest buffer of the sweep that fills the link, and the BDP at the true RTT."""
    names = seen.matching(*claim.conditions)
    table = DataFrame([{column: seen.row(name)[column] for column in READ} for name in names])
    # One size at both ends, by sysctl, as in the article; setsockopt is the second series.
    table = table[table["series"] == SYSCTL]
    answers = smallest(table)
    if not answers:
        return not_judged("needs a sweep by sysctl in steady state")
    answer = answers[0]
    if answer.buffer_bytes is None:
        return not_judged(f"no buffer of the sweep reaches {FULL_PCT:g} % of the line rate")
    theory = smallest(table.assign(steady_mib_s=table["predicted_mib_s"]))[0].buffer_bytes
    believed, bdp, needed = (claim.figure, answer.bdp_bytes / MB, (answer.buffer_bytes / MB))
    edges = [believed * (1 + sign * claim.allowed) for sign in (-1, 1)]
    if between := [edge for edge in edges if (answer.below_bytes or 0) / MB < edge < needed]:
        return not_judged(f"needs a sweep with a size near {between[0]:g} MB")
    right = abs(needed / believed - 1) <= claim.allowed
    reasoned = abs(bdp / believed - 1) <= claim.allowed
    suffices = believed >= needed
    rtt_ms = float(table["rtt_ms"].iloc[0])
    enough = str(table.loc[table["buffer_bytes"] == answer.buffer_bytes, "condition"].iloc[0])
    verdict = (HOLDS if reasoned else RIGHT_NUMBER) if right else DIFFERS if suffices else WRONG
    return Finding(
        verdict=verdict,
        factor=needed / believed if verdict == DIFFERS else None,
        measured=needed,
        predicted=None if theory is None else theory / MB,
        reason=("" if right else _sufficient(believed, needed))
        + f"the RTT is {rtt_ms:.1f} ms, so the BDP is {bdp:.1f} MB; the smallest "
        f"buffer of the sweep that reaches {FULL_PCT:g} % of the line rate is "
        f"{needed:.1f} MB, {needed / bdp:.2f} times the BDP{_next_below(answer)}; "
        f"{_of_the_limit(answer, smallest(table, NEARLY_FULL_PCT)[0])}{_share(seen, enough)}",
    )


def _of_the_limit(answer: Smallest, lower: Smallest) -> str:
    """How far the answer depends on the share of the line that counts as full."""
    if answer.below_pct is None or lower.buffer_bytes is None:
        return ""
    return (
        f"it is the same for every limit above {answer.below_pct:.2f} up to "
        f"{answer.of_the_line_pct:.2f} %, and {lower.buffer_bytes / MB:.2f} MB for "
        f"{NEARLY_FULL_PCT:g} %; "
    )


def _sufficient(believed: float, needed: float) -> str:
    """Whether the size that an article computed is enough, and by how much."""
    if believed < needed:
        return f"not sufficient: {needed:.1f} MB are needed; "
    return f"sufficient, {believed / needed:.2f} times what is needed, for a wrong reason; "


def _next_below(answer: Smallest) -> str:
    if answer.below_bytes is None:
        return " (there is no smaller one in the sweep)"
    size = f"{answer.below_bytes / MB:.1f} MB"
    return f" (the next smaller one, {size}, reaches {answer.below_pct:.1f} %)"


def _share(seen: Evidence, name: str) -> str:
    """The share of the buffer that becomes window, as measured with the buffer that suffices."""
    reached, kernel = window(seen.run(name)), seen.run(name).kernel.release
    if reached is None or not reached.receive_buffer_bytes:
        return f"measured on {kernel}"
    share = reached.offered_bytes / reached.receive_buffer_bytes
    return f"on {kernel} {100 * share:.0f} % of a receive buffer becomes window"


def share_of_scale(scale: int) -> float:
    """The share of a receive buffer that becomes window by the rule of tcp_adv_win_scale.

    Source: include/net/tcp.h tcp_win_from_space(), up to 6.5.
    """
    return float(2**scale if scale <= 0 else 1 - 2**-scale)


def window_share(claim: Claim, seen: Evidence) -> Finding:
    """The window's share of the receive buffer, by the setting of tcp_adv_win_scale."""
    rows = {row["adv_win_scale"]: row for row in map(seen.row, seen.matching(*claim.conditions))}
    if unsampled := [row for row in rows.values() if row["window_share"] is None]:
        return not_judged(f"{unsampled[0]['condition']} ended before its window was sampled")
    shares = {scale: row["window_share"] for scale, row in sorted(rows.items())}
    ignored = max(shares.values()) - min(shares.values()) <= claim.allowed
    # One segment is always missing from the window.
    fits = all(
        abs(share - share_of_scale(scale))
        <= claim.allowed + MSS_BYTES / rows[scale]["receive_last_bytes"]
        for scale, share in shares.items()
    )
    if len(shares) < 2 or (fits and ignored):
        return not_judged("needs two settings of tcp_adv_win_scale that differ in their share")
    kernel, largest = next(iter(rows.values()))["kernel"], in_digits(max(shares.values()))
    told = ", ".join(map(in_digits, shares.values()))
    wrong = f"the share is {largest}, whatever the setting" if ignored else f"shares are {told}"
    measured = {str(scale): share for scale, share in shares.items()}
    return Finding(
        verdict=HOLDS if fits else WRONG,
        reason=f"on {kernel} {'each share matches the rule' if fits else wrong}",
        measured=measured,
        predicted={str(scale): rows[scale]["predicted_window_share"] for scale in shares},
        judged=len(measured.keys() & claim.figures.keys()),
    )


def defaults(claim: Claim, seen: Evidence) -> Finding:
    """A kernel's default sizes, from hosts on which a run did not set them."""
    wanted = claim.figures
    values = {name: value for name in wanted for value in _untouched(seen, name)[:1]}
    if not values:
        return not_judged(f"needs a run that does not set them: labs run {seen.lab.name}")
    missing = [name for name in wanted if name not in values]
    if missing:
        return not_judged(f"no run has the default of {', '.join(missing)}")
    measured = {name: value for name, (value, _) in values.items()}
    witness = seen.witness([condition for _, condition in values.values()])
    other = [name for name in wanted if measured[name] != wanted[name]]
    kernel = next(seen.run(condition) for _, condition in values.values()).kernel.release
    phrase = ", ".join(f"{name} is {measured[name]}" for name in other) or "all are equal"
    return Finding(
        verdict=WRONG if other else HOLDS,
        measured=measured,
        witness=witness,
        reason=f"on {kernel} {phrase}",
    )


def _untouched(seen: Evidence, name: str) -> list[tuple[str, str]]:
    """The values of a sysctl on hosts where the condition did not set it, with the condition."""
    hosts = HOSTS["rmem" if "rmem" in name else "wmem"]
    values = []
    for host in hosts:
        for condition, run in seen.runs.items():
            before = run.sysctls.get(host, {}).get("before", {})
            if name in before and not _sets(run, host, name):
                values.append((" ".join(before[name].split()), condition))
    return values


def _sets(run: Run, host: str, name: str) -> bool:
    """Whether the condition sets it there. Network namespaces have the core maxima in common
    (net/core/sysctl_net_core.c net_core_table): set on one host, they are set on both."""
    by_host: dict[str, Iterable[str]] = run.inputs["condition"]["sysctls"]
    hosts = by_host if name.startswith("net.core.") else (host,)
    return any(name in by_host.get(each, ()) for each in hosts)


JUDGES: Mapping[str, Judge] = {
    "buffer_needed": buffer_needed,
    "window_share": window_share,
    "defaults": defaults,
}
