"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.experiments.buffers import settings as asked
from labs.experiments.buffers.narrative import tell, tell_run
from labs.experiments.buffers.prediction import expected, expected_mean_bytes_s
from labs.experiments.buffers.sweep import remarks
from labs.read.claims.article_figures import figures_by_column
from labs.read.readings.counters import capture_losses, shaper_drops, under_memory_pressure
from labs.read.readings.goodput import download
from labs.read.readings.instruments import ALLOWED_PCT, apart_pct, goodputs
from labs.read.runs.run import Run
from labs.read.stats.testbed_comparison import Margin

__all__ = ["figure", "marks", "no_rate", "remarks", "results", "tell", "tell_run"]

ARTICLE = 1
MIB = 1 << 20
SETTLED_PCT = 5.0
FIGURES = ("goodput_mib_s", "httping_ms")
MARGIN = Margin(0.9, 1.1, (
    "at rates that both machines carry, the check before a run lets the rate be 5 % off and the "
    "round trip 2 %, and the size of the client's reads moves goodput by 2 %; what is off by more "
    "than all of these together is no longer the same experiment"))
"""Within what the goodput of machines is to be of that on virtual time."""
NO_RATE = "no rate: nothing limits an unshaped link on virtual time"
NOT_SETTLED = "not settled"
# What a run without a download leaves empty, in the order of the columns.
DOWNLOAD = (
    "goodput_mib_s", "steady_mib_s", "predicted_mean_mib_s", "predicted_mib_s", "bound",
    "article_mib_s", "article_steady_mib_s", "article_claim", "wget_mib_s", "settled",
    "agreement_pct", "duration_s", "bytes", "goodput_bytes_s", "steady_bytes_s")
HIDDEN = (
    "goodput_bytes_s", "steady_bytes_s", "article_steady_mib_s", "article_claim", "wget_mib_s",
    "agreement_pct", "duration_s", "bytes", "ended", "buffer_bytes", "receive_most_bytes",
    "send_most_bytes", "series", "adv_win_scale", "congestion_control", "loss_pct", "draw")
"""Columns that `labs run` does not print: settings, and figures in a second unit."""


def results(run: Run) -> dict[str, Any]:
    """The figures of one run, as plain values.

    `goodput_*` is the mean over the body, `steady_*` over the last third of its time (None if the
    client's timeline is too coarse to say), both also in wget's MiB/s; `settled` if the last third
    is within 5 % of the one before. `agreement_pct` is how far counters and capture are from the
    client at most. `predicted_mib_s` is the theory's steady goodput, `bound` what keeps it there,
    `predicted_mean_mib_s` the mean with slow start; `article_*` are the article's figures where
    the run has the article's link. `marks` say what to keep in mind. A run without a download has
    None for all of these but `marks`.

    `buffer_bytes` is the receiver's buffer where it does not grow, `receive_most_bytes` and
    `send_most_bytes` what the two buffers may come to, `series` how a point of the sweep was set
    ("sysctl", "setsockopt"); `loss_pct` was asked and `lost_pct` measured; `draw` tells equal
    conditions apart. `httping_ms` is httping's own mean.
    """
    found = _of_the_download(run) if asked.is_download(run) else dict.fromkeys(DOWNLOAD)
    notes = marks(run, found["settled"], found["agreement_pct"])
    return {
        "condition": run.condition, **found,
        **_of_the_condition(run),
        "rtt_ms": run.link["measured"]["rtt_ms"], "rate_mbit": run.link["measured"]["rate_mbit"],
        "ended": run.ended, "marks": notes,
        "testbed": run.testbed, "kernel": run.kernel["release"], "link": run.link["verdict"],
        "key": run.key, "digest": run.digest,
    }


def figure(found: Mapping[str, Any]) -> tuple[str, float] | None:
    """What repetitions and witnesses are compared by: goodput of the file, or httping's mean."""
    if NO_RATE in found["marks"]:
        return None
    return next(((name, float(found[name])) for name in FIGURES if found[name] is not None), None)


def _of_the_download(run: Run) -> dict[str, Any]:
    seen = download(run)
    steady, before = seen.third_bytes_s(2), seen.third_bytes_s(1)
    settled = None if steady is None or not before else (
        abs(steady / before - 1) <= SETTLED_PCT / 100)
    theory = expected(run)
    claim, articles_own = figures_by_column(run, ARTICLE) or (None, {})
    values = (
        _mib(seen.goodput_bytes_s), _mib(steady),
        _mib(expected_mean_bytes_s(run, seen.bytes)), theory and theory.goodput_mib_s,
        theory and theory.bound,
        articles_own.get("goodput_mib_s"), articles_own.get("steady_mib_s"), claim,
        seen.own_mib_s, settled, apart_pct(goodputs(run, seen)), seen.duration_s, seen.bytes,
        seen.goodput_bytes_s, steady)
    return dict(zip(DOWNLOAD, values, strict=True))


def _of_the_condition(run: Run) -> dict[str, Any]:
    timed = run.httping()
    receives, sends = asked.receive_buffer(run), asked.send_buffer(run)
    return {
        "buffer_bytes": receives.fixed_bytes,
        "receive_most_bytes": receives.most_bytes, "send_most_bytes": sends.most_bytes,
        "series": asked.series(run), "adv_win_scale": asked.adv_win_scale(run),
        "congestion_control": asked.congestion_control(run),
        "loss_pct": run.link["asked"]["loss_pct"], "lost_pct": run.link["measured"]["loss_pct"],
        "draw": asked.draw(run), "httping_ms": timed and timed.mean_ms,
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
    """Whether a download's speed means nothing: on virtual time work takes next to no time, so
    only the link can limit."""
    return (run.testbed == "virtual" and run.link["asked"]["rate_mbit"] is None
            and asked.is_download(run))


def _mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
