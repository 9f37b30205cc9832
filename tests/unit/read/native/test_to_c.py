"""Restricted Python as C: the same numbers, or refused."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, ignore_patterns, which
from typing import Any

import numpy as np
import pytest

from labs.read.native import build as building
from labs.read.native import compiled
from labs.read.native.build import FLAGS, build, library_text, sources
from labs.read.native.compiled import (
    Arrays,
    Bytes,
    Int32s,
    Int64s,
    Record,
    Records,
    Uint16s,
    be32,
    be64,
    le16,
    rare,
    record,
    scrambled,
    symbol_of,
)
from labs.read.native.to_c import Program, passes

ROOT = Path(__file__).parents[4]
PRIMES = (2, 3, 5)
needs_compiler = pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")


@record
class End(Record):
    port: int
    bytes: int


@record
class Pair(Record):
    client: End
    server: End
    seen: int


class Columns(Arrays):
    port: Uint16s
    total: Int64s

    def __init__(self, rows: int) -> None:
        self.port = np.zeros(rows, np.uint16)
        self.total = (ctypes.c_int64 * rows)()


@rare
def halves(number: int) -> tuple[int, int]:
    return (number >> 4, number & 15) if number >= 0 else (-1, max(-number, 1))


def everything(
    data: Bytes, table: Int32s, pairs: Records[Pair], columns: Columns, limit: int
) -> int:
    total = 0
    for row in range(len(pairs)):
        if table[row, 1] in PRIMES and row not in (7, limit):
            continue
        high, low = halves(table[row, 0])
        pair = pairs[row]
        side = pair.client if table[row, 1] & 1 else pair.server
        side.port, side.bytes = be32(data, row) >> 16, scrambled(be64(data, row)) >> 8
        side.bytes += 10 ** (row % 5) - total // 3
        pair.seen += 1
        columns.port[row] = side.port
        columns.total[row] = side.bytes ^ le16(data, row)
        columns.total[row] -= high
        total += row if high == low or not low < high else -(~low)
        if row == limit:
            break
    while total < 0:
        total += 1 << 40
    return total


def outside(data: Bytes, place: int) -> int:
    return data[place]


def beyond_the_row(table: Int32s, column: int) -> int:
    return table[0, column]


def too_large(columns: Columns, value: int) -> None:
    columns.port[0] = value


def overflowing(value: int) -> int:
    return value * value


def with_a_list(value: int) -> int:
    return len([value])


def with_a_slice(data: Bytes) -> int:
    return len(data[1:2])  # type: ignore[arg-type]


def with_two_kinds(value: int) -> int:
    return int((1 if value else 2.5) > 1)


def with_an_argument_too_many(data: Bytes) -> int:
    return outside(data, 1, 2)  # type: ignore[call-arg]


def with_an_unknown_argument(data: Bytes) -> int:
    return outside(data, 1, other=2)  # type: ignore[call-arg]


def with_a_float_for_an_integer(data: Bytes) -> int:
    return outside(data, 1 / 2)  # type: ignore[arg-type]


def with_a_float_returned(data: Bytes) -> int:
    return len(data) / 2  # type: ignore[return-value]


def with_an_unknown_type(value: list[int]) -> int:
    return len(value)


def performed(function: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function as C."""
    file = folder / "made.so"
    texts = {"library": library_text(""), "passes": passes([function])}
    build(file, texts, ("cc", *FLAGS))
    monkeypatch.setattr(compiled, "library", lambda: ctypes.CDLL(str(file)))
    return compiled._as_c(function, symbol_of(function))


def _numbers(given: Any) -> list[int]:
    return list(map(int, given))


@needs_compiler
def test_everything_is_the_same_in_c_and_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(1)
    data = chance.integers(0, 256, 64).astype(np.uint8)
    table = chance.integers(-9, 99, (40, 2)).astype(np.int32)
    made = []
    for perform in (performed(everything, tmp_path, monkeypatch), compiled._as_python(everything)):
        pairs, columns = (Pair * 40)(), Columns(40)
        total = perform(data, table, pairs, columns, 30)
        made.append((total, bytes(pairs), *map(_numbers, (columns.port, columns.total))))
    assert made[0] == made[1]
    assert any(made[0][1]) and any(made[0][2])


@needs_compiler
@pytest.mark.parametrize(
    ("function", "given"),
    [
        (outside, (np.zeros(4, np.uint8), 4)),
        (outside, (np.zeros(4, np.uint8), -1)),
        (beyond_the_row, (np.zeros((4, 2), np.int32), 2)),
        (too_large, (Columns(1), 1 << 16)),
        (too_large, (Columns(1), -1)),
        (overflowing, (1 << 32,)),
    ],
)
def test_what_is_out_of_range_is_refused(
    function: Any, given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IndexError, match="out of range"):
        performed(function, tmp_path, monkeypatch)(*given)


def test_rare_function_is_not_made_part_of_its_callers() -> None:
    text = passes([everything])
    assert "RARE static tuple2 test_to_c_halves(" in text
    assert "RARE static int64_t" not in text


@pytest.mark.parametrize(
    "function",
    [
        with_a_list,
        with_a_slice,
        with_two_kinds,
        with_an_argument_too_many,
        with_an_unknown_argument,
        with_a_float_for_an_integer,
        with_a_float_returned,
    ],
)
def test_another_construct_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="is not restricted"):
        passes([function])


def test_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no type in C"):
        Program({}).exported(with_an_unknown_type)
    with pytest.raises(TypeError, match="in place of"):
        compiled._as_python(outside)(np.zeros(4, np.int64), 1)


def test_all_passes_and_simulations_can_be_translated() -> None:
    """Whatever is `native` is in the library, and so is each kind of simulation."""
    texts = sources()
    for symbol in compiled.NATIVE:
        assert f"perform_{symbol}(" in texts["passes"]
    assert len(texts) == 2 + 4
    for path in ROOT.glob("labs/read/**/*.py"):
        if "@native" in path.read_text():
            module = ".".join(path.relative_to(ROOT / "labs/read").with_suffix("").parts)
            assert module in building.PASSES, module
            importlib.import_module(f"labs.read.{module}")


def test_without_a_library_the_same_source_is_performed_and_one_line_says_so(
    tmp_path: Path,
) -> None:
    copytree(ROOT / "labs", tmp_path / "labs", ignore=ignore_patterns("compiled-*", "__pycache__"))
    code = (
        "import sys; from labs.read.capture import read; table = read(sys.argv[1]);"
        "read(sys.argv[1]); print(len(table), table['seq_rel'].sum())"
    )
    capture = str(ROOT / "data" / "explain-delayed-ACK.pcap.gz")
    done = [
        subprocess.run(
            [sys.executable, "-c", code, capture], cwd=cwd, capture_output=True, text=True
        )
        for cwd in (tmp_path, ROOT)
    ]
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr.count("\n") == 1 and "make ready" in done[0].stderr
