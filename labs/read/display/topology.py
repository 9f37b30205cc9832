"""The figure of the two hosts and the link between them, as SVG."""

from __future__ import annotations

from pathlib import Path

from labs.drive.parameters.declare import plain

DRAWN = Path(__file__).with_suffix(".svg")
DATA = ">DATA<"
"""The label of the arrow from the server, to which figures are added."""


class Topology(str):
    """The figure; a notebook shows it."""

    def _repr_html_(self) -> str:
        return str(self)


def topology(*, rate_mbit: float | None = None, delay_ms: float | None = None) -> Topology:
    """The two hosts, their buffers, and where rate and delay are applied; with figures if given."""
    figures = {"Mbit/s": rate_mbit, "ms": delay_ms}
    link = [f"{plain(value)} {unit}" for unit, value in figures.items() if value is not None]
    label = f">data: {', '.join(link)}<" if link else ">data<"
    return Topology(DRAWN.read_text("utf-8").replace(DATA, label))
