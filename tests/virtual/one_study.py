"""Make a study with the driving half alone and print each run's digest: standard library only.

python3 one_study.py RUNS NAME=VALUE ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from labs.catalog import find
from labs.drive.record.seal import read_seal
from labs.launch.launch import run


def main(argv: list[str]) -> int:
    lab = find("buffers")
    named: dict[str, object] = {}
    for word in argv[1:]:
        name, _, value = word.partition("=")
        named[name] = {"True": True, "False": False}.get(
            value, int(value) if value.isdigit() else value
        )
    study = run(lab, lab.Parameters(runs=str(Path(argv[0])), **named), fresh=True)  # type: ignore[arg-type]
    for folder in study.file.folders():
        print(folder.name, read_seal(folder).digest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
