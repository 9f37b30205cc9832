"""One to four flows through a bottleneck queue, and requests beside them: the plan is in the
condition."""

from __future__ import annotations

from labs.guest.traffic import measure

__all__ = ["measure"]
