"""A command's words read into arguments; a wrong one is BadInput, in one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput

# What argparse says of a word that should be a number.
NO_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)


class Arguments(argparse.ArgumentParser):
    """An argument parser that knows no abbreviations and raises where argparse would exit."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **{
                "allow_abbrev": False,
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                **settings,
            }
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The words as arguments. BadInput for what is unknown (with the nearest flag) or lacks;
        SystemExit after --help."""
        verbs = self._verbs()
        if verbs and words and not words[0].startswith("-") and words[0] not in verbs:
            raise BadInput(unknown(words[0], verbs, what=f"command of {self.prog}"))
        namespace, left = self.parse_known_args(words)
        for word in left:
            if word.startswith("-") and word != "-":
                flag = word.split("=", 1)[0]
                asked = verbs.get(words[0], self)
                raise BadInput(unknown(flag, asked._flags(), what=f"flag of {asked.prog}"))
        if left:
            raise BadInput(f"{left[0]} is one word too many; see {self.prog} --help")
        return namespace

    def error(self, message: str) -> NoReturn:
        number = NO_NUMBER.fullmatch(message)
        if number is not None:
            kind = "a whole number" if number[2] == "int" else "a number"
            raise BadInput(f'{number[1]} "{number[3]}" cannot be read; allowed: {kind}')
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
