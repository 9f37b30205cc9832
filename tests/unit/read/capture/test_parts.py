"""The table of a capture in parts: the same segments, each connection whole."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.made_capture import write_capture
from labs.cli.__main__ import main
from labs.read.capture import parts, read
from labs.read.capture.parts import OMITTED, whole_connections
from labs.read.flows.explain import explain, read_account


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts") / "many.pcap"
    write_capture(path, 4_000)
    return path


def test_parts_are_the_table(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_IN_MEMORY", 500)
    with whole_connections(many) as capture:
        tables = list(capture.tables)
    assert len(tables) > 5 and max(map(len, tables)) <= 500
    numbers = [set(table["connection"]) for table in tables]
    assert sum(map(len, numbers)) == len(set.union(*numbers)) == len(capture.connections)
    together = pd.concat([pd.DataFrame(one.columns, one.index) for one in tables]).sort_index()
    pd.testing.assert_frame_equal(together, read(many).drop(columns=list(OMITTED)))


def test_account_in_parts_is_that_of_the_whole(
    many: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> list[object]:
        main(["capture", "stalls", str(many), "--json"])
        one = explain(many, connection=3).as_json()
        return [explain(many).as_json(), one, json.loads(capsys.readouterr().out)]

    whole = told()
    monkeypatch.setattr(parts, "ROWS_IN_MEMORY", 500)
    assert told() == whole
    assert whole[0] == read_account(many)[1].as_json()
