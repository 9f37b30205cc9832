"""Rows from `nstat -asz`: the counters of the kernel's TCP/IP stack.

Source: iproute2, misc/nstat.c dump_kern_db(); the names are those of /proc/net/snmp, netstat and
snmp6, so IpInReceives, TcpRetransSegs, TcpExtTCPMemoryPressures, ...
"""

from __future__ import annotations

import re

from labs.errors import Damaged

_LINE = re.compile(r"([A-Za-z]\w*)\s+(-?\d{1,20})(?:\s+\S+)?\s*", re.ASCII)


def counters(text: str) -> dict[str, int]:
    """Every counter by its name, in nstat's order.

    Raises Damaged for a line that is neither a comment (`#kernel`) nor a name and a number.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise Damaged(f"nstat, line {number}: a name and a number expected: {line[:60]!r}")
        found[match[1]] = int(match[2])
    return found


def changes(before: str, after: str) -> dict[str, int]:
    """What each counter of `after` gained since `before`; one that is new there counts from 0."""
    start = counters(before)
    return {name: value - start.get(name, 0) for name, value in counters(after).items()}
