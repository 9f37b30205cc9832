"""Write docs/bbr-draft.md: what BBR of mainline, version 1, does in the test cases of the draft.

labs run docs/recipes/bbr_draft.py --kernel 5.10,6.1,6.12,7.2 --into runs
python3 docs/bbr_draft.py runs

bbr_draft.toml has the cases and the words; a1 to a22 judge the cases by their runs.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labs.guest.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.read.readings import bbr_phases, bottleneck
from labs.read.readings.bbr_phases import CRUISE, DOWN, DRAIN, PROBE_BW, PROBE_RTT, STARTUP, UP
from labs.read.readings.flows import traffic_of
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.readings.bbr_phases import Phase

FOLDER = Path(__file__).resolve().parent
PAGE, LEDGER = FOLDER / "bbr-draft.md", FOLDER / "bbr_draft.toml"
SHOWN_KERNEL = "6.1"
CLOSE, LOSS_LIMIT_PCT = 0.02, 2
"""How close an estimate has to be to the link's rate (A.1), and the draft's LossThresh."""
BUDGET_SEGMENTS = 8
"""What bbr_quantization_budget adds to a BDP at these rates, at most."""
LEAVING_SEGMENTS = 6
"""What bbr_packets_in_net_at_edt subtracts: arrivals until the next packet leaves, at most."""
LONG_S = 99.0
MEETS, PART, MISSES, LACKS = "meets it", "in part", "does not", "has no such mechanism"
Check = tuple[bool, *tuple[float | str, ...]]
"""Whether a part of the criterion is met, and the figures for its words in the ledger."""
Checks = Iterator[Check]
NOT_THERE: Check = (False,)
"""A part about a variable that version 1 does not have."""


@dataclass(frozen=True)
class Seen:
    """A run as the judges see it."""

    run: Run

    @cached_property
    def samples(self) -> DataFrame:
        return bbr_phases.flow_samples(self.run)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        return bbr_phases.phases(self.samples)

    def named(self, state: str, from_s: float = 0, until_s: float = LONG_S) -> list[int]:
        """The places of the phases with this state that begin between two moments."""
        numbered = enumerate(self.phases)
        return [
            i for i, phase in numbered if phase.state == state and from_s <= phase.begin_s < until_s
        ]

    def after(self, t_s: float, until_s: float = LONG_S) -> DataFrame:
        return self.samples[self.samples["t_s"].between(t_s, until_s)]

    def change_s(self, place: int = 0) -> float:
        return traffic_of(self.run).path.changes[place].at_s

    def used_pct(self, from_s: float, until_s: float) -> float:
        """The delivery rate as a share of what the link carries in the end."""
        part = self.after(from_s, until_s)
        mbit = 8 * MSS_BYTES * grown(part, "delivered_segments") / grown(part, "t_s") / 1e6
        return 100 * mbit / self.link_mbit

    @cached_property
    def link_mbit(self) -> float:
        """What the bottleneck carries in the end: data without headers."""
        path = traffic_of(self.run).path
        return bottleneck.rate_mbit_at(path, "down", LONG_S) * MSS_BYTES / FRAME_BYTES

    @cached_property
    def bdp_segments(self) -> float:
        return self.link_mbit * 1e3 * traffic_of(self.run).path.rtt_ms / 8 / MSS_BYTES


def grown(samples: DataFrame, column: str = "rounds") -> float:
    return float(samples[column].iloc[-1] - samples[column].iloc[0]) if len(samples) else 0.0


def resent_pct(samples: DataFrame) -> float:
    return 100 * grown(samples, "bytes_retrans") / grown(samples, "bytes_sent")


def last(samples: DataFrame, *columns: str) -> list[float]:
    return [float(samples[column].iloc[-1]) for column in columns]


def at_bdp(seen: Seen, places: list[int]) -> Check:
    """Whether no more than one BDP is in flight when these phases have ended."""
    starts = [seen.phases[i + 1].samples.iloc[0] for i in places]
    columns = ("in_flight_segments", "bdp_segments")
    left, bdp = (median(float(start[column]) for start in starts) for column in columns)
    more = BUDGET_SEGMENTS + LEAVING_SEGMENTS
    return left <= ceil(bdp) + more, left, bdp, more


def ends_on_loss(seen: Seen, loss_s: float) -> Checks:
    """Each phase of probing up ends within a round of a loss that follows its first minimum RTT."""
    lasts, states = [], set()
    for place in (i for i in seen.named(UP)[:-1] if seen.phases[i].end_s > loss_s):
        up, then = seen.phases[place], seen.phases[place + 1]
        samples = seen.after(up.begin_s, then.begin_s)  # with the first of the next phase
        lost = samples["bytes_retrans"] / MSS_BYTES + samples["lost_segments"]
        lost -= samples["retrans_segments"]
        full_s = max(up.begin_s + float(samples["bbr_min_rtt_us"].iloc[0]) / 1e6, loss_s)
        at_first = lost[samples["t_s"] < full_s].iloc[-1]
        late = samples[(lost > at_first) & (samples["t_s"] >= full_s)]
        if len(late):
            lasts.append(grown(late))
            states.add(then.state)
    yield bool(lasts) and max(lasts) <= 1, len(lasts), max(lasts, default=0)
    yield bool(states) and states <= {DOWN, CRUISE}, " or ".join(sorted(states))


def continues(seen: Seen, ca_state: int) -> Checks:
    """State, estimate and window after a recovery that DSACKs show to be spurious."""
    places = seen.samples.index[seen.samples["ca_state"] == ca_state]
    before, within, after = (
        seen.samples.loc[i] for i in (places[0] - 1, places[-1], places[-1] + 1)
    )
    again = grown(seen.samples, "bytes_retrans") / MSS_BYTES
    in_vain = grown(seen.samples, "dsack_dups")
    states = (str(before["state"]), str(within["state"]), str(after["state"]))
    yield NOT_THERE
    yield states[0] == states[1] and in_vain > 0, again, in_vain, *states
    kept, window = (float(after[of] / before[of]) for of in ("bw_mbit", "snd_cwnd_segments"))
    yield min(kept, window) >= 1 - CLOSE, kept, window


def a1(run: Seen) -> Checks:
    startup, then = run.phases[:2]
    (bw_mbit,) = last(startup.samples, "bw_mbit")
    yield abs(bw_mbit / run.link_mbit - 1) <= CLOSE, bw_mbit, run.link_mbit
    flat = grown(startup.samples[startup.samples["bw_mbit"] > bw_mbit / 1.25])
    yield 2.5 <= flat <= 4.5, flat
    yield then.state == DRAIN, then.state


def a2(run: Seen) -> Checks:
    lossy = run.after(run.change_s(), run.phases[0].end_s)
    yield len(run.phases) > 1 and grown(lossy) <= 4, grown(lossy), resent_pct(lossy)


def a3(run: Seen) -> Checks:
    drain, then = run.phases[1:3]
    (gain,) = last(drain.samples, "bbr_pacing_gain")
    yield gain == 0.5, gain
    yield at_bdp(run, [1])
    yield then.state in PROBE_BW, then.state


def a4(run: Seen) -> Checks:
    drain = run.phases[1]
    assert drain.state == DRAIN and drain.begin_s < run.change_s() < drain.end_s
    yield grown(drain.samples) <= 4, grown(drain.samples), drain.length_s


def a5(run: Seen) -> Checks:
    ups = run.named(UP, 2, 9)
    lasts = median(grown(run.phases[i].samples) for i in ups)
    yield lasts >= 3, lasts
    downs = sum(run.phases[i + 1].state == DOWN for i in ups)
    yield downs == len(ups), downs, len(ups)


def a6(run: Seen) -> Checks:
    yield from ends_on_loss(run, run.change_s(1))
    yield NOT_THERE


def a7(limited: Seen, late: Seen) -> Checks:
    first, then = limited.phases[:2]
    met = (first.state, then.state) == (STARTUP, PROBE_RTT)
    yield met, grown(first.samples), then.state, first.end_s
    loss_s = late.change_s(1)
    up = late.phases[max(late.named(UP, 0, loss_s))]
    yield up.end_s > loss_s, grown(up.samples), up.length_s


def a8(run: Seen) -> Checks:
    downs = run.named(DOWN, 2, 9)
    (gain,) = last(run.phases[downs[0]].samples, "bbr_pacing_gain")
    yield gain == 0.9, gain
    yield at_bdp(run, downs)
    cruises = sum(run.phases[i + 1].state == CRUISE for i in downs)
    yield cruises == len(downs), cruises, len(downs)


def a9(run: Seen) -> Checks:
    place = run.named(DOWN, run.change_s() + 0.3)[0]
    down, then = run.phases[place : place + 2]
    left, bdp = last(down.samples, "in_flight_segments", "bdp_segments")
    assert left > bdp + BUDGET_SEGMENTS
    yield down.length_s >= 2 or grown(down.samples) >= 60, 1e3 * down.length_s, left, bdp
    yield then.state == UP, then.state


def a10(run: Seen) -> Checks:
    (place,) = run.named(PROBE_RTT)
    probe, then = run.phases[place : place + 2]
    since_s = probe.begin_s - float(run.samples["t_s"].iloc[0])  # no RTT is lower than the first
    yield since_s <= 5.5, since_s
    gain, window = last(probe.samples, "bbr_cwnd_gain", "snd_cwnd_segments")
    yield gain == 0.5, gain, window
    low = probe.samples[probe.samples["in_flight_segments"] <= window]
    held_ms = 1e3 * (probe.end_s - float(low["t_s"].iloc[0]))
    yield held_ms >= 195 and grown(low) >= 1, held_ms, grown(low)  # sampled every 5 ms
    again = float(then.samples["in_flight_segments"].max() / then.samples["bdp_segments"].iloc[0])
    yield then.state in PROBE_BW and again > 0.9, then.state, again


def a11(run: Seen) -> Checks:
    early = run.after(run.phases[2].begin_s, 12.5)
    idle = early[early["in_flight_segments"] == 0]
    probes, used = len(run.named(PROBE_RTT)), run.used_pct(12.1, 12.6)
    assert grown(idle, "t_s") > 10
    yield not probes, grown(idle, "t_s"), probes
    yield used > 90, used


def a12(run: Seen) -> Checks:
    window, bw_mbit = last(run.phases[0].samples, "snd_cwnd_segments", "bw_mbit")
    yield window > 2 * run.bdp_segments, window / run.bdp_segments
    share = bw_mbit / run.link_mbit
    yield share >= 1 - CLOSE, share
    yield share <= 1 + CLOSE, share


def a13(run: Seen) -> Checks:
    half = run.after(4)
    more = half["snd_cwnd_segments"] - 2 * half["bdp_segments"] - BUDGET_SEGMENTS
    yield bool((more > 0).all()), float(more.median())
    yield run.used_pct(4, 8) >= 98, run.used_pct(4, 8)


def a14(run: Seen) -> Checks:
    steady = run.samples[run.samples["state"].isin(PROBE_BW)]
    least = float(steady["snd_cwnd_segments"].min())
    yield least >= 4, least
    cruising = steady[(steady["t_s"] > 14) & (steady["state"] == CRUISE)]
    pace_mbit = float(cruising["pacing_rate_bytes_s"].median()) * 8 / 1e6
    yield abs(pace_mbit / run.link_mbit - 1) <= 0.05, 1e3 * pace_mbit, 1e3 * run.link_mbit
    yield run.used_pct(14, 20) >= 98, run.used_pct(14, 20)


def a15(run: Seen) -> Checks:
    yield NOT_THERE
    ups = [run.phases[i].samples for i in run.named(UP, run.change_s() - 0.1)]
    probe = max(ups, key=lambda samples: grown(samples, "bw_mbit"))
    until = probe[probe["bw_mbit"].cummax() < (1 - CLOSE) * run.link_mbit]
    most = 4 * log2(run.bdp_segments)
    shorter = len(until) < len(probe) and grown(until) <= most
    yield shorter, grown(until), grown(until, "t_s"), most


def a16(run: Seen) -> Checks:
    later = run.after(run.change_s())
    high = later[later["bw_mbit"].cummin() > 1.25 * run.link_mbit]
    yield grown(high) <= 3, grown(high), grown(high, "t_s")
    yield grown(high) <= 12, grown(high)
    (end,) = last(later, "bw_mbit")
    yield abs(end / run.link_mbit - 1) <= CLOSE, end, run.link_mbit


def a17(run: Seen) -> Checks:
    yield NOT_THERE
    fixed = max(
        (phase for phase in run.phases if phase.state == CRUISE), key=lambda phase: phase.length_s
    )
    (bw_mbit,) = last(fixed.samples, "bw_mbit")
    used, resent = run.used_pct(6, 12), resent_pct(run.after(6))
    yield used >= 90, grown(fixed.samples), bw_mbit, run.link_mbit, used
    yield resent <= LOSS_LIMIT_PCT, resent


def a18(run: Seen) -> Checks:
    yield from continues(run, 3)


def a19(run: Seen) -> Checks:
    yield from continues(run, 4)


def a20(run: Seen) -> Checks:
    (place,) = run.named(PROBE_RTT)
    before, probe, then = run.phases[place - 1 : place + 2]
    met = before.state == then.state == STARTUP
    yield met, before.state, 1e3 * probe.length_s, then.state


def a21(run: Seen) -> Checks:
    loss_s = run.change_s(1)
    yield from ends_on_loss(run, loss_s)
    (before,) = last(run.after(0, loss_s), "bw_mbit")
    kept = float(run.after(loss_s)["bw_mbit"].min()) / before
    yield kept <= 0.75, kept


def a22(run: Seen) -> Checks:
    loss_s = run.change_s(1)
    samples = run.after(run.phases[max(run.named(UP, 0, loss_s))].begin_s, loss_s)
    kept = float(samples["bw_mbit"].min() / samples["bw_mbit"].iloc[0])
    yield kept >= 0.999, kept, grown(samples), run.used_pct(6, 8)
    yield NOT_THERE


JUDGES: tuple[Callable[..., Checks], ...] = (
    *(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11),
    *(a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22),
)


@dataclass(frozen=True)
class Judged:
    """A case of the ledger, and what the runs of one kernel say of it."""

    case: Mapping[str, Any]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        met = [check[0] for check in self.checks]
        if all(met):
            return MEETS
        return PART if any(met) else LACKS if self.case.get("lacks") else MISSES


def judged(runs: Iterable[Run]) -> dict[str, tuple[Judged, ...]]:
    """The judged cases, by the series of the kernel."""
    cases = tomllib.loads(LEDGER.read_text("utf-8"))["case"]
    seen: dict[str, dict[str, Seen]] = {}
    for run in runs:
        series = ".".join(run.kernel.release.split(".")[:2])
        seen.setdefault(series, {})[run.condition] = Seen(run)
    return {
        series: tuple(
            Judged(case, tuple(judge(*(by_name[name] for name in case["conditions"]))))
            for case, judge in zip(cases, JUDGES, strict=True)
        )
        for series, by_name in seen.items()
    }


def page(by_kernel: Mapping[str, tuple[Judged, ...]]) -> str:
    """The page: all cases with the figures of one kernel, and where others have another verdict."""
    ledger = tomllib.loads(LEDGER.read_text("utf-8"))
    rows, parts = ["| case | subject | version 1 | parts met |", "| --- | --- | --- | --- |"], []
    for place, judged in enumerate(by_kernel[SHOWN_KERNEL]):
        case = judged.case
        others = {series: of_kernel[place].verdict for series, of_kernel in by_kernel.items()}
        different = [f"{word} on {of}" for of, word in others.items() if word != judged.verdict]
        words = "; ".join([judged.verdict, *different])
        met = f"{sum(check[0] for check in judged.checks)} of {len(judged.checks)}"
        rows.append(f"| {case['id']} | {case['title']} | {words} | {met} |")
        sentences = zip(case["measured"], judged.checks, strict=True)
        lines = (
            f"- {text.format(*check[1:])}: {'yes' if check[0] else 'no'}"
            for text, check in sentences
        )
        names = ", ".join(f"`{name}`" for name in case["conditions"])
        parts += [f"## {case['id']} {case['title']}", f"*The draft:* {case['asks']}"]
        parts += [f"*Version 1:* {case['version1']}", f"*Measured* ({names}): **{judged.verdict}**"]
        parts.append("\n".join(lines))
    kernels = ", ".join(
        sorted(by_kernel, key=lambda release: [int(part) for part in release.split(".")])
    )
    head = ledger["head"].format(kernels=kernels, shown=SHOWN_KERNEL)
    return "\n\n".join([head.strip(), "\n".join(rows), *parts]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(judged(every_run(sys.argv[1]))), "utf-8")
