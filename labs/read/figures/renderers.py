"""plotly's renderers, loaded without nbformat.

They need nbformat only for its version. Importing it loads jsonschema, and with it a grammar of
IRIs that is compiled for more than a second in each new kernel.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import plotly.io

NBFORMAT = "nbformat"


class _Version(ModuleType):
    """A module that has a version and nothing else."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__version__ = version(name)


def load_renderers() -> None:
    """Load plotly's renderers with a stand-in for nbformat, which is gone afterwards."""
    if NBFORMAT in sys.modules:
        return
    try:
        sys.modules[NBFORMAT] = _Version(NBFORMAT)
        assert plotly.io.renderers is not None  # the access loads them
    except PackageNotFoundError:
        return  # plotly says what to install
    finally:
        sys.modules.pop(NBFORMAT, None)
