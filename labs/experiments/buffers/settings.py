"""What a condition of the lab `buffers` sets."""

from __future__ import annotations

from dataclasses import dataclass

from labs.guest.units import GIB

DISCARD, WGET = "discard", "wget"
GRANTS, HTTPING, BLOCKS = "grants", "httping", "blocks"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition.

    `steps` is what is done instead of a download: GRANTS, HTTPING or BLOCKS. `draw` tells
    conditions apart that differ in the seed alone. A buffer size is what the program requests of
    setsockopt; None leaves the buffer to the kernel. With `pause_ms` the program stops reading for
    that long after every 500 ms.
    """

    client: str = DISCARD
    read_bytes: int = 65_536
    transfer_bytes: int = GIB
    limit_s: float = 90.0
    sample_ms: int = 100
    capture: bool = False
    steps: str | None = None
    draw: int | None = None
    server_sndbuf_bytes: int | None = None
    client_rcvbuf_bytes: int | None = None
    pause_ms: int | None = None

    @property
    def is_download(self) -> bool:
        """Whether a file is fetched; other conditions request buffers, or time requests."""
        return self.steps not in (GRANTS, HTTPING, BLOCKS)  # some earlier runs say "download"
