"""The files of a bundle: where each part is, and its list of checksums.

ro-crate-metadata.json      what the bundle contains, for programs (RO-Crate 1.1)
ro-crate-preview.html       the same, for people
notebooks/NAME.ipynb        the executed notebooks
runs.tar.xz                 their runs, packed as by `labs runs pack`
verdicts.json               the verdicts that these runs give on the claims of the articles
code.json                   version and digests of the code
environment/                requirements.lock, or the versions of the installed packages
kernels/SERIES-DIGEST12/    kernel.json, config, fragment.config and patches of each kernel
LICENSE*, CITATION.cff
SHA256SUMS                  the checksum of every other file
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from labs.drive.record.seal import digest
from labs.drive.record.stored_files import read_bytes
from labs.errors import Damaged
from labs.read.runs.archive import BUNDLED

METADATA, PREVIEW = "ro-crate-metadata.json", "ro-crate-preview.html"
VERDICTS, CODE, SUMS = "verdicts.json", "code.json", "SHA256SUMS"
NOTEBOOKS, ENVIRONMENT, KERNELS = "notebooks", "environment", "kernels"
LOCK, INSTALLED = f"{ENVIRONMENT}/requirements.lock", f"{ENVIRONMENT}/installed.txt"
LICENCES = ("LICENSE", "LICENSE-CC-BY-4.0")
CITATION = "CITATION.cff"
ALLOWED = re.compile(
    "|".join(
        (
            *map(re.escape, (METADATA, PREVIEW, BUNDLED, VERDICTS, CODE, SUMS, CITATION)),
            *map(re.escape, (*LICENCES, LOCK, INSTALLED)),
            rf"{NOTEBOOKS}/[^/]+\.ipynb",
            rf"{KERNELS}/[0-9.]+-[0-9a-f]{{12}}/(kernel\.json|config|fragment\.config)",
            rf"{KERNELS}/[0-9.]+-[0-9a-f]{{12}}/patches/[^/]+\.patch",
        )
    )
)
MOST_SUMS_BYTES = 16 << 20
COPY = "Ask whoever made the bundle for it again"


def sums(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS over the files of a bundle."""
    lines = (f"{digest(content)}  {name}\n" for name, content in sorted(files.items()))
    return "".join(lines).encode()


def check_sums(bundle: Path) -> tuple[str, ...]:
    """The names of the files of an unpacked bundle, each compared with SHA256SUMS.

    Damaged, naming the first file that was changed, is missing, is not listed, or that no bundle
    contains, such as a lab of somebody's own.
    """
    present = {}
    for path in sorted(bundle.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise Damaged(f"{path} is a link or a device. Allowed: regular files. {COPY}")
        if path.is_file():
            present[path.relative_to(bundle).as_posix()] = path
    foreign = next((name for name in present if not ALLOWED.fullmatch(name)), None)
    if foreign is not None:
        raise Damaged(
            f"the bundle contains {foreign!r}, and no bundle of this version does. Nothing of it "
            "was executed. Allowed: notebooks, runs, verdicts, kernels and metadata"
        )
    content = read_bytes(bundle / SUMS, most_bytes=MOST_SUMS_BYTES, next_step=COPY)
    lines = content.decode("utf-8", "replace").splitlines()
    listed = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
    if len(listed) != len(lines):
        raise Damaged(f"{SUMS} of the bundle lists a file twice. {COPY}")
    present.pop(SUMS)
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            raise Damaged(f"{name!r} of the bundle is missing. {COPY}")
        if listed.get(name) != digest(present[name]):
            raise Damaged(f"{name!r} of the bundle does not match {SUMS}. {COPY}")
    return tuple(listed)
