"""Make studies with the driving half alone and print each run's digest: standard library only.

python3 one_study.py RUNS LAB NAME=VALUE ... [LAB NAME=VALUE ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from labs.catalog import find
from labs.drive.record.seal import read_seal
from labs.errors import LabError
from labs.launch.launch import run
from labs.launch.wanted import Wanted


def studies(words: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The labs that the words name, each with its parameters."""
    found: list[tuple[str, dict[str, Any]]] = []
    for word in words:
        name, named, value = word.partition("=")
        if not named:
            found.append((name, {}))
            continue
        number: Any = int(value) if value.isdigit() else value
        found[-1][1][name] = {"True": True, "False": False}.get(value, number)
    yield from found


def main(argv: list[str]) -> int:
    try:
        for name, parameters in studies(argv[1:]):
            lab = find(name)
            study = run(
                lab, lab.Parameters(runs=str(Path(argv[0])), **parameters), Wanted(fresh=True)
            )
            for folder in study.file.folders():
                print(folder.name, read_seal(folder).digest)
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
