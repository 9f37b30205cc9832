"""Kernels that are sent: kept by digest, refused if they are not what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.batches.parcels import keep_kernel, kernel_here, of_kernel
from labs.drive.record.seal import digest
from labs.errors import Damaged

PROGRAM = b"\x7fELF a kernel"
SHA256 = digest(PROGRAM)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    return tmp_path / "labs" / "kernels"


def parcel(**changed: Any) -> dict[str, Any]:
    record = (
        f'{{"schema": 1, "version": "6.1.1", "source": "6.1.1-1", "sha256": "{SHA256}", "hz": 250}}'
    )
    content = {
        "program": PROGRAM,
        "record": record,
        "config": "CONFIG_UML=y\n",
        "patches": {"own-alarms.patch": b"--- a\n"},
    }
    return content | changed


def test_keep_kernel_gives_the_kernel_that_was_sent(own_store: Path) -> None:
    assert kernel_here(SHA256) is None
    kept = keep_kernel(SHA256, parcel())
    assert kernel_here(SHA256) == kept
    assert (kept.version, kept.hz, kept.folder) == ("6.1.1", 250, own_store / SHA256)
    assert kept.path.stat().st_mode & 0o111
    again = of_kernel(kept)
    assert again["program"] == PROGRAM and again["patches"] == parcel()["patches"]
    assert [path.name for path in own_store.iterdir()] == [SHA256]


@pytest.mark.parametrize(
    "changed",
    [
        {"program": PROGRAM + b"x"},
        {"record": '{"schema": 1, "sha256": "00"}'},
        {"patches": {"../own-alarms.patch": b""}},
    ],
)
def test_keep_kernel_refuses_another(own_store: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(Damaged):
        keep_kernel(SHA256, parcel(**changed))
    assert kernel_here(SHA256) is None


def test_kernel_here_refuses_a_changed_program() -> None:
    kept = keep_kernel(SHA256, parcel())
    kept.path.write_bytes(b"another")
    with pytest.raises(Damaged):
        kernel_here(SHA256)
