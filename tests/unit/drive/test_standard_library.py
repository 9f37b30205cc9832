"""The driving half imports with nothing but the standard library: no site-packages, no venv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("drive",)
ALONE = ("errors.py", "__init__.py")


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def driving_half() -> list[str]:
    labs = ROOT / "labs"
    files = [file for room in ROOMS for file in sorted((labs / room).rglob("*.py"))]
    return [module(file) for file in files + [labs / name for name in ALONE]]


def imported(*modules: str) -> set[str]:
    """Import in a fresh interpreter without site-packages; the top-level names it then holds."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
        f"import {', '.join(modules)}\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{modules}: {done.stderr}"
    return set(done.stdout.split())


@pytest.mark.parametrize("name", driving_half())
def test_module_imports_alone(name: str) -> None:
    assert imported(name) <= {*sys.stdlib_module_names, "labs"}


def test_importing_the_package_loads_nothing_else() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import labs; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith("labs.")] == []
