"""What a kit takes from this machine, and what it says of what is not here."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from labs.drive.kernel import kit, kit_maker
from labs.drive.kernel.boot import PATH
from labs.drive.kernel.kit_maker import choice, make, ready, sources
from labs.drive.kernel.programs import programs, python
from labs.errors import BadInput, Damaged, Missing

pytestmark = pytest.mark.skipif(
    shutil.which("ip", path=PATH) is None, reason="iproute2 is not installed"
)
WHICH = shutil.which


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs"


def with_program(monkeypatch: pytest.MonkeyPatch, name: str, path: Path | None) -> None:
    """Another program of this name on this machine, or none."""

    def which(asked: str, **given: Any) -> str | None:
        return WHICH(asked, **given) if asked != name else str(path) if path else None

    monkeypatch.setattr(shutil, "which", which)


def test_a_root_has_the_standard_library_without_packages_and_tests() -> None:
    root = sources(programs(["ip"]), python())
    assert len([name for name in root if re.match(r"usr/lib/python3\.\d+/", name)]) > 300
    assert {"usr/bin/ip", "usr/bin/python3", "usr/lib/libc.so.6"} <= set(root)
    assert not [name for name in root if re.search(r"site-packages|dist-packages|/test/", name)]


def test_modules_are_those_of_the_standard_library_alone(tmp_path: Path) -> None:
    left_out = ("test/c.py", "site-packages/d.py", "config-3.11-x86_64/e.py", ".hidden/f.py")
    for name in ("b.py", "a/__init__.py", "a/data.txt", *left_out):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "broken.py").symlink_to("nowhere")
    names = {str(path.relative_to(tmp_path)) for path in kit_maker._modules(tmp_path)}
    assert names == {"b.py", "a/__init__.py"}


def test_a_root_brings_what_runs_a_script(tmp_path: Path) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/usr/bin/env sh\necho hello\n")
    assert {"usr/bin/mine", "usr/bin/env", "usr/bin/sh"} <= set(sources({"mine": script}, python()))
    for first in (f"#!{tmp_path}/sh", "#!/usr/bin/no-such-thing", "#!/usr/bin/env no-such-thing"):
        script.write_text(f"{first}\n")
        with pytest.raises(Missing, match="mine"):
            sources({"mine": script}, python())


def test_the_first_use_makes_a_kit_and_later_ones_use_it(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After an upgrade of the machine, too, until another is made."""
    first = ready()
    (line,) = caplog.messages
    assert "making a kit" in line
    assert first.digest == kit.in_use().digest  # type: ignore[union-attr]
    assert not first.manifest.kernels and not first.manifest.packages

    upgraded = tmp_path / "tc"
    upgraded.write_bytes(programs(["tc"])["tc"].read_bytes() + b"\0")
    upgraded.chmod(0o755)
    with_program(monkeypatch, "tc", upgraded)
    assert ready().inputs == first.inputs
    second = make(tell=lambda line: None)
    assert second.root_digest != first.root_digest
    assert ready().digest == second.digest
    with_program(monkeypatch, "tc", None)
    assert ready().digest == second.digest


def test_a_kit_is_the_same_wherever_its_programs_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ready()
    with_program(monkeypatch, "ip", Path(shutil.copy(programs(["ip"])["ip"], tmp_path / "ip")))
    assert make(tell=lambda line: None).digest == first.digest


def test_what_is_not_installed_is_left_out_and_refused_when_a_run_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_program(monkeypatch, "ab", None)
    told: list[str] = []
    made = make(tell=told.append)
    assert any(line.endswith(": ab") for line in told)
    assert made.programs(["ip"])["ip"].is_file()
    with pytest.raises(Missing, match=r"apache2-utils.*labs kit make$"):
        made.programs(["ab"])
    with pytest.raises(Missing, match=r"labs kit make --with nghttp$"):
        made.programs(["nghttp"])
    with pytest.raises(Missing, match="nghttp"):
        make(["nghttp"])


def test_a_further_program_stays_in_kits_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    make(["sort"], tell=lambda line: None)
    made = make(["head"], tell=lambda line: None)
    assert {"sort", "head"} <= set(made.programs(["sort", "head"]))
    assert {"sort", "head"} <= choice()[0].keys()


def test_a_file_that_was_damaged_in_the_cache_is_noticed(cache: Path) -> None:
    made = ready()
    made.programs(["tc"])["tc"].write_bytes(b"another")
    with pytest.raises(Damaged, match="labs kit make"):
        made.kept_root()
    assert make(tell=lambda line: None).digest == made.digest
    assert (made.kept_root().folder / "sbin/tc").stat().st_size > 1000


def test_a_cache_that_cannot_be_written_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(Missing, match="XDG_CACHE_HOME"):
        ready()


@pytest.mark.parametrize("name", ["/usr/bin/perl", "../../bin/ls"])
def test_a_path_is_no_name_of_a_program(name: str) -> None:
    with pytest.raises(BadInput):
        choice([name])
    assert kit.in_use() is None
