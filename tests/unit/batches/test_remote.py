"""What a worker compares before it is given runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.batches import remote
from labs.batches.parcels import keep_kernel
from labs.catalog import find
from labs.drive.condition import from_json
from labs.drive.kernel.guest_root import guest_root
from labs.drive.kernel.store import Kernel
from labs.drive.record.seal import key
from labs.errors import Missing
from labs.launch import code_digest as code
from labs.launch import inventory
from labs.launch.plan import Planned, code_of
from tests.run_folders import inputs
from tests.unit.batches.test_parcels import SHA256, parcel

DRIVING = code_of(find("buffers"), "virtual")


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel in a store of this test's own; it is never booted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    return keep_kernel(SHA256, parcel())


def task(kernel: Kernel, **changed: Any) -> remote.Task:
    """A task without programs, planned on this machine; `changed` are inputs."""
    root = guest_root({}, inventory.python())
    given = inputs(
        kernel={"version": kernel.version, "digest": kernel.sha256},
        code=code.digest(DRIVING),
        **root.as_inputs(),
    )
    given |= changed
    condition = from_json(given["condition"])
    planned = Planned(find("buffers"), condition, given, key(given), {}, kernel, root, None)
    return remote.task_of(planned)


def test_task_of_sends_the_inputs_of_the_key(kernel: Kernel) -> None:
    sent = task(kernel)
    assert key(sent.asked) == sent.key
    assert (sent.experiment, sent.own_lab, sent.hz) == (find("buffers").experiment, False, 250)


def test_need_is_that_of_the_worker_and_not_of_the_condition(kernel: Kernel) -> None:
    first = task(kernel)
    assert task(kernel, seed=2).need == first.need
    assert task(kernel, condition=inputs("wmem")["condition"]).need == first.need
    for changed in ({"guest": "0"}, {"code": "0"}, {"memory_mib": 8192}):
        assert task(kernel, **changed).need != first.need
    assert replace(first, programs=("nginx",)).need != first.need


def test_equip_finds_nothing_to_fetch_where_all_is_there(kernel: Kernel) -> None:
    asked = task(kernel)
    assert remote._lacking(asked) == []
    equipment = remote._equip(asked, {})
    assert (equipment.differs, equipment.kernel, dict(equipment.code)) == (
        (),
        kernel,
        dict(DRIVING),
    )


def test_equip_keeps_what_it_lacks(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = task(kernel)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert remote._lacking(asked) == [SHA256]
    equipment = remote._equip(asked, {SHA256: parcel()})
    assert equipment.kernel is not None and equipment.kernel.path.is_relative_to(tmp_path / "other")
    assert remote._lacking(asked) == []


def test_equip_names_what_differs(kernel: Kernel) -> None:
    here = task(kernel).asked
    libraries = {**here["libraries"], "libc.so.6": "0", "libm.so.6": "0"}
    tools = {**here["tools"], "python3": "0"}
    (difference,) = remote._equip(task(kernel, tools=tools), {}).differs
    assert difference == "its python3 differs"
    (several,) = remote._equip(
        task(kernel, tools=tools, libraries=libraries, guest="0"), {}
    ).differs
    assert several == "its python3, libc.so.6, libm.so.6 and 1 more differ"


def test_equip_refuses_another_record_of_the_kernel(kernel: Kernel) -> None:
    asked = task(kernel)
    with pytest.raises(Missing):
        remote._equip(replace(asked, hz=100), {})
    with pytest.raises(Missing):
        remote._equip(task(replace(kernel, version="6.1.2")), {})


def test_equip_takes_another_experiment_and_refuses_other_code_that_boots(kernel: Kernel) -> None:
    experiment = {**DRIVING, "labs/experiments/buffers/experiment.py": b"# another"}
    asked = task(kernel, code=code.digest(experiment))
    assert remote._lacking(asked) == [code.digest(experiment)]
    equipment = remote._equip(asked, {code.digest(experiment): experiment})
    assert equipment.differs == () and equipment.code == experiment
    boots = {**DRIVING, "labs/drive/kernel/boot.py": b"# another"}
    with pytest.raises(Missing, match=r"kernel/boot\.py"):
        remote._equip(task(kernel, code=code.digest(boots)), {code.digest(boots): boots})
    with pytest.raises(Missing):
        remote._equip(asked, {code.digest(experiment): boots})


def test_equip_fetches_the_code_of_a_users_own_lab(kernel: Kernel) -> None:
    asked = replace(task(kernel), own_lab=True)
    assert remote._lacking(asked) == [asked.asked["code"]]


def test_outside_is_part_of_the_code_of_every_virtual_run() -> None:
    boots = code.outside("virtual")
    assert "labs/drive/kernel/boot.py" in boots and "labs/errors.py" in boots
    assert boots.items() <= DRIVING.items()
    assert "labs/drive/bench.py" not in boots
    assert code.outside("namespaces") == {}
