"""The figure of the two hosts and the link between them, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from labs.drive.parameters.declare import plain
from labs.drive.testbed.link import Link, Port, layout

WIDTH_PX, HEIGHT_PX = 860, 276
BLACK, GREY, BLUE, ORANGE, PAPER = "#1b1f24", "#6b7280", "#0072B2", "#9a5b00", "#ffffff"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
BOX_PX, PART_GAP_PX, HOST_PX, HOST_TOP_PX = (206, 36), 14, (230, 216), 40
SERVER_X, CLIENT_X, ARROW_PX = 20, 610, (262, 598)
DESCRIBED = (
    "Topology. The server sends a file to the client. The data passes through the server&#x27;s "
    "send buffer, then htb and netem, which apply rate and delay on the server&#x27;s device, then "
    "the client&#x27;s receive buffer. ACKs return without delay."
)
SERVER_PARTS = ("nginx: the file", "send buffer (tcp_wmem)", "htb: rate; netem: delay")
CLIENT_PARTS = ("client program", "receive buffer (tcp_rmem)")


class Topology(str):
    """The figure; a notebook shows it."""

    def _repr_html_(self) -> str:
        return str(self)


def topology(*, rate_mbit: float | None = None, delay_ms: float | None = None) -> Topology:
    """The two hosts, their buffers, and where rate and delay are applied; with figures if given."""
    plan = layout(Link())
    figures = {"Mbit/s": rate_mbit, "ms": delay_ms}
    link = [f"{plain(value)} {unit}" for unit, value in figures.items() if value is not None]
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img" '
        f'aria-label="{DESCRIBED}" style="max-width: {WIDTH_PX}px; width: 100%" '
        f'font-family="{FONT}" font-size="14">',
        f"<title>{DESCRIBED}</title>",
        f'<rect width="{WIDTH_PX}" height="{HEIGHT_PX}" fill="{PAPER}"/>',
        *_host(SERVER_X, plan.port("server"), SERVER_PARTS),
        *_host(CLIENT_X, plan.port("client"), CLIENT_PARTS),
        *_arrow(140, BLUE, f"data: {', '.join(link)}" if link else "data", ARROW_PX, -10),
        *_arrow(220, ORANGE, "ACKs: no delay, no limit", ARROW_PX[::-1], 10),
        "</svg>\n",
    ]
    return Topology("\n".join(shapes))


def _host(x: int, port: Port, parts: tuple[str, ...]) -> Iterator[str]:
    """A host: its name and address, and its parts from the program down to the device."""
    middle = x + HOST_PX[0] // 2
    yield _box(x, HOST_TOP_PX, HOST_PX, f'rx="8" fill="none" stroke="{BLACK}" stroke-width="1.5"')
    yield _text(middle, HOST_TOP_PX - 12, f"{port.host}, {port.address}", weight="bold")
    width, height = BOX_PX
    for place, part in enumerate((*parts, f"device {port.device}")):
        y = HOST_TOP_PX + PART_GAP_PX + place * (height + PART_GAP_PX)
        yield _box(middle - width // 2, y, BOX_PX, f'rx="4" fill="none" stroke="{GREY}"')
        yield _text(middle, y + height // 2 + 5, part)


def _arrow(y: int, colour: str, label: str, ends: tuple[int, int], back: int) -> Iterator[str]:
    """An arrow between the hosts, whose head begins `back` before its end, with its label above."""
    start, end = ends
    head = f"{end},{y} {end + back},{y - 6} {end + back},{y + 6}"
    line = f'x1="{start}" y1="{y}" x2="{end + back}" y2="{y}" stroke="{colour}" stroke-width="3"'
    yield f"<line {line}/>"
    yield f'<polygon points="{head}" fill="{colour}"/>'
    yield _text(sum(ends) // 2, y - 12, label)


def _box(x: int, y: int, size: tuple[int, int], style: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{size[0]}" height="{size[1]}" {style}/>'


def _text(x: int, y: int, words: str, *, weight: str = "normal") -> str:
    style = f'text-anchor="middle" font-weight="{weight}" fill="{BLACK}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
