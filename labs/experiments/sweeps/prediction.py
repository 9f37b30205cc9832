"""What the theory predicts for a transfer of the lab `sweeps`."""

from __future__ import annotations

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import KIB
from labs.experiments.sweeps.conditions import ADV_WIN_SCALE, RMEM, WMEM
from labs.experiments.sweeps.settings import Settings
from labs.experiments.sweeps.socket_buffers import (
    RECEIVER,
    SENDER,
    SETSOCKOPT,
    Buffer,
    receive_buffer,
    send_buffer,
)
from labs.read.runs.run import Run
from labs.read.theory.bulk import Transfer, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import Interval, shown
from labs.read.theory.receive_window import TIMESTAMP_BYTES

SMALLEST_BYTES = 16 * KIB
"""The smallest granted buffer of the points at which the model was tested."""


def expected(run: Run) -> Transfer:
    """The predicted transfer, computed from the measured link, both buffers and the kernel."""
    flow = flow_of(run)
    if not run.link.ok:
        return _cannot_say("the link is not as requested")
    fixed = [size for size in (flow.sndbuf_bytes, flow.rcvbuf_bytes) if size is not None]
    if min(fixed, default=SMALLEST_BYTES) < SMALLEST_BYTES:
        return _cannot_say(f"a buffer below {SMALLEST_BYTES // KIB} KiB holds a few packets")
    return transfer(flow, run.settings_as(Settings).transfer_bytes)


def expected_interval(run: Run) -> Interval | None:
    """How far the result may lie from the prediction, where single packets decide; None where
    they do not, or if the theory cannot say."""
    if expected(run).cannot_say:
        return None
    return shown(flow_of(run), run.settings_as(Settings).transfer_bytes)


def flow_of(run: Run) -> Flow:
    """The transfer of a run as the model takes it. BadInput for a link without a rate."""
    settings, found = run.settings_as(Settings), run.link.measured
    sends, receives = send_buffer(run), receive_buffer(run)
    return Flow(
        rate_mbit=found.rate_mbit or run.link.asked.rate_mbit or 0.0,
        rtt_ms=found.rtt_ms,
        kernel=run.kernel.release,
        mss_bytes=settings.mss_bytes - TIMESTAMP_BYTES if settings.mss_bytes else MSS_BYTES,
        sndbuf_bytes=_fixed(sends),
        rcvbuf_bytes=_fixed(receives),
        sndbuf_locked=sends.fixed_by == SETSOCKOPT,
        rcvbuf_locked=receives.fixed_by == SETSOCKOPT,
        tcp_rmem=_three(run.sysctl(RECEIVER, RMEM)),
        tcp_wmem=_three(run.sysctl(SENDER, WMEM)),
        write_bytes=settings.write_bytes,
        nodelay=settings.nodelay,
        writes_per_wake=settings.writes_per_wake,
        adv_win_scale=int(run.sysctls[RECEIVER]["after"].get(ADV_WIN_SCALE, "1")),
    )


def _cannot_say(reason: str) -> Transfer:
    return Transfer(0.0, 0.0, 0.0, "", (), {}, reason)


def _fixed(buffer: Buffer) -> int | None:
    """The size of a buffer that does not grow."""
    return None if buffer.requested_bytes is None else buffer.granted_bytes


def _three(words: str) -> tuple[int, int, int]:
    smallest, first, largest = map(int, words.split())
    return smallest, first, largest
