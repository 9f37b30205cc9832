"""The account of a capture as one page that works offline: sentences, time by cause, timeline, and
the ladder of the worst wait."""

from __future__ import annotations

import re
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Final

from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.read.figures.ladder import ladder
from labs.read.figures.offline_page import drawn_figures, offline_page
from labs.read.figures.plot import level_bars
from labs.read.figures.style import (
    BLUE,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
)
from labs.read.figures.time_sequence import time_sequence
from labs.read.flows.account import NO_TIME, Account, FileAccount, Finding, duration

MOST_BARS: Final = 12
MOST_REASONS: Final = 6
AROUND: Final = 8
"""Packets before and after a wait that the ladder draws."""
MOST_DRAWN: Final = 60
CODE: Final = re.compile("`([^`]+)`")
COLOURS: Final = (VERMILION, ORANGE, PURPLE, BLUE, GREEN, SKY)
PALE = "#c9ced6"
USUAL, OTHER = "usual: round trips, slow start, sending", "other reasons"


def time_by_cause(explained: FileAccount) -> Figure:
    """One bar per connection, divided among the reasons of its time; the connections that lost
    most, at most 12."""
    chosen = explained.accounts[:MOST_BARS]
    totals: defaultdict[str, float] = defaultdict(float)
    for account in chosen:
        for finding in account.findings:
            totals[finding.reason.name] += 0 if finding.reason.is_usual else finding.time_ms
    lost = (name for name, ms in totals.items() if ms > 0)
    named = sorted(lost, key=totals.__getitem__, reverse=True)[:MOST_REASONS]
    labels = [
        f"{account.connection}: {account.client}<br>to {account.server}" for account in chosen
    ]
    traces, rows = [], []
    for place, group in enumerate([*named, OTHER, USUAL]):
        seconds = [_share(account, group, named) / 1e3 for account in chosen]
        if any(seconds):
            colour = {OTHER: GREY, USUAL: PALE}.get(group) or COLOURS[place]
            template = f"%{{y}}<br>{group}: %{{x:.4g}} s<extra></extra>"
            traces.append(level_bars(seconds, labels, group, colour, hovertemplate=template))
            rows.append({"reason": group, **dict(zip(labels, seconds, strict=True))})
    layout = {"barmode": "stack", "legend": LEGEND_ABOVE, "xaxis": {"title": {"text": "time, s"}}}
    up = {"title": {"text": "connection"}, "autorange": "reversed", "type": "category"}
    left = len(explained.accounts) - len(chosen)
    return dressed(
        Figure(traces),
        {**layout, "yaxis": up},
        title="Time by cause",
        caption=Path(explained.file).name + (f" · {left:,} more connections" if left > 0 else ""),
        height=170 + 44 * len(chosen),
        tell="; ".join(f"{name}: {duration(totals[name])}" for name in named) or NO_TIME,
        table=DataFrame(rows),
    )


def _share(account: Account, group: str, named: list[str]) -> float:
    if group in named:
        return sum(finding.time_ms for finding in account.findings if finding.reason.name == group)
    others = (finding for finding in account.findings if finding.reason.name not in named)
    return sum(finding.time_ms for finding in others if finding.reason.is_usual == (group == USUAL))


def page(segments: DataFrame, explained: FileAccount) -> str:
    """The page; `segments` is the table of segments that the account explains."""
    name = Path(explained.file).name
    figures = [time_by_cause(explained)] if explained.accounts else []
    first = explained.accounts[0] if explained.accounts else None
    if first is not None:
        figures.append(time_sequence(segments, first.connection, source=name))
        worst = first.worst
        if worst is not None:
            figures.append(worst_ladder(segments, name, first, worst))
    drawn = drawn_figures(figures)
    body = [f"<h1>What {escape(name)} waited for</h1>", *drawn[:1]]
    if lines := (*explained.verdict.lines, *explained.remarks.lines):
        body += ["<h2>The capture</h2>", _list([escape(line) for line in lines])]
    for account in explained.accounts[:MOST_BARS]:
        body += _connection(account)
        if account is first:
            body += drawn[1:]
    return offline_page(f"{name}, explained", body)


def _list(items: list[str]) -> str:
    made = "".join(item if item.startswith("<li") else f"<li>{item}</li>" for item in items if item)
    return f"<ul>{made}</ul>" if made else ""


def _connection(account: Account) -> list[str]:
    text = account.heading
    sentences = []
    for finding in account.told:
        kind = "" if finding.is_trouble else " class=usual"
        sentences.append(f"<li{kind}>{escape(finding.sentence)}</li>")
    changes = [
        CODE.sub(r"<code>\1</code>", escape(f"{reason[0].upper()}{reason[1:]}: {words}"))
        for reason, words in account.changes.items()
    ]
    return [
        f"<h2>{escape(text[0].upper() + text[1:])}</h2>",
        _list(sentences or [f"{NO_TIME[0].upper()}{NO_TIME[1:]}."]),
        *(["<h3>What to change</h3>", _list(changes)] if changes else []),
    ]


def worst_ladder(
    segments: DataFrame, name: str, account: Account, worst: Finding, *, reasons: bool = True
) -> Figure:
    """The packets around the longest wait of a finding."""
    packets = segments[segments["connection"] == account.connection]
    frames = packets["frame"].to_numpy()
    begin, end = (int(frames.searchsorted(frame)) for frame in worst.frames[0])
    first = max(0, begin - AROUND, end - MOST_DRAWN)
    rows = (int(packets.index[first]), int(packets.index[min(len(packets) - 1, end + AROUND)]))
    gap = {
        "gap_ms": float(packets["time_ns"].iloc[end] - packets["time_ns"].iloc[begin]) / 1e6,
        "reason": worst.reason.name,
        "waiting": worst.waiting,
        "waited_for": worst.waited_for,
    }
    return ladder(
        segments,
        account.connection,
        rows=rows,
        source=name,
        title=f"The longest wait: {worst.reason}" if reasons else "The longest wait",
        also={int(packets.index[end]): gap} if end == begin + 1 else None,
        reasons=reasons,
    )
