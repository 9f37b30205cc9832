"""YAML from anybody is read into plain values with lines, or refused within limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labs.batches.plan_source import DEEPEST, MOST_BYTES, MOST_VALUES, read_source
from labs.errors import BadInput
from tests.plans import refused_at, write_plan

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcde", "bcdef", strict=True)
)


def test_read_source_keeps_the_line_of_every_place(tmp_path: Path) -> None:
    text = (
        'A: 1\n\nB:\n  - x\n  # note\n  - {from: 1,\n     to: 2}\n"C": [true, null, 2001-01-01]\n'
    )
    source = read_source(write_plan(tmp_path, text))
    assert source.content == {
        "A": 1,
        "B": ["x", {"from": 1, "to": 2}],
        "C": [True, None, "2001-01-01"],
    }
    places = [("A",), ("B",), ("B", 0), ("B", 1), ("B", 1, "to"), ("C",), ("C", 2)]
    assert [source.line(*place) for place in places] == [1, 3, 4, 6, 7, 8, 8]
    assert source.line("B", 1, "steps") == 6 and source.line("D") == 1


def test_read_source_reads_json_with_tabs_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbf{\r\n\t"A": [1, 2.5],\r\n\t"B": "x\\/y"}'
    source = read_source(write_plan(tmp_path, text, name="plan.json"))
    assert source.content == {"A": [1, 2.5], "B": "x/y"} and source.line("B") == 3


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("# nothing\n", 1),
        ("- a\n", 1),
        ("a: [b", 1),
        ("a: 1\n b: 2\n", 2),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\nb: 2\na: 3\n", 3),
        ("a:\n  b: 1\n  b: 2\n", 3),
        ("a: 1\n2: 3\n", 2),
        ("a: 1\n[b]: 3\n", 2),
        ("a: 1\non: 3\n", 2),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", 3),
        ("a: 1\nb: *c\n", 2),
        ("a: &rates [1, 2]\nb: *rates\n", 2),
        ("a: &a\n - *a\n", 2),
        ("a: 1\nb: {<<: {c: 1}}\n", 2),
        ("\n" + LAUGHS, 3),
        ("a: 1\nb: " + "[" * 100_000, 2),
        ("a: 1\nb: " + "{" * 100_000, 2),
        ("a:\n" + "- " * 1000, 2),
        (f"a: [{'1, ' * MOST_VALUES}]", 1),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2),
        ("a: 1\nb: !!python/name:os.system ''\n", 2),
        ("a: 1\nb: !!binary eA==\n", 2),
        ("a: 1\nb: !!set {x}\n", 2),
        ("a: 1\nb: !!int x\n", 2),
        ("a: 1\nb: !!bool x\n", 2),
        (f"a: 1\nb: {'9' * 5000}\n", 2),
        (f"a: 1\nb: 0x{'f' * 5000}\n", 2),
        ('a: 1\nb: "\\ud800"\n', 2),
        (b"a: 1\nb: \xff\n", 2),
        (b"a: 1\n\x00\x01", 2),
        (b"\x89PNG\r\n\x1a\n", 1),
        (b"\x1f\x8b\x08\x00", 1),
    ],
)
def test_read_source_refuses_with_the_line(tmp_path: Path, content: str | bytes, line: int) -> None:
    assert refused_at(write_plan(tmp_path, content)) == line


def test_read_source_accepts_the_deepest_nesting(tmp_path: Path) -> None:
    depth = DEEPEST - 2  # the mapping and the innermost value are levels too
    source = read_source(write_plan(tmp_path, f"a: {'[' * depth}1{']' * depth}"))
    assert source.line("a") == 1


def test_read_source_follows_a_link(tmp_path: Path) -> None:
    """A ConfigMap of Kubernetes mounts its files as links."""
    (tmp_path / "plan.yaml").symlink_to(write_plan(tmp_path, "lab: buffers\n", name="other.yaml"))
    assert read_source(tmp_path / "plan.yaml").content == {"lab": "buffers"}


@pytest.mark.parametrize("kind", ["gone", "folder", "pipe", "dangling", "device", "large"])
def test_read_source_refuses_what_is_not_a_small_regular_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "plan.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "device":
        path = Path(os.devnull)
    elif kind == "large":
        path.touch()
        os.truncate(path, 100 * MOST_BYTES)
    with pytest.raises(BadInput) as caught:
        read_source(path)
    assert str(caught.value).startswith(str(path)) and type(caught.value) is BadInput
