"""One transfer over time at both ends: what each socket held, what limited it, and the goodput."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy
from pandas import DataFrame

from labs.guest.units import MIB, SECOND_NS
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_run
from labs.read.figures.axes import SIZES, Axis
from labs.read.figures.lines import Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.panels import Panels, Together
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, nothing
from labs.read.readings.goodput import Download, download, own_socket
from labs.read.readings.instruments import OF_SS, instants
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plotly.graph_objects import Figure

    from labs.read.runs.run import Run

SENDER = {
    "cwnd_bytes": "congestion window (cwnd)",
    "snd_wnd_bytes": "receive window (rwnd)",
    "wmem_queued_bytes": "send buffer in use",
    "in_flight_bytes": "in flight",
}
RECEIVER = {
    "rcvbuf_bytes": "receive buffer",
    "rcv_ssthresh_bytes": "rcv_ssthresh",
    "rcv_space_bytes": "rcv_space",
    "rmem_alloc_bytes": "receive buffer in use, at each sample",
}
"""The lines of each end: the column of its samples, and its name."""
LOOKS = {
    "cwnd_bytes": Look(BLUE),
    "snd_wnd_bytes": Look(GREEN, "dash"),
    "wmem_queued_bytes": Look(PURPLE, "dot"),
    "in_flight_bytes": Look(VERMILION, width=2.5),
    "rcvbuf_bytes": Look(ORANGE),
    "rcv_ssthresh_bytes": Look(GREEN, "dash"),
    "rcv_space_bytes": Look(BLUE, "dot"),
    "rmem_alloc_bytes": Look(PURPLE, size=4, mode="markers"),
    "goodput_mib_s": Look(SKY, width=2.5, shape="vh"),
}
READ = (
    *("at_ns", "snd_mss_bytes", "snd_cwnd_segments", "snd_wnd_bytes", "wmem_queued_bytes"),
    *("unacked_segments", "rmem_alloc_bytes", "rcvbuf_bytes", "rcv_ssthresh_bytes"),
    "rcv_space_bytes",
)
"""The columns of samples that are drawn."""
SHORTEST_STEP_S, MOMENTS, FEW = 0.1, 12, 30
"""The shortest step of the goodput, the rows of the table, and how many marks of ss are large."""
COUNTERS = {"server": "bytes_acked", "client": "bytes_received"}
"""The counter that tells the download's socket at each end."""
SIZE = Axis("size", "size", log=True, ticks=SIZES)
AT_SS = "ss at the same moments: "


class Limits(Protocol):
    """What a transfer cannot exceed in theory: the largest buffers and the BDP, which of the
    theory's names is the limit, and the steady goodput; None where nothing is known."""

    send_most_bytes: int
    receive_most_bytes: int
    bdp_bytes: float | None
    bound: str | None
    predicted_mib_s: float | None


def _marks(limits: Limits, size: int, name: str, limit: str) -> tuple[Mark, ...]:
    """The lines of a buffer and of the BDP; the limit that holds is bold and says so."""
    buffer = Mark(size, f"largest {name} {{size}}", "y", BLACK, "dashdot", 1.2)
    if limits.bound == limit:
        buffer = replace(buffer, text=f"largest {name} {{size}} <b>limits</b>", width=2.5)
    if not limits.bdp_bytes:
        return (buffer,)
    bdp = Mark(limits.bdp_bytes, "BDP {size}", "y", BLACK, "longdash", 1.2)
    if limits.bound == LINK:
        bdp = replace(bdp, text="BDP {size}: <b>the link limits</b>", width=2.5)
    return buffer, bdp


def timeline(run: Run, limits: Limits, text: str) -> Figure:
    """TCP's state at both ends during a download, and its goodput in MiB/s, with these limits.

    The axes of sizes are logarithmic, so slow start is a straight line; zero (an empty receive
    buffer) is not drawn. Lines are the sampler's. Rings mark what `ss` printed at the same moments,
    crosses where it disagrees. A run without samples gives a figure that says so. `text` is the
    text alternative.
    """
    seen = download(run)
    server, client = (
        _since(own_socket(run.samples(host), counter, READ), seen)
        for host, counter in COUNTERS.items()
    )
    title = f"One download, condition “{run.condition}”"
    if server.empty or client.empty:
        why = f"no timeline: the transfer took {1e3 * seen.duration_s:.0f} ms<br>and ended before "
        return nothing(title, f"{why}the first sample", of_run(run))
    mss = server["snd_mss_bytes"]
    server["cwnd_bytes"] = server["snd_cwnd_segments"] * mss
    server["in_flight_bytes"] = server["unacked_segments"] * mss
    length_s = (seen.end_ns - seen.started_ns) / SECOND_NS
    x = Axis("s", "seconds since the request", "", range=(0, 1.01 * length_s))
    printed = (_since(instants(run, host, counter), seen) for host, counter in COUNTERS.items())
    in_flight, ssthresh = printed
    of_sender = _marks(limits, limits.send_most_bytes, "send buffer", SEND_BUFFER)
    of_receiver = _marks(limits, limits.receive_most_bytes, "receive buffer", RECEIVE_WINDOW)
    return Panels(
        title,
        rows=lambda run: server,
        caption=lambda rows: of_run(run),
        describe=lambda rows: text,
        table=lambda rows: _moments(server, client),
        same_x=True,
        legends=True,
        panels=(
            Together(
                "the sender: nginx on the server",
                rows=lambda run: server,
                forms=(
                    _sizes(x, server, SENDER, of_sender),
                    _of_ss(x, in_flight, "unacked_segments", "snd_mss_bytes"),
                ),
            ),
            Together(
                "the receiver: the client",
                rows=lambda run: client,
                forms=(
                    _sizes(x, client, RECEIVER, of_receiver),
                    _of_ss(x, ssthresh, "rcv_ssthresh_bytes"),
                ),
            ),
            _goodput(x, run, seen, limits.predicted_mib_s),
        ),
    )(run)


def _since(rows: DataFrame, seen: Download) -> DataFrame:
    """The samples during the transfer, with `s`: seconds since the request."""
    rows = rows[rows["at_ns"].between(seen.started_ns, seen.end_ns)]
    return rows.assign(s=(rows["at_ns"] - seen.started_ns) / SECOND_NS)


def _sizes(x: Axis, samples: DataFrame, lines: Mapping[str, str], marks: tuple[Mark, ...]) -> Lines:
    return Lines(
        "sizes",
        rows=lambda run: samples,
        x=x,
        y=SIZE,
        lines=lines,
        looks=LOOKS,
        predicted=None,
        marks=marks,
        mode="lines",
        height=215,
    )


def _of_ss(x: Axis, rows: DataFrame, *columns: str) -> Lines:
    """What ss printed at the moments of samples, for the product of these columns."""
    is_same = rows["differs"] == ""
    alike, size = int(is_same.sum()), 9 if len(rows) <= FEW else 5
    of_all = f"{alike} of {len(rows)}" if alike < len(rows) else alike
    if not rows.empty:
        # ss omits zeros, and a size that never changes: both are in the sample.
        values = (rows[f"{name}{OF_SS}"].fillna(rows[name]).astype(float) for name in columns)
        rows = rows.assign(same=is_same, size=prod(values))
    return Lines(
        "ss",
        rows=lambda run: rows,
        x=x,
        y=SIZE,
        by="same",
        named={True: f"{AT_SS}{of_all} identical", False: f"{AT_SS}another value"},
        looks={
            True: Look(BLACK, symbol="circle-open", size=size),
            False: Look(BLACK, symbol="x", size=size),
        },
        mode="markers",
        words=lambda row: f"ss at {row['s']:.1f} s: {row['differs'] or 'all fields identical'}",
    )


def _goodput(x: Axis, run: Run, seen: Download, predicted_mib_s: float | None) -> Lines:
    step_s = max(SHORTEST_STEP_S, run.link.measured.rtt_ms / 1e3)
    seconds, bytes_s = seen.goodput_over_time(step_s)
    rows = DataFrame({"s": seconds, "goodput_mib_s": bytes_s, "predicted": predicted_mib_s})
    rows["goodput_mib_s"] /= MIB
    shown = None
    if predicted_mib_s is not None:
        name = f"predicted, {in_three_digits(predicted_mib_s)} MiB/s"
        look = Look(BLACK, "dash", mode="lines")
        shown = Prediction("predicted", name=name, look=look)
    return Lines(
        "goodput",
        rows=lambda run: rows,
        x=x,
        y=Axis("goodput_mib_s", "goodput", "MiB/s", begins_at_0=True),
        lines={"goodput_mib_s": f"measured, every {1e3 * step_s:.0f} ms"},
        looks=LOOKS,
        predicted=shown,
        mode="lines",
        height=140,
    )


def _moments(server: DataFrame, client: DataFrame) -> DataFrame:
    """Both ends at a few moments, sizes in MiB."""
    moments = numpy.linspace(server["s"].iloc[0], server["s"].iloc[-1], MOMENTS)
    table = DataFrame({"time, s": moments})
    for samples, lines in ((server, SENDER), (client, RECEIVER)):
        apart = numpy.subtract.outer(moments, samples["s"].to_numpy())
        nearest = numpy.abs(apart).argmin(axis=1)
        for column, name in lines.items():
            table[f"{name}, MiB"] = samples[column].to_numpy(float)[nearest] / MIB
    return table
