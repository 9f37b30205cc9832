"""Study files: written under two names, read strictly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.drive.record.seal import key
from labs.drive.record.study_file import Planned, StudyFile, read_study, write_study
from labs.errors import BadInput, Damaged, LabError

PLAN = (Planned("default", "0" * 64), Planned("both", "1" * 64))


def study(runs: Path, seed: int = 1) -> StudyFile:
    return write_study(runs, "buffers", {"seed": seed, "delay_ms": 200.0, "runs": str(runs)}, PLAN)


def test_write_study_under_its_name_and_as_the_newest(tmp_path: Path) -> None:
    one = study(tmp_path)
    content = json.loads(one.path.read_bytes())
    assert one.path == tmp_path / "studies" / f"buffers-{key(content)[:12]}.json"
    assert one.path.read_bytes() == (tmp_path / "studies/buffers.json").read_bytes()
    assert content == {
        "schema": 1,
        "lab": "buffers",
        "parameters": {"delay_ms": 200, "seed": 1},
        "plan": [{"condition": "default", "key": "0" * 64}, {"condition": "both", "key": "1" * 64}],
    }
    assert one.folders() == (
        tmp_path / "buffers-default-000000000000",
        tmp_path / "buffers-both-111111111111",
    )


def test_write_study_is_the_same_bytes_anywhere(tmp_path: Path) -> None:
    one, other = study(tmp_path / "a"), study(tmp_path / "b")
    assert one.path.name == other.path.name
    assert one.path.read_bytes() == other.path.read_bytes()


def test_read_study_gives_what_was_written(tmp_path: Path) -> None:
    written = study(tmp_path)
    for name in (written.path.name, "buffers.json"):
        read = read_study(tmp_path / "studies" / name)
        assert (read.lab, read.plan, read.name) == ("buffers", PLAN, written.name)
        assert read.parameters == {"seed": 1, "delay_ms": 200}
        assert read.runs == tmp_path


def test_write_study_updates_the_newest_of_its_lab(tmp_path: Path) -> None:
    def newest(lab: str) -> str:
        return read_study(tmp_path / "studies" / f"{lab}.json").name

    first, second = study(tmp_path, seed=1), study(tmp_path, seed=2)
    other = write_study(tmp_path, "delay", {}, PLAN)
    assert (newest("buffers"), newest("delay")) == (second.name, other.name)
    study(tmp_path, seed=1)
    assert (newest("buffers"), newest("delay")) == (first.name, other.name)
    assert len(list((tmp_path / "studies").iterdir())) == 5


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        (b"", Damaged, "is not JSON"),
        (b"[1]", Damaged, "is not a JSON object"),
        (b'{"lab":"buffers"}', BadInput, "no schema version"),
        (b'{"schema":7}', BadInput, "schema 7, and this version of labs reads schema 1"),
        (b'{"schema":1,"lab":"buffers","parameters":{}}', Damaged, "no lab, parameters or plan"),
        (
            b'{"schema":1,"lab":"buffers","parameters":{},"plan":[{"key":"0"}]}',
            Damaged,
            "without condition and key",
        ),
        (b'{"schema":1,"lab":"buffers","parameters":{},"plan":[]}', Damaged, "was changed"),
        (b'{"schema":1,"lab":"../../x","parameters":{},"plan":[]}', Damaged, "cannot name a run"),
        (b'{"schema":1,"lab":"x\\n","parameters":{},"plan":[]}', Damaged, "cannot name a run"),
        (
            b'{"schema":1,"lab":"' + b"x" * 300 + b'","parameters":{},"plan":[]}',
            Damaged,
            "cannot name a run",
        ),
        (
            b'{"schema":1,"lab":"x","parameters":{},"plan":[{"condition":"/","key":"0"}]}',
            Damaged,
            "cannot name a run",
        ),
        (b'{"schema":1,"lab":"\\ud800","parameters":{},"plan":[]}', Damaged, "surrogate"),
        (
            b'{"schema":1,"lab":"x","parameters":{"seed":1' + b"0" * 4000 + b'},"plan":[]}',
            Damaged,
            "an integer of 4001 digits",
        ),
        (b'{"schema":1,"lab":' + b"[" * 100_000, Damaged, "levels deep"),
    ],
)
def test_read_study_refuses_other_text(
    tmp_path: Path, text: bytes, error: type[LabError], what: str
) -> None:
    for name in ("buffers.json", "buffers-0123456789ab.json"):
        path = tmp_path / name
        path.write_bytes(text)
        with pytest.raises(error, match=what) as caught:
            read_study(path)
        assert "\n" not in str(caught.value)


def test_read_study_refuses_a_changed_file(tmp_path: Path) -> None:
    written = study(tmp_path)
    for path in (written.path, tmp_path / "studies/buffers.json"):
        text = path.read_bytes()
        path.write_bytes(text.replace(b'"seed": 1', b'"seed": 2'))
        with pytest.raises(Damaged, match="was changed"):
            read_study(path)
        path.write_bytes(text)
    with pytest.raises(BadInput, match="is not a study file"):
        read_study(tmp_path / "studies")
