"""A study of the lab `buffers` in sentences, as Markdown with the figures in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.analysis.download import download
from labs.analysis.window import Window, bdp_bytes, window
from labs.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

MIB = 1 << 20
MUCH_PCT = 50.0
FULL = 0.95
HELD = {
    "receive window": "the receiver's window kept the sender from sending more",
    "send buffer": "the sender's own buffer was full: what it holds waits for acknowledgement, "
                   "and nothing more fits in",
}


def tell(table: DataFrame) -> str:
    """A line a run: what was measured, what was predicted, what the article has, what to mind."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def _one(row: dict[Any, Any]) -> str:
    if "no rate" in row["marks"]:
        said = "no figure: on virtual time nothing limits a link that is not shaped."
        if _is_known(row["article_mib_s"]):
            said += (f" The article has {row['article_mib_s']:g} MiB/s ({row['article_claim']}), "
                     "the speed of its machines.")
        return said
    parts = [f"{row['goodput_mib_s']:.1f} MiB/s over the whole file"]
    if _is_known(row["steady_mib_s"]):
        parts.append(f"{row['steady_mib_s']:.1f} in the last third of the time")
    if _is_known(row["predicted_mib_s"]):
        parts.append(f"predicted for the long run: {row['predicted_mib_s']:.1f}")
    said = ", ".join(parts) + "."
    if _is_known(row["article_mib_s"]):
        said += f" The article ({row['article_claim']}) has {row['article_mib_s']:g}"
        steady = row["article_steady_mib_s"]
        if _is_known(steady) and steady != row["article_mib_s"]:
            said += f", and {steady:g} near the end"
        said += "."
    return said + (f" Mind: {row['marks']}." if row["marks"] else "")


def tell_run(run: Run) -> str:
    """What one download shows: the link's BDP, what was in flight, who waited for what."""
    found, bdp, seen = window(run), bdp_bytes(run), download(run)
    if found is None:
        return (f"The transfer took {1e3 * seen.duration_s:.0f} ms and was over before the first "
                "sample: there is no timeline to look at.")
    link = run.link["measured"]
    said = []
    if bdp is not None:
        said.append(
            f"The link carries {link['rate_mbit']:.4g} Mbit/s and a round trip takes "
            f"{link['rtt_ms']:.1f} ms, so **{_mib(bdp)} MiB** must be on their way to keep it busy "
            "(the bandwidth-delay product).")
    said.append(
        f"Usually **{_mib(found.usually_in_flight_bytes)} MiB** were in flight, at most "
        f"{_mib(found.in_flight_bytes)}; the receiver offered at most {_mib(found.offered_bytes)}, "
        f"and the congestion window came to {_mib(found.congestion_bytes)}.")
    if bdp is not None:
        share = found.usually_in_flight_bytes / bdp
        said.append("That is enough to fill the link." if share >= FULL else
                    f"That is {100 * share:.0f} % of what the link could hold.")
    return " ".join([*said, *_waited(found)])


def _waited(found: Window) -> list[str]:
    """What the sender's kernel says that it waited for, if it waited for it most of the time."""
    return [f"For {share:.0f} % of the time {HELD[name]}."
            for name, share in found.limited_pct.items() if share >= MUCH_PCT]


def _mib(size: float) -> str:
    return f"{size / MIB:.3g}"


def _is_known(value: float | None) -> bool:
    return value is not None and value == value
