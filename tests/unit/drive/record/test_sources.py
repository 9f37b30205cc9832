"""The digest of an answer's code is that of all that computes it, and of nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.record.kept_answers import PACKAGE
from labs.drive.record.sources import TRANSLATOR, digest_of_code, sources

BUFFERS = "labs.experiments.buffers.results"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's code, to be edited."""
    copied = tmp_path_factory.mktemp("sources") / "labs"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("read/theory/bdp.py", True),
        ("read/native/to_c.py", True),
        ("guest/units.py", True),
        ("experiments/buffers/results.py", True),
        ("experiments/buffers/article1.toml", True),  # of which a column has the figures
        ("experiments/buffers/figures.py", False),
        ("experiments/nagle/results.py", False),
        ("experiments/nagle/article3.toml", False),
        ("read/figures/style.py", False),
        ("read/audit/sysctls.toml", False),
        ("guest/entry.py", False),
        ("__init__.py", False),
        ("catalog.py", False),
        ("cli/claims.py", False),
    ],
)
def test_edit_changes_the_digest_of_what_it_computes(
    package: Path, edited: str, changes: bool
) -> None:
    modules = (BUFFERS, TRANSLATOR)
    before, file = digest_of_code(*modules, package=package), package / edited
    content = file.read_bytes()
    file.write_bytes(content + b"\n# edited\n")
    try:
        assert (digest_of_code(*modules, package=package) != before) == changes
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize(
    "module", [BUFFERS, "labs.experiments.stack.results", "labs.read.theory.bulk"]
)
def test_sources_are_all_that_is_loaded(module: str) -> None:
    words = f"import sys, {module}; print(*(m for m in sys.modules if m[:5] == 'labs.'))"
    done = subprocess.run((sys.executable, "-c", words), capture_output=True, check=True, text=True)
    folders = (PACKAGE.parent / name.replace(".", "/") for name in done.stdout.split())
    loaded = {
        folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        for folder in folders
    }
    assert loaded and loaded <= set(sources([module]))


def test_digest_is_that_of_names_and_contents(package: Path) -> None:
    assert digest_of_code(BUFFERS, package=package) == digest_of_code(BUFFERS)
