"""Stored files, read back."""

from __future__ import annotations

import pytest

from labs.drive.record.stored_files import check_version, parse
from labs.errors import BadInput


@pytest.mark.parametrize(
    "text", [b"NaN", b"[Infinity]", b'{"a":-Infinity}', b'{"a":1,"a":2}', b"{", b""]
)
def test_parse_is_strict(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


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
