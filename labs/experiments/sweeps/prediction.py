"""What the theory predicts for a transfer of the lab `sweeps`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.experiments.sweeps.conditions import RMEM, WMEM
from labs.experiments.sweeps.socket_buffers import (
    RECEIVER,
    SENDER,
    SETSOCKOPT,
    receive_buffer,
    send_buffer,
    settings_of,
)
from labs.read.runs.run import Run
from labs.read.theory.bounds import predict


@dataclass(frozen=True)
class Expected:
    """The predicted goodput, and what limits it; `cannot_say` is the reason for no prediction."""

    goodput_bytes_s: float | None = None
    steady_bytes_s: float | None = None
    bound: str | None = None
    cannot_say: str = ""


def expected(run: Run) -> Expected:
    """The prediction for a run, from its link as measured, its buffers and its kernel."""
    link, found = run.link.asked, run.link.measured
    if link.rate_mbit is None or link.loss_pct or link.jitter_ms:
        return Expected(cannot_say="the model has a rate, and neither losses nor jitter")
    sends, receives = send_buffer(run), receive_buffer(run)
    said = predict(
        rate_mbit=link.rate_mbit if found.rate_mbit is None else found.rate_mbit,
        rtt_ms=found.rtt_ms,
        kernel=run.kernel.release,
        tcp_rmem=_three(run.sysctl(RECEIVER, RMEM)),
        tcp_wmem=_three(run.sysctl(SENDER, WMEM)),
        rcvbuf_bytes=receives.granted_bytes if receives.fixed_by == SETSOCKOPT else None,
        sndbuf_bytes=sends.granted_bytes if sends.fixed_by == SETSOCKOPT else None,
        mss_bytes=settings_of(run).mss_bytes or 1448,
    )
    if said is None:
        return Expected(cannot_say="nothing limits this transfer")
    return Expected(None, said.goodput_bytes_s, said.bound)


def _three(words: str) -> tuple[int, int, int]:
    smallest, first, largest = map(int, words.split())
    return smallest, first, largest
