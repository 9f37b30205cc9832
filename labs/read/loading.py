"""Imports, without the search for garbage that they would trigger."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any


def load(module: str) -> Any:
    """Import a module. What an import makes stays, so garbage is not looked for meanwhile, nor in
    it later: both would take about a twentieth of the CPU time of a Run All."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
