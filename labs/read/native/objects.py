"""Methods of objects, performed as C (`labs.read.native.objects_to_c`).

The fields of an object, and of the objects that it refers to, are copied into structures; the C
function works on these, and they are copied back. If it cannot end, nothing has changed, and Python
can perform the same method.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
from array import array
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any

from labs.errors import Missing
from labs.read.native.library import FLAGS, library

WORD_BYTES = 8
"""What each element of an array or a list takes."""
RANDOM_WORDS = 625
"""The state of a `Random`: its words, and the place of the next one."""
_SCALARS = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "string": ctypes.c_char_p}
_programs: dict[tuple[str, tuple[type, ...]], _Program | None] = {}


def performed_as_c(method: Callable[[], None], version: str) -> bool:
    """Perform a bound method as C; False if that is impossible: there is no compiler, or the method
    needs more than C has.

    `version` names the sources of all classes and functions that it uses. Deques, lists and arrays
    must be empty. Lists and arrays, which may only grow, are copied back, and deques are not.
    """
    instance = method.__self__  # type: ignore[attr-defined]
    objects: dict[type, object] = {}
    _find(instance, method.__module__.partition(".")[0], objects)
    wanted = method.__name__, tuple(objects)
    if wanted not in _programs:
        _programs[wanted] = _program(objects, type(instance), method.__name__, version)
    program = _programs[wanted]
    return program is not None and program.perform(instance)


def _find(instance: object, package: str, objects: dict[type, object]) -> None:
    """An object, and one of each class of the package that it refers to."""
    objects[type(instance)] = instance
    for other in vars(instance).values():
        kind = type(other)
        if (
            kind not in objects
            and kind.__module__.startswith(package)
            and hasattr(other, "__dict__")
        ):
            _find(other, package, objects)


def _program(
    objects: dict[type, object], owner: type, method: str, version: str
) -> _Program | None:
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in objects]
    made_of = " ".join((version, method, *names, *FLAGS, sys.platform, platform.machine()))
    digest = sha256(made_of.encode()).hexdigest()[:16]

    def text() -> str:
        from labs.read.native.objects_to_c import Program  # noqa: PLC0415  of no use once compiled

        return Program(objects).text(owner, method)

    try:
        return _Program(library(f"{owner.__name__}-{digest}", text))
    except Missing:
        return None


class _Queue(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("room", ctypes.c_int64),
    )


class _Program:
    """A library, and the layout of its structures."""

    def __init__(self, made: ctypes.CDLL) -> None:
        self.call, self.release = made.perform, made.release
        self.call.argtypes = self.release.argtypes = (ctypes.c_void_p,)
        self.call.restype, self.release.restype = ctypes.c_int64, None
        layout = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(made, "layout")))
        self.structs: dict[str, dict[str, str]] = json.loads(layout)
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
