"""The contract inside a kernel, in virtual time: one boot runs all checks on its namespaces,
another those of a shaped link on hosts reached over ssh, which few machines can do themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from labs.drive.kernel import store
from labs.drive.kernel.boot import boot
from labs.drive.kernel.watchdog import Limits
from labs.errors import LabError
from labs.guest.programs.init import INSIDE_CODE, PYTHON
from tests.conftest import DEFAULT_KERNEL
from tests.contract import CHECKS
from tests.contract.inside import RESULTS
from tests.sshd import no_sshd
from tests.virtual.roots import root_with

PROGRAM = (
    f"import sys; sys.path.insert(0, '{INSIDE_CODE}'); "
    "from tests.contract.inside import main; raise SystemExit(main(sys.argv[1:]))"
)
ROOT = Path(__file__).resolve().parents[2]
LINKS = ("check_link_has_its_rate", "check_link_delays_only_its_port")
COMPUTING = Limits(spin_cpu_s=300.0)
"""Two sshd, their keys and a Python for each session take much CPU time, and no virtual time."""

Outcomes = dict[str, dict[str, Any]]


def made_inside(staging: Path, *words: str) -> Outcomes:
    """What became of each check; a boot that ended early tells so for those that it did not run."""
    ended = "the kernel halted"
    try:
        boot(
            store.find(DEFAULT_KERNEL).path,
            root=root_with("ethtool", "ssh", "sshd", "ssh-keygen"),
            staging=staging,
            code=ROOT,
            argv=(PYTHON, "-I", "-S", "-c", PROGRAM, *words),
            cpu=max(os.sched_getaffinity(0)),
            limits=COMPUTING,
        )
    except LabError as error:
        ended = str(error)
    results = staging / RESULTS
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    found = {name: {"outcome": "not run", "why": ended} for name in words[1:]}
    return found | {outcome["check"]: outcome for outcome in map(json.loads, lines)}


def judge(outcome: dict[str, Any]) -> None:
    if outcome["outcome"] == "not applicable":
        pytest.skip(outcome["why"])
    if outcome["outcome"] != "passed":
        pytest.fail(f"{outcome['outcome']}: {outcome['why']}", pytrace=False)


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return made_inside(tmp_path_factory.mktemp("namespaces"), "namespaces", *CHECKS)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    if reason := no_sshd():
        pytest.skip(reason)
    return made_inside(tmp_path_factory.mktemp("ssh"), "ssh", *LINKS)


@pytest.mark.parametrize("name", CHECKS)
def test_contract(name: str, namespaces: Outcomes) -> None:
    judge(namespaces[name])


@pytest.mark.parametrize("name", LINKS)
def test_contract_over_ssh(name: str, ssh: Outcomes) -> None:
    judge(ssh[name])
