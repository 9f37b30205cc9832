"""This machine's package sources of Debian, for any release of Debian."""

from __future__ import annotations

import subprocess


def targets() -> str:
    """What apt reads packages from: per line an address, a suite, a component and an origin."""
    words = ("apt-get", "indextargets", "--format",
             "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)", "Created-By: Packages")
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
