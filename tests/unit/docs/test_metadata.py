"""codemeta.json and .zenodo.json say what CITATION.cff says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from docs.metadata import ROOT, codemeta, read_citation, written, zenodo

KEPT = Path(__file__).parents[2] / "fixtures" / "citation"
UPLOADS = ("publication", "poster", "presentation", "dataset", "image", "video", "software")


def persons() -> dict[str, Any]:
    citation: dict[str, Any] = yaml.safe_load((KEPT / "persons.cff").read_text("utf-8"))
    return citation


def by_cffconvert(form: str) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads((KEPT / f"cffconvert-{form}.json").read_text("utf-8"))
    return metadata


def test_written_files_are_up_to_date() -> None:
    for name, text in written(read_citation()).items():
        assert (ROOT / name).read_text("utf-8") == text, f"{name}: make metadata"


def test_citations_are_valid() -> None:
    schema = json.loads((KEPT / "cff-1.2.0.schema.json").read_text("utf-8"))
    for citation in (read_citation(), persons()):
        jsonschema.Draft7Validator(schema).validate(citation)


def test_codemeta_is_that_of_cffconvert() -> None:
    """But for two things: cffconvert takes an organisation for a person, and the repository for the
    project's address."""
    expected = by_cffconvert("codemeta")
    expected["author"][1]["@type"] = "Organization"
    del expected["url"]
    assert codemeta(persons()) == expected


def test_zenodo_is_that_of_cffconvert() -> None:
    """Besides, it has what an upload form requires, and Zenodo's documentation has a licence as
    text."""
    expected = by_cffconvert("zenodo")
    metadata = zenodo(persons())
    assert metadata.pop("upload_type") in UPLOADS and metadata.pop("access_right") == "open"
    assert metadata == expected | {"license": expected["license"]["id"]}
    required = {"title", "description", "creators", "upload_type", "license"}
    assert required <= zenodo(read_citation()).keys()
