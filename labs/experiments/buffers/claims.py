"""The judging functions of article 1 for which no rule fits: the smallest buffer of a sweep, the
window by setting, and default sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pandas import DataFrame

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import MB
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.ledger import Claim
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.buffer_sweep import FULL_PCT, NEARLY_FULL_PCT, smallest
from labs.read.readings.bulk_transfer import SYSCTL, window

READ = (
    *("condition", "group", "kernel", "series", "settled", "buffer_bytes", "rate_mbit", "rtt_ms"),
    *("steady_mib_s", "steady_bytes_s", "predicted_mib_s"),
)
"""What is read of each point of a sweep."""


def buffer_needed(claim: Claim, seen: Evidence) -> Finding:
    """The smallest buffer of the sweep that fills the link, and the BDP at the true RTT."""
    rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    table = DataFrame([{column: row[column] for column in READ} for row in rows])
    # One size at both ends, by sysctl, as in the article; setsockopt is the second series.
    table = table[table["series"] == SYSCTL]
    answer = next(iter(smallest(table)), None)
    if answer is None:
        return not_judged("needs a sweep by sysctl in steady state")
    if answer.buffer_bytes is None:
        return not_judged(f"no buffer of the sweep reaches {FULL_PCT:g} % of the line rate")
    predicted = smallest(table.assign(steady_mib_s=table["predicted_mib_s"]))[0].buffer_bytes
    believed, bdp, needed = claim.figure, answer.bdp_bytes / MB, answer.buffer_bytes / MB
    below = (answer.below_bytes or 0) / MB
    edges = [believed * (1 - claim.allowed), believed * (1 + claim.allowed)]
    if between := [edge for edge in edges if below < edge < needed]:
        return not_judged(f"needs a sweep with a size near {between[0]:g} MB")
    reason, verdict = "", HOLDS
    if needed > edges[1]:
        reason, verdict = f"not sufficient: {needed:.1f} MB are needed; ", WRONG
    elif needed < edges[0]:
        times = f"{believed / needed:.2f} times what is needed"
        reason, verdict = f"sufficient, {times}, for a wrong reason; ", DIFFERS
    elif not edges[0] <= bdp <= edges[1]:
        verdict = RIGHT_NUMBER
    smaller = " (there is no smaller one in the sweep)"
    if answer.below_pct is not None:
        lower = (smallest(table, NEARLY_FULL_PCT)[0].buffer_bytes or 0) / MB
        smaller = (
            f" (the next smaller one, {below:.1f} MB, reaches {answer.below_pct:.1f} %); it is the "
            f"same for every limit above {answer.below_pct:.2f} up to "
            f"{answer.of_the_line_pct:.2f} %, and {lower:.2f} MB for {NEARLY_FULL_PCT:g} %"
        )
    enough = table.loc[table["buffer_bytes"] == answer.buffer_bytes, "condition"].iloc[0]
    reason += (
        f"the RTT is {table['rtt_ms'].iloc[0]:.1f} ms, so the BDP is {bdp:.1f} MB; the smallest "
        f"buffer of the sweep that reaches {FULL_PCT:g} % of the line rate is {needed:.1f} MB, "
        f"{needed / bdp:.2f} times the BDP{smaller}; {_share(seen, enough)}"
    )
    return Finding(
        verdict=verdict,
        factor=needed / believed if verdict == DIFFERS else None,
        measured=needed,
        predicted=predicted and predicted / MB,
        reason=reason,
    )


def _share(seen: Evidence, name: str) -> str:
    """The share of the buffer that becomes window, as measured with the buffer that suffices."""
    reached, kernel = window(seen.run(name)), seen.run(name).kernel.release
    if reached is None or not reached.receive_buffer_bytes:
        return f"measured on {kernel}"
    share = reached.offered_bytes / reached.receive_buffer_bytes
    return f"on {kernel} {100 * share:.0f} % of a receive buffer becomes window"


def window_share(claim: Claim, seen: Evidence) -> Finding:
    """The window's share of the receive buffer, by the setting of tcp_adv_win_scale."""
    found_rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    rows = {str(row["adv_win_scale"]): row for row in found_rows}
    shares = {scale: rows[scale]["window_share"] for scale in sorted(rows, key=int)}
    if None in shares.values():
        unsampled = next(row for row in found_rows if row["window_share"] is None)
        return not_judged(f"{unsampled['condition']} ended before its window was sampled")
    least, most = min(shares.values()), max(shares.values())
    # One segment is always missing from the window.
    fits = all(
        abs(share - claim.figures[scale])
        <= claim.allowed + MSS_BYTES / rows[scale]["receive_last_bytes"]
        for scale, share in shares.items()
    )
    ignored = most - least <= claim.allowed
    if len(shares) < 2 or (fits and ignored):
        return not_judged("needs two settings of tcp_adv_win_scale that differ in their share")
    wrong = f"shares are {', '.join(map(in_digits, shares.values()))}"
    if ignored:
        wrong = f"the share is {in_digits(most)}, whatever the setting"
    text = "each share matches the rule" if fits else wrong
    return Finding(
        verdict=HOLDS if fits else WRONG,
        reason=f"on {found_rows[0]['kernel']} {text}",
        measured=shares,
        predicted={scale: rows[scale]["predicted_window_share"] for scale in shares},
        judged=len(shares),
    )


def defaults(claim: Claim, seen: Evidence) -> Finding:
    """A kernel's default sizes, from hosts on which a run did not set them."""
    chosen = {name: next(_untouched(seen, name), ("", "")) for name in claim.figures}
    missing = [name for name, (value, _) in chosen.items() if not value]
    if missing:
        lacking = f"no run has the default of {', '.join(missing)}"
        return not_judged(f"{lacking}: labs run {seen.lab.name}")
    measured = {name: value for name, (value, _) in chosen.items()}
    other = [name for name, wanted in claim.figures.items() if measured[name] != wanted]
    phrase = ", ".join(f"{name} is {measured[name]}" for name in other) or "all are equal"
    conditions = [condition for _, condition in chosen.values()]
    return Finding(
        verdict=WRONG if other else HOLDS,
        measured=measured,
        witness=seen.witness(conditions),
        reason=f"on {seen.row(conditions[0])['kernel']} {phrase}",
    )


def _untouched(seen: Evidence, name: str) -> Iterator[tuple[str, str]]:
    """The values of a sysctl on hosts where the condition did not set it, with the condition;
    first those of the receiver for rmem, of the sender for wmem. Network namespaces have the core
    maxima in common (net/core/sysctl_net_core.c net_core_table): set on one host, they are set on
    both."""
    for host in ("client", "server") if "rmem" in name else ("server", "client"):
        for condition, run in seen.runs.items():
            asked = run.inputs["condition"]["sysctls"]
            sets = asked if name.startswith("net.core.") else {host}
            before = run.sysctls.get(host, {}).get("before", {})
            if name in before and not any(name in asked.get(each, ()) for each in sets):
                yield " ".join(before[name].split()), condition


JUDGES: Mapping[str, Judge] = {
    "buffer_needed": buffer_needed,
    "window_share": window_share,
    "defaults": defaults,
}
