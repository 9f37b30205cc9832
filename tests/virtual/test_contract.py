"""The contract, kept by namespaces inside a kernel: one boot runs all checks, on virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.errors import LabError
from labs.kernel import store
from labs.kernel.boot import INSIDE_CODE, boot
from labs.launch.tools import python
from tests.conftest import DEFAULT_KERNEL
from tests.contract import CHECKS
from tests.contract.inside import RESULTS

PROGRAM = (f"import sys; sys.path.insert(0, '{INSIDE_CODE}'); "
           "from tests.contract.inside import main; raise SystemExit(main())")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each check; a boot that ended early tells so for those that it did not run."""
    staging = tmp_path_factory.mktemp("contract")
    ended = "the kernel halted"
    try:
        boot(store.find(DEFAULT_KERNEL).path, staging=staging, code=ROOT,
             argv=(str(python()), "-I", "-S", "-c", PROGRAM))
    except LabError as error:
        ended = str(error)
    results = staging / RESULTS
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    found = {name: {"outcome": "not run", "why": ended} for name in CHECKS}
    return found | {outcome["check"]: outcome for outcome in map(json.loads, lines)}


@pytest.mark.parametrize("name", CHECKS)
def test_contract(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[name]
    if outcome["outcome"] == "not applicable":
        pytest.skip(outcome["why"])
    if outcome["outcome"] != "passed":
        pytest.fail(f"{outcome['outcome']}: {outcome['why']}", pytrace=False)
