"""The advice on buffers that a notebook shows: a chart, words, and lines to paste."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.kernel.versions import DEFAULT
from labs.drive.testbed.link import MSS_BYTES
from labs.read.charts.advice import against_buffer_size
from labs.read.display.advice import advice_in_words, core_to_paste, to_paste
from labs.read.display.rich_output import Text, Words
from labs.read.theory.advice import Advice, Reached, checked_path, reached
from labs.read.theory.advice import advise as computed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Advised:
    """The advice for a path, and what a flow reaches there with the buffers of today.

    A notebook shows the chart. `words`, `to_paste` and `core_to_paste` are texts.
    """

    advice: Advice
    here: Reached
    connections: int = 1

    @property
    def chart(self) -> Figure:
        """Goodput against buffer size, the point advised, and the point where you are."""
        return against_buffer_size(self.advice, self.here)

    @property
    def words(self) -> Words:
        return Words(advice_in_words(self.advice, self.here, self.connections))

    @property
    def to_paste(self) -> Text:
        """The sysctl lines for both ends."""
        return Text(to_paste(self.advice))

    @property
    def core_to_paste(self) -> Text:
        """The sysctl lines for programs that set their buffers with setsockopt."""
        return Text(core_to_paste(self.advice))

    def __repr__(self) -> str:
        return str(self.words)

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  only in a notebook

        display(self.chart)


def advise(
    rate_mbit: float,
    rtt_ms: float,
    kernel: str = DEFAULT,
    *,
    mss_bytes: int = MSS_BYTES,
    sndbuf_bytes: int | None = None,
    rcvbuf_bytes: int | None = None,
    connections: int = 1,
) -> Advised:
    """The buffers with which one flow fills a path, and what it reaches with those of today.

    `sndbuf_bytes` and `rcvbuf_bytes` are the largest sizes that the buffers have today, by default
    the kernel's. BadInput, in one line, for a path for which nothing can be advised.
    """
    checked_path(rate_mbit, rtt_ms, kernel, mss_bytes)
    found = computed(rate_mbit, rtt_ms, kernel, mss_bytes=mss_bytes)
    here = reached(found, sndbuf_bytes=sndbuf_bytes, rcvbuf_bytes=rcvbuf_bytes)
    return Advised(found, here, connections)
