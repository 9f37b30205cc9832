"""Answers that need not be computed: those in the recorded data, and those in the user's cache.

Callers that must not trust either compute them: `labs verify`, and the notebooks that it executes
in separate processes.

answers.jsonl.xz in the recorded data has the results of every recorded run (`make answers`). Its
first line has the digests of the code that computed them, by lab. It is used as long as SHA256SUMS
has its digest and the code of the lab is the same; a line of the cache has a digest of its own.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from labs.drive.record import kept_answers
from labs.drive.record.removal import say
from labs.read.runs.kept_content import FOLDERS, SUMS

COMPUTE = "LABS_COMPUTE"
"""The environment variable set within `computed`, so that child processes compute, too."""
FILE = "answers.jsonl.xz"
QUESTION, ANSWER = '{"question": "', '", "answer": '
"""A line has these before the digest of a question and before the answer; a brace is its end."""


@dataclass(frozen=True)
class Recorded:
    """The answers of a file: digests of code by lab, and answers by the digest of the question."""

    code: Mapping[str, str]
    answers: Mapping[str, str]

    def answer(self, lab: str, code: str, question: str) -> str | None:
        """The answer that the present code of a lab gives to a question; None if it is not here."""
        return self.answers.get(id_of(question)) if self.code.get(lab) == code else None


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """As `kept_answers.kept`; within `computed` the answer is always computed."""
    if COMPUTE in os.environ:
        return answer()
    return kept_answers.kept(question, answer, digest)


@contextmanager
def computed() -> Iterator[None]:
    """Compute every result and prediction, and keep none, in this process and its children."""
    before = os.environ.get(COMPUTE)
    os.environ[COMPUTE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[COMPUTE]


def recorded(lab: str, code: str, question: str) -> str | None:
    """The answer in the recorded data, if it is the one that the present code of a lab gives."""
    return None if COMPUTE in os.environ else _recorded().answer(lab, code, question)


@cache
def _recorded() -> Recorded:
    """The answers in the recorded data; none without such a file, and none of a damaged one."""
    for folder in FOLDERS:
        if (folder / SUMS).is_file():
            return read(folder)
    return Recorded({}, {})


def read(folder: Path) -> Recorded:
    """The answers in a folder of recorded data; none, and one line on why, if its file is not the
    one that SHA256SUMS names."""
    try:
        named = dict(line.split("  ")[::-1] for line in (folder / SUMS).read_text().splitlines())
        if FILE not in named:
            return Recorded({}, {})
        content = (folder / FILE).read_bytes()
        if sha256(content).hexdigest() == named[FILE]:
            return unpacked(content)
    except (OSError, ValueError, LookupError, lzma.LZMAError):
        pass
    say(f"{folder / FILE} does not match {SUMS}, so results are computed. Copy it again")
    return Recorded({}, {})


def packed(code: Mapping[str, str], answers: Mapping[str, str]) -> bytes:
    """The content of a file: the digests of code by lab, and the answers by their questions."""
    lines = [f"{QUESTION}{id_of(asked)}{ANSWER}{answer}}}" for asked, answer in answers.items()]
    text = "\n".join([json.dumps({"code": code}), *lines])
    return lzma.compress(text.encode(), preset=lzma.PRESET_EXTREME | 9)


def unpacked(content: bytes) -> Recorded:
    """The answers of such a file. Lines are split, not parsed, because few are asked for."""
    first, *lines = lzma.decompress(content).decode().split("\n")
    parts = (line.removeprefix(QUESTION).partition(ANSWER) for line in lines)
    return Recorded(json.loads(first)["code"], {asked: text[:-1] for asked, _, text in parts})


def id_of(question: str) -> str:
    """What names the answer to a question in a file."""
    return sha256(question.encode()).hexdigest()[:32]
