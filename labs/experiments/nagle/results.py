"""What a run of the lab `nagle` shows: how long answers took, what stalled, what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.narrative import tell, tell_run
from labs.experiments.nagle.requests import Answered, answered, own_requests, requests_of, usual
from labs.experiments.nagle.settings import asked, expected
from labs.read.claims.article_figures import figure_of_claim
from labs.read.flows.exchanges import in_words
from labs.read.readings.counters import capture_losses
from labs.read.readings.latency import SMALLEST_MS, Latency, latency
from labs.read.runs.run import Run
from labs.read.stats.testbed_comparison import Margin

if TYPE_CHECKING:
    from labs.studies.study import Study

__all__ = ["figure", "remarks", "results", "shows", "tell", "tell_run"]

ARTICLE = 3
CLAIMS = {"off": "A3.1", "on": "A3.2"}
"""The claims with a mean time per request, by condition."""
BELOW = "below 1 ms: on virtual time the time of work means nothing"
CLOSED_LOOP = ("ab asks again when it was answered (a closed loop): its percentiles are of the "
               "requests that were made; a stall holds back those that would have met it")
MARGIN = Margin(0.95, 1.5, (
    "the wait is the kernel's timer on both; a machine adds the time that a hundred requests side "
    "by side take it, 14 ms in the article, and its tick may be longer or shorter"))
"""Within what a mean on machines is to be of that on virtual time."""
HIDDEN = (
    "article_claim", "predicted_stalls", "predicted_segments", "failed", "captured_requests",
    "served_requests", "nodelay", "keepalive", "quickack", "server", "writes", "page_bytes")
"""Columns that `labs run` does not print: settings, and counts that a mark compares."""
SEQUENCES = {"sequence_off": "off", "sequence_on": "on"}


def results(run: Run) -> dict[str, Any]:
    """The figures of one run, as plain values.

    `mean_ms`, `p50_ms`, `p99_ms` are the client's (`labs.read.readings.latency`); `predicted_*` the
    theory's; `article_ms` the article's mean where it has one. `segments_per_answer`,
    `acks_per_answer` and `stalled_pct` are from the capture at the server. `requests` is what the
    client counted, `captured_requests` what the capture has, `served_requests` what nginx logged;
    where they differ a mark says so.
    """
    took, seen, theory = latency(run), answered(run), expected(run)
    told, claim = asked(run), CLAIMS.get(run.condition)
    articles_own = claim and figure_of_claim(run, ARTICLE, claim)
    served = served_requests(run)
    return {
        "condition": run.condition,
        "mean_ms": took.mean_ms, "p50_ms": took.p50_ms, "p99_ms": took.p99_ms,
        "predicted_mean_ms": theory and theory.mean_ms,
        "predicted_p50_ms": theory and theory.steady_ms,
        "article_ms": articles_own, "article_claim": articles_own and claim,
        "stalled_pct": seen.stalled_pct, "predicted_stalls": theory and theory.stalls,
        "segments_per_answer": seen.segments, "predicted_segments": theory and theory.segments,
        "acks_per_answer": seen.acks,
        "requests": took.requests, "failed": took.failed,
        "captured_requests": seen.requests, "served_requests": served,
        "nodelay": told.nodelay, "keepalive": told.keepalive, "quickack": told.quick,
        "server": told.server, "writes": told.writes, "page_bytes": told.page_bytes,
        "marks": marks(run, took, seen, served),
        "rtt_ms": run.link["measured"]["rtt_ms"], "rate_mbit": run.link["measured"]["rate_mbit"],
        "testbed": run.testbed, "kernel": run.kernel["release"], "link": run.link["verdict"],
        "key": run.key, "digest": run.digest,
    }


def figure(found: Mapping[str, Any]) -> tuple[str, float] | None:
    """What repetitions and witnesses are compared by: the mean time per request, where it means
    something."""
    return None if BELOW in found["marks"] else ("mean_ms", float(found["mean_ms"]))


def served_requests(run: Run) -> int | None:
    """The lines of nginx's log; None where our own server answered, which writes none."""
    name = "server/access.log"
    return len(run.text(name).splitlines()) if name in run.seal.files else None


def marks(run: Run, took: Latency, seen: Answered, served: int | None) -> list[str]:
    """What a reader of the figures must know, in short notes; none for a run as it should be."""
    lost = capture_losses(run)
    counts = {"the client": took.requests, "the capture": seen.requests, "nginx": served}
    known = {name: count for name, count in counts.items() if count is not None}
    said = ", ".join(f"{name} {count}" for name, count in known.items())
    notes = {
        "link not as asked": run.link["verdict"] != "as asked",
        f"{took.failed} requests failed": took.failed > 0,
        f"instruments disagree on the requests: {said}": len(set(known.values())) > 1,
        f"capture lost {lost} packets": lost > 0,
        BELOW: run.testbed == "virtual" and took.mean_ms < SMALLEST_MS,
    }
    return [note for note, holds in notes.items() if holds]


def shows(study: Study) -> dict[str, Any]:
    """What a study shows beyond a row a run: the sequence of steps with Nagle's algorithm (`off`)
    and without (`on`), and the share of the requests that follow it; the same of a capture of the
    reader's own, if the parameters name one. `remarks` says the same in a line each."""
    seen = {name: (condition, requests_of(study.run(condition)))
            for name, condition in SEQUENCES.items() if condition in study.conditions}
    own = getattr(study.parameters, "capture", "")
    if own:
        seen["sequence_own"] = (own, own_requests(own))
    found: dict[str, Any] = {"remarks": []}
    for name, (what, requests) in seen.items():
        most = usual(requests)
        found |= {name: list(most.steps), f"{name}_share": most.share if most.requests else None,
                  f"{name}_others": [{"steps": list(steps), "requests": count}
                                     for steps, count in most.others.items()]}
        found["remarks"].append(f"{what}: {most.follow} of {most.requests} requests: "
                                f"{in_words(most.steps)}")
    return found


def remarks(table: Any) -> list[str]:
    """What the results show beyond their rows."""
    return [CLOSED_LOOP] if (table["requests"] > 0).any() else []
