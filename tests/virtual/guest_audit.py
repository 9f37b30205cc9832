"""An audit inside a virtual kernel that nobody has configured: its sysctls are the defaults.

python -m tests.virtual.guest_audit        write labs/read/audit/sysctl_defaults.json again
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from labs.drive.kernel import store
from labs.drive.kernel.boot import boot
from labs.drive.kernel.check import CODE
from labs.drive.kernel.versions import SERIES
from labs.guest.programs.init import INSIDE_CODE, PYTHON
from labs.read.audit.raw import open_raw
from labs.read.audit.sysctls import COMPUTED, DEFAULTS, OF_THE_MACHINE, REPORTS
from tests.virtual.roots import root_with

MEMORY_MIB = 4096
AUDITED = "audit.json"
START = f"{PYTHON} -I -S {INSIDE_CODE}/labs/drive/machine_audit.py > {AUDITED}"


def guest_audit(version: str) -> dict[str, Any]:
    """What the audit reads in a freshly booted kernel of this series."""
    with tempfile.TemporaryDirectory() as staging:
        boot(
            store.find(version).path,
            root=root_with("unshare", "ethtool"),
            staging=Path(staging),
            code=CODE,
            argv=("/bin/bash", "-c", START),
            memory_mib=MEMORY_MIB,
        )
        found: dict[str, Any] = json.loads((Path(staging) / AUDITED).read_text(encoding="utf-8"))
        return found


def defaults(collected: dict[str, Any]) -> dict[str, str]:
    """The sysctls of a fresh kernel that do not depend on its machine or its build."""
    apart = REPORTS | OF_THE_MACHINE | COMPUTED.keys()
    found = open_raw(collected, "the audit of a guest").sysctls()
    return {name: value for name, value in found.items() if name not in apart}


def main() -> int:
    found = {version: defaults(guest_audit(version)) for version in SERIES}
    DEFAULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{DEFAULTS}: {', '.join(f'{name}: {len(some)}' for name, some in found.items())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
