"""One slide, with what a speaker says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wording import SHOWN, as_html, sentences, without_hands

SPOKEN = 300  # letters with which the notes begin
NOTES = 80  # words of all of them: what is longer nobody reads while speaking
ANSWER = "The answer"
NARROW = 1.55  # width of a picture to its height that leaves a column beside it


@dataclass
class Slide:
    """One slide: its title and body are HTML, its notes are the chapter's text."""

    kind: str
    title: str
    body: str = ""
    code: str = ""
    over: str = ""  # in small letters above the title
    late: str = ""  # a title that comes with the last step: the first one asks
    steps: list[str] = field(default_factory=list)  # what then covers the body, one after the other
    built: list[str] = field(default_factory=list)  # what the speaker says of each, where the steps build up a picture
    lines: list[str] = field(default_factory=list)  # under a picture, one after the other
    says: list[str] = field(default_factory=list)  # what the speaker says of them
    unshown: str = ""  # words that had no room there
    notes: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)  # what stands above the notes
    last: list[str] = field(default_factory=list)  # what stands below what is said
    exercise: str = ""  # the name of what is to be written
    hint: str = ""
    behind: str = ""  # what the chapter says first behind a picture
    idea: str = ""  # the first hint as HTML
    answer: str = ""  # of a core exercise, where the solutions are there
    choices: dict[str, str] = field(default_factory=dict)  # of a guess, by their numbers
    replies: dict[str, str] = field(default_factory=dict)  # to wrong guesses, by what is guessed
    minutes: float = 0  # of the timetable
    above: str = ""  # a few words above a low picture, as HTML
    beside: list[str] = field(default_factory=list)  # a picture right of the words as HTML, or the steps of one
    own: str = ""  # what its author lets the speaker say, in place of notes
    long: bool = False  # whether its author leaves it out of the short path
    begins: bool = False  # whether it is the first slide of a part of a section
    brief: bool = False  # whether it is on the short path

    @property
    def head(self) -> str:
        """Return what stands in the place of titles; what was found stands below a question."""
        return self.over if self.answers else self.title

    @property
    def answers(self) -> bool:
        """Return whether the slide stands under a question or a heading: it has that as its title, as before."""
        return bool(self.over) and self.kind not in ("guess", "picture") and self.over != ANSWER

    @property
    def asked(self) -> str:
        """Return the question that the slide answers, which stands above it; nothing where it answers none."""
        return self.title if self.over == ANSWER else self.over if self.answers and "?" in self.over else ""

    @property
    def narrow(self) -> bool:
        """Return whether the lines of a picture stand beside it, where it is as large as it can be."""
        size = re.search(r'width="(\d+)" height="(\d+)"', self.body) if self.kind == "picture" else None
        return bool(size) and int(size[1]) < NARROW * int(size[2])

    @property
    def shown(self) -> str:
        """Return the body; of a summary one point comes after the other."""
        return self.body.replace("<li>", '<li class="fragment">') if self.kind == "summary" else self.body

    @property
    def measured(self) -> str:
        """Return how an answer was found: what stands before its number."""
        return self.title.partition(": ")[0] if self.kind == "answer" and ": " in self.title else ""

    @property
    def found(self) -> str:
        """Return what was found, which stands in large letters."""
        found = self.title.removeprefix(f"{self.measured}: ")
        return found[:1].upper() + found[1:] if self.measured else found

    @property
    def spoken(self) -> str:
        """Return the notes: what to do, a few sentences to say, and then of the chapter's text what has room."""
        if self.own:
            return as_html("\n\n".join([*self.first, self.own, *self.last]))
        notes = list(filter(None, map(without_hands, self.notes)))
        built = [f"{place}. {words}" for place, words in enumerate(self.built, 1)]
        notes = notes if self.kind == "exercise" else first_words(notes, NOTES - count(" ".join(self.says + built)))
        notes = finished(notes)
        short = []
        if notes and not self.says and not built and not SHOWN.match(notes[0]):
            every = sentences(notes[0])
            taken = next((n for n in (3, 2) if len(" ".join(every[:n])) <= SPOKEN), 1)
            short, notes[0] = [" ".join(every[:taken])], " ".join(every[taken:])
        if self.kind == "picture" and not self.says and not short and not built:
            short = [self.title]
        rest = as_html("\n\n".join(filter(None, notes)))
        told = as_html("\n\n".join([*self.first, "\n".join(built), *self.says, *short, *self.last]))
        return told + (rest and f'<div class="rest">{rest}</div>')


def count(text: str) -> int:
    """Return the words of a text, without tags."""
    return len(re.sub(r"<[^>]*>", " ", text).split())


def first_words(notes: list[str], room: int) -> list[str]:
    """Return the first notes, in whole sentences, that have no more words than there is room for."""
    found = []
    for note in notes:
        parts = [note] if SHOWN.match(note) else sentences(note)
        fit = next((n for n in range(len(parts), 0, -1) if count(" ".join(parts[:n])) <= room), 0)
        found += [note if fit == len(parts) else " ".join(parts[:fit])] * bool(fit)
        room -= count(" ".join(parts[:fit]))
        if fit < len(parts):
            break
    return found


def finished(notes: list[str]) -> list[str]:
    """Return notes without a last sentence that leads to what the slide shows: it ends with a colon."""
    while notes and notes[-1].rstrip("*_ ").endswith(":"):
        *whole, last = sentences(notes[-1])
        if not whole and len(notes) == 1:
            return [f"{last.rstrip('*_ :')}."]
        notes = [*notes[:-1], *([" ".join(whole)] if whole else [])]
    return notes
