"""Changes to bytes, lines and JSON, as chance and as an attacker would make them."""

from __future__ import annotations

import json
import random
import re
import struct
from copy import deepcopy
from typing import Any

LENGTHS = (0, 1, 4, 72, 255, 4096, 65535, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
NUMBERS = (
    "0",
    "-1",
    "1",
    "0.0",
    "1e308",
    "1e999",
    "-1e-320",
    "NaN",
    "Infinity",
    "9" * 19,
    str(2**63),
    str(2**64),
    "9" * 400,
    "1" + "0" * 4000,
    "0x10",
    "١٢٣",
)
TEXTS = (
    "",
    " ",
    "../../x",
    "/etc/passwd",
    "x" * 300,
    "x" * 70_000,
    "a\nb",
    "\x1b[2J\x1b]0;x\x07",
    "\x00",
    "\ud800",
    "‮gpj",
    "buffers\n",
    "None",
    "%s%n{0}",
    "é" * 40,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    10**300,
    0.5,
    -0.0,
    1e-320,
    1e308,
    [],
    {},
    [[]],
    [None],
    {"": None},
    *TEXTS,
)
INSERTED = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"[" * 2000,
    b'{"a":' * 300,
    b"\\ud800",
    "\u2028".encode(),
    b"\x1b[31m",
)
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def count(chance: random.Random) -> int:
    """How many changes one input gets: mostly one."""
    return chance.choice((1, 1, 1, 1, 2, 3, 6))


def changed_bytes(content: bytes, chance: random.Random) -> bytes:
    """The content with a few bytes changed, removed, inserted or doubled."""
    found = bytearray(content)
    for _ in range(count(chance)):
        at = chance.randrange(len(found) + 1)
        kind = chance.randrange(7)
        if kind == 0:
            found[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1 and found:
            found[at % len(found)] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del found[at:]
        elif kind == 3:
            del found[at : at + chance.choice((1, 2, 4, 16, 512))]
        elif kind == 4:
            found[at:at] = chance.choice((chance.randbytes(chance.choice((1, 4, 16))), *INSERTED))
        elif kind == 5:
            found[at : at + 4] = struct.pack("<I", chance.choice(LENGTHS))
        else:
            found[at:at] = found[at : at + chance.choice((8, 64, 512))]
    return bytes(found)


def changed_text(content: bytes, chance: random.Random) -> bytes:
    """The text with lines dropped, doubled, swapped or cut, or numbers and words replaced."""
    for _ in range(count(chance)):
        lines = content.split(b"\n")
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        kind = chance.randrange(7)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(other, lines[at])
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        elif kind == 4:
            lines[at] = _with_number(lines[at], chance)
        elif kind == 5:
            words = lines[at].split(b" ")
            words[chance.randrange(len(words))] = _encoded(chance.choice(TEXTS))
            lines[at] = b" ".join(words)
        else:
            return changed_bytes(content, chance)
        content = b"\n".join(lines)
    return content


def _with_number(line: bytes, chance: random.Random) -> bytes:
    places = list(_NUMBER.finditer(line))
    if not places:
        return line
    place = chance.choice(places)
    return line[: place.start()] + chance.choice(NUMBERS).encode() + line[place.end() :]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def changed_json(content: bytes, chance: random.Random) -> bytes:
    """The JSON with values, keys and lists changed, or as text that is no longer JSON."""
    if chance.randrange(5) == 0:
        return changed_bytes(content, chance)
    try:
        found = deepcopy(json.loads(content))
    except ValueError:
        return changed_bytes(content, chance)
    for _ in range(count(chance)):
        found = changed_value(found, chance)
    text = json.dumps(found)
    if chance.randrange(8) == 0:
        places = list(re.finditer(r"(?<=[:\[ ])-?\d+", text))
        if places:
            place = chance.choice(places)
            text = text[: place.start()] + chance.choice(NUMBERS) + text[place.end() :]
    return text.encode("utf-8", "surrogatepass")


def changed_value(value: Any, chance: random.Random) -> Any:
    """The value with one change somewhere in it."""
    if isinstance(value, dict) and value and chance.randrange(6):
        key = chance.choice(list(value))
        kind = chance.randrange(12)
        if kind == 0:
            del value[key]
        elif kind == 1:
            value[chance.choice(TEXTS)] = value[key]
        else:
            value[key] = changed_value(value[key], chance)
        return value
    if isinstance(value, list) and value and chance.randrange(6):
        at = chance.randrange(len(value))
        kind = chance.randrange(8)
        if kind == 0:
            del value[at]
        elif kind == 1:
            value.insert(at, deepcopy(value[at]))
        elif kind == 2:
            value.reverse()
        else:
            value[at] = changed_value(value[at], chance)
        return value
    if type(value) in (int, float) and chance.randrange(2):
        return chance.choice((value + 1, -value, value * 1000, value / 7, str(value)))
    return deepcopy(chance.choice(VALUES))
