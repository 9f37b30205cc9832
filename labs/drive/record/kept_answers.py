"""Answers that another process finds again, in the user's cache.

Each process needs some slow results that depend on known contents alone: the simulation of a
transfer, the imports of a file, the digest of a tool. A line of a kept file has a question, its
answer, and a digest of both and of the sources that answer. A digest of these sources names the
file, so changed sources find no earlier answers. A damaged line is not used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from labs.drive.record import disk
from labs.drive.record.private_cache import NotPrivateError, opened_file, say_not_used
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


BEFORE, BETWEEN, AFTER = b'{"sha256": "', (b'", "question": ', b', "answer": '), b"}"
"""A line around its digest and its two texts of JSON."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """The answer to a question, both one line of JSON: from the cache, or made and then kept.

    `digest` is that of the sources that answer. Without a cache that can be read and written, each
    answer is made.
    """
    try:
        file = disk.cache() / KIND / f"{digest}.jsonl"
    except Missing:
        return answer()
    answers, asked = _known(file), question.encode()
    sha256_of, stored = answers.get(asked, (b"", b""))
    if sha256_of != _sha256(digest, asked, stored):
        stored = answer().encode()
        answers[asked] = (sha256_of := _sha256(digest, asked, stored)), stored
        _append(
            file, b"".join((BEFORE, sha256_of, BETWEEN[0], asked, BETWEEN[1], stored, AFTER, b"\n"))
        )
    return bytes(stored).decode()


KIND = "answers"


def _sha256(digest: str, question: bytes, answer: bytes | memoryview) -> bytes:
    """The digest of a line, as hex digits."""
    total = sha256(b"\0".join((digest.encode(), question, b"")))
    total.update(answer)
    return total.hexdigest().encode()


@cache
def _known(file: Path) -> dict[bytes, tuple[bytes, bytes | memoryview]]:
    """The digests and answers in a file by their questions. Lines are split, not parsed or checked,
    and answers are not copied, because only a few of thousands are asked for. Lines of another form
    are left out."""
    answers: dict[bytes, tuple[bytes, bytes | memoryview]] = {}
    content = _content(file)
    view, start = memoryview(content), 0
    while (end := content.find(b"\n", start)) >= 0:
        first = content.find(BETWEEN[0], start, end)
        second = content.find(BETWEEN[1], first, end)
        whole = content.startswith(BEFORE, start) and content.endswith(AFTER, start, end)
        if whole and first >= 0 and second >= 0:
            question = content[first + len(BETWEEN[0]) : second]
            answer = view[second + len(BETWEEN[1]) : end - len(AFTER)]
            answers[question] = content[start + len(BEFORE) : first], answer
        start = end + 1
    return answers


def _content(file: Path) -> bytes:
    """The content of a file; empty if others could have written it, and then it is removed."""
    try:
        with os.fdopen(opened_file(KIND, file.name, os.O_RDONLY), "rb") as opened:
            return opened.read()
    except NotPrivateError as error:
        say_not_used(str(error.strerror))
    except OSError:
        with suppress(OSError):
            file.unlink()
    return b""


def _append(file: Path, line: bytes) -> None:
    """Add a line in a single write, so that processes side by side do not mix their lines."""
    try:
        opened = opened_file(KIND, file.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        return
    try:
        os.write(opened, line)
    except OSError:
        pass
    finally:
        os.close(opened)
