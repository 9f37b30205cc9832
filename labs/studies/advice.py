"""The advice on buffers that a notebook shows, and runs that measure it on the virtual kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from plotly.graph_objects import Figure

from labs.catalog import find
from labs.drive.kernel.versions import DEFAULT
from labs.errors import RunFailed
from labs.experiments.sweeps.conditions import PORT, QUEUE_PACKETS
from labs.experiments.sweeps.settings import Settings
from labs.guest.condition import Condition, as_settings
from labs.guest.testbed.link import MSS_BYTES, Link
from labs.guest.units import MIB
from labs.launch.launch import run as perform
from labs.launch.progress import Bar
from labs.launch.wanted import Wanted
from labs.read.display.advice import describe, describe_sizes, to_paste
from labs.read.display.rich_output import Table, Text
from labs.read.figures.advice import against_buffer_size
from labs.read.readings.arrivals import arrivals
from labs.read.runs.run import Run
from labs.read.theory.advice import Path, Reached, at_least, reached
from labs.read.theory.advice import advise as computed
from labs.read.theory.bulk_flow import CUBIC

BULK_LAB = "sweeps"
"""The lab that transfers bulk data with iperf3. No other lab is looked up by name."""
INTO = "runs/advise"
TIMESTAMPS_BYTES = 12
CONTROL = "net.ipv4.tcp_congestion_control"
LIMIT_S = 3600.0
SAMPLES = 100
"""About the number of samples of the sockets per run."""
SEEDS = (1, 2, 3, 4, 5)
"""A path with losses is measured once with each."""


@dataclass(frozen=True, eq=False, repr=False)
class Advised:
    """The advice for a path, and what a flow reaches there with the buffers of today.

    A notebook shows the chart. `words` and `to_paste` are texts.
    """

    here: Reached
    connections: int = 1

    @property
    def chart(self) -> Figure:
        """Goodput against buffer size, the point advised, and the point where you are."""
        return against_buffer_size(self.here)

    @property
    def words(self) -> Text:
        return Text(describe(self.here, self.connections, describe_sizes(self.here)))

    @property
    def to_paste(self) -> Text:
        """The sysctl lines for both ends."""
        return Text(to_paste(self.here.advice))

    def measured(self) -> Table:
        """The buffers of today and the advised ones, measured on the virtual kernel."""
        return Table(measure({"today": self.here, "advised": at_least(self.here.advice)}))

    def __repr__(self) -> str:
        return str(self.words)

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  only in a notebook

        display(self.chart)  # type: ignore[no-untyped-call]


def advise(
    rate_mbit: float,
    rtt_ms: float,
    kernel: str = DEFAULT,
    *,
    mss_bytes: int = MSS_BYTES,
    sndbuf_bytes: int | None = None,
    rcvbuf_bytes: int | None = None,
    connections: int = 1,
) -> Advised:
    """The buffers with which one flow fills a path, and what it reaches with those of today.

    `sndbuf_bytes` and `rcvbuf_bytes` are the largest sizes that the buffers have today, by default
    the kernel's. BadInput, in one line, for a path for which nothing can be advised.
    """
    path = Path(rate_mbit=rate_mbit, rtt_ms=rtt_ms, kernel=kernel, mss_bytes=mss_bytes)
    advice = computed(**vars(path.checked()))
    today = reached(advice, sndbuf_bytes=sndbuf_bytes, rcvbuf_bytes=rcvbuf_bytes)
    return Advised(today, connections)


def measure(wanted: Mapping[str, Reached], *, into: str = INTO) -> list[dict[str, Any]]:
    """The goodput in steady state with some sets of buffers of an advice, by name: one row each,
    with the prediction. The median of a run per seed, with the range, if the path loses packets.

    The sizes are set as the advice says, as the maxima of tcp_wmem and tcp_rmem, on the virtual
    kernel; existing runs are reused. Missing if the kernel is not built.
    """
    sweeps, advice = find(BULK_LAB), next(iter(wanted.values())).advice
    conditions = tuple(_condition(name, buffers) for name, buffers in wanted.items())
    lab = replace(sweeps, all_conditions=lambda p: conditions, groups=(), _conditions={})
    studies = []
    for seed in SEEDS if advice.loss_pct else SEEDS[:1]:
        parameters = sweeps.Parameters(kernel=advice.kernel, runs=into, seed=seed)
        title = f"advise, seed {seed}" if advice.loss_pct else "advise"
        with Bar(title, len(wanted)) as bar:
            studies.append(perform(lab, parameters, Wanted(tell=bar.tell)).runs)
    # Each study has its runs in the order of the conditions.
    by_buffers = zip(wanted.items(), zip(*studies, strict=True), strict=True)
    return [_row(name, runs, predicted) for (name, predicted), runs in by_buffers]


def _row(name: str, runs: tuple[Run, ...], predicted: Reached) -> dict[str, Any]:
    goodputs = sorted(map(_steady_bytes_s, runs))
    of_seeds = {"lowest_mib_s": goodputs[0] / MIB, "highest_mib_s": goodputs[-1] / MIB}
    return {
        "buffers": name,
        "sizes": describe_sizes(predicted),
        "predicted_mib_s": None if predicted.cannot_say else predicted.goodput_bytes_s / MIB,
        "measured_mib_s": median(goodputs) / MIB,
        **(of_seeds if len(runs) > 1 else {}),
        "of_the_link_pct": 100 * median(goodputs) / predicted.advice.line_bytes_s,
        "run": ", ".join(run.name for run in runs),
    }


def _condition(name: str, buffers: Reached) -> Condition:
    advice, flow = buffers.advice, buffers.flow
    took_ms = 1e3 * (flow.limit_s or buffers.transfer_bytes / buffers.goodput_bytes_s)
    settings = Settings(
        mss_bytes=0 if advice.mss_bytes == MSS_BYTES else advice.mss_bytes + TIMESTAMPS_BYTES,
        transfer_bytes=buffers.transfer_bytes,
        limit_s=flow.limit_s or LIMIT_S,
        sample_ms=max(1, round(took_ms / SAMPLES)),
    )
    wmem, rmem = (" ".join(map(str, sizes or ())) for sizes in (flow.tcp_wmem, flow.tcp_rmem))
    link = Link(
        *(advice.rate_mbit, advice.rtt_ms, advice.loss_pct),
        # A sender's own queue would drop packets of several segments.
        shaped_at="router" if advice.loss_pct else "server",
        queue_packets=QUEUE_PACKETS,
        port=PORT,
    )
    control = {} if advice.control == CUBIC else {CONTROL: str(advice.control)}
    sysctls = {
        "server": {"net.ipv4.tcp_wmem": wmem, **control},
        "client": {"net.ipv4.tcp_rmem": rmem},
    }
    return Condition(name, link, sysctls, as_settings(settings))


def _steady_bytes_s(run: Run) -> float:
    steady = arrivals(run).steady_bytes_s
    if steady is None:
        raise RunFailed(f"{run.name}: all data arrived at once. Measure a path with a longer RTT")
    return steady
