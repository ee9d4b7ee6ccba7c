"""What was typed on a command line, and one sentence where it cannot be meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches

from exercises_tests.tools.chapters import ChapterError

EXAMPLES = {"chapter": "a chapter, for instance ch03", "folder": "a folder"}


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, without the usage: --help shows that."""

    def error(self, message: str) -> None:
        """Raise ChapterError with what argparse has to say, and with what may have been meant."""
        command = self.prog.rpartition(" ")[2]
        chosen = re.search(r"invalid choice: '([^']*)'", message)
        missing = re.fullmatch(r"the following arguments are required: (.*)", message)
        if chosen:
            raise ChapterError(f"There is no command {chosen[1]!r}{_meant(chosen[1], list(self.commands()))}")
        if missing and missing[1] == "command":
            raise ChapterError(f"Name a command: {', '.join(self.commands())}.")
        if missing:
            wanted = " and ".join(EXAMPLES.get(name, name) for name in missing[1].split(", "))
            raise ChapterError(f"{command} needs {wanted}.")
        raise ChapterError(f"{self.prog}: {message}.")

    def commands(self) -> dict[str, argparse.ArgumentParser]:
        """Return the parser of each command."""
        return {name: parser for action in self._actions if isinstance(action, argparse._SubParsersAction)
                for name, parser in action.choices.items()}  # fmt: skip

    def refuse(self, command: str, rest: Sequence[str]) -> None:
        """Raise ChapterError for what a command does not take."""
        known = [name for name in self.commands()[command]._option_string_actions if name.startswith("--")]
        raise ChapterError(f"{command} does not take {' '.join(rest)}{_meant(rest[0], known)}")

    def parse_args(self, *given: object) -> argparse.Namespace:
        """Return the options; ChapterError names what is not one."""
        options, rest = self.parse_known_args(*given)
        if rest:
            self.refuse(options.command, rest)
        return options


def _meant(name: str, known: Sequence[str]) -> str:
    """Return what may have been meant, or else all that there is, and the end of the sentence."""
    near = get_close_matches(name.lower(), known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else f"; there is {', '.join(known)}." if known else "."
