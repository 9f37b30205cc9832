"""The contract for namespaces of this machine's own kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from labs.drive.testbed.namespaces import OnThisMachine
from tests.conftest import no_qdisc
from tests.contract import CHECKS, NotApplicable, Setting, run


def missing_here() -> dict[str, str]:
    """The parts of a link that this machine lacks, and why."""
    found = {name: why for name in ("htb", "fq_codel", "netem") if (why := no_qdisc(name))}
    if shutil.which("ethtool") is None:
        found["ethtool"] = "ethtool is not installed"
    return found


def left(folders: set[str]) -> list[str]:
    """What exited testbeds left: folders, namespaces, journals."""
    found = [folder for folder in folders if Path(folder).parent.exists()]
    for tag in {Path(folder).parent.name for folder in folders}:
        found += [
            str(path) for root in ("/run/netns", "/run/labs") for path in Path(root).glob(f"{tag}*")
        ]
    return found


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(open=lambda link: OnThisMachine(link), left=left, missing=missing_here())


@pytest.mark.parametrize("name", CHECKS)
def test_contract_of_namespaces(name: str, setting: Setting) -> None:
    try:
        run(CHECKS[name], setting)
    except NotApplicable as reason:
        pytest.skip(str(reason))
