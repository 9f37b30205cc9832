"""The settings of a condition of the lab `nagle`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from labs.guest.programs.respond import HEAD_BYTES

NGINX, OWN_SERVER = "nginx", "writes"
AB, ASK = "ab", "ask"
NEVER, ROUTE, ONCE, EACH = "never", "route", "once", "each"
SERVER, BOTH = "server", "both"
OWN_CLIENT_REQUESTS = 20
"""Requests of our own client: more than the quick ACKs of a new connection."""
NGINX_HEAD_BYTES = 238
"""What nginx writes before the page on a kept connection; it varies by a few bytes."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition: nginx with tcp_nodelay off and ab with keep-alive by default.

    `quickack` says how the client is made to acknowledge at once: not at all (NEVER), by the route
    to the server (ROUTE), or by setsockopt once (ONCE) or before each read (EACH). `capture` names
    the hosts whose packets are captured.
    `own_client_requests` is the number of requests of our own client, `write_every_ms` the interval
    between the writes of our own server; None is the default of that program. For `drop_acks_ms`
    the client's ACKs without data are dropped; None drops none. `nopush` is tcp_nopush of nginx,
    which is off by default.
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
    own_client_requests: int | None = None
    write_every_ms: int | None = None
    drop_acks_ms: int | None = None
    nopush: bool | None = None

    @property
    def always_quick(self) -> bool:
        return self.quickack in (ROUTE, EACH)

    @property
    def on_a_connection(self) -> int:
        """How many requests use one connection, one after the other."""
        if self.client != AB:
            return self.own_client_requests or OWN_CLIENT_REQUESTS
        return max(1, self.requests // self.concurrency) if self.keepalive else 1

    @property
    def joined(self) -> bool:
        """Whether the kernel waits for the last write of a response."""
        return self.writes in ("cork", "more") or bool(self.nopush)

    @property
    def header_bytes(self) -> int:
        return NGINX_HEAD_BYTES if self.server == NGINX else HEAD_BYTES

    @property
    def written_bytes(self) -> tuple[int, ...]:
        """The sizes of the writes of one response."""
        head = self.header_bytes
        whole = head + self.page_bytes
        if self.writes == "one":
            return (whole,)
        if self.writes == "pieces":
            edges = [whole * place // self.pieces for place in range(self.pieces + 1)]
            return tuple(other - one for one, other in pairwise(edges))
        return (head, self.page_bytes)
