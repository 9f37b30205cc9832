"""The testbeds on which runs are performed, each as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A testbed: its name, and the module that a run's own process opens it with."""

    name: str
    module: str


VIRTUAL = Kind("virtual", "labs.guest.testbed.virtual")
NAMESPACES = Kind("namespaces", "labs.drive.testbed.namespaces")
VAGRANT = Kind("vagrant", "labs.drive.testbed.vagrant")
TESTBEDS = {kind.name: kind for kind in (VIRTUAL, NAMESPACES, VAGRANT)}
