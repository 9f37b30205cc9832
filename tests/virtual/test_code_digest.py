"""What a run loads inside the virtual kernel is in its code, whose digest is in its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import LABS, find
from labs.drive.kernel.boot import boot
from labs.drive.testbeds import VIRTUAL
from labs.guest import entry as guest
from labs.guest.programs.init import INSIDE_CODE, PYTHON
from labs.launch.code_digest import copied
from labs.launch.plan import code_of, plan

IN_A_GUEST = tuple(name for name in LABS if find(name).Parameters().testbed == "virtual")
"""The labs that boot a kernel: all but the lab stack, which needs a wall clock."""

# Of other labs it is the first condition.
SMALL: dict[str, dict[str, Any]] = {
    "buffers": {"only": "default", "transfer_mib": 1},
    "nagle": {"only": "off"},
    "sweeps": {"only": "default", "transfer_mib": 1},
}
LEAVE_MODULES = "open('modules', 'w').write(' '.join(sys.modules))"
# Loaded by the command line or the machine around the guest, and by no run inside.
NOT_INSIDE = ("labs.drive.parameters", "labs.drive.kernel.boot", "labs.drive.kernel.memory")


@pytest.mark.parametrize("name", IN_A_GUEST)
def test_code_of_has_every_module_loaded_in_the_guest(name: str, tmp_path: Path) -> None:
    lab = find(name)
    first = {"only": lab.conditions(lab.Parameters())[0].name}
    (planned,) = plan(lab, lab.Parameters(**SMALL.get(name, first)))
    order = {"inputs": planned.inputs, "key": planned.key, "hz": 250, "versions": {}}
    (tmp_path / guest.INPUTS).write_text(json.dumps({**order, "ssh_config": None}))
    code = code_of(lab, "virtual")
    words = guest.argv(Path(PYTHON), INSIDE_CODE, VIRTUAL.module, lab.experiment)
    start = words[words.index("-c") + 1]
    ends = "raise SystemExit(main(*sys.argv[2:]))"
    assert start.endswith(ends)
    left = start.replace(
        ends, f"code = main(*sys.argv[2:]); {LEAVE_MODULES}; raise SystemExit(code)"
    )
    assert planned.kernel is not None and planned.kit is not None
    boot(
        planned.kernel.path,
        root=planned.kit.kept_root().folder,
        staging=tmp_path,
        code=copied(code, planned.kit.interpreter).folder,
        argv=tuple(left if word == start else word for word in words),
    )
    loaded = {one for one in (tmp_path / "modules").read_text().split() if one.startswith("labs")}
    modules = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in code
    }
    assert {"labs.guest.execution", lab.experiment} <= loaded <= modules
    assert not [one for one in loaded if one.startswith(NOT_INSIDE)]
