"""The lab `nagle`: its conditions and commands, and the programs that it starts on loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labs.catalog import find
from labs.drive.preview import preview
from labs.errors import BadInput
from labs.experiments.nagle import conditions as nagle
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.experiment import ASK, RESPOND
from labs.guest.programs.respond import HEAD_BYTES, head

BODY = 612


def settings(name: str, p: Nagle | None = None) -> dict[str, object]:
    (condition,) = find("nagle").conditions(p or Nagle(only=name))
    return dict(condition.settings)


def test_conditions_by_size_and_testbed() -> None:
    names = {
        size: [condition.name for condition in nagle.conditions(Nagle(size=size))]
        for size in ("small", "full")
    }
    assert set(names["small"]) < set(names["full"])
    on_machines = [condition.name for condition in nagle.conditions(Nagle(testbed="vagrant"))]
    assert on_machines == ["off", "on", "off-no-k", "quickack"]
    assert set(on_machines) <= set(names["small"])


def test_conditions_differ_as_their_names_say() -> None:
    off = settings("off")
    assert {
        "nodelay": off["nodelay"],
        "keepalive": off["keepalive"],
        "quickack": off["quickack"],
    } == {"nodelay": False, "keepalive": True, "quickack": "never"}
    changes: dict[str, dict[str, object]] = {
        "on": {"nodelay": True},
        "off-no-k": {"keepalive": False},
        "quickack": {"quickack": "route"},
        "on-quickack": {"nodelay": True, "quickack": "route"},
        "off-nopush": {"nopush": True},
        "write-one": {"server": "writes", "writes": "one"},
        "body-1447": {"server": "writes", "page_bytes": 1447},
        "ask-each": {"client": "ask", "quickack": "each"},
    }
    for name, change in changes.items():
        assert settings(name) == {**off, **change}
    # The whole answer is as long as the name says: what our server writes before the body counts.
    assert settings("whole-1448", Nagle(only="whole-1448"))["page_bytes"] == 1448 - HEAD_BYTES


def test_parameters_default_to_the_article_s_load() -> None:
    p = Nagle()
    assert (p.requests, p.concurrency, p.page_bytes, p.delay_ms) == (1000, 100, 612, 0)


def test_conditions_refuse_more_at_a_time_than_there_are() -> None:
    with pytest.raises(BadInput, match="concurrency 100 is more than the 50 requests"):
        nagle.conditions(Nagle(requests=50))


def test_conditions_refuse_a_missing_capture_file() -> None:
    with pytest.raises(BadInput, match=r"there is no capture nowhere\.pcap"):
        nagle.conditions(Nagle(capture_file="nowhere.pcap"))


def test_conditions_with_capture_add_the_client() -> None:
    every = nagle.conditions(Nagle(size="full"))
    assert {condition.settings["capture"] for condition in every} == {"server"}
    both = nagle.conditions(Nagle(size="full", capture=True))
    assert {condition.settings["capture"] for condition in both} == {"both"}


def test_conditions_have_a_group() -> None:
    groups: dict[str, list[str]] = {}
    for condition in nagle.conditions(Nagle(size="full")):
        groups.setdefault(condition.group, []).append(condition.name)
    assert {group: len(names) for group, names in groups.items()} == {
        "article": 7,
        "writes": 5,
        "sizes": 10,
        "pieces": 3,
        "own_client": 3,
        "dropped": 2,
        "far": 4,
    }


def test_conditions_shape_the_link_for_a_delay_alone() -> None:
    (plain,) = nagle.conditions(Nagle(only="off"))
    (far,) = nagle.conditions(Nagle(only="off", delay_ms=20))
    assert not plain.link.shaped
    assert far.link.uses_netem and far.link.rate_mbit is None


def test_lines_have_the_route_with_quick_acks() -> None:
    (quick,) = nagle.conditions(Nagle(only="quickack"))
    (off,) = nagle.conditions(Nagle(only="off"))
    shown, without = (preview(condition, nagle.lines(condition)) for condition in (quick, off))
    (added,) = shown[len(without) :]
    assert (added.host, " ".join(added.argv)) == (
        "client",
        "ip route add 10.77.0.1/32 dev eth0 quickack 1",
    )


def test_lines_have_the_filter_that_drops_acks() -> None:
    every = {condition.name: condition for condition in nagle.conditions(Nagle())}
    lines = [" ".join(argv) for host, argv in nagle.lines(every["acks-dropped"])]
    assert lines[0] == "tc qdisc add dev eth0 root handle 1: htb"
    assert "match ip dport 80 0xffff match u8 0x10 0xff at 33" in lines[3]
    assert lines[-1] == "tc qdisc del dev eth0 root"
    assert every["acks-dropped"].sysctls == {}
    assert every["acks-dropped-no-tlp"].sysctls == {"server": {"net.ipv4.tcp_early_retrans": "0"}}


def test_conditions_over_a_long_delay_have_their_own_link() -> None:
    every = {condition.name: condition for condition in nagle.conditions(Nagle(delay_ms=20))}
    links = {(condition.link.rate_mbit, condition.link.delay_ms) for condition in every.values()}
    assert links == {(None, 20), (None, 0), (10, 200)}
    other = {
        condition.name: condition
        for condition in nagle.conditions(Nagle(requests=50, concurrency=5))
    }
    for name in every:
        assert (every[name] == other[name]) == (every[name].group in ("dropped", "far")), name
    small, on = (every[name].settings for name in ("small-writes", "small-writes-on"))
    assert {**small, "nodelay": True} == on
    assert (small["pieces"], small["page_bytes"], small["write_every_ms"]) == (
        1000,
        100_000 - HEAD_BYTES,
        2,
    )


def test_tools_are_those_started() -> None:
    used = {
        condition.name: nagle.tools(condition) for condition in nagle.conditions(Nagle(size="full"))
    }
    assert used["off"] == ("nginx", "ab")
    assert used["write-two"] == ("ab",)
    assert used["ask"] == used["bulk"] == ("nginx",)
    assert used["small-writes"] == used["acks-dropped"] == ()


@contextmanager
def responding(writes: str, **given: int) -> Iterator[int]:
    """Our own server on loopback; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
    server = subprocess.Popen(
        (
            sys.executable,
            "-I",
            "-S",
            str(RESPOND),
            "--listen",
            "127.0.0.1",
            "--port",
            str(port),
            "--writes",
            writes,
            "--body-bytes",
            str(BODY),
            "--pieces",
            "10",
            *words,
        )
    )
    try:
        while f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
            assert server.poll() is None
        yield port
    finally:
        server.kill()
        server.wait()


def received(port: int, requests: int) -> bytes:
    """All that the server answers to requests that come in one piece."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n" * requests)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


@pytest.mark.parametrize("writes", ["two", "one", "cork", "more", "pieces"])
def test_respond_sends_the_same_response_however_it_is_written(writes: str) -> None:
    with responding(writes) as port:
        assert received(port, 3) == (head(BODY) + b"x" * BODY) * 3


def test_respond_header_has_its_length_for_every_body() -> None:
    for size in (1, 612, 1_000_000):
        assert len(head(size)) == HEAD_BYTES
        assert head(size).endswith(b"\r\n\r\n")
        assert f"Content-Length: {size}\r\n".encode() in head(size)


@pytest.mark.parametrize("quickack", ["never", "once", "each"])
def test_ask_times_every_response(tmp_path: Path, quickack: str) -> None:
    out = tmp_path / "ask.json"
    with responding("two", nodelay=1) as port:
        done = subprocess.run(
            (
                sys.executable,
                "-I",
                "-S",
                str(ASK),
                "--to",
                "127.0.0.1",
                "--port",
                str(port),
                "--requests",
                "7",
                "--quickack",
                quickack,
                "--out",
                str(out),
            ),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(out.read_text())
    assert report["quickack"] == quickack
    assert len(report["times_ms"]) == 7 and min(report["times_ms"]) > 0


def test_ask_reports_a_wrong_response_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = subprocess.Popen(
            (
                sys.executable,
                "-I",
                "-S",
                str(ASK),
                "--to",
                "127.0.0.1",
                "--port",
                str(listener.getsockname()[1]),
                "--requests",
                "1",
                "--quickack",
                "never",
                "--out",
                str(tmp_path / "x"),
            ),
            stderr=subprocess.PIPE,
            text=True,
        )
        peer, _ = listener.accept()
        peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        _, text = client.communicate(timeout=30)
        peer.close()
    assert client.returncode == 1
    assert text.startswith("unexpected response: ") and len(text.splitlines()) == 1
    assert not (tmp_path / "x").exists()
