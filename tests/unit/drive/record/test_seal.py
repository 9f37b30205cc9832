"""Canonical JSON, digests and keys; seals, and what was changed under them."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.drive.record.seal import (
    canonical,
    check_contents,
    compute,
    digest,
    key,
    pretty,
    read_seal,
    verify,
)
from labs.drive.record.stored_files import parse
from labs.errors import BadInput, Damaged, LabError, RunFailed
from tests.run_folders import make_run

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


def as_floats(value: Any) -> Any:
    """The same value with every integer that a float can hold written as a float."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        return float(value) if float(value) == value else value
    if isinstance(value, dict):
        return {name: as_floats(item) for name, item in reversed(value.items())}
    return [as_floats(item) for item in value]


@given(values)
def test_canonical_reads_back_equal(value: Any) -> None:
    assert parse(canonical(value)) == value
    assert parse(pretty(value)) == value


@given(values)
def test_canonical_is_a_fixed_point(value: Any) -> None:
    assert canonical(parse(canonical(value))) == canonical(value)
    assert canonical(parse(pretty(value))) == canonical(value)


@given(values)
def test_canonical_ignores_order_and_kind_of_number(value: Any) -> None:
    assert canonical(as_floats(value)) == canonical(value)


@given(values)
def test_canonical_is_ascii_on_one_line(value: Any) -> None:
    text = canonical(value)
    assert text.isascii() and b"\n" not in text
    assert json.loads(text) == value


@given(values, values)
def test_canonical_is_equal_for_equal_values_alone(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (_typed(one) == _typed(other))


def _typed(value: Any) -> Any:
    """A value in which true and 1 are told apart, as JSON does."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (200.0, b"200"),
        (200, b"200"),
        (-0.0, b"0"),
        (0.1, b"0.1"),
        (1e-7, b"1e-07"),
        (1e22, b"10000000000000000000000"),
        (2**53 + 1, b"9007199254740993"),
        (True, b"true"),
        ((1, [2.5]), b"[1,[2.5]]"),
        ({"b": 1, "a": {"d": None, "c": "é"}}, b'{"a":{"c":"\\u00e9","d":null},"b":1}'),
    ],
)
def test_canonical_text_of_known_values(value: object, text: bytes) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_canonical_refuses_nan_and_infinity(value: float) -> None:
    with pytest.raises(BadInput, match=r"^link\.measured\.1 is "):
        canonical({"link": {"measured": [1, value]}})


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, b"bytes", {"a", "b"}, Path(), 1j])
def test_canonical_refuses_other_types(value: object) -> None:
    with pytest.raises(BadInput) as caught:
        canonical(value)
    assert "\n" not in str(caught.value)


def test_pretty_is_indented() -> None:
    assert pretty({"b": [1.0], "a": "x"}) == b'{\n "a": "x",\n "b": [\n  1\n ]\n}\n'


def test_digest_of_bytes_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"abc") == digest(tmp_path / "file") == expected


def test_key_is_the_digest_of_the_canonical_inputs() -> None:
    assert key({"delay_ms": 200.0, "at": "server"}) == digest(b'{"at":"server","delay_ms":200}')


def test_seal_names_every_file_but_host_json(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    seal = json.loads((folder / "seal.json").read_bytes())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(seal["files"]) == files - {"seal.json", "host.json"}
    assert seal["digest"] == digest(canonical(seal["files"])) == read_seal(folder).digest
    assert seal["files"]["run.json"] == digest(folder / "run.json")


def test_compute_refuses_what_could_not_be_read(tmp_path: Path) -> None:
    for name, size in (("run.json", 1 << 20), ("client/fetch.json", 8 << 20), ("x", 8 << 30)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size + 1)
        with pytest.raises(RunFailed, match=f"{name} has {size + 1} bytes"):
            check_contents(tmp_path)
        path.unlink()
    for number in range(7000):
        (tmp_path / f"{number:0100}").touch()
    with pytest.raises(RunFailed, match="7000 files, too many"):
        compute(tmp_path)


def test_seal_is_equal_for_equal_bytes(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", host={"pid": 1, "real_s": 2.5})
    other = make_run(tmp_path / "b", host={"pid": 2, "load": [0.1]})
    assert verify(one) == verify(other)
    assert (one / "seal.json").read_bytes() == (other / "seal.json").read_bytes()
    assert verify(make_run(tmp_path / "c", note=b"x")).digest != verify(one).digest


def change(folder: Path) -> None:
    (folder / "server/nginx.conf").write_bytes(b"worker_processes 2;\n")


def remove(folder: Path) -> None:
    (folder / "server/nginx.conf").unlink()


def add(folder: Path) -> None:
    (folder / "server/nginx.conf.bak").write_bytes(b"")


def link(folder: Path) -> None:
    path = folder / "server/nginx.conf"
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")


def replace_by_folder(folder: Path) -> None:
    remove(folder)
    (folder / "server/nginx.conf").mkdir()


@pytest.mark.parametrize(
    ("by_hand", "what"),
    [
        (change, "server/nginx.conf was changed"),
        (remove, "server/nginx.conf is missing"),
        (add, "server/nginx.conf.bak was added"),
        (link, "server/nginx.conf was changed"),
        (replace_by_folder, "server/nginx.conf is missing"),
    ],
)
def test_verify_finds_a_change_by_hand(
    tmp_path: Path, by_hand: Callable[[Path], None], what: str
) -> None:
    folder = make_run(tmp_path)
    by_hand(folder)
    with pytest.raises(Damaged, match=what) as caught:
        verify(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_verify_names_the_first_file(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "zz").write_bytes(b"")
    (folder / "server/nginx.conf").write_bytes(b"")
    (folder / "client/fetch.json").unlink()
    with pytest.raises(Damaged, match=r"client/fetch\.json is missing"):
        verify(folder)


def test_verify_ignores_host_json(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "host.json").write_bytes(b"{}")
    verify(folder)
    (folder / "host.json").unlink()
    verify(folder)


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        (b"", Damaged, "is not JSON"),
        (b"[]", Damaged, "is not a JSON object"),
        (b'{"schema":2}', BadInput, "schema 2, and this version of labs reads schema 1"),
        (b'{"files":{}}', BadInput, "no schema version"),
        (b'{"schema":true,"files":{}}', BadInput, "no schema version"),
        (b'{"schema":1,"files":{"run.json":"00"},"digest":"00"}', Damaged, "was changed"),
        (b'{"schema":1,"digest":"00"}', Damaged, "was changed"),
        (b'{"schema":1,"files":{},"files":{},"digest":"00"}', Damaged, "is not JSON"),
        (b'{"schema":1,"files":' + b'{"a":' * 900 + b"1" + b"}" * 901, Damaged, "levels deep"),
        (b"[" * 100_000, Damaged, "levels deep"),
    ],
)
def test_read_seal_refuses_other_text(
    tmp_path: Path, text: bytes, error: type[LabError], what: str
) -> None:
    folder = make_run(tmp_path)
    (folder / "seal.json").write_bytes(text)
    with pytest.raises(error, match=what):
        read_seal(folder)


def test_read_seal_refuses_other_folders(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a folder"):
        read_seal(tmp_path / "nothing")
    with pytest.raises(BadInput, match="is not a run"):
        read_seal(tmp_path)
    folder = make_run(tmp_path)
    (folder / "seal.json").unlink()
    with pytest.raises(Damaged, match=r"seal\.json is missing"):
        verify(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_verify_of_an_unreadable_file(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "server/nginx.conf").chmod(0)
    with pytest.raises(Damaged, match=r"nginx\.conf cannot be read \(Permission denied\)"):
        verify(folder)
    (folder / "server").chmod(0)
    with pytest.raises(Damaged, match=r"server cannot be read \(Permission denied\)"):
        verify(folder)
    (folder / "server").chmod(0o755)


def test_verify_of_folders_deeper_than_the_stack(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)
    with pytest.raises(Damaged):
        verify(folder)
    subprocess.run(["rm", "-r", str(folder)], check=True)


def test_verify_of_a_copy(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    shutil.copytree(folder, tmp_path / "copy")
    assert verify(tmp_path / "copy") == verify(folder)
