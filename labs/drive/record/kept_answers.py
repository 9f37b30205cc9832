"""Answers that another process finds again, in the user's cache.

Each process needs some slow results that depend on known contents alone: the simulation of a
transfer, the imports of a file. A line of a kept file has a question, its answer, and a digest of
both and of the sources that answer. A digest of these sources names the file, so changed sources
find no earlier answers. A damaged line is not used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from labs.drive.record import cache as user_cache
from labs.drive.record.cache import NotPrivateError, opened_file, say_not_used
from labs.errors import Missing

PACKAGE = Path(__file__).parents[2]


def digest_of(*files: str) -> str:
    """The digest of this Python and of files in the package, which names the file of what they
    answered."""
    parts = [sys.version.encode(), *((PACKAGE / file).read_bytes() for file in files)]
    return sha256(b"\0".join(parts)).hexdigest()[:32]


BEFORE, BETWEEN, AFTER = b'{"sha256": "', (b'", "question": ', b', "answer": '), b"}"
"""A line around its digest and its two texts of JSON."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """The answer to a question, both one line of JSON: from the cache, or made and then kept.

    `digest` is that of the sources that answer. Without a cache that can be read and written, each
    answer is made.
    """
    try:
        file = user_cache.cache() / KIND / f"{digest}.jsonl"
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
MOST_FILES = 60
"""Each lab has a file per version of its sources, and so have the model and the parser."""


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
    is_new = not file.exists()
    try:
        opened = opened_file(KIND, file.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        return
    if is_new:
        _clear(file.parent)
    try:
        os.write(opened, line)
    except OSError:
        pass
    finally:
        os.close(opened)


def _clear(folder: Path) -> None:
    """Remove all but the files that were added to last: each change of sources begins another."""
    with suppress(OSError):
        files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        for file in files[:-MOST_FILES]:
            file.unlink()
