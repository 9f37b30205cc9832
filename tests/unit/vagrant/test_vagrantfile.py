"""The settings of the Vagrantfile: devices that cannot be had are refused in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.vagrant.test_box import ROOT

pytestmark = pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is not installed")
# Without Vagrant the file ends here, after its own checks.
ACCEPTED = "uninitialized constant Vagrant"


def said(environment: dict[str, str], *words: str, file: Path = ROOT / "Vagrantfile") -> str:
    """What ruby says about the Vagrantfile, with the words of a vagrant command; no Vagrant and no
    machine is involved."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}
    done = subprocess.run(
        ("ruby", str(file), *words), capture_output=True, text=True, env={**kept, **environment}
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LAB_NIC": "rtl8139"}, "LAB_NIC is 'rtl8139'; allowed: (virtio|e1000e)"),
        ({"LAB_NIC": "e1000e", "LAB_QUEUES": "2"}, "Set LAB_NIC=virtio"),
        ({"LAB_QUEUES": "4", "LAB_CPUS": "2"}, "Set LAB_CPUS=4"),
        ({"LAB_NIC": "e1000e", "VAGRANT_DEFAULT_PROVIDER": "virtualbox"}, "--provider=libvirt"),
    ],
)
def test_vagrantfile_refuses_a_device(environment: dict[str, str], words: str) -> None:
    (line,) = said(environment).splitlines()
    assert words in line


@pytest.mark.parametrize(
    "environment", [{}, {"LAB_NIC": "e1000e"}, {"LAB_QUEUES": "2", "LAB_CPUS": "2"}]
)
def test_vagrantfile_accepts_a_device(environment: dict[str, str]) -> None:
    assert ACCEPTED in said(environment)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_vagrantfile_makes_a_key_before_the_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "dot"
    place = {
        "VAGRANT_DOTFILE_PATH": str(folder),
        "LAB_BOX": "another",
        "LAB_SAID_ACCELERATOR": "yes",  # so that nothing is started
    }
    assert ACCEPTED in said(place)
    assert not folder.exists()
    assert ACCEPTED in said(place, "up")
    key = folder / "labs-key"
    content = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert ACCEPTED in said(place, "up")
    assert key.read_bytes() == content
    blocked = tmp_path / "file"
    blocked.touch()
    (line,) = said({**place, "VAGRANT_DOTFILE_PATH": str(blocked / "x")}, "up").splitlines()
    assert "VAGRANT_DOTFILE_PATH" in line


@pytest.mark.parametrize(
    ("version", "words"), [("20261122.235959.0", "make box"), ("20261123.090000.0", ACCEPTED)]
)
def test_vagrantfile_refuses_a_box_with_the_public_key(
    tmp_path: Path, version: str, words: str
) -> None:
    boxes = tmp_path / "vagrant" / "boxes"
    boxes.mkdir(parents=True)
    listed = json.dumps({"versions": [{"version": version}]})
    (boxes / "bookworm-libvirt.json").write_text(listed)
    shutil.copy(ROOT / "Vagrantfile", tmp_path)
    place = {"LAB_SAID_ACCELERATOR": "yes"}
    assert words in said(place, "up", file=tmp_path / "Vagrantfile")
    assert (tmp_path / ".vagrant").exists() is (words == ACCEPTED)


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="Vagrant is not installed")
def test_vagrantfile_is_valid(tmp_path: Path) -> None:
    """With a key that is there and with one that is not: Vagrant refuses a path without a file."""
    made = tmp_path / "dot"
    for _ in range(2):
        subprocess.run(
            ("vagrant", "validate", "--ignore-provider"),
            cwd=ROOT,
            check=True,
            capture_output=True,
            env={
                **os.environ,
                "VAGRANT_DOTFILE_PATH": str(made),
                "VAGRANT_HOME": str(tmp_path / "home"),
                "VAGRANT_CHECKPOINT_DISABLE": "1",
            },
        )
        made.mkdir(exist_ok=True)
        (made / "labs-key").write_text("a key")
        (made / "labs-key.pub").write_text("ssh-ed25519 AAAA labs")
