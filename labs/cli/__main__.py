"""The command `labs`: finds a command, runs it, and reports an error in one line."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

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
        "doctor": "show which testbeds can run here, and the settings that affect a measurement",
        "kernel": "build, check and list the kernels that the virtual testbed boots",
        "kit": "make or use a kit: the programs of virtual runs, and kernels, as one file",
        "new": "write a lab of your own, ready to run",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

# Commands that load no libraries for reading runs.
LIGHT = frozenset({"kernel", "kit", "new"})
ADDRESS_SPACE_MIB = 1024
"""OpenBLAS, numpy, pandas and their threads map 780 MiB on two CPUs, and abort without it."""
EXIT_CODES = """exit codes: 0 success; 2 bad input; 3 something is missing on this machine;
            4 a run failed; 5 results differ; 6 damaged data; 7 results differ within
            tolerance, 8 not everything was compared (labs verify); 130 interrupted by ^C"""
STOPPED = 130
PROJECT = "tcp-lab-notebook"
# Such as: nbconvert<8,>=7.16; extra == 'publish'
EXTRA = re.compile(r"(?P<package>[\w-]+).*\bextra == ['\"](?P<extra>\w+)['\"]")
NO_MEMORY = (
    "no memory is left. `ulimit -v` shows the limit of this process, `free -m` the memory of this "
    "machine"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `labs` with these arguments (default: those of the process); return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _open_standard_streams()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except LabError as error:
        return _report(error, words)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = _extra_with(package)
        if extra is None:
            raise
        install = f'Install it: pip install "{PROJECT}[{extra}]"'
        text = f"this command needs the package {package}, which is not installed. {install}"
        return _report(Missing(text), words)
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report this again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _report(error, words)
    except MemoryError:
        return _report(Missing(NO_MEMORY), words)
    except KeyboardInterrupt:
        print("labs: stopped", file=sys.stderr)
        return STOPPED


def _extra_with(package: str) -> str | None:
    """The extra of this project that installs a package; None if none does.

    The packages of extras that commands import have the names of their modules.
    """
    from importlib.metadata import requires

    matches = filter(None, map(EXTRA.match, requires(PROJECT) or ()))
    extras = [match["extra"] for match in matches if match["package"] == package]
    return next((extra for extra in extras if extra != "test"), None)


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


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words == ["--version"]:
        from importlib.metadata import version

        print(f"labs {version(PROJECT)}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        from labs.drive.parameters.declare import unknown

        raise BadInput(unknown(name, COMMANDS, what="command"))
    if name not in LIGHT and not {"-h", "--help"} & set(rest):
        _check_address_space()
    from labs.cli.command import prepare
    from labs.read.display.format import PrintableOutput

    prepared = prepare(name, rest)
    with redirect_stdout(PrintableOutput(sys.stdout)):
        return prepared.run()


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


def _report(error: Exception, words: list[str]) -> int:
    """Print one line on stderr; a JSON object if JSON was requested. Return the exit code."""
    from labs.read.display.format import printable

    code, text = Missing.exit_code, str(error)
    if isinstance(error, LabError):
        code = error.exit_code
    elif isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        text = one_line(where + (error.strerror or str(error)).lower())
        if error.errno == errno.EMFILE:
            text += ". Raise the limit: ulimit -n 1024 (in a new shell)"
    as_data = {"error": type(error).__name__, "message": text, "exit_code": code}
    line = json.dumps(as_data) if "--json" in words else f"labs: {printable(text)}"
    print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
