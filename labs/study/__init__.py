"""A study: the runs that parameters ask for, made or found, and what they show together.

    study = labs.study(p)

`labs.study` is the function that makes or finds one; importing this package puts the package in
its place, so the package can be called just the same.
"""

from __future__ import annotations

import sys
from types import ModuleType

from labs.parameters.base import LabParameters
from labs.study.opened import Study, study

__all__ = ["Study", "study"]


class _Callable(ModuleType):
    def __call__(self, p: LabParameters) -> Study:
        return study(p)


sys.modules[__name__].__class__ = _Callable
