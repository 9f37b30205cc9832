"""A lab of the reader's own goes the whole way: written, run in the virtual testbed, read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.__main__ import main


def test_new_lab_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "_of_files", {})  # other tests know no such lab
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mylab"]) == 0
    capsys.readouterr()
    words = ["run", "./mylab.py", "--file-kib", "50", "--into", "kept", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["lab"], report["testbed"], report["into"]) == ("mylab", "virtual", "kept")
    near, far = report["results"]
    assert (near["condition"], far["condition"]) == ("near", "far")
    # A handshake, the request, and 50 KiB from an initial window of 10 segments: 4 to 5 in all.
    assert 3 <= far["round_trips"] <= 5
    assert far["took_ms"] > near["took_ms"]
    assert far["link"]["ok"]
    made = sorted(folder.name for folder in Path("kept").iterdir())
    assert main([*words, "--only", "far"]) == 0
    (again,) = json.loads(capsys.readouterr().out)["results"]
    assert again == far  # read, not made once more
    assert sorted(folder.name for folder in Path("kept").iterdir()) == made
