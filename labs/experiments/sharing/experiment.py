"""Flows that share a bottleneck: pairs, crowds and many at once. The plan is in the condition."""

from __future__ import annotations

from labs.guest.traffic import measure

__all__ = ["measure"]
