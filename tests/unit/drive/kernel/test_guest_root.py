"""The root of a guest: what labs add to the files of a kit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.guest_root import ACCOUNTS, LINKS, digest_of_labs, library_cache
from labs.guest.programs.init import INIT, PYTHON
from tests.virtual.roots import root_with

LDCONFIG = shutil.which("ldconfig", path=PATH)


def test_digest_of_labs_tells_links_and_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of_labs(["usr/lib/libc.so.6"])
    assert digest_of_labs(["usr/lib/libc.so.6", "usr/bin/ip"]) == before
    assert digest_of_labs(["usr/lib/libc.so.7"]) != before
    monkeypatch.setitem(LINKS, "usr/local", "usr")
    assert digest_of_labs(["usr/lib/libc.so.6"]) != before


def test_accounts_of_a_guest_are_in_numbers_of_their_own() -> None:
    assert len(set(ACCOUNTS.values())) == len(ACCOUNTS) and ACCOUNTS["root"] == 0


@pytest.mark.skipif(LDCONFIG is None, reason="ldconfig is not installed")
def test_library_cache_is_one_that_ldconfig_reads(tmp_path: Path) -> None:
    names = ["libc.so.6", "libm.so.6", "libcap.so.2", "libpcap.so.0.8", "liba10.so.1", "liba9.so.1"]
    path = tmp_path / "ld.so.cache"
    path.write_bytes(library_cache({name: f"/usr/lib/{name}" for name in names}))
    said = subprocess.run(
        (str(LDCONFIG), "-p", "-C", path), capture_output=True, text=True, check=True
    ).stdout
    listed = re.findall(r"^\t(\S+) \(libc6,x86-64\) => (\S+)$", said, re.MULTILINE)
    assert sorted(listed) == sorted((name, f"/usr/lib/{name}") for name in names)
    order = [name for name, _ in listed]
    assert order.index("liba10.so.1") < order.index("liba9.so.1")  # numbers, from the greatest


@pytest.mark.program("ip")
def test_kept_root_is_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = root_with()
    for inside in (INIT, PYTHON, "/etc/passwd", "/sbin/ip", "/lib64/ld-linux-x86-64.so.2"):
        assert (folder / inside[1:]).is_file(), inside
    for mounted in ("dev", "proc", "sys", "run", "tmp", "var/log"):
        assert (folder / mounted).is_dir()
