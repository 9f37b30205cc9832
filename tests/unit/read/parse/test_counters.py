"""Counters, samples of queues and of receiving sockets, and lines that are too long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse import proc
from labs.read.parse.http_clients import ab, httping, wget
from labs.read.parse.qdisc_samples import queue_samples
from labs.read.parse.socket_samples import SAMPLED, TRUESIZES, samples, truesizes
from labs.read.parse.ss import blocks

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize("text", ["TcpInSegs", "TcpInSegs five 0.0", "ss: cannot open netlink"])
def test_counters_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        proc.counters("#kernel\n" + text)


def test_softirqs_adds_the_cpus() -> None:
    text = read("softirqs.txt")
    line = next(line for line in text.splitlines() if "NET_RX" in line)
    assert proc.softirqs(text)["NET_RX"] == sum(map(int, line.split(":")[1].split()))
    assert len(proc.softirqs(text)) == 10  # include/linux/interrupt.h, NR_SOFTIRQS


@pytest.mark.parametrize("reader", [proc.softirqs, proc.interrupts, proc.switches])
def test_counters_refuse_other_text(reader: object) -> None:
    assert callable(reader)
    with pytest.raises(Damaged):
        reader("nothing here\n")


EMPTY = bytes.fromhex(
    "004b894a845bd7189800000000000000040000000000100010000100010000000a000100706669666f000000"
    "08000200e803000005000c000000000004000900380007000400060014000100347c030000000000a9000000"
    "00000000040006001800030000000000000000000000000000000000000000002c000300347c030000000000"
    "a900000000000000000000000000000000000000000000000000000000000000"
)
LONG = bytes.fromhex(
    "0016c006865bd7189800000000000000040000000000100010000100010000000a000100706669666f000000"
    "08000200e803000005000c000000000004000900380007000400060014000100924081010000000008420000"
    "0000000004000600180003007a0300000c7114000000000000000000000000002c0003009240810100000000"
    "08420000000000000000000000000000000000007a0300000c71140000000000"
)


def test_queue_samples_read_the_counters_of_the_kernel() -> None:
    """169 packets of the link's check; later 890 full frames of 1514 bytes wait."""
    empty, long = queue_samples(EMPTY + LONG)
    assert (empty.kind, empty.sent_packets, empty.backlog_packets, empty.dropped) == (
        "pfifo",
        169,
        0,
        0,
    )
    assert long.backlog_packets == 890
    assert long.backlog_bytes == 1_339_660
    assert 890 * 1500 < long.backlog_bytes <= 890 * 1514
    assert long.sent_bytes == 25_247_890 and long.sent_packets == 16_904
    assert long.at_ns - empty.at_ns == 7_452_674_816


@pytest.mark.parametrize("cut", [5, 11, 40, len(LONG) - 1])
def test_queue_samples_refuse_what_was_cut(cut: int) -> None:
    with pytest.raises(Damaged):
        queue_samples(LONG[:cut])


def test_queue_samples_refuse_a_message_without_counters() -> None:
    message = LONG[12:52]
    with pytest.raises(Damaged, match="counters"):
        queue_samples(LONG[:8] + len(message).to_bytes(4, "little") + message)
    with pytest.raises(Damaged, match="longer than"):
        queue_samples(LONG[:8] + (24).to_bytes(4, "little") + LONG[12:36])


HEAD = ",".join((*SAMPLED, "TCPRcvQDrop", "BeyondWindow"))
ROW = "1790000000000000000,1,2,1024,1024,2304,65536,0,0,32768,14600,536,1024,-1,0,0,"


def test_samples_of_a_kernel_without_rcv_wnd_and_a_counter() -> None:
    (one,) = samples(f"{HEAD}\n{ROW}\n")
    assert (one.data_segs_in, one.rcvbuf, one.rcv_wnd) == (1, 65536, None)
    assert one.counters == {"TCPRcvQDrop": 0, "BeyondWindow": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        ROW,
        f"{HEAD}\n{ROW},1",
        f"{HEAD}\n{ROW.replace('1024', '', 1)}",
        f"{HEAD}\n{ROW.replace('1024', 'x', 1)}",
        f"{HEAD}\n{ROW.replace('1024', '9' * 19, 1)}",
        f"{HEAD},BeyondWindow\n{ROW},",
    ],
)
def test_samples_refuses_what_the_receiver_cannot_have_written(text: str) -> None:
    with pytest.raises(Damaged):
        samples(text)


def test_truesizes_are_pairs() -> None:
    assert truesizes(f"{TRUESIZES}\n64,768\n704,1280\n") == ((64, 768), (704, 1280))


@pytest.mark.parametrize(
    "text",
    ["", TRUESIZES, "64,768", f"{TRUESIZES}\n64", f"{TRUESIZES}\n64,63", f"{TRUESIZES}\nx,768"],
)
def test_truesizes_refuses_what_the_receiver_cannot_have_written(text: str) -> None:
    with pytest.raises(Damaged):
        truesizes(text)


LENGTH = 400_000
# Text that repeats this much took minutes with a pattern that looks for its end from everywhere.
MOST_S = 20.0
BEGIN = "--2020-04-13 14:01:33--  http://10.77.0.1/bigfile\n"
HEADER = (
    "State Recv-Q Send-Q Local Address:Port Peer Address:Port\nESTAB 0 0 10.0.0.1:80 10.0.0.2:1\n"
)


def repeated(begin: str, unit: str) -> str:
    return begin + unit * (LENGTH // len(unit))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (wget, repeated(BEGIN + "1K", " ")),
        (wget, repeated(BEGIN, "1K .")),
        (wget, repeated(BEGIN, "(1 MB/s) - ")),
        (blocks, repeated(HEADER + "\t ", "users:((")),
        (blocks, repeated(HEADER + "\t ", "inet-sockopt: (")),
        (blocks, repeated(HEADER + "\t ", 'opt:"x ')),
        (blocks, repeated(HEADER + "\t ", "skmem:(")),
        (ab, repeated("This is ApacheBench\n", "Time per request:  ")),
        (httping, repeated("PING 10.77.0.1:80 (/):\n", "connected to ")),
    ],
)
def test_parsers_take_time_by_length_alone(read: Callable[[str], object], text: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(Damaged):
        read(text)
    assert time.process_time() - begun < MOST_S
