"""A capture for notebooks (`labs.explain`): its account, charts, ladder, and single packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series
from plotly.graph_objects import Figure

from labs.drive.parameters.declare import did_you_mean, parameter, validate
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.errors import BadInput, Missing
from labs.read.capture.packets import in_pyshark, packet
from labs.read.display.beside import beside_wireshark
from labs.read.display.rich_output import Table, Text, Words
from labs.read.figures.account_page import time_by_cause, worst_ladder
from labs.read.figures.style import nothing
from labs.read.figures.time_sequence import time_sequence
from labs.read.flows.account import NO_TIME, Account, FileAccount
from labs.read.flows.explain import read_account
from labs.read.runs import recorded

CAUSES = (
    "delayed-ACK-meets-Nagle",
    "retransmission-timeout",
    "zero-window",
    "connection-refused",
    "fast-recovery",
    "delayed-ACK",
    "connection-unanswered",
    "reset",
    "SYN-repeated",
    "gave-up",
)
CAPTURES = dict(zip("ABCDEFGHIJ", CAUSES, strict=True))
"""The captures that come with the project: a letter, and the cause, which is part of the file's
name. Notebooks show only the letter, because they ask for the cause."""
NO_CONNECTION = "The capture has no TCP connection."
MOST_BESIDE = 20
"""Packets that are shown beside Wireshark's word."""


def examples() -> Mapping[str, Path]:
    """The captures that come with the project, by letter."""
    folder = recorded.folder()
    return {letter: folder / f"explain-{cause}.pcap.gz" for letter, cause in CAPTURES.items()}


@dataclass(frozen=True, kw_only=True)
class CaptureParameters:
    """The parameters of a notebook that explains a capture."""

    capture: str = parameter(
        "A",
        form="a capture file, or the letter of a capture that comes with the notebook",
        help="the capture: a file of yours, or one that comes with the notebook (A to J)",
    )
    connection: str = parameter(
        "",
        form="the number of a connection, both its ends (A:P-B:P), or nothing",
        help="the connection to look at (empty: the one that lost most time)",
    )

    def __post_init__(self) -> None:
        validate(self)


def file_of(name: str) -> Path:
    """The file of a capture that comes with the project, or of one's own. BadInput for neither."""
    captures = examples()
    if name in captures:
        return captures[name]
    path = Path(beside_the_notebooks(name))
    if path.is_file():
        return path
    raise BadInput(
        f"{name} is neither a file nor a capture that comes with the notebook"
        f"{did_you_mean(name, captures)}. Allowed: a pcap or pcapng file; "
        f"{', '.join(captures)}"
    )


@dataclass(frozen=True, eq=False, repr=False)
class Explained:
    """The account of a capture; `chosen` is the connection to look at, None without any. `name` is
    shown in place of the path."""

    path: Path
    name: str
    segments: DataFrame
    file: FileAccount
    chosen: Account | None

    @property
    def capture(self) -> Words:
        """What kind of capture it is, and what it lacks."""
        lines = (*self.file.verdict.lines, *self.file.remarks.lines)
        return Words("\n".join(f"- {line}" for line in lines) or "Nothing to remark.")

    @property
    def connections(self) -> Table:
        """One row per connection, the one that lost most time first."""
        rows = [
            {
                "Connection": account.connection,
                "Client": account.client,
                "Server": account.server,
                "Duration (ms)": account.duration_ms,
                "Time lost (ms)": account.lost_ms,
                "Main reason": account.worst.reason.name if account.worst else "",
                "First frame": account.first_frame,
            }
            for account in self.file.accounts
        ]
        return Table(rows)

    @property
    def account(self) -> Words:
        """The connection in sentences, and what to change."""
        return Words(self.chosen.markdown if self.chosen else NO_CONNECTION)

    def chart(self) -> Figure:
        """The time of each connection by reason."""
        return time_by_cause(self.file)

    def timeline(self) -> Figure:
        """Sequence numbers, ACKs and the window of the connection over time."""
        if self.chosen is None:
            return nothing("Time-sequence graph", NO_CONNECTION)
        return time_sequence(self.segments, self.chosen.connection, source=self.name)

    def ladder(self, *, reasons: bool = True) -> Figure:
        """The packets around the longest wait; without `reasons` it only shows how long it is."""
        account = self.chosen
        if account is None or account.worst is None:
            return nothing("The longest wait", NO_TIME)
        return worst_ladder(self.segments, self.name, account, account.worst, reasons=reasons)

    @property
    def frames(self) -> list[int]:
        """The frames that the sentences name, in their order; at most 20."""
        return self.chosen.named_frames[:MOST_BESIDE] if self.chosen else []

    def packet(self, frame: int) -> Text:
        """One packet, opened in scapy, by the number of its frame. BadInput for a frame that is no
        TCP segment of the connection."""
        return self._opened(frame, lambda row: packet(self.path, row).show(dump=True))

    def in_pyshark(self, frame: int) -> Text:
        """The TCP header of the same packet in pyshark."""
        return self._opened(frame, lambda row: in_pyshark(self.path, frame))

    def _opened(self, frame: int, open_row: Callable[[Series[Any]], object]) -> Text:
        rows = self.segments[self.segments["frame"] == frame]
        if rows.empty:
            raise BadInput(
                f"frame {frame} is no TCP segment of {self.name}. "
                f"Allowed: a frame that a sentence names, such as {self.frames[:3]}"
            )
        try:
            return Text(str(open_row(rows.iloc[0])))
        except Missing as missing:
            return Text(f"The packet cannot be opened: {missing}.")

    def wireshark(self) -> Table | Words:
        """Wireshark's word on the frames that the sentences name, beside the marks of this lab."""
        if not self.frames:
            return Words("No sentence names a frame.")
        rows = self.segments.index[self.segments["frame"].isin(self.frames)]
        return beside_wireshark(self.path, self.segments, rows.tolist())


def explained(p: CaptureParameters) -> Explained:
    """Explain the capture that the parameters name. Raises what `labs.capture.read` raises, and
    BadInput for a capture or a connection that does not exist."""
    path = file_of(p.capture)
    name = f"capture {p.capture}" if p.capture in CAPTURES else path.name
    segments, file = read_account(path)
    chosen = [account for account in file.accounts if p.connection in ("", *_names(account))]
    if p.connection and not chosen:
        raise BadInput(
            f"{name} has no connection {p.connection}. Allowed: a number or both ends, as in "
            "the table of its connections"
        )
    return Explained(path, name, segments, replace(file, file=name), next(iter(chosen), None))


def _names(account: Account) -> tuple[str, ...]:
    """What a connection may be called: its number, or both its ends."""
    ends = account.client, account.server
    return str(account.connection), "-".join(ends), "-".join(reversed(ends))
