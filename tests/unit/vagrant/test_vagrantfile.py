"""The settings of the Vagrantfile: devices that cannot be had are refused in one line."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.unit.vagrant.test_box import ROOT

pytestmark = pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is not installed")
# Without Vagrant the file ends here, after its own checks.
ACCEPTED = "uninitialized constant Vagrant"


def said(environment: dict[str, str]) -> str:
    """What ruby says about the Vagrantfile; no Vagrant and no machine is involved."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}
    done = subprocess.run(
        ("ruby", str(ROOT / "Vagrantfile")),
        capture_output=True,
        text=True,
        env={**kept, **environment},
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
