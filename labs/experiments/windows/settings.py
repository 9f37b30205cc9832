"""The settings of a condition of the lab `windows`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.guest.units import KIB, MIB

LOOPBACK, ROUTER, DIRECT = "loopback", "router", "direct"
LISTEN, ACCEPT = "listen", "accept"
NEVER, RATE, LATE, PIECES, SLOW = "never", "rate", "late", "pieces", "slow"
SEGMENTS, CHUNKS, SPREAD, MESSAGES, BYTES = "segments", "chunks", "spread", "messages", "bytes"


@dataclass(frozen=True)
class Reads:
    """How the receiver reads: `read_bytes` every `every_us`, from `after_ms` after accepting."""

    read_bytes: int
    every_us: int
    after_ms: int


@dataclass(frozen=True)
class Writes:
    """How the sender writes: `write_bytes` every `every_us`, `writes` times (0: until the end).

    After each write it waits until at most `in_flight` segments are unacknowledged (0: no limit).
    With `quickack` each write sets TCP_QUICKACK on the receiver's socket.
    """

    write_bytes: int
    writes: int
    every_us: int
    in_flight: int = 0
    quickack: bool = False


# The reader of the article's program reads every 50 ms as much as a rate allows. Its sender writes
# all it can (SEGMENTS) or chunks; the sizes and limits of CHUNKS are its own
# (github.com/cloudflare/cloudflare-blog, 2022-07-rmem-a: run.sh and window.py).
READS = {
    NEVER: Reads(0, 0, 0),
    RATE: Reads(4 * KIB, 50_000, 0),
    LATE: Reads(64 * KIB, 1_000, 3_000),
    PIECES: Reads(200, 5_000, 0),
    SLOW: Reads(100, 10_000, 0),
}
WRITES = {
    SEGMENTS: Writes(MIB, 0, 0),
    CHUNKS: Writes(512, 0, 0, in_flight=10, quickack=True),
    SPREAD: Writes(512, 0, 20_000),
    MESSAGES: Writes(128, 0, 5_000),
    BYTES: Writes(1, 2_000, 20),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition; by default a receiver that never reads, and full segments.

    `rcvbuf_kib` is requested by setsockopt on the listening or on the accepted socket
    (`set_rcvbuf`); 0 requests nothing, and the kernel sizes the buffer. `adv_win_scale` None is the
    kernel's default. `path` is the loopback device of the server, or the two hosts: with a router
    between them, or connected directly. `initcwnd` is an option of the sender's route; `initrwnd`
    (0: none) and `quickack` are options of the receiver's route. `window_clamp_kib` (None: none) is
    TCP_WINDOW_CLAMP of the listening socket. Without `sampled` the receiver
    takes only the first and the last sample. `capture_client` also captures at the sender, if it
    is another host. `earlier` connections, each of `duration_s`, precede the measured one.
    """

    path: str = LOOPBACK
    rcvbuf_kib: int = 32
    set_rcvbuf: str = ACCEPT
    adv_win_scale: int | None = None
    mss_bytes: int = 1024
    reader: str = NEVER
    fill: str = SEGMENTS
    initcwnd: int = 10_000
    initrwnd: int = 0
    quickack: bool = False
    window_clamp_kib: int | None = None
    sampled: bool = True
    duration_s: float = 10.0
    sample_ms: int = 1000
    capture_client: bool = False
    earlier: int = 0

    @property
    def reads(self) -> Reads:
        return READS[self.reader]

    @property
    def writes(self) -> Writes:
        return WRITES[self.fill]
