"""Runs in sentences, from phrases with columns."""

from __future__ import annotations

from pandas import DataFrame

from labs.read.display.summary import Summary

SUMMARY = Summary(
    ("{mean_ms:.1f} ms[?, predicted {predicted_ms:.1f}]", "{2 * drops:count} packets dropped"),
    empty="no requests",
)


def row(**figures: object) -> dict[str, object]:
    return {"condition": "off", "predicted_ms": None, "drops": float("nan"), "notes": "", **figures}


def test_a_phrase_without_a_figure_is_left_out() -> None:
    assert SUMMARY.of(row(mean_ms=4.04)) == "4.0 ms."
    assert SUMMARY.of(row(mean_ms=4.04, predicted_ms=4.0)) == "4.0 ms, predicted 4.0."
    assert SUMMARY.of(row(mean_ms=None, drops=0)) == "0 packets dropped."


def test_a_run_without_figures_has_its_notes() -> None:
    text = SUMMARY(DataFrame([row(mean_ms=4.0), row(mean_ms=None, notes="refused")]))
    assert text.splitlines() == ["- **off**: 4.0 ms.", "- **off**: no requests. Note: refused."]
