"""What a kit is made of: the programs that the labs start, and the kernels that are built here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel import kit_maker
from labs.drive.kernel.boot import PATH
from labs.drive.kernel.build import LINK
from labs.drive.kernel.kit import Kit
from labs.drive.kernel.store import Kernel, own_store, record, shared_stores
from labs.drive.kernel.store import kernels_of as kernels_in
from labs.drive.kernel.versions import age, series_of
from labs.drive.testbed.packages import MACHINE_TOOLS
from labs.errors import Missing
from labs.launch import inventory

NOT_IN_VIRTUAL_TIME = ("python3", "wrk", "nft")
"""Tools of machines that no virtual run starts; the interpreter is in each kit."""


@dataclass(frozen=True)
class Ingredients:
    """The programs by name, with the interpreter, and the newest kernel of each series."""

    programs: Mapping[str, Path]
    interpreter: Path
    kernels: tuple[Kernel, ...]


def ingredients() -> Ingredients:
    """What a kit made here would have; Missing, with what to install, if something is lacking."""
    names = [name for name in MACHINE_TOOLS if name not in NOT_IN_VIRTUAL_TIME]
    programs = inventory.programs(dict.fromkeys((*inventory.EVERY_RUN, *names)))
    for name in kit_maker.BESIDE_PROGRAMS:
        if path := shutil.which(name, path=PATH):
            programs.setdefault(name, Path(path))
    kernels: dict[str, Kernel] = {}
    for kernel in sorted(_built(), key=lambda kernel: age(kernel.source)):
        kernels[series_of(kernel.version)] = kernel
    if not kernels:
        raise Missing(
            "no kernel is built that boots on any machine, and a kit has at least one. Run: labs "
            "kernel build"
        )
    newest = tuple(kernels[series] for series in sorted(kernels))
    return Ingredients(programs, inventory.python(), newest)


def make(out: Path | None, tell: Callable[[str], None]) -> Kit:
    """Make a kit of this machine's programs and kernels, use it, and write it to `out`."""
    parts = ingredients()
    versions = inventory.versions(parts.programs, parts.interpreter)
    return kit_maker.make(
        parts.programs, parts.interpreter, versions, parts.kernels, out, tell=tell
    )


def _built() -> Iterator[Kernel]:
    """The kernels of this machine that need none of its libraries, without those of a kit; of
    equal ones the latest stored is the last."""
    for store in (own_store(), *shared_stores()):
        for kernel in reversed(kernels_in(store)):
            if record(kernel.folder).get("link") == LINK:
                yield kernel
