"""Which answers of a class are more alike than its other answers: a list to look at, not a verdict.

The method is MOSS's (Schleimer, Wilkerson and Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD
2003): a text becomes a row of words in which names and layout play no part, each run of `RUN` words is a fingerprint,
and what the course itself has given out is taken away. Two things are other than there. Answers have some ten lines, so
every fingerprint is kept (a window of one), and each run of that length in common is found. And the class is its own
background, twice: a fingerprint counts by how rare it is among the answers, and two answers by how few other pairs are
as alike in that exercise, so that what everybody has to write in one way says next to nothing.

Not copydetect, which does the first half on characters: its fingerprints are Python's `hash` of texts, other ones in
every process, and all of them weigh the same. Not pycode_similar (last released in 2020). Not JPlag (Java) or Dolos
(Node), which an instructor would have to install.
"""

from __future__ import annotations

import ast
import bisect
import html
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from exercises_tests.grading.cells import without_magic
from exercises_tests.tools.chapters import ROOT, Chapter, chapters, solutions, tagged

RUN = 8  # words of a fingerprint: about one short statement
FEWEST = 8  # fingerprints of its own that an answer must have to tell anything: about two statements
ALIKE = 0.3  # of what is rare in the shorter of two answers; less is not listed
AS_THE_COURSE = 0.5  # of the fingerprints of the course's own solution; less is not told
MOST_TEXT, MOST_WORDS = 20_000, 10_000  # of an answer that are looked at: characters, words
MOST_PAIRS = 50  # in the list
SHORT, BROKEN = "too short to tell", "does not parse: not compared"


@dataclass(frozen=True)
class Match:
    """One exercise in which two answers are alike."""

    exercise: str
    share: float
    """How much of what is rare in the shorter answer is in both: 1 is all of it."""
    bits: float
    """log2 of how many times fewer pairs of the class are as alike here; 0 where all are."""
    lines: tuple[frozenset[int], frozenset[int]]
    """Of the first and of the second text, the lines with what is in both."""


@dataclass(frozen=True)
class Pair:
    """Two learners and the exercises in which their answers are alike, the most telling first."""

    first: str
    second: str
    matches: tuple[Match, ...]

    @property
    def bits(self) -> float:
        """How unusual it is in this class, over all exercises (Fisher's sum of logarithms): pairs are listed by it."""
        return sum(match.bits for match in self.matches)


@dataclass
class Similarity:
    """What comparing a class has found."""

    pairs: list[Pair] = field(default_factory=list)
    """The most unusual first, at most MOST_PAIRS."""
    unsaid: dict[str, dict[str, str]] = field(default_factory=dict)
    """By exercise, the learners of whose answer nothing can be said, and why."""
    as_course: dict[str, dict[str, float]] = field(default_factory=dict)
    """By exercise and learner, the share of the course's own solution that is in the answer, from AS_THE_COURSE on."""


# From a text to words

_MAGIC = re.compile(r"^[ \t]*[%!?].*$", re.MULTILINE)
_NOT_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)


def words(text: str) -> list[tuple[str, int]]:
    """Return an answer as a row of words, each with its line, without layout, comments, texts, types, chosen names.

    Names that the answer itself binds are one word, and so are attributes that it sets; those of a library stay as
    they are. Raises SyntaxError and what else ast.parse raises for what is no code.
    """
    with warnings.catch_warnings(action="ignore"):  # "invalid decimal literal" thousands of times, on our terminal
        tree = ast.parse(_MAGIC.sub("pass", without_magic(text[:MOST_TEXT])))
    bound, own = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.arg():
                bound.add(node.arg)
            case ast.alias():
                bound.add(node.asname or node.name)
            case ast.Name(ctx=ast.Store()):
                bound.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                own.add(node.attr)
    found: list[tuple[str, int]] = []
    todo: list[tuple[ast.AST, int]] = [(tree, 1)]
    while todo and len(found) < MOST_WORDS:  # not by recursion: a sum of a thousand terms is a thousand deep
        node, line = todo.pop()
        line = getattr(node, "lineno", line)
        if isinstance(node, ast.expr_context) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the second is a docstring
        found.append((_word(node, bound, own), line))
        inside = [value for name, value in ast.iter_fields(node) if name not in ("annotation", "returns")]
        parts = [part for value in inside for part in (value if isinstance(value, list) else [value])]
        todo += [(part, line) for part in reversed(parts) if isinstance(part, ast.AST)]
    return found


def _word(node: ast.AST, bound: set[str], own: set[str]) -> str:
    match node:
        case ast.Name():
            return "name" if node.id in bound else node.id
        case ast.Attribute():
            return ".name" if node.attr in own else f".{node.attr}"
        case ast.Constant():
            return "text" if isinstance(node.value, str | bytes) else repr(node.value)[:40]
        case ast.AnnAssign():
            return "Assign"  # a type was written beside it
    return type(node).__name__


def fingerprints(text: str) -> dict[str, set[int]]:
    """Return all runs of RUN words of an answer, each with the lines that it stands in. Raises as `words` does."""
    row, found = words(text), {}
    for place in range(len(row) - RUN + 1):
        run = row[place:place + RUN]
        found.setdefault(" ".join(word for word, _ in run), set()).update(line for _, line in run)
    return found


def _given(texts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        try:
            found |= fingerprints(text).keys()
        except _NOT_CODE:
            continue  # a hint may be a piece of a line
    return found


# A class


def pairs(answers: Mapping[str, Mapping[str, str]], known: Mapping[str, list[str]]) -> list[Pair]:
    """Return the pairs of learners whose answers are alike, the most unusual first.

    `answers` are texts by learner and exercise; `known`, by exercise, the course's own texts, its solution first.
    """
    return compare(answers, known).pairs


def compare(answers: Mapping[str, Mapping[str, str]], known: Mapping[str, list[str]]) -> Similarity:
    """Return all that can be said of a class: pairs, answers that say nothing, and those that are as the course's."""
    found: dict[tuple[str, str], list[Match]] = {}
    whole = Similarity()
    for exercise in dict.fromkeys(name for own in answers.values() for name in own):
        texts = {learner: own[exercise] for learner, own in answers.items() if exercise in own}
        given, solution = _given(known.get(exercise, [])), _given(known.get(exercise, [])[:1])
        unsaid, prints = whole.unsaid.setdefault(exercise, {}), {}
        for learner, text in texts.items():
            try:
                everything = fingerprints(text)
            except _NOT_CODE:
                unsaid[learner] = BROKEN
                continue
            prints[learner] = {one: lines for one, lines in everything.items() if one not in given}
            if len(prints[learner]) < FEWEST:
                unsaid[learner] = SHORT
            share = len(solution & everything.keys()) / max(1, len(solution))
            if len(solution) >= FEWEST and share >= AS_THE_COURSE:
                whole.as_course.setdefault(exercise, {})[learner] = share
        for names, match in _matches(exercise, prints, sorted(prints.keys() - unsaid.keys())):
            found.setdefault(names, []).append(match)
    for names, some in found.items():
        whole.pairs.append(Pair(*names, tuple(sorted(some, key=lambda one: (-one.bits, -one.share)))))
    whole.pairs.sort(key=lambda pair: (-pair.bits, -pair.matches[0].share, pair.first, pair.second))
    del whole.pairs[MOST_PAIRS:]
    return whole


def _matches(
    exercise: str, prints: Mapping[str, dict[str, set[int]]], learners: list[str]
) -> list[tuple[tuple[str, str], Match]]:
    """Return which of these learners' answers are alike in an exercise; `prints` are of all who have handed it in."""
    among = Counter(one for own in prints.values() for one in own)
    rare = {one: math.log2(len(prints) / max(1, many - 1)) for one, many in among.items()}  # others that have it, too
    weights = {learner: math.fsum(rare[one] for one in prints[learner]) for learner in learners}
    alike = []
    for names in combinations(learners, 2):
        first, second = (prints[name] for name in names)
        both = first.keys() & second.keys()
        least = min(weights[name] for name in names)
        weight = math.fsum(rare[one] for one in both)
        if len(both) >= FEWEST and least > 0 and weight >= ALIKE * least:
            lines = tuple(frozenset().union(*(own[one] for one in both)) for own in (first, second))
            alike.append((names, weight, weight / least, lines))
    # How much of both, and how much there is: neither two lines that are all alike nor a few of a hundred.
    order, many = sorted(weight * share**2 for _, weight, share, _ in alike), math.comb(len(prints), 2)
    found = []
    for names, weight, share, lines in alike:
        as_alike = len(order) - bisect.bisect_left(order, weight * share**2)
        found.append((names, Match(exercise, share, math.log2(many / as_alike), lines)))
    return found


# What the course has given out

_FENCED = re.compile(r"```[^\n]*\n(.*?)```|<pre[^>]*>(.*?)</pre>", re.DOTALL)


def known(chapter: Chapter, root: Path = ROOT) -> dict[str, list[str]]:
    """Return, by exercise, the course's texts: its solution, the stub, and all code that the chapter shows or hints at.

    A borrowed cell holds nothing but the line that borrows; its answer is too short to tell.
    """
    fenced = [found for cell in chapter.notebook.cells if cell.cell_type == "markdown"
              for found in _FENCED.findall(cell.source)]  # fmt: skip
    shown = [code or html.unescape(folded) for code, folded in fenced]
    shown += [cell.source for cell in chapter.notebook.cells if cell.cell_type == "code"]
    own = solutions(chapter, root) if (root / "solutions").is_dir() else {}
    stubs = {cell["id"]: cell.source for cell in tagged(chapter.notebook, "exercise")}
    return {exercise.id: [own.get(exercise.id, ""), stubs[exercise.id], *shown] for exercise in chapter.exercises}


def answers_in(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the answers by learner and exercise that the records of a grade book hold, if they hold any."""
    found: dict[str, dict[str, str]] = {}
    for record in records:
        for exercise, text in record.get("cells", {}).items():
            found.setdefault(record["learner"], {})[exercise] = text
    return found


def of_class(records: Iterable[Mapping[str, Any]], root: Path = ROOT) -> Similarity:
    """Return what comparing all answers in a grade book's records finds, in whatever chapters they are."""
    records = list(records)
    handed_in = {record["chapter"] for record in records}
    given: dict[str, list[str]] = {}
    for chapter in chapters(root):
        if chapter.name in handed_in:
            given |= known(chapter, root)
    return compare(answers_in(records), given)
