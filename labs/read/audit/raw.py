"""What was read from a machine, opened: the text of its files, the output of its tools, and for
everything else the reason why it is unknown."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.errors import BadInput, Damaged

SCHEMA = 1
NO_FILE = "No such file or directory"
NOT_INSTALLED = 127
SYSCTL = "/proc/sys/"
PREFIXES = ("net.core.", "net.ipv4.tcp_")
"""How the names of the sysctls begin that are compared with their defaults."""
SHOWN_REASON = 120
FACTS: Mapping[str, type] = {
    "root": bool,
    "cpus": int,
    "page_bytes": int,
    "daemons": list,
    "devices": list,
}
# What code raises that reads text of another format than it knows.
UNEXPECTED = (ArithmeticError, LookupError, ValueError)


class Unknown(Exception):
    """The reason why a value is unknown; caught where items are made."""


@dataclass(frozen=True)
class Raw:
    """One machine as it was read. Every method raises Unknown, with the reason, for what was not
    or could not be read."""

    files: Mapping[str, str]
    refused: Mapping[str, str]
    outputs: Mapping[tuple[str, ...], tuple[int, str, str]]
    config: str
    fresh: Mapping[str, str]
    fresh_read_only: frozenset[str]
    fresh_error: str
    root: bool
    cpus: int
    page_bytes: int
    daemons: tuple[str, ...]
    devices: tuple[str, ...]

    def text(self, path: str) -> str:
        """The content of a file, without white space around it."""
        if path in self.files:
            return self.files[path].strip()
        reason = self.refused.get(path, NO_FILE)
        if reason == NO_FILE:
            raise Unknown(f"this machine has no {path}")
        if reason == "Permission denied":
            raise Unknown(f"only root can read {path}")
        raise Unknown(f"{path} cannot be read: {reason}")

    def matching(self, pattern: str) -> dict[str, str]:
        """The files that match a pattern, cpu2 before cpu10."""
        paths = fnmatch.filter(self.files, pattern)
        return {path: self.text(path) for path in sorted(paths, key=lambda path: (len(path), path))}

    def common(self, pattern: str) -> str:
        """One text if all files that match have the same; otherwise each, with the names of the
        CPUs or queues that have it."""
        place = next(i for i, part in enumerate(pattern.split("/")) if "*" in part)
        names: dict[str, list[str]] = {}
        for path, text in self.matching(pattern).items():
            names.setdefault(text, []).append(path.split("/")[place])
        if not names:
            raise Unknown(f"this machine has no {pattern.replace('[0-9]*', 'N')}")
        if len(names) == 1:
            return next(iter(names))
        return "; ".join(f"{', '.join(some)}: {text}" for text, some in names.items())

    def output(self, *argv: str) -> str:
        """The output of a tool that succeeded."""
        if argv not in self.outputs:
            raise Unknown(f"`{' '.join(argv)}` was not started")
        code, out, err = self.outputs[argv]
        if code == NOT_INSTALLED:
            raise Unknown(f"{argv[0]} is not installed")
        if code:
            reason = err.strip().partition("\n")[0][:SHOWN_REASON] or f"exit code {code}"
            raise Unknown(f"`{' '.join(argv)}`: {reason}")
        return out

    def option(self, name: str) -> str:
        """An option of the kernel's build: y, m, n, or its value."""
        if not self.config:
            raise Unknown("neither /proc/config.gz nor /boot has the options of this kernel")
        match = re.search(rf"^CONFIG_{name}=(.*)$", self.config, re.MULTILINE)
        return match[1].strip('"') if match else "n"

    def boot_words(self, *names: str) -> str:
        """The words of the kernel's command line that begin with these names."""
        words = self.text("/proc/cmdline").split()
        return " ".join(word for word in words if word.partition("=")[0] in names)

    def sysctls(self) -> dict[str, str]:
        """The sysctls of TCP and net.core by name, white space as single blanks."""
        texts = by_sysctl(self.files)
        return {name: text for name, text in texts.items() if name.startswith(PREFIXES)}

    @property
    def series(self) -> tuple[int, int]:
        """The first two numbers of the kernel's release."""
        release = self.text("/proc/sys/kernel/osrelease")
        match = re.match(r"(\d{1,3})\.(\d{1,3})", release, re.ASCII)
        if match is None:
            raise Unknown(f"the release {release[:40]!r} does not begin with two numbers")
        return int(match[1]), int(match[2])


def sysctl_name(path: str) -> str:
    return path.removeprefix(SYSCTL).replace("/", ".")


def by_sysctl(files: Mapping[str, str]) -> dict[str, str]:
    return {sysctl_name(path): " ".join(text.split()) for path, text in files.items()}


def line_of(text: str, name: str, source: str) -> str:
    """The value of the line `name: value` of a file or of what a tool prints."""
    match = re.search(rf"^[ \t]*{re.escape(name)}[ \t]*:[ \t]*(.*)$", text, re.MULTILINE)
    if match is None:
        raise Unknown(f"{source} has no line {name}")
    if match[1].strip() in ("", "n/a"):
        raise Unknown(f"{source} does not report {name}")
    return match[1].strip()


def number(text: str) -> int:
    if re.fullmatch(r"-?\d{1,20}", text, re.ASCII) is None:
        raise Unknown(f"{text[:40]!r} is no number")
    return int(text)


def open_raw(collected: object, what: str) -> Raw:
    """Check the object that the collecting program printed. Damaged for anything else; `what` is
    named in the error."""
    if not isinstance(collected, dict):
        raise Damaged(f"{what} is not an object. Collect it again with labs doctor audit")
    if collected.get("schema") != SCHEMA:
        raise BadInput(f"{what} has schema {collected.get('schema')!r}. Allowed: {SCHEMA}")
    try:
        return _opened(collected)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(
            f"{what} is not what labs doctor audit collects ({type(error).__name__}: {error}). "
            "Collect it again with labs doctor audit"
        ) from error


def _opened(collected: Mapping[str, Any]) -> Raw:
    each, fresh, facts = collected["each"], collected["fresh"], collected["facts"]
    for name, kind in FACTS.items():
        if not isinstance(facts[name], kind):
            raise ValueError(f"{name} is {facts[name]!r}")
    shared = {
        path: text for texts in each.values() for text, paths in texts.items() for path in paths
    }
    return Raw(
        files=_texts({**collected["files"], **shared}),
        refused=_texts(collected["refused"]),
        outputs={
            tuple(map(str, run["argv"])): (int(run["exit"]), str(run["out"]), str(run["err"]))
            for run in collected["commands"]
        },
        config=str(collected["config"]),
        fresh=by_sysctl(_texts(fresh["files"])),
        fresh_read_only=frozenset(sysctl_name(str(path)) for path in fresh["read_only"]),
        fresh_error=str(fresh["error"]),
        root=facts["root"],
        cpus=facts["cpus"],
        page_bytes=facts["page_bytes"],
        daemons=tuple(map(str, facts["daemons"])),
        devices=tuple(map(str, facts["devices"])),
    )


def _texts(texts: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in texts.items()}
