"""Canonical JSON: one text for one value."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.drive.record.canonical import canonical, digest, key, parse, pretty
from labs.errors import BadInput

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
def test_reading_it_back_gives_an_equal_value(value: Any) -> None:
    assert parse(canonical(value)) == value
    assert parse(pretty(value)) == value


@given(values)
def test_the_bytes_are_a_fixed_point(value: Any) -> None:
    assert canonical(parse(canonical(value))) == canonical(value)
    assert canonical(parse(pretty(value))) == canonical(value)


@given(values)
def test_order_and_kind_of_number_do_not_matter(value: Any) -> None:
    assert canonical(as_floats(value)) == canonical(value)


@given(values)
def test_it_is_ascii_without_spaces_outside_of_text(value: Any) -> None:
    text = canonical(value)
    assert text.isascii() and b"\n" not in text
    assert json.loads(text) == value


@given(values, values)
def test_equal_bytes_mean_equal_values(one: Any, other: Any) -> None:
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
def test_texts_that_keys_stand_on(value: object, text: bytes) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_with_its_place(value: float) -> None:
    with pytest.raises(BadInput, match=r"^link\.measured\.1 is "):
        canonical({"link": {"measured": [1, value]}})


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, b"bytes", {"a", "b"}, Path(), 1j])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(BadInput) as caught:
        canonical(value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"NaN", b"[Infinity]", b'{"a":-Infinity}', b'{"a":1,"a":2}', b"{", b""]
)
def test_reading_is_strict(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_pretty_is_for_people() -> None:
    assert pretty({"b": [1.0], "a": "x"}) == b'{\n "a": "x",\n "b": [\n  1\n ]\n}\n'


def test_digest_of_bytes_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"abc") == digest(tmp_path / "file") == expected


def test_key_is_the_digest_of_the_canonical_inputs() -> None:
    assert key({"delay_ms": 200.0, "at": "server"}) == digest(b'{"at":"server","delay_ms":200}')
