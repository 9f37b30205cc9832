"""Where numbers are from, in words: the link, the testbed, the kernel, recorded or live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.errors import Missing
from labs.runs.run import Run

LIVE, RECORDED = "live", "recorded"


def source(run: Run) -> str:
    """`recorded` for a run that came with the project, else `live`."""
    from labs.runs.recorded import runs_of

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
        return "not shaped"
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
    return caption([run.testbed], [str(run.kernel["release"])],
                   _link_words([(run.condition, run.link)]), [source(run)])


def of_table(table: Any) -> str:
    """The line below a chart of a table of results, from its own columns."""
    links: list[tuple[str, Mapping[str, Any]]] = [(row["condition"], {
        "verdict": row["link"],
        "measured": {"rtt_ms": row["rtt_ms"], "rate_mbit": _known(row["rate_mbit"])}})
        for row in table.to_dict("records")]
    return caption(table["testbed"], table["kernel"], _link_words(links), table["source"])


def caption(testbeds: Any, kernels: Any, link: str, sources: Any) -> str:
    """`virtual · Linux 6.1.192 · link as asked (200.0 ms, 1000 Mbit/s) · recorded`."""
    return " · ".join([
        _several(testbeds), "Linux " + _several(kernels), link, _several(sources)])


def _link_words(links: list[tuple[str, Mapping[str, Any]]]) -> str:
    wrong = [name for name, link in links if link["verdict"] != "as asked"]
    if wrong:
        return "LINK NOT AS ASKED: " + ", ".join(wrong)
    shaped = {_figures(link["measured"]) for _, link in links
              if link["measured"]["rate_mbit"] is not None}
    if not shaped:
        return "link as asked (not shaped)"
    return f"link as asked ({'; '.join(sorted(shaped))})"


def _figures(link: Mapping[str, Any]) -> str:
    rate = link["rate_mbit"]
    return f"{milliseconds(link['rtt_ms'])}, {rate:{'.0f' if rate >= 100 else '.3g'}} Mbit/s"


def _known(value: float | None) -> float | None:
    return None if value is None or value != value else value


def _several(values: Any) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
