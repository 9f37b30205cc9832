"""Runs with several flows in words and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.guest.units import SECOND_NS
from labs.read.display.format import in_digits, is_known
from labs.read.display.rich_output import Table
from labs.read.readings.flows import (
    begin_ns,
    carried,
    downward,
    goodputs_mbit,
    mean_rtts_ms,
    sockets,
    steady_ns,
    traffic_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from labs.read.runs.run import Run

FIGURES = (
    ("goodput_mbit", "{} Mbit/s", ""),
    ("utilisation_pct", "{} % of the link in use", "predicted_utilisation_pct"),
    ("share_pct", "share {} %", "predicted_share_pct"),
    ("queue_p50_ms", "{} ms in the queue", "predicted_queue_ms"),
    ("request_p50_ms", "requests take {} ms", "predicted_request_ms"),
    ("completed_ms", "complete after {} ms", ""),
)


def describe(table: DataFrame) -> str:
    """One line per run: utilisation, share, queue and requests, each with its prediction."""
    return "\n".join(map(_describe_row, table.to_dict("records")))


def _describe_row(row: Mapping[Any, Any]) -> str:
    phrases = []
    for name, words, predicted in FIGURES:
        if is_known(row[name]):
            beside = ""
            if predicted and is_known(row[predicted]):
                beside = f" (predicted: {in_digits(row[predicted])})"
            phrases.append(words.format(in_digits(row[name])) + beside)
    note = f" Note: {row['notes']}." if row["notes"] else ""
    return f"- **{row['condition']}**: {', '.join(phrases)}.{note}"


def describe_run(run: Run) -> str:
    """One run: what each flow carried in steady state."""
    rates = goodputs_mbit(run)
    parts = [
        f"flow {flow.name} {in_digits(rate)} Mbit/s ({in_digits(100 * rate / sum(rates))} %)"
        for flow, rate in zip(downward(run), rates, strict=True)
        if any(rates)
    ]
    return f"In steady state: {', '.join(parts) or 'nothing arrived'}."


def flows(run: Run) -> Table:
    """One row per flow: goodput and share, mean RTT and window in steady state, and what was sent
    again."""
    samples, begin = sockets(run), begin_ns(run)
    from_s, until_s = ((at - begin) / SECOND_NS for at in steady_ns(run))
    steady = samples[samples["t_s"].between(from_s, until_s)]
    windows = steady.groupby("flow")["snd_cwnd_segments"].mean()
    last = samples.groupby("flow")[["bytes_sent", "bytes_retrans"]].max()
    again_pct = 100 * last["bytes_retrans"] / last["bytes_sent"].where(last["bytes_sent"] > 0)
    rates = goodputs_mbit(run)
    rows = [
        {
            "Flow": flow.name,
            "Own RTT (ms)": traffic_of(run).path.rtt_ms + flow.flow.extra_delay_ms,
            "Goodput (Mbit/s)": rate,
            "Share (%)": 100 * rate / sum(rates) if any(rates) else None,
            "Mean RTT (ms)": rtt_ms,
            "Mean window (segments)": windows.get(flow.name),
            "Sent again (%)": again_pct.get(flow.name),
        }
        for flow, rate, rtt_ms in zip(downward(run), rates, mean_rtts_ms(run), strict=True)
    ]
    return Table(rows).round(2)


def acks_of_runs(runs: Mapping[str, Run]) -> Table:
    """One row per run: how many segments each ACK that arrived at the sender acknowledged, on
    average, and the maximum rate of the reverse path."""
    rows = []
    for condition, run in runs.items():
        samples, back = sockets(run), traffic_of(run).path.up
        samples = samples[samples["flow"] == carried(run)[0].name]
        if not samples.empty:
            sent, acks = (int(samples[name].max()) for name in ("data_segs_out", "segs_in"))
            row = {
                "Condition": condition,
                "Reverse path (Mbit/s)": back.rate_mbit,
                "Loss on the reverse path (%)": back.loss_pct or None,
                "Segments sent": sent,
                "ACKs that arrived": acks,
                "Segments per ACK": sent / acks if acks else None,
            }
            rows.append(row)
    return Table(rows).round(2)
