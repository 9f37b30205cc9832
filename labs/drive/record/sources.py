"""The sources of an answer: the files of a module and of all that it imports, and their digest.

Whole folders would be wrong: each edit of a chart would change the digest of every result. Imports
within functions count, those for type checks do not. The package itself, whose face loads
everything lazily, counts as empty.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from labs.drive.imports import imported, texts
from labs.drive.record.kept_answers import PACKAGE, digest_of, kept

TRANSLATOR = "labs.read.native.build"
"""The module whose sources compile what computes results; no result imports it."""
PARSER = digest_of("drive/record/sources.py", "drive/imports.py")
NAMES_A_FILE = re.compile(rb"\.(?:py|c|json|toml)[\"']")
DATA_FILE = re.compile(r"[\w*.-]+\.(?:json|toml)")


def digest_of_code(*modules: str, package: Path = PACKAGE) -> str:
    """The digest of the names and contents of what these modules of `labs` are computed by. It is
    the same with every Python and every version of the libraries."""
    total = sha256()
    for path in sources(modules, package):
        content = path.read_bytes()
        name = path.relative_to(package).as_posix()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:32]


@cache
def of_this_python(code: str, *libraries: str) -> str:
    """The digest that names what is kept for code with this digest: another Python or another
    version of a library may give another last digit."""
    total = sha256("\0".join([code, sys.version, *map(version, libraries)]).encode())
    return total.hexdigest()[:32]


def sources(modules: Iterable[str], package: Path = PACKAGE) -> list[Path]:
    """The files of these modules and of all that they import, and the files in the same folders
    that the code names, such as "article*.toml"."""
    waiting, seen, files = list(modules), set[str](), set[Path]()
    patterns = set[str]()
    while waiting:
        module = waiting.pop()
        path = None if module in seen else file_of(module, package)
        seen.add(module)
        if path is None:
            continue
        files.add(path)
        names, named = names_in(path.read_bytes())
        waiting += [each for name in names for each in with_packages(name)]
        patterns.update(filter(DATA_FILE.fullmatch, named))
    return sorted({*files, *_data(files, patterns)})


def _data(files: Iterable[Path], patterns: Iterable[str]) -> Iterator[Path]:
    for folder in {file.parent for file in files}:
        for path in folder.iterdir():
            if DATA_FILE.fullmatch(path.name) and any(
                fnmatchcase(path.name, pattern) for pattern in patterns
            ):
                yield path


def file_of(module: str, package: Path = PACKAGE) -> Path | None:
    """The file of a module of `labs`; None for the package itself, for another package's module,
    and for a name that is not a module, such as a function."""
    if not module.startswith("labs."):
        return None
    path = package.parent / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


def with_packages(module: str) -> tuple[str, ...]:
    """A module and its parent packages, which are loaded before it."""
    return tuple(module.rsplit(".", count)[0] for count in range(module.count(".") + 1))


@lru_cache(maxsize=512)
def names_in(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that a file imports, and its texts, if one of them can name a file. Parsing the
    files of a run takes a tenth of a second, so the answer is kept for the next process."""
    question = json.dumps(sha256(content).hexdigest())
    names, named = json.loads(kept(question, lambda: json.dumps(_parsed(content)), PARSER))
    return tuple(names), tuple(named)


def _parsed(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    tree = ast.parse(content)
    named = texts(tree) if NAMES_A_FILE.search(content) else ()
    return tuple(imported(tree)), tuple(dict.fromkeys(named))
