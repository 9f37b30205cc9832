"""Read `fragment.config`, and tell which of its lines a configured kernel did not take."""

from __future__ import annotations

import re
from pathlib import Path

from labs.drive.kernel.versions import series_of
from labs.errors import Damaged, RunFailed

HERE = Path(__file__).parent
_SET = re.compile(r'(CONFIG_\w+)=(y|m|-?\d+|0x[0-9a-fA-F]+|".*")')
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
OFF = "n"


def fragment_text(series: str, folder: Path = HERE) -> str:
    """The lines for one series: `fragment.config`, then `fragment-SERIES.config` if it exists."""
    text = (folder / "fragment.config").read_text("utf-8")
    own = folder / f"fragment-{series}.config"
    return text + own.read_text("utf-8") if own.is_file() else text


def parse(text: str) -> dict[str, str]:
    """Options and values of a fragment or a `.config`; "n" for `# CONFIG_X is not set`.

    A later line wins, as in the kernel's own merge. Damaged for a line that is neither an option
    nor a comment, and for a comment that looks like a mistyped option.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := _SET.fullmatch(line):
            options[found[1]] = found[2]
        elif found := _UNSET.fullmatch(line):
            options[found[1]] = OFF
        elif line and (not line.startswith("#") or line.startswith("# CONFIG_")):
            raise Damaged(
                f"kernel configuration, line {number}: {line!r} is neither CONFIG_NAME=value "
                "nor '# CONFIG_NAME is not set' nor a comment"
            )
    return options


def not_taken(wanted: dict[str, str], config: dict[str, str]) -> tuple[str, ...]:
    """The wanted options that a finished configuration lacks, each with what it has instead.

    An option that the configuration does not know counts as off.
    """
    return tuple(
        f"{name} (wanted {value}, is {config.get(name, OFF)})"
        for name, value in wanted.items()
        if config.get(name, OFF) != value
    )


def verify(wanted: dict[str, str], config: dict[str, str], version: str) -> None:
    """RunFailed, naming the options, if a configuration lacks one that was asked for."""
    if missing := not_taken(wanted, config):
        raise RunFailed(
            f"the configuration of Linux {version} did not take {', '.join(missing)}; "
            "a dependency is missing or the option has another name in this version: "
            f"put what it needs into labs/drive/kernel/fragment-{series_of(version)}.config"
        )
