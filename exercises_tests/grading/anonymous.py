"""An answer that may be shown to the class: without comments, long texts and the names of learners.

It is not proof against somebody who knows a classmate's style; so it is shown only of mistakes that five or more made.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, String

MOST_LINES, LONGEST_LINE = 40, 160
MOST_STRING = 12  # characters of a text in quotes that says nothing of who wrote it
GONE = "…"  # in the place of what was taken out
_LEXER = PythonLexer(stripnl=False, ensurenl=False)


def names_in(learners: Iterable[str]) -> set[str]:
    """Return the words that tell who somebody is: whole names, and their parts of three letters or more."""
    found = set()
    for learner in learners:
        parts = re.split(r"[\W_]+|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])", learner)
        found |= {_same(learner), _same(re.sub(r"[\W_]+", "", learner))}
        found |= {_same(part) for part in parts if len(part) >= 3 and not part.isdigit()}
    return found - {""}


def _same(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def without_names(text: str, names: set[str]) -> str:
    """Return text in which words, and parts of identifiers, that are a learner's name are replaced."""

    def replaced(word: re.Match) -> str:
        parts = re.findall(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+(?![^\W\dA-Z_])|\d+", word[0])
        told = {_same(part) for part in [word[0], word[0].replace("_", ""), *parts, *word[0].split("_")]}
        told |= {_same("".join(pair)) for pair in zip(parts, parts[1:], strict=False)}  # ann7, annSmith
        return GONE if told & names else word[0]

    return re.sub(r"\w+", replaced, text)


def example(code: str, names: set[str]) -> str:
    """Return code that may be shown; empty where nothing is left, or where it is not what a person would write."""
    if max(map(len, code.splitlines()), default=0) > LONGEST_LINE or len(code.splitlines()) > 4 * MOST_LINES:
        return ""
    pieces = []
    for kind, tokens in groupby(_LEXER.get_tokens(code), key=lambda token: _kind(token[0])):
        words = "".join(value for _, value in tokens)
        if kind == "text" and len(words.strip("\"'")) > MOST_STRING:
            words = f'"{GONE}"'
        pieces.append("" if kind == "comment" else words)
    lines = [line.rstrip() for line in without_names("".join(pieces), names).splitlines()]
    lines = [line for line in lines if line]
    return "\n".join(lines[:MOST_LINES] + [f"# {GONE}"] * (len(lines) > MOST_LINES))


def _kind(token: object) -> str:
    if token in Comment or token in String.Doc:
        return "comment"
    return "text" if token in String else "code"
