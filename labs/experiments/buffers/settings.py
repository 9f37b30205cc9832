"""What a condition of the lab `buffers` sets."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.units import GIB

DISCARD, WGET = "discard", "wget"
GRANTS, HTTPING = "grants", "httping"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition.

    `steps` is what is done instead of a download: GRANTS or HTTPING. `draw` tells conditions apart
    that differ in the seed alone. A buffer size is what the program requests of setsockopt; None
    leaves the buffer to the kernel.
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

    @property
    def is_download(self) -> bool:
        """Whether a file is fetched; other conditions request buffers, or time a request."""
        return self.steps not in (GRANTS, HTTPING)  # some earlier runs say "download"
