"""The program that carries flows: an error in the thread of a flow ends it with one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from labs.guest.bench import PROGRAMS
from labs.guest.flows import Flow

DURATION_S = 0.2
SILENCE_S = 1.0


def client(
    folder: Path, peer: Callable[[socket.socket], None] = lambda _: None, **changed: Any
) -> subprocess.CompletedProcess[str]:
    """The client's side of one flow to a listener of this process, with changes of its plan. `peer`
    is what the listener does."""
    flow = asdict(Flow(size_bytes=20_000, direction="up")) | changed
    plan = folder / "flows.json"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = {"server_port": listener.getsockname()[1], "first_port": free.getsockname()[1]}
        free.close()
        plan.write_text(json.dumps({**ports, "duration_s": DURATION_S, "flows": [flow]}))
        times = ("--side", "client", "--plan", str(plan), "--begin-ns", str(time.time_ns()))
        Thread(target=peer, args=(listener,), daemon=True).start()
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


def test_timeline_goes_on_while_nothing_arrives(tmp_path: Path) -> None:
    """A read ends with what has arrived in a step, however large it is."""

    def send_with_a_silence(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes(10_000))
            time.sleep(SILENCE_S)
            connection.sendall(bytes(10_000))

    done = client(tmp_path, send_with_a_silence, direction="down", stop_s=3 * SILENCE_S)
    assert done.returncode == 0
    (flow,) = json.loads((tmp_path / "out.json").read_text())["flows"]
    had = [had for _, had in flow["timeline"]]
    assert (flow["bytes"], flow["ended"], had[-1]) == (20_000, "size", 20_000)
    assert had.count(10_000) >= 2
