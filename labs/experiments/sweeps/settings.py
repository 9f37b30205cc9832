"""The settings of a condition of the lab `sweeps`."""

from __future__ import annotations

from dataclasses import dataclass

from labs.guest.units import KIB, MIB

WRITE_BYTES_MAX = MIB
"""The largest size of a write that iperf3 accepts (MAX_BLOCKSIZE)."""
WRITES_PER_WAKE = 10
"""The number of writes of iperf3 after each select(), unless -b names another (multisend)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition: one transfer by iperf3, from the server to the client.

    iperf3 sends without end (-t 0) and is interrupted once `transfer_bytes` have arrived. With -n
    its sender would poll from its last write until the last arrival: select() returns at once,
    because the socket is writable, and nothing is left to write (iperf_send, iperf_run_server).

    `write_bytes`, `mss_bytes` (0: the path's MSS) and `window_kib` (0: none) are the arguments of
    -l, -M and -w; `nodelay` is -N; `writes_per_wake` is the number of writes after each
    select() (-b 0/N). iperf3 requests `window_kib` of both buffers at both ends.
    `sndbuf_kib` and `rcvbuf_kib` fix the sender's send buffer and the receiver's receive buffer on
    their own, by the sysctls tcp_wmem and tcp_rmem, to the size that the kernel grants for such a
    request: twice as much. 0 leaves the buffer to the kernel.

    With `may_be_refused` the run is complete even if iperf3 refuses the sizes. With `grants` there
    is no transfer: the client requests buffers of many sizes.
    """

    write_bytes: int = 131_072
    nodelay: bool = False
    writes_per_wake: int = WRITES_PER_WAKE
    mss_bytes: int = 0
    transfer_bytes: int = 32 * MIB
    window_kib: int = 0
    sndbuf_kib: int = 0
    rcvbuf_kib: int = 0
    may_be_refused: bool = False
    grants: bool = False
    limit_s: float = 60.0
    sample_ms: int = 20

    @property
    def requested_bytes(self) -> int | None:
        """The size that iperf3 requests of each buffer with setsockopt; None without a request."""
        return self.window_kib * KIB or None
