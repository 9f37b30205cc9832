"""Answers that another process finds again, in the user's cache.

What takes time and depends on known contents alone is asked for again in each process: what a
simulation says of a transfer, what a file imports, the digest of a tool. A line of a kept file is a
question with its answer. The name of the file is a digest of the sources that answer: sources that
were changed find no answers of the former ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from labs.drive.record import disk
from labs.errors import Missing

PACKAGE = Path(__file__).parents[2]


def digest_of(*patterns: str, and_also: Sequence[str] = ()) -> str:
    """The digest of sources within the package, which names the file of what they answered; of
    versions of libraries, too, if the answers depend on them. `read/**` names all sources (ENDINGS)
    in a folder and below it."""
    files = [file for pattern in patterns for file in sorted(_sources(pattern))]
    texts = (sys.version, *and_also)
    parts = [*(text.encode() for text in texts), *(Path(file).read_bytes() for file in files)]
    return sha256(b"\0".join(parts)).hexdigest()[:32]


def _sources(pattern: str) -> Iterator[str]:
    """The files that a pattern names. os.walk is faster than Path.glob."""
    if not pattern.endswith("/**"):
        yield from map(str, PACKAGE.glob(pattern))
        return
    for above, _, names in os.walk(PACKAGE / pattern.removesuffix("/**")):
        for name in names:
            if name.endswith(ENDINGS) and not name.startswith("."):
                yield f"{above}/{name}"


ENDINGS = (".py", ".json", ".toml")


BEFORE, BETWEEN, AFTER = b'{"question": ', b', "answer": ', b"}"
"""A line around its two texts of JSON."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """The answer to a question, both one line of JSON: from the cache, or made and then kept.

    `digest` is that of the sources that answer. Without a cache that can be read and written, each
    answer is made.
    """
    file = _file(digest)
    if file is None:
        return answer()
    known, asked = _known(file), question.encode()
    said = bytes(known.get(asked, b""))
    if not _is_json(said):
        known[asked] = said = answer().encode()
        _append(file, b"".join((BEFORE, asked, BETWEEN, said, AFTER, b"\n")))
    return said.decode()


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode())  # of bytes, json.loads would guess the encoding
    except ValueError:
        return False
    return True


def _file(digest: str) -> Path | None:
    """The file of the answers of sources; None for a user without a home."""
    try:
        return disk.cache() / "answers" / f"{digest}.jsonl"
    except Missing:
        return None


@cache
def _known(file: Path) -> dict[bytes, bytes | memoryview]:
    """The answers in a file by their questions. Lines are split, not parsed, and answers are not
    copied, because only a few of thousands are asked for. Lines that are not whole are left out."""
    try:
        content = file.read_bytes()
    except OSError:
        return {}
    known: dict[bytes, bytes | memoryview] = {}
    view, start = memoryview(content), 0
    while (end := content.find(b"\n", start)) >= 0:
        between = content.find(BETWEEN, start, end)
        whole = content.startswith(BEFORE, start) and content.endswith(AFTER, start, end)
        if whole and between >= 0:
            question = content[start + len(BEFORE) : between]
            known[question] = view[between + len(BETWEEN) : end - len(AFTER)]
        start = end + 1
    return known


def _append(file: Path, line: bytes) -> None:
    """Add a line in a single write, so that processes side by side do not mix their lines."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | disk.NOT_A_LINK
        opened = os.open(file, flags, 0o600)
    except OSError:
        return
    try:
        os.write(opened, line)
    except OSError:
        pass
    finally:
        os.close(opened)
