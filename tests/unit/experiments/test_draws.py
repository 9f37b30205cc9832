"""The plans of the recorded draws have every condition with chance that a claim judges."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from labs.catalog import find
from labs.read.claims.composition import chance
from labs.read.claims.ledger import read

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("lab", ["queues", "sharing"])
def test_every_condition_with_chance_that_is_judged_is_drawn(lab: str) -> None:
    found = find(lab)
    assert found.ledger is not None
    patterns = {name for claim in read(found.ledger).claims for name in claim.conditions}
    plan = yaml.safe_load((ROOT / "docs" / f"draws-{lab}.yaml").read_text())
    every = found.conditions(found.Parameters(size="full"))
    judged = {
        one.name
        for one in every
        if any(fnmatchcase(one.name, pattern) for pattern in patterns) and chance(one)
    }
    assert judged == set(plan["ONLY"].split(","))
