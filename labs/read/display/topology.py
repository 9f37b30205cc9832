"""The figure of the two hosts and the link between them, as SVG."""

from __future__ import annotations

from html import escape

from labs.drive.parameters.declare import plain
from labs.drive.testbed.link import Link, layout

WIDTH_PX, HEIGHT_PX = 860, 276
BLACK, GREY, BLUE, ORANGE, PAPER = "#1b1f24", "#6b7280", "#0072B2", "#9a5b00", "#ffffff"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
BOX_PX, HOST_TOP_PX, HOST_HEIGHT_PX = (206, 36), 40, 216
PART_GAP_PX = 14
SERVER_X, CLIENT_X, HOST_WIDTH_PX = 20, 610, 230
SERVER_PARTS = ("nginx: the file", "send buffer (tcp_wmem)", "htb: rate; netem: delay")
CLIENT_PARTS = ("client program", "receive buffer (tcp_rmem)")


class Topology(str):
    """The figure; a notebook shows it."""

    def _repr_html_(self) -> str:
        return str(self)


def topology(*, rate_mbit: float | None = None, delay_ms: float | None = None) -> Topology:
    """The two hosts, their buffers, and where rate and delay are applied; with figures if given."""
    plan = layout(Link())
    server, client = plan.port("server"), plan.port("client")
    link = [
        *([f"{plain(rate_mbit)} Mbit/s"] if rate_mbit is not None else []),
        *([f"{plain(delay_ms)} ms"] if delay_ms is not None else []),
    ]
    data = "data" + (f": {', '.join(link)}" if link else "")
    described = (
        "Topology. The server sends a file to the client. The data passes through the server's "
        "send buffer, then htb and netem, which apply rate and delay on the server's device, then "
        "the client's receive buffer. ACKs return without delay."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img" '
        f'aria-label="{escape(described)}" style="max-width: {WIDTH_PX}px; width: 100%" '
        f'font-family="{FONT}" font-size="14">',
        f"<title>{escape(described)}</title>",
        f'<rect width="{WIDTH_PX}" height="{HEIGHT_PX}" fill="{PAPER}"/>',
        *_host(SERVER_X, "server", server.address, server.device, SERVER_PARTS),
        *_host(CLIENT_X, "client", client.address, client.device, CLIENT_PARTS),
        *_arrow(140, BLUE, data, to_client=True),
        *_arrow(220, ORANGE, "ACKs: no delay, no limit", to_client=False),
        "</svg>",
    ]
    return Topology("\n".join(parts) + "\n")


def _host(x: int, name: str, address: str, device: str, parts: tuple[str, ...]) -> list[str]:
    """A host: its name and address, and its parts from the program down to the device."""
    middle = x + HOST_WIDTH_PX // 2
    shapes = [
        f'<rect x="{x}" y="{HOST_TOP_PX}" width="{HOST_WIDTH_PX}" height="{HOST_HEIGHT_PX}" '
        f'rx="8" fill="none" stroke="{BLACK}" stroke-width="1.5"/>',
        _text(middle, HOST_TOP_PX - 12, f"{name}, {address}", weight="bold"),
    ]
    width, height = BOX_PX
    for place, part in enumerate((*parts, f"device {device}")):
        y = HOST_TOP_PX + PART_GAP_PX + place * (height + PART_GAP_PX)
        shapes += [
            f'<rect x="{x + (HOST_WIDTH_PX - width) // 2}" y="{y}" width="{width}" '
            f'height="{height}" rx="4" fill="none" stroke="{GREY}"/>',
            _text(middle, y + height // 2 + 5, part),
        ]
    return shapes


def _arrow(y: int, colour: str, label: str, *, to_client: bool) -> list[str]:
    """An arrow between the hosts with its label above."""
    left, right = SERVER_X + HOST_WIDTH_PX + 12, CLIENT_X - 12
    start, end, back = (left, right, -10) if to_client else (right, left, 10)
    head = f"{end},{y} {end + back},{y - 6} {end + back},{y + 6}"
    return [
        f'<line x1="{start}" y1="{y}" x2="{end + back}" y2="{y}" stroke="{colour}" '
        'stroke-width="3"/>',
        f'<polygon points="{head}" fill="{colour}"/>',
        _text((left + right) // 2, y - 12, label),
    ]


def _text(x: int, y: int, words: str, *, weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-weight="{weight}" fill="{BLACK}">'
        f"{escape(words)}</text>"
    )
