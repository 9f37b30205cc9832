"""Answers that another process finds again, and what happens to damaged ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.record import kept_answers
from labs.drive.record.kept_answers import digest_of, kept

SOURCES = digest_of("errors.py")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of kept answers of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept_answers._known.cache_clear()
    yield tmp_path / "labs" / "answers" / f"{SOURCES}.jsonl"
    kept_answers._known.cache_clear()


ANSWERS = {
    "not text": b'"\xff"',
    "a surrogate": b'"\xed\xa0\x80"',
    "a mark of bytes": b"\xef\xbb\xbf1",
    "another encoding": b"1\0",
}
"""Answers that are not JSON in UTF-8, though `json.loads` reads some of them as bytes."""


@pytest.mark.parametrize("damage", ["half", "another form", "of an earlier version", *ANSWERS])
def test_kept_leaves_damaged_lines_out(file: Path, damage: str) -> None:
    kept('"first"', lambda: "1", SOURCES)
    kept('"second"', lambda: "2", SOURCES)
    lines = file.read_bytes().splitlines(keepends=True)
    if damage == "half":
        file.write_bytes(lines[0] + lines[1][:-8])
    elif damage in ANSWERS:
        file.write_bytes(lines[0] + lines[1].replace(b"2}", ANSWERS[damage] + b"}"))
    elif damage == "of an earlier version":
        file.write_bytes(lines[0] + b'{"question": "second", "answer": 2}\n')
    else:
        file.write_bytes(lines[0] + b'[1]\n{"question": "second"}\n7\n')
    kept_answers._known.cache_clear()
    assert kept('"second"', lambda: "3", SOURCES) == "3"
    assert kept('"first"', lambda: "4", SOURCES) == "1"


def test_kept_computes_an_answer_again_of_which_any_character_was_changed(file: Path) -> None:
    question, answer = '"mean_ms"', "40.061"
    assert kept(question, lambda: answer, SOURCES) == answer
    good = file.read_bytes()
    for at in range(len(good) - 1):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        kept_answers._known.cache_clear()
        assert kept(question, lambda: "again", SOURCES) == "again"
        kept_answers._known.cache_clear()
        assert kept(question, lambda: "not asked", SOURCES) == "again"


def test_kept_does_not_use_the_answer_of_other_sources(file: Path) -> None:
    other = digest_of("catalog.py")
    kept('"question"', lambda: "1", SOURCES)
    file.rename(file.with_name(f"{other}.jsonl"))
    assert kept('"question"', lambda: "2", other) == "2"


@pytest.mark.parametrize("change", ["group", "two names", "link"])
def test_kept_replaces_a_file_that_others_may_have_written(
    file: Path, tmp_path: Path, change: str
) -> None:
    kept('"question"', lambda: "1", SOURCES)
    if change == "group":
        file.chmod(0o620)
    elif change == "two names":
        os.link(file, tmp_path / "other")
    else:
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other")
    for answer, expected in (("2", "2"), ("3", "2")):
        kept_answers._known.cache_clear()
        assert kept('"question"', lambda answer=answer: answer, SOURCES) == expected  # type: ignore[misc]
    assert file.stat().st_mode & 0o777 == 0o600 and not file.is_symlink()


@pytest.mark.parametrize("obstacle", ["file", "link", "no home"])
def test_kept_answers_without_a_cache(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    other = tmp_path / "other"
    if obstacle == "file":
        file.parent.parent.write_text("in the way")
    elif obstacle == "link":
        file.parent.mkdir(parents=True)
        file.symlink_to(other)
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "")
    assert kept('"question"', lambda: "5", SOURCES) == "5"
    assert not other.exists()


def test_any_changed_digit_is_computed_again(file: Path) -> None:
    """40.061 ms must not become 3.21 by an edit: question and answer have a digest."""
    kept('"mean_ms"', lambda: "40.061", SOURCES)
    whole = file.read_bytes()
    start = whole.index(b"40.061")
    for at in (start, start + 1, start + 3, start + 4, start + 5, whole.index(b'": "') + 5):
        changed = b"7" if whole[at : at + 1] != b"7" else b"8"
        file.write_bytes(whole[:at] + changed + whole[at + 1 :])
        for _ in range(2):
            kept_answers._known.cache_clear()
            assert kept('"mean_ms"', lambda: "40.061", SOURCES) == "40.061"
    assert file.read_bytes().count(b"\n") == 2  # and the damaged line was replaced


def test_files_of_many_versions_of_sources_are_removed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST_FILES", 2)
    for at in range(4):
        kept('"question"', lambda: "1", str(at) * 32)
    names = {path.name for path in file.parent.iterdir()}
    assert len(names) == 2 and f"{'3' * 32}.jsonl" in names
