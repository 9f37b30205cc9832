"""How machines run here: tried once, remembered, overridden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vagrant import accelerator

SCRIPT = Path(accelerator.__file__)


def test_what_is_asked_for_is_not_tried(tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    assert accelerator.decide(Path("/none"), "kvm", cache)[0] == "kvm"
    assert accelerator.decide(Path("/none"), "emulation", cache)[0] == "emulation"
    assert not cache.exists()


def test_without_a_kernel_nothing_is_tried_or_remembered(tmp_path: Path) -> None:
    found, why = accelerator.decide(tmp_path / "vmlinuz", "", tmp_path / "cache.json")
    assert found == "emulation" and "no kernel" in why
    assert not (tmp_path / "cache.json").exists()


def test_a_trial_is_remembered_for_this_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, cache = tmp_path / "vmlinuz", tmp_path / "labs" / "cache.json"
    kernel.write_bytes(b"no kernel at all")
    monkeypatch.setattr(accelerator, "DEVICE", tmp_path / "kvm")
    first = accelerator.decide(kernel, "", cache)
    assert first == ("emulation", f"there is no {tmp_path / 'kvm'}")
    said = json.loads(cache.read_text())
    cache.write_text(json.dumps({**said, "accelerator": "kvm", "why": "it came up"}))
    assert accelerator.decide(kernel, "", cache) == ("kvm", "it came up")
    assert accelerator.decide(kernel, "retry", cache) == first
    cache.write_text(json.dumps({**said, "accelerator": "kvm", "here": {"kernel": "another"}}))
    assert accelerator.decide(kernel, "", cache) == first
    cache.write_text("{")
    assert accelerator.decide(kernel, "", cache) == first


def test_a_device_that_was_opened_to_this_user_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, device, cache = tmp_path / "vmlinuz", tmp_path / "kvm", tmp_path / "cache.json"
    kernel.write_bytes(b"no kernel at all")
    device.touch()
    monkeypatch.setattr(accelerator, "DEVICE", device)
    access, shut = os.access, {device}
    monkeypatch.setattr(os, "access", lambda path, mode: path not in shut and access(path, mode))
    assert "group kvm" in accelerator.decide(kernel, "", cache)[1]
    shut.clear()
    assert "group kvm" not in accelerator.decide(kernel, "", cache)[1]


def test_what_is_no_kernel_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever this machine is: QEMU is lacking, refuses the file, or refuses the device."""
    kernel, device = tmp_path / "vmlinuz", tmp_path / "kvm"
    kernel.write_bytes(b"no kernel at all")
    device.touch()
    monkeypatch.setattr(accelerator, "DEVICE", device)
    found, why = accelerator.trial(kernel)
    assert found == "emulation" and ("not installed" in why or "did not come up" in why)


@pytest.mark.parametrize(
    ("does", "found", "why"),
    [
        ("sleep 60", "emulation", "did not come up in 0.3 s; LAB_ACCELERATOR=retry tries again"),
        ("echo not this; exit 3", "emulation", "QEMU ended with exit code 3"),
        ("echo 'VFS: Unable to mount root fs on unknown-block(0,0)'", "kvm", "came up"),
    ],
)
def test_what_a_trial_shows(
    does: str, found: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in QEMU's place does what a device that hangs, refuses or works would make "
    "it do."""
    program, device = tmp_path / accelerator.QEMU, tmp_path / "kvm"
    program.write_text(f'#!/bin/sh\n[ "$2" = q35,accel=kvm ] || exit 9\nexec sh -c "{does}"\n')
    program.chmod(0o755)
    device.touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(accelerator, "DEVICE", device)
    monkeypatch.setattr(accelerator, "TRIAL_S", 0.3 if "sleep" in does else 30)
    said = accelerator.trial(tmp_path / "vmlinuz")
    assert said[0] == found and why in said[1]


def test_a_misspelt_wish_is_refused() -> None:
    done = subprocess.run(
        (sys.executable, "-I", "-S", SCRIPT, "/none"),
        capture_output=True,
        text=True,
        env={**os.environ, "LAB_ACCELERATOR": "KVM"},
    )
    assert done.returncode == 2
    assert done.stderr == "LAB_ACCELERATOR is 'KVM'; allowed: kvm, emulation, retry\n"
