"""Raw files that no tool can have written are refused with their name, under a seal that holds."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from labs.catalog import find
from labs.cli.__main__ import main
from labs.drive.record.seal import key
from labs.errors import BadInput, Damaged
from labs.read.lab import Lab
from labs.read.runs import raw_files
from labs.read.runs.run import Run, open_run
from tests.real_runs import real, recorded_nagle
from tests.run_folders import reseal

FETCH = json.loads(real("both-1mib").text("client/fetch.json"))
ASK = {"quickack": "never", "times_ms": [1.0, 44.0]}


def changed(said: dict[str, Any], **entries: Any) -> bytes:
    return json.dumps({**said, **entries}).encode()


def with_content(run: Run, folder: Path, name: str, content: bytes) -> Run:
    """A copy of the run with another content of one file, sealed anew."""
    copy = shutil.copytree(run.path, folder / run.path.name)
    (copy / name).write_bytes(content)
    return open_run(reseal(copy))


OTHER_JSON = {
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "another type": b"[]",
    "no entries": b"{}",
    "nested": b"[" * 100_000,
    "digits": b'{"bytes": 1' + b"0" * 4000 + b"}",
}
OTHER_FETCH = OTHER_JSON | {
    "a key less": json.dumps({k: v for k, v in FETCH.items() if k != "end_ns"}).encode(),
    "a text": changed(FETCH, bytes="many"),
    "a truth": changed(FETCH, bytes=True),
    "a fraction": changed(FETCH, bytes=1.5),
    "too large": changed(FETCH, bytes=10**300),
    "below zero": changed(FETCH, first_byte_ns=-1),
    "an end before the beginning": changed(FETCH, end_ns=FETCH["first_byte_ns"] - 1),
    "a timeline of numbers": changed(FETCH, timeline=[1, 2]),
    "a timeline of triples": changed(FETCH, timeline=[[1, 2, 3]]),
    "a timeline of texts": changed(FETCH, timeline=[["1", "2"]]),
    "a timeline that falls": changed(FETCH, timeline=FETCH["timeline"][::-1]),
    "a timeline beyond the end": changed(FETCH, timeline=[[FETCH["end_ns"] + 1, 1]]),
}
OTHER_ASK = OTHER_JSON | {
    "no times": changed(ASK, times_ms=[]),
    "a text": changed(ASK, times_ms=["1"]),
    "a truth": changed(ASK, times_ms=[True]),
    "below zero": changed(ASK, times_ms=[-1.0]),
    "too large": changed(ASK, times_ms=[1e300]),
}


@pytest.mark.parametrize(("name", "content"), OTHER_FETCH.items())
def test_read_refuses_another_fetch_json(tmp_path: Path, name: str, content: bytes) -> None:
    run = with_content(real("both-1mib"), tmp_path, "client/fetch.json", content)
    with pytest.raises(Damaged, match=r"client/fetch\.json"):
        run.fetch()
    with pytest.raises(Damaged, match=r"client/fetch\.json"):
        find("buffers").results(run)


@pytest.mark.parametrize(("name", "content"), OTHER_ASK.items())
def test_read_refuses_another_ask_json(tmp_path: Path, name: str, content: bytes) -> None:
    run = with_content(recorded_nagle(size="full").run("ask"), tmp_path, "client/ask.json", content)
    with pytest.raises(Damaged, match=r"client/ask\.json"):
        find("nagle").results(run)


def cut(text: str) -> str:
    return text[: len(text) // 2]


def without_a_line(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


def with_words(text: str) -> str:
    return text.replace("1", "one")


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("client/ab.txt", cut),
        ("client/ab.txt", with_words),
        ("client/ab.csv", cut),
        ("client/ab.csv", without_a_line),
        ("client/ab.csv", with_words),
    ],
)
def test_read_refuses_other_output_of_ab(
    tmp_path: Path, name: str, spoil: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = recorded_nagle(size="full").run("off")
    run = with_content(run, tmp_path / "runs", name, spoil(run.text(name)).encode())
    with pytest.raises(Damaged, match=name.replace(".", r"\.")):
        find("nagle").results(run)
    out = tmp_path / "table.csv"
    assert main(["runs", "export", str(run.path), "--csv", str(out)]) == 6
    said = capsys.readouterr().err
    assert name in said and said.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("client/ss.txt", b"@ 1 -\nnothing\n", lambda run: run.ss("client")),
        ("client/ss.txt", b"@ 99999999999999999999 -\n", lambda run: run.ss("client")),
        ("client/samples.bin", b"\xff" * 40, lambda run: run.samples("client")),
        ("client/samples.bin", b"\xff" * 8 + bytes(4), lambda run: run.samples("client")),
        ("server/nstat-after.txt", b"A B\n", lambda run: run.nstat("server")),
        ("server/tc-after.txt", b"A B\n", lambda run: run.tc("server")),
        ("client/wget.txt", b"curl\n", lambda run: run.wget()),
        ("client/httping.txt", b"ping\n", lambda run: run.httping()),
    ],
)
def test_read_refuses_other_output(
    tmp_path: Path, name: str, content: bytes, read: Callable[[Run], object]
) -> None:
    run = with_content(real("both-1mib"), tmp_path, name, content)
    with pytest.raises(Damaged, match=name.replace(".", r"\.")):
        read(run)


def test_read_refuses_a_file_that_became_a_pipe(tmp_path: Path) -> None:
    run = with_content(real("both-1mib"), tmp_path, "client/ss.txt", b"")
    (run.path / "client/ss.txt").unlink()
    os.mkfifo(run.path / "client/ss.txt")
    for read in (lambda: run.ss("client"), lambda: run.text("client/ss.txt")):
        with pytest.raises(Damaged, match="is not a regular file"):
            read()


def test_check_reads_every_run_that_the_project_has(tmp_path: Path) -> None:
    for run in (
        real("both-1mib"),
        real("wget"),
        *(recorded_nagle(size="full").run(one) for one in ("off", "ask")),
    ):
        raw_files.check(run.path, run.seal.files)


@pytest.mark.parametrize("name", ["client/ab.txt", "client/ab.csv", "server/ss.txt"])
def test_check_names_the_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    run = recorded_nagle(size="full").run("off")
    copy = shutil.copytree(run.path, tmp_path / "run")
    (copy / name).write_text("other")
    with pytest.raises(Damaged, match=f"^{name}: "):
        raw_files.check(copy, run.seal.files)


def test_results_of_a_run_that_a_lab_does_not_expect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lab of the project does not expect is damage; an own lab has to be corrected."""
    run, lab = real("both-1mib"), find("buffers")

    class Results:
        def __init__(self, run: Run) -> None:
            raise ZeroDivisionError("division by zero")

    module = ModuleType("results")
    module.__dict__.update(Results=Results, __file__=str(tmp_path / "results.py"))

    def like(source: Path | None) -> Lab:
        return Lab(
            "x", "", lab.Parameters, lab.all_conditions, "", lambda part: module, source=source
        )

    with pytest.raises(Damaged, match="ZeroDivisionError: division by zero"):
        like(None).results(run)
    with pytest.raises(BadInput, match=r"own\.py: .*ZeroDivisionError: division by zero"):
        like(tmp_path / "own.py").results(run)


@pytest.mark.parametrize("value", ["", "1", None, True, [], 1.5])
def test_results_of_a_run_with_a_setting_of_another_type(tmp_path: Path, value: object) -> None:
    copy = shutil.copytree(real("both-1mib").path, tmp_path / "run")
    said = json.loads((copy / "run.json").read_text())
    said["inputs"]["condition"]["settings"]["transfer_bytes"] = value
    (copy / "run.json").write_text(json.dumps(said | {"key": key(said["inputs"])}))
    with pytest.raises(Damaged):
        find("buffers").results(open_run(reseal(copy)))
