"""Results that take long to compute, and are computed only if they are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class _Later:
    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = cache(compute)


def later(compute: Callable[[], Any]) -> Any:
    """The value of a field of `LazyResults`, computed when it is first read, and once."""
    return _Later(compute)


class LazyResults:
    """The base of a lab's `Results` with values that are computed `later`."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return value.compute() if isinstance(value, _Later) else value


def is_later(results: object, name: str) -> bool:
    """Whether a field of results is computed when it is read."""
    return isinstance(object.__getattribute__(results, name), _Later)
