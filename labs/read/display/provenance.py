"""Where numbers are from, in words: the link, the testbed, the kernel, recorded or live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.errors import Missing
from labs.read.runs.run import Run

LIVE, RECORDED = "live", "recorded"
NOT_SHAPED, AS_ASKED = "not shaped", "as asked"


def source(run: Run) -> str:
    """`recorded` for a run that came with the project, else `live`."""
    from labs.read.runs.recorded import runs_of

    try:
        data = runs_of(run.lab).resolve()
    except Missing:
        return LIVE
    return RECORDED if run.path.resolve().is_relative_to(data) else LIVE


def asked(link: Mapping[str, Any]) -> str:
    """What was asked of a link (`Run.link["asked"]`), in words."""
    words = [] if link["rate_mbit"] is None else [f"{link['rate_mbit']:g} Mbit/s"]
    words += [f"{link['delay_ms']:g} ms"] if link["delay_ms"] else []
    words += [f"± {link['jitter_ms']:g} ms"] if link["jitter_ms"] else []
    words += [f"{link['loss_pct']:g} % loss"] if link["loss_pct"] else []
    if not words:
        return NOT_SHAPED
    return ", ".join(words) + ("" if link["at"] == "server" else f", at the {link['at']}")


def measured(link: Mapping[str, Any]) -> str:
    """What was measured of a link (`Run.link["measured"]`), in words."""
    words = [] if link["rate_mbit"] is None else [f"{link['rate_mbit']:.1f} Mbit/s"]
    words += [] if link["rtt_ms"] is None else [f"RTT {milliseconds(link['rtt_ms'])}"]
    words += [] if link["loss_pct"] is None else [f"{link['loss_pct']:.2f} % lost"]
    return ", ".join(words)


def milliseconds(value: float) -> str:
    """A time in ms as one reads it: 200.0 ms, 3.1 ms, below 0.1 ms."""
    return f"{value:.1f} ms" if value >= 0.05 else "below 0.1 ms"


def of_run(run: Run) -> str:
    """The line below a chart of one run."""
    found = run.link["measured"]
    return caption(
        [run.testbed],
        [str(run.kernel["release"])],
        _link_words(
            [
                _Link(
                    run.condition,
                    asked(run.link["asked"]),
                    run.link["verdict"],
                    found["rtt_ms"],
                    found["rate_mbit"],
                )
            ]
        ),
        [source(run)],
    )


def of_table(table: Any) -> str:
    """The line below a chart of a table of results (`study.results()`), from its own columns."""
    links = [
        _Link(
            row["condition"],
            row["link_asked"],
            row["link"],
            row["rtt_ms"],
            _known(row["rate_mbit"]),
        )
        for row in table.to_dict("records")
    ]
    return caption(table["testbed"], table["kernel"], _link_words(links), table["source"])


@dataclass(frozen=True)
class _Link:
    """The link of a run: what was requested, in words, the verdict, and what was measured."""

    condition: str
    asked: str
    verdict: str
    rtt_ms: float
    rate_mbit: float | None


def caption(testbeds: Any, kernels: Any, link: str, sources: Any) -> str:
    """`virtual · Linux 6.1.192 · link as asked (200.0 ms, 1000 Mbit/s) · recorded`."""
    return " · ".join([_several(testbeds), "Linux " + _several(kernels), link, _several(sources)])


def _link_words(links: list[_Link]) -> str:
    wrong = [link.condition for link in links if link.verdict != AS_ASKED]
    if wrong:
        return "LINK NOT AS ASKED: " + ", ".join(wrong)
    shaped = {_figures(link) for link in links if link.asked != NOT_SHAPED}
    return f"link as asked ({'; '.join(sorted(shaped)) or NOT_SHAPED})"


def _figures(link: _Link) -> str:
    words, rate = milliseconds(link.rtt_ms), link.rate_mbit
    return words if rate is None else (f"{words}, {rate:{'.0f' if rate >= 100 else '.3g'}} Mbit/s")


def _known(value: float | None) -> float | None:
    return None if value is None or value != value else value


def _several(values: Any) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
