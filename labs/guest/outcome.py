"""Entries of run.json: commands, named moments, and socket buffers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """A named moment of a run, by the server's clock."""

    at_ns: int
    name: str


@dataclass(frozen=True)
class Buffer:
    """A socket buffer: the size requested with setsockopt and the size that getsockopt returned."""

    host: str
    socket: str
    requested_bytes: int | None
    granted_bytes: int | None


@dataclass(frozen=True)
class Command:
    """One command of a run: when (by the host's clock), on which host, its words, its exit code."""

    at_ns: int
    host: str
    argv: tuple[str, ...]
    exit_code: int | None
