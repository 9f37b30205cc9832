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

from labs.drive.record.seal import digest
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
COPY = "Ask whoever made the bundle for it again"


def sums(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS over the files of a bundle."""
    lines = (f"{digest(content)}  {name}\n" for name, content in sorted(files.items()))
    return "".join(lines).encode()
