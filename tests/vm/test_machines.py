"""The machines: no open ports, no shared folders, no publicly known key."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.testbed.packages import MACHINE_TOOLS
from labs.drive.testbed.vagrant import ADDRESSES, DEVICE, Vagrant
from labs.drive.testbed.vagrant_up import NAMES, folder
from labs.guest.host_load import NEAR_NS, apart
from labs.guest.testbed.link import Link
from tests.vm.conftest import On

WAY_IN = "10.0.2.15"


@pytest.mark.parametrize("name", NAMES)
def test_machines_listen_for_ssh_only(name: str, on: On) -> None:
    rows = [line.split() for line in on(name, "ss", "-H", "-tuln").splitlines()]
    assert [row[4] for row in rows] == [f"{WAY_IN}:22"], rows


@pytest.mark.parametrize("name", NAMES)
def test_machines_refuse_the_insecure_key_and_passwords(
    name: str, on: On, ssh_config: Path
) -> None:
    told = subprocess.run(
        ("ssh", "-F", ssh_config, "-G", name), capture_output=True, text=True, check=True
    )
    given = dict(line.split(" ", 1) for line in told.stdout.splitlines())
    own = Path(given["identityfile"])
    assert own.stat().st_mode & 0o777 == 0o600
    known = own.with_suffix(".pub").read_text().split()[:2]
    assert on(name, "cat", ".ssh/authorized_keys").split() == known
    home = Path(os.environ.get("VAGRANT_HOME", "~/.vagrant.d")).expanduser()
    for key, code in ((own, 0), (home / "insecure_private_key", 255)):
        assert key.is_file()
        words = ("-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-i", str(key))
        asked = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
        place = ("-p", given["port"], f"vagrant@{given['hostname']}")
        done = subprocess.run(
            ("ssh", "-F", "none", *words, *asked, *place, "true"), capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        assert code == 0 or "Permission denied (publickey)" in done.stderr
    settings = on(name, "sudo", "sshd", "-T").splitlines()
    assert {
        "passwordauthentication no",
        "permitrootlogin no",
        "kbdinteractiveauthentication no",
    } <= set(settings)
    assert on(name, "sudo", "passwd", "--status", "vagrant").split()[1] == "L"


@pytest.mark.parametrize("name", NAMES)
def test_machines_have_their_address_and_tools(name: str, on: On) -> None:
    assert f" {ADDRESSES[name]}/24 " in on(name, "ip", "-o", "-4", "address", "show", DEVICE)
    assert on(name, "hostname").strip() == name
    assert on(name, "ip", "route", "show", "default") == ""
    found = on(name, "sudo", "which", *MACHINE_TOOLS).split()
    assert [Path(path).name for path in found] == list(MACHINE_TOOLS)
    assert on(name, "findmnt", "-n", "-t", "9p,virtiofs,nfs,vboxsf") == ""


@pytest.mark.skipif(shutil.which("ss") is None, reason="ss is not installed")
def test_machines_forward_ssh_on_127_0_0_1_only(ssh_config: Path) -> None:
    ports = [
        line.split()[1]
        for line in ssh_config.read_text().splitlines()
        if line.split()[:1] == ["Port"]
    ]
    shown = subprocess.run(("ss", "-H", "-tlnp"), capture_output=True, text=True).stdout
    of_qemu = [line.split()[3] for line in shown.splitlines() if "qemu" in line]
    assert of_qemu and all(one.startswith("127.0.0.1:") for one in of_qemu)
    assert set(ports) <= {one.rpartition(":")[2] for one in of_qemu}


def test_own_link_is_measured_and_reported() -> None:
    """As Vagrant runs it at the end of `up`; the rate is what such machines can carry."""
    done = subprocess.run(
        (sys.executable, folder() / "vagrant" / "report.py"),
        cwd=folder(),
        capture_output=True,
        text=True,
    )
    said = re.fullmatch(
        r"the link: asked 1000 Mbit/s and 200 ms; measured (\d+) Mbit/s and "
        r"([\d.]+) ms: .+\n",
        done.stdout,
    )
    assert said and int(said[1]) > 0 and 200 <= float(said[2]) < 300, done


def test_bring_near_sets_the_clock(ssh_config: Path, on: On) -> None:
    on("client", "sudo", "date", "-s", "+3 seconds")
    with Vagrant(Link(), ssh_config) as testbed:
        found = apart(testbed.server, testbed.client)
        assert abs(found.client_ahead_ns) <= max(NEAR_NS, 2 * found.within_ns)
        assert any("clock_settime" in " ".join(line.argv) for line in testbed.log)


def test_audit_of_both_machines() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "labs.cli", "audit", "--testbed", "vagrant", "--json"),
        cwd=folder(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = json.loads(done.stdout)
    for name in NAMES:
        items = {(one["name"], one["device"]): one for one in found if one["machine"] == name}
        assert len(items) >= 50
        assert items["nic.driver", DEVICE]["value"]
        assert items["netfilter.tables", ""]["value"] is not None, "this needs root, which ssh has"
        assert items["sysctl.compared", ""]["value"].startswith("compared ")
