"""How long a file takes to arrive from near and from far, over links of one rate.

Run it with `labs run ./new_lab.py --file-kib 500`, or in a notebook with
`labs.study(labs.check("./new_lab.py", globals()))`. `measure` runs where the hosts are, so this
file imports the standard library and the driving half of labs, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.bench import Bench
from labs.drive.condition import Condition
from labs.drive.download import fetch_and_discard, serve_file
from labs.drive.parameters import LabParameters, parameter
from labs.drive.testbed.link import Link

if TYPE_CHECKING:
    from labs.read.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """Each field is a flag (--file-kib) and a name in a notebook (FILE_KIB)."""

    file_kib: int = parameter(100, unit="KiB", low=1, high=1_000_000, help="size of the file")


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """What is run: two links that differ in their delay alone."""
    settings = {"file_bytes": 1024 * p.file_kib, "read_bytes": 65_536, "capture": p.capture}
    return (
        Condition("near", Link(rate_mbit=100.0, delay_ms=10.0), settings=settings),
        Condition("far", Link(rate_mbit=100.0, delay_ms=100.0), settings=settings),
    )


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts on the hosts."""
    return ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    """One run: what stands in its folder afterwards is all that `results` will see."""
    watched = (bench.client,) if condition.settings["capture"] else ()
    server = serve_file(bench, int(str(condition.settings["file_bytes"])), condition.link.port)
    bench.watch(condition.link.port, sample_ms=100, capture=watched)
    fetch_and_discard(bench, limit_s=60)
    bench.unwatch()
    server.stop()


def results(run: Run) -> dict[str, object]:
    """What a run shows, computed on reading: a row of the study's table."""
    fetch = run.fetch() or {}
    took_ms = (fetch["end_ns"] - fetch["before_ns"]) / 1e6
    return {"took_ms": took_ms, "round_trips": took_ms / run.link.measured.rtt_ms}
