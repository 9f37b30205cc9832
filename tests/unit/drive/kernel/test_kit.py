"""Kits: what is taken into one, and what of a damaged one is refused."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from labs.drive.kernel import kit, store
from labs.drive.kernel.kit import Kit
from labs.errors import BadInput, Damaged, LabError, Missing

CONTENTS = {
    "root/usr/bin/nginx": b"\x7fELF nginx",
    "root/usr/bin/python3": b"\x7fELF python",
    "root/usr/lib/libc.so.6": b"\x7fELF libc",
    "root/usr/lib/python3.11/os.py": b"",
    "licences/nginx": b"BSD",
}
Members = dict[str, bytes]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path / "labs"


def as_bytes(about: object) -> bytes:
    return json.dumps(about, indent=1, sort_keys=True).encode() + b"\n"


def manifest(**changed: Any) -> dict[str, Any]:
    """The manifest of a small kit."""
    files = {
        name: [sha256(content).hexdigest(), "755" if "/bin/" in name else "644", len(content)]
        for name, content in CONTENTS.items()
    }
    made = {
        "schema": kit.SCHEMA,
        "architecture": "x86_64",
        "programs": {"nginx": "nginx/1.22.1", "python3": "Python 3.11.2", "libc": "glibc 2.36"},
        "packages": {"nginx": ["1.22.1-9", "nginx 1.22.1-9"]},
        "kernels": {},
        "files": files,
    }
    return made | changed


def written(path: Path, about: dict[str, Any], members: Members) -> Path:
    """A kit with this manifest and these files."""
    with tarfile.open(path, "w:xz") as packed:
        for name, content in ({kit.MANIFEST: as_bytes(about)} | members).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def used(tmp_path: Path) -> Kit:
    return kit.use(written(tmp_path / "kit.tar.xz", manifest(), CONTENTS))


def test_a_kit_is_used_by_its_digest(tmp_path: Path) -> None:
    assert kit.in_use() is None
    made = used(tmp_path)
    assert made.digest == sha256(as_bytes(manifest())).hexdigest()
    assert kit.in_use() == made
    assert (made.folder / "root/usr/bin/nginx").stat().st_mode & 0o777 == 0o755
    assert {
        str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file()
    } == {kit.MANIFEST, *CONTENTS}


def test_its_root_has_one_digest_whatever_a_run_starts(tmp_path: Path) -> None:
    made = used(tmp_path)
    assert made.inputs["tools"] == {"kit": made.root_digest}
    assert made.inputs["libraries"] == {}
    assert made.versions(made.programs(["nginx"])) == made.manifest.programs
    assert made.files["usr/bin/nginx"].executable
    assert made.interpreter[-1] == made.folder / "root/usr/bin/python3"
    with pytest.raises(Missing):
        made.programs(["nginx", "nghttp"])


def test_another_kernel_in_a_kit_leaves_the_root_as_it_is(tmp_path: Path) -> None:
    before = used(tmp_path).inputs
    more = CONTENTS | {f"kernels/{'0' * 64}/config": b"CONFIG_64BIT=y"}
    files = manifest()["files"]
    content = more[f"kernels/{'0' * 64}/config"]
    files[f"kernels/{'0' * 64}/config"] = [sha256(content).hexdigest(), "644", len(content)]
    other = kit.use(written(tmp_path / "other.tar.xz", manifest(files=files), more))
    assert other.inputs == before


def test_kernels_of_the_kit_in_use_are_searched_before_the_user_s(tmp_path: Path) -> None:
    made = used(tmp_path)
    assert tuple(store.stores()) == (made.kernels, store.own_store())


def changed(name: str) -> Callable[[], Members]:
    return lambda: CONTENTS | {name: CONTENTS[name][:-1] + b"!"}


def without(name: str) -> Callable[[], Members]:
    return lambda: {other: content for other, content in CONTENTS.items() if other != name}


def entry(name: str, mode: object = "644", size: object = 0) -> dict[str, Any]:
    return {"files": {name: [sha256(b"").hexdigest(), mode, size]}}


@pytest.mark.parametrize(
    ("about", "members"),
    [
        pytest.param({}, changed("root/usr/bin/nginx"), id="a byte differs"),
        pytest.param({}, without("licences/nginx"), id="a file is lacking"),
        pytest.param({}, lambda: CONTENTS | {"root/usr/bin/more": b""}, id="a file too many"),
        pytest.param({"schema": 0}, lambda: CONTENTS, id="an older version"),
        pytest.param({"architecture": "aarch64"}, lambda: CONTENTS, id="another architecture"),
        pytest.param(entry("root/../../x"), lambda: {"root/../../x": b""}, id="outside the kit"),
        pytest.param(entry("/etc/passwd"), lambda: {"/etc/passwd": b""}, id="an absolute path"),
        pytest.param({"files": [1]}, lambda: CONTENTS, id="no list of files"),
        pytest.param(entry("root/x", size=float("inf")), lambda: {"root/x": b""}, id="no size"),
        pytest.param(entry("root/x", mode=644), lambda: {"root/x": b""}, id="no mode"),
        pytest.param(entry("root/x", "4755"), lambda: {"root/x": b""}, id="a mode of root"),
        pytest.param(entry("root"), lambda: {"root": b""}, id="a file in place of the root"),
        pytest.param(entry("root/" + "x" * 300), lambda: CONTENTS, id="a long name"),
        pytest.param({"programs": {}}, lambda: CONTENTS, id="no interpreter"),
        pytest.param({"programs": None}, lambda: CONTENTS, id="no programs"),
        pytest.param({"packages": {"nginx": 1}}, lambda: CONTENTS, id="no packages"),
        pytest.param({"kernels": [1]}, lambda: CONTENTS, id="no kernels"),
    ],
)
def test_nothing_of_a_damaged_kit_is_used(
    tmp_path: Path, cache: Path, about: dict[str, Any], members: Callable[[], Members]
) -> None:
    with pytest.raises(Damaged):
        kit.use(written(tmp_path / "kit.tar.xz", manifest(**about), members()))
    assert kit.in_use() is None
    assert [*(cache / kit.KITS).iterdir()] == []


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_kit_that_is_cut_short_is_refused(tmp_path: Path, part: float) -> None:
    path = written(tmp_path / "kit.tar.xz", manifest(), CONTENTS)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(Damaged):
        kit.use(path)


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content, error in (
        ("text.tar.xz", b"text", Damaged),
        ("empty.tar.xz", lzma.compress(b""), Damaged),
        ("nothing.tar.xz", None, BadInput),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(error):
            kit.use(tmp_path / name)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(Missing):
        kit.use(tmp_path / "text.tar.xz")


def test_a_kit_that_was_changed_in_the_cache_is_not_used(tmp_path: Path) -> None:
    made = used(tmp_path)
    about = json.loads((made.folder / kit.MANIFEST).read_bytes())
    (made.folder / kit.MANIFEST).write_bytes(as_bytes(about | {"programs": {}}))
    with pytest.raises(LabError, match="was changed"):
        kit.in_use()
    assert used(tmp_path).manifest.programs["nginx"] == "nginx/1.22.1"


def test_a_changed_program_is_put_right_when_the_kit_is_used_again(tmp_path: Path) -> None:
    made = used(tmp_path)
    (made.folder / "root/usr/bin/nginx").write_bytes(b"another")
    used(tmp_path)
    assert (made.folder / "root/usr/bin/nginx").read_bytes() == CONTENTS["root/usr/bin/nginx"]


def test_a_link_in_place_of_the_manifest_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "kit.tar.xz", "w:xz") as packed:
        member = tarfile.TarInfo(kit.MANIFEST)
        member.type, member.linkname = tarfile.SYMTYPE, "x"
        packed.addfile(member)
    with pytest.raises(Damaged):
        kit.use(tmp_path / "kit.tar.xz")


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "kit.tar.xz", manifest(), CONTENTS)
    monkeypatch.setattr(kit, "MOST_BYTES", 1024)
    with pytest.raises(Damaged):
        kit.use(path)


def test_the_digest_of_the_file_can_be_demanded(tmp_path: Path) -> None:
    path = written(tmp_path / "kit.tar.xz", manifest(), CONTENTS)
    with pytest.raises(Damaged):
        kit.use(path, "0" * 64)
    assert kit.use(path, sha256(path.read_bytes()).hexdigest()) == kit.in_use()


def test_a_cache_that_others_may_write_to_is_told_in_a_line(tmp_path: Path, cache: Path) -> None:
    used(tmp_path)
    (cache / kit.KITS).chmod(0o777)
    with pytest.raises(Damaged):
        kit.in_use()


def test_an_installed_kit_is_used_unless_another_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "tcp_lab_kit" / "kit.tar.xz"
    installed.parent.mkdir()
    monkeypatch.setattr(kit, "INSTALLED", installed)
    written(installed, manifest(), CONTENTS)
    first = kit.in_use()
    assert first is not None
    kit.choose("0" * 64, kit.MADE)
    assert kit.in_use() == first
    newer = manifest(kernels={"0" * 64: "6.1.193-1"})
    written(installed, newer, CONTENTS)
    second = kit.in_use()
    assert second is not None
    assert second.digest == sha256(as_bytes(newer)).hexdigest() != first.digest
    installed.unlink()
    kit.choose(first.digest)
    assert kit.in_use() == first


def test_a_choice_that_names_no_kit(tmp_path: Path) -> None:
    used(tmp_path)
    chosen = kit.kits_folder() / kit.CHOSEN
    chosen.write_text("none\n")
    assert kit.in_use() is None
    chosen.write_bytes(b"a\0b")
    with pytest.raises(Damaged):
        kit.in_use()
    assert [*store.stores()] == [store.own_store()]


def test_a_kit_that_a_run_made_is_made_again_if_it_was_cleared(tmp_path: Path) -> None:
    made = used(tmp_path)
    kit.choose(made.digest, kit.MADE)
    (kit.kits_folder() / kit.CHOSEN).unlink()
    assert kit.in_use() == made
    shutil.rmtree(made.folder)
    assert kit.in_use() is None
