"""This machine's package sources of Debian, for any release of Debian.

Nothing here needs root: lists of another release are kept apart from the machine's own.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def targets() -> str:
    """What apt reads packages from: per line an address, a suite, a component and an origin."""
    words = (
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)",
        "Created-By: Packages",
    )
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def sources(release: str, found: str) -> tuple[str, ...]:
    """The sources for `release` on the mirrors in `found`, which is the output of `targets`.

    One "ADDRESS SUITE main" per source; none where apt reads no packages of Debian.
    """
    lines = []
    for line in found.splitlines():
        address, suite, component, origin = (*line.split(), "", "", "", "")[:4]
        if origin == "Debian" and component == "main" and address.startswith("http"):
            _, dash, pocket = suite.partition("-")
            if pocket in ("", "updates", "security"):
                lines.append(f"{address} {release}{dash}{pocket} main")
    return tuple(dict.fromkeys(lines))


@contextlib.contextmanager
def lists_of(release: str) -> Iterator[tuple[str, ...]]:
    """Download the package lists of `release` from this machine's mirrors of Debian.

    Gives the options with which apt-get and apt-cache use these lists instead of the machine's
    own, until they are removed at the end. A list that cannot be had is an empty one.
    """
    with tempfile.TemporaryDirectory(prefix="labs-apt-") as folder:
        work = Path(folder)
        signed = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        (work / "sources.list").write_text(
            "".join(f"deb {signed}{line}\n" for line in sources(release, targets()))
        )
        (work / "lists").mkdir()
        (work / "cache").mkdir()
        set_to = {
            "Dir::Etc::sourcelist": work / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": work / "lists",
            "Dir::Cache": work / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",  # its user _apt may not enter the folder
        }
        options = tuple(f"--option={name}={value}" for name, value in set_to.items())
        subprocess.run(("apt-get", *options, "update"), capture_output=True, check=False)
        yield options
