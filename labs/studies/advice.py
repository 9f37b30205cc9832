"""The advice on buffers that a notebook shows, and runs that measure it on the virtual kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from labs.launch.launch import run
from labs.read.display.advice import advice_in_words, core_to_paste, sizes_in_words, to_paste
from labs.read.display.rich_output import Table, Text, Words
from labs.read.figures.advice import against_buffer_size
from labs.read.readings.arrivals import arrivals
from labs.read.runs.run import Run
from labs.read.theory.advice import (
    Advice,
    Reached,
    checked_path,
    observed_s,
    reached,
    three_rmem,
    three_wmem,
    transfer_bytes,
)
from labs.read.theory.advice import advise as computed
from labs.read.theory.bulk_flow import CUBIC
from labs.studies.progress import Bar

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
    goodputs_bytes_s: tuple[float, ...]

    @property
    def goodput_bytes_s(self) -> float:
        return median(self.goodputs_bytes_s)


@dataclass(frozen=True, eq=False, repr=False)
class Advised:
    """The advice for a path, and what a flow reaches there with the buffers of today.

    A notebook shows the chart. `words`, `to_paste` and `core_to_paste` are texts.
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
        return Words(advice_in_words(self.advice, self.here, self.connections))

    @property
    def to_paste(self) -> Text:
        """The sysctl lines for both ends."""
        return Text(to_paste(self.advice))

    @property
    def core_to_paste(self) -> Text:
        """The sysctl lines for programs that set their buffers with setsockopt."""
        return Text(core_to_paste(self.advice))

    def measured(self) -> Table:
        """The buffers of today and the advised ones, measured on the virtual kernel."""
        rows = measure(self.advice, {"today": self.here, "advised": at_least(self.advice)})
        return Table(
            [
                {
                    "Buffers": one.name,
                    "Sizes": sizes_in_words(one.predicted),
                    "Predicted (MiB/s)": one.predicted.goodput_bytes_s / MIB,
                    "Measured (MiB/s)": one.goodput_bytes_s / MIB,
                }
                for one in rows
            ]
        )

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
    found = computed(rate_mbit, rtt_ms, kernel, mss_bytes=mss_bytes)
    here = reached(found, sndbuf_bytes=sndbuf_bytes, rcvbuf_bytes=rcvbuf_bytes)
    return Advised(found, here, connections)


def at_least(advice: Advice) -> Reached:
    """What a flow reaches with the smallest buffers that fill the link, as in virtual time, where
    packets are coalesced in pairs."""
    return reached(advice, sndbuf_bytes=advice.send_bytes, rcvbuf_bytes=advice.receive_bytes)


def measure(
    advice: Advice, wanted: Mapping[str, Reached], *, into: str = INTO
) -> tuple[Measured, ...]:
    """One run on the virtual kernel per set of buffers, by name, and per seed if the path loses
    packets; existing runs are reused.

    The sizes are set as the advice says, as the maxima of tcp_wmem and tcp_rmem. Missing if the
    kernel is not built.
    """
    sweeps = find(BULK_LAB)
    conditions = tuple(_condition(advice, name, one) for name, one in wanted.items())
    lab = replace(sweeps, all_conditions=lambda p: conditions, groups=(), _conditions={})
    runs: dict[str, list[Run]] = {name: [] for name in wanted}
    for seed in SEEDS if advice.loss_pct else SEEDS[:1]:
        parameters = sweeps.Parameters(kernel=advice.kernel, runs=into, seed=seed)
        with Bar(f"advise, seed {seed}" if advice.loss_pct else "advise", list(wanted)) as bar:
            for one in run(lab, parameters, progress=bar.tell).runs:
                runs[one.condition].append(one)
    return tuple(
        Measured(name, tuple(made), wanted[name], tuple(_steady_bytes_s(one) for one in made))
        for name, made in runs.items()
    )


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
    wmem, rmem = three_wmem(buffers.sndbuf_bytes), three_rmem(advice, buffers.rcvbuf_bytes)
    link = Link(
        *(advice.rate_mbit, advice.rtt_ms, advice.loss_pct),
        # A sender's own queue would drop packets of several segments.
        shaped_at="router" if advice.loss_pct else "server",
        queue_packets=QUEUE_PACKETS,
        port=PORT,
    )
    control = {} if advice.control == CUBIC else {CONTROL: str(advice.control)}
    return Condition(
        name,
        link,
        {
            "server": {"net.ipv4.tcp_wmem": " ".join(map(str, wmem)), **control},
            "client": {"net.ipv4.tcp_rmem": " ".join(map(str, rmem))},
        },
        as_settings(settings),
    )


def _steady_bytes_s(one: Run) -> float:
    found = arrivals(one).steady_bytes_s
    if found is None:
        raise RunFailed(f"{one.name}: all data arrived at once. Measure a path with a longer RTT")
    return found
