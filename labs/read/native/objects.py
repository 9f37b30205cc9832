"""Methods of objects, performed as C (`labs.read.native.to_c`).

The fields of an object, and of the objects that it refers to, are copied into structures; the C
function works on these, and they are copied back. If it cannot end, nothing has changed, and Python
can perform the same method.
"""

from __future__ import annotations

import ctypes
import json
from array import array
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any

from labs.errors import Missing
from labs.read.native.compiled import library, say_once

WORD_BYTES = 8
"""What each element of an array or a list takes."""
RANDOM_WORDS = 625
"""The state of a `Random`: its words, and the place of the next one."""
_SCALARS = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "string": ctypes.c_char_p}


def performed_as_c(method: Callable[[], None]) -> bool:
    """Perform a bound method as C; False if that is impossible: there is no library, it has no
    program for these classes, or the method needs more than C has.

    Deques, lists and arrays must be empty. Lists and arrays, which may only grow, are copied back,
    and deques are not.
    """
    instance = method.__self__  # type: ignore[attr-defined]
    program = _program(program_symbol(referred(instance), method.__name__))
    return program is not None and program.perform(instance)


def referred(instance: object) -> dict[type, object]:
    """One object of each class of the package that an object refers to, itself included."""
    objects: dict[type, object] = {}
    _find(instance, type(instance).__module__.partition(".")[0], objects)
    return objects


def _find(instance: object, package: str, objects: dict[type, object]) -> None:
    objects[type(instance)] = instance
    for other in vars(instance).values():
        kind = type(other)
        if (
            kind not in objects
            and kind.__module__.startswith(package)
            and hasattr(other, "__dict__")
        ):
            _find(other, package, objects)


def program_symbol(objects: dict[type, object], method: str) -> str:
    """The name of the program for a method of the first of these classes, in the library."""
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in objects]
    digest = sha256(" ".join((names[0], method, *sorted(names))).encode()).hexdigest()[:12]
    return f"{next(iter(objects)).__name__}_{digest}"


@cache
def _program(symbol: str) -> _Program | None:
    try:
        return _Program(library(), symbol)
    except Missing as reason:
        say_once(f"transfers are predicted by Python, which is slow: {reason}")
    except (AttributeError, ValueError):
        pass
    return None


class _Queue(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("room", ctypes.c_int64),
    )


class _Program:
    """A function of the library, and the layout of its structures. ValueError or AttributeError if
    the library lacks it."""

    def __init__(self, made: ctypes.CDLL, symbol: str) -> None:
        layout = ctypes.c_char.in_dll(made, f"layout_{symbol}")
        self.call, self.release = made[f"perform_{symbol}"], made.release
        self.call.argtypes = self.release.argtypes = (ctypes.c_void_p,)
        self.call.restype, self.release.restype = ctypes.c_int64, None
        self.structs: dict[str, dict[str, str]] = json.loads(
            ctypes.string_at(ctypes.addressof(layout))
        )
        self.types = {
            name: type(name, (ctypes.Structure,), {"_fields_": [*map(_field, members.items())]})
            for name, members in self.structs.items()
        }

    def perform(self, instance: object) -> bool:
        """Copy, call, and copy back."""
        made: dict[int, tuple[Any, Any]] = {}
        try:
            root = self._filled(instance, made)
        except (TypeError, ValueError, AttributeError):
            return False
        try:
            done = bool(self.call(ctypes.addressof(root)))
            if done:
                for copied, struct in made.values():
                    if isinstance(copied, Random):
                        copied.setstate((copied.VERSION, tuple(struct), None))
                    else:
                        self._copy_back(copied, struct)
        finally:
            for copied, struct in made.values():
                for name, kind in self._fields(copied):
                    if kind.startswith("q_"):
                        self.release(getattr(struct, name).at)
        return done

    def _fields(self, instance: object) -> list[tuple[str, str]]:
        return list(self.structs.get(f"s_{type(instance).__name__}", {}).items())

    def _filled(self, instance: object, made: dict[int, tuple[Any, Any]]) -> ctypes.Structure:
        """The structure of an object. TypeError or ValueError for values of other types."""
        if id(instance) in made:
            earlier: ctypes.Structure = made[id(instance)][1]
            return earlier
        if any(map(callable, vars(instance).values())):
            raise TypeError("a method of this object is not that of its class")
        struct: ctypes.Structure = self.types[f"s_{type(instance).__name__}"]()
        made[id(instance)] = instance, struct
        for name, kind in self._fields(instance):
            value = getattr(instance, name)
            if kind.startswith("q_"):
                if value:
                    raise ValueError(f"{name} is not empty")
            elif kind.startswith("s_"):
                setattr(struct, name, ctypes.addressof(self._filled(value, made)))
            elif isinstance(value, Random):
                if id(value) not in made:
                    made[id(value)] = value, (ctypes.c_uint32 * RANDOM_WORDS)(*value.getstate()[1])
                setattr(struct, name, ctypes.addressof(made[id(value)][1]))
            else:
                setattr(struct, name, value.encode() if kind == "string" else value)
        return struct

    def _copy_back(self, instance: object, struct: ctypes.Structure) -> None:
        for name, kind in self._fields(instance):
            old, new = getattr(instance, name), getattr(struct, name)
            if isinstance(old, array):
                old.frombytes(_words(new))
            elif isinstance(old, list):
                places = array("q", _words(new))
                texts = {place: ctypes.string_at(place).decode() for place in set(places)}
                old.extend(texts[place] for place in places)
            elif kind in _SCALARS:
                if kind != "double":
                    new = new.decode() if kind == "string" else type(old)(new)
                if new != old:
                    setattr(instance, name, new)


def _words(queue: _Queue) -> bytes:
    """What was appended to an array or a list."""
    return ctypes.string_at(queue.at, queue.count * WORD_BYTES)


def _field(member: tuple[str, str]) -> tuple[str, Any]:
    name, kind = member
    return name, _Queue if kind.startswith("q_") else _SCALARS.get(kind, ctypes.c_void_p)
