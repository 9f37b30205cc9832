"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.analysis.agreement import ALLOWED_PCT, apart_pct, goodputs
from labs.analysis.counters import capture_losses, shaper_drops, under_memory_pressure
from labs.analysis.download import download
from labs.analysis.expectation import expected, expected_mean_bytes_s
from labs.analysis.words import tell, tell_run
from labs.runs.run import Run

__all__ = ["article", "marks", "no_rate", "results", "tell", "tell_run"]

MIB = 1 << 20
SETTLED_PCT = 5.0
NO_RATE = "no rate: nothing limits an unshaped link on virtual time"
NOT_SETTLED = "not settled"
ARTICLE_BUFFER_BYTES = 50 * MIB


@dataclass(frozen=True)
class Article:
    """A figure of article 1 in MiB/s: the mean of the file, and what was seen in the long run.

    One on the author's own `hardware` is shown beside a measurement, and judges nothing.
    """

    claim: str
    mean_mib_s: float
    steady_mib_s: float | None = None
    hardware: bool = False


ARTICLES = {
    "unshaped": Article("A1.1", 337.0, hardware=True),
    "default": Article("A1.6", 13.4, 13.4),
    "both": Article("A1.8", 77.8, 92.7),
}


def results(run: Run) -> dict[str, Any]:
    """The figures of one run, as plain values.

    `goodput_*` is the mean over the body, `steady_*` over the last third of its time (None if the
    client's timeline is too coarse to say), both also in wget's MiB/s; `settled` if the last third
    is within 5 % of the one before. `agreement_pct` is how far counters and capture are from the
    client at most. `predicted_mib_s` is the theory's steady goodput, `bound` what keeps it there,
    `predicted_mean_mib_s` the mean with slow start; `article_*` are the article's figures where
    the run has the article's link. `marks` say what to keep in mind.
    """
    seen = download(run)
    steady, before = seen.third_bytes_s(2), seen.third_bytes_s(1)
    settled = None if steady is None or not before else (
        abs(steady / before - 1) <= SETTLED_PCT / 100)
    apart = apart_pct(goodputs(run, seen))
    figure, theory = article(run), expected(run)
    return {
        "condition": run.condition,
        "goodput_mib_s": _mib(seen.goodput_bytes_s), "steady_mib_s": _mib(steady),
        "predicted_mean_mib_s": _mib(expected_mean_bytes_s(run, seen.bytes)),
        "predicted_mib_s": theory and theory.goodput_mib_s, "bound": theory and theory.bound,
        "article_mib_s": figure and figure.mean_mib_s,
        "article_steady_mib_s": figure and figure.steady_mib_s,
        "article_claim": figure and figure.claim,
        "wget_mib_s": seen.own_mib_s,
        "settled": settled, "agreement_pct": apart,
        "rtt_ms": run.link["measured"]["rtt_ms"], "rate_mbit": run.link["measured"]["rate_mbit"],
        "duration_s": seen.duration_s, "bytes": seen.bytes, "ended": run.ended,
        "goodput_bytes_s": seen.goodput_bytes_s, "steady_bytes_s": steady,
        "marks": marks(run, settled, apart),
        "testbed": run.testbed, "kernel": run.kernel["release"], "link": run.link["verdict"],
        "key": run.key, "digest": run.digest,
    }


def marks(run: Run, settled: bool | None, apart: float | None) -> list[str]:
    """What a reader of the figures must know, in short notes; none for a run as it should be."""
    drops = 0 if run.link["asked"]["loss_pct"] else shaper_drops(run)
    lost = capture_losses(run)
    notes = {
        "link not as asked": run.link["verdict"] != "as asked",
        NO_RATE: no_rate(run),
        NOT_SETTLED: settled is False,
        "ended by the limit": run.ended == "limit",
        f"instruments disagree by {apart or 0:.1f} %": apart is not None and apart > ALLOWED_PCT,
        f"the shaper dropped {drops} packets": drops > 0,
        f"capture lost {lost} packets": lost > 0,
        "TCP came under memory pressure": under_memory_pressure(run),
    }
    return [note for note, holds in notes.items() if holds]


def no_rate(run: Run) -> bool:
    """Whether the run's speed means nothing: on virtual time work takes next to no time, so only
    the link can limit."""
    return run.testbed == "virtual" and run.link["asked"]["rate_mbit"] is None


def article(run: Run) -> Article | None:
    """The article's figure for the run's condition; None where its link or buffers are others."""
    link, settings = run.link["asked"], run.inputs["condition"]["settings"]
    figure = ARTICLES.get(run.condition)
    if figure is None or settings["transfer_bytes"] != 1 << 30:
        return None
    if run.condition == "unshaped":
        return figure
    articles_own: Mapping[str, Any] = {
        "rate_mbit": 1000, "delay_ms": 200, "loss_pct": 0, "jitter_ms": 0, "at": "server"}
    if any(link[name] != value for name, value in articles_own.items()):
        return None
    raised = [int(word) for values in run.inputs["condition"]["sysctls"].values()
              for value in values.values() for word in value.split()]
    return figure if all(size == ARTICLE_BUFFER_BYTES for size in raised) else None


def _mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
