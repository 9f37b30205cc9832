"""One download over time: TCP state at the sender and at the receiver, and goodput."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, Any

import numpy
import pandas
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import KIB, MIB
from labs.experiments.buffers.narrative import describe_run
from labs.experiments.buffers.prediction import expected, receive_buffer, send_buffer
from labs.experiments.buffers.settings import Settings
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_run
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VEIL,
    VERMILION,
    dressed,
    log_title,
    nothing,
)
from labs.read.readings.bulk_transfer import bdp_bytes
from labs.read.readings.goodput import Download, download, own_socket
from labs.read.readings.instruments import OF_SS, instants
from labs.read.runs.run import Run
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SENDER, RECEIVER, GOODPUT = 1, 2, 3
# The three plots in parts of the figure's height: from, to.
PLACES = {SENDER: (0.66, 1.0), RECEIVER: (0.27, 0.61), GOODPUT: (0.0, 0.22)}
HEADINGS = {
    SENDER: "the sender: nginx on the server",
    RECEIVER: "the receiver: the client",
    GOODPUT: "goodput",
}
BDP = "BDP"
LIMITS, LINK_LIMITS = " <b>limits</b>", ": <b>the link limits</b>"
"""What is written behind the limit that holds."""
SHORTEST_STEP_S = 0.1
MOMENTS = 12
"""Rows of the table behind the timeline."""
FEW = 30
DRAWN = (
    "at_ns",
    *("snd_mss_bytes", "snd_cwnd_segments", "snd_wnd_bytes", "wmem_queued_bytes"),
    *("unacked_segments", "rmem_alloc_bytes", "rcvbuf_bytes"),
    *("rcv_ssthresh_bytes", "rcv_space_bytes"),
)
"""The columns of samples that are drawn."""
IN_FLIGHT = ("unacked_segments", "snd_mss_bytes")
SSTHRESH = ("rcv_ssthresh_bytes",)


def timeline(run: Run) -> Figure:
    """TCP's state at both ends during the transfer: windows and buffers, and goodput in MiB/s.

    The axes of sizes are logarithmic, so slow start is a straight line; zero (an empty receive
    buffer) is not drawn. Lines are the sampler's. Rings mark what `ss` printed at the same moments,
    crosses where it disagrees. The largest size of each buffer and the BDP are dashed lines; the
    limit that holds in theory is bold. A run without samples, or without a download, gives a figure
    that says so.
    """
    if not run.settings_as(Settings).is_download:
        return nothing(f"Condition “{run.condition}”", "this run has no download")
    seen = download(run)
    server = _since(own_socket(run.samples("server"), "bytes_acked", DRAWN), seen)
    client = _since(own_socket(run.samples("client"), "bytes_received", DRAWN), seen)
    title = f"One download, condition “{run.condition}”"
    if server.empty or client.empty:
        return nothing(
            title,
            f"no timeline: the transfer took {1e3 * seen.duration_s:.0f} ms<br>and ended before "
            "the first sample",
            of_run(run),
        )
    length_s = (seen.end_ns - seen.started_ns) / 1e9
    limits = _limits(run)
    figure = Figure(
        [
            *_sender(server),
            *_receiver(client),
            *(_limit_line(limit, length_s) for limit in limits),
            *_of_ss(SENDER, _since(instants(run, "server", "bytes_acked"), seen), IN_FLIGHT),
            *_of_ss(RECEIVER, _since(instants(run, "client", "bytes_received"), seen), SSTHRESH),
            *_goodput(run, seen),
        ]
    )
    return dressed(
        figure,
        _layout(limits, length_s),
        title=title,
        caption=of_run(run),
        height=800,
        tell=describe_run(run),
        table=_moments(server, client),
    )


def _since(rows: DataFrame, seen: Download) -> DataFrame:
    """The samples during the transfer, with `s`: seconds since the request."""
    rows = rows[(rows["at_ns"] >= seen.started_ns) & (rows["at_ns"] <= seen.end_ns)]
    return rows.assign(s=(rows["at_ns"] - seen.started_ns) / 1e9)


def _sender(rows: DataFrame) -> list[Scatter]:
    mss = rows["snd_mss_bytes"]
    return [
        _line(SENDER, rows, rows["snd_cwnd_segments"] * mss, "congestion window (cwnd)", BLUE),
        _line(SENDER, rows, rows["snd_wnd_bytes"], "receive window (rwnd)", GREEN, "dash"),
        _line(SENDER, rows, rows["wmem_queued_bytes"], "send buffer in use", PURPLE, "dot"),
        _line(SENDER, rows, rows["unacked_segments"] * mss, "in flight", VERMILION, width=2.5),
    ]


def _receiver(rows: DataFrame) -> list[Scatter]:
    held = rows["rmem_alloc_bytes"]
    return [
        _line(RECEIVER, rows, rows["rcvbuf_bytes"], "receive buffer", ORANGE),
        _line(RECEIVER, rows, rows["rcv_ssthresh_bytes"], "rcv_ssthresh", GREEN, "dash"),
        _line(RECEIVER, rows, rows["rcv_space_bytes"], "rcv_space", BLUE, "dot"),
        _line(
            RECEIVER, rows, held, "receive buffer in use, at each sample", PURPLE, mode="markers"
        ),
    ]


@dataclass(frozen=True)
class _Limit:
    """An upper limit of a plot's sizes: a horizontal line with its number."""

    row: int
    name: str
    size: float
    holds: bool
    said: str
    """Behind the name of the limit that holds; empty for the others."""
    above: bool
    """Where its words are: above the line, or below."""


def _limits(run: Run) -> list[_Limit]:
    """The limits of each end in theory, and the BDP; one of them holds."""
    theory, bdp = expected(run), bdp_bytes(run)
    bound = None if theory is None else theory.bound

    def limit(row: int, name: str, size: float, holds: bool) -> _Limit:
        is_link = name == BDP
        said = (LINK_LIMITS if is_link else LIMITS) if holds else ""
        return _Limit(row, name, size, holds, said, above=not is_link)

    sends, receives = send_buffer(run).most_bytes, receive_buffer(run).most_bytes
    found = [
        limit(SENDER, "largest send buffer", sends, bound == SEND_BUFFER),
        limit(RECEIVER, "largest receive buffer", receives, bound == RECEIVE_WINDOW),
    ]
    if bdp:
        found += [limit(row, BDP, bdp, bound == LINK) for row in (SENDER, RECEIVER)]
    return found


def _limit_line(limit: _Limit, length_s: float) -> Scatter:
    return Scatter(
        x=[0, length_s],
        y=[limit.size, limit.size],
        mode="lines",
        name=f"{limit.name}, {size_in_words(limit.size)}",
        hoverinfo="skip",
        line={
            "color": BLACK,
            "dash": "longdash" if limit.name == BDP else "dashdot",
            "width": 2.5 if limit.holds else 1.2,
        },
        **_plot(limit.row),
    )


def _limit_words(limit: _Limit) -> dict[str, Any]:
    return {
        "x": 1,
        "xref": "paper",
        "y": log10(limit.size),
        "yref": f"y{_number(limit.row)}",
        "text": f"{limit.name} {size_in_words(limit.size)}" + limit.said,
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom" if limit.above else "top",
        "font": {"size": 12},
        "bgcolor": VEIL,
    }


def _moments(server: DataFrame, client: DataFrame) -> DataFrame:
    """Both ends at a few moments, sizes in MiB."""
    mss = server["snd_mss_bytes"] / MIB
    ends = (
        {
            "in flight": server["unacked_segments"] * mss,
            "congestion window (cwnd)": server["snd_cwnd_segments"] * mss,
            "receive window (rwnd)": server["snd_wnd_bytes"] / MIB,
            "send buffer in use": server["wmem_queued_bytes"] / MIB,
        },
        {
            "receive buffer": client["rcvbuf_bytes"] / MIB,
            "rcv_ssthresh": client["rcv_ssthresh_bytes"] / MIB,
        },
    )
    moments = [
        float(at) for at in numpy.linspace(server["s"].iloc[0], server["s"].iloc[-1], MOMENTS)
    ]
    table = {"time, s": moments}
    for rows, columns in zip((server, client), ends, strict=True):
        nearest = [int((rows["s"] - at).abs().to_numpy().argmin()) for at in moments]
        table |= {
            f"{name}, MiB": [float(value) for value in values.iloc[nearest]]
            for name, values in columns.items()
        }
    return pandas.DataFrame(table)


def _of_ss(row: int, rows: DataFrame, columns: tuple[str, ...]) -> list[Scatter]:
    """What ss printed at the moments of samples, for one quantity."""
    if rows.empty:
        return []
    values = rows[columns[0] + OF_SS].astype(float).fillna(0)
    for name in columns[1:]:
        # A size that ss omits is taken from the sample: it never changes.
        values = values * rows[name + OF_SS].fillna(rows[name]).astype(float)
    same = rows["differs"] == ""
    return [
        Scatter(
            x=rows["s"].tolist(),
            y=[value if value > 0 else None for value in values],
            mode="markers",
            name="ss at the same moments: "
            + ("" if same.all() else f"{same.sum()} of ")
            + f"{len(rows)} identical",
            text=[words or "all fields identical" for words in rows["differs"]],
            marker={
                "color": BLACK,
                "size": 9 if len(rows) <= FEW else 5,
                "symbol": ["circle-open" if alike else "x" for alike in same],
            },
            hovertemplate="ss at %{x:.1f} s: %{text}<extra></extra>",
            **_plot(row),
        )
    ]


def _goodput(run: Run, seen: Download) -> list[Scatter]:
    step_s = max(SHORTEST_STEP_S, run.link.measured.rtt_ms / 1e3)
    seconds, bytes_s = seen.goodput_over_time(step_s)
    measured = Scatter(
        x=seconds,
        y=[value / MIB for value in bytes_s],
        mode="lines",
        name=f"measured, every {1e3 * step_s:.0f} ms",
        line={"color": SKY, "width": 2.5, "shape": "vh"},
        hovertemplate="%{y:.1f} MiB/s at %{x:.1f} s<extra></extra>",
        **_plot(GOODPUT),
    )
    theory = expected(run)
    if theory is None:
        return [measured]
    predicted = Scatter(
        x=[0, (seen.end_ns - seen.started_ns) / 1e9],
        y=[theory.goodput_mib_s] * 2,
        mode="lines",
        name=f"predicted, {in_three_digits(theory.goodput_mib_s)} MiB/s",
        hoverinfo="skip",
        line={"color": VERMILION, "dash": "dash", "width": 1.5},
        **_plot(GOODPUT),
    )
    return [measured, predicted]


def _line(
    row: int,
    rows: DataFrame,
    values: Series[Any],
    name: str,
    colour: str,
    dash: str = "solid",
    *,
    width: float = 2,
    mode: str = "lines",
) -> Scatter:
    return Scatter(
        x=rows["s"].to_numpy(),
        y=values.where(values > 0).to_numpy(float),
        mode=mode,
        name=name,
        line={"color": colour, "dash": dash, "width": width},
        marker={"color": colour, "size": 4},
        text=numpy.array([size_in_words(value) for value in values], dtype=str),
        hovertemplate=f"{name} %{{text}} at %{{x:.1f}} s<extra></extra>",
        **_plot(row),
    )


def _layout(limits: list[_Limit], length_s: float) -> dict[str, Any]:
    """Three plots below each other on one time axis, each with its heading and its legend."""
    found: dict[str, Any] = {"annotations": [_limit_words(limit) for limit in limits]}
    sizes = [KIB * 4**power for power in range(11)]
    for row, (bottom, top) in PLACES.items():
        number = _number(row)
        found["annotations"].append(
            {
                "text": f"<b>{HEADINGS[row]}</b>",
                "showarrow": False,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": top,
                "xanchor": "left",
                "yanchor": "bottom",
                "yshift": 4,
            }
        )
        found[f"legend{number}"] = {
            "x": 1.01,
            "xanchor": "left",
            "y": top,
            "yanchor": "top",
            "font": {"size": 12},
            "title": {"text": HEADINGS[row]},
        }
        seconds: dict[str, Any] = {
            "anchor": f"y{number}",
            "domain": [0.0, 1.0],
            "range": [0, length_s * 1.01],
        }
        values: dict[str, Any] = {"anchor": f"x{number}", "domain": [bottom, top]}
        if row == GOODPUT:
            seconds |= {"title": {"text": "seconds since the request"}}
            values |= {"title": {"text": "MiB/s"}, "rangemode": "tozero"}
        else:
            seconds |= {"matches": f"x{GOODPUT}", "showticklabels": False}
            values |= {
                "type": "log",
                "title": {"text": log_title("size")},
                "tickvals": sizes,
                "ticktext": [size_in_words(size) for size in sizes],
            }
        found |= {f"xaxis{number}": seconds, f"yaxis{number}": values}
    return found


def _plot(row: int) -> dict[str, str]:
    """The axes and the legend of a row of the figure."""
    number = _number(row)
    return {"xaxis": f"x{number}", "yaxis": f"y{number}", "legend": f"legend{number}"}


def _number(row: int) -> str:
    """How plotly numbers the axes and the legend of a row: the first has no number."""
    return "" if row == 1 else str(row)
