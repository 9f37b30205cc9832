"""Runs of a kit: the same bytes as with this machine's programs, of which nothing is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.drive.kernel import kit, store
from labs.errors import Missing
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch import inventory
from labs.launch import kit as made_of
from labs.launch.plan import plan
from labs.read.runs.run import Run
from tests.kept_runs import make

DIFFERENT = {"run.json", "host.json", "seal.json"}
"""The inputs, the host and the digests."""


def off(runs: Path) -> Run:
    study = make(find("nagle"), Nagle(runs=str(runs), only="off"))
    return study.runs[0]


def raw(run: Run) -> dict[str, bytes]:
    """The raw output of a run by the paths in its folder."""
    files = [path for path in run.path.rglob("*") if path.is_file()]
    by_name = {str(path.relative_to(run.path)): path for path in files}
    return {name: path.read_bytes() for name, path in by_name.items() if name not in DIFFERENT}


def absent(name: str) -> Path:
    raise Missing(f"{name} is not installed")


@pytest.fixture
def another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this process one of a new user, with this machine's kernels."""
    monkeypatch.setenv("LABS_KERNELS", str(store.find("6.1").folder.parent))
    return lambda name: monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))


def test_a_kit_gives_the_same_bytes_and_needs_no_program_of_the_machine(
    tmp_path: Path, another_cache: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = off(tmp_path / "here")
    another_cache("maker")
    parts = made_of.ingredients()
    monkeypatch.setattr(made_of, "ingredients", lambda: parts)
    packed = tmp_path / "kit.tar.xz"
    first = made_of.make(packed, tell=lambda line: None)
    assert made_of.make(None, tell=lambda line: None).digest == first.digest
    assert packed.stat().st_size < 40 << 20
    assert set(first.manifest.packages) >= {"nginx", "iproute2", "tcpdump", "apache2-utils"}

    another_cache("user")
    monkeypatch.delenv("LABS_KERNELS")
    monkeypatch.setattr(inventory, "find", absent)
    assert kit.use(packed).digest == first.digest
    there = off(tmp_path / "there")
    assert raw(there) == raw(here) != {}
    tools: dict[str, Any] = there.inputs["tools"]
    assert [*tools] == ["kit"]
    (planned,) = plan(find("nagle"), Nagle(runs=str(tmp_path / "there"), only="off"))
    assert planned.key == there.key

    kit.choose(kit.NONE)
    with pytest.raises(Missing):
        plan(find("nagle"), Nagle(runs=str(tmp_path / "there"), only="off"))
