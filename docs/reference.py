"""Write docs/reference.md from the code: what a lab may use. Run it after changing one of these.

python3 docs/reference.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labs.drive.kernel.options import congestion_controls
from labs.guest.execution import ALWAYS, RECORDED_SYSCTLS
from labs.guest.flows import (
    FIRST_PORT,
    MOST_FLOWS,
    REQUEST_PORT,
    SERVER_PORT,
    Flow,
    Requests,
    Traffic,
)
from labs.guest.testbed.link import DIRECT, ROUTED, Layout, Link
from labs.guest.testbed.path import (
    FIFO,
    MARKING,
    QUEUES,
    SIZED_IN_BYTES,
    Change,
    Direction,
    NetworkPath,
    Queue,
)
from labs.guest.testbed.process import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"
FRAGMENT = ROOT / "labs" / "drive" / "kernel" / "fragment.config"
PROGRAMS = ROOT / "labs" / "guest" / "programs"
SCHEDULER = re.compile(r"^CONFIG_NET_SCH_(\w+)=y$", re.MULTILINE)
ALWAYS_BUILT = ("bfifo", "pfifo", "pfifo_fast")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *(tuple(row) for row in rows)]
    lines.insert(1, tuple("---" for _ in lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def schedulers() -> list[str]:
    """The queueing disciplines of the virtual kernels."""
    names = SCHEDULER.findall(FRAGMENT.read_text("utf-8"))
    return sorted({*ALWAYS_BUILT, *(name.lower() for name in names)})


def hosts(plan: Layout) -> Iterator[tuple[str, str, str, str]]:
    for port in plan.ports:
        yield f"`{port.host}`", f"`{port.device}`", port.address, port.gateway or ""


def programs() -> Iterator[tuple[str, str]]:
    """The programs of the project, with the first sentence of each."""
    for path in sorted(PROGRAMS.glob("*.py")):
        match = re.match(r'"""(.*?[.:])(?:\s|""")', path.read_text("utf-8"), re.DOTALL)
        if match and path.stem != "__init__":
            yield (
                f"`{path.name}`",
                " ".join(match[1].split()).rstrip(":") + ("" if match[1].endswith(".") else "."),
            )


def values(cls: type) -> str:
    """The fields of a value and their defaults."""
    rows = [
        (
            f"`{field.name}`",
            str(field.type).replace("|", "or"),
            "required"
            if field.default is MISSING and field.default_factory is MISSING
            else f"`{field.default!r}`",
        )
        for field in fields(cls)
    ]
    return table(("field", "type", "default"), rows)


def queues() -> str:
    def row(kind: str) -> tuple[str, ...]:
        unit = "bytes" if kind in SIZED_IN_BYTES else "packets"
        size = "1 BDP" if kind in FIFO else "the kernel's"
        return f"`{kind}`", unit, size, "yes" if kind in MARKING else "no"

    return table(("queue", "tc counts", "size by default", "can mark (ECN)"), map(row, QUEUES))


def page() -> str:
    """The whole page."""
    words = [
        "# What a lab may use\n",
        "`python3 docs/reference.py` writes this page from the code.\n",
        "## Hosts\n",
        "Two hosts on one wire:\n",
        table(("host", "device", "address", "gateway"), hosts(DIRECT)),
        'With a router between them (`Link(shaped_at="router")`, and every path):\n',
        table(("host", "device", "address", "gateway"), hosts(ROUTED)),
        f"Flows use the server's port {SERVER_PORT}, and flow *i* the client's port {FIRST_PORT} + "
        f"*i*; requests use port {REQUEST_PORT}. There are at most {MOST_FLOWS} flows.\n",
        "## Queues of a bottleneck\n",
        queues(),
        "All of them are in the virtual kernels, which have these queueing disciplines: "
        f"{', '.join(f'`{scheduler}`' for scheduler in schedulers())}. "
        "Elsewhere the machine's kernel decides.\n",
        "## Congestion controls\n",
        "The virtual kernels have "
        f"{', '.join(f'`{control}`' for control in congestion_controls())}. "
        "`dctcp` needs `ecn=True`.\n",
        "## Sysctls\n",
        "A condition sets any sysctl of a host's kernel or network namespace. A run starts with "
        f"{', '.join(f'`{name}={value}`' for name, value in ALWAYS.items())}, and records:\n",
        "".join(f"- `{name}`\n" for name in RECORDED_SYSCTLS),
        "## Programs\n",
        "A lab may start any program of the machine. A missing one of these is reported with its "
        "package:\n",
        table(
            ("program", "Debian package"),
            ((f"`{name}`", f"`{package}`") for name, package in sorted(PACKAGES.items())),
        ),
        "The project's own, started by `host.program`:\n",
        table(("file", "what it does"), programs()),
        "## Values\n",
    ]
    for cls in (Link, NetworkPath, Direction, Queue, Change, Traffic, Flow, Requests):
        about = (cls.__doc__ or "").strip().split("\n\n")
        words += [f"### {cls.__name__}\n", f"{' '.join(about[0].split())}\n"]
        words += [f"{' '.join(paragraph.split())}\n" for paragraph in about[1:]]
        words.append(values(cls))
    return "\n".join(words)


def main() -> int:
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
