"""What the theory expects of a run of the lab `nagle`: from its writes, its link, its kernel."""

from __future__ import annotations

from labs.drive.condition import read_settings
from labs.drive.testbed.link import MSS_BYTES
from labs.experiments.nagle.settings import Settings
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines
from labs.read.theory.nagle import Answer, answer

USUAL_HZ = 250
"""What distributions build with; for a run of which it is neither known nor counted."""


def settings_of(run: Run) -> Settings:
    """The settings of a run's condition."""
    return read_settings(Settings, run.inputs["condition"]["settings"])


def hz_of(run: Run) -> int:
    """The ticks per second of the kernel that delays ACKs, which is the client's."""
    counted = machines(run).get("client", Machine()).hz
    return run.kernel.hz or counted or USUAL_HZ


def expected(run: Run) -> Answer | None:
    """What the theory has for the run's responses; None where it has none (loss, jitter)."""
    settings = settings_of(run)
    if run.link.asked.loss_pct or run.link.asked.jitter_ms:
        return None
    return answer(
        settings.written_bytes,
        MSS_BYTES,
        hz=hz_of(run),
        rtt_ms=run.link.measured.rtt_ms,
        requests=settings.on_a_connection,
        nodelay=settings.nodelay,
        joined=settings.writes in ("cork", "more"),
        quick=settings.always_quick,
        closes=not settings.keepalive,
    )
