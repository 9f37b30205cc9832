"""The files of a bundle and its metadata: an RO-Crate 1.1 with the Process Run Crate profile 0.5.

ro-crate-metadata.json      what the bundle contains, for programs (RO-Crate 1.1)
ro-crate-preview.html       the same, for people
notebooks/NAME.ipynb        the executed notebooks
runs.tar.xz                 their runs, packed as by `labs runs pack`
verdicts.json               the verdicts that these runs give on the claims of the articles
code.json                   version and digests of the code
environment/                requirements.lock, or the versions of the installed packages
kernels/SERIES-DIGEST12/    kernel.json, config, fragment.config and patches of each kernel
LICENSE*, CITATION.cff
SHA256SUMS                  the checksum of every other file

Each run is an action, performed by the labs and the kernel. Its object is the requested condition,
and its result the packed runs. The execution of each notebook is an action, too.

Source: RO-Crate 1.1 (doi:10.5281/zenodo.4541002), https://w3id.org/ro/wfrun/process/0.5
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from labs.drive.record.seal import canonical, digest
from labs.read.notebook_file import given_parameters
from labs.read.runs.archive import BUNDLED
from labs.read.runs.run import Run

METADATA, PREVIEW = "ro-crate-metadata.json", "ro-crate-preview.html"
VERDICTS, CODE, SUMS = "verdicts.json", "code.json", "SHA256SUMS"
NOTEBOOKS, ENVIRONMENT, KERNELS = "notebooks", "environment", "kernels"
LOCK, INSTALLED = f"{ENVIRONMENT}/requirements.lock", f"{ENVIRONMENT}/installed.txt"
LICENCES = ("LICENSE", "LICENSE-CC-BY-4.0")
CITATION = "CITATION.cff"
ALLOWED = re.compile(
    "|".join(
        (
            *map(re.escape, (METADATA, PREVIEW, BUNDLED, VERDICTS, CODE, SUMS, CITATION)),
            *map(re.escape, (*LICENCES, LOCK, INSTALLED)),
            rf"{NOTEBOOKS}/[^/]+\.ipynb",
            rf"{KERNELS}/[0-9.]+-[0-9a-f]{{12}}/(kernel\.json|config|fragment\.config)",
            rf"{KERNELS}/[0-9.]+-[0-9a-f]{{12}}/patches/[^/]+\.patch",
        )
    )
)
COPY = "Ask whoever made the bundle for it again"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
CONTEXT = f"{SPECIFICATION}/context"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
ROOT, LABS, PAPERMILL = "./", "#tcp-lab-notebook", "#papermill"
VALUE = "PropertyValue"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
JSON, TEXT = "application/json", "text/plain"
TYPES = {".ipynb": "application/x-ipynb+json", ".xz": "application/x-xz", ".cff": "text/yaml"}
TYPES |= {".json": JSON, ".patch": "text/x-diff", ".lock": TEXT, ".config": TEXT}
WHAT = {
    BUNDLED: "The runs: inputs and raw output, sealed (read with `labs runs list`)",
    VERDICTS: "The verdicts that the runs give on the claims of the articles",
    CODE: "Version and digests of the code",
    CITATION: "How to cite the software",
    SUMS: "The SHA-256 checksum of every other file",
    **dict.fromkeys(LICENCES, "Licence"),
}
DESCRIPTION = (
    "Executed notebooks of the TCP lab notebook with the runs that they are based on. A run in "
    "virtual time repeats to the byte, so `labs verify` can perform it again and compare."
)


def sums(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS over the files of a bundle."""
    lines = (f"{digest(content)}  {name}\n" for name, content in sorted(files.items()))
    return "".join(lines).encode()


@dataclass(frozen=True)
class About:
    """What a bundle says about itself: its name, the day of its publication (ISO 8601), the version
    of the labs, and that of papermill."""

    name: str
    published: str
    version: str
    papermill: str


def metadata(
    about: About,
    sizes: Mapping[str, int],
    notebooks: Mapping[str, Mapping[str, Any]],
    runs: Sequence[Run],
) -> dict[str, Any]:
    """The JSON-LD of a bundle with files of these sizes in bytes, and with executed notebooks of
    this content, both by name."""
    actions = [*map(_run_action, runs), *map(_execution, notebooks)]
    root = {
        "datePublished": about.published,
        "name": about.name,
        "description": DESCRIPTION,
        "conformsTo": _to(PROFILE),
        "license": _to(LICENCE),
        "hasPart": [_to(name) for name in sorted(sizes)],
        "mentions": [_to(action["@id"]) for action in actions],
    }
    licensed = "Notebooks and data. The software is licensed under MIT."
    kernels = {
        kernel["digest"]: kernel for run in runs if (kernel := run.inputs["kernel"]) is not None
    }
    graph = [
        _entity(ROOT, "Dataset", **root),
        _entity(METADATA, "CreativeWork", conformsTo=_to(SPECIFICATION), about=_to(ROOT)),
        _entity(PROFILE, "CreativeWork", name="Process Run Crate 0.5", version="0.5"),
        _entity(LICENCE, "CreativeWork", name="CC BY 4.0", description=licensed),
        _software(LABS, "TCP lab notebook", about.version),
        _software(PAPERMILL, "papermill", about.papermill),
        *map(_kernel, kernels.values()),
        *(_entity(name, "File", **_about_file(name, size)) for name, size in sizes.items()),
        *(_condition(run) for run in runs),
        *(_parameters(name, given_parameters(book)) for name, book in notebooks.items()),
        *actions,
    ]
    return {"@context": CONTEXT, "@graph": sorted(graph, key=lambda entity: str(entity["@id"]))}


def _run_action(run: Run) -> dict[str, Any]:
    kernel = run.inputs["kernel"]
    description = (
        f"{run.lab} {run.condition} on the testbed {run.testbed}, Linux {run.kernel.release}"
    )
    performed_by = [LABS] if kernel is None else [LABS, _linux(kernel)]
    return _entity(
        f"#run-{run.name}",
        "CreateAction",
        name=run.name,
        description=description,
        instrument=list(map(_to, performed_by)),
        object=_to(f"#condition-{run.name}"),
        result=_to(BUNDLED),
    )


def _execution(notebook: str) -> dict[str, Any]:
    return _entity(
        f"#execution-{notebook}",
        "CreateAction",
        name=f"Execution of {notebook}",
        description="The notebook, executed by papermill with these parameters",
        instrument=[_to(PAPERMILL), _to(LABS)],
        object=[_to(f"#parameters-{notebook}"), _to(BUNDLED)],
        result=_to(f"{NOTEBOOKS}/{notebook}"),
    )


def _condition(run: Run) -> dict[str, Any]:
    properties = {"name": "condition", "value": canonical(run.inputs["condition"]).decode()}
    return _entity(f"#condition-{run.name}", VALUE, **properties, identifier=run.key)


def _parameters(notebook: str, values: Mapping[str, Any]) -> dict[str, Any]:
    properties = {"name": "parameters", "value": canonical(values).decode()}
    return _entity(f"#parameters-{notebook}", VALUE, **properties)


def _linux(kernel: Mapping[str, str]) -> str:
    return f"#linux-{kernel['digest'][:12]}"


def _kernel(kernel: Mapping[str, str]) -> dict[str, Any]:
    name = f"Linux {kernel['version']} (User-Mode Linux), SHA-256 {kernel['digest']}"
    return _software(_linux(kernel), name, kernel["version"])


def _software(identifier: str, name: str, version: str) -> dict[str, Any]:
    return _entity(identifier, "SoftwareApplication", name=name, softwareVersion=version)


def _entity(identifier: str, kind: str, /, **values: Any) -> dict[str, Any]:
    return {"@id": identifier, "@type": kind, **values}


def _to(identifier: str) -> dict[str, str]:
    """A reference to an entity."""
    return {"@id": identifier}


def _about_file(name: str, size_bytes: int) -> dict[str, str]:
    path = PurePosixPath(name)
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or TEXT
    return {
        "name": path.name,
        "description": WHAT.get(name) or _part_of(path),
        "contentSize": str(size_bytes),
        "encodingFormat": kind,
    }


def _part_of(path: PurePosixPath) -> str:
    folder = path.parts[0]
    if folder == NOTEBOOKS:
        return "Executed notebook"
    return f"Build recipe of Linux {path.parts[1]}" if folder == KERNELS else "Python environment"
