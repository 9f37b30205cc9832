"""Restricted Python as C: the same numbers, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from labs.errors import Missing
from labs.read.native.compiled import (
    Bytes,
    Int32s,
    Int64s,
    _library,
    be32,
    be64,
    compiled,
    native,
    rare,
)
from labs.read.native.library import library
from labs.read.native.to_c import translated

PRIMES = (2, 3, 5)


@rare
def halves(number: int) -> tuple[int, int]:
    return (number >> 4, number & 15) if number >= 0 else (-1, max(-number, 1))


@native
def everything(data: Bytes, table: Int32s, found: Int64s, limit: int) -> int:
    total = 0
    for row in range(len(table)):
        if table[row, 1] in PRIMES and row not in (7, limit):
            continue
        high, low = halves(table[row, 0])
        part = found[4 * row : 4 * row + 4]
        part[0], part[1] = high, low
        part[2] = be64(data, row) ^ be32(data, row) >> 3
        part[3] = 10 ** (row % 5) - total // 3
        total += row if high == low or not low < high else -(~low)
        if row == limit:
            break
    while total < 0:
        total += 1 << 40
    return total


def test_everything_is_the_same_in_c_and_in_python() -> None:
    chance = np.random.default_rng(1)
    data = chance.integers(0, 256, 64).astype(np.uint8)
    table = chance.integers(-9, 99, (40, 2)).astype(np.int32)
    found = np.zeros((2, 4 * 40), np.int64)
    compiled_total = everything(data, table, found[0], 30)
    in_python: Callable[..., int] = everything.__wrapped__  # type: ignore[attr-defined]

    assert in_python(data.data, table.data, found[1].data, 30) == compiled_total
    assert found[0].any() and (found[0] == found[1]).all()


def test_rare_function_is_not_made_part_of_its_callers() -> None:
    assert translated(halves, {halves: True}).count("noinline") == 1
    assert "noinline" not in translated(halves, {halves: False})


def test_another_type_of_numbers_is_refused() -> None:
    table = np.zeros((4, 2), np.int64)
    with pytest.raises(TypeError, match="int64"):
        everything(np.zeros(64, np.uint8), table, np.zeros(16, np.int64), 1)


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
def test_only_a_library_that_nobody_else_can_have_written_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    function: Callable[..., int] = everything.__wrapped__  # type: ignore[attr-defined]
    _library(function)
    (kept,) = (tmp_path / "labs" / "compiled").iterdir()
    first = kept.stat()
    _library(function)
    assert kept.stat().st_ino == first.st_ino and first.st_mode & 0o022 == 0

    kept.chmod(0o777)
    _library(function)
    assert kept.stat().st_mode & 0o022 == 0

    kept.rename(tmp_path / "elsewhere.so")
    kept.symlink_to(tmp_path / "elsewhere.so")
    _library(function)
    assert not kept.is_symlink()


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
def test_a_damaged_or_exchanged_library_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    function: Callable[..., int] = everything.__wrapped__  # type: ignore[attr-defined]
    _library(function)
    (kept,) = (tmp_path / "labs" / "compiled").iterdir()
    good, chance = kept.read_bytes(), random.Random(1)
    source = "int f_another(void) { return 7; }"
    assert library("another-0", lambda: source).f_another() == 7
    (another,) = kept.parent.glob("another-*")
    damaged = [another.read_bytes(), good[:4096], good[:-1], b"", b"not a library"]
    for _ in range(30):
        flipped = bytearray(good)
        flipped[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        damaged.append(bytes(flipped))
    for content in damaged:
        kept.unlink()  # the process has loaded the file
        kept.write_bytes(content)
        assert _library(function).f_everything is not None
        assert kept.read_bytes() == good
    exchanged = another.with_name(f"another-0-{kept.stem[-32:]}.so")
    another.unlink()
    kept.rename(exchanged)
    assert library("another-0", lambda: source).f_another() == 7
    assert another.exists() and not exchanged.exists()


def test_a_compiler_that_fails_is_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, log = tmp_path / "cc", tmp_path / "log"
    compiler.write_text(f"#!/bin/sh\necho started >> {log}\necho 'error: broken' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(Missing, match="error: broken"):
        _library(everything.__wrapped__)  # type: ignore[attr-defined]
    assert log.read_text() == "started\n"


@compiled
def with_a_float(number: int) -> int:
    return int(number * 0.5)


@compiled
def with_two_comparisons(number: int) -> int:
    return 0 < number < 9


@compiled
def with_a_list(number: int) -> int:
    return len([number])


@pytest.mark.parametrize("function", [with_a_float, with_two_comparisons, with_a_list])
def test_what_c_would_do_otherwise_is_refused(function: Callable[[int], int]) -> None:
    with pytest.raises(TypeError, match="is not restricted"):
        translated(function, {function: False})
