"""The sender: connect, and write as much as the peer's receive window admits.

    fill.py --from 127.0.0.2 --to 127.0.0.3 --port 1234 --mss 1024 --after-ms 1000
            --write-bytes 1048576 --writes 0 --every-us 0 --in-flight 0 --quickack 0

TCP_MAXSEG and TCP_NODELAY are set before connecting. The first write begins --after-ms after
connecting, half a millisecond after a tick of the kernel (250 Hz): in virtual time a tick delays an
event that follows within 500 ns (TIMER_MIN_DELTA), and whether an idle kernel ticks depends on
other programs. Each write has --write-bytes. There are --writes writes (0: until the program is
ended), --every-us apart. When the send buffer is full, a write sleeps in the kernel. With
--in-flight N the next write waits until at most N segments are unacknowledged (0: no limit). With
--quickack 1 the receiver, hold.py on the same host, is told of each write.
"""

import signal
import socket
import sys
import time

TICK_NS = 4_000_000
# A multiple of 256 ns, the step of the virtual clock. Events are up to three steps late, depending
# on the number of timers that are set; packets arrive early enough in a microsecond to allow that.
AFTER_TICK_NS = 501_248
TIMER_SLACK = "/proc/self/timerslack_ns"
TCP_INFO_UNACKED = slice(24, 28)  # include/uapi/linux/tcp.h, struct tcp_info
LOOK_EVERY_S = 100e-6  # in virtual time the clock advances only while everything sleeps
TOLD_OF_WRITES = "\0hold-{port}"


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def precise_timers() -> None:
    """Make sleeps as short as requested; by default the kernel may add 50 microseconds."""
    with open(TIMER_SLACK, "w", encoding="ascii") as file:
        file.write("1")


def connected(given: dict[str, str]) -> socket.socket:
    """A connection with the requested segment size, without Nagle's algorithm."""
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(given["mss"]))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.bind((given["from"], 0))
    connection.connect((given["to"], int(given["port"])))
    return connection


def await_first_write(after_ms: int) -> None:
    """Sleep for `after_ms`, and then until half a millisecond after the next tick."""
    now_ns = time.time_ns()
    at_ns = now_ns + 1_000_000 * after_ms
    at_ns += (AFTER_TICK_NS - at_ns) % TICK_NS
    time.sleep((at_ns - now_ns) / 1e9)


def unacknowledged(connection: socket.socket) -> int:
    """The segments in flight."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_UNACKED.stop)
    return int.from_bytes(info[TCP_INFO_UNACKED], sys.byteorder)


def write(connection: socket.socket, given: dict[str, str]) -> None:
    """Write a block --writes times; 0 means until the program is ended."""
    block, writes = b"a" * int(given["write-bytes"]), int(given["writes"])
    every_s, in_flight = int(given["every-us"]) / 1e6, int(given["in-flight"])
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    written = 0
    while not writes or written < writes:
        connection.sendall(block)
        written += 1
        if given["quickack"] == "1":
            receiver.sendto(b"w", TOLD_OF_WRITES.format(**given))
        if every_s:
            time.sleep(every_s)
        while in_flight and unacknowledged(connection) > in_flight:
            time.sleep(LOOK_EVERY_S)


def main(argv: list[str]) -> int:
    given = options(argv)
    precise_timers()
    connection = connected(given)
    await_first_write(int(given["after-ms"]))
    write(connection, given)
    signal.pause()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
