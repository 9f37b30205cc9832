"""Audit the machines of a testbed: read what they are set to.

This is done outside the runs, so the program that reads, `labs/drive/machine_audit.py`, is no part
of their code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive import machine_audit as audit
from labs.errors import RunFailed
from labs.guest.host_load import HERE

if TYPE_CHECKING:
    from labs.drive.testbed.vagrant import Machine

ANSWER_S = 120
Collected = dict[str, dict[str, Any]]
"""What was read from each machine, by its name: `here`, or `server` and `client`."""


def here() -> Collected:
    """Audit this machine, as the user who runs this."""
    return {HERE: audit.collect()}


def vagrant(ssh_config: Path) -> Collected:
    """Audit both machines, as root. Missing if one cannot be reached or is in use."""
    from labs.drive.testbed.vagrant import ADDRESSES, machine  # noqa: PLC0415  not on every system

    return {name: over_ssh(name, machine(name, ssh_config)) for name in ADDRESSES}


def over_ssh(name: str, machine: Machine) -> dict[str, Any]:
    """Audit a machine; the program is sent on standard input, so nothing is stored there."""
    from labs.drive.testbed.ssh import SshHost  # noqa: PLC0415  not on every system

    source = Path(audit.__file__).read_bytes()
    host = SshHost(name, machine.address, machine.device, machine.login, machine.folder, [], [])
    host.open()
    try:
        done = host.run(("python3", "-I", "-S", "-"), stdin=source, timeout_s=ANSWER_S, log=False)
    finally:
        host.close()
    try:
        facts: dict[str, Any] = json.loads(done.text)
    except ValueError as error:
        raise RunFailed(f"the audit of {name} printed no JSON ({error}). Run it again") from error
    return facts
