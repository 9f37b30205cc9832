"""What every command consists of: arguments as a table, and a function that returns an answer.

A module of this package is a command if it has ARGUMENTS and `main(args)`, which returns an
`Answer`; or VERBS; or both. `labs run`, whose flags depend on the lab that is named, also has
`extend(parser, words)`. The flag --json belongs to every command.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from labs.errors import BadInput, LabError

LISTED_FLAGS = 12
"""A message lists all flags of a command if it has at most this many."""
# The message of argparse for an argument that should be a number.
NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)
ENDING = re.compile(r"\w(\.[a-z.]+)")


@dataclass(frozen=True)
class Answer:
    """What a command has to say: `value` as JSON, or else `text`, with `remarks` on stderr.

    `error` is raised when this is printed.
    """

    value: Any
    text: str | Callable[[], str] = ""
    remarks: Sequence[str] = ()
    exit_code: int = 0
    error: LabError | None = None

    def deliver(self, as_json: bool) -> int:
        """Print it and return the exit code. An array is printed with one item per line."""
        if as_json:
            items = ",\n".join(map(json.dumps, self.value)) if isinstance(self.value, list) else ""
            print(f"[\n{items}\n]" if items else json.dumps(self.value))
        else:
            for line in self.remarks:
                print(f"labs: {line}", file=sys.stderr)
            if text := self.text if isinstance(self.text, str) else self.text():
                print(text)
        if self.error is not None:
            raise self.error
        return self.exit_code


@dataclass(frozen=True)
class Arg:
    """An argument of `argparse`; `group` is the title under which the help lists it."""

    name: str
    settings: dict[str, Any]
    group: str = ""


@dataclass(frozen=True)
class Verb:
    """A command of a command. The docstring of its function is its help."""

    answer: Callable[[argparse.Namespace], Answer]
    arguments: Sequence[Arg] = ()

    @property
    def summary(self) -> str:
        return self.help.splitlines()[0]

    @property
    def help(self) -> str:
        return inspect.getdoc(self.answer) or ""


def arg(
    usage: str,
    help: str = "",
    read: Callable[[str], Any] = str,
    default: Any = None,
    *,
    least: float | None = None,
    most: float | None = None,
    group: str = "",
    **more: Any,
) -> Arg:
    """An argument by its usage: FILE, [FILE] (optional), FILE... (one or more), --fresh (a switch),
    --jobs N (with a value), --set NAME=VALUE... (may be repeated).

    `read` turns the text into a value between `least` and `most`. If the usage has endings, such as
    --out X.csv|X.html, the value is a path with one of them.
    """
    flag, _, metavar = usage.strip("[]").removesuffix("...").rpartition(" ")
    if metavar.startswith("-"):
        return Arg(metavar, {"help": help, "action": "store_true", **more}, group)
    settings = {"help": help, "metavar": metavar, "default": default}
    settings["type"] = _reader(flag or metavar, metavar, read, (least, most))
    if default not in (None, ()):
        settings["help"] += " (default: %(default)s)"
    if usage.startswith("["):
        settings["nargs"] = "?"
    elif usage.endswith("..."):
        settings |= {"action": "append", "default": []} if flag else {"nargs": "+"}
    name = flag or more.pop("dest", re.split(r"\W", metavar)[0].lower())
    return Arg(name, settings | more, group)


def _reader(
    name: str, metavar: str, read: Callable[[str], Any], limits: tuple[float | None, float | None]
) -> Callable[[str], Any]:
    """The function that reads a value of an argument. BadInput for what is not allowed."""
    endings, (least, most) = tuple(ENDING.findall(metavar)), limits

    def value_of(text: str) -> Any:
        if endings and not text.endswith(endings):
            raise BadInput(f"{name} {text}: the name must end in {' or '.join(endings)}")
        value: Any = Path(text) if endings else read(text)
        if not (least is None or value >= least) or not (most is None or value <= most):
            allowed = f"{least} or more" if most is None else f"{least} to {most:,}"
            raise BadInput(f"{name} {text} is out of range; allowed: {allowed}")
        return value

    value_of.__name__ = getattr(read, "__name__", "")  # argparse names it in its message
    return value_of


DRY_RUN = arg("--dry-run", "print what would be done, and do nothing")
FRESH = arg("--fresh", "repeat runs that already exist")
JOBS = arg("--jobs N", "concurrent runs (default: LABS_JOBS, or one per CPU)", int, least=1)
JSON = arg("--json", "print JSON")


class Arguments(argparse.ArgumentParser):
    """An argument parser without abbreviations that raises where argparse would exit."""

    def __init__(self, arguments: Iterable[Arg] = (), **settings: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(allow_abbrev=False, formatter_class=layout, **settings)
        groups: dict[str, Any] = {"": self}
        for argument in arguments:
            if argument.group not in groups:
                groups[argument.group] = self.add_argument_group(argument.group)
            groups[argument.group].add_argument(argument.name, **argument.settings)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. BadInput for an unknown argument (with the nearest flag) or a
        missing one; SystemExit after --help."""
        namespace, left = self.parse_known_args(words)
        for word in left:
            if word.startswith("-") and word != "-":
                raise BadInput(self._unknown(word.split("=", 1)[0]))
        if left:
            raise BadInput(f"{left[0]} is an unexpected argument; see {self.prog} --help")
        return namespace

    def error(self, message: str) -> NoReturn:
        number = NO_NUMBER.fullmatch(message)
        if number is not None:
            kind = "a whole number" if number[2] == "int" else "a number"
            raise BadInput(f'{number[1]} "{number[3]}" is invalid; allowed: {kind}')
        raise BadInput(f"{' '.join(message.split())}; see {self.prog} --help")

    @property
    def flags(self) -> list[str]:
        every = (flag for action in self._actions for flag in action.option_strings)
        return [flag for flag in every if flag.startswith("--")]

    def _unknown(self, flag: str) -> str:
        """The message for an unknown flag, with the nearest flag or with all flags; if there are
        too many, it refers to the help and adds its epilog."""
        from labs.drive.parameters.declare import did_you_mean, unknown

        if did_you_mean(flag, self.flags) or len(self.flags) <= LISTED_FLAGS:
            return unknown(flag, self.flags, what=f"flag of {self.prog}")
        text = f"{flag} is not a flag of {self.prog}; see {self.prog} --help"
        return f"{text}. {self.epilog}" if self.epilog else text


@dataclass(frozen=True)
class Prepared:
    """A command, or a verb of it: its parser, its function, and the words for the parser."""

    parser: Arguments
    answer: Callable[[argparse.Namespace], Answer]
    words: Sequence[str]

    def run(self) -> int:
        """Parse the words, run the command and print its answer; return the exit code."""
        args = self.parser.read(self.words)
        return self.answer(args).deliver(args.json)


def prepare(name: str, words: Sequence[str]) -> Prepared:
    """The command, or the verb of it that the first word names."""
    module = import_module(f"labs.cli.{name}")
    verbs: dict[str, Verb] = getattr(module, "VERBS", {})
    prog = f"labs {name}"
    if verbs and words[:1] == ["--json"]:
        words = [*words[1:], *words[:1]]
    if words and (verb := verbs.get(words[0])):
        arguments = (*verb.arguments, JSON)
        parser = Arguments(arguments, prog=f"{prog} {words[0]}", description=verb.help)
        return Prepared(parser, verb.answer, words[1:])
    listed = (f"  {verb.ljust(12)}{verbs[verb].summary}" for verb in verbs)
    epilog = "\n".join(["commands:", *listed]) if verbs else getattr(module, "EPILOG", None)
    only_verbs = not hasattr(module, "main")
    arguments = (
        (arg("VERB", "a command, with arguments of its own"),) if only_verbs else module.ARGUMENTS
    )
    parser = Arguments((*arguments, JSON), prog=prog, description=module.__doc__, epilog=epilog)
    if hasattr(module, "extend"):
        module.extend(parser, words)

    def refuse(args: argparse.Namespace) -> Answer:
        from labs.drive.parameters.declare import unknown

        raise BadInput(unknown(args.verb, verbs, what=f"command of {prog}"))

    return Prepared(parser, refuse if only_verbs else module.main, words)
