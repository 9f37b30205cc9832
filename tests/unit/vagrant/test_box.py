"""The box of a lab machine, as far as it can be checked without building one or starting it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from labs.drive.testbed import vagrant as testbed
from labs.drive.testbed.packages import MACHINE_TOOLS, packages
from labs.errors import Missing
from labs.guest.testbed.link import Link, shaping
from vagrant import box

ROOT = Path(__file__).parents[3]
FILES = ROOT / "vagrant" / "root"
# `apt-get indextargets` of a machine with Debian's sources and two others.
SOURCES = """\
http://mirror.example/debian/ bookworm main Debian
http://mirror.example/debian/ bookworm-updates main Debian
http://mirror.example/debian-security/ bookworm-security main Debian
http://mirror.example/debian/ bookworm-backports main Debian
https://packages.example.com/apt cloud main Example
https://deb.example.com/node_20.x nodistro main
"""


def test_a_box_comes_from_the_machine_s_own_sources() -> None:
    assert box.mirrors("trixie", SOURCES) == (
        "http://mirror.example/debian/ trixie main",
        "http://mirror.example/debian/ trixie-updates main",
        "http://mirror.example/debian-security/ trixie-security main",
    )
    with pytest.raises(Missing, match="LAB_BOX_URL"):
        box.mirrors("bookworm", "https://deb.example.com/x nodistro main\n")


def test_a_box_has_every_tool_of_the_labs() -> None:
    argv = [str(word) for word in box.bootstrap("trixie", Path("/made"), ["URI trixie main"])]
    included = next(word for word in argv if word.startswith("--include="))
    names = included.removeprefix("--include=").split(",")
    assert set(packages(MACHINE_TOOLS, "apt-get")) < set(names)
    assert {"nginx", "iproute2", "apache2-utils", "httping", "iperf3", "tcpdump"} <= set(names)
    assert argv[-3:] == ["trixie", "/made", "deb URI trixie main"]


def test_a_clone_may_have_any_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """mmdebstrap gives its hooks to a shell."""
    monkeypatch.setattr(box, "HERE", Path("/my labs; echo/vagrant"))
    hooks = [
        shlex.split(word.partition("=")[2], comments=False)
        for word in map(str, box.bootstrap("trixie", Path("/made"), ["URI trixie main"]))
        if "hook=cp" in word
    ]
    assert [hook[-2] for hook in hooks] == [
        f"/my labs; echo/vagrant/{name}" for name in ("root", "provision.sh")
    ]


def test_the_catalogue_names_each_box_by_its_sha256(tmp_path: Path) -> None:
    made = tmp_path / "bookworm-libvirt.box"
    made.write_bytes(b"box")
    said = box.catalogue("bookworm", "20261120.132015.0", {"libvirt": made})
    assert said["name"] == "labs/bookworm"
    (version,) = said["versions"]
    assert version["providers"] == [
        {
            "name": "libvirt",
            "url": made.as_uri(),
            "checksum_type": "sha256",
            # sha256sum of the three bytes "box"
            "checksum": "26f8567f2569182294c3fa5b9f9cb2270b554eef628b4c149cf82a42888ff4ae",
        }
    ]


def test_a_packed_box_can_be_read(tmp_path: Path) -> None:
    disk = tmp_path / "box.img"
    disk.write_bytes(bytes(1 << 20))
    box.pack({"metadata.json": ROOT / "pyproject.toml", "box.img": disk}, tmp_path / "a.box")
    listed = subprocess.run(
        ("tar", "-tzvf", tmp_path / "a.box"), capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in listed.splitlines()] == ["metadata.json", "box.img"]
    assert " 1048576 " in listed


def test_a_disk_keeps_what_is_laid_on_it(tmp_path: Path) -> None:
    part, disk = tmp_path / "part", tmp_path / "disk"
    part.write_bytes(b"x" * 1000)
    box.sized(disk, 3)
    box.overlay(part, disk, 2)
    content = disk.read_bytes()
    assert len(content) == 3 << 20
    assert content.strip(b"\0") == b"x" * 1000 and content.index(b"x") == 2 << 20


def printed(tmp_path: Path, settings: str) -> list[tuple[str, ...]]:
    conf = tmp_path / "link.conf"
    conf.write_text(settings)
    done = subprocess.run(
        ("sh", FILES / "usr/local/sbin/lab-link", "print"),
        text=True,
        capture_output=True,
        check=True,
        env={"LAB_LINK_CONF": str(conf)},
    )
    return [tuple(line.split()) for line in done.stdout.splitlines()]


def test_the_server_s_own_link_is_the_article_s(tmp_path: Path) -> None:
    """The unit of the box gives the very lines that a run of the article's link gives."""
    settings = (FILES / "etc/labs/link.conf").read_text()
    assert printed(tmp_path, settings) == list(
        shaping(Link(rate_mbit=1000, delay_ms=200), testbed.DEVICE)
    )
    assert printed(tmp_path, "RATE=20mbit\nDELAY=7ms\nPORT=8080\n") == list(
        shaping(Link(rate_mbit=20, delay_ms=7, port=8080), testbed.DEVICE)
    )


@pytest.mark.parametrize("name", testbed.ADDRESSES)
def test_addresses_stand_the_same_everywhere(name: str) -> None:
    vagrantfile = (ROOT / "Vagrantfile").read_text()
    found = re.search(rf'"{name}" => {{ address: "([0-9.]+)", mac: "([0-9a-f]+)"', vagrantfile)
    assert found is not None
    address, mac = found.groups()
    assert address == testbed.ADDRESSES[name]
    spelt = ":".join(re.findall("..", mac))
    network = (FILES / f"etc/systemd/network/10-{name}.network").read_text()
    link = (FILES / f"etc/systemd/network/10-{name}.link").read_text()
    assert f"MACAddress={spelt}" in network and f"MACAddress={spelt}" in link
    assert f"Address={address}/24" in network
    assert f"Name={testbed.DEVICE}" in link
    assert f"{address} {name}" in (ROOT / "vagrant" / "provision.sh").read_text()


def test_nothing_of_the_machine_is_open() -> None:
    settings = (FILES / "etc/ssh/sshd_config.d/labs.conf").read_text().splitlines()
    assert "PasswordAuthentication no" in settings and "PermitRootLogin no" in settings
    way_in = (FILES / "etc/systemd/network/20-way-in.network").read_text()
    (address,) = re.findall("Address=([0-9.]+)/24", way_in)
    assert f"ListenAddress {address}" in settings
    vagrantfile = (ROOT / "Vagrantfile").read_text()
    assert "hostfwd=tcp:127.0.0.1:" in vagrantfile and 'graphics_type = "none"' in vagrantfile


def oem_strings(*texts: bytes) -> bytes:
    """A table of the type 11 as /sys/firmware/dmi/entries has it (SMBIOS 3.7, 7.12): its type,
    length, handle and count, then the strings, each ended by a zero."""
    return bytes([11, 5, 0, 14, len(texts)]) + b"".join(one + b"\0" for one in texts) + b"\0"


KEY = f"ssh-ed25519 AAAA{'Cb+/' * 16}"


@pytest.mark.parametrize(
    ("tables", "accepted"),
    [
        ([oem_strings(b"labs-key=" + KEY.encode())], f"{KEY}\n"),
        ([oem_strings(b"vboxRev_1"), oem_strings(b"a", b"labs-key=" + KEY.encode())], f"{KEY}\n"),
        ([oem_strings(b"labs-key=ssh-ed25519 AAAA")], "before\n"),
        ([oem_strings(b"labs-key=" + KEY.encode() + b' command="x"')], "before\n"),
        ([], "before\n"),
    ],
)
def test_a_machine_accepts_the_key_of_its_smbios_table_alone(
    tmp_path: Path, tables: list[bytes], accepted: str
) -> None:
    known = tmp_path / "home" / ".ssh" / "authorized_keys"
    known.parent.mkdir(parents=True)
    known.write_text("before\n")
    for number, content in enumerate(tables):
        (tmp_path / f"11-{number}").mkdir()
        (tmp_path / f"11-{number}" / "raw").write_bytes(content)
    subprocess.run(
        ("sh", FILES / "usr/local/sbin/lab-key"),
        check=True,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LAB_DMI": str(tmp_path), "LAB_HOME": str(known.parents[1])},
    )
    assert known.read_text() == accepted
    if accepted != "before\n":
        assert (known.stat().st_mode & 0o777, known.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_box_has_no_key_and_asks_for_one_before_ssh_starts() -> None:
    assert [*(ROOT / "vagrant").rglob("*.pub")] == []
    assert "authorized_keys" not in (ROOT / "vagrant" / "provision.sh").read_text()
    unit = (FILES / "etc/systemd/system/lab-key.service").read_text()
    assert "Before=ssh.service" in unit and "ExecStart=/usr/local/sbin/lab-key" in unit
    enabled = (ROOT / "vagrant" / "provision.sh").read_text().split("systemctl --quiet enable")[1]
    assert "lab-key" in enabled.splitlines()[0].split()


def test_the_box_for_virtualbox_is_described() -> None:
    from xml.etree import ElementTree

    text = (ROOT / "vagrant" / "box.ovf").read_text()
    space = {"ovf": "http://schemas.dmtf.org/ovf/envelope/1"}
    disk = ElementTree.fromstring(text).find("ovf:DiskSection/ovf:Disk", space)
    assert disk is not None
    assert disk.get(f"{{{space['ovf']}}}capacity") == "@CAPACITY@"


def test_a_box_of_no_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        box.main(["--release", "sid"])
    assert caught.value.code == 2
    assert "bookworm" in capsys.readouterr().err


def test_the_catalogue_is_one_that_vagrant_reads() -> None:
    """The names that Vagrant's own format has (lib/vagrant/box_metadata.rb)."""
    said = json.loads(json.dumps(box.catalogue("trixie", "1.0", {})))
    assert set(said) == {"name", "description", "versions"}
    assert set(said["versions"][0]) == {"version", "providers"}
