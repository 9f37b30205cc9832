"""A study of the lab `sharing` in sentences."""

from __future__ import annotations

from labs.read.display.traffic import describe, describe_run

__all__ = ["describe", "describe_run"]
