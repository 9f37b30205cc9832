"""What is read of the recorded outputs of tools, and of recorded captures, as text by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from labs import capture
from labs.guest import tc
from labs.read.flows.account import Finding
from labs.read.flows.exchanges import exchanges
from labs.read.flows.explain import explain
from labs.read.parse import http_clients, http_loads, inet_diag, proc, socket_samples, ss
from tests.golden import plain

FIXTURES = Path(__file__).parent / "fixtures"
READERS: dict[str, Callable[[str], Any]] = {
    "ss-6.": ss.blocks,
    "ss-": ss.rows,
    "nstat": proc.counters,
    "softirqs": proc.softirqs,
    "interrupts": proc.interrupts,
    "tc-": tc.queues,
    "wget": http_clients.wget,
    "httping": http_clients.httping,
    "ab-10-requests.csv": partial(http_clients.ab_percentiles, requests=10),
    "ab-51-requests.csv": partial(http_clients.ab_percentiles, requests=51),
    "ab-keepalive.csv": partial(http_clients.ab_percentiles, requests=1000),
    "ab-": http_clients.ab,
    "socket-samples": socket_samples.samples,
    "wrk": http_loads.wrk,
    "vegeta": http_loads.vegeta,
}
"""By the beginning of a file's name; the first that fits."""
ROWS = 3
"""Of a longer answer the last ones are shown."""


def parsed() -> Iterator[tuple[str, Any]]:
    """The values of every recorded output, or the refusal."""
    for path in sorted((FIXTURES / "parse").iterdir()):
        name, read = path.name, reader_of(path.name)
        if name.endswith(".bin"):
            yield name, values(inet_diag.samples(path.read_bytes()))
        elif read is not None:
            try:
                yield name, values(read(path.read_text()))
            except Exception as refusal:
                yield name, f"{type(refusal).__name__}: {refusal}"


def reader_of(name: str) -> Callable[[str], Any] | None:
    return next((read for begin, read in READERS.items() if name.startswith(begin)), None)


def values(answer: Any) -> Any:
    """Fields of dataclasses without those that are empty."""
    if isinstance(answer, list | tuple):
        return [f"{len(answer)} rows", *map(values, answer[-ROWS:])]
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        fields = {each.name: getattr(answer, each.name) for each in dataclasses.fields(answer)}
        return {
            name: values(value) for name, value in fields.items() if value not in (None, (), {}, "")
        }
    if isinstance(answer, dict):
        return {str(name): values(value) for name, value in answer.items()}
    return plain(answer)


def told(finding: Finding) -> Any:
    """The reason and figures of a finding, and its sentence."""
    ends = (finding.waiting, finding.waited_for)
    figures = (finding.count, finding.time_ms, finding.confidence)
    return [finding.reason.name, *ends, *plain(figures), finding.sentence]


def captures() -> list[Path]:
    data = Path(__file__).parents[1] / "data"
    fixtures = [path for kind in ("exchanges", "explain") for path in (FIXTURES / kind).iterdir()]
    return sorted([*data.glob("explain-*.pcap.gz"), *fixtures, FIXTURES / "parse" / "loss.pcap"])


def explained() -> Iterator[tuple[str, Any]]:
    """Of every capture: its connections, the findings about each, and its requests."""
    for path in captures():
        if ".pcap" not in path.name:
            continue
        connections = capture.connections(path)
        yield f"{path.name} connections", plain(connections.head(ROWS).to_dict("list"))
        account = explain(path)
        yield (
            f"{path.name} verdict",
            [line.replace(str(path), path.name) for line in account.verdict.lines],
        )
        for place, each in enumerate(account.accounts[:ROWS]):
            found = [told(finding) for finding in each.findings]
            yield f"{path.name} account {place}", [plain(each.rtt_ms), plain(each.lost_ms), *found]
        rows = exchanges(capture.read(path))
        shown = rows[["steps", "answer_bytes", "segments", "gap_ms", "reason", "waiting"]]
        yield f"{path.name} requests", [f"{len(rows)} rows", *plain(shown.head(ROWS).to_numpy())]
