"""The account of a capture as one page that works offline: sentences, time by cause, timeline, and
the ladder of the worst wait."""

from __future__ import annotations

from html import escape
from typing import Final

from pandas import DataFrame
from plotly.graph_objects import Bar, Figure

from labs.read.charts.ladder import ladder
from labs.read.charts.style import (
    BLACK,
    BLUE,
    FONT,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    where_from,
)
from labs.read.charts.time_sequence import time_sequence
from labs.read.flows.account_text import duration, heading, sentence, told
from labs.read.flows.explain import Account, FileAccount, Finding
from labs.read.flows.reasons import explained

MOST_BARS: Final = 12
MOST_REASONS: Final = 6
AROUND: Final = 8
"""Packets before and after a wait that the ladder draws."""
COLOURS: Final = (VERMILION, ORANGE, PURPLE, BLUE, GREEN, SKY)
USUAL, OTHER = "#c9ced6", GREY
STYLE: Final = f"""body {{ font-family: {FONT}; color: {BLACK}; max-width: 62rem; margin: 2rem auto;
padding: 0 1rem; line-height: 1.45 }} h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.1rem }}
li {{ margin: .2rem 0 }} code {{ background: #f3f4f6; padding: .1rem .3rem;
overflow-wrap: anywhere }} .usual {{ color: {GREY} }}"""


def time_by_cause(found: FileAccount) -> Figure:
    """One bar per connection, divided among the reasons of its time; the connections that lost
    most, at most 12."""
    chosen = found.accounts[:MOST_BARS]
    totals: dict[str, float] = {}
    for one in chosen:
        for finding in one.findings:
            if not finding.is_usual:
                totals[finding.reason] = totals.get(finding.reason, 0.0) + finding.time_ms
    named = [name for name, ms in sorted(totals.items(), key=lambda one: -one[1]) if ms > 0]
    named = named[:MOST_REASONS]
    groups = [*named, "other reasons", "usual: round trips, slow start, sending"]
    labels = [f"{one.connection}: {one.client} to {one.server}" for one in chosen]
    figure = Figure()
    rows = []
    for place, group in enumerate(groups):
        seconds = [_share(one, group, named) / 1e3 for one in chosen]
        if not any(seconds):
            continue
        colour = COLOURS[place] if group in named else USUAL if place else OTHER
        colour = OTHER if group == "other reasons" else colour
        figure.add_trace(
            Bar(
                y=labels,
                x=seconds,
                name=group,
                orientation="h",
                marker={"color": colour, "line": {"color": "white", "width": 0.5}},
                hovertemplate="%{y}<br>" + group + ": %{x:.4g} s<extra></extra>",
            )
        )
        rows.append({"reason": group, **dict(zip(labels, seconds, strict=True))})
    figure.update_layout(barmode="stack", legend=LEGEND_ABOVE)
    figure.update_xaxes(title="time, s")
    figure.update_yaxes(title="connection", autorange="reversed", type="category")
    left = len(found.accounts) - len(chosen)
    return dressed(
        figure,
        title="Time by cause",
        caption=where_from(found.file) + (f" · {left:,} more connections" if left > 0 else ""),
        height=170 + 34 * len(chosen),
        tell="; ".join(f"{name}: {duration(totals[name])}" for name in named) or "No time was lost",
        table=DataFrame(rows),
    )


def _share(account: Account, group: str, named: list[str]) -> float:
    if group in named:
        return sum(one.time_ms for one in account.findings if one.reason == group)
    usual = group.startswith("usual")
    return sum(
        one.time_ms for one in account.findings if one.is_usual == usual and one.reason not in named
    )


def page(segments: DataFrame, found: FileAccount) -> str:
    """The page; `segments` is the table of segments that `found` explains."""
    figures = [time_by_cause(found)] if found.accounts else []
    first = found.accounts[0] if found.accounts else None
    if first is not None:
        figures.append(time_sequence(segments, first.connection, source=found.file))
        worst = _worst(first)
        if worst is not None:
            figures.append(_ladder(segments, found.file, first, worst))
    drawn = [
        figure.to_html(full_html=False, include_plotlyjs=not number, config={"displaylogo": False})
        for number, figure in enumerate(figures)
    ]
    body = [
        f"<h1>What {escape(found.file)} waited for</h1>",
        "<h2>The capture</h2>",
        _list(found.verdict.lines),
        _list(found.remarks.lines),
    ]
    for account in found.accounts[:MOST_BARS]:
        body += _connection(account)
        if account is first:
            body += drawn[1:]
    if drawn:
        body.insert(1, drawn[0])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>'
        f"{escape(found.file)}, explained</title><style>{STYLE}</style></head><body>"
        f"{''.join(body)}</body></html>\n"
    )


def _list(lines: tuple[str, ...] | list[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _connection(account: Account) -> list[str]:
    found = told(account)
    advice = [
        f"To change ({one.reason}): {explained(one.reason).advice}"
        for one in found
        if one.is_trouble and explained(one.reason).advice
    ]
    said = heading(account)
    return [
        f"<h2>{escape(said[0].upper() + said[1:])}</h2>",
        _list([sentence(one) for one in found] or ["Nothing to tell."]),
        _list(advice[:3]),
    ]


def _worst(account: Account) -> Finding | None:
    found = [one for one in account.findings if one.is_trouble and one.frames]
    return max(found, key=lambda one: one.longest_ms, default=None)


def _ladder(segments: DataFrame, file: str, account: Account, worst: Finding) -> Figure:
    """The packets around the longest wait of a finding."""
    own = segments[segments["connection"] == account.connection]
    frames = own["frame"].to_numpy()
    begin = int(frames.searchsorted(worst.frames[0][0]))
    end = int(frames.searchsorted(worst.frames[0][1]))
    first = max(0, begin - AROUND, end - 60)
    rows = (int(own.index[first]), int(own.index[min(len(own) - 1, end + AROUND)]))
    return ladder(
        segments,
        account.connection,
        rows=rows,
        source=file,
        title=f"The longest wait: {worst.reason}",
    )
