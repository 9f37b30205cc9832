"""Recorded audits, opened; and the same with single files or outputs replaced."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.read.audit.items import Item
from labs.read.audit.machine import audit
from labs.read.audit.raw import Raw, open_raw

FOLDER = Path(__file__).parent / "fixtures" / "audit"
USER, ROOT, GUEST = "machine-6.18-user", "machine-6.18-root", "guest-6.1"


def collected(name: str) -> dict[str, Any]:
    """A recorded audit as the collecting program printed it."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


@functools.cache
def recorded(name: str) -> Raw:
    return open_raw(collected(name), name)


def with_files(raw: Raw, files: Mapping[str, str]) -> Raw:
    """The same machine with other contents of these files."""
    return dataclasses.replace(raw, files={**raw.files, **files})


def with_output(raw: Raw, argv: tuple[str, ...], out: str) -> Raw:
    """The same machine with another output of a tool."""
    return dataclasses.replace(raw, outputs={**raw.outputs, argv: (0, out, "")})


def items(raw: Raw) -> dict[str, Item]:
    """The items of a machine by key."""
    return {one.key: one for one in audit(raw)}
