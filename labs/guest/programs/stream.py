"""Send and receive the flows of one host; a program for both sides of a path.

    stream.py --side server|client --plan FILE --begin-ns T --to ADDRESS --to-ecn ADDRESS --out FILE

FILE of --plan: {"server_port", "first_port", "duration_s", "flows": [...]}, each flow with the
fields of labs.guest.flows.Flow. The client connects flow i from its port first_port + i, at its
start after T (CLOCK_REALTIME). One thread per flow blocks in the kernel, so nothing polls. A flow
that ends at a moment is reset; one with a size is closed. Writes one JSON object,
or says which error ended a flow and exits with 1.

Received bytes are discarded in the kernel (MSG_TRUNC). The kernel's TCP sees the same reads as with
a copy: within a blocking read it moves every segment on as it arrives, whatever the read's size. So
a read is larger than any flow can fill, and the kernel ends it with what has arrived in a step of
the timeline (SO_RCVTIMEO). Smaller reads would cost two system calls for every few segments.
"""

import contextlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from threading import Thread, stack_size
from typing import Any

WRITE_BYTES = 1 << 20
READ_BYTES = 1 << 24
STEP_NS = 100_000_000
PIECE_S = 0.01
GRACE_S = 3.0
# struct tcp_info of include/uapi/linux/tcp.h
TOTAL_RETRANS, BYTES_ACKED, BYTES_RECEIVED = 100, 120, 128
ABORT = struct.pack("ii", 1, 0)
TIME = struct.Struct("ll")
DISCARDED = bytearray(READ_BYTES)
"""Where reads would put their bytes; nothing is written to it."""


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


class End:
    """One end of a flow: its plan, and what is reported of it."""

    def __init__(self, number: int, plan: dict[str, Any], begin_ns: int, sends: bool) -> None:
        self.plan = plan
        self.begin_ns = begin_ns
        stop_s = plan["stop_s"] if plan["stop_s"] is not None else plan["duration_s"]
        self.stop_ns = begin_ns + round(stop_s * 1e9)
        self.report: dict[str, Any] = {
            "flow": number,
            "role": "send" if sends else "receive",
            "begin_ns": 0,
            "end_ns": 0,
            "bytes": 0,
            "ended": "run",
            "timeline": [],
        }

    def prepare(self, end: socket.socket) -> None:
        """Request the buffers; before connecting, because the SYN determines the window scale."""
        for name, option in (
            ("sndbuf_bytes", socket.SO_SNDBUF),
            ("rcvbuf_bytes", socket.SO_RCVBUF),
        ):
            if self.plan[name] is not None:
                end.setsockopt(socket.SOL_SOCKET, option, self.plan[name])

    def carry(self, end: socket.socket) -> None:
        """Send or receive until the end of the flow, and close.

        Both ends have the congestion control, because DCTCP needs both. It is set on an established
        connection: a SYN of DCTCP is marked, and a listener without DCTCP declines its ECN.
        """
        self.report["begin_ns"] = time.time_ns()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.plan["control"].encode())
        try:
            if self.report["role"] == "send":
                self.report["ended"] = self.send(end)
            else:
                self.receive(end)
                size = self.plan["size_bytes"]
                self.report["ended"] = "size" if self.report["bytes"] == size else "stop"
        except (ConnectionError, TimeoutError) as error:
            late = time.time_ns() >= self.stop_ns
            self.report["ended"] = "stop" if late else str(error.strerror or error)
        self.report["end_ns"] = time.time_ns()
        self.report["sndbuf_bytes"] = end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self.report["rcvbuf_bytes"] = end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        control = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        self.report["control"] = control.rstrip(b"\0").decode()
        about = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        place = BYTES_ACKED if self.report["role"] == "send" else BYTES_RECEIVED
        (self.report["kernel_bytes"],) = struct.unpack_from("=Q", about, place)
        (self.report["retransmitted_segments"],) = struct.unpack_from("=I", about, TOTAL_RETRANS)
        if self.report["role"] == "send" and self.report["ended"] != "size":
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        end.close()

    def send(self, end: socket.socket) -> str:
        """Write until the size or the stop; the pieces of a limited application are due at fixed
        moments."""
        zeros = memoryview(bytes(WRITE_BYTES))
        size, rate = self.plan["size_bytes"], self.plan["app_mbit"]
        period_s = self.plan["chunk_s"] or PIECE_S
        due_ns, allowed = self.report["begin_ns"], 0.0
        while size is None or self.report["bytes"] < size:
            left = WRITE_BYTES if size is None else size - self.report["bytes"]
            if rate is not None:
                if self.report["bytes"] >= int(allowed):
                    now = time.time_ns()
                    if max(due_ns, now) >= self.stop_ns:
                        time.sleep(max(0, self.stop_ns - now) / 1e9)
                        return "stop"
                    time.sleep(max(0, due_ns - now) / 1e9)
                    due_ns += round(period_s * 1e9)
                    allowed += rate * 1e6 / 8 * period_s
                left = min(left, int(allowed) - self.report["bytes"])
            left_ns = self.stop_ns - time.time_ns()
            if left_ns <= 0:
                return "stop"
            limit(end, socket.SO_SNDTIMEO, left_ns)
            with contextlib.suppress(BlockingIOError):
                self.report["bytes"] += end.send(zeros[: min(left, WRITE_BYTES)])
        return "size"

    def receive(self, end: socket.socket) -> None:
        """Read to the end of the flow, with a pause if the plan has one."""
        flags = socket.MSG_TRUNC | socket.MSG_WAITALL
        pause_ns = None
        if self.plan["pause_at_s"] is not None:
            pause_ns = self.begin_ns + round(self.plan["pause_at_s"] * 1e9)
        noted_ns = now = self.report["begin_ns"]
        while True:
            due_ns = noted_ns + STEP_NS if pause_ns is None else min(noted_ns + STEP_NS, pause_ns)
            limit(end, socket.SO_RCVTIMEO, max(1, due_ns - now))
            got = None
            with contextlib.suppress(BlockingIOError):
                got = end.recv_into(DISCARDED, READ_BYTES, flags)
                self.report["bytes"] += got
            now = time.time_ns()
            if got == 0 or now >= noted_ns + STEP_NS:
                noted_ns = now
                self.report["timeline"].append([now, self.report["bytes"]])
            if got == 0:
                return
            if pause_ns is not None and now >= pause_ns:
                time.sleep(self.plan["pause_s"])
                pause_ns = None


def limit(end: socket.socket, option: int, left_ns: int) -> None:
    """Bound every following send or receive in time."""
    seconds, rest = divmod(left_ns, 1_000_000_000)
    end.setsockopt(socket.SOL_SOCKET, option, TIME.pack(seconds, rest // 1000 + 1))


def connect(end: End, number: int, plan: dict[str, Any], given: dict[str, str]) -> None:
    """Wait for the start of a flow, connect it, and carry its data."""
    start_ns = end.begin_ns + round(end.plan["start_s"] * 1e9)
    time.sleep(max(0, start_ns - time.time_ns()) / 1e9)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    end.prepare(connection)
    connection.bind(("", plan["first_port"] + number))
    limit(connection, socket.SO_SNDTIMEO, max(1, end.stop_ns - time.time_ns()))
    to = given["to-ecn"] if end.plan["ecn"] else given["to"]
    try:
        connection.connect((to, plan["server_port"]))
    except OSError as error:
        end.report.update(begin_ns=start_ns, ended=str(error.strerror or error))
        connection.close()
        return
    end.carry(connection)


def accept(
    listener: socket.socket, ends: list[End], plan: dict[str, Any], faults: list[str]
) -> None:
    """Accept the flows; each is carried by a thread of its own."""
    while True:
        connection, peer = listener.accept()
        number = peer[1] - plan["first_port"]
        if number not in range(len(ends)):
            connection.close()
            continue
        ends[number].prepare(connection)
        started(ends[number].carry, (connection,), faults)


def started(work: Callable[..., None], words: tuple[Any, ...], faults: list[str]) -> Thread:
    """A thread that does this; an error that nothing handled is added to the faults."""

    def guarded() -> None:
        try:
            work(*words)
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")

    thread = Thread(target=guarded, daemon=True)
    thread.start()
    return thread


def lacking(plan: dict[str, Any]) -> str:
    """A congestion control of the plan that this kernel does not have; empty if it has all."""
    for control in dict.fromkeys(flow["control"] for flow in plan["flows"]):
        with socket.socket() as trial:
            try:
                trial.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            except FileNotFoundError:
                return str(control)
    return ""


def main(argv: list[str]) -> int:
    given = options(argv)
    with open(given["plan"], encoding="ascii") as file:
        plan = json.load(file)
    if missing := lacking(plan):
        raise SystemExit(f"this kernel has no congestion control {missing}")
    begin_ns, on_server = int(given["begin-ns"]), given["side"] == "server"
    ends = [
        End(
            number,
            {**flow, "duration_s": plan["duration_s"]},
            begin_ns,
            (flow["direction"] == "down") == on_server,
        )
        for number, flow in enumerate(plan["flows"])
    ]
    faults: list[str] = []
    stack_size(1 << 18)
    if on_server:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", plan["server_port"]))
        listener.listen(128)
        threads = [started(accept, (listener, ends, plan, faults), faults)]
    else:
        threads = [
            started(connect, (end, number, plan, given), faults) for number, end in enumerate(ends)
        ]
    # A reset may be lost, so a reader waits no longer than this.
    last_ns = begin_ns + round((plan["duration_s"] + GRACE_S) * 1e9)
    for thread in threads:
        thread.join(max(0, last_ns - time.time_ns()) / 1e9)
    if faults:
        print(f"stream: a flow failed: {faults[0]}")
    else:
        # In one step: threads that still run change their reports.
        text = json.dumps({"flows": [end.report for end in ends]})
        with open(given["out"], "w", encoding="ascii") as out:
            out.write(text + "\n")
    sys.stdout.flush()
    os._exit(1 if faults else 0)  # threads may still be blocked


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
