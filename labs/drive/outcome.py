"""What a run notes beside its files: commands, named moments, and the buffers granted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """A named moment of a run, in the server's time."""

    at_ns: int
    name: str


@dataclass(frozen=True)
class Buffer:
    """A socket buffer: what a program requested with setsockopt and what getsockopt returned."""

    host: str
    socket: str
    requested_bytes: int | None
    granted_bytes: int | None


@dataclass(frozen=True)
class Command:
    """One line of a run's log: when (the host's clock), where, what, and how it ended."""

    at_ns: int
    host: str
    argv: tuple[str, ...]
    exit_code: int | None
