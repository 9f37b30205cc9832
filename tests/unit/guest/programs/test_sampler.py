"""The sampler as a run uses it: a separate program, controlled by signals."""

from __future__ import annotations

import ast
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labs.guest.programs import sampler
from labs.read.parse import inet_diag, ss

SOURCE = Path(sampler.__file__)
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("ss") is None,
    reason="needs Linux and ss (package iproute2)",
)


@contextmanager
def running(folder: Path, port: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running sampler whose files exist."""
    argv = (
        sys.executable,
        "-I",
        "-S",
        str(SOURCE),
        "--port",
        str(port),
        "--samples",
        str(folder / "samples.bin"),
        "--ss",
        str(folder / "ss.txt"),
        "--stats",
        str(folder / "stats.json"),
        *more,
    )
    process = subprocess.Popen(argv)
    try:
        while not (folder / "ss.txt").exists():
            assert process.poll() is None, "the sampler ended before it began"
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_dump(folder: Path, kept_before: int) -> int:
    """Wait until more dumps have been stored for ss; return their size in bytes."""
    for _ in range(500):
        dump = folder / "ss.txt.dump"
        if dump.exists() and (kept := dump.stat().st_size) > kept_before:
            return kept
        time.sleep(0.01)
    raise AssertionError("no further dump was kept")


@linux
def test_sampler_samples_connections_and_marks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            socket.create_connection(("127.0.0.1", port)),
            server.accept()[0],
            running(tmp_path, port, "--interval-ms", "20", "--ss-interval-ms", "50") as process,
        ):
            started = wait_for_dump(tmp_path, 0)
            periodic = wait_for_dump(tmp_path, started)
            process.send_signal(signal.SIGUSR1)
            wait_for_dump(tmp_path, periodic)
            time.sleep(0.1)
            process.terminate()
            assert process.wait() == 0
    found = inet_diag.samples((tmp_path / "samples.bin").read_bytes())
    # Both ends of the connection are on this machine; the listening socket is omitted.
    assert {sample.state for sample in found} == {"ESTAB"}
    assert {(sample.local_port, sample.peer_port) for sample in found} == {
        (port, found[0].local_port if found[0].local_port != port else found[0].peer_port),
        (found[0].local_port if found[0].local_port != port else found[0].peer_port, port),
    }
    moments = [sample.at_ns for sample in found]
    assert moments == sorted(moments)
    blocks = ss.blocks((tmp_path / "ss.txt").read_text())
    marks = [block.mark for block in blocks]
    assert (marks[0], marks[-1]) == ("start", "end")
    assert marks.count("mark") == 1
    assert "" in marks
    assert all(len(block.sockets) == 2 for block in blocks)
    assert not list(tmp_path.glob("ss.txt.*"))


@linux
def test_sampler_records_its_cost(tmp_path: Path) -> None:
    with running(tmp_path, 9, "--interval-ms", "10") as process:
        time.sleep(0.3)
        process.terminate()
        assert process.wait() == 0
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["samples"] >= 3
    assert stats["records"] == 0
    assert stats["texts"] >= 2
    assert stats["mean_period_ms"] > 0
    assert stats["max_period_ms"] >= stats["mean_period_ms"]
    assert stats["cpu_s"] >= 0
    assert (tmp_path / "samples.bin").read_bytes() == b""


@linux
def test_sampler_samples_at_multiples_of_the_interval(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with (
            socket.create_connection(("127.0.0.1", port)),
            running(tmp_path, port, "--interval-ms", "50") as process,
        ):
            time.sleep(0.4)
            process.terminate()
            process.wait()
    moments = sorted(
        {sample.at_ns for sample in inet_diag.samples((tmp_path / "samples.bin").read_bytes())}
    )[1:-1]
    assert moments
    slots = [moment // 50_000_000 for moment in moments]
    assert slots == sorted(set(slots))


def test_following_is_the_next_multiple() -> None:
    assert sampler.following(0, 100) == 100
    assert sampler.following(99, 100) == 100
    assert sampler.following(100, 100) == 200
    assert sampler.following(1_790_000_000_712_266_240, 10**8) == 1_790_000_000_800_000_000


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--port", "80"],
        ["--port", "0", "--samples", "a", "--ss", "b"],
        ["--port", "65536", "--samples", "a", "--ss", "b"],
        ["--port", "80", "--samples", "a", "--ss", "b", "--interval-ms", "-1"],
        ["--port", "80", "--samples", "a", "--ss", "b", "--interval-ms", "1.5"],
        ["--port", "eighty", "--samples", "a", "--ss", "b"],
        ["--prot", "80", "--samples", "a", "--ss", "b"],
        ["--port"],
    ],
)
def test_main_refuses_bad_arguments_in_one_line(
    argv: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sampler.main(argv) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@linux
def test_main_without_ss_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    argv = ["--port", "80", "--samples", str(tmp_path / "a"), "--ss", str(tmp_path / "b")]
    assert sampler.main(argv) == 3
    assert "iproute2" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_main_restores_the_signal_mask(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert sampler.main([]) == 2
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_sampler_imports_few_modules() -> None:
    tree = ast.parse(SOURCE.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "os", "signal", "socket", "struct", "sys", "time"}
