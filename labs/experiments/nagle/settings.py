"""What a condition of the lab `nagle` sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from labs.drive.programs.respond import HEAD_BYTES

NGINX, OWN_SERVER = "nginx", "writes"
AB, ASK = "ab", "ask"
NEVER, ROUTE, ONCE, EACH = "never", "route", "once", "each"
SERVER, BOTH = "server", "both"
OWN_CLIENT_REQUESTS = 20
"""How many requests our own client makes: more than the quick ACKs of a new connection."""
NGINX_HEAD_BYTES = 238
"""What nginx writes before the page on a kept connection; a digit more or less changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition: nginx with tcp_nodelay off and ab with keep-alive by default.

    `quickack` is what makes the client acknowledge at once: NEVER nothing, ROUTE the route to the
    server, ONCE and EACH its program, by setsockopt. `capture` is whose packets are captured.
    """

    client: str = AB
    server: str = NGINX
    nodelay: bool = False
    keepalive: bool = True
    quickack: str = NEVER
    writes: str = "two"
    page_bytes: int = 612
    pieces: int = 10
    requests: int = 1000
    concurrency: int = 100
    limit_s: float = 600.0
    sample_ms: int = 100
    capture: str = SERVER

    @property
    def always_quick(self) -> bool:
        return self.quickack in (ROUTE, EACH)

    @property
    def on_a_connection(self) -> int:
        """How many requests use one connection, one after the other."""
        if self.client != AB:
            return OWN_CLIENT_REQUESTS
        return max(1, self.requests // self.concurrency) if self.keepalive else 1

    @property
    def written_bytes(self) -> tuple[int, ...]:
        """The sizes of the writes of one response."""
        head = NGINX_HEAD_BYTES if self.server == NGINX else HEAD_BYTES
        whole = head + self.page_bytes
        if self.writes == "one":
            return (whole,)
        if self.writes == "pieces":
            edges = [whole * place // self.pieces for place in range(self.pieces + 1)]
            return tuple(other - one for one, other in pairwise(edges))
        return (head, self.page_bytes)
