"""Rows from the text of `ss -tinmoe` and its variants, of any iproute2 version.

Every field is found by its token, never by its position, so a version that adds, drops or
reorders fields is read all the same; a token that is not known here is kept in `unknown`.
Source of the tokens: iproute2, misc/ss.c (inet_show_sock, tcp_stats_print, tcp_show_info,
tcp_timer_print, print_skmeminfo, sprint_bw).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from labs.errors import Damaged
from labs.read.parse.inet_diag import LATEST_NS, SocketMemory

_HEAD = re.compile(
    r"(?:(?P<netid>tcp|mptcp|udp|raw|dccp|sctp|icmp6?|\?\?\?)\s+)?"
    r"(?:(?P<state>[A-Z][A-Z0-9-]*)\s+)?"
    r"(?P<recv_q>\d{1,19})\s+(?P<send_q>\d{1,19})\s+"
    r"(?P<local>\S+:(?:\d{1,5}|\*))\s+(?P<peer>\S+:(?:\d{1,5}|\*))(?:\s+(?P<rest>.*))?",
    re.ASCII | re.DOTALL,
)
_BLOCK = re.compile(r"@ (\d{1,20}) (\S+)", re.ASCII)
# Each part is bounded, so that no text takes longer than its length allows.
_TOKEN = re.compile(
    r"users:\(\([^()\n]{0,200}(?:\),\([^()\n]{0,200})*\)\)(?=\s|$)"
    r'|opt:"[^"]{0,1024}"|inet-sockopt: \([^)]{0,1024}\)'
    r"|(?:send|pacing_rate|delivery_rate) \S+bps(?=\s|$)"
    r"|(?:version|cipher|rxconf|txconf): \S+|\S+",
    re.ASCII | re.DOTALL,
)
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]\d{1,2})?", re.ASCII)
_RATE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?(?:e[+-]\d{1,2})?)([KMGT]?)bps", re.ASCII)
_LIMITED = re.compile(r"(\d{1,20})ms(?:\((\d{1,6}\.\d)%\))?", re.ASCII)
_EXPIRES = re.compile(r"(?:(\d{1,9})min)?(?:(\d{1,9})sec|(?:(\d{1,9})\.)?(\d{1,3})ms)?", re.ASCII)
_MEMORY = re.compile(r"([a-z]{1,2})(\d{1,20})", re.ASCII)

_SCALE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

SCALARS = {
    "rto": "rto_ms",
    "backoff": "backoff",
    "ato": "ato_ms",
    "qack": "qack",
    "mss": "snd_mss_bytes",
    "pmtu": "pmtu_bytes",
    "rcvmss": "rcv_mss_bytes",
    "advmss": "advmss_bytes",
    "cwnd": "snd_cwnd_segments",
    "ssthresh": "snd_ssthresh_segments",
    "bytes_sent": "bytes_sent",
    "bytes_retrans": "bytes_retrans",
    "bytes_acked": "bytes_acked",
    "bytes_received": "bytes_received",
    "segs_out": "segs_out",
    "segs_in": "segs_in",
    "data_segs_out": "data_segs_out",
    "data_segs_in": "data_segs_in",
    "lastsnd": "last_data_sent_ms",
    "lastrcv": "last_data_recv_ms",
    "lastack": "last_ack_recv_ms",
    "delivered": "delivered_segments",
    "delivered_ce": "delivered_ce_segments",
    "unacked": "unacked_segments",
    "lost": "lost_segments",
    "sacked": "sacked_segments",
    "dsack_dups": "dsack_dups",
    "fackets": "fackets_segments",
    "reordering": "reordering_segments",
    "reord_seen": "reord_seen",
    "rcv_rtt": "rcv_rtt_ms",
    "rcv_space": "rcv_space_bytes",
    "rcv_ssthresh": "rcv_ssthresh_bytes",
    "notsent": "notsent_bytes",
    "minrtt": "min_rtt_ms",
    "rcv_ooopack": "rcv_ooopack",
    "snd_wnd": "snd_wnd_bytes",
    "rcv_wnd": "rcv_wnd_bytes",
    "rehash": "rehash",
}
PAIRS = {
    "wscale": (",", "snd_wscale", "rcv_wscale"),
    "rtt": ("/", "rtt_ms", "rttvar_ms"),
    "retrans": ("/", "retrans_segments", "total_retrans_segments"),
}
RATES = {
    "send": ("send_bits_s", ""),
    "pacing_rate": ("pacing_rate_bits_s", "max_pacing_rate_bits_s"),
    "delivery_rate": ("delivery_rate_bits_s", ""),
}
LIMITED = {
    "busy": ("busy_time_ms", ""),
    "rwnd_limited": ("rwnd_limited_ms", "rwnd_limited_pct"),
    "sndbuf_limited": ("sndbuf_limited_ms", "sndbuf_limited_pct"),
}
GROUPS = {
    "bbr": {
        "bw": "bbr_bw_bits_s",
        "mrtt": "bbr_min_rtt_ms",
        "pacing_gain": "bbr_pacing_gain",
        "cwnd_gain": "bbr_cwnd_gain",
    },
    "dctcp": {
        "ce_state": "dctcp_ce_state",
        "alpha": "dctcp_alpha",
        "ab_ecn": "dctcp_ab_ecn",
        "ab_tot": "dctcp_ab_tot",
    },
    "mem": {
        "r": "rmem_alloc_bytes",
        "w": "wmem_queued_bytes",
        "f": "fwd_alloc_bytes",
        "t": "wmem_alloc_bytes",
    },
}
FIELDS = frozenset((*SCALARS, *PAIRS, *RATES, *LIMITED, *GROUPS))
DETAILS = frozenset(
    (
        "uid",
        "ino",
        "sk",
        "fwmark",
        "cgroup",
        "v6only",
        "tos",
        "tclass",
        "class_id",
        "users",
        "opt",
        "md5keys",
        "inet-sockopt",
    )
)
FLAGS = frozenset(("ts", "sack", "ecn", "ecnseen", "fastopen", "bidir", "app_limited"))
ALGORITHMS = frozenset(
    (
        "bbr",
        "bbr1",
        "bbr2",
        "bbr3",
        "bic",
        "cdg",
        "cubic",
        "dctcp",
        "highspeed",
        "htcp",
        "hybla",
        "illinois",
        "lp",
        "nv",
        "prague",
        "reno",
        "scalable",
        "vegas",
        "veno",
        "westwood",
        "yeah",
    )
)
ULP = "tcp-ulp-"
"""Precedes the name of an upper-layer protocol: `tcp-ulp-tls`."""
SHUTDOWNS = frozenset(("<->", "<--", "-->", "---"))


@dataclass(frozen=True)
class Timer:
    """The timer that is running on a socket: on, keepalive, timewait, persist; when it expires."""

    name: str
    expires_ms: int
    retransmits: int


@dataclass(frozen=True)
class Socket:
    """One socket as one `ss` printed it.

    `info` holds the fields of TCP_INFO that were printed, by names with units (ss leaves out what
    is zero); `details` what describes the socket (uid, ino, sk, cgroup, ...), as text. `state` is
    "" if ss was started for one state only and prints none.
    """

    state: str
    recv_q_bytes: int
    send_q_bytes: int
    local_address: str
    local_port: int | None
    peer_address: str
    peer_port: int | None
    timer: Timer | None = None
    memory: SocketMemory | None = None
    congestion: str | None = None
    shutdown: str | None = None
    flags: tuple[str, ...] = ()
    info: dict[str, int | float] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def flat(self) -> dict[str, int | float | str | None]:
        """The row as one flat mapping, for a table; tuples are joined with spaces."""
        row: dict[str, int | float | str | None] = {
            name: getattr(self, name)
            for name in (
                "state",
                "recv_q_bytes",
                "send_q_bytes",
                "local_address",
                "local_port",
                "peer_address",
                "peer_port",
                "congestion",
                "shutdown",
            )
        }
        if self.timer is not None:
            row |= {f"timer_{name}": value for name, value in vars(self.timer).items()}
        if self.memory is not None:
            row |= vars(self.memory)
        row |= self.info
        row |= self.details
        row["flags"] = " ".join(self.flags)
        row["unknown"] = " ".join(self.unknown)
        return row


@dataclass(frozen=True)
class Block:
    """What one `ss` printed at one moment; `mark` is "" unless the moment was marked."""

    at_ns: int
    mark: str
    sockets: tuple[Socket, ...]


def rows(text: str) -> tuple[Socket, ...]:
    """The sockets in what one `ss` printed, with or without its header, one-line form too.

    Raises Damaged when a line is neither a socket nor the continuation of one.
    """
    return tuple(_socket(number, record) for number, record in _records(text))


def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of an `ss.txt`: a line `@ <at_ns> <mark or ->`, then what `ss` printed.

    Raises Damaged for text before the first such line, or for a line that is not a socket. A last
    line that was cut short (no line end) is damage too.
    """
    if text and not text.endswith("\n"):
        raise Damaged("ss.txt ends in the middle of a line: it was truncated. Repeat the run")
    closed: list[Block] = []
    head: tuple[int, str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        match = _BLOCK.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        _close(closed, head, lines)
        at_ns = int(match[1])
        if at_ns >= LATEST_NS:
            raise Damaged(f"ss.txt has a block of {at_ns} ns: after the year 2262")
        head = (at_ns, "" if match[2] == "-" else match[2])
        lines = []
    _close(closed, head, lines)
    return tuple(closed)


def _close(closed: list[Block], head: tuple[int, str] | None, lines: list[str]) -> None:
    if head is not None:
        closed.append(Block(head[0], head[1], rows("\n".join(lines))))
    elif any(line.strip() for line in lines):
        raise Damaged("ss.txt does not begin with a line '@ <at_ns> <mark>': it was edited")


def _records(text: str) -> Iterator[tuple[int, str]]:
    """One string per socket: its first line and the indented ones below it."""
    started: tuple[int, list[str]] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or "Recv-Q" in line:
            continue
        if line[0] in " \t":
            if started is None:
                raise Damaged(f"ss, line {number}: details without a socket above them")
            started[1].append(line)
            continue
        if started is not None:
            yield started[0], " ".join(started[1])
        started = (number, [line])
    if started is not None:
        yield started[0], " ".join(started[1])


def _socket(number: int, record: str) -> Socket:
    match = _HEAD.fullmatch(record.strip())
    if match is None:
        raise Damaged(f"ss, line {number}: not a TCP socket: {record.strip()[:60]!r}")
    tokens = _Tokens()
    _read_tokens(match["rest"] or "", tokens)
    local_address, local_port = _endpoint(match["local"])
    peer_address, peer_port = _endpoint(match["peer"])
    return Socket(
        state=match["state"] or "",
        recv_q_bytes=int(match["recv_q"]),
        send_q_bytes=int(match["send_q"]),
        local_address=local_address,
        local_port=local_port,
        peer_address=peer_address,
        peer_port=peer_port,
        timer=None if tokens.timer is None else Timer(*tokens.timer),
        memory=tokens.memory,
        congestion=tokens.congestion,
        shutdown=tokens.shutdown,
        flags=tuple(tokens.flags),
        info=tokens.info,
        details=tokens.details,
        unknown=tuple(tokens.unknown),
    )


def _endpoint(text: str) -> tuple[str, int | None]:
    address, _, port = text.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    return address, None if port == "*" else int(port)


@dataclass
class _Tokens:
    """What the tokens of one socket said, while they are read."""

    timer: tuple[str, int, int] | None = None
    memory: SocketMemory | None = None
    congestion: str | None = None
    shutdown: str | None = None
    flags: list[str] = field(default_factory=list)
    info: dict[str, int | float] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def _read_tokens(text: str, tokens: _Tokens) -> None:
    """Sort the tokens of `text` into `tokens`; what is not understood goes to `tokens.unknown`.

    A congestion control that is not in ALGORITHMS (one made with BPF) is known by its neighbour:
    ss prints the name, a bare word, right before the first field of TCP_INFO.
    """
    candidate: str | None = None
    fields_began = False
    for token in _TOKEN.findall(text):
        name, colon, value = token.partition(":")
        if not colon and " " in token:
            name, _, value = token.partition(" ")
        if not value and not colon:
            if not _word(token, tokens):
                tokens.unknown.append(token)
                candidate = None if fields_began else token
        elif _detail(name, value, tokens):
            continue
        elif name in FIELDS and (fields := _fields(name, value)):
            tokens.info |= fields
            if not fields_began and candidate is not None and tokens.congestion is None:
                tokens.congestion = candidate
                tokens.unknown.remove(candidate)
            fields_began = True
        else:
            tokens.unknown.append(token)


def _word(token: str, tokens: _Tokens) -> bool:
    if token in FLAGS:
        tokens.flags.append(token)
    elif token in SHUTDOWNS:
        tokens.shutdown = token
    elif token in ALGORITHMS and tokens.congestion is None:
        tokens.congestion = token
    elif token.startswith(ULP):
        tokens.details["ulp"] = token.removeprefix(ULP)
    else:
        return False
    return True


def _detail(name: str, value: str, tokens: _Tokens) -> bool:
    if name in DETAILS:
        tokens.details[name] = value.strip()
        return True
    if name == "timer":
        tokens.timer = _timer(value)
        return tokens.timer is not None
    if name == "skmem":
        tokens.memory = _memory(value)
        return tokens.memory is not None
    return False


@lru_cache(maxsize=8192)
def _fields(name: str, value: str) -> Mapping[str, int | float]:
    """The fields of TCP_INFO or of a congestion control in a token; empty when it is not
    understood. Kept, because many tokens of a run are repeated in each sample."""
    read: Mapping[str, int | float | None] = {}
    if name in SCALARS:  # most fields
        read = {SCALARS[name]: _number(value)}
    elif name in PAIRS:
        separator, *names = PAIRS[name]
        parts = value.split(separator)
        if len(parts) == len(names):
            read = dict(zip(names, map(_number, parts), strict=True))
    elif name in RATES:
        names = list(RATES[name])
        parts = value.split("/")
        if len(parts) == 1 or (len(parts) == 2 and names[1]):
            read = dict(zip(names, map(_rate, parts), strict=False))
    elif name in LIMITED:
        read = _limited(name, value)
    elif name in GROUPS and value.startswith("(") and value.endswith(")"):
        read = _group(GROUPS[name], value[1:-1])
    numbers = {key: number for key, number in read.items() if number is not None}
    return numbers if len(numbers) == len(read) else {}


def _group(names: dict[str, str], text: str) -> dict[str, int | float | None]:
    read: dict[str, int | float | None] = {}
    for part in text.split(","):
        name, colon, value = part.partition(":")
        if not colon:
            match = _MEMORY.fullmatch(part)
            name, value = (match[1], match[2]) if match else ("", "")
        if name not in names:
            return {}
        read[names[name]] = _rate(value) if value.endswith("bps") else _number(value)
    return read


def _limited(name: str, value: str) -> dict[str, int | float | None]:
    match = _LIMITED.fullmatch(value)
    time_ms, share_pct = LIMITED[name]
    if match is None:
        return {}
    read: dict[str, int | float | None] = {time_ms: int(match[1])}
    if match[2] is not None and share_pct:
        read[share_pct] = float(match[2])
    return read


def _number(text: str) -> int | float | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    return float(text) if "." in text or "e" in text else int(text)


def _rate(text: str) -> float | None:
    match = _RATE.fullmatch(text)
    return None if match is None else float(match[1]) * _SCALE[match[2]]


def _timer(value: str) -> tuple[str, int, int] | None:
    parts = value.removeprefix("(").removesuffix(")").split(",")
    if len(parts) != 3 or not value.startswith("(") or not value.endswith(")"):
        return None
    expires_ms = _expires_ms(parts[1])
    if expires_ms is None or not re.fullmatch(r"\d{1,9}", parts[2], re.ASCII):
        return None
    return parts[0], expires_ms, int(parts[2])


def _expires_ms(text: str) -> int | None:
    """`1min20sec`, `9sec`, `1.200ms` (which is 1.2 s), `008ms`, and nothing for no time left: as
    print_ms_timer() writes."""
    match = _EXPIRES.fullmatch(text)
    if match is None:
        return None
    minutes, seconds, seconds_before, milliseconds = (int(part or 0) for part in match.groups())
    return (minutes * 60 + seconds + seconds_before) * 1000 + milliseconds


def _memory(value: str) -> SocketMemory | None:
    parts = value.removeprefix("(").removesuffix(")").split(",")
    read = [match for part in parts if (match := _MEMORY.fullmatch(part))]
    names = [match[1] for match in read]
    order = ["r", "rb", "t", "tb", "f", "w", "o", "bl", "d"]
    if len(read) != len(parts) or len(parts) < 7 or names != order[: len(parts)]:
        return None
    return SocketMemory(*(int(match[2]) for match in read))
