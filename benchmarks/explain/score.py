"""Compares what `labs explain` says of captures with what the scenarios did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.explain.worsen import WORSE, worsened
from labs.read.flows.account import Account, Finding
from labs.read.flows.explain import explain
from labs.read.flows.reasons import (
    DELAYED_ACK,
    HTTP_TURN,
    KEEP_ALIVE,
    NOBODY,
    SPURIOUS,
    TLS_TURN,
    UNTOLD,
    explained,
)

LEAST_SHARE: Final = 0.05
"""Of a connection's time, for a finding to count as reported."""
LEAST_MS: Final = 5
DELAYED_MS, MOST_DELAYED_MS = 20, 250
EVEN_BRIEF: Final = (KEEP_ALIVE, DELAYED_ACK)
"""Events that cost nothing by themselves; counted where the truth names them."""


@dataclass(frozen=True)
class Scored:
    """One capture: the reasons it has, those that were found, and how much time is wrong."""

    name: str
    group: str
    true: frozenset[str]
    reported: frozenset[str]
    duration_ms: float
    wrong_ms: float
    expected_ms: float

    @property
    def missed(self) -> frozenset[str]:
        return self.true - self.reported

    @property
    def invented(self) -> frozenset[str]:
        return self.reported - self.true


def reported(accounts: Sequence[Account], named: frozenset[str]) -> frozenset[tuple[str, str]]:
    """The reasons that a reader is told, with whom they waited for: those with a share of the time,
    and events."""
    pairs = set()
    for account in accounts:
        for finding in account.findings:
            if _counts(account, finding, named):
                pairs.add((finding.reason.name, finding.waited_for))
        for kind, count in account.turns.items():
            if kind in (HTTP_TURN.name, TLS_TURN.name) and count:
                pairs.add((kind, NOBODY))
    return frozenset(pairs)


def _counts(account: Account, finding: Finding, named: frozenset[str]) -> bool:
    if finding.reason in EVEN_BRIEF:
        costs = finding.time_ms > 0 or finding.waiting != NOBODY
        return costs or (finding.reason.name in named and finding.count > 0)
    if finding.reason.name not in named and finding.reason.is_usual:
        return False
    return finding.reason.is_event or finding.time_ms > max(
        LEAST_SHARE * account.duration_ms, LEAST_MS
    )


def at_right_ends(
    pairs: frozenset[tuple[str, str]], causes: Sequence[dict[str, Any]], may: frozenset[str]
) -> frozenset[str]:
    """The reasons told. One that the scenario sets for the other end has that end in its name, so
    that it is invented and the true one missed."""
    ends: dict[str, set[str | None]] = {}
    for cause in causes:
        ends.setdefault(cause["reason"], set()).add(cause["waited_for"])
    return frozenset(
        reason
        if reason in may
        or explained(reason).is_usual
        or not {None, whom}.isdisjoint(ends.get(reason, {None}))
        else f"{reason} of the {whom}"
        for reason, whom in pairs
    )


def may_be_told(truth: dict[str, Any]) -> frozenset[str]:
    """What follows from the causes: by the scenario, or by the counters of the kernels. A sender
    that received a DSACK had retransmitted what had arrived."""
    reasons = set(truth["scenario"].get("may", ()))
    for counters in truth["counters"].values():
        if counters["TCPDSACKRecv"] + counters["TCPDSACKOfoRecv"]:
            reasons.add(SPURIOUS.name)
    return frozenset(reasons)


def expected_ms(cause: dict[str, Any], truth: dict[str, Any]) -> float | None:
    """The time that a cause took, by what the programs and the forwarder wrote down."""
    source = cause["ms"]
    if source is None:
        return None
    if "sleeps" in source:
        steps = truth.get(source["sleeps"], ())
        return float(sum((end - begin) / 1e6 for verb, begin, end, _ in steps if verb == "sleep"))
    if "connect" in source:
        step = next(turn for turn in truth["client"] if turn[0] == "connect")
        return float(step[2] - step[1]) / 1e6
    if "nagle" in source:  # what receiving took beyond the two round trips that Nagle costs
        rtt_ms = truth["scenario"]["rtt_ms"]
        took = [
            (end - begin) / 1e6 - 2 * rtt_ms
            for verb, begin, end, _ in truth["client"]
            if verb == "recv"
        ]
        return float(sum(ms for ms in took if DELAYED_MS < ms < MOST_DELAYED_MS))
    return None


def score(name: str, path: Path, truth: dict[str, Any]) -> Scored:
    """Explain one capture and compare."""
    scenario = truth["scenario"]
    file_account = explain(path)
    true = frozenset(cause["reason"] for cause in scenario["causes"])
    may = may_be_told(truth)
    reasons = at_right_ends(reported(file_account.accounts, true), scenario["causes"], may - true)
    duration = sum(account.duration_ms for account in file_account.accounts)
    wrong = expected = 0.0
    for cause in scenario["causes"]:
        ms = expected_ms(cause, truth)
        if ms is None:
            continue
        got = sum(
            finding.time_ms
            for account in file_account.accounts
            for finding in account.findings
            if finding.reason.name == cause["reason"]
            and cause["waited_for"] in (None, finding.waited_for)
        )
        slack = 2 * scenario["rtt_ms"] + 10
        wrong += max(0.0, abs(got - ms) - slack)
        expected += ms
    for account in file_account.accounts:
        for finding in account.findings:
            is_known = finding.reason.name in true | may or finding.reason.is_usual
            if not is_known and finding.reason is not UNTOLD:
                wrong += finding.time_ms if finding.time_ms > 5 else 0.0
    return Scored(name, scenario["group"], true, reasons - (may - true), duration, wrong, expected)


def of_folder(folder: Path, groups: Iterable[str] = ()) -> list[Scored]:
    """Score every capture of a folder."""
    chosen, scores = set(groups), []
    for path in sorted(folder.glob("*.json")):
        truth = json.loads(path.read_text())
        if chosen and truth["scenario"]["group"] not in chosen:
            continue
        scores.append(score(path.stem, path.with_suffix(".pcap"), truth))
    return scores


def precision_and_recall(scores: Sequence[Scored]) -> dict[str, tuple[int, int, int]]:
    """For each reason: right, invented, missed."""
    names = sorted({name for score in scores for name in score.true | score.reported})
    return {
        name: (
            sum(name in score.true & score.reported for score in scores),
            sum(name in score.invented for score in scores),
            sum(name in score.missed for score in scores),
        )
        for name in names
    }


def of_worsened(folder: Path, work: Path, count: int, seed: int) -> list[tuple[str, str, set[str]]]:
    """Explain captures made worse: name, what was done, and reasons that are wrong."""
    invented = []
    for name, kind, path, truth in worsened(folder, work, count, seed):
        allowed = {cause["reason"] for cause in truth["scenario"]["causes"]} | may_be_told(truth)
        reasons = {reason for reason, _ in reported(explain(path).accounts, frozenset(allowed))}
        invented.append((name, kind, reasons - allowed - {UNTOLD.name}))
    return invented


__all__ = ["WORSE", "Scored", "of_folder", "of_worsened", "precision_and_recall", "score"]
