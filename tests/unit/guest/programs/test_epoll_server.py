"""The server in C: built with sanitizers, fed with good, split, pipelined and bad requests."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labs.drive.compiled import FLAGS, compiled
from labs.errors import Missing, RunFailed
from labs.guest.bench import PROGRAMS

FOLDER = PROGRAMS / "epoll_server"
SANITIZED = (*FLAGS, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FUZZ = Path(__file__).with_name("fuzz_request.c")
FUZZ_INPUTS = 10_000
REQUEST = b"GET /data HTTP/1.1\r\nHost: 10.77.0.1:8080\r\n\r\n"
RESPONSE_BYTES = 151
"""Article 2: the response of its server, with the header."""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
Start = Callable[..., "Served"]


class Served:
    """A running server, and its report after `end`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, *pieces: bytes) -> bytes:
        """Send the pieces, half-close, and return all that the server sends."""
        with self.connect() as connection:
            with contextlib.suppress(OSError):  # the server may close after a bad piece
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
            return read_to_end(connection)

    def end(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        assert (self.process.returncode, err) == (0, "")
        report: dict[str, Any] = json.loads(out)
        return report


def read_to_end(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            found += piece
    return found


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled(FOLDER, SANITIZED)


@pytest.fixture
def start(program: Path) -> Iterator[Start]:
    started = []

    def begin(*words: str) -> Served:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            (program, "--address", "127.0.0.1", "--port", str(port), *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        served = Served(process, port)
        for _ in range(200):
            with contextlib.suppress(ConnectionRefusedError):
                served.connect().close()
                return served
            time.sleep(0.05)
        raise AssertionError(process.communicate()[1])

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_server_answers_the_article_s_151_bytes(start: Start) -> None:
    served = start()
    assert len(REQUEST) == 44  # article 2
    answer = served.ask(REQUEST)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and len(answer) == RESPONSE_BYTES
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    (thread,) = served.end()["threads"]
    assert (thread["requests"], thread["bad"]) == (1, 0)


def test_server_answers_pipelined_and_split_requests(start: Start) -> None:
    served = start("--threads", "3")
    assert len(served.ask(10 * REQUEST)) == 10 * RESPONSE_BYTES
    with served.connect() as connection:
        for byte in REQUEST:
            connection.sendall(bytes([byte]))
        assert len(connection.recv(4096)) == RESPONSE_BYTES
    assert sum(one["requests"] for one in served.end()["threads"]) == 11


@pytest.mark.parametrize(
    "last", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"]
)
def test_server_closes_after_the_last_request(start: Start, last: bytes) -> None:
    served = start()
    with served.connect() as connection:
        connection.sendall(last + REQUEST)
        assert len(read_to_end(connection)) == RESPONSE_BYTES


@pytest.mark.parametrize(
    "bad",
    [
        b"POST / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\r\n\r\n",
        b"\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: a\r\n\r\n",
        b"GET / HTTP/1.1\r\na: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + 5000 * b"a" + b" HTTP/1.1\r\n\r\n",
        bytes(range(256)) * 20,
    ],
)
def test_server_refuses_a_bad_request_and_serves_the_next(start: Start, bad: bytes) -> None:
    served = start()
    assert served.ask(bad) in (
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"",  # the rest of a bad request was unread when the server closed: a reset
    )
    assert len(served.ask(REQUEST)) == RESPONSE_BYTES
    (thread,) = served.end()["threads"]
    assert (thread["bad"], thread["requests"]) == (1, 1)


def test_server_survives_clients_that_leave_or_do_not_read(start: Start) -> None:
    served = start()
    for _ in range(20):
        with served.connect() as gone:
            gone.sendall(REQUEST[:10])
    with served.connect() as deaf:
        deaf.settimeout(2)
        with contextlib.suppress(OSError):
            for _ in range(2000):
                deaf.sendall(100 * REQUEST)  # 30 MB of responses that nobody reads
    assert len(served.ask(REQUEST)) == RESPONSE_BYTES
    served.end()


def test_server_polls_only_with_timeout_0(start: Start) -> None:
    """epoll_wait(2): with a timeout of 0 it returns although nothing happened."""
    empty = []
    for timeout_ms in ("0", "1000"):
        served = start("--timeout-ms", timeout_ms)
        served.ask(REQUEST)
        time.sleep(0.2)
        (thread,) = served.end()["threads"]
        empty.append(thread["empty_waits"])
    assert empty[0] > 100 and empty[1] == 0


def test_server_spends_the_requested_work(start: Start) -> None:
    served, requests, work_us = start("--work-us", "5000"), 20, 5000
    begin = time.monotonic()
    served.ask(requests * REQUEST)
    took_us = (time.monotonic() - begin) * 1e6
    assert took_us >= requests * work_us
    report = served.end()
    assert report["work_us"] == work_us


def test_server_reports_its_pinning(start: Start) -> None:
    served = start("--cpus", "0", "--threads", "2")
    served.ask(REQUEST)
    report = served.end()
    assert [(one["cpu"], one["allowed_cpus"]) for one in report["threads"]] == [(0, 1)] * 2


def test_server_refuses_a_port_in_use(program: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            (program, "--address", "127.0.0.1", "--port", port), capture_output=True, text=True
        )
    assert done.returncode == 1
    assert done.stderr == f"cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--threads", "0"),
        ("--port", "70000"),
        ("--timeout-ms", "x"),
        ("--work-us", "-1"),
        ("--cpus", "0,,x"),
        ("--unknown",),
        ("more",),
    ],
)
def test_server_refuses_an_option(program: Path, words: tuple[str, ...]) -> None:
    given = (str(program), "--address", "127.0.0.1", "--port", "1", *words)
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_request_reader_under_a_short_fuzz(tmp_path: Path) -> None:
    """Both verdicts must be frequent, else the mutations test nothing."""
    fuzz = tmp_path / "fuzz"
    subprocess.run(("gcc", *SANITIZED, f"-I{FOLDER}", FUZZ, "-o", fuzz), check=True)
    done = subprocess.run((fuzz, str(FUZZ_INPUTS)), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    incomplete, complete, bad = map(int, done.stdout.split())
    assert incomplete + complete + bad == FUZZ_INPUTS
    assert min(incomplete, complete, bad) > FUZZ_INPUTS / 20


def test_compiled_is_kept_until_source_or_flags_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "small.c").write_text('#include "exit.h"\nint main(void) { return EXIT; }\n')
    (folder / "exit.h").write_text("#define EXIT 3\n")
    first = compiled(folder)
    assert subprocess.run((first,)).returncode == 3
    assert compiled(folder) == first
    assert compiled(folder, FLAGS) != first
    (folder / "exit.h").write_text("#define EXIT 4\n")
    assert subprocess.run((compiled(folder),)).returncode == 4


def test_compiled_refuses_a_source_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "wrong.c").write_text("int main(void) { int unused; return 0; }\n")
    with pytest.raises(RunFailed, match=r"^gcc cannot compile wrong\.c: .*unused"):
        compiled(folder)


def test_compiled_names_the_package_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="apt-get install gcc libc6-dev") as error:
        compiled(FOLDER)
    assert "\n" not in str(error.value)
