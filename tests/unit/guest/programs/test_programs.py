"""The programs that a run starts on its hosts, here on the loopback device."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.guest.bench import FETCH, PROBE


@pytest.fixture
def served(tmp_path: Path) -> Iterator[int]:
    """The port of an HTTP server for a folder with one file of 3,000,001 bytes."""
    (tmp_path / "bigfile").write_bytes(bytes(3_000_001))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words: object) -> None:
            super().__init__(*words, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-I", "-S", str(program), *words),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("read_bytes", [1000, 65536, 10_000_000])
def test_fetch_counts_every_byte_whatever_the_read(
    served: int, tmp_path: Path, read_bytes: int
) -> None:
    out = tmp_path / "fetch.json"
    done = run(
        FETCH,
        "--to",
        "127.0.0.1",
        "--port",
        str(served),
        "--path",
        "/bigfile",
        "--read-bytes",
        str(read_bytes),
        "--limit-s",
        "30",
        "--out",
        str(out),
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(out.read_text())
    assert (found["bytes"], found["length"], found["ended"]) == (3_000_001, 3_000_001, "complete")
    assert found["timeline"][-1] == [found["end_ns"], 3_000_001]
    times = [found[name] for name in ("before_ns", "connect_ns", "first_byte_ns", "end_ns")]
    assert times == sorted(times)


def test_fetch_ends_at_its_limit_with_what_it_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(5000))
            peer.recv(1)
            peer.close()

        thread = threading.Thread(target=answer)
        thread.start()
        out = tmp_path / "fetch.json"
        done = run(
            FETCH,
            "--to",
            "127.0.0.1",
            "--port",
            str(listener.getsockname()[1]),
            "--path",
            "/",
            "--read-bytes",
            "1000",
            "--limit-s",
            "0.3",
            "--out",
            str(out),
        )
        thread.join()
    assert done.returncode == 0
    found = json.loads(out.read_text())
    assert (found["ended"], found["bytes"]) == ("limit", 5000)


def test_fetch_reports_a_refusal_in_one_line(served: int, tmp_path: Path) -> None:
    done = run(
        FETCH,
        "--to",
        "127.0.0.1",
        "--port",
        str(served),
        "--path",
        "/nothing",
        "--read-bytes",
        "1000",
        "--limit-s",
        "5",
        "--out",
        str(tmp_path / "x"),
    )
    assert done.returncode == 1
    assert "status 404" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("beside", [False, True])
def test_probe_measures_a_handshake_and_a_train(tmp_path: Path, beside: bool) -> None:
    packets = "200" if beside else "60"
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    port = ports[0]
    also = ("--beside", ports[1]) if beside else ()
    server = subprocess.Popen(
        (
            sys.executable,
            "-I",
            "-S",
            str(PROBE),
            "serve",
            "--listen",
            "127.0.0.1",
            "--port",
            port,
            "--packets",
            packets,
            *also,
        )
    )
    out = tmp_path / "probe.json"
    try:
        while f":{int(port):04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
            assert server.poll() is None
        done = run(
            PROBE,
            "measure",
            "--to",
            "127.0.0.1",
            "--port",
            port,
            "--packets",
            packets,
            "--out",
            str(out),
            *also,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert server.wait(10) == 0
    finally:
        server.kill()
        server.wait()
    found = json.loads(out.read_text())
    assert found["arrived"] == found["sent"] == int(packets)
    assert 0 < found["rtt_ms"] == min(found["handshakes_ms"]) < 1000
    assert found["rate_mbit"] > 0
    assert len(found["handshakes_ms"]) == (8 if beside else 3)
    assert ("beside_ms" in found) == beside and found.get("beside_ms", 1) > 0
