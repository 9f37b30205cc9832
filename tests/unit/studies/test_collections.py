"""The garbage collector in a process that reads studies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from labs.studies import NEW_OBJECTS

ROOT = Path(__file__).resolve().parents[3]
CODE = """\
import gc, sys, labs.studies
print("pandas" in sys.modules, gc.get_threshold()[0])
"""


def test_studies_are_loaded_with_fewer_collections() -> None:
    """The threshold is set before pandas is loaded, which is when it saves most."""
    words = (sys.executable, "-c", CODE)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", str(NEW_OBJECTS)]
