"""An audit as one HTML page that needs no network: group by group, what deviates first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from labs.publish.html import document, style_of
from labs.read.audit.items import GROUPS, Item
from labs.read.display.format import printable

TOOLS = frozenset(
    {
        "cpupower", "echo", "ethtool", "ip", "modprobe", "nft", "nsenter", "sysctl", "systemctl",
        "taskset", "tc",
    }
)  # fmt: skip
"""The first words of what can be typed in a shell."""
ABOUT = (
    "A measurement means something only if the machine is known. Each item matters for latency, "
    "throughput or repeatability. An item is marked if it is not what its source advises for "
    "measurements, or if a sysctl is not what this kernel starts with. Nothing was changed."
)


@dataclass(frozen=True)
class Entry:
    """An item, and the machines for which it is the same."""

    item: Item
    machines: tuple[str, ...]


def page(items: Sequence[Item]) -> str:
    """The page of an audit. It has no date, so the same settings give the same bytes."""
    machines = tuple(dict.fromkeys(item.machine for item in items))
    groups = [
        (group, [entry for entry in entries(items) if entry.item.group == group])
        for group in GROUPS
    ]
    links = "".join(
        f'<li><a href="#group-{number}">{escape(group)}</a></li>'
        for number, (group, some) in enumerate(groups)
        if some
    )
    body = "".join(
        f'<section><h2 id="group-{number}">{escape(group)}</h2>'
        + "".join(_entry(entry, machines) for entry in some)
        + "</section>"
        for number, (group, some) in enumerate(groups)
        if some
    )
    head = f'<h1>Audit</h1>\n<nav><ol>{links}</ol></nav>\n<p class="text">{ABOUT}</p>'
    return document(
        "Audit",
        f"{head}\n{_counts(items)}\n{body}",
        style=style_of("report/style.css", "audit.css"),
        generator="labs doctor audit",
    )


def entries(items: Iterable[Item]) -> list[Entry]:
    """The items by rank; those that are equal on several machines only once, and those that differ
    between machines one after the other."""
    by_content: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        same = (item.key, item.shown, item.unknown, item.deviates, item.wanted)
        by_content.setdefault(same, []).append(item)
    merged = [Entry(some[0], tuple(item.machine for item in some)) for some in by_content.values()]
    places: dict[str, tuple[int, int]] = {}
    for place, entry in enumerate(merged):
        rank, first = places.get(entry.item.key, (entry.item.rank, place))
        places[entry.item.key] = (min(rank, entry.item.rank), first)
    return sorted(merged, key=lambda entry: places[entry.item.key])


def _counts(items: Sequence[Item]) -> str:
    unknown = [item for item in items if item.value is None]
    counts = {
        "items": len(items),
        "deviate": sum(item.deviates is True for item in items),
        "unknown": len(unknown),
        "only root can read": sum("only root" in item.unknown for item in unknown),
    }
    return (
        '<ul class="counts">'
        + "".join(
            f"<li><b>{count}</b>{escape(name)}</li>" for name, count in counts.items() if count
        )
        + "</ul>"
    )


def _entry(entry: Entry, every: tuple[str, ...]) -> str:
    """An item; its machines are named unless it is the same on all of them."""
    item = entry.item
    value = f"unknown: {item.unknown}" if item.value is None else item.shown
    named = "" if entry.machines == every else ", ".join(entry.machines)
    machine = f' <span class="machine">{_text(named)}</span>' if named else ""
    device = f' <span class="device">{_text(item.device)}</span>' if item.device else ""
    head = (
        f'<span class="name">{_text(item.title)}{device}{machine}</span> '
        f'<span class="value">{_text(value)}</span> '
        f'<span class="matters">{_text(", ".join(item.matters))}</span>'
    )
    wanted = f"{item.wanted} ({item.wanted_by})" if item.wanted else item.wanted_by
    texts = (
        (f"<p>Wanted: {_text(wanted)}</p>" if wanted else "")
        + f'<p>{_text(item.says)} <span class="source">Source: {_text(item.source)}</span></p>'
        + f"<p>Change: {_command(item.change)}</p>"
    )
    if item.deviates:
        return f'<article class="item deviates"><div class="head">{head}</div>{texts}</article>'
    kind = "item unknown" if item.value is None else "item"
    return (
        f'<details class="{kind}"><summary><span class="head">{head}</span></summary>'
        f"{texts}</details>"
    )


def _command(text: str) -> str:
    """A command to type as code; other advice as words."""
    words = _text(text)
    return f"<code>{words}</code>" if text.split()[0] in TOOLS else words


def _text(text: str) -> str:
    return escape(printable(text), quote=False)
