"""What was read from a machine, opened: the text of its files, the output of its tools, and for
everything else the reason why it is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from labs.errors import BadInput, Damaged

SCHEMA = 1
NO_FILE = "No such file or directory"
SYSCTL = "/proc/sys/"
PREFIXES = ("net.core.", "net.ipv4.tcp_")
"""How the names of the sysctls begin that are compared with their defaults."""
SHOWN_REASON = 120
FACTS: dict[str, type | tuple[type, ...]] = {
    "root": bool,
    "cpus": int,
    "page_bytes": int,
    "monotonic_resolution_ns": int,
    "synchronised": (bool, type(None)),
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
    each: Mapping[str, Mapping[str, tuple[str, ...]]]
    refused: Mapping[str, str]
    outputs: Mapping[tuple[str, ...], tuple[int, str, str]]
    config: str
    fresh: Mapping[str, str]
    fresh_read_only: frozenset[str]
    fresh_error: str
    facts: Mapping[str, Any]

    def text(self, path: str) -> str:
        """The content of a file, without white space around it."""
        if path in self.files:
            return self.files[path].strip()
        raise Unknown(self._why(path))

    def number(self, path: str) -> int:
        """The content of a file that holds one number."""
        return whole(self.text(path), path)

    def _why(self, path: str) -> str:
        reason = self.refused.get(path, NO_FILE)
        if reason == NO_FILE:
            return f"this machine has no {path}"
        if reason == "Permission denied":
            return f"only root can read {path}"
        return f"{path} cannot be read: {reason}"

    def by_name(self, pattern: str, part: int = -2) -> dict[str, str]:
        """What each of several CPUs, queues or nodes has in a file, by the name in its path."""
        texts = {
            PurePosixPath(path).parts[part]: text
            for text, paths in self.each.get(pattern, {}).items()
            for path in paths
        }
        if not texts:
            raise Unknown(f"this machine has no {pattern.replace('[0-9]*', 'N')}")
        return dict(sorted(texts.items(), key=lambda entry: natural(entry[0])))

    def common(self, pattern: str, part: int = -2) -> str:
        """One text if all have the same; otherwise each, with the names that have it."""
        texts = self.by_name(pattern, part)
        names: dict[str, list[str]] = {}
        for name, text in texts.items():
            names.setdefault(text, []).append(name)
        if len(names) == 1:
            return next(iter(names))
        return "; ".join(f"{', '.join(some)}: {text}" for text, some in names.items())

    def output(self, *argv: str) -> str:
        """The output of a tool that succeeded."""
        if argv not in self.outputs:
            raise Unknown(f"`{' '.join(argv)}` was not started")
        code, out, err = self.outputs[argv]
        if code:
            lines = [line.strip() for line in err.splitlines() if line.strip()]
            reason = lines[0][:SHOWN_REASON] if lines else f"exit code {code}"
            if code == 127:
                raise Unknown(f"{argv[0]} is not installed")
            raise Unknown(f"`{' '.join(argv)}`: {reason}")
        return out

    def option(self, name: str) -> str:
        """An option of the kernel's build: y, m, n, or its value."""
        if not self.config:
            raise Unknown("neither /proc/config.gz nor /boot has the options of this kernel")
        match = re.search(rf"^CONFIG_{name}=(.*)$", self.config, re.MULTILINE)
        return match[1].strip('"') if match else "n"

    def boot_word(self, name: str) -> str:
        """A word of the kernel's command line with its value; empty if it was not given."""
        words = self.text("/proc/cmdline").split()
        return next((word for word in words if word.partition("=")[0] == name), "")

    def fact(self, name: str) -> Any:
        fact = self.facts.get(name)
        if fact is None:
            raise Unknown(f"{name} could not be determined")
        return fact

    @property
    def root(self) -> bool:
        return bool(self.facts["root"])

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.facts["devices"])

    def sysctls(self) -> dict[str, str]:
        """The sysctls of TCP and net.core by name, white space as single blanks."""
        texts = {sysctl_name(path): squeezed(text) for path, text in self.files.items()}
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


def squeezed(text: str) -> str:
    return " ".join(text.split())


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts cpu2 before cpu10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def whole(text: str, what: str) -> int:
    if re.fullmatch(r"-?\d{1,20}", text, re.ASCII) is None:
        raise Unknown(f"{what} is {text[:40]!r}, which is no number")
    return int(text)


def open_raw(collected: object, what: str) -> Raw:
    """Check the object that the collecting program printed. Damaged for anything else; `what` is
    named in the error."""
    if not isinstance(collected, dict):
        raise Damaged(f"{what} is not an object. Collect it again with labs audit")
    if collected.get("schema") != SCHEMA:
        raise BadInput(f"{what} has schema {collected.get('schema')!r}. Allowed: {SCHEMA}")
    try:
        fresh = collected["fresh"]
        return Raw(
            files=_texts(collected["files"]),
            each={
                str(pattern): {str(text): tuple(map(str, paths)) for text, paths in texts.items()}
                for pattern, texts in collected["each"].items()
            },
            refused=_texts(collected["refused"]),
            outputs={
                tuple(map(str, command["argv"])): (
                    int(command["exit"]),
                    str(command["out"]),
                    str(command["err"]),
                )
                for command in collected["commands"]
            },
            config=str(collected["config"]),
            fresh={
                sysctl_name(path): squeezed(text) for path, text in _texts(fresh["files"]).items()
            },
            fresh_read_only=frozenset(sysctl_name(str(path)) for path in fresh["read_only"]),
            fresh_error=str(fresh["error"]),
            facts=_facts(collected["facts"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(
            f"{what} is not what labs audit collects ({type(error).__name__}: {error}). "
            "Collect it again with labs audit"
        ) from error


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts, each of its type; ValueError for another."""
    for name, kinds in FACTS.items():
        if not isinstance(facts[name], kinds):
            raise ValueError(f"{name} is {facts[name]!r}")
    return {
        **facts,
        **{name: [str(entry) for entry in facts[name]] for name in ("daemons", "devices")},
    }


def _texts(texts: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in texts.items()}
