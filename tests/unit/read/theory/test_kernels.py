"""The rules that depend on the kernel's version, against what recorded runs on each kernel show.

A rule is told by a run if the prediction is exact with it, and is not on the other side of the
version.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.model import flow_of
from benchmarks.points import read
from labs.errors import BadInput
from labs.experiments.windows.results import packets
from labs.read.theory import kernels
from labs.read.theory.bulk import simulated
from labs.read.theory.kernels import Change, series
from labs.read.theory.receiver import Setup
from tests.real_runs import real
from tests.unit.read.theory.test_receiver import HANDSHAKES, first_windows

FIXTURES = Path(__file__).parents[3] / "fixtures" / "theory"
CHANGES = {name: value for name, value in vars(kernels).items() if isinstance(value, Change)}
POINTS = {point.name: point for name in ("a", "wget", "discard") for point in read(name)}
MEASURED: dict[str, dict[str, float]] = {
    point["name"]: point
    for name in ("transfers", "downloads")
    for point in json.loads((FIXTURES / f"{name}.json").read_text())["points"]
}
COLUMNS = ("rcvbuf_bytes", "rmem_bytes", "recv_q_bytes", "rcv_ssthresh_bytes", "window_left_bytes")
BY_PACKETS = {
    "RATIO": ("5.10-article-scale1", "6.1-chunks", "6.12-article-scale1", "7.2-article-scale1"),
    "HALF_AT_FIRST": ("6.12-article-scale1", "7.2-article-scale1"),
    "CLAMP_FOLLOWS": ("6.12-article-scale1", "7.2-article-scale1"),
    "SMALL_HEADS": ("5.10-article-scale0", "6.1-mss-100", "6.12-rcvbuf-16k", "7.2-article-scale0"),
    "ZERO_AT_ONCE": ("5.10-article-scale0", "6.1-article-scale0", "6.12-rcvbuf-16k"),
}  # fmt: skip
"""Rules, and runs of the lab `windows` that tell them."""
BY_TRANSFERS = {
    "QUEUE_NOT_COPIED": ("a-115", "discard-011", "discard-042"),
    "GROWS_BY_NEW_RULE": ("discard-014", "a-115", "wget-008", "discard-051"),
    "SIZES_BY_RTT": ("wget-002", "a-171", "wget-008", "wget-090"),
    "GROWS_PACKETS": ("discard-005", "discard-099", "a-087", "wget-000"),
    "ROUNDS_BEGIN_EARLY": ("wget-065", "a-086", "a-201", "a-166"),
    "OWN_PAGES": ("discard-044", "discard-078"),
    "ONE_MESSAGE": ("discard-078", "discard-000", "wget-045"),
    "WRITES_SOONER": ("wget-083", "a-015", "discard-072", "discard-056"),
    "LARGE_RMEM": ("wget-043", "wget-019", "a-184", "a-088"),
    "LARGE_CORE_MAX": ("discard-078", "a-207", "a-203"),
}
"""Rules, and measured transfers that tell them."""
BY_HANDSHAKES = ("WHOLE_FIRST_WINDOW", "SET_RCVBUF_MOVES_CLAMP")
NOT_TOLD = {
    *("MEASURES_OUT_OF_ORDER", "NOTHING_BEYOND", "NO_RESERVE"),
    *("SLOWER_NEARBY", "WIDER_COMPRESSION", "REDUCED_GROWS"),
}
"""Rules that no recorded run tells: they rest on the kernel's source."""
EXACT_PCT, WRONG_PCT = 0.05, 0.5


@pytest.fixture
def other_side(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts every kernel on the other side of a change."""

    def flip(name: str) -> None:
        def holds(change: Change, kernel: str) -> bool:
            return (series(kernel) >= change.since) != (change is CHANGES[name])

        monkeypatch.setattr(Change, "holds", holds)

    return flip


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, each) for name, several in table.items() for each in several]


def wrong_cells(name: str) -> int:
    """How many values of a run's table differ from the prediction."""
    table = packets.__wrapped__(real(f"windows-{name}"))
    return sum(
        int((table[column] != table[f"predicted_{column}"])[table[column].notna()].sum())
        for column in COLUMNS
    )


def error_pct(name: str) -> float:
    """The larger error of the two goodputs of a transfer."""
    point, measured = POINTS[name], MEASURED[name]
    predicted = simulated(flow_of(point), point.transfer_bytes)
    ratios = (
        predicted.goodput_bytes_s / measured["goodput_bytes_s"],
        predicted.steady_bytes_s / measured["steady_bytes_s"],
    )
    return 100.0 * max(abs(float(ratio) - 1) for ratio in ratios)


def test_every_rule_is_told_or_named() -> None:
    told = {*BY_PACKETS, *BY_TRANSFERS, *BY_HANDSHAKES}
    assert told | NOT_TOLD == set(CHANGES) and not told & NOT_TOLD
    assert all(change.what for change in CHANGES.values())


@pytest.mark.parametrize(("rule", "name"), pairs(BY_PACKETS))
def test_rules_told_by_packets(rule: str, name: str, other_side: Callable[[str], None]) -> None:
    assert wrong_cells(name) == 0
    other_side(rule)
    assert wrong_cells(name) > 0


@pytest.mark.parametrize(("rule", "name"), pairs(BY_TRANSFERS))
def test_rules_told_by_transfers(rule: str, name: str, other_side: Callable[[str], None]) -> None:
    assert error_pct(name) < EXACT_PCT
    other_side(rule)
    assert error_pct(name) > WRONG_PCT


@pytest.mark.parametrize("kernel", [(5, 10), (6, 1), (6, 12), (7, 2)])
@pytest.mark.parametrize("rule", BY_HANDSHAKES)
def test_rules_told_by_handshakes(
    rule: str, kernel: tuple[int, int], other_side: Callable[[str], None]
) -> None:
    """`test_receiver` has them with the rule."""
    other_side(rule)
    wrong = 0
    for recorded in HANDSHAKES:
        setup = Setup(**recorded["setup"])
        if series(setup.kernel) == kernel:
            wrong += not recorded["measured"].items() <= first_windows(setup).items()
    assert wrong


def test_series_of_kernel_versions() -> None:
    assert series("6.1") == series("6.1.192-2") == (6, 1)
    assert series("5.10.0-30-amd64") == (5, 10)
    assert series("6.18.44-fc") > series("6.6.0")
    for wrong in ("", "six", "6", "3f9a2c41", "6.x"):
        with pytest.raises(BadInput, match="kernel version"):
            series(wrong)
