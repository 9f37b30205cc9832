"""Where the project keeps what can be made again: built kernels, copies of code."""

from __future__ import annotations

import os
from pathlib import Path

from labs.errors import Missing


def cache() -> Path:
    """The user's cache folder of the project; it need not be there yet. Missing without a home."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of XDG_CACHE_HOME ignores relative paths.
    base = named if named.is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    if not base.is_absolute():
        raise Missing(
            "this user has no home folder; name a folder for built kernels and copies "
            "of code in XDG_CACHE_HOME"
        )
    return base / "labs"
