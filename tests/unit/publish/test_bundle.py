"""Bundles: the same bytes again, valid metadata, a page without scripts, runs that are read."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import requests_cache
import urllib3
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from rocrate.rocrate import ROCrate
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings

from labs.cli.command import prepare
from labs.drive.record.seal import digest
from labs.errors import BadInput
from labs.publish.bundle import day, will_execute
from labs.publish.bundle_contents import code, every_content, kernels_of
from labs.publish.crate import ALLOWED, METADATA, PREVIEW, SUMS, VERDICTS
from labs.publish.crate_preview import preview
from labs.read.notebook_file import read_notebook
from labs.read.runs.archive import BUNDLED
from labs.read.runs.run import open_run
from tests.hostile_bundles import MARKUP, NOTEBOOK, files_of, made, notebook
from tests.run_folders import inputs, make_run, make_study

CONTEXT = Path(__file__).parents[2] / "fixtures" / "publish" / "ro-crate-1.1-context.jsonld"
ADDRESS = "https://w3id.org/ro/crate/1.1/context"


class Kept(HTTPAdapter):
    """Answers with the context that is kept here, instead of fetching it."""

    def send(self, request: PreparedRequest, *_: Any, **__: Any) -> Response:
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(CONTEXT.read_bytes()),
            status=200,
            headers={"Content-Type": "application/ld+json"},
            preload_content=False,
            request_url=request.url,
        )
        return self.build_response(request, raw)


def problems(packed: Path, cache: Path) -> list[tuple[str, str]]:
    """What the validator of the field finds in a bundle, without a network."""
    with requests_cache.CachedSession(str(cache), backend="sqlite") as session:
        session.mount("https://w3id.org/", Kept())
        session.get(ADDRESS)
    settings = ValidationSettings(
        rocrate_uri=str(packed),
        profile_identifier="process-run-crate",
        requirement_severity=Severity.REQUIRED,
        cache_path=cache,
        offline=True,
    )
    result = services.validate(settings)
    issues = [(str(issue.check.identifier), str(issue.message)) for issue in result.get_issues()]
    assert result.passed() == (not issues)
    return issues


def run(*words: object) -> int:
    return prepare("bundle", list(map(str, words))).run()


def test_metadata_pass_the_validator_of_the_field(tmp_path: Path) -> None:
    assert problems(made(tmp_path), tmp_path / "cache") == []


def test_metadata_are_read_by_the_library_of_the_field(tmp_path: Path) -> None:
    crate = ROCrate(made(tmp_path))
    actions = crate.root_dataset["mentions"]
    assert [action.type for action in actions] == ["CreateAction"] * 3  # two runs and a notebook
    assert {part.id for part in crate.root_dataset["hasPart"]} >= {NOTEBOOK, BUNDLED, VERDICTS}
    assert json.loads(crate.get("#parameters-book.ipynb")["value"]) == {
        "NOTE": MARKUP,
        "RATE_MBIT": 10,
    }


def test_the_validator_finds_what_is_wrong(tmp_path: Path) -> None:
    files = files_of(made(tmp_path))
    about = json.loads(files[METADATA])
    about["@graph"] = [entity for entity in about["@graph"] if entity["@id"] != "#tcp-lab-notebook"]
    for entity in about["@graph"]:
        entity.pop("license", None)
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as parcel:
        for name, content in files.items():
            parcel.writestr(name, json.dumps(about) if name == METADATA else content)
    profiles = {
        identifier.partition("_")[0]
        for identifier, _ in problems(tmp_path / "bad.zip", tmp_path / "cache")
    }
    assert profiles == {"ro-crate-1.1", "process-run-crate-0.5"}


def test_write_gives_the_same_bytes_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    first = made(tmp_path / "a").read_bytes()
    shutil.copytree(tmp_path / "a/runs", tmp_path / "b/runs")
    for path in (tmp_path / "b").rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert made(tmp_path / "b").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "a/good.zip") as parcel:
        listed = parcel.infolist()
    assert listed[0].filename == METADATA
    assert {(file.date_time, file.external_attr >> 16) for file in listed} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644)
    }


def test_write_describes_every_file(tmp_path: Path) -> None:
    files = files_of(made(tmp_path))
    sums = dict(line.split("  ")[::-1] for line in files[SUMS].decode().splitlines())
    assert sums == {name: digest(files[name]) for name in files if name != SUMS}
    assert all(ALLOWED.fullmatch(name) for name in files)
    assert {NOTEBOOK, BUNDLED, VERDICTS, "code.json", "LICENSE", "CITATION.cff"} <= files.keys()
    graph = {entity["@id"]: entity for entity in json.loads(files[METADATA])["@graph"]}
    actions = [entity for entity in graph.values() if entity["@type"] == "CreateAction"]
    assert len(actions) == 3  # two runs, and the execution of a notebook
    assert graph["./"]["conformsTo"] == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    condition = json.loads(graph[actions[-1]["object"]["@id"]]["value"])
    assert condition["link"]["delay_ms"] == inputs()["condition"]["link"]["delay_ms"]
    noted = json.loads(files[NOTEBOOK])
    assert noted["metadata"]["papermill"] == {"parameters": {"NOTE": MARKUP, "RATE_MBIT": 10}}
    assert all("execution" not in cell["metadata"] for cell in noted["cells"])


def test_preview_shows_markup_as_text(tmp_path: Path) -> None:
    page = files_of(made(tmp_path, title=MARKUP))[PREVIEW]
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in page and b"<script" not in page
    assert b"<img" not in page and b"good.zip" not in page


def test_preview_escapes_verdicts_of_another_form() -> None:
    verdict = {"id": MARKUP, "verdict": MARKUP, "factor": None, "statement": MARKUP}
    verdicts = {"articles": [{"article": MARKUP, "verdicts": [verdict]}]}
    page = preview({}, {}, [], verdicts)
    assert page.count(b"&lt;script&gt;") == 4 and b"<script" not in page and b"<img" not in page


def test_taken_as_executed_unless_parameters_are_given(tmp_path: Path) -> None:
    book = read_notebook(notebook(tmp_path))
    assert not will_execute(book, {}) and will_execute(book, {"RATE_MBIT": 5})
    content = json.loads(book.path.read_text())
    content["cells"][-1]["outputs"] = []
    book.path.write_text(json.dumps(content))
    assert will_execute(read_notebook(book.path), {})


def test_main_plans_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(tmp_path / "runs")
    book, runs, out = notebook(tmp_path), tmp_path / "runs", tmp_path / "out.zip"
    assert run(out, book, runs, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "out": str(out),
        "notebooks": [{"path": str(book), "execute": False}],
        "runs": [str(runs)],
    }
    (tmp_path / "empty").mkdir()
    for words in (
        (tmp_path / "out.tar.xz", runs),
        (out, tmp_path / "missing"),
        (out, tmp_path / "empty"),
        (out, book),
        (out, book, book, runs),
        (out, book, runs, "--set", "NO_SUCH=1"),
    ):
        with pytest.raises(BadInput):
            run(*words)
    assert not out.exists()


def test_every_content_joins_folders_and_refuses_other_bytes(tmp_path: Path) -> None:
    make_run(tmp_path / "a", inputs("default"))
    make_run(tmp_path / "b", inputs("both"))
    make_run(tmp_path / "c", inputs("both"), note=b"other")
    contents = every_content([tmp_path / "a", tmp_path / "b", tmp_path / "b"])
    assert len({name.split("/")[0] for name in contents}) == 2
    with pytest.raises(BadInput, match="with other bytes"):
        every_content([tmp_path / "b", tmp_path / "c"])


def test_kernels_of_names_a_kernel_that_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    run = open_run(make_run(tmp_path / "runs"))
    kernel = run.inputs["kernel"]
    ((name, content),) = kernels_of([run]).items()
    assert name.endswith(f"-{kernel['digest'][:12]}/kernel.json")
    record = json.loads(content)
    assert record == {"built": None, "sha256": kernel["digest"], "version": kernel["version"]}


def test_code_has_digests_that_do_not_depend_on_compiled_files() -> None:
    digests = code()
    assert digests == code() and len(digests["digest"]) == 64 and "buffers" in digests["runs"]


def test_day_is_that_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert day() == "2026-09-21"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(BadInput):
        day()
