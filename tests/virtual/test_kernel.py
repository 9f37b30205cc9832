"""What built kernels show when they are booted: the figures that every build is held to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from labs.drive.kernel import build, check, store
from labs.drive.kernel.versions import DEFAULT, SERIES
from labs.errors import Damaged, RunFailed

VERSIONS = [
    DEFAULT if name == DEFAULT else pytest.param(name, marks=pytest.mark.kernel(name))
    for name in SERIES
]


@pytest.mark.parametrize("version", VERSIONS)
def test_check_passes_a_built_kernel(version: str) -> None:
    kernel = store.find(version)
    measured = check.check(kernel.path, kernel.version)
    assert measured["hz"] == kernel.hz == 250
    assert measured["differs"] == []
    recorded = store.record(kernel.folder)["checked"]
    # What was drawn at random follows from the words of the boot, which may have changed since.
    assert {**recorded, "random": ""} == {**measured, "random": ""}


def test_check_measures_the_articles_figures_on_6_1() -> None:
    measured = check.measure(store.find("6.1").path)
    none, half = measured["adv_win_scale_0"], measured["adv_win_scale_1"]
    assert (none["skmem_r"], none["skmem_rb"], none["recv_q"]) == (73_984, 65_536, 62_464)
    assert half["recv_q"] == 57_344


def test_check_refuses_another_release() -> None:
    with pytest.raises(RunFailed, match=r"it reports release 6\.1\.\d+, not 6\.1\.1\."):
        check.check(store.find("6.1").path, "6.1.1")


def test_add_keeps_a_kernel_that_find_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = store.find("6.1")
    file = tmp_path / "a-kernel"
    shutil.copyfile(built.path, file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    kept = build.add(file, built.sha256)
    assert (kept.version, kept.hz, kept.sha256) == (built.version, 250, built.sha256)
    assert store.find("6.1") == kept
    assert [path.name for path in store.own_store().iterdir()] == [built.sha256]


@pytest.mark.parametrize(
    ("program", "says"), [("/bin/true", "fails its check"), ("/etc/passwd", "fails its check")]
)
def test_add_refuses_a_file_that_is_no_kernel(
    program: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    digest = store.digest_of(Path(program))
    with pytest.raises((RunFailed, Damaged), match=says) as refused:
        build.add(Path(program), digest)
    assert "\n" not in str(refused.value)
    assert store.kernels() == ()
    assert list(store.own_store().iterdir()) == []
