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

from labs.errors import BadInput
from labs.experiments.nagle import conditions as nagle
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.experiment import ASK, RESPOND
from labs.guest.programs.respond import HEAD_BYTES, head

BODY = 612


def test_conditions_refuse_more_at_a_time_than_there_are() -> None:
    with pytest.raises(BadInput, match="concurrency 100 is more than the 50 requests"):
        nagle.conditions(Nagle(requests=50))


def test_conditions_refuse_a_missing_capture_file() -> None:
    with pytest.raises(BadInput, match=r"there is no capture nowhere\.pcap"):
        nagle.conditions(Nagle(capture_file="nowhere.pcap"))


def test_conditions_shape_the_link_for_a_delay_alone() -> None:
    (plain,) = nagle.conditions(Nagle(only="off"))
    (far,) = nagle.conditions(Nagle(only="off", delay_ms=20))
    assert not plain.link.shaped
    assert far.link.uses_netem and far.link.rate_mbit is None


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
