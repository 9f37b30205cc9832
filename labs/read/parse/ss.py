"""Rows from the text of `ss -tinmoe` and its variants, of any iproute2 version.

Every field is found by its token, never by its position, so a version that adds, drops or
reorders fields is read all the same; a token that is not known here is kept in `unknown`.
Source of the tokens: iproute2, misc/ss.c (inet_show_sock, tcp_stats_print, tcp_show_info,
tcp_timer_print, print_skmeminfo, sprint_bw).
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, lru_cache
from typing import Any

from labs.errors import Damaged
from labs.read.parse.inet_diag import LATEST_NS, SocketMemory

_HEAD = re.compile(
    r"(?:(?P<netid>tcp|mptcp|udp|raw|dccp|sctp|icmp6?|\?\?\?)\s+)?"
    r"(?:(?P<state>[A-Z][A-Z0-9-]*)\s+)?"
    r"(?P<recv_q>\d{1,19})\s+(?P<send_q>\d{1,19})\s+"
    r"(?P<local>\S+:(?:\d{1,5}|\*))\s+(?P<peer>\S+:(?:\d{1,5}|\*))(?:\s+(?P<rest>.*))?",
    re.ASCII | re.DOTALL,
)
_BLOCK = re.compile(r"^@ (\d{1,20}) (\S+)\n", re.ASCII | re.MULTILINE)
# Each part is bounded, so that no text takes longer than its length allows.
_TOKEN = re.compile(
    r"users:\(\([^()\n]{0,200}(?:\),\([^()\n]{0,200})*\)\)(?=\s|$)"
    r'|opt:"[^"]{0,1024}"|inet-sockopt: \([^)]{0,1024}\)'
    r"|(?:send|pacing_rate|delivery_rate) \S+bps(?=\s|$)"
    r"|(?:version|cipher|rxconf|txconf): \S+|\S+",
    re.ASCII | re.DOTALL,
)
_TIMER = re.compile(
    r"\(([^,()]*),(?:(\d{1,9})min)?(?:(\d{1,9})sec|(?:(\d{1,9})\.)?(\d{1,3})ms)?,(\d{1,9})\)",
    re.ASCII,
)
"""The time is `1min20sec`, `9sec`, `1.200ms` (which is 1.2 s), `008ms`, or nothing for no time
left: as print_ms_timer() writes."""
_MEMBER = re.compile(r"([a-z]{1,2})(\d{1,20})|(\w+):(.+)", re.ASCII)

NUMBER = r"-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]\d{1,2})?"
RATE = "_bits_s"
SCALE = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
FORMS = {
    "rto": "{rto_ms}",
    "backoff": "{backoff}",
    "ato": "{ato_ms}",
    "qack": "{qack}",
    "mss": "{snd_mss_bytes}",
    "pmtu": "{pmtu_bytes}",
    "rcvmss": "{rcv_mss_bytes}",
    "advmss": "{advmss_bytes}",
    "cwnd": "{snd_cwnd_segments}",
    "ssthresh": "{snd_ssthresh_segments}",
    "wscale": "{snd_wscale},{rcv_wscale}",
    "rtt": "{rtt_ms}/{rttvar_ms}",
    "retrans": "{retrans_segments}/{total_retrans_segments}",
    "bytes_sent": "{bytes_sent}",
    "bytes_retrans": "{bytes_retrans}",
    "bytes_acked": "{bytes_acked}",
    "bytes_received": "{bytes_received}",
    "segs_out": "{segs_out}",
    "segs_in": "{segs_in}",
    "data_segs_out": "{data_segs_out}",
    "data_segs_in": "{data_segs_in}",
    "lastsnd": "{last_data_sent_ms}",
    "lastrcv": "{last_data_recv_ms}",
    "lastack": "{last_ack_recv_ms}",
    "delivered": "{delivered_segments}",
    "delivered_ce": "{delivered_ce_segments}",
    "unacked": "{unacked_segments}",
    "lost": "{lost_segments}",
    "sacked": "{sacked_segments}",
    "dsack_dups": "{dsack_dups}",
    "fackets": "{fackets_segments}",
    "reordering": "{reordering_segments}",
    "reord_seen": "{reord_seen}",
    "rcv_rtt": "{rcv_rtt_ms}",
    "rcv_space": "{rcv_space_bytes}",
    "rcv_ssthresh": "{rcv_ssthresh_bytes}",
    "notsent": "{notsent_bytes}",
    "minrtt": "{min_rtt_ms}",
    "rcv_ooopack": "{rcv_ooopack}",
    "snd_wnd": "{snd_wnd_bytes}",
    "rcv_wnd": "{rcv_wnd_bytes}",
    "rehash": "{rehash}",
    "send": "{send_bits_s}bps",
    "pacing_rate": "{pacing_rate_bits_s}bps[/{max_pacing_rate_bits_s}bps]",
    "delivery_rate": "{delivery_rate_bits_s}bps",
    "busy": "{busy_time_ms}ms",
    "rwnd_limited": "{rwnd_limited_ms}ms[({rwnd_limited_pct}%)]",
    "sndbuf_limited": "{sndbuf_limited_ms}ms[({sndbuf_limited_pct}%)]",
    "bbr:bw": "{bbr_bw_bits_s}bps",
    "bbr:mrtt": "{bbr_min_rtt_ms}",
    "bbr:pacing_gain": "{bbr_pacing_gain}",
    "bbr:cwnd_gain": "{bbr_cwnd_gain}",
    "dctcp:ce_state": "{dctcp_ce_state}",
    "dctcp:alpha": "{dctcp_alpha}",
    "dctcp:ab_ecn": "{dctcp_ab_ecn}",
    "dctcp:ab_tot": "{dctcp_ab_tot}",
    "mem:r": "{rmem_alloc_bytes}",
    "mem:w": "{wmem_queued_bytes}",
    "mem:f": "{fwd_alloc_bytes}",
    "mem:t": "{wmem_alloc_bytes}",
    "skmem:r": "{rmem_alloc_bytes}",
    "skmem:rb": "{rcvbuf_bytes}",
    "skmem:t": "{wmem_alloc_bytes}",
    "skmem:tb": "{sndbuf_bytes}",
    "skmem:f": "{fwd_alloc_bytes}",
    "skmem:w": "{wmem_queued_bytes}",
    "skmem:o": "{optmem_bytes}",
    "skmem:bl": "{backlog_bytes}",
    "skmem:d": "{drops}",
}
"""The names of the numbers in the value of each token, with their units; in brackets what may be
missing. `bbr:bw` is what `bw:` is in the parentheses of `bbr:(...)`."""
GROUPS = frozenset(token.partition(":")[0] for token in FORMS if ":" in token)
LEAST_MEMORY = {entry.name for entry in fields(SocketMemory) if entry.default is MISSING}
DETAILS = frozenset(
    {
        "uid", "ino", "sk", "fwmark", "cgroup", "v6only", "tos", "tclass", "class_id", "users",
        "opt", "md5keys", "inet-sockopt",
    }
)  # fmt: skip
FLAGS = frozenset({"ts", "sack", "ecn", "ecnseen", "fastopen", "bidir", "app_limited"})
ALGORITHMS = frozenset(
    {
        "bbr", "bbr1", "bbr2", "bbr3", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla",
        "illinois", "lp", "nv", "prague", "reno", "scalable", "vegas", "veno", "westwood", "yeah",
    }
)  # fmt: skip
ULP = "tcp-ulp-"
"""Precedes the name of an upper-layer protocol: `tcp-ulp-tls`."""
SHUTDOWNS = frozenset({"<->", "<--", "-->", "---"})


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
    congestion: str | None = None
    shutdown: str | None = None
    timer: Timer | None = None
    memory: SocketMemory | None = None
    info: dict[str, int | float] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def flat(self) -> dict[str, int | float | str | None]:
        """The row as one flat mapping, for a table; tuples are joined with spaces."""
        row: dict[str, Any] = dict(vars(self))
        timer, memory, info, details = map(row.pop, ("timer", "memory", "info", "details"))
        if timer is not None:
            row |= {f"timer_{name}": value for name, value in vars(timer).items()}
        if memory is not None:
            row |= vars(memory)
        words = {name: " ".join(row.pop(name)) for name in ("flags", "unknown")}
        return {**row, **info, **details, **words}


@dataclass(frozen=True)
class Block:
    """What one `ss` printed at one moment; `mark` is "" unless the moment was marked."""

    at_ns: int
    mark: str
    sockets: tuple[Socket, ...]


def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of an `ss.txt`: a line `@ <at_ns> <mark or ->`, then what `ss` printed.

    Raises Damaged for text before the first such line, or for a line that is not a socket. A last
    line that was cut short (no line end) is damage too.
    """
    if text and not text.endswith("\n"):
        raise Damaged("ss.txt ends in the middle of a line: it was truncated. Repeat the run")
    before, *parts = _BLOCK.split(text)
    if before.strip():
        raise Damaged("ss.txt does not begin with a line '@ <at_ns> <mark>': it was edited")
    heads = [(int(at_ns), mark) for at_ns, mark in zip(parts[::3], parts[1::3], strict=True)]
    late = [at_ns for at_ns, _ in heads if at_ns >= LATEST_NS]
    if late:
        raise Damaged(f"ss.txt has a block of {late[0]} ns: after the year 2262")
    return tuple(
        Block(at_ns, "" if mark == "-" else mark, rows(printed))
        for (at_ns, mark), printed in zip(heads, parts[2::3], strict=True)
    )


def rows(text: str) -> tuple[Socket, ...]:
    """The sockets in what one `ss` printed, with or without its header, one-line form too: each is
    a line and the indented ones below it.

    Raises Damaged when a line is neither a socket nor the continuation of one.
    """
    records: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or "Recv-Q" in line:
            continue
        if line[0] not in " \t":
            records.append((number, [line]))
        elif records:
            records[-1][1].append(line)
        else:
            raise Damaged(f"ss, line {number}: details without a socket above them")
    return tuple(_socket(number, " ".join(lines).strip()) for number, lines in records)


def _socket(number: int, record: str) -> Socket:
    match = _HEAD.fullmatch(record)
    if match is None:
        raise Damaged(f"ss, line {number}: not a TCP socket: {record[:60]!r}")
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
        **_sorted_tokens(match["rest"] or ""),
    )


def _endpoint(text: str) -> tuple[str, int | None]:
    address, _, port = text.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    return address, None if port == "*" else int(port)


def _sorted_tokens(text: str) -> dict[str, Any]:
    """The fields of a socket that its tokens give; what is not understood goes to `unknown`.

    A congestion control that is not in ALGORITHMS (one made with BPF) is known by its neighbour:
    ss prints the name, a bare word, right before the first field of TCP_INFO.
    """
    read: dict[str, Any] = {"congestion": None}
    info, details = dict[str, int | float](), dict[str, str]()
    flags, unknown = list[str](), list[str]()
    for token in _TOKEN.findall(text):
        name, separator, value = token.partition(":" if ":" in token else " ")
        if token in FLAGS:
            flags.append(token)
        elif token in SHUTDOWNS:
            read["shutdown"] = token
        elif token in ALGORITHMS and read["congestion"] is None:
            read["congestion"] = token
        elif token.startswith(ULP):
            details["ulp"] = token.removeprefix(ULP)
        elif separator and name in DETAILS:
            details[name] = value.strip()
        elif name == "timer" and (timer := _TIMER.fullmatch(value)):
            read["timer"] = _timer(timer)
        elif not (numbers := _numbers(name, value)):
            unknown.append(token)
        elif name == "skmem":
            read["memory"] = SocketMemory(**numbers)
        else:
            if not info and read["congestion"] is None:
                read["congestion"] = _taken_word(unknown)
            info |= numbers
    return {
        **read,
        "info": info,
        "details": details,
        "flags": tuple(flags),
        "unknown": tuple(unknown),
    }


def _taken_word(unknown: list[str]) -> str | None:
    """The last bare word of these tokens, taken out."""
    words = [token for token in unknown if not re.search("[: ]", token)]
    if words:
        unknown.remove(words[-1])
    return words[-1] if words else None


def _timer(match: re.Match[str]) -> Timer:
    minutes, seconds, seconds_before, milliseconds = (
        int(part or 0) for part in match.groups()[1:5]
    )
    expires_ms = (minutes * 60 + seconds + seconds_before) * 1000 + milliseconds
    return Timer(match[1], expires_ms, int(match[6]))


@lru_cache(maxsize=8192)
def _numbers(name: str, value: str) -> dict[str, Any]:
    """The numbers in the value of a token by their names; empty when it is not understood. Kept,
    because many tokens of a run are repeated in each sample."""
    if name in GROUPS:
        return _members(name, value)
    match = _form(name).fullmatch(value) if name in FORMS else None
    if match is None:
        return {}
    return {key: _number(key, text) for key, text in match.groupdict().items() if text}


def _members(group: str, value: str) -> dict[str, Any]:
    """The numbers of a token such as `bbr:(bw:8bps,mrtt:40)` or `mem:(r0,w0)`."""
    if not (value.startswith("(") and value.endswith(")")):
        return {}
    read: dict[str, Any] = {}
    for part in value[1:-1].split(","):
        member = _MEMBER.fullmatch(part)
        name, text = filter(None, member.groups()) if member else ("", "")
        numbers = _numbers(f"{group}:{name}", text)
        if not numbers:
            return {}
        read |= numbers
    return read if group != "skmem" or read.keys() >= LEAST_MEMORY else {}


@cache
def _form(token: str) -> re.Pattern[str]:
    def number(name: re.Match[str]) -> str:
        return f"(?P<{name[1]}>{NUMBER}{'[KMGT]?' if name[1].endswith(RATE) else ''})"

    form = FORMS[token].replace("(", r"\(").replace(")", r"\)")
    form = form.replace("[", "(?:").replace("]", ")?")
    return re.compile(re.sub(r"\{(\w+)\}", number, form), re.ASCII)


def _number(name: str, text: str) -> int | float:
    if name.endswith(RATE):
        return float(text.rstrip("KMGT")) * SCALE.get(text[-1], 1)
    return float(text) if "." in text or "e" in text else int(text)
