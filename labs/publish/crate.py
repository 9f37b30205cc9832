"""The metadata of a bundle: an RO-Crate 1.1 with the Process Run Crate profile 0.5.

Each run is an action, performed by the labs and the kernel. Its object is the requested condition,
and its result the packed runs. The execution of each notebook is an action, too.

Source: RO-Crate 1.1 (doi:10.5281/zenodo.4541002), https://w3id.org/ro/wfrun/process/0.5
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from labs.drive.record.seal import canonical
from labs.publish.bundle_layout import CITATION, CODE, KERNELS, LICENCES, NOTEBOOKS, SUMS, VERDICTS
from labs.publish.bundled_notebook import Executed
from labs.read.runs.archive import BUNDLED
from labs.read.runs.run import Run

VERSION = "1.1"
CONTEXT = f"https://w3id.org/ro/crate/{VERSION}/context"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
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


@dataclass(frozen=True)
class About:
    """What a bundle says about itself: its name, the day of its publication (ISO 8601), the version
    of the labs, and that of papermill."""

    name: str
    published: str
    version: str
    papermill: str


def metadata(
    about: About, files: Mapping[str, bytes], notebooks: Sequence[Executed], runs: Sequence[Run]
) -> dict[str, Any]:
    """The JSON-LD of a bundle with these files."""
    crate = ROCrate(gen_preview=False, version=VERSION)
    root = crate.root_dataset
    root["name"], root["description"] = about.name, DESCRIPTION
    root["datePublished"] = about.published
    root["conformsTo"] = _entity(crate, PROFILE, "CreativeWork", name="Process Run Crate 0.5")
    root["conformsTo"]["version"] = "0.5"
    root["license"] = _entity(crate, LICENCE, "CreativeWork", name="CC BY 4.0")
    root["license"]["description"] = "Notebooks and data. The software is licensed under MIT."
    for name, content in sorted(files.items()):
        crate.add_file(dest_path=name, properties=_about_file(name, content))
    labs = _software(crate, "#tcp-lab-notebook", "TCP lab notebook", about.version)
    papermill = _software(crate, "#papermill", "papermill", about.papermill)
    kernels = {
        kernel["digest"]: _software(
            crate,
            f"#linux-{kernel['digest'][:12]}",
            f"Linux {kernel['version']} (User-Mode Linux), SHA-256 {kernel['digest']}",
            kernel["version"],
        )
        for run in sorted(runs, key=lambda run: run.name)
        if (kernel := run.inputs["kernel"]) is not None
    }
    result = crate.dereference(BUNDLED)
    actions = [_run_action(crate, run, labs, kernels, result) for run in runs]
    for one in notebooks:
        values = _property(crate, f"#parameters-{one.name}", "parameters", one.parameters)
        action = crate.add_action(
            [papermill, labs],
            identifier=f"#execution-{one.name}",
            object=[values, result],
            result=crate.dereference(f"{NOTEBOOKS}/{one.name}"),
            properties={
                "name": f"Execution of {one.name}",
                "description": "The notebook, executed by papermill with these parameters",
            },
        )
        actions.append(action)
    root["mentions"] = actions
    found: dict[str, Any] = crate.metadata.generate()
    found["@graph"].sort(key=lambda entity: str(entity["@id"]))
    return found


def _run_action(
    crate: ROCrate, run: Run, labs: Any, kernels: Mapping[str, Any], result: Any
) -> Any:
    kernel = run.inputs["kernel"]
    performed_by = [labs] if kernel is None else [labs, kernels[kernel["digest"]]]
    condition = _property(
        crate, f"#condition-{run.name}", "condition", run.inputs["condition"], run.key
    )
    said = f"{run.lab} {run.condition} on the testbed {run.testbed}, Linux {run.kernel.release}"
    return crate.add_action(
        performed_by,
        identifier=f"#run-{run.name}",
        object=condition,
        result=result,
        properties={"name": run.name, "description": said},
    )


def _entity(crate: ROCrate, identifier: str, kind: str, **values: Any) -> Any:
    return crate.add(ContextEntity(crate, identifier, {"@type": kind, **values}))


def _software(crate: ROCrate, identifier: str, name: str, version: str) -> Any:
    there = crate.get(identifier)
    return there or _entity(
        crate, identifier, "SoftwareApplication", name=name, softwareVersion=version
    )


def _property(
    crate: ROCrate, identifier: str, name: str, value: Mapping[str, Any], key: str = ""
) -> Any:
    entity = _entity(crate, identifier, "PropertyValue", name=name)
    entity["value"] = canonical(value).decode()
    if key:
        entity["identifier"] = key
    return entity


def _about_file(name: str, content: bytes) -> dict[str, str]:
    path = PurePosixPath(name)
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or TEXT
    return {
        "name": path.name,
        "description": WHAT.get(name) or _part_of(path),
        "contentSize": str(len(content)),
        "encodingFormat": kind,
    }


def _part_of(path: PurePosixPath) -> str:
    folder = path.parts[0]
    if folder == NOTEBOOKS:
        return "Executed notebook"
    return f"Build recipe of Linux {path.parts[1]}" if folder == KERNELS else "Python environment"
