"""The schemas of what is written: they fit it, and find what is wrong."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from labs.drive.record.stored_files import RUN_SCHEMA, RUN_SCHEMAS, STUDY_SCHEMA, STUDY_VERSION
from labs.errors import Damaged
from labs.read.runs.schemas import held_to
from tests.run_folders import inputs, make_study, run_json

GONE = object()


def changed(value: Any, path: str, new: object) -> Any:
    """A copy in which the entry at a dotted path is `new`, or gone."""
    whole = deepcopy(value)
    inner, *parts = whole, *path.split(".")
    for part in parts[:-1]:
        inner = inner[int(part) if isinstance(inner, list) else part]
    last: Any = int(parts[-1]) if isinstance(inner, list) else parts[-1]
    if new is GONE:
        del inner[last]
    else:
        inner[last] = new
    return whole


@pytest.mark.parametrize(("version", "path"), [*RUN_SCHEMAS.items(), (STUDY_VERSION, STUDY_SCHEMA)])
def test_schemas_are_valid_and_name_their_version(version: int, path: Path) -> None:
    schema = json.loads(path.read_bytes())
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": version}


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("ended", "limit"),
        ("kernel", {"release": "6.18.0"}),
        ("buffers", []),
        ("tools", {}),
        ("link.asked.burst_bytes", None),
        ("link.measured.rate_mbit", None),
        ("commands.0.exit", None),
        ("commands.0.exit", -15),
        ("inputs.kernel", None),
        ("inputs.condition.sysctls", {}),
        ("inputs.condition.settings", {"a": None, "b": 1.5}),
        ("link.asked.queue_packets", None),
        ("link.asked.rate_mbit", None),
        ("link.asked.shaped_at", "router"),
        ("inputs.testbed", "namespaces"),
        ("inputs.testbed", "ssh"),
    ],
)
def test_held_to_accepts_a_run(path: str, new: object) -> None:
    said = changed(run_json(inputs()), path, new)
    assert held_to(RUN_SCHEMA, said, Path("run.json")) == said


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("schema", GONE),
        ("lab", GONE),
        ("marks", GONE),
        ("more", 1),
        ("lab", "../x"),
        ("key", "0" * 63),
        ("key", "G" * 64),
        ("ended", "killed"),
        ("link.asked.shaped_at", "client"),
        ("link.asked.at", "server"),
        ("link.asked.burst_bytes", 0),
        ("link.asked.delay_ms", -1),
        ("link.asked.delay_ms", "200"),
        ("link.asked.delay_ms", True),
        ("link.asked.port", 0),
        ("link.asked.rate_mbit", 0),
        ("link.asked.more", 1),
        ("link.measured.rtt_ms", GONE),
        ("link.measured.loss_pct", 101),
        ("link.ok", False),
        ("link.ok", "as asked"),
        ("link.problems", ["RTT 3 ms, asked 200"]),
        ("link.problems", GONE),
        ("commands.0.argv", []),
        ("commands.0.argv", "ip link"),
        ("commands.0.at_ns", 1.5),
        ("commands.0.at_ns", GONE),
        ("commands.0.exit", "0"),
        ("marks.0", GONE),
        ("marks.1", GONE),
        ("marks.1.name", "start"),
        ("sysctls.server.after", GONE),
        ("sysctls.server.before.x", 1),
        ("buffers.0.granted_bytes", "1"),
        ("buffers.0.more", 1),
        ("kernel.hz", 0),
        ("kernel.hz", 250.5),
        ("inputs.kernel.digest", "6.1"),
        ("inputs.testbed", "recorded"),
        ("inputs.seed", -1),
        ("inputs.condition.settings.list", [1]),
        ("inputs.condition.sysctls.server.x", 1),
        ("inputs.tools.nginx", "nginx/1.22.1"),
        ("inputs.code", GONE),
        ("inputs.more", 1),
        ("tools.nginx", None),
    ],
)
def test_held_to_refuses_a_run(path: str, new: object) -> None:
    with pytest.raises(Damaged, match=r"^runs/x/run\.json: ") as caught:
        held_to(RUN_SCHEMA, changed(run_json(inputs()), path, new), Path("runs/x/run.json"))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("plan", []),
        ("plan.0.key", "0" * 12),
        ("plan.0.more", 1),
        ("plan.0.condition", "a/b"),
        ("parameters.runs", "runs"),
        ("parameters.Seed", 1),
        ("parameters.seed", [1]),
        ("lab", ""),
        ("more", 1),
        ("schema", 2),
    ],
)
def test_held_to_refuses_a_study(tmp_path: Path, path: str, new: object) -> None:
    said = make_study(tmp_path).as_json()
    assert held_to(STUDY_SCHEMA, said, Path("study.json"))
    with pytest.raises(Damaged):
        held_to(STUDY_SCHEMA, changed(said, path, new), Path("study.json"))
