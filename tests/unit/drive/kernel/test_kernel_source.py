"""Where a kernel's source comes from, and what is refused as a source."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from labs.drive.kernel import kernel_source as source
from labs.drive.kernel.kernel_source import Source, locate, named, offers, unpack
from labs.drive.kernel.versions import read_kernel_spec
from labs.errors import BadInput, Missing

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kernel"
MAKEFILE = b"# SPDX\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nEXTRAVERSION =\n"


DEBIAN = "http://mirror.example/debian bookworm main Debian\n"


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"linux-source-6.1/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    names = (
        "arch/um/Kconfig",
        "arch/um/kernel/mem.c",
        "arch/x86/um/delay.c",
        "arch/Kconfig",
        "arch/arm/mm/init.c",
        "arch/arm/crypto/Kconfig",
        "Documentation/Kconfig",
        "Documentation/tcp/a.rst",
        "drivers/gpu/drm/i915/a.c",
        "drivers/gpu/drm/Kconfig",
        "drivers/net/veth.c",
        "sound/core/a.c",
        "sound/Kconfig",
    )
    return packed(tmp_path / "source.tar.xz", {"Makefile": MAKEFILE} | dict.fromkeys(names, b""))


def test_unpack_leaves_out_what_is_never_compiled(tarball: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    assert unpack(tarball, tree) == "6.1.192"
    found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert found == {
        "Makefile",
        "arch/um/Kconfig",
        "arch/um/kernel/mem.c",
        "arch/x86/um/delay.c",
        "arch/Kconfig",
        "arch/arm/crypto/Kconfig",
        "Documentation/Kconfig",
        "drivers/gpu/drm/Kconfig",
        "drivers/net/veth.c",
        "sound/Kconfig",
    }


def test_unpack_refuses_what_is_no_kernel_source(tmp_path: Path) -> None:
    other = packed(tmp_path / "other.tar.xz", {"Makefile": MAKEFILE, "README": b""})
    with pytest.raises(BadInput, match="does not contain the sources of a Linux kernel"):
        unpack(other, tmp_path / "tree")
    text = tmp_path / "text.tar.xz"
    text.write_text("no tarball")
    with pytest.raises(BadInput, match="cannot unpack"):
        unpack(text, tmp_path / "tree2")


def test_locate_refuses_a_tarball_that_does_not_exist(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.tar.xz"):
        with pytest.raises(BadInput, match="--source takes a tarball"):
            locate(read_kernel_spec("6.1"), path)


def test_locate_refuses_a_digest() -> None:
    with pytest.raises(BadInput, match="Give the version to build"):
        locate(read_kernel_spec("8a2551657a66"))


def test_named_gives_the_version_that_was_requested(tarball: Path) -> None:
    for spec, name in (("6.1", "6.1.192"), ("6.1.192", "6.1.192"), ("6.1.192-2", "6.1.192-2")):
        wanted = read_kernel_spec(spec)
        assert named(locate(wanted, tarball), "6.1.192", wanted) == name


@pytest.mark.parametrize("spec", ["6.12", "6.1.191", "6.1.191-1"])
def test_named_refuses_another_source(tarball: Path, spec: str) -> None:
    wanted = read_kernel_spec(spec)
    with pytest.raises(BadInput, match=r"the source is Linux 6\.1\.192, not"):
        named(locate(wanted, tarball), "6.1.192", wanted)


def test_offers_are_the_versions_of_madison() -> None:
    text = (FIXTURES / "madison-linux-source-6.1.txt").read_text()
    assert offers(text) == (
        "6.1.192-2",
        "6.1.192-1",
        "6.1.190-1",
        "6.1.187-1",
        "6.1.176-1",
        "6.1.170-3",
    )
    assert offers("") == offers("W: something is wrong\n") == ()


def test_offers_leave_out_what_cannot_be_built() -> None:
    candidates = "".join(
        f"linux-source-7.2 | {version} | mirror sid/main Sources\n"
        for version in ("7.2~rc7-1~exp1", "7.2.13-1", "7.2-1~exp1")
    )
    assert offers(candidates) == ("7.2.13-1",)


def test_locate_takes_a_tarball_under_the_requested_version(tarball: Path) -> None:
    assert locate(read_kernel_spec("6.1.192-2"), tarball) == Source("6.1.192-2", "", tarball)


def test_locate_takes_a_series_from_a_release_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(source, "_offered", lambda: ("6.12.117-1", "6.12.94-1"))
    asked = []

    def offered_by(release: str) -> tuple[tuple[str, ...], str]:
        asked.append(release)
        offered = {
            "bookworm": ("6.1.192-2", "6.1.190-1", "6.1.170-3"),
            "sid": ("6.12.94-1",),
            "forky": ("7.2.13-1",),
        }
        return offered[release], ""

    monkeypatch.setattr(source, "_offered_by", offered_by)
    assert locate(read_kernel_spec("6.12")) == Source("6.12.117-1", "linux-source-6.12", None)
    assert asked == []
    assert locate(read_kernel_spec("6.1.170")) == Source(
        "6.1.170-3", "linux-source-6.1", None, "bookworm"
    )
    assert asked == ["bookworm"]
    asked.clear()
    assert locate(read_kernel_spec("7.2")).release == "forky"
    assert asked == ["sid", "forky"]


def test_locate_names_the_versions_that_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "targets", lambda: DEBIAN)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(source, "_offered", lambda: ("6.12.117-1", "6.1.190-1", "6.1.192-2"))
    monkeypatch.setattr(source, "_offered_by", lambda release: (("6.12.94-1",), ""))
    missing = {
        "6.1.99": (
            "the source of Linux 6.1.99 is neither in this machine's package lists nor in those of "
            "bookworm on its mirrors. Available: 6.1.190-1, 6.1.192-2. Build one of these, "
        ),
        "7.2": (
            "the source of Linux 7.2 is neither in this machine's package lists nor in those of "
            "sid and forky on its mirrors. Available: 6.1.192-2, 6.12.117-1. Build one of these, "
        ),
    }
    for spec, begin in missing.items():
        with pytest.raises(Missing) as refused:
            locate(read_kernel_spec(spec))
        assert str(refused.value).startswith(begin)
        assert str(refused.value).endswith("labs kernel build --source TARBALL")


def test_locate_says_why_the_lists_of_a_release_could_not_be_downloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "targets", lambda: DEBIAN)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(source, "_offered", tuple)
    monkeypatch.setattr(source, "_offered_by", lambda release: ((), f"no list of {release}"))
    said = (
        r"mirrors \(apt says of sid: no list of sid\) \(apt says of forky: no list of forky\)\. "
        r"Available: none\."
    )
    with pytest.raises(Missing, match=said):
        locate(read_kernel_spec("7.2"))


def test_on_ubuntu_the_mirror_is_the_one_that_debootstrap_names(tmp_path: Path) -> None:
    debootstrap = tmp_path / "debootstrap"
    assert source.mirror_of_debian(debootstrap) == ""
    debootstrap.write_text(
        'VERSION=1\nDEF_MIRROR="http://mirror.example/debian"\n'
        'DEF_HTTPS_MIRROR="https://mirror.example/debian"\n'
    )
    lines = source.mirror_of_debian(debootstrap)
    assert source.sources("bookworm", lines) == (
        "http://mirror.example/debian bookworm main",
        "http://mirror.example/debian-security bookworm-security main",
    )


def test_without_a_mirror_of_debian_the_packages_that_name_one_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(source, "_offered", tuple)
    monkeypatch.setattr(source, "_offered_by", lambda release: ((), ""))
    monkeypatch.setattr(source, "targets", lambda: "http://mirror.example/ubuntu noble main Ubuntu")
    with pytest.raises(Missing, match=r"apt-get install debootstrap debian-archive-keyring$"):
        locate(read_kernel_spec("6.1"))


@pytest.mark.parametrize("spec", ["5.15", "7.3", "6.2.1-1", "6.13"])
def test_locate_refuses_a_series_that_no_patches_fit_before_apt_is_asked(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    with pytest.raises(BadInput):
        locate(read_kernel_spec(spec))


def test_locate_takes_a_tarball_of_any_series(tarball: Path) -> None:
    assert locate(read_kernel_spec("5.15"), tarball).tarball == tarball


class Archive(SimpleHTTPRequestHandler):
    """Serves a folder, and remembers in it what was asked for."""

    def log_message(self, format: str, *args: object) -> None:
        with Path(self.directory, "asked").open("a") as asked:
            asked.write(self.path + "\n")


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not here")
def test_lists_of_uses_the_own_mirror_and_refuses_an_unsigned_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive without a signature of Debian gives no package."""
    packages = tmp_path / "dists/bookworm/main/binary-amd64/Packages"
    packages.parent.mkdir(parents=True)
    packages.write_text(
        "Package: linux-source-6.1\nVersion: 6.1.666-1\nArchitecture: all\n"
        "Filename: a.deb\nSize: 1\n"
    )
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()
    (tmp_path / "dists/bookworm/Release").write_text(
        "Origin: Debian\nSuite: oldstable\nCodename: bookworm\nComponents: main\n"
        f"Architectures: amd64\nSHA256:\n {digest} {packages.stat().st_size} "
        "main/binary-amd64/Packages\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Archive, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(source, "targets", lambda: f"{mirror} trixie main Debian\n")
        with source.lists_of("bookworm") as (options, fault):
            assert source._offered(options) == () and "is not signed" in fault
            folder = Path(next(word for word in options if "lists=" in word).partition("=")[2])
        server.shutdown()
    assert not folder.exists()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert "/dists/bookworm/InRelease" in asked
    assert all(path.startswith("/dists/bookworm/") for path in asked)
