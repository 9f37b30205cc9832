"""How machines are set up: those of a testbed now, or those of runs as they were then.

Notebooks show it as a table (`labs.audit`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from labs.errors import Missing
from labs.read.audit.differences import of_side
from labs.read.audit.items import Item
from labs.read.audit.machine import audit_each
from labs.read.audit.raw import open_raw
from labs.read.display.rich_output import Table
from labs.read.runs.run import Run

COLUMNS = ("machine", "group", "item", "value", "wanted", "deviates", "matters for", "change")


def audit(runs: Iterable[Run] | None = None) -> Table:
    """One row per item, group by group, what deviates first.

    Without runs this machine is audited; nothing is changed. With runs, the machines on which they
    were performed, as they were then; the table is empty if the runs have no audit, such as runs in
    virtual time. `value` is empty for an item that is unknown.
    """
    items = audited() if runs is None else audit_each(of_side(runs))
    return Table(list(map(_row, items)), columns=list(COLUMNS))


def audited(*, machines: bool = False) -> list[Item]:
    """The items of this machine or, for `machines`, of both virtual machines. Missing if a machine
    cannot be reached, or if this one is not Linux."""
    if not machines and not sys.platform.startswith("linux"):
        raise Missing(
            "an audit reads /proc and /sys, which this system does not have. Run it on Linux"
        )
    # These need more of the operating system than recorded runs do.
    from labs.drive.testbed.vagrant_up import reach  # noqa: PLC0415
    from labs.launch import audit as collecting  # noqa: PLC0415

    collected = collecting.vagrant(reach()) if machines else collecting.here()
    opened = {name: open_raw(raw, f"the audit of {name}") for name, raw in collected.items()}
    return audit_each(opened)


def _row(item: Item) -> dict[str, object]:
    return {
        "machine": item.machine,
        "group": item.group,
        "item": f"{item.title} ({item.device})" if item.device else item.title,
        "value": None if item.value is None else item.shown,
        "wanted": item.wanted or None,
        "deviates": item.deviates,
        "matters for": ", ".join(item.matters),
        "change": item.change,
    }
