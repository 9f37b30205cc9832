"""Stored files, read back: what is no regular file, too large, or not strict JSON is refused."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.record.stored_files import (
    DEEPEST,
    MOST_BYTES,
    check_version,
    parse,
    read_bytes,
    read_json,
)
from labs.errors import BadInput, Damaged


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_file(path: Path) -> None:
    path.with_name("target").write_bytes(b"{}")
    path.symlink_to("target")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def one_tebibyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def nothing(path: Path) -> None:
    pass


OTHERS = {
    pipe: "is not a regular file",
    Path.mkdir: "is not a regular file",
    unix_socket: "cannot be read",
    link_to_zeros: "is a symbolic link",
    link_to_a_file: "is a symbolic link",
    link_to_itself: "is a symbolic link",
    one_tebibyte: f"has 1099511627776 bytes. Allowed: at most {MOST_BYTES}",
    nothing: "is missing",
}


@pytest.mark.parametrize("make", OTHERS)
def test_read_bytes_refuses_what_is_not_a_regular_file(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "file")
    begun, opened = time.monotonic(), len(os.listdir("/proc/self/fd"))
    with pytest.raises(Damaged, match=OTHERS[make]):
        read_bytes(tmp_path / "file")
    assert time.monotonic() - begun < 5
    assert len(os.listdir("/proc/self/fd")) == opened


def test_read_bytes_follows_links_to_regular_files_alone(tmp_path: Path) -> None:
    link_to_a_file(tmp_path / "one")
    link_to_zeros(tmp_path / "other")
    assert read_json(tmp_path / "one", follow=True) == {}
    with pytest.raises(Damaged, match="is not a regular file"):
        read_bytes(tmp_path / "other", follow=True)


def test_read_json_keeps_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'{"a": 1}')
    assert read_json(tmp_path / "file", most_bytes=8) == {"a": 1}
    with pytest.raises(Damaged):
        read_json(tmp_path / "file", most_bytes=7)
    (tmp_path / "file").write_bytes(b"[]")
    with pytest.raises(Damaged, match="is not a JSON object"):
        read_json(tmp_path / "file")


@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"[Infinity]",
        b'{"a":-Infinity}',
        b'{"a":1,"a":2}',
        b"{",
        b"",
        b"[1e999]",
        b"-1e999",
        b"1" + b"0" * 309,
        b"1" + b"0" * 4000,
        b"-1" + b"0" * 100_000,
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b'[["\\ud800"]]',
        b'"\xff"',
        '"é"'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
    ],
)
def test_parse_is_strict(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert not isinstance(caught.value, UnicodeError) and len(str(caught.value)) < 200


def test_parse_of_the_largest_values() -> None:
    assert parse(b"1" + b"0" * 308) == 10**308
    assert parse(b'["\\ud83d\\ude00"]') == ["\N{GRINNING FACE}"]
    assert parse(b"[" * DEEPEST + b"]" * DEEPEST)


def test_check_version_names_another_version() -> None:
    assert check_version(1, "runs/x", 1, 2) == 1
    for found, said in (
        (3, "schema 3"),
        (0, "schema 0"),
        (None, "no schema version"),
        ("1", "no schema version"),
        (True, "no schema version"),
    ):
        with pytest.raises(BadInput, match=f"runs/x has {said}, .* reads schema 1 and 2; "):
            check_version(found, "runs/x", 1, 2)
