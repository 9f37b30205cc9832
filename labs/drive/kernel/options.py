"""The options of a kernel: what is requested of a series, and whether a configuration took it."""

from __future__ import annotations

import re
from pathlib import Path

from labs.drive.kernel.versions import series_like, series_of
from labs.errors import Damaged, RunFailed

HERE = Path(__file__).parent
OFF = "n"
_CONTROL = re.compile(r"CONFIG_TCP_CONG_(?!ADVANCED)(\w+)=y")
_SET = re.compile(r'(CONFIG_\w+)=(y|m|-?\d+|0x[0-9a-fA-F]+|".*")')
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")


def congestion_controls() -> tuple[str, ...]:
    """The congestion controls of the virtual kernels; reno is in every kernel."""
    controls = _CONTROL.findall((HERE / "fragment.config").read_text("utf-8"))
    return tuple(sorted({"reno", *map(str.lower, controls)}))


def fragment_text(series: str) -> str:
    """The options of a series, from its fragments."""
    return "".join((HERE / name).read_text("utf-8") for name in series_like(series).fragments)


def options_of(text: str) -> dict[str, str]:
    """Options and values of a fragment or a `.config`; "n" for `# CONFIG_X is not set`.

    A later line wins, as in the kernel's own merge. Raises Damaged for a line that is neither an
    option nor a comment, and for a comment that looks like a mistyped option.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if setting := _SET.fullmatch(line):
            options[setting[1]] = setting[2]
        elif setting := _UNSET.fullmatch(line):
            options[setting[1]] = OFF
        elif line and (not line.startswith("#") or line.startswith("# CONFIG_")):
            raise Damaged(
                f"kernel configuration, line {number}: {line!r} is neither CONFIG_NAME=value "
                "nor '# CONFIG_NAME is not set' nor a comment"
            )
    return options


def verify_options(wanted: dict[str, str], config: dict[str, str], version: str) -> None:
    """RunFailed, naming the options, if a configuration lacks one that was requested; an option
    that is not in the configuration counts as off."""
    lacking = [
        f"{name} (requested {value}, is {config.get(name, OFF)})"
        for name, value in wanted.items()
        if config.get(name, OFF) != value
    ]
    if lacking:
        raise RunFailed(
            f"the configuration of Linux {version} did not take {', '.join(lacking)}. "
            "A dependency is missing, or the option has another name in this version. "
            f"Add what it needs to a fragment of Linux {series_of(version)} "
            "(labs/drive/kernel/versions.py)"
        )
