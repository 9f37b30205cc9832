"""The draws of claims with chance: one row per seed, kernel and condition, as recorded runs are."""

from __future__ import annotations

import json
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from labs.read.batch_index import read_index
from labs.catalog import find
from labs.drive.flows import Traffic, traffic_from_json
from labs.read.claims.ledger import read

ROOT = Path(__file__).parents[3]
DATA = ROOT / "data"


def digests(packed: Path) -> dict[str, str]:
    """The digest of each run of a packed file by the first 12 digits of its key."""
    with tarfile.open(packed) as held:
        return {
            Path(one.name).parent.name[-12:]: json.load(seal)["digest"]
            for one in held
            if one.name.endswith("seal.json") and (seal := held.extractfile(one))
        }


def has_chance(traffic: Traffic) -> bool:
    """Whether flows compete, or packets are lost or dropped at random."""
    queue = traffic.path.queue("down")
    drops_at_random = queue is not None and queue.kind == "pie"
    return len(traffic.flows) > 1 or bool(traffic.path.down.loss_pct) or drops_at_random


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
        if any(fnmatchcase(one.name, pattern) for pattern in patterns)
        and has_chance(traffic_from_json(one.plan))
    }
    assert judged == set(plan["ONLY"].split(","))


@pytest.mark.parametrize("lab", ["queues", "sharing"])
def test_draws_of_the_recorded_seed_are_the_recorded_runs(lab: str) -> None:
    rows = read_index(DATA / f"draws-{lab}.parquet").frame
    recorded = {
        key: digest
        for packed in DATA.glob(f"{lab}*.tar.xz")
        for key, digest in digests(packed).items()
    }
    first = rows[rows["seed"] == 1]
    drawn = dict(zip(first["key"].str[:12], first["digest"], strict=True))
    held = [recorded[key] == digest for key, digest in drawn.items() if key in recorded]
    # At least those of the newest recording's own kernel.
    assert len(held) >= first["condition"].nunique() and all(held)
