"""labs.drive imports with the standard library only: no site-packages, no virtual environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
OF_A_RUN = ("conditions.py", "experiment.py")


def names_after(code: str) -> list[str]:
    """The modules that a new interpreter without site-packages has loaded after some code."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}\nprint(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-B", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_drive_imports_the_standard_library_only() -> None:
    labs = ROOT / "labs"
    files = [*(labs / "guest").rglob("*.py"), *(labs / "drive").rglob("*.py"), labs / "errors.py"]
    files += [path for name in OF_A_RUN for path in labs.glob(f"experiments/*/{name}")]
    modules = sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    )
    assert {"labs.guest.bench", "labs.experiments.nagle.conditions"} <= set(modules)
    loaded = names_after("\n".join(f"import {module}" for module in modules))
    assert set(modules) <= set(loaded)
    top = {name.partition(".")[0] for name in loaded}
    assert top - {*sys.stdlib_module_names, "labs", "__main__"} == set()
    assert [name for name in loaded if name.startswith(("labs.read", "labs.launch"))] == []


def test_labs_import_loads_nothing_else() -> None:
    assert [name for name in names_after("import labs") if name.startswith("labs.")] == []
