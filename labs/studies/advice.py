"""The advice on buffers that a notebook shows, and runs that measure it on the virtual kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from plotly.graph_objects import Figure

from labs.catalog import find
from labs.drive.condition import Condition, as_settings
from labs.drive.kernel.versions import DEFAULT
from labs.drive.testbed.link import MSS_BYTES, Link
from labs.drive.units import MIB
from labs.errors import RunFailed
from labs.experiments.sweeps.conditions import PORT, QUEUE_PACKETS
from labs.experiments.sweeps.settings import Settings
from labs.launch.launch import run as perform
from labs.launch.progress import Bar
from labs.read.display.advice import describe_for_notebook, describe_sizes, to_paste
from labs.read.display.rich_output import Table, Text, Words
from labs.read.figures.advice import against_buffer_size
from labs.read.readings.arrivals import arrivals
from labs.read.runs.run import Run
from labs.read.theory.advice import (
    Advice,
    Reached,
    at_least,
    checked_path,
    observed_s,
    reached,
    three,
    transfer_bytes,
)
from labs.read.theory.advice import advise as computed
from labs.read.theory.bulk_flow import CUBIC
from labs.read.theory.kernels import DEFAULT_WMEM

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


@dataclass(frozen=True)
class Measured:
    """What a flow with certain buffers reached in steady state, in one run or, with losses, in one
    per seed, and the prediction."""

    name: str
    runs: tuple[Run, ...]
    predicted: Reached

    @cached_property
    def goodputs_bytes_s(self) -> tuple[float, ...]:
        return tuple(map(_steady_bytes_s, self.runs))

    @property
    def goodput_bytes_s(self) -> float:
        return median(self.goodputs_bytes_s)


@dataclass(frozen=True, eq=False, repr=False)
class Advised:
    """The advice for a path, and what a flow reaches there with the buffers of today.

    A notebook shows the chart. `words` and `to_paste` are texts.
    """

    advice: Advice
    here: Reached
    connections: int = 1

    @property
    def chart(self) -> Figure:
        """Goodput against buffer size, the point advised, and the point where you are."""
        return against_buffer_size(self.advice, self.here)

    @property
    def words(self) -> Words:
        return Words(describe_for_notebook(self.advice, self.here, self.connections))

    @property
    def to_paste(self) -> Text:
        """The sysctl lines for both ends."""
        return Text(to_paste(self.advice))

    def measured(self) -> Table:
        """The buffers of today and the advised ones, measured on the virtual kernel."""
        wanted = {"today": self.here, "advised": at_least(self.advice)}
        rows = [
            {
                "Buffers": result.name,
                "Sizes": describe_sizes(result.predicted),
                "Predicted (MiB/s)": result.predicted.goodput_bytes_s / MIB,
                "Measured (MiB/s)": result.goodput_bytes_s / MIB,
            }
            for result in measure(self.advice, wanted)
        ]
        return Table(rows)

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
    checked_path(rate_mbit, rtt_ms, kernel, mss_bytes)
    advice = computed(rate_mbit, rtt_ms, kernel, mss_bytes=mss_bytes)
    today = reached(advice, sndbuf_bytes=sndbuf_bytes, rcvbuf_bytes=rcvbuf_bytes)
    return Advised(advice, today, connections)


def measure(
    advice: Advice, wanted: Mapping[str, Reached], *, into: str = INTO
) -> tuple[Measured, ...]:
    """One run on the virtual kernel per set of buffers, by name, and per seed if the path loses
    packets; existing runs are reused.

    The sizes are set as the advice says, as the maxima of tcp_wmem and tcp_rmem. Missing if the
    kernel is not built.
    """
    sweeps = find(BULK_LAB)
    conditions = tuple(_condition(advice, name, buffers) for name, buffers in wanted.items())
    lab = replace(sweeps, all_conditions=lambda p: conditions, groups=(), _conditions={})
    studies = []
    for seed in SEEDS if advice.loss_pct else SEEDS[:1]:
        parameters = sweeps.Parameters(kernel=advice.kernel, runs=into, seed=seed)
        title = f"advise, seed {seed}" if advice.loss_pct else "advise"
        with Bar(title, len(wanted)) as bar:
            studies.append(perform(lab, parameters, progress=bar.tell).runs)
    # Each study has its runs in the order of the conditions.
    by_buffers = zip(wanted.items(), zip(*studies, strict=True), strict=True)
    return tuple(Measured(name, runs, buffers) for (name, buffers), runs in by_buffers)


def _condition(advice: Advice, name: str, buffers: Reached) -> Condition:
    size = transfer_bytes(advice, buffers.sndbuf_bytes, buffers.rcvbuf_bytes)
    limit_s = observed_s(advice)
    took_ms = 1e3 * (limit_s or size / buffers.goodput_bytes_s)
    settings = Settings(
        mss_bytes=0 if advice.mss_bytes == MSS_BYTES else advice.mss_bytes + TIMESTAMPS_BYTES,
        transfer_bytes=size,
        limit_s=limit_s or LIMIT_S,
        sample_ms=max(1, round(took_ms / SAMPLES)),
    )
    wmem = " ".join(map(str, three(DEFAULT_WMEM, buffers.sndbuf_bytes)))
    rmem = " ".join(map(str, three(advice.default_rmem, buffers.rcvbuf_bytes)))
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
