"""Draw the board sketches of docs/lessons.md: docs/boards/lesson-1.svg to lesson-5.svg.

    .venv/bin/python docs/boards.py

Every figure in them is computed from the formulae that the notebooks use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labs.catalog import find
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, mathis_bytes_s
from labs.read.theory.nagle import wait
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes

FOLDER = Path(__file__).with_name("boards")
WIDTH, HEIGHT = 720, 330
INK, GREY, BLUE, ORANGE, GREEN = "#1b1f24", "#6b7280", "#0072B2", "#D55E00", "#009E73"
PALE = "#dbeafe"
KERNEL, RATE_MBIT, RTT_MS, HZ = "6.1", 1000.0, 200.0, 250
RMEM_BYTES, WMEM_BYTES = 6_291_456, 4_194_304
"""The default maxima of tcp_rmem and tcp_wmem in Linux 6.1."""
LOSS_PCT, LOSSY_MBIT, LOSSY_RTT_MS = (0.01, 0.1, 1.0), 100.0, 40.0
MIB = 2.0**20


def text(x: float, y: float, words: str, *, at: str = "start", size: int = 15, ink: str = INK,
         bold: bool = False) -> str:  # fmt: skip
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{at}" font-size="{size}" fill="{ink}"{weight}>'
        f"{escape(words)}</text>"
    )


def line(*points: tuple[float, float], ink: str = INK, width: float = 2, dash: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{places}" fill="none" stroke="{ink}" stroke-width="{width}"{dashed}/>'
    )


def box(x: float, y: float, width: float, height: float, *, fill: str = "none",
        ink: str = INK) -> str:  # fmt: skip
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" '
        f'stroke="{ink}" stroke-width="2"/>'
    )


def arrow(start: tuple[float, float], end: tuple[float, float], ink: str) -> list[str]:
    x1, y1 = end
    back = -12 if x1 > start[0] else 12
    return [
        line(start, end, ink=ink, width=3),
        line((x1 + back, y1 - 9), end, (x1 + back, y1 + 4), ink=ink, width=3),
    ]


def sketch(title: str, told: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(told)}" font-family="system-ui, \'DejaVu Sans\', sans-serif">',
            f"<title>{escape(told)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            text(20, 30, title, size=18, bold=True),
            *parts,
            "</svg>\n",
        ]
    )


def allowed() -> tuple[float, float, float]:
    """The BDP of the link, and the payload that each default buffer admits, in MiB."""
    window = receive_window_bytes(RMEM_BYTES, KERNEL)
    return (
        bdp_bytes(RATE_MBIT, RTT_MS) / MIB,
        window / MIB,
        send_bound_bytes(WMEM_BYTES, KERNEL) / MIB,
    )


def pipe() -> str:
    """Lesson 1: a pipe that is hardly filled."""
    bdp, window, send = allowed()
    goodput = send / (RTT_MS / 1e3)
    left, right, long = 130.0, 590.0, 460.0
    told = (
        f"A link of {RATE_MBIT:g} Mbit/s and {RTT_MS:g} ms holds {bdp:.1f} MiB. The receive window "
        f"admits {window:.2f} MiB, the send buffer {send:.2f} MiB, so one download reaches "
        f"{goodput:.1f} MiB/s."
    )
    bars = [("the link holds (BDP)", bdp, GREY), ("receive window", window, GREEN),
            ("send buffer", send, ORANGE)]  # fmt: skip
    parts = [
        text(120, 92, "server", at="end", bold=True),
        text(600, 92, "client", bold=True),
        box(left, 66, long, 42),
        box(left, 66, long * send / bdp, 42, fill=ORANGE, ink=ORANGE),
        text(left + long * send / bdp + 8, 92, f"the rest of the {RTT_MS:g} ms the link is idle"),
        text(
            (left + right) / 2,
            132,
            f"{RATE_MBIT:g} Mbit/s x {RTT_MS:g} ms = {bdp:.1f} MiB",
            at="middle",
        ),
    ]
    for place, (name, size, ink) in enumerate(bars):
        y = 165 + 40 * place
        parts += [
            text(190, y + 18, name, at="end"),
            box(200, y, 380 * size / bdp, 24, fill=ink, ink=ink),
            text(208 + 380 * size / bdp, y + 18, f"{size:.3g} MiB"),
        ]
    parts.append(
        text(
            20,
            312,
            f"The smallest decides: {send:.2f} MiB / {RTT_MS / 1e3:g} s = {goodput:.1f} MiB/s",
            bold=True,
        )
    )
    return sketch("In flight: what the link holds, and what the buffers admit", told, parts)


def knee() -> str:
    """Lesson 2: goodput against the size of both buffers."""
    full = line_goodput_bytes_s(RATE_MBIT) / MIB
    bdp = bdp_bytes(RATE_MBIT, RTT_MS) / MIB

    def goodput(buffer_mib: float) -> float:
        size = int(buffer_mib * MIB)
        admitted = min(receive_window_bytes(size, KERNEL), send_bound_bytes(size, KERNEL))
        return min(full, admitted / MIB / (RTT_MS / 1e3))

    most = 70.0
    sizes = [0.5 * step for step in range(1, int(2 * most) + 1)]
    needed = next(size for size in sizes if goodput(size) >= full)

    def place(size: float, speed: float) -> tuple[float, float]:
        return 90 + 580 * size / most, 270 - 190 * speed / full

    told = (
        f"Goodput grows with the buffers up to {needed:.0f} MiB, {needed / bdp:.1f} times the BDP "
        f"of {bdp:.1f} MiB, and then stays at {full:.0f} MiB/s. With buffers of one BDP it is "
        f"{goodput(bdp):.0f} MiB/s."
    )
    parts = [
        line((90, 60), (90, 270), (680, 270)),
        line(place(0, full), place(most, full), ink=GREY, dash="4 4"),
        line((90, 270), *(place(size, goodput(size)) for size in sizes), ink=BLUE, width=4),
        text(84, 86, f"{full:.0f}", at="end"),
        text(96, 56, "goodput, MiB/s", ink=GREY),
        text(670, 318, "size of both buffers, MiB", at="end", ink=GREY),
    ]
    for size, words in ((bdp, "1 BDP"), (needed, f"{needed / bdp:.1f} BDP")):
        x, y = place(size, goodput(size))
        parts += [
            line((x, y), (x, 270), ink=ORANGE, dash="6 4"),
            text(x, 290, f"{words} = {size:.1f}", at="middle", ink=ORANGE),
        ]
    x, y = place(bdp, goodput(bdp))
    parts.append(text(x + 10, y + 20, f"{goodput(bdp):.0f} MiB/s"))
    parts.append(text(place(needed, full)[0] + 10, 180, "half of a buffer is window"))
    return sketch("A buffer of one BDP is not enough", told, parts)


def shares() -> str:
    """Lesson 3: what becomes window, and what a loss rate leaves."""
    old, new = (receive_window_bytes(RMEM_BYTES, kernel) / RMEM_BYTES for kernel in ("6.1", "6.12"))
    full = line_goodput_bytes_s(LOSSY_MBIT) / MIB
    reached = [min(full, mathis_bytes_s(loss_pct, LOSSY_RTT_MS) / MIB) for loss_pct in LOSS_PCT]
    told = (
        f"Of a receive buffer {100 * old:.0f} % become window on Linux 6.1 and {100 * new:.0f} % "
        f"on 6.12. On a link of {LOSSY_MBIT:g} Mbit/s and {LOSSY_RTT_MS:g} ms, reno reaches "
        + ", ".join(
            f"{b:.2g} MiB/s with {p:g} % loss" for p, b in zip(LOSS_PCT, reached, strict=True)
        )
        + "."
    )
    parts = []
    for place, (kernel, share) in enumerate((("6.1", old), ("6.12", new))):
        y = 56 + 44 * place
        parts += [
            text(130, y + 20, f"Linux {kernel}", at="end"),
            box(140, y, 520, 30),
            box(140, y, 520 * share, 30, fill=GREEN, ink=GREEN),
            text(152, y + 21, f"window {100 * share:.0f} %", ink="#ffffff", bold=True),
        ]
    parts += [
        text(660, 162, "the rest: overhead of packets", at="end", ink=GREY),
        text(
            20,
            200,
            f"Reno with random loss p: MSS / RTT x 1.31 / sqrt(p). The link: {full:.1f} MiB/s",
        ),
    ]
    for place, (loss, speed) in enumerate(zip(LOSS_PCT, reached, strict=True)):
        y = 216 + 34 * place
        parts += [
            text(130, y + 18, f"{loss:g} %", at="end"),
            box(140, y, 520 * speed / full, 24, fill=BLUE, ink=BLUE),
            text(150 + 520 * speed / full, y + 18, f"{speed:.2g} MiB/s"),
        ]
    return sketch("From a buffer to a window, and from losses to goodput", told, parts)


def stall() -> str:
    """Lesson 4: the packets of one request that stalls."""
    held = wait(HZ)
    left, right = 150.0, 570.0
    told = (
        "The client sends a request. The server sends the header, a small segment, and holds the "
        f"body back until the header is acknowledged. The client delays its ACK for "
        f"{held.least_ms:g} to {held.most_ms:g} ms. After the ACK the body follows."
    )
    parts = [
        line((left, 62), (left, 312)),
        line((right, 62), (right, 312)),
        text(left, 54, "client", at="middle", bold=True),
        text(right, 54, "server", at="middle", bold=True),
        *arrow((left, 76), (right, 92), BLUE),
        text(360, 76, "request", at="middle"),
        *arrow((right, 108), (left, 124), GREEN),
        text(360, 108, "header: a small segment", at="middle"),
        box(left, 136, right - left, 92, fill="#fdeccb", ink="#fdeccb"),
        text(
            360, 164, f"{held.least_ms:g} to {held.most_ms:g} ms of silence", at="middle", bold=True
        ),
        text(360, 187, "server: Nagle waits for the ACK", at="middle"),
        text(360, 210, "client: the ACK waits for data", at="middle"),
        *arrow((left, 244), (right, 260), BLUE),
        text(360, 244, "delayed ACK", at="middle"),
        *arrow((right, 280), (left, 296), GREEN),
        text(360, 280, "body", at="middle"),
    ]
    return sketch("Two rules that wait for each other", told, parts)


def margin() -> str:
    """Lesson 5: three intervals and the verdict on each."""
    allowed = find("buffers").margin
    low, high = allowed.low, allowed.high

    def x(ratio: float) -> float:
        return 360 + 1200 * (ratio - 1)

    cases = (
        ("inside: the two agree", 0.95, 1.04, GREEN),
        ("across an edge: not decided, repeat", 0.93, 1.14, GREY),
        ("outside: they differ; find the reason", 1.13, 1.2, ORANGE),
    )
    told = (
        f"The ratio of two testbeds with its interval, and a margin from {low:g} to {high:g}. An "
        "interval inside the margin means agreement, one outside a difference. One across an edge "
        "decides nothing."
    )
    parts = [
        box(x(low), 60, x(high) - x(low), 220, fill=PALE, ink=PALE),
        line((x(1), 60), (x(1), 280), dash="4 4"),
        *(text(x(ratio), 300, f"{ratio:g}", at="middle") for ratio in (low, 1.0, high)),
        text(360, 322, "ratio of medians: virtual machines / virtual time", at="middle", ink=GREY),
    ]
    for place, (words, begin, end, ink) in enumerate(cases):
        y = 108 + 64 * place
        parts += [
            line((x(begin), y), (x(end), y), ink=ink, width=5),
            *(line((x(end), y - 9), (x(end), y + 9), ink=ink, width=3) for end in (begin, end)),
            text(20, y - 18, words),
        ]
    return sketch("Equal, different, or not decided", told, parts)


BOARDS: dict[str, Callable[[], str]] = {
    f"lesson-{number}.svg": draw
    for number, draw in enumerate((pipe, knee, shares, stall, margin), start=1)
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in BOARDS.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
        print(FOLDER / name)
