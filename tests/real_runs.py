"""The real runs of tests/fixtures/runs, opened; what was changed in them is said by the test."""

from __future__ import annotations

import dataclasses
import shutil
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from labs.record.canonical import canonical, digest
from labs.runs import Run, open_run

FOLDER = Path(__file__).parent / "fixtures" / "runs"


@cache
def real(name: str) -> Run:
    """The run of that name."""
    return open_run(FOLDER / f"{name}.tar.xz")


def with_link(run: Run, **asked: Any) -> Run:
    """The run as if its link had been asked for otherwise; its files stay as they are."""
    said = deepcopy(dict(run.said))
    said["link"]["asked"].update(asked)
    return dataclasses.replace(run, said=said)


def with_file(run: Run, folder: Path, name: str, old: str, new: str) -> Run:
    """A copy of the run in which one file says something else, sealed anew."""
    copy = folder / run.path.name
    shutil.copytree(run.path, copy)
    path = copy / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    files = {one.relative_to(copy).as_posix(): digest(one) for one in copy.rglob("*")
             if one.is_file() and one.name not in ("seal.json", "host.json")}
    (copy / "seal.json").write_bytes(canonical(
        {"schema": 1, "files": files, "digest": digest(canonical(files))}))
    return open_run(copy)
