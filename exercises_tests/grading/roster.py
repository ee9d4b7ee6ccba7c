"""The roster: who is in the class, with the ids that other systems know them by, and whose folder is whose."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from exercises_tests.grading.tables import read_table
from exercises_tests.tools.chapters import ChapterError
from exercises_tests.tools.untrusted import plain

FILE = "roster.csv"
MOST_TOLD = 10  # names in a sentence


@dataclass(frozen=True)
class Person:
    """A line of the roster; what it does not say is empty."""

    line: int
    id: str
    name: str
    folder: str = ""
    email: str = ""
    login: str = ""
    section: str = ""


def read_roster(path: Path) -> list[Person]:
    """Return the persons of a roster. Raises ChapterError for one without an id, and for two that share one."""
    persons = [Person(number, **row) for number, row in
               read_table(path, ("id", "name"), ("folder", "email", "login", "section"))]  # fmt: skip
    for person in persons:
        if not person.id:
            raise ChapterError(f"{path}, line {person.line}: {_short(person.name)} has no id.")
    for kind in ("id", "folder", "email"):
        taken: dict[str, Person] = {}
        for person in persons:
            key = _key(getattr(person, kind))
            if key and key in taken:
                raise ChapterError(
                    f"{path}: lines {taken[key].line} and {person.line} have the same {kind}, "
                    f"{_short(getattr(person, kind))!r}: each learner needs one of their own."
                )
            taken[key] = person
    return persons


def matched(persons: Sequence[Person], learners: Iterable[str], path: Path, gone: Iterable[str] = ()) -> dict:
    """Return the Person of each learner's folder that has one: by folder, else by id, by email, or by name.

    The learners in `gone` have no folder any more; they get what is left. Raises ChapterError where one folder could be
    of two persons of the same name, or two folders are one person's.
    """
    found: dict[str, Person] = {}
    owner: dict[Person, str] = {}
    for learner in learners:
        person = _whose(learner, persons, path)
        if person in owner:
            raise ChapterError(
                f"{path}, line {person.line}: the folders {_short(owner[person])!r} and {_short(learner)!r} are both "
                f"of {_short(person.name)} ({_short(person.id)}): put all notebooks into one of them."
            )
        if person:
            found[learner], owner[person] = person, learner
    for learner in gone:
        rest = [person for person in persons if person not in owner]
        if person := _whose(learner, rest, path):
            found[learner], owner[person] = person, learner
    return found


def _whose(learner: str, persons: Sequence[Person], path: Path) -> Person | None:
    key = _key(learner)
    for kind in ("folder", "id", "email", "name"):
        fits = [one for one in persons if _key(getattr(one, kind)) == key and (kind == "folder" or not one.folder)]
        if len(fits) > 1:
            raise ChapterError(
                f"{path}: lines {fits[0].line} and {fits[1].line} are two learners called {_short(fits[0].name)!r}, "
                f"and the folder {_short(learner)!r} could be of either: call their folders by their ids, or write "
                "each one's folder into a column folder."
            )
        if fits:
            return fits[0]
    return None


def differences(
    persons: Sequence[Person], whose: dict[str, Person], learners: Iterable[str], tried: Collection[str]
) -> list[str]:
    """Return a sentence on the learners whom the roster does not know, and one on who has not `tried` anything."""
    unknown = [learner for learner in learners if learner not in whose]
    there = {person for learner, person in whose.items() if learner in tried}
    missing = [person.name or person.id for person in persons if person not in there]
    told = []
    if unknown:
        told.append(f"{len(unknown)} not in the roster, so in no export: {_list(unknown)}.")
    if missing:
        told.append(f"{len(missing)} of the roster handed in nothing: {_list(missing)}.")
    return told


def _list(names: Sequence[str]) -> str:
    rest = len(names) - MOST_TOLD
    return ", ".join(map(_short, names[:MOST_TOLD])) + (f" and {rest} more" if rest > 0 else "")


def _key(text: str) -> str:
    """Return a name as one compares it: a Mac writes ü into a folder's name as two signs, a spreadsheet as one."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _short(text: str) -> str:
    return plain(text, 60)
