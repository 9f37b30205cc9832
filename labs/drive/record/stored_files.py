"""The one door for stored files: regular, within a size, strict JSON, of a known schema version.

Runs and studies come from other machines and other people. Whatever stands in such a file, reading
it ends in a value within these bounds or in Damaged: a link, a pipe or a device is never opened as
a file, a file is never read beyond its limit, and JSON is UTF-8, has no key twice, no number that
a double cannot hold, no half of a surrogate pair, and is nested `DEEPEST` levels at most.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from codecs import BOM_UTF8
from pathlib import Path

from labs.errors import BadInput, Damaged

VERSION = 2
"""Of run.json and of the inputs in it."""
STUDY_VERSION = SEAL_VERSION = 1
RUN_SCHEMA = Path(__file__).with_name("run.schema.json")
RUN_SCHEMAS = {1: RUN_SCHEMA.with_name("run.schema-1.json"), VERSION: RUN_SCHEMA}
"""The JSON Schema of every version of run.json that can be read."""
STUDY_SCHEMA = Path(__file__).with_name("study.schema.json")

# Of run.json, seal.json and studies, which have some 20 kB. Larger ones take long to validate.
MOST_JSON_BYTES = 1 << 20
# Of JSON that a program on a host writes: fetch.json of an hour, 1.3 MB; ask.json of 100,000
# requests, 2 MB.
MOST_RAW_JSON_BYTES = 8 << 20
# Of other raw output. samples.bin of a minute with 100 connections has 42 MB, and 1 GB in memory.
MOST_BYTES = 128 << 20
DEEPEST = 64
INTEGER_CHARACTERS = 310  # the digits of the largest double, and a sign
AGAIN = "Copy it from its source again, or repeat the run with --fresh"


def read_bytes(
    path: Path, *, most_bytes: int = MOST_BYTES, follow: bool = False, next_step: str = AGAIN
) -> bytes:
    """Return the content of a regular file; with `follow`, also through a symbolic link.

    Raises Damaged for anything else, a file over `most_bytes`, or one that cannot be read.
    """
    # Opening a pipe or a device must not wait for its other end.
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_BINARY"))
    try:
        descriptor = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise Damaged(f"{path} is not a regular file. {next_step}")
            if about.st_size > most_bytes:
                raise Damaged(
                    f"{path} has {about.st_size} bytes. Allowed: at most {most_bytes}. {next_step}"
                )
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(about.st_size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Damaged(f"{path} {_describe_error(error)}. {next_step}") from error


def _describe_error(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is missing"
    if error.errno == errno.ELOOP:
        return "is a symbolic link. Allowed: a regular file"
    return f"cannot be read ({error.strerror})"


def read_json(
    path: Path, *, most_bytes: int = MOST_JSON_BYTES, follow: bool = False, next_step: str = AGAIN
) -> dict[str, object]:
    """Return the JSON object in a file, as `read_bytes` and `parse` read it; else Damaged.

    The mark with which editors on Windows begin a file of UTF-8 is no part of it.
    """
    content = read_bytes(path, most_bytes=most_bytes, follow=follow, next_step=next_step)
    try:
        parsed = parse(content.removeprefix(BOM_UTF8))
    except ValueError as error:
        raise Damaged(f"{path} is not JSON ({error}). {next_step}") from error
    if not isinstance(parsed, dict):
        raise Damaged(f"{path} is not a JSON object. {next_step}")
    return parsed


def parse(content: bytes) -> object:
    """Read JSON strictly, within the bounds of this module; ValueError for anything else."""
    try:
        text = content.decode("utf-8")
        parsed = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_double,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from error
    _check(parsed)
    return parsed


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_CHARACTERS:
        raise ValueError(f"an integer of {len(digits)} digits")
    number = int(digits)
    try:
        float(number)
    except OverflowError:
        raise ValueError(f"an integer of {len(digits)} digits") from None
    return number


def _double(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is beyond the largest number of 64 bits")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is given twice")
    return members


def _check(value: object) -> None:
    """ValueError for what is nested too deep, or text that cannot be encoded."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        below: list[object] = []
        for node in level:
            if isinstance(node, str):
                _check_text(node)
            elif isinstance(node, dict):
                below += node
                below += node.values()
            elif isinstance(node, list):
                below += node
        if not below:
            return
        level = below
    raise ValueError(f"it is nested more than {DEEPEST} levels deep")


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a text holds half of a surrogate pair")


def check_version(version: object, what: str, *readable: int) -> int:
    """The schema version, if it is one of the readable; else BadInput. `what` names the file."""
    if type(version) is int and version in readable:
        return version
    phrase = f"schema {version}" if type(version) is int else "no schema version"
    raise BadInput(
        f"{what} has {phrase}, and this version of labs reads schema "
        f"{' and '.join(map(str, readable))}; read it with the version that wrote it, or repeat "
        "the run with --fresh"
    )
