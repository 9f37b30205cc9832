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
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from labs.drive.record import disk
from labs.errors import Missing

PACKAGE = Path(__file__).parents[2]


def digest_of(*patterns: str, and_also: Sequence[str] = ()) -> str:
    """The digest of sources within the package, which names the file of what they answered; of
    versions of libraries, too, if the answers depend on them."""
    files = [file for pattern in patterns for file in sorted(PACKAGE.glob(pattern))]
    texts = (sys.version, *and_also)
    parts = [*(text.encode() for text in texts), *(file.read_bytes() for file in files)]
    return sha256(b"\0".join(parts)).hexdigest()[:32]


BEFORE, BETWEEN, AFTER = '{"question": ', ', "answer": ', "}"
"""A line around its two texts of JSON."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """The answer to a question, both one line of JSON: from the cache, or made and then kept.

    `digest` is that of the sources that answer. Without a cache that can be read and written, each
    answer is made.
    """
    file = _file(digest)
    if file is None:
        return answer()
    known = _known(file)
    if not _is_json(known.get(question, "")):
        known[question] = answer()
        _append(file, f"{BEFORE}{question}{BETWEEN}{known[question]}{AFTER}\n")
    return known[question]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
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
def _known(file: Path) -> dict[str, str]:
    """The answers in a file by their questions, as texts. A line is split, not parsed: one of a
    thousand is asked for. Lines that are not whole are left out."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    known = {}
    for line in lines:
        question, between, answer = line.partition(BETWEEN)
        if question.startswith(BEFORE) and between and answer.endswith(AFTER):
            known[question.removeprefix(BEFORE)] = answer.removesuffix(AFTER)
    return known


def _append(file: Path, line: str) -> None:
    """Add a line in a single write, so that processes side by side do not mix their lines."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | disk.NOT_A_LINK
        opened = os.open(file, flags, 0o600)
    except OSError:
        return
    try:
        os.write(opened, line.encode())
    except OSError:
        pass
    finally:
        os.close(opened)
