"""The command `labs`: finds the module of a command, parses its arguments, and runs it. Errors are
one line.

A command is a module of this package with `configure(parser)`, which adds its flags, and
`main(args)`, which returns the exit code. A command whose flags depend on other arguments (a lab's
parameters) also has `extend(parser, words)`.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, NoReturn

from labs.errors import BadInput, LabError, Missing, one_line

# The summaries are listed here so that `labs --help` need not import any command.
GROUPS: dict[str, dict[str, str]] = {
    "measure": {
        "run": "run a lab: perform the missing runs and show the results",
        "batch": "repeat a lab or a notebook over many parameter values, here or on a cluster",
        "advise": "compute the socket buffers that fill a path, and predict a flow with others",
        "claims": "check an article's claims against runs: expected, predicted, measured, verdict",
    },
    "captures": {
        "explain": "explain a capture: what its time was spent on, and what to change",
        "capture": "read a packet capture: segments, connections, stalls with reasons, diagrams",
    },
    "share": {
        "publish": "write a notebook as one HTML page, or everything as a site, both offline",
        "bundle": "write notebooks and their runs as one file that anybody can verify",
        "verify": "repeat recorded runs: identical, moved within tolerance, or beyond",
        "runs": "list, show, compare, pack and record runs, and write them as a table",
    },
    "teach": {
        "student": "write the students' copies of notebooks, without solutions",
        "grade": "grade the answers in notebooks, with hints; show the guesses of a class",
    },
    "set up": {
        "doctor": "show which testbeds can run on this machine, and what the others need",
        "audit": "show the settings of this machine, or of both VMs, that affect a measurement",
        "kernel": "build, check and list the kernels that the virtual testbed boots",
        "kit": "make or use a kit: the programs of virtual runs, and kernels, as one file",
        "new": "write a lab of your own, ready to run",
        "parameters": "show a lab's parameters and conditions: flags, notebook names, schema",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

# Commands that load no libraries for reading runs.
LIGHT = frozenset({"doctor", "kernel", "kit", "new", "parameters"})
ADDRESS_SPACE_MIB = 1024
"""OpenBLAS, numpy, pandas and their threads map 780 MiB on two CPUs, and abort without it."""
EXIT_CODES = """exit codes: 0 success; 2 bad input; 3 something is missing on this machine;
            4 a run failed; 5 results differ; 6 damaged data; 7 results differ within
            tolerance, 8 not everything was compared (labs verify); 130 interrupted by ^C"""
STOPPED = 130
LISTED_FLAGS = 12
"""A message lists all flags of a command if it has at most this many."""
PROJECT = "tcp-lab-notebook"
# Such as: nbconvert<8,>=7.16; extra == 'publish'
EXTRA = re.compile(r"(?P<package>[\w-]+).*\bextra == ['\"](?P<extra>\w+)['\"]")
NO_MEMORY = (
    "no memory is left. `ulimit -v` shows the limit of this process, `free -m` the memory of this "
    "machine"
)
# The message of argparse for an argument that should be a number.
NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `labs` with these arguments (default: those of the process); return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _open_standard_streams()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except LabError as error:
        return _report(error, error.exit_code, words)
    except ModuleNotFoundError as error:
        extra = _extra_with(error.name or "")
        if extra is None:
            raise
        package = (error.name or "").partition(".")[0]
        missing = Missing(
            f"this command needs the package {package}, which is not installed. "
            f'Install it: pip install "{PROJECT}[{extra}]"'
        )
        return _report(missing, missing.exit_code, words)
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report this again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _report(error, 3, words)
    except MemoryError:
        return _report(Missing(NO_MEMORY), Missing.exit_code, words)
    except KeyboardInterrupt:
        print("labs: stopped", file=sys.stderr)
        return STOPPED


def _extra_with(module: str) -> str | None:
    """The extra of this project that installs a module; None if none does.

    It is read from the metadata of the installed package. The packages of extras that commands
    import have the names of their modules.
    """
    from importlib.metadata import requires

    package = module.partition(".")[0]
    for line in requires(PROJECT) or ():
        match = EXTRA.match(line)
        if match is not None and match["package"] == package and match["extra"] != "test":
            return match["extra"]
    return None


def _open_standard_streams() -> None:
    """Replace streams that were closed by the caller (`>&-`) by /dev/null, so that printing works
    and no other file gets their descriptors."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            setattr(sys, name, os.fdopen(fd, "r" if fd == 0 else "w"))


class Arguments(argparse.ArgumentParser):
    """An argument parser without abbreviations that raises where argparse would exit."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **{
                "allow_abbrev": False,
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                **settings,
            }
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. BadInput for an unknown argument (with the nearest flag) or a
        missing one; SystemExit after --help."""
        verbs = self._verbs()
        if verbs and words and not words[0].startswith("-") and words[0] not in verbs:
            from labs.drive.parameters.declare import unknown

            raise BadInput(unknown(words[0], verbs, what=f"command of {self.prog}"))
        namespace, left = self.parse_known_args(words)
        for word in left:
            if word.startswith("-") and word != "-":
                flag = word.split("=", 1)[0]
                raise BadInput(verbs.get(words[0], self)._unknown(flag))
        if left:
            raise BadInput(f"{left[0]} is an unexpected argument; see {self.prog} --help")
        return namespace

    def error(self, message: str) -> NoReturn:
        number = NO_NUMBER.fullmatch(message)
        if number is not None:
            kind = "a whole number" if number[2] == "int" else "a number"
            raise BadInput(f'{number[1]} "{number[3]}" is invalid; allowed: {kind}')
        raise BadInput(f"{' '.join(message.split())}; see {self.prog} --help")

    def _verbs(self) -> dict[str, Arguments]:
        """The parsers of the command's own verbs (`labs runs list`), if it has any."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def _flags(self) -> Iterator[str]:
        for action in self._actions:
            yield from (flag for flag in action.option_strings if flag.startswith("--"))

    def _unknown(self, flag: str) -> str:
        """The message for an unknown flag, with the nearest flag or with all flags; if there are
        too many, it refers to the help and adds its epilog."""
        from labs.drive.parameters.declare import did_you_mean, unknown

        flags = list(self._flags())
        if did_you_mean(flag, flags) or len(flags) <= LISTED_FLAGS:
            return unknown(flag, flags, what=f"flag of {self.prog}")
        text = f"{flag} is not a flag of {self.prog}; see {self.prog} --help"
        return f"{text}. {self.epilog}" if self.epilog else text


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words == ["--version"]:
        from importlib.metadata import version

        print(f"labs {version(PROJECT)}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        from labs.drive.parameters.declare import unknown

        raise BadInput(unknown(name, COMMANDS, what="command"))
    if name not in LIGHT and not {"-h", "--help"} & set(rest):
        _check_address_space()
    command = import_module(f"labs.cli.{name}")
    parser = Arguments(prog=f"labs {name}", description=command.__doc__)
    command.configure(parser)
    if hasattr(command, "extend"):
        command.extend(parser, rest)
    args = parser.read(rest)
    from labs.read.display.format import PrintableOutput

    with redirect_stdout(PrintableOutput(sys.stdout)):
        code: int = command.main(args)
    return code


def _check_address_space() -> None:
    """Missing if `ulimit -v` does not allow the libraries that read runs."""
    try:
        import resource
    except ImportError:  # not on every system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE_MIB << 20:
        raise Missing(
            f"`ulimit -v` allows {limit >> 20} MiB of address space, and reading runs needs "
            f"{ADDRESS_SPACE_MIB}. Run: ulimit -v unlimited (in a new shell)"
        )


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name.ljust(width)}  {summary}" for name, summary in commands.items()]
    return "\n".join(
        [
            "usage: labs COMMAND [...]",
            "",
            "Experiments with TCP on real Linux kernels.",
            *lines,
            "",
            "For details: labs COMMAND --help. For the version: labs --version",
            EXIT_CODES,
        ]
    )


def _report(error: Exception, code: int, words: list[str]) -> int:
    """Print one line on stderr; a JSON object if JSON was requested."""
    from labs.read.display.format import printable

    text = str(error)
    if isinstance(error, OSError) and not isinstance(error, LabError):
        where = "" if error.filename is None else f"{error.filename}: "
        text = one_line(where + (error.strerror or str(error)).lower())
        if error.errno == errno.EMFILE:
            text += ". Raise the limit: ulimit -n 1024 (in a new shell)"
    if "--json" in words:
        import json

        text = json.dumps({"error": type(error).__name__, "message": text, "exit_code": code})
        print(text, file=sys.stderr)
    else:
        print(f"labs: {printable(text)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
