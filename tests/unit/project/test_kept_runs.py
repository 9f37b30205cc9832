"""Runs that are kept for tests: what is taken, and that only what was kept here is removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from labs.read.runs.run import open_run
from tests import kept_runs
from tests.kept_runs import MOST_BYTES, UNUSED_S, clear, keep, take, text
from tests.run_folders import inputs, make_run

KEY = "a" * 64


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return make_run(tmp_path / "made", inputs())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "test-runs"


def test_take_gives_the_run_that_was_kept(
    made: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(made)
    taken = tmp_path / "runs" / made.name
    assert not take(store, run.key, taken)
    keep(store, run.key, made)
    assert take(store, run.key, taken)
    assert open_run(taken).digest == run.digest
    assert [one.name for one in store.iterdir()] == [run.key]
    monkeypatch.setenv("LABS_FRESH", "1")
    assert not take(store, run.key, tmp_path / "fresh" / made.name)


def test_take_refuses_a_run_that_was_changed_or_has_another_key(
    made: Path, store: Path, tmp_path: Path
) -> None:
    key = open_run(made).key
    taken = tmp_path / "runs" / made.name
    keep(store, KEY, made)
    assert not take(store, KEY, taken)
    keep(store, key, made)
    with (store / key / made.name / "run.json").open("a") as file:
        file.write(" ")
    assert not take(store, key, taken)
    assert not taken.exists() and list(store.iterdir()) == []
    keep(store, key, made)
    assert take(store, key, taken)


def test_keep_replaces_an_earlier_run(made: Path, store: Path, tmp_path: Path) -> None:
    key = open_run(made).key
    keep(store, key, made)
    (store / key / made.name / "run.json").write_text("")
    keep(store, key, made)
    assert take(store, key, tmp_path / "runs" / made.name)


def test_links_are_not_followed(made: Path, store: Path, tmp_path: Path) -> None:
    """Neither one in place of an entry nor one inside leads to what is taken or removed."""
    key = open_run(made).key
    theirs = tmp_path / "theirs"
    shutil.copytree(made, theirs / made.name)
    store.mkdir()
    (store / key).symlink_to(theirs)
    (store / KEY).mkdir()
    (store / KEY / made.name).symlink_to(theirs / made.name)
    os.utime(store / KEY, (0, 0))
    for one in (key, KEY):
        assert not take(store, one, tmp_path / "runs" / made.name)
    assert clear(store, UNUSED_S + 1.0) == [KEY]
    assert (store / key).is_symlink()
    keep(store, key, made)
    assert not (store / key).is_symlink()
    assert open_run(theirs / made.name).key == key


def test_clear_removes_what_was_not_used_for_long(made: Path, store: Path) -> None:
    keys = {used_s: f"{used_s:064x}" for used_s in (1, 1000)}
    for used_s, key in keys.items():
        keep(store, key, made)
        os.utime(store / key, (used_s, used_s))
    (store / "other").mkdir()
    os.utime(store / "other", (0, 0))
    assert clear(store, UNUSED_S + 500.0) == [keys[1]]
    assert sorted(one.name for one in store.iterdir()) == sorted([keys[1000], "other"])


def test_clear_keeps_the_most_recent_runs_within_the_limit(
    made: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"{number:064x}" for number in range(3)]
    for used_s, key in enumerate(keys):
        keep(store, key, made)
        os.utime(store / key, (used_s, used_s))
    assert clear(store, 10.0) == [] and MOST_BYTES == 2 << 30
    size = sum(path.lstat().st_size for path in (store / keys[0]).rglob("*"))
    monkeypatch.setattr(kept_runs, "MOST_BYTES", 2 * size)
    assert clear(store, 10.0) == [keys[0]]


def test_text_is_made_once_per_key(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text(store, KEY, lambda: "one") == "one"
    assert text(store, KEY, lambda: "other") == "one"
    assert text(store, "b" * 64, lambda: "other") == "other"
    monkeypatch.setenv("LABS_FRESH", "1")
    assert text(store, KEY, lambda: "fresh") == "fresh"
    monkeypatch.delenv("LABS_FRESH")
    assert text(store, KEY, lambda: "later") == "fresh"
    (store / KEY / "text").unlink()
    (store / KEY / "text").symlink_to("/etc/hostname")
    assert text(store, KEY, lambda: "made") == "made"
