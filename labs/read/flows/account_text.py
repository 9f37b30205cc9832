"""The account of a capture in sentences, and as plain data."""

from __future__ import annotations

from shlex import quote
from typing import Any, Final

from labs.read.flows.explain import EVENTS, LIKELY, Account, FileAccount, Finding
from labs.read.flows.reasons import (
    APPLICATION,
    CLOSED_LATE,
    CONGESTION_WINDOW,
    DELAYED_ACK,
    DOUBLE_LOSS,
    FAST_RECOVERY,
    FILTERED,
    FULL_WINDOW,
    GAVE_UP,
    HANDSHAKE,
    HTTP_TURN,
    IDLE,
    KEEP_ALIVE,
    NAGLE,
    NAGLE_AND_DELAYED_ACK,
    NOBODY,
    PATH,
    REFUSED,
    RESET,
    ROUND_TRIP,
    SEND_BUFFER,
    SENDING,
    SILLY_WINDOW,
    SLOW_START,
    SPURIOUS,
    SYN_REPEATED,
    TAIL_LOSS,
    TIMEOUT,
    TLS_TURN,
    TURN,
    UNANSWERED,
    UNREACHABLE_HOST,
    UNTOLD,
    ZERO_WINDOW,
    explained,
)

SCHEMA_VERSION: Final = 1
LEAST_SHARE, LEAST_LOST = 0.01, 0.001
"""A usual reason, and one that is none, with less of the time are not told."""
MOST_ADVICE: Final = 3
MOST_TOLD: Final = 8
# `{n}` is the count with its noun, `{who}` whom they waited for, `{other}` who waited.
TIMES: Final = "time"
NO_TIME: Final = "no time was lost"
SENTENCES: Final[dict[str, tuple[str, str]]] = {
    REFUSED: ("SYN", "The server refused the connection: {n} answered with a reset"),
    UNANSWERED: ("repetition", "Nothing answered the SYN, in spite of {n}"),
    FILTERED: ("SYN", "A firewall refused the connection with an ICMP error"),
    UNREACHABLE_HOST: ("SYN", "A router answered {n} with an ICMP error: host unreachable"),
    SYN_REPEATED: (TIMES, "a lost SYN or SYN-ACK was repeated {n}"),
    HANDSHAKE: ("step", "the handshake took"),
    RESET: ("reset", "The {who} aborted the connection with a reset"),
    TIMEOUT: (
        TIMES,
        "the {who}'s retransmission timer expired {n} before a retransmission got through",
    ),
    TAIL_LOSS: ("loss", "the last segment of a burst of the {who} was lost ({n})"),
    DOUBLE_LOSS: ("segment", "{n} of the {who} had to be retransmitted more than once"),
    FAST_RECOVERY: ("loss", "the {who} repaired {n} by fast recovery"),
    SPURIOUS: (TIMES, "the {who} retransmitted data that had arrived ({n})"),
    NAGLE_AND_DELAYED_ACK: ("delayed ACK", "{n} of the {who} met Nagle's algorithm of the {other}"),
    NAGLE: ("small segment", "Nagle's algorithm held back {n} for a round trip"),
    DELAYED_ACK: ("ACK", "the {who} delayed {n}, and the {other} waited for {it}"),
    APPLICATION: ("wait", "the {who}'s program had not written its data yet ({n})"),
    ZERO_WINDOW: ("wait", "the {who}'s window was zero, because its program did not read ({n})"),
    SILLY_WINDOW: ("round trip", "the {who}'s window was smaller than one segment ({n})"),
    FULL_WINDOW: ("round trip", "the {who}'s window was full ({n})"),
    SEND_BUFFER: ("round trip", "the {who}'s send buffer or program limited the flight ({n})"),
    CONGESTION_WINDOW: ("round trip", "the {who}'s congestion window limited the flight ({n})"),
    PATH: ("round trip", "the path carried all it can ({n})"),
    SLOW_START: ("round trip", "slow start opened the congestion window ({n})"),
    TURN: ("wait", "requests and responses were in flight ({n})"),
    TLS_TURN: ("wait", "the TLS handshake was in flight ({n})"),
    HTTP_TURN: ("wait", "HTTP requests and responses were in flight ({n})"),
    ROUND_TRIP: ("wait", "segments or their ACKs were in flight ({n})"),
    SENDING: ("stretch", "segments followed each other"),
    KEEP_ALIVE: ("keep-alive", "nobody had anything to send; {n} kept the connection alive"),
    IDLE: ("wait", "nobody had anything to send"),
    GAVE_UP: ("time", "the {who} repeated its data and gave up: the {other} no longer answered"),
    CLOSED_LATE: ("wait", "all was delivered, but the {who}'s program had not closed yet"),
    UNTOLD: ("wait", "the capture does not show the reason for {n}"),
}
FREE: Final = {
    DELAYED_ACK: "{n} {was} delayed, but nobody waited for {it}",
    KEEP_ALIVE: "{n} kept the connection alive",
}


def duration(ms: float) -> str:
    """A time in words: 9.13 s, 42.0 ms, 380 µs."""
    if ms >= 1000:
        return f"{ms / 1000:,.2f} s"
    if ms >= 1:
        return f"{ms:.1f} ms"
    return f"{ms * 1000:.0f} µs"


def _counted(count: int, noun: str) -> str:
    if noun == TURN:
        return (
            "1 request and its response"
            if count == 1
            else f"{count:,} requests and their responses"
        )
    if noun == TIMES and count < 3:
        return "once" if count == 1 else "twice"
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")


def describe_finding(finding: Finding) -> str:
    """One finding as a sentence, with its figures and the frames that show it."""
    noun, words = SENTENCES[finding.reason]
    n = _counted(finding.count, noun)
    it = "it" if finding.count == 1 else "them"
    if finding.waiting == NOBODY and finding.time_ms == 0 and finding.reason in FREE:
        was = "was" if finding.count == 1 else "were"
        return f"{FREE[finding.reason].format(n=n, it=it, was=was)}{_describe_frames(finding)}."
    text = words.format(n=n, it=it, who=finding.waited_for, other=finding.waiting)
    if finding.reason == HANDSHAKE:
        text = f"the handshake took {duration(finding.time_ms)}"
    elif finding.time_ms:
        text = f"{duration(finding.time_ms)}: {text}"
        if finding.count > 1 and finding.longest_ms:
            text += f"; the longest took {duration(finding.longest_ms)}"
    else:
        text = text[0].upper() + text[1:]
    if finding.detail:
        text += f"; {finding.detail}"
    doubt = " (likely)" if finding.confidence == LIKELY else ""
    return f"{text}{doubt}{_describe_frames(finding)}."


def _describe_frames(finding: Finding) -> str:
    """Where to look in Wireshark."""
    if not finding.frames:
        return ""
    pairs = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in finding.frames[:3]]
    more = ", ..." if len(finding.frames) > len(pairs) else ""
    noun = "frame" if len(pairs) == 1 and "-" not in pairs[0] else "frames"
    return f" [{noun} {', '.join(pairs)}{more}]"


def worth_a_sentence(account: Account) -> list[Finding]:
    """The findings that are worth a sentence: trouble first, then what takes time."""
    trouble = [finding for finding in account.findings if finding.is_trouble]
    described = [
        finding
        for finding in trouble
        if finding.reason in EVENTS or finding.time_ms >= LEAST_LOST * account.duration_ms
    ]
    rest = [
        finding
        for finding in account.findings
        if finding not in trouble
        and (finding.time_ms >= LEAST_SHARE * account.duration_ms or finding.reason in FREE)
        and finding.reason != SENDING
    ]
    return described[:MOST_TOLD] + rest[: MOST_TOLD - len(described[:MOST_TOLD]) + 2]


def advice(findings: list[Finding]) -> dict[str, str]:
    """What to change, by reason and end, for the findings that are trouble. Reasons with the same
    advice are joined."""
    changes: dict[str, list[str]] = {}
    for finding in findings:
        words = explained(finding.reason).advice
        if finding.is_trouble and words:
            untold = finding.reason == UNTOLD or finding.waited_for == NOBODY
            end = "" if untold else f" of the {finding.waited_for}"
            names = changes.setdefault(words, [])
            if f"{finding.reason}{end}" not in names:
                names.append(f"{finding.reason}{end}")
    return {", ".join(names): words for words, names in list(changes.items())[:MOST_ADVICE]}


def describe_connection(account: Account) -> str:
    """The connection, its data and its RTT in one line."""
    text = (
        f"connection {account.connection}: {account.client} to {account.server}, "
        f"{duration(account.duration_ms)}, {account.client_bytes:,} bytes from the client, "
        f"{account.server_bytes:,} from the server"
    )
    if account.rtt_ms is not None:
        text += f", RTT {duration(account.rtt_ms)}"
        if account.rtt_spread_ms is not None and account.rtt_spread_ms[2] > 1.5 * account.rtt_ms:
            text += f" (ACKs take up to {duration(account.rtt_spread_ms[2])})"
    turns = [f"{_counted(count, kind)}" for kind, count in account.turns.items()]
    return text + (f"; {', '.join(turns)}" if turns else "")


def ladder(file: str, account: Account, finding: Finding) -> str:
    """The command that draws the worst wait of a finding."""
    word = f"labs capture ladder {quote(file)} --connection {account.connection}"
    if finding.frames:
        begin, end = finding.frames[0]
        ends = max(account.first_frame, begin - 8), min(account.last_frame, end + 8)
        word += f" --frames {ends[0]}-{ends[1]}"
    return f"{word} --out ladder.html"


def describe_file(file_account: FileAccount, *, most: int = 5) -> str:
    """The verdict, then the connections with most time lost."""
    parts = ["\n".join(file_account.verdict.lines)]
    if len(file_account.accounts) > 1:
        parts.append(_describe_first_look(file_account))
    for account in file_account.accounts[:most]:
        parts.append(_describe_account(file_account.file, account))
    left = len(file_account.accounts) - most
    if left > 0:
        parts.append(f"{left:,} more connections: --connection N explains one, --json all.")
    return "\n\n".join(parts)


def _describe_first_look(file_account: FileAccount) -> str:
    trouble = [account for account in file_account.accounts if account.rank[0]]
    if not trouble:
        return f"{len(file_account.accounts):,} connections: {NO_TIME}."
    first = trouble[0]
    total = sum(account.lost_ms for account in trouble)
    causes = [finding for finding in file_account.totals if finding.is_trouble and finding.time_ms]
    of = ", ".join(f"{cause.reason} {duration(cause.time_ms)}" for cause in causes[:4])
    return (
        f"{len(trouble):,} of {len(file_account.accounts):,} connections lost time, "
        f"{duration(total)} together{f': {of}' if of else ''}. Look first at connection "
        f"{first.connection} ({first.client} to {first.server})."
    )


def _describe_account(file: str, account: Account) -> str:
    lines = [describe_connection(account)]
    findings = worth_a_sentence(account)
    if not any(finding.is_trouble for finding in findings):
        lines.append(f"  {NO_TIME}")
    for finding in findings:
        lines.append(f"  {describe_finding(finding)}")
    for reason, words in advice(findings).items():
        lines.append(f"  To change ({reason}): {words}")
    if account.worst is not None:
        lines.append(f"  See it: {ladder(file, account, account.worst)}")
    return "\n".join(lines)


def describe_for_notebook(account: Account) -> str:
    """The same in Markdown: the connection, what cost time, and what to change."""
    findings = worth_a_sentence(account)
    lines = [f"**{describe_connection(account)}**", ""]
    lines += [f"- {describe_finding(finding)}" for finding in findings] or [f"- {NO_TIME}"]
    changes = [f"- {reason}: {words}" for reason, words in advice(findings).items()]
    return "\n".join([*lines, *(["", "What to change:", ""] if changes else []), *changes])


def named_frames(account: Account) -> list[int]:
    """The frames that the sentences name, in their order."""
    pairs = [pair for finding in worth_a_sentence(account) for pair in finding.frames[:3]]
    return list(dict.fromkeys(frame for pair in pairs for frame in pair))


def finding_as_json(finding: Finding) -> dict[str, Any]:
    meant = explained(finding.reason)
    return {
        "reason": finding.reason,
        "waiting": finding.waiting,
        "waited_for": finding.waited_for,
        "count": finding.count,
        "time_ms": finding.time_ms,
        "longest_ms": finding.longest_ms,
        "frames": [list(pair) for pair in finding.frames],
        "confidence": finding.confidence,
        "is_trouble": finding.is_trouble,
        "sentence": describe_finding(finding),
        "words": meant.words,
        "source": meant.source,
        "advice": meant.advice,
    }


def as_json(file_account: FileAccount) -> dict[str, Any]:
    """The whole account as plain data; `labs.read.flows.account_schema.SCHEMA` describes it."""
    first = (
        file_account.accounts[0]
        if file_account.accounts and file_account.accounts[0].rank[0]
        else None
    )
    return {
        "schema": SCHEMA_VERSION,
        "file": file_account.file,
        "verdict": file_account.verdict.as_json(),
        "remarks": file_account.remarks.as_json(),
        "look_first_at": None if first is None else first.connection,
        "totals": [
            {
                "reason": finding.reason,
                "waited_for": finding.waited_for,
                "time_ms": finding.time_ms,
                "count": finding.count,
            }
            for finding in file_account.totals
        ],
        "connections": [
            {
                "connection": account.connection,
                "client": account.client,
                "server": account.server,
                "first_frame": account.first_frame,
                "last_frame": account.last_frame,
                "duration_ms": account.duration_ms,
                "lost_ms": account.lost_ms,
                "client_bytes": account.client_bytes,
                "server_bytes": account.server_bytes,
                "rtt_ms": account.rtt_ms,
                "rtt_spread_ms": None
                if account.rtt_spread_ms is None
                else dict(zip(("p10", "p50", "p90"), account.rtt_spread_ms, strict=True)),
                "turns": account.turns,
                "findings": [finding_as_json(finding) for finding in account.findings],
                "ladder": None
                if account.worst is None
                else ladder(file_account.file, account, account.worst),
            }
            for account in file_account.accounts
        ],
    }
