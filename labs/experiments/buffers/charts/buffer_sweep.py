"""Goodput against buffer size: the two series of a sweep, the prediction, the article."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas

from labs.drive.units import MIB
from labs.experiments.buffers.results import Results
from labs.experiments.buffers.sweep import Smallest, curve, points, remarks, smallest
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.figures.axes import SIZES, Axis
from labs.read.figures.declaration import in_group
from labs.read.figures.lines import Difference, Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, GREEN, VERMILION
from labs.read.readings.bulk_transfer import SETSOCKOPT, SYSCTL

if TYPE_CHECKING:
    from pandas import DataFrame


def _smallest(rows: DataFrame) -> Smallest | None:
    """The smallest buffer that fills the line: of the series by sysctl, if there is one."""
    answers = smallest(rows)
    return next((answer for answer in answers if answer.series == SYSCTL), (*answers, None)[0])


def _smallest_bytes(rows: DataFrame) -> float | None:
    answer = _smallest(rows)
    return answer.buffer_bytes if answer else None


def _describe(rows: DataFrame) -> str:
    """The ends of the sweep, and what the narrative finds in it."""
    first, last = rows.iloc[0], rows.iloc[-1]
    return (
        f"Steady goodput over {len(rows)} buffer sizes, from "
        f"{in_three_digits(first['steady_mib_s'])} MiB/s with "
        f"{size_in_words(first['buffer_bytes'])} to {in_three_digits(last['steady_mib_s'])} MiB/s "
        f"with {size_in_words(last['buffer_bytes'])}. {' '.join(remarks(rows))}"
    )


def _fills(rows: DataFrame) -> str:
    answer = _smallest(rows)
    return f"fills the line<br>from {{size}}<br>({answer.of_the_bdp:.2f} BDP)" if answer else ""


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "condition": rows["condition"],
            "buffer, MiB": rows["buffer_bytes"] / MIB,
            "of the BDP": rows["buffer_bytes"] / rows["bdp_bytes"],
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
        }
    )


against_buffer_size = Lines(
    "Goodput against the size of both socket buffers",
    rows=points,
    of=Results,
    empty="none of these runs belongs to a sweep",
    x=Axis("buffer_bytes", "size of both buffers", log=True, ticks=SIZES),
    y=Axis("steady_mib_s", "steady goodput", begins_at_0=True),
    by="series",
    named={SYSCTL: "set by sysctl, automatic sizing off", SETSOCKOPT: "set by setsockopt"},
    looks={SYSCTL: Look(BLUE), SETSOCKOPT: Look(BLACK, symbol="diamond-open", size=13)},
    mode="markers",
    predicted=Prediction(curve=curve, look=Look(VERMILION)),
    published="article_steady_mib_s",
    published_in=in_group(having=["article_steady_mib_s", "buffer_bytes"]),
    marks=(
        Mark("line_mib_s", "line rate {digits} MiB/s", axis="y"),
        Mark("bdp_bytes", "BDP {size}", colour=BLACK, dash="longdash"),
        Mark(_smallest_bytes, _fills, colour=GREEN, dash="dash"),
    ),
    difference=Difference(within_pct=5.0),
    describe=_describe,
    table=_as_table,
    height=552,
)
