"""The figures of the lab `stack`: effects of settings, distributions of latency, load and latency.

They take `study.repeated`: the conditions with all their repetitions. Disturbed runs are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from hdrh.histogram import HdrHistogram
from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.experiments.stack.conditions import SECOND_US
from labs.experiments.stack.effects import LATENCIES, Effect
from labs.experiments.stack.effects import effects as compared
from labs.experiments.stack.latencies import merged, settings_of
from labs.read.charts.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    NO_RUNS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.display.format import in_digits
from labs.read.display.provenance import of_run
from labs.read.stats.repetitions import Repeated

LOOKS = (
    *((BLUE, "solid"), (VERMILION, "dash"), (GREEN, "dot"), (ORANGE, "dashdot")),
    *((PURPLE, "longdash"), (SKY, "longdashdot"), (BLACK, "solid")),
)
MEASURES = {"p50_us": ("median", BLUE, "circle"), "p99_us": ("99th percentile", ORANGE, "diamond")}
PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
TICKS = {50: "50 %", 90: "90 %", 99: "99 %", 99.9: "99.9 %", 99.99: "99.99 %"}
ROW_PX, FRAME_PX = 44, 190
UNDISTURBED = "without disturbed runs"


def effects(repeated: Sequence[Repeated]) -> Figure:
    """The ratio of each condition's latency to that of the condition without its setting.

    Hollow marks: the setting has no effect on this machine, so the ratio is noise.
    """
    title = "Effects on the latency"
    found = [one for one in compared(repeated) if any(one.ratios[name] for name in LATENCIES)]
    if not found:
        return nothing(title, "no condition has enough undisturbed runs for an interval")
    figure = Figure()
    figure.add_vline(x=1, line={"color": BLACK, "width": 1})
    for name, (words, colour, sign) in MEASURES.items():
        figure.add_trace(_ratios(found, name, words, colour, sign))
    edges = [edge for one in found for edge in _edges(one)]
    ticks = log_ticks(min(edges) / 1.5, max(edges) * 1.5)
    figure.update_xaxes(
        type="log",
        title=log_title("ratio of latencies"),
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    labels = [f"{one.condition}<br>over {one.against}" for one in found]
    figure.update_yaxes(
        tickvals=list(range(len(found))), ticktext=labels, range=[len(found) - 0.5, -0.5]
    )
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"})
    return dressed(
        figure,
        title=title,
        caption=f"{_caption(repeated)}<br>bars: 95 % bootstrap intervals; hollow: no effect here",
        height=FRAME_PX + ROW_PX * len(found),
        tell=f"{title}. {'; '.join(_told(one) for one in found)}.",
        table=DataFrame([_row(one) for one in found]),
    )


def _ratios(found: Sequence[Effect], name: str, words: str, colour: str, sign: str) -> Scatter:
    known = [(place, one, one.ratios[name]) for place, one in enumerate(found)]
    rows = [(place, one, ratio) for place, one, ratio in known if ratio is not None]
    shift = -0.12 if name == "p50_us" else 0.12
    return Scatter(
        x=[ratio.middle for _, _, ratio in rows],
        y=[place + shift for place, _, _ in rows],
        mode="markers",
        name=words,
        marker={
            "color": colour,
            "size": 10,
            "symbol": [sign if one.effective else f"{sign}-open" for _, one, _ in rows],
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [ratio.high - ratio.middle for _, _, ratio in rows],
            "arrayminus": [ratio.middle - ratio.low for _, _, ratio in rows],
            "color": colour,
        },
        hovertemplate="%{x:.3g}<extra>" + words + "</extra>",
    )


def _edges(one: Effect) -> list[float]:
    known = [one.ratios[name] for name in LATENCIES]
    return [edge for ratio in known if ratio for edge in (ratio.low, ratio.high)]


def _row(one: Effect) -> dict[str, object]:
    cells: dict[str, object] = {"condition": one.condition, "compared with": one.against}
    for name, (words, _, _) in MEASURES.items():
        ratio = one.ratios[name]
        cells[f"{words}, ratio"] = ratio and round(ratio.middle, 3)
        cells[f"{words}, interval"] = ratio and f"{ratio.low:.3g} to {ratio.high:.3g}"
    return {**cells, "effect here": "yes" if one.effective else f"no: {one.because}"}


def _told(one: Effect) -> str:
    said = [
        f"{words} {ratio.middle:.3g}"
        for name, (words, _, _) in MEASURES.items()
        if (ratio := one.ratios[name])
    ]
    return f"{one.condition} over {one.against}: {', '.join(said)}"


def distribution(
    repeated: Sequence[Repeated], *conditions: str, title: str = "Distribution of the latency"
) -> Figure:
    """The latency by percentile, up to 99.99 %, over the requests of all repetitions together.

    Both axes are logarithmic; a percentile is placed by the share of slower requests.
    """
    chosen = [one for one in repeated if one.condition in conditions and one.counted]
    if not chosen:
        return nothing(title, NO_RUNS)
    figure, rows, medians = Figure(), [], []
    for place, one in enumerate(chosen):
        total = merged(one.counted)
        points = [(percent, _at(total, percent)) for percent in _shown(total)]
        colour, dash = LOOKS[place % len(LOOKS)]
        figure.add_trace(
            Scatter(
                x=[100 / (100 - percent) for percent, _ in points],
                y=[value for _, value in points],
                mode="lines+markers",
                name=f"{one.condition}, n = {total.get_total_count():,}",
                line={"color": colour, "dash": dash, "width": 2.5},
                text=[f"{percent:g} %" for percent, _ in points],
                hovertemplate="%{text}: %{y:.3s} us<extra>" + one.condition + "</extra>",
            )
        )
        medians.append(f"{one.condition} {in_digits(_at(total, 50))} us")
        rows.append(
            {"condition": one.condition, **{f"{share:g} %, us": value for share, value in points}}
        )
    figure.update_xaxes(
        type="log",
        title="percentile, by the share of slower requests (logarithmic)",
        tickvals=[100 / (100 - percent) for percent in TICKS],
        ticktext=list(TICKS.values()),
    )
    _latency_axis(figure)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"})
    return dressed(
        figure,
        title=title,
        caption=f"{_caption(repeated)}<br>HDR histograms of all repetitions, {UNDISTURBED}",
        height=470,
        tell=f"{title}. Medians: {'; '.join(medians)}.",
        table=DataFrame(rows),
    )


def _latency_axis(figure: Figure) -> None:
    """A logarithmic axis of latencies that contains all of them."""
    every = [float(value) for trace in figure.data for value in trace.y]
    ticks = log_ticks(min(every) / 2, max(every) * 2)
    figure.update_yaxes(
        type="log",
        title=log_title("latency, us"),
        tickvals=ticks,
        ticktext=[f"{tick:,.0f}" for tick in ticks],
    )


def _shown(total: HdrHistogram) -> list[float]:
    """The percentiles with at least ten slower requests."""
    most = 100 - 1000 / max(total.get_total_count(), 11)
    return [percent for percent in PERCENTILES if percent <= most]


def _at(total: HdrHistogram, percent: float) -> float:
    return float(total.get_value_at_percentile(percent))


def load_and_latency(repeated: Sequence[Repeated]) -> Figure:
    """Latency by load in an open loop, and of the closed loop with the same server.

    The load is the rate as a percentage of the capacity of one thread. Beyond 100 % requests wait
    ever longer. A closed loop cannot show this, because it sends less.
    """
    title = "Load and latency"
    loops = [one for one in repeated if one.condition == "closed" or _rate(one)]
    found = sorted((one for one in loops if one.counted), key=_load_pct)
    if not found:
        return nothing(title, NO_RUNS)
    figure = Figure()
    figure.add_vline(x=100, line={"color": GREY, "dash": "dot"})
    for name, (words, colour, sign) in MEASURES.items():
        for closed in (False, True):
            rows = [one for one in found if (_rate(one) == 0) is closed]
            figure.add_trace(
                Scatter(
                    x=[_load_pct(one) for one in rows],
                    y=[_middle(one, name) for one in rows],
                    mode="markers" if closed else "lines+markers",
                    name=f"{'closed' if closed else 'open'} loop, {words}",
                    marker={"size": 11, "symbol": f"{sign}-open" if closed else sign},
                    line={"color": colour},
                    hovertemplate="%{x:.0f} %: %{y:.3s} us<extra>" + words + "</extra>",
                )
            )
    figure.update_xaxes(title="load, % of the server's capacity", rangemode="tozero")
    _latency_axis(figure)
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"})
    table = DataFrame(
        [
            {"condition": one.condition, "load, %": round(_load_pct(one))}
            | {f"{words}, us": _middle(one, name) for name, (words, _, _) in MEASURES.items()}
            for one in found
        ]
    )
    return dressed(
        figure,
        title=title,
        caption=f"{_caption(repeated)}<br>medians of the repetitions, {UNDISTURBED}",
        height=440,
        tell=f"{title}: {'; '.join(f'{row[0]} {row[2]:,.0f} us' for row in table.to_numpy())}.",
        table=table,
    )


def _rate(one: Repeated) -> int:
    return settings_of(one.middle).rate_per_s


def _load_pct(one: Repeated) -> float:
    """The rate of an open loop, and the throughput of a closed one, as a share of one thread's."""
    settings = settings_of(one.middle)
    rate = settings.rate_per_s or _middle(one, "requests_s")
    return 100 * rate * settings.work_us / SECOND_US


def _middle(one: Repeated, column: str) -> float:
    """The median of a column over the undisturbed repetitions."""
    return median(one.column(column))


def _caption(repeated: Iterable[Repeated]) -> str:
    return next((of_run(one.middle) for one in repeated), "")
