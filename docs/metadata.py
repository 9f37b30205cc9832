"""Write codemeta.json and .zenodo.json, the metadata that archives read, from CITATION.cff.

    make metadata

Sources: the crosswalk from the Citation File Format 1.2.0 to CodeMeta 2.0, and the metadata of
Zenodo's deposits. Only what CITATION.cff says is written; edit that file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CODEMETA = "https://doi.org/10.5063/schema/codemeta-2.0"
TO_CODEMETA = {
    "title": "name",
    "abstract": "description",
    "version": "version",
    "date-released": "datePublished",
    "keywords": "keywords",
    "repository-code": "codeRepository",
    "url": "url",
}
TO_ZENODO = {
    "title": "title",
    "abstract": "description",
    "version": "version",
    "date-released": "publication_date",
    "keywords": "keywords",
    "license": "license",
}


def codemeta(citation: Mapping[str, Any]) -> dict[str, Any]:
    """The content of codemeta.json."""
    return {
        "@context": CODEMETA,
        "@type": "SoftwareSourceCode",
        **_renamed(citation, TO_CODEMETA),
        **({"identifier": f"https://doi.org/{citation['doi']}"} if "doi" in citation else {}),
        "license": f"https://spdx.org/licenses/{citation['license']}",
        "author": [_codemeta_author(author) for author in citation["authors"]],
    }


def zenodo(citation: Mapping[str, Any]) -> dict[str, Any]:
    """The content of .zenodo.json."""
    return {
        **_renamed(citation, TO_ZENODO),
        "upload_type": "software",
        "access_right": "open",
        "creators": [_zenodo_creator(author) for author in citation["authors"]],
    }


def written(citation: Mapping[str, Any]) -> dict[str, str]:
    """The text of each file by name."""
    files = {"codemeta.json": codemeta(citation), ".zenodo.json": zenodo(citation)}
    return {
        name: json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for name, content in files.items()
    }


def read_citation(root: Path = ROOT) -> dict[str, Any]:
    """CITATION.cff of the project."""
    citation: dict[str, Any] = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    return citation


def _renamed(citation: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {new: citation[old] for old, new in names.items() if old in citation}


def _codemeta_author(author: Mapping[str, str]) -> dict[str, Any]:
    """A person, or an organisation: of these the Citation File Format has only the name."""
    if "name" in author:
        return {"@type": "Organization", "name": author["name"]}
    names = {"given-names": "givenName", "family-names": "familyName", "orcid": "@id"}
    person = {"@type": "Person", **_renamed(author, names)}
    if "affiliation" in author:
        person["affiliation"] = {"@type": "Organization", "legalName": author["affiliation"]}
    return person


def _zenodo_creator(author: Mapping[str, str]) -> dict[str, str]:
    """Persons as "family, given"; an ORCID without its address."""
    parts = [author[part] for part in ("family-names", "given-names") if part in author]
    creator = {"name": author.get("name") or ", ".join(parts)}
    if "orcid" in author:
        creator["orcid"] = author["orcid"].rpartition("/")[2]
    return creator | _renamed(author, {"affiliation": "affiliation"})


def main() -> None:
    for name, text in written(read_citation()).items():
        (ROOT / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
