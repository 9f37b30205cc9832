"""Commands as lines to paste, host by host in the order in which they are given."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import groupby


def as_lines(commands: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """The commands, each with its host ('' for the machine that has both), below its host."""
    found: list[str] = []
    for host, group in groupby(commands, key=lambda command: command[0]):
        found.append(f"# on the {host}" if host else "# on the machine that runs both hosts")
        found += [shlex.join(argv) for _, argv in group]
    return found
