"""The program that carries flows: an error in the thread of a flow ends it with one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from labs.drive.bench import PROGRAMS
from labs.drive.flows import Flow
from labs.drive.programs.stream import LEAST_READ_BYTES, MOST_READ_BYTES, STEP_NS, next_read_bytes

DURATION_S = 0.2


def client(folder: Path, **changed: Any) -> subprocess.CompletedProcess[str]:
    """The client's side of one flow to a listener of this process, with changes of its plan."""
    flow = asdict(Flow(size_bytes=20_000, direction="up")) | changed
    plan = folder / "flows.json"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = {"server_port": listener.getsockname()[1], "first_port": free.getsockname()[1]}
        free.close()
        plan.write_text(json.dumps({**ports, "duration_s": DURATION_S, "flows": [flow]}))
        times = ("--side", "client", "--plan", str(plan), "--begin-ns", str(time.time_ns()))
        to = ("--to", "127.0.0.1", "--to-ecn", "127.0.0.1", "--out", str(folder / "out.json"))
        return subprocess.run(
            (sys.executable, str(PROGRAMS / "stream.py"), *times, *to),
            capture_output=True,
            text=True,
            timeout=30,
        )


def test_flow_is_reported(tmp_path: Path) -> None:
    assert client(tmp_path).returncode == 0
    (flow,) = json.loads((tmp_path / "out.json").read_text())["flows"]
    assert (flow["bytes"], flow["ended"]) == (20_000, "size")


def test_error_in_a_flow_ends_the_program(tmp_path: Path) -> None:
    done = client(tmp_path, app_mbit="fast")
    assert done.returncode == 1
    assert done.stdout.startswith("stream: a flow failed: TypeError: ")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("rate_mbit", [0.1, 1, 12.5, 100, 1_000, 10_000])
def test_reads_grow_to_a_quarter_of_a_step_or_more(rate_mbit: float) -> None:
    """The timeline has a point per step, and no more reads than that takes."""

    def took_ns(read_bytes: int) -> int:
        return round(read_bytes * 8 / rate_mbit * 1e3)

    read_bytes = LEAST_READ_BYTES
    for _ in range(10):
        read_bytes = next_read_bytes(read_bytes, took_ns(read_bytes))
    assert took_ns(read_bytes) >= STEP_NS // 4 or read_bytes == MOST_READ_BYTES
    assert took_ns(read_bytes) <= STEP_NS or read_bytes == LEAST_READ_BYTES


def test_reads_shrink_with_the_rate() -> None:
    assert next_read_bytes(1 << 18, STEP_NS + 1) == 1 << 17
    assert next_read_bytes(LEAST_READ_BYTES, 10 * STEP_NS) == LEAST_READ_BYTES
