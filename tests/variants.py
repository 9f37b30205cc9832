"""Variants of a host as values, and short ways to declare them.

Words in braces stand for paths of this host (tests.host_variants.places): `{stdlib}` is the folder
of the standard library, `{work}` the variant's own folder.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

SAME, OTHER_KEY, REFUSED = "same", "other key", "refused"
LABS = ("buffers", "nagle", "sweeps", "windows")
WITH_NGINX = ("buffers", "nagle")


@dataclass(frozen=True)
class File:
    """A new content of a file; or text to append to it, or to put in place of `replaced`."""

    path: str
    text: str = ""
    append: bool = False
    replaced: str | None = None


Step = tuple[str, ...] | File


@dataclass(frozen=True)
class Variant:
    """A host that differs from this one in one respect.

    `layers` are the folders that the `steps` may change. `env` is added to the environment; None
    removes a variable. `prefix` precedes the command. If OTHER_KEY is expected, `inputs` are those
    that `labs runs compare` must name, and `labs` are the labs whose runs change.
    """

    name: str
    layers: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    expected: str = SAME
    inputs: tuple[str, ...] = ()
    labs: tuple[str, ...] = LABS
    folder: str = "{work}"
    runs: str = "{work}/runs"
    umask: int = 0o022
    python: str = "{python}"
    as_root: bool = False

    @property
    def needs_root(self) -> bool:
        return bool(self.layers or self.steps) or self.as_root


def layers_of(*paths: str) -> tuple[str, ...]:
    """The folders that contain these paths, without those inside another one.

    If a path is one word in braces, so is its folder: `{nginx}` is in `{nginx_folder}`.
    """
    folders = sorted({posixpath.dirname(path) or f"{path[:-1]}_folder}}" for path in paths})
    return tuple(
        one for one in folders if not any(one.startswith(f"{other}/") for other in folders)
    )


def absent(name: str, *paths: str) -> Variant:
    """Files or folders do not exist."""
    return Variant(name, layers_of(*paths), (("rm", "-rf", *paths),))


def holds(name: str, path: str, text: str) -> Variant:
    """A file has this content."""
    return Variant(name, layers_of(path), (File(path, text),))


def mounted(name: str, *words: str) -> Variant:
    """Something is mounted over a folder or a file."""
    return Variant(name, steps=(("mount", *words),))


def other_input(
    name: str, path: str, *inputs: str, labs: tuple[str, ...] = LABS, layer: str = ""
) -> Variant:
    """A file that belongs to the inputs has one more byte."""
    layers = (layer,) if layer else layers_of(path)
    steps = (File(path, "\n", append=True),)
    return Variant(name, layers, steps, expected=OTHER_KEY, inputs=inputs, labs=labs)


def started(name: str, *prefix: str, as_root: bool = False) -> Variant:
    """Another command starts this one."""
    return Variant(name, prefix=prefix, as_root=as_root)


def with_env(name: str, **env: str | None) -> Variant:
    return Variant(name, env=env)
