"""What a run of the lab `nagle` was asked, and what the theory expects of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from labs.drive.programs.respond import HEAD_BYTES
from labs.experiments.nagle.conditions import MSS_BYTES
from labs.experiments.nagle.http import ASKED
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines
from labs.read.theory.nagle import Answer, answer

NGINX_HEAD_BYTES = 238
"""What nginx writes before the page on a kept connection; a digit more or less changes nothing."""
USUAL_HZ = 250
"""What distributions build with; for a run of which it is neither known nor counted."""
WITH_AB = "ab"
ROUTE, EACH = "route", "each"


@dataclass(frozen=True)
class Asked:
    """The settings of a run's condition.

    `quick` is what makes the client acknowledge at once: "never" nothing, "route" the route to the
    server, "once" and "each" its program, by setsockopt. `on_a_connection` is how many requests go
    over one connection, one behind the other.
    """

    server: str
    client: str
    nodelay: bool
    keepalive: bool
    quick: str
    writes: str
    pieces: int
    page_bytes: int
    requests: int
    concurrency: int

    @property
    def always_quick(self) -> bool:
        return self.quick in (ROUTE, EACH)

    @property
    def on_a_connection(self) -> int:
        if self.client != WITH_AB:
            return ASKED
        return max(1, self.requests // self.concurrency) if self.keepalive else 1

    @property
    def written_bytes(self) -> tuple[int, ...]:
        """The sizes of the writes of one answer."""
        head = NGINX_HEAD_BYTES if self.server == "nginx" else HEAD_BYTES
        whole = head + self.page_bytes
        if self.writes == "one":
            return (whole,)
        if self.writes == "pieces":
            edges = [whole * place // self.pieces for place in range(self.pieces + 1)]
            return tuple(other - one for one, other in pairwise(edges))
        return (head, self.page_bytes)


def asked(run: Run) -> Asked:
    """Read a run's settings."""
    said: Mapping[str, Any] = run.condition_asked.settings
    return Asked(
        server=said["server"],
        client=said["client"],
        nodelay=said["nodelay"],
        keepalive=said["keepalive"],
        quick=said["quickack"],
        writes=said["writes"],
        pieces=said["pieces"],
        page_bytes=said["page_bytes"],
        requests=said["requests"],
        concurrency=said["concurrency"],
    )


def hz_of(run: Run) -> int:
    """The ticks a second of the kernel that holds back ACKs, which is the client's."""
    counted = machines(run).get("client", Machine()).hz
    return run.kernel.hz or counted or USUAL_HZ


def expected(run: Run) -> Answer | None:
    """What the theory has for the run's answers; None where it has no word (loss, a long way)."""
    told = asked(run)
    if run.link.asked.loss_pct or run.link.asked.jitter_ms:
        return None
    return answer(
        told.written_bytes,
        MSS_BYTES,
        hz=hz_of(run),
        rtt_ms=run.link.measured.rtt_ms,
        requests=told.on_a_connection,
        nodelay=told.nodelay,
        joined=told.writes in ("cork", "more"),
        quick=told.always_quick,
        closes=not told.keepalive,
    )
