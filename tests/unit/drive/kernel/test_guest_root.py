"""The root of a guest: what is in it, held to what this machine's loader says."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.kernel import guest_root as module
from labs.drive.kernel.boot import PATH
from labs.drive.kernel.guest_root import (
    ACCOUNTS,
    LINKS,
    guest_root,
    kept_root,
    libraries,
    library_cache,
    listed,
)
from labs.drive.kernel.kept_copy import content_digest
from labs.errors import Missing
from labs.guest.programs.init import INIT, PYTHON
from labs.launch.inventory import python

LDCONFIG = shutil.which("ldconfig", path=PATH)


def found(*names: str) -> dict[str, Path]:
    return {
        name: Path(shutil.which(name, path=PATH) or pytest.skip(f"no {name}")) for name in names
    }


@pytest.mark.parametrize("name", ["ip", "ss", "nginx", "sh"])
def test_libraries_are_those_that_the_loader_lists(name: str) -> None:
    program = found(name)[name]
    listed = subprocess.run(("ldd", program), capture_output=True, text=True).stdout
    wanted = set(re.findall(r"^\t(\S+) => /", listed, re.MULTILINE))
    loader = re.findall(r"^\t(?:\S+ => )?/\S*/(ld-\S+)", listed, re.MULTILINE)
    assert set(libraries([program])) == wanted | set(loader)


def test_listed_has_preloaded_libraries_by_their_names() -> None:
    """What glibc 2.36 lists of `true` with libm in /etc/ld.so.preload."""
    text = (
        "\tlinux-vdso.so.1 (0x00007ffd2d5f2000)\n"
        "\t/lib/x86_64-linux-gnu/libm.so.6 (0x00007f8f3cc1a000)\n"
        "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f8f3ca39000)\n"
        "\tlibgone.so.1 => not found\n"
    )
    where = Path("/lib/x86_64-linux-gnu")
    assert listed(text) == {name: where / name for name in ("libm.so.6", "libc.so.6")}


def test_libraries_have_what_cancelling_a_thread_opens(tmp_path: Path) -> None:
    """The loader does not list libgcc_s: the C library opens it (nptl/pthread_cancel.c)."""
    (tmp_path / "cancel.c").write_text(
        "#include <pthread.h>\nint main(void) { return pthread_cancel(pthread_self()); }\n"
    )
    gcc, program = found("gcc")["gcc"], tmp_path / "cancel"
    subprocess.run((gcc, "-pthread", "-o", program, tmp_path / "cancel.c"), check=True)
    loaded = libraries([program])
    assert {"libc.so.6", "libgcc_s.so.1"} <= set(loaded)
    assert loaded["libgcc_s.so.1"].is_file()
    assert "libgcc_s.so.1" not in libraries([found("ip")["ip"]])


def test_libraries_of_a_script_are_none(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert libraries([tmp_path / "script"]) == {}


def test_libraries_that_are_not_here_are_named(tmp_path: Path) -> None:
    program = found("ip")["ip"].read_bytes()
    (tmp_path / "ip").write_bytes(program.replace(b"libmnl.so.0", b"libnon.so.0"))
    with pytest.raises(Missing, match=r"libnon\.so\.0"):
        libraries([tmp_path / "ip"])


def test_guest_root_has_a_digest_for_each_file_that_it_takes_from_here() -> None:
    root = guest_root(found("ip"), python())
    here = {name: path for name, path in root.files.items() if isinstance(path.content, Path)}
    modules = {name for name in here if re.match(r"usr/lib/python3\.\d+/", name)}
    assert "python3-modules" in root.tools and len(modules) > 300
    told = {f"usr/bin/{name}" for name in root.tools} | {
        f"usr/lib/{name}" for name in root.libraries
    }
    assert set(here) - modules == told - {"usr/bin/python3-modules"}


def test_guest_root_has_no_folder_of_packages_and_no_tests() -> None:
    root = guest_root(found("ip"), python())
    assert not [
        name for name in root.files if re.search(r"site-packages|dist-packages|/test/", name)
    ]


def test_guest_root_brings_what_runs_a_script(tmp_path: Path) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/usr/bin/env sh\necho hello\n")
    assert {"mine", "env", "sh"} <= set(guest_root({"mine": script}, python()).tools)


def test_guest_root_refuses_a_script_whose_interpreter_is_not_here(tmp_path: Path) -> None:
    script = tmp_path / "mine"
    for first in (f"#!{tmp_path}/sh", "#!/usr/bin/no-such-thing", "#!/usr/bin/env no-such-thing"):
        script.write_text(f"{first}\n")
        with pytest.raises(Missing, match="mine"):
            guest_root({"mine": script}, python())


def test_guest_root_tells_its_links_and_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    before = guest_root(found("ip"), python()).ours
    monkeypatch.setitem(LINKS, "usr/local", "usr")
    assert guest_root(found("ip"), python()).ours != before


def test_guest_root_tells_apart_by_content_and_not_by_place(tmp_path: Path) -> None:
    one = found("ip")
    moved = {"ip": Path(shutil.copy(one["ip"], tmp_path))}
    assert guest_root(one, python()).as_inputs() == guest_root(moved, python()).as_inputs()
    with moved["ip"].open("ab") as file:
        file.write(b"\0")
    differing = guest_root(moved, python())
    assert differing.tools["ip"] != guest_root(one, python()).tools["ip"]
    assert differing.libraries == guest_root(one, python()).libraries


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


def test_kept_root_is_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kept_root(guest_root(found("ip"), python())).folder
    for inside in (INIT, PYTHON, "/etc/passwd", "/sbin/ip", "/lib64/ld-linux-x86-64.so.2"):
        assert (folder / inside[1:]).is_file(), inside
    for mounted in ("dev", "proc", "sys", "run", "tmp", "var/log"):
        assert (folder / mounted).is_dir()


def test_digests_are_kept_of_settled_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file written twice within a tick of the clock has one state and two contents."""
    asked: list[str] = []

    def kept(question: str, answer: Callable[[], str], _: str) -> str:
        asked.append(question)
        return answer()

    monkeypatch.setattr(module, "kept", kept)
    young, old = tmp_path / "young", Path("/bin/sh")
    young.write_bytes(b"1")
    assert module._digest(young) == hashlib.sha256(b"1").hexdigest()
    assert not asked
    assert module._digest(old) == hashlib.sha256(old.read_bytes()).hexdigest()
    assert asked


def test_modules_are_read_again_only_if_one_of_them_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SETTLED_NS", -(10**18))  # a file that was just written counts
    home = tmp_path / "python3"
    left_out = ("test/c.py", "site-packages/d.py", "config-3.11-x86_64/e.py", ".hidden/f.py")
    for name in ("b.py", "a/__init__.py", *left_out):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    first = module._modules(home)
    assert list(first) == ["b.py", "a/__init__.py"]
    assert first["b.py"].digest == hashlib.sha256(b"b.py").hexdigest()

    read: list[Path] = []

    def digest(path: Path) -> str:
        read.append(path)
        return content_digest(path)

    monkeypatch.setattr(module, "content_digest", digest)
    assert module._modules(home) == first and read == []
    (home / "b.py").write_text("another")
    changed = module._modules(home)
    assert changed["b.py"].digest == hashlib.sha256(b"another").hexdigest()
    assert changed["a/__init__.py"] == first["a/__init__.py"]
    (home / "c.py").touch()
    assert list(module._modules(home)) == ["b.py", "c.py", "a/__init__.py"]


def test_modules_that_have_just_changed_are_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SETTLED_NS", 10**18)
    (tmp_path / "a.py").touch()
    module._modules(tmp_path)
    assert not (tmp_path / "cache").exists()
