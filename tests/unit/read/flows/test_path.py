"""What the path and the programs did, in captures rebuilt from public reports and from RFCs.

A line is the time in seconds, the sender (`>` client, `<` server, `!` a router), flags, relative
sequence and acknowledgement number, payload, window, and options.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest
from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from labs.read.flows import reasons as of
from labs.read.flows.account import LIKELY, SCHEMA, UNKNOWN, Account, Finding
from labs.read.flows.explain import explain

ENDS = (("192.0.2.10", 40_000), ("198.51.100.20", 443))
STARTS = (1_000, 9_000)
OPENS = "mss=1460 sack ws=7"


def options_of(words: list[str], peer_start: int) -> Iterator[tuple[str, object]]:
    for name, _, value in (word.partition("=") for word in words):
        if name in ("mss", "ws"):
            yield {"mss": "MSS", "ws": "WScale"}[name], int(value)
        elif name == "sack":
            yield "SAckOK", b""
        elif name == "held":
            yield "SAck", tuple(peer_start + int(edge) for edge in value.split("-"))


def packet(line: str) -> Packet:
    at, who, flags, seq, ack, length, window, *words = line.split()
    by = int(who != ">")
    (source, port), (target, to) = ENDS[by], ENDS[1 - by]
    known = dict(word.partition("=")[::2] for word in words)
    inner = IP(src=source, dst=target, flags="DF", ttl=int(known.get("ttl", 64)))
    header = TCP(sport=port, dport=to, seq=STARTS[by] + int(seq), window=int(window))
    if who == "!":
        error = ICMP(type=3, code=4, nexthopmtu=int(window))
        made = IP(src="203.0.113.1", dst=source) / error / bytes(inner / header)[:28]
    else:
        header.flags, header.options = flags, list(options_of(words, STARTS[1 - by]))
        header.ack = STARTS[1 - by] + int(ack) if "A" in flags else 0
        made = inner / header / bytes(int(length))
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / made
    frame.time = 1_700_000_000 + float(at)
    return frame


def explained(folder: Path, lines: Iterable[str]) -> Account:
    path = folder / "made.pcap"
    wrpcap(str(path), [packet(line) for line in lines], nano=True)
    file_account = explain(path)
    (account,) = file_account.accounts
    told = json.loads(json.dumps(file_account.as_json()))
    jsonschema.validate(told, SCHEMA)
    assert sum(each.time_ms for each in account.findings) == pytest.approx(
        account.duration_ms, abs=0.001
    )
    return account


def opened(rtt: float, *, at_server: bool = False, client: str = OPENS, server: str = OPENS) -> str:
    """A handshake."""
    near = 0.00003
    answer, agreed = (near, rtt) if at_server else (rtt, rtt + near)
    return f"0 > S 0 0 0 64240 {client}; {answer} < SA 0 1 0 65160 {server}; {agreed} > A 1 1 0 502"


def rounds(
    count: int, size: int, rtt: float, *, first: int = 1, swap: bool = False
) -> Iterator[str]:
    """Flights of one size, seen at the server; `swap` exchanges two segments of each fourth."""
    seq, at = first, 0.05
    for number in range(count):
        order = [0, 2, 1, *range(3, size)] if swap and number % 2 else [*range(size)]
        for place, each in enumerate(order):
            yield f"{at + place * 1e-4:.6f} < A {seq + each * 1460} 101 1460 509"
        seq += size * 1460
        at += rtt
        yield f"{at - 1e-4:.6f} > A 101 {seq} 0 502"


@dataclass(frozen=True)
class Case:
    """Lines, and what is to be told: reason, for whom they wait, and the time in ms."""

    lines: str
    reason: of.Reason
    whom: str
    ms: float | None
    never: tuple[of.Reason, ...] = field(default=())
    confidence: str | None = None


SMALL = f"{opened(0.02)}; 0.03 > PA 1 1 200 502; 0.05 < A 1 201 0 510"
KEPT = "0.04 > PA 1 1 100 502; 0.07 < PA 1 101 200 509; 0.07003 > A 101 201 0 500"
HOLE = "0.0501 < PA 2921 201 300 510; 0.05013 > A 201 1 0 502 held=2921-3221"
BLACK_HOLE = "; ".join(
    f"{at} < A 22 22 1460 510" for at in (0.04, 0.26, 0.7, 1.58, 3.34, 6.86, 13.9)
)
AGAIN = "; ".join(
    f"{at} > PA 101 201 100 500" for at in (400, 400.23, 400.7, 401.6, 403.4, 407, 414)
)
PROBES = "; ".join(f"{at} > A 100 1 0 502" for at in (10, 12, 14, 16))
SHUT = "; ".join(
    f"{at} < A 5164 462 0 510; {at + 0.0002} > A 462 5165 0 0"
    for at in (0.6228, 1.1424, 2.18, 4.26)
)
STRIPPED = "; ".join(
    f"{0.2 + n / 10} < PA {1 + 64240 * n} 201 32120 65535;"
    f"{0.20002 + n / 10} > A 201 {32121 + 64240 * n} 0 64240;"
    f"{0.2005 + n / 10} < PA {32121 + 64240 * n} 201 32120 65535;"
    f"{0.20052 + n / 10} > A 201 {64241 + 64240 * n} 0 64240"
    for n in range(5)
)
BURST = "; ".join(f"{0.0502 + n / 1e4:.4f} < A {1 + 1460 * n} 101 1460 509" for n in range(16))
DUPLICATES = "; ".join(f"{0.1004 + n / 1e4:.4f} > A 101 2921 0 502" for n in range(12))
REPAIRS = (
    "0.1019 < A 2921 101 1460 509; 0.1519 > A 101 7301 0 502; 0.15195 < A 7301 101 1460 509;"
    "0.202 > A 101 11681 0 502; 0.20205 < A 11681 101 1460 509; 0.2521 > A 101 23361 0 502;"
    "0.2522 < PA 23361 101 1000 509; 0.3023 > A 101 24361 0 502"
)
TEN = "; ".join(f"{0.0501 + n / 1e4:.4f} < A {1 + 1460 * n} 101 1460 509" for n in range(10))
NEXT_TEN = "; ".join(
    f"{0.101 + n / 1e4:.4f} < A {14601 + 1460 * n} 101 1460 509" for n in range(10)
)
LATE = (
    "0.4 < A 14601 101 1460 509; 0.7 > A 101 17521 0 502; 0.7001 < A 29201 101 1460 509;"
    "0.702 > A 101 20441 0 502; 0.704 > A 101 29201 0 502;"
    "0.75 > A 101 29201 0 502 held=14601-16061; 0.7502 > A 101 30661 0 502"
)
MARKED = "; ".join(
    f"{0.0502 + n / 20:.4f} < A {1 + 14600 * n} 101 7300 509;"
    f"{0.0504 + n / 20:.4f} < A {7301 + 14600 * n} 101 7300 509;"
    f"{0.1002 + n / 20:.4f} > A{'E' if n in (1, 5) else ''} 101 {7301 + 14600 * n} 0 502;"
    f"{0.1004 + n / 20:.4f} > A{'E' if n in (1, 5) else ''} 101 {14601 + 14600 * n} 0 502"
    for n in range(9)
)
FIN_PROBE = "; ".join(f"0.02 < A {1 + 1460 * n} 1 1460 509" for n in range(10))
ECN_SYNS = (
    "0 > SEC 0 0 0 64240 mss=1460; 1.02 > SEC 0 0 0 64240 mss=1460; 3.04 > S 0 0 0 64240 mss=1460"
)
CASES = {
    "A1 black hole": Case(
        f"{opened(0.002)}; 0.03 < PA 1 1 21 510; 0.03005 > A 1 22 0 502; 0.031 > PA 1 22 21 502;"
        f"0.033 < A 22 22 0 510; {BLACK_HOLE}",
        of.PATH_MTU, "server", 13_860, (of.GAVE_UP,), LIKELY,
    ),
    "A2 hole at the client": Case(
        f"{SMALL}; {HOLE}; 10.1 > FA 201 1 0 502 held=2921-3221; 10.12 < A 3221 202 0 510;"
        "30.2 > R 202 1 0 0",
        of.NEVER_ARRIVED, "server", 30_150, (of.CLOSED_LATE, of.UNTOLD),
    ),
    "A2b hole, not delivered": Case(
        f"{SMALL}; {HOLE}; 10.1 > FA 201 1 0 502 held=2921-3221; 10.12 < A 3221 202 0 510",
        of.NEVER_ARRIVED, "server", 10_070, (of.CLOSED_LATE, of.UNTOLD),
    ),
    "A3 fragmentation needed": Case(
        f"{opened(0.02, at_server=True)}; 0.03 > PA 1 1 300 502; 0.0301 < A 1 301 1460 510;"
        "0.03011 < PA 1461 301 1000 510; 0.0305 ! A 1 0 0 1446;"
        "0.0506 > A 301 1 0 502 held=1461-2461; 0.2341 < A 1 301 1394 510;"
        "0.23412 < PA 1395 301 66 510; 0.2541 > A 301 2461 0 502",
        of.PATH_MTU, "server", 224, (of.TIMEOUT, of.SYN_REPEATED), "certain",
    ),
    "B1 persist timer": Case(
        f"{opened(0.02, client='mss=1460 sack ws=4')}; 0.03 > PA 1 1 461 4015;"
        "0.055 < A 1 462 1460 510; 0.0552 < A 1461 462 1460 510; 0.0554 < A 2921 462 1460 510;"
        f"0.09 > A 462 4381 0 49; 0.3528 < PA 4381 462 784 510; 0.353 > A 462 5165 0 0; {SHUT};"
        "5.0 > A 462 5165 0 502; 5.02 < A 5165 462 1460 510; 5.0203 > A 462 6625 0 502",
        of.SILLY_WINDOW, "client", 242.8,
    ),
    "B2 persist timer": Case(
        f"{opened(0.0002)}; 0.01 > A 1 1 1448 115; 0.05 < A 1 1449 0 7; 0.262 > PA 1449 1 896 115;"
        "0.2623 < A 1 2345 0 0; 0.4743 > A 2344 1 0 115; 0.4745 < A 1 2345 0 0;"
        "3.0 < A 1 2345 0 509; 3.0001 > A 2345 1 1448 115; 3.0003 < A 1 3793 0 509",
        of.SILLY_WINDOW, "server", 251.8, (of.UNTOLD,),
    ),
    "C2 window scaling stripped": Case(
        f"{opened(0.1, server='mss=1460 sack')}; 0.1001 > PA 1 1 200 64240; {STRIPPED}",
        of.NO_SCALING, "client", None, (of.FULL_WINDOW,),
    ),
    "D2 accept queue": Case(
        f"{opened(0.001)}; 0.0011 > PA 1 1 100 502; 0.205 > PA 1 1 100 502; 0.613 > PA 1 1 100 502;"
        f"1.01 < SA 0 1 0 65160 {OPENS}; 1.01003 > A 101 1 0 502; 1.43 > PA 1 1 100 502;"
        f"3.03 < SA 0 1 0 65160 {OPENS}; 3.03003 > A 101 1 0 502; 3.1 > PA 1 1 100 502;"
        "3.101 < A 1 101 0 509; 3.102 < PA 1 101 500 509; 3.10203 > A 101 501 0 500",
        of.ACCEPT_QUEUE, "server", 3_098, (of.TIMEOUT, of.SYN_REPEATED), LIKELY,
    ),
    "E1 reset of a SYN-ACK": Case(
        f"0 > S 0 0 0 64860 {OPENS}; 0.00007 < SA 0 1 0 64308 {OPENS}; 0.00014 > R 1 0 0 0",
        of.SYN_ACK_REFUSED, "client", 0, (of.RESET,),
    ),
    "E2 reset in the client's name": Case(
        f"{opened(0.05, at_server=True)}; 0.06 > PA 1 1 100 502; 0.0601 < A 1 101 1460 509;"
        "0.0602 < A 1461 101 1460 509; 0.07 > R 101 1 0 0 ttl=57; 0.1104 > A 101 2921 0 502;"
        "0.1604 > PA 101 2921 80 502",
        of.FOREIGN_RESET, "client", 0, (of.RESET,), "certain",
    ),
    "G1 keep-alives, partly answered": Case(
        f"{opened(0.0036)}; 6 > A 0 1 0 502; 6.0036 < A 1 1 0 502; 12 > A 0 1 0 502;"
        "14 > A 0 1 0 502; 16 > A 0 1 0 502; 18 > RA 1 1 0 502",
        of.KEEP_ALIVE_UNANSWERED, "server", 6_000, (of.RESET, of.UNTOLD),
    ),
    "G1b keep-alives unanswered": Case(
        f"{opened(0.003)}; 0.01 > PA 1 1 100 502; 0.013 < A 1 101 0 509; {PROBES};"
        "18 > RA 101 1 0 502",
        of.KEEP_ALIVE_UNANSWERED, "server", 8_000, (of.RESET, of.UNTOLD),
    ),
    "G2 forgotten by a NAT": Case(
        f"{opened(0.03)}; {KEPT}; {AGAIN}; 429 > RA 201 201 0 500",
        of.IDLE_TIMEOUT, "server", 29_000, (of.GAVE_UP, of.APPLICATION), LIKELY,
    ),
    "G3 reset by a balancer": Case(
        f"{opened(0.03)}; {KEPT}; 400 > PA 101 201 100 500; 400.03 < R 201 0 0 0",
        of.IDLE_TIMEOUT, "server", 30, (of.RESET, of.APPLICATION), LIKELY,
    ),
    "H3 sooner than a timer": Case(
        "0 > S 0 0 0 64240 mss=1460 sack; 0.00001 < SA 0 1 0 65160 mss=1460 sack;"
        "0.00002 > A 1 1 0 502; 0.00003 > PA 1 1 100 502; 0.00004 < A 1 101 1460 509;"
        "0.00005 < PA 1461 101 1460 509; 0.1 > A 101 1 0 502 held=1461-2921;"
        "0.125 < A 1 101 1460 509; 0.225 > A 101 2921 0 502",
        of.FAST_RECOVERY, "server", None, (of.TIMEOUT, of.TAIL_LOSS),
    ),
    "H4 delay spike": Case(
        f"{opened(0.05, at_server=True)}; 0.05005 > PA 1 1 100 502; {TEN};"
        f"0.1002 > A 101 2921 0 502; 0.1008 > A 101 14601 0 502; {NEXT_TEN}; {LATE}",
        of.DELAY_SPIKE, "server", 600, (of.TIMEOUT, of.UNTOLD),
    ),
    "H5 SACK reneging": Case(
        f"{opened(0.05, at_server=True)}; 0.0501 > PA 1 1 100 502; 0.0502 < A 1 101 1460 509;"
        "0.0503 < A 1461 101 1460 509; 0.0504 < A 2921 101 1460 509;"
        "0.1002 > A 101 1 0 502 held=1461-4381; 0.1004 < A 1 101 1460 509;"
        "0.1504 > A 101 1461 0 502; 0.1704 < A 1461 101 1460 509; 0.2204 > A 101 2921 0 502;"
        "0.2205 < A 2921 101 1460 509; 0.2706 > A 101 4381 0 502",
        of.RENEGED, "server", None, (of.TIMEOUT,),
    ),
    "H6 ECN marks": Case(
        f"{opened(0.05, at_server=True).replace('> S ', '> SEC ').replace('SA', 'SAE')};"
        f"0.0501 > PA 1 1 100 502; {MARKED}",
        of.ECN_MARKS, "server", None, (of.CONGESTION_WINDOW,),
    ),
    "H7 SYNs with ECN": Case(
        f"{ECN_SYNS}; 3.06 < SA 0 1 0 65160 mss=1460; 3.06003 > A 1 1 0 502; 3.07 > PA 1 1 100 502;"
        "3.09 < PA 1 101 300 509; 3.09003 > A 101 301 0 500",
        of.ECN_BLOCKED, "client", 3_040, (of.SYN_REPEATED,), LIKELY,
    ),
    "H8 half-open": Case(
        f"0 > S 0 0 0 64240 {OPENS}; 0.0203 < A 777001 555 0 501; 0.02033 > R 555 0 0 0;"
        f"1.0 > S 0 0 0 64240 {OPENS}; 1.02 < SA 0 1 0 65160 {OPENS}; 1.02003 > A 1 1 0 502;"
        "1.03 > PA 1 1 50 502; 1.05 < PA 1 51 90 509; 1.05003 > A 51 91 0 501",
        of.OLD_CONNECTION, "server", 979.7, (of.RESET, of.SYN_REPEATED),
    ),
    "H11 SACK stripped": Case(
        f"{opened(0.05, at_server=True, server='mss=1460 ws=7')}; 0.0501 > PA 1 1 100 502; {BURST};"
        f"{DUPLICATES}; {REPAIRS}",
        of.NO_SACK, "server", 150, (of.TIMEOUT, of.FAST_RECOVERY),
    ),
    "H12 SYN-ACK lost": Case(
        f"0 > S 0 0 0 64240 {OPENS}; 0.00003 < SA 0 1 0 65160 {OPENS};"
        f"1.02 > S 0 0 0 64240 {OPENS}; 1.02003 < SA 0 1 0 65160 {OPENS};"
        "1.0403 > A 1 1 0 502; 1.0404 > PA 1 1 100 502;"
        "1.041 < PA 1 101 300 509; 1.061 > A 101 301 0 500",
        of.SYN_REPEATED, "client", 1_020,
    ),
    "H17 injected reset": Case(
        f"{opened(0.15)}; 0.16 > PA 1 1 120 502; 0.171 < RA 1 121 0 0; 0.1711 < RA 1 121 0 0;"
        "0.31 < A 1 121 1460 509; 0.311 < PA 1461 121 600 509",
        of.FOREIGN_RESET, "server", 0, (of.RESET, of.APPLICATION), "certain",
    ),
    "P1 one direction": Case(
        "; ".join(f"{at} > PA 5841 1 648 8760" for at in (0, 0.206, 0.806, 2.006, 4.406, 9.211)),
        of.GAVE_UP, "client", 9_211, (of.UNTOLD,), LIKELY,
    ),
    "P2 a long path": Case(
        f"{opened(0.8951)}; 0.8955 > PA 1 1 627 16445; 1.774 < A 1 628 0 107;"
        "2.0507 < A 1 628 1406 107; 2.2507 > A 628 1407 0 16000",
        of.HANDSHAKE, "nobody", 895,
    ),
    "P4 fast retransmission, begun late": Case(
        "0 > A 1 1 0 382 held=5473-10945; 0.00019 < A 10945 1 1368 108;"
        "0.0002 > A 1 1 0 382 held=5473-12313; 0.0003 > A 1 1 0 382 held=5473-13681;"
        "0.0004 > A 1 1 0 382 held=5473-15049; 0.00053 < A 1 1 1368 108;"
        "0.00054 > A 1 1369 0 361 held=5473-15049",
        of.FAST_RECOVERY, "server", None, (of.NEVER_ARRIVED,), LIKELY,
    ),
    "P5 idle, then reset": Case(
        f"{opened(0.027)}; 0.03 > PA 1 1 400 502; 0.06 < PA 1 401 1200 509;"
        "0.16 > A 401 1201 0 500; 65.3 > RA 401 1201 0 0",
        of.IDLE, "nobody", 65_240, (of.UNTOLD, of.RESET),
    ),
    "T2 loss probe of a FIN": Case(
        f"{opened(0.01, at_server=True)}; {FIN_PROBE}; 0.03 < FA 14601 1 0 509;"
        "0.05 < FA 14601 1 0 509; 0.06 > A 1 14602 0 502; 0.07 > FA 1 14602 0 502;"
        "0.07001 < A 14602 2 0 509",
        of.TAIL_LOSS, "server", 30, (of.TIMEOUT,),
    ),
}  # fmt: skip


def the(account: Account, reason: of.Reason) -> Finding:
    (finding,) = [each for each in account.findings if each.reason is reason]
    return finding


@pytest.mark.parametrize("name", CASES)
def test_the_reason_of_a_reported_case(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    account = explained(tmp_path, case.lines.split(";"))
    finding = the(account, case.reason)
    assert finding.waited_for == case.whom
    told = {
        each.reason
        for each in account.findings
        if each.reason.is_event or each.time_ms > 0.05 * account.duration_ms
    }
    assert not told.intersection(case.never)
    if case.ms is not None:
        assert finding.time_ms == pytest.approx(case.ms, rel=0.01, abs=1)
    if case.confidence is not None:
        assert finding.confidence == case.confidence


def test_h14_reordering_is_no_loss(tmp_path: Path) -> None:
    start = f"{opened(0.02)}; 0.03 > PA 1 1 100 502".split(";")
    account = explained(tmp_path, [*start, *rounds(20, 4, 0.02, swap=True)])
    assert the(account, of.REORDERED).count == 10
    assert not the(account, of.REORDERED).is_trouble
    assert of.FAST_RECOVERY not in {each.reason for each in account.findings}


def test_h20_four_segments_per_round_trip_for_ever_are_no_slow_start(tmp_path: Path) -> None:
    start = f"{opened(0.02, at_server=True)}; 0.03 > PA 1 1 100 502".split(";")
    account = explained(tmp_path, [*start, *rounds(40, 4, 0.02)])
    finding = the(account, of.SEND_BUFFER)
    assert finding.time_ms > 700 and finding.count == pytest.approx(39, abs=2)
    assert of.SLOW_START not in {each.reason for each in account.findings if each.time_ms > 50}


def test_a_flight_that_small_messages_resume_is_the_window_of_the_program(tmp_path: Path) -> None:
    """As HTTP/2 with its first window: 22 segments, then a message of 26 bytes, 30 times."""
    lines = f"{opened(0.03, client='mss=1460 ws=7', server='mss=1460 ws=7')}".split(";")
    lines += ["0.031 > PA 1 1 26 2800"]
    asked, seq = 27, 1
    for number in range(30):
        at = 0.061 + number * 0.03
        for place in range(22):
            lines.append(f"{at + place * 1e-5:.6f} < A {seq} {asked} 1460 509")
            seq += 1460
        lines.append(f"{at + 0.0005:.6f} > PA {asked} {seq} 26 2800")
        asked += 26
    account = explained(tmp_path, lines)
    finding = the(account, of.PROGRAM_WINDOW)
    assert finding.waited_for == "server" and finding.time_ms > 0.8 * account.duration_ms
    assert f"{22 * 1460:,}" in finding.detail and finding.confidence == LIKELY
    assert of.CONGESTION_WINDOW not in {each.reason for each in account.findings}


def test_black_hole_that_smaller_segments_cure(tmp_path: Path) -> None:
    """As tcp_mtu_probing does after some timeouts."""
    tries = [f"{at} < A 1 201 1460 510" for at in (0.051, 0.29, 0.75, 1.7)]
    end = ["3.5 < A 1 201 1024 510", "3.52 > A 201 1025 0 502", "3.521 < PA 1025 201 436 510"]
    lines = [*SMALL.split(";"), *tries, *end, "3.541 > A 201 1461 0 502"]
    finding = the(explained(tmp_path, lines), of.PATH_MTU)
    assert finding.confidence == "certain" and "1,024" in finding.detail


def test_what_cannot_be_told_names_two_reasons_and_ranks_last(tmp_path: Path) -> None:
    lines = (
        f"{opened(0.03)}; {KEPT}; 2.07 > PA 101 201 100 500; 2.1 < RA 201 201 0 0; 5 > R 201 0 0 0"
    )
    account = explained(tmp_path, f"{lines}".split(";"))
    for finding in account.findings:
        assert (finding.confidence == UNKNOWN) == (finding.reason is of.UNTOLD)
        assert bool(finding.decide) == (len(finding.either) == 2) == (finding.reason is of.UNTOLD)
    told = [finding.reason for finding in account.told if finding.is_trouble]
    assert of.UNTOLD not in told[:-1]


def test_options_and_rtt_are_those_of_the_ends(tmp_path: Path) -> None:
    account = explained(tmp_path, CASES["C2 window scaling stripped"].lines.split(";"))
    client, server = account.options["client"], account.options["server"]
    assert (client.mss, client.window_scale, client.sack) == (1460, 7, True)
    assert server.window_scale is None and "window scaling" in account.text.splitlines()[1]
    account = explained(tmp_path, CASES["H17 injected reset"].lines.split(";"))
    assert account.rtt_ms == pytest.approx(150, abs=0.1)


def test_advice_is_for_what_took_a_tenth_of_the_time(tmp_path: Path) -> None:
    account = explained(tmp_path, CASES["P2 a long path"].lines.split(";"))
    assert of.ROUND_TRIP.advice in account.changes.values()
    assert not explained(tmp_path, CASES["P5 idle, then reset"].lines.split(";")).changes


def test_a_clock_that_is_set_back_keeps_the_sum_and_the_schema(tmp_path: Path) -> None:
    lines = f"{opened(0.03)}; 0.04 > PA 1 1 100 502; 70000000 < PA 1 101 200 509"
    lines += "; 0.07 > A 101 201 0 500"
    account = explained(tmp_path, lines.split(";"))
    assert account.duration_ms == pytest.approx(70, abs=0.01)
    lines = f"{opened(0.03)}; 0.04 > PA 1 1 100 502; 0.001 < A 1 101 0 509; 0.002 > PA 101 1 10 500"
    assert explained(tmp_path, lines.split(";")).duration_ms == pytest.approx(2, abs=0.01)
