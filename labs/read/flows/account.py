"""The account of a capture: its findings as values, as sentences, and as plain data with a schema.

`labs.read.flows.explain` makes it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter
from shlex import quote
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

from labs.read.capture.segment_table import Remarks
from labs.read.flows.path import Facts, Options, unanswered_options
from labs.read.flows.reasons import (
    CLOSED_LATE,
    HANDSHAKE,
    HTTP_TURN,
    NOBODY,
    REASONS,
    ROUND_TRIP,
    SENDING,
    TLS_TURN,
    TURN,
    UNTOLD,
    End,
    Rank,
    Reason,
)
from labs.read.flows.rtt import Spread
from labs.read.flows.verdict import Verdict

LEAST_SHARE, LEAST_LOST = 0.01, 0.001
"""A usual reason, and one that is none, with less of the time are not told."""
MOST_ADVICE: Final = 3
LONG_RTT_MS: Final = 300
ON_THE_PATH: Final = (HANDSHAKE, ROUND_TRIP, TURN, TLS_TURN, HTTP_TURN)
LEAST_ADVISED, LEAST_USUAL = 0.1, 0.5
"""Advice is given for what took more of the time: trouble, and what every connection has."""
MOST_TOLD: Final = 8
NAMED_FRAMES: Final = 3
AROUND: Final = 8
"""Frames before and after a wait that the ladder shows."""
NO_TIME: Final = "no time was lost"
CERTAIN: Final = "certain"
LIKELY: Final = "likely"
UNKNOWN: Final = "unknown"
Confidence = Literal["certain", "likely", "unknown"]


@dataclass(frozen=True)
class Total:
    """One reason and pair of ends: how often, and how long."""

    JSON: ClassVar[tuple[str, ...]] = ("reason", "waited_for", "time_ms", "count")
    reason: Reason
    waiting: End
    waited_for: End
    count: int
    time_ms: float

    @property
    def is_trouble(self) -> bool:
        """A late end costs nothing unless the other end, which had closed, waited for it."""
        if self.reason.rank in (Rank.USUAL, Rank.HARMLESS):
            return False
        if self.reason is CLOSED_LATE and self.waiting == NOBODY:
            return False
        return self.time_ms > 0 or self.reason.is_event


@dataclass(frozen=True)
class Finding(Total):
    """One reason of a connection, with the frames that show it."""

    JSON: ClassVar = (
        "reason", "waiting", "waited_for", "count", "time_ms", "longest_ms", "frames",
        "confidence", "either", "decide", "is_trouble", "sentence", "reason.words",
        "reason.source", "reason.advice",
    )  # fmt: skip
    longest_ms: float
    frames: Annotated[
        tuple[tuple[int, int], ...],
        "the frames before and after each of the longest waits, as Wireshark counts",
    ]
    confidence: Confidence
    detail: str = ""
    either: Annotated[tuple[Reason, ...], "the reasons that remain, if it cannot be told"] = ()
    decide: Annotated[str, "what to capture to decide between them"] = ""

    @property
    def sentence(self) -> str:
        """With its figures and the frames that show it."""
        parts = {
            "n": _counted(self.count, self.reason.counts),
            "it": "it" if self.count == 1 else "them",
            "was": "was" if self.count == 1 else "were",
            "who": self.waited_for,
            "other": self.waiting,
            "time": duration(self.time_ms),
        }
        if self.waiting == NOBODY and self.time_ms == 0 and self.reason.for_nobody:
            return f"{self.reason.for_nobody.format(**parts)}{self._frames}."
        text = self.reason.sentence.format(**parts)
        if not self.time_ms:
            text = text[0].upper() + text[1:]
        elif "{time}" not in self.reason.sentence:
            text = f"{parts['time']}: {text}"
            if self.count > 1 and self.longest_ms:
                text += f"; the longest took {duration(self.longest_ms)}"
        detail = f"; {self.detail}" if self.detail else ""
        doubt = " (likely)" if self.confidence == LIKELY else ""
        if self.either:
            doubt = f": {' or '.join(map(str, self.either))}; to decide, {self.decide}"
        return f"{text}{detail}{doubt}{self._frames}."

    @property
    def _frames(self) -> str:
        """Where to look in Wireshark."""
        if not self.frames:
            return ""
        shown = self.frames[:NAMED_FRAMES]
        pairs = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in shown]
        more = ", ..." if len(self.frames) > len(shown) else ""
        noun = "frame" if len(shown) == 1 and shown[0][0] == shown[0][1] else "frames"
        return f" [{noun} {', '.join(pairs)}{more}]"


@dataclass(frozen=True)
class Account:
    """What the time of one connection was spent on; `findings` are ordered by time."""

    JSON: ClassVar = (
        "connection", "client", "server", "first_frame", "last_frame", "duration_ms", "lost_ms",
        "client_bytes", "server_bytes", "rtt_ms", "rtt_spread_ms", "options", "turns", "findings",
        "ladder",
    )  # fmt: skip
    file: str
    connection: int
    client: str
    server: str
    first_frame: int
    last_frame: int
    duration_ms: float
    client_bytes: int
    server_bytes: int
    rtt_ms: float | None  # of the path: the shortest
    rtt_spread_ms: Spread | None
    findings: tuple[Finding, ...]
    turns: dict[str, int]
    options: dict[str, Options] = field(default_factory=dict)

    @property
    def lost_ms(self) -> float:
        """The time of all findings that are trouble."""
        return sum(finding.time_ms for finding in self.findings if finding.is_trouble)

    @property
    def worst(self) -> Finding | None:
        """The finding that cost most and names frames; of those without a cost the first."""
        return next(
            (finding for finding in self.findings if finding.is_trouble and finding.frames), None
        )

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Whether it had trouble, whether that can be told, and how much time it took."""
        trouble = [finding for finding in self.findings if finding.is_trouble]
        told_ms = sum(finding.time_ms for finding in trouble if finding.reason is not UNTOLD)
        events = any(finding.reason.is_event for finding in trouble)
        return (self.lost_ms > 0 or events, told_ms > 0 or events, told_ms or self.lost_ms)

    @property
    def ladder(self) -> str | None:
        """The command that draws the worst wait; None without one."""
        if self.worst is None:
            return None
        begin, end = self.worst.frames[0]
        begin, end = max(self.first_frame, begin - AROUND), min(self.last_frame, end + AROUND)
        command = f"labs capture ladder {quote(self.file)} --connection {self.connection}"
        return f"{command} --frames {begin}-{end} --out ladder.html"

    @property
    def heading(self) -> str:
        """The connection, its data and its RTT in one line."""
        text = (
            f"connection {self.connection}: {self.client} to {self.server}, "
            f"{duration(self.duration_ms)}, {self.client_bytes:,} bytes from the client, "
            f"{self.server_bytes:,} from the server"
        )
        spread = self.rtt_spread_ms
        if self.rtt_ms is not None:
            text += f", RTT {duration(self.rtt_ms)}"
            if spread is not None and spread.p90 > 1.5 * self.rtt_ms:
                text += f" (nine of ten ACKs within {duration(spread.p90)})"
        elif spread is not None:
            text += f", RTT not measurable, ACKs after {duration(spread.p50)}"
        turns = ", ".join(_counted(count, kind) for kind, count in self.turns.items())
        return f"{text}; {turns}" if turns else text

    @property
    def told(self) -> list[Finding]:
        """The findings that are worth a sentence: trouble first, then what takes time."""
        least, least_usual = LEAST_LOST * self.duration_ms, LEAST_SHARE * self.duration_ms
        trouble = [
            finding
            for finding in self.findings
            if finding.is_trouble and (finding.reason.is_event or finding.time_ms >= least)
        ]
        trouble = sorted(trouble, key=lambda finding: finding.reason is UNTOLD)[:MOST_TOLD]
        rest = [
            finding
            for finding in self.findings
            if not finding.is_trouble
            and finding.reason is not SENDING
            and (finding.time_ms >= least_usual or finding.reason.for_nobody)
        ]
        return trouble + rest[: MOST_TOLD - len(trouble) + 2]

    @property
    def changes(self) -> dict[str, str]:
        """What to change, by reason and end. Reasons with the same advice are joined."""
        names: dict[str, dict[str, None]] = {}
        for finding in self.told:
            if finding.reason.advice and self._matters(finding):
                nobody = finding.waited_for == NOBODY
                end = "" if nobody else f" of the {finding.waited_for}"
                names.setdefault(finding.reason.advice, {})[f"{finding.reason}{end}"] = None
        every = {", ".join(names[advice]): advice for advice in [*names][:MOST_ADVICE]}
        path_ms = sum(finding.time_ms for finding in self.findings if finding.reason in ON_THE_PATH)
        if (self.rtt_ms or 0) > LONG_RTT_MS and path_ms > LEAST_USUAL * self.duration_ms:
            every = {f"RTT of {duration(self.rtt_ms or 0)}": ROUND_TRIP.advice, **every}
        return every

    def _matters(self, finding: Finding) -> bool:
        """Whether a change would be felt: it ended the connection, or took a part of its time."""
        if finding.reason.rank is Rank.END:
            return True
        least = LEAST_ADVISED if finding.is_trouble else LEAST_USUAL
        return finding.time_ms > least * self.duration_ms

    @property
    def named_frames(self) -> list[int]:
        """The frames that the sentences name, in their order."""
        pairs = [pair for finding in self.told for pair in finding.frames[:NAMED_FRAMES]]
        return list(dict.fromkeys(frame for pair in pairs for frame in pair))

    @property
    def text(self) -> str:
        """The connection, what cost time, what to change, and how to see it."""
        lines = [self.heading, *self._options]
        if not any(finding.is_trouble for finding in self.told):
            lines.append(NO_TIME)
        lines += [finding.sentence for finding in self.told]
        lines += [f"To change ({reason}): {advice}" for reason, advice in self.changes.items()]
        if self.ladder is not None:
            lines.append(f"See it: {self.ladder}")
        return "\n  ".join(lines)

    @property
    def _options(self) -> list[str]:
        """What both SYNs offered, in a line."""
        every = [f"{end}: {options}" for end, options in self.options.items()]
        missing = unanswered_options(self.options)
        every += [f"not agreed: {', '.join(missing)}"] if missing else []
        return [f"options of the {'; '.join(every)}"] if every else []

    @property
    def markdown(self) -> str:
        """The same for a notebook."""
        lines = [f"**{self.heading}**", ""]
        lines += [f"- {finding.sentence}" for finding in self.told] or [f"- {NO_TIME}"]
        if self.changes:
            lines += ["", "What to change:", ""]
        lines += [f"- {reason}: {advice}" for reason, advice in self.changes.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class FileAccount:
    """The account of a file: the verdict on it, and its connections, most time lost first."""

    JSON: ClassVar = (
        "schema", "file", "verdict", "remarks", "look_first_at", "totals", "connections",
    )  # fmt: skip
    schema: ClassVar[Literal[1]] = 1
    """A change that removes or renames a field of the JSON raises it."""
    file: str
    remarks: Remarks
    verdict: Verdict
    accounts: tuple[Account, ...]
    totals: tuple[Total, ...]
    errors: Mapping[int, Facts]
    """By connection: what packets tell that are no segments."""

    def describe(self, *, most: int = 5) -> str:
        """The verdict, then the connections with most time lost."""
        parts = ["\n".join(self.verdict.lines)]
        if len(self.accounts) > 1:
            parts.append(self._first_look)
        parts += [account.text for account in self.accounts[:most]]
        left = len(self.accounts) - most
        if left > 0:
            parts.append(f"{left:,} more connections: --connection N explains one, --json all.")
        return "\n\n".join(parts)

    @property
    def _first_look(self) -> str:
        trouble = [account for account in self.accounts if account.rank[0]]
        if not trouble:
            return f"{len(self.accounts):,} connections: {NO_TIME}."
        first, total = trouble[0], sum(account.lost_ms for account in trouble)
        causes = [cause for cause in self.totals if cause.is_trouble and cause.time_ms]
        causes = sorted(causes, key=lambda cause: cause.reason is UNTOLD)[:4]
        of = ", ".join(f"{cause.reason} {duration(cause.time_ms)}" for cause in causes)
        return (
            f"{len(trouble):,} of {len(self.accounts):,} connections lost time, "
            f"{duration(total)} together{f': {of}' if of else ''}. Look first at connection "
            f"{first.connection} ({first.client} to {first.server})."
        )

    @property
    def look_first_at(self) -> int | None:
        """The connection that lost most time; None if none did."""
        return next((each.connection for each in self.accounts if each.rank[0]), None)

    @property
    def connections(self) -> tuple[Account, ...]:
        return self.accounts

    def as_json(self) -> dict[str, Any]:
        """The whole account as plain data, as `labs explain --json` prints; SCHEMA describes it."""
        return {name: _plain(getattr(self, name)) for name in self.JSON}


def duration(ms: float) -> str:
    """A time in words: 9.13 s, 42.0 ms, 380 µs."""
    if ms >= 1000:
        return f"{ms / 1000:,.2f} s"
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms * 1000:.0f} µs"


def _counted(count: int, noun: str) -> str:
    if noun == TURN.name:
        if count == 1:
            return "1 request and its response"
        return f"{count:,} requests and their responses"
    if noun == "time" and count < 3:
        return "once" if count == 1 else "twice"
    plural = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{plural}"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Reason):
        return value.name
    if isinstance(value, (tuple, list)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    if hasattr(value, "JSON"):
        return {_last(path): _plain(attrgetter(path)(value)) for path in value.JSON}
    return value.as_json() if hasattr(value, "as_json") else value


def _last(path: str) -> str:
    return path.rpartition(".")[2]


PLAIN: Final[dict[Any, dict[str, Any]]] = {
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    Reason: {"enum": sorted(REASONS)},
    Remarks: {"type": "object"},
    Verdict: {"type": "object"},
}


def _schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of the values of a type."""
    if kind in PLAIN:
        return PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is ClassVar:
        return _schema(inner[0])
    if origin is Annotated:
        return {**_schema(inner[0]), "description": kind.__metadata__[0]}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin is types.UnionType:
        return {"anyOf": [_schema(inner[0]), {"type": "null"}]}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if inner:
        array = {"type": "array", "items": _schema(inner[0])}
        is_open = len(inner) == 1 or inner[-1] is ...
        return array if is_open else {**array, "minItems": len(inner), "maxItems": len(inner)}
    fields = {_last(path): _schema(reduce(_type, path.split("."), kind)) for path in kind.JSON}
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def _type(kind: Any, name: str) -> Any:
    """The type of a field or a property."""
    hints = get_type_hints(kind, include_extras=True)
    return hints[name] if name in hints else get_type_hints(getattr(kind, name).fget)["return"]


SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "labs explain --json",
    **_schema(FileAccount),
}
"""The JSON Schema (2020-12) of `labs explain --json`."""
