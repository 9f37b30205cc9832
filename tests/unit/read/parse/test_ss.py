"""The reader of `ss` text, on what ss printed of real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse import ss
from labs.read.parse.inet_diag import SocketMemory

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
BLOCKS = sorted(path.name for path in FIXTURES.glob("ss-6.*.txt"))
PLAIN = sorted(path.name for path in FIXTURES.glob("ss-*.txt") if path.name not in BLOCKS)


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize("name", PLAIN)
def test_rows_knows_every_recorded_token(name: str) -> None:
    rows = ss.rows(read(name))
    assert len(rows) >= 10
    assert {token for row in rows for token in row.unknown} == set()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_knows_every_token_of_a_virtual_run(name: str) -> None:
    sockets = [socket for block in ss.blocks(read(name)) for socket in block.sockets]
    assert sockets
    assert {token for row in sockets for token in row.unknown} == set()


def test_rows_of_one_line_equal_those_of_two() -> None:
    two = {(row.local_port, row.peer_port): row for row in ss.rows(read("ss-all-states.txt"))}
    one = {(row.local_port, row.peer_port): row for row in ss.rows(read("ss-one-line.txt"))}
    assert two.keys() == one.keys()
    for key, row in two.items():
        assert row.memory == one[key].memory
        assert row.info.keys() == one[key].info.keys()
        assert (row.state, row.congestion, row.flags) == (
            one[key].state,
            one[key].congestion,
            one[key].flags,
        )


def test_flat_names_the_columns_of_the_table() -> None:
    (socket,) = ss.blocks(read("ss-6.1-server.txt"))[-1].sockets
    row = socket.flat()
    assert row["snd_wnd_bytes"] == 3144448
    assert row["sndbuf_bytes"] == 4194304
    assert row["timer_name"] == "on"
    assert row["unknown"] == ""


HEAD = "ESTAB 0 0 10.0.0.1:80 10.0.0.2:4000 ino:1 sk:2 <->\n\t"


@pytest.mark.parametrize(
    "token",
    [
        "newthing:5",
        "newflag",
        "rto:abc",
        "wscale:7",
        "bbr:(bw:1bps,other:3)",
        "skmem:(r1,zz5)",
        "pacing_rate abps",
        "retrans:1",
        "delivery_rate 5bps/6bps",
        "timer:(on)",
        "rwnd_limited:5",
        "rto:" + "9" * 5000,
    ],
)
def test_rows_keeps_an_unknown_token_and_reads_the_rest(token: str) -> None:
    (row,) = ss.rows(f"{HEAD}cubic rto:204 {token} cwnd:10")
    assert " ".join(row.unknown) == token
    assert row.info == {"rto_ms": 204, "snd_cwnd_segments": 10}


def test_rows_reads_an_unknown_congestion_control() -> None:
    (row,) = ss.rows(f"{HEAD}skmem:(r0,rb1,t0,tb2,f0,w0,o0,bl0,d0) ts usec_ts myalgo rto:204 word")
    assert row.congestion == "myalgo"
    assert row.unknown == ("usec_ts", "word")


def test_rows_memory_of_older_kernels() -> None:
    (row,) = ss.rows(f"{HEAD}skmem:(r1,rb2,t3,tb4,f5,w6,o7) mem:(r1,w2,f3,t4)")
    assert row.memory == SocketMemory(1, 2, 3, 4, 5, 6, 7)
    assert row.info["wmem_queued_bytes"] == 2


@pytest.mark.parametrize(
    ("text", "expires_ms"),
    [
        ("1min20sec", 80_000),
        ("9sec", 9_000),
        ("1.200ms", 1_200),
        ("008ms", 8),
        ("119min", 7_140_000),
        ("", 0),
    ],
)
def test_rows_reads_every_form_of_a_timer(text: str, expires_ms: int) -> None:
    (row,) = ss.rows(f"ESTAB 0 0 1.2.3.4:80 1.2.3.5:4000 timer:(keepalive,{text},3)")
    assert row.timer == ss.Timer("keepalive", expires_ms, 3)


def test_rows_keeps_values_with_spaces_whole() -> None:
    (row,) = ss.rows(
        "ESTAB 0 0 1.2.3.4:80 [::1%lo]:4000 "
        'users:(("a b",pid=1,fd=3),("c",pid=2,fd=4))'
        " inet-sockopt: ( is_icsk defer_connect) tos:0x10"
    )
    assert row.details["users"] == '(("a b",pid=1,fd=3),("c",pid=2,fd=4))'
    assert row.details["inet-sockopt"] == "( is_icsk defer_connect)"
    assert row.details["tos"] == "0x10"
    assert row.unknown == ()


@pytest.mark.parametrize("text", ["hello", "\tcubic rto:204", "ESTAB 0 0 1.2.3.4 5.6.7.8"])
def test_rows_refuses_a_line_without_a_socket(text: str) -> None:
    with pytest.raises(Damaged, match="line 1"):
        ss.rows(text)


@pytest.mark.parametrize("text", ["ESTAB 0 0 1.2.3.4:80 1.2.3.5:4000\n", "@ 5 mark\nESTAB 0 0 1."])
def test_blocks_refuses_cut_text(text: str) -> None:
    with pytest.raises(Damaged):
        ss.blocks(text)


@pytest.mark.parametrize("protocol", ["tls", "mptcp", "smc"])
def test_rows_name_the_upper_layer_protocol(protocol: str) -> None:
    """iproute2, misc/ss.c tcp_show_info(): `out(" tcp-ulp-%s", ...)`, a word without a value."""
    (row,) = ss.rows(
        "ESTAB 0 0 10.0.0.1:80 10.0.0.2:1\n"
        f"\t cubic wscale:7,7 rto:204 cwnd:10 minrtt:0.1 tcp-ulp-{protocol}\n"
    )
    assert row.details == {"ulp": protocol}
    assert (row.unknown, row.congestion) == ((), "cubic")
