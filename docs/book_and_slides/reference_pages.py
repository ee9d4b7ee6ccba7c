"""Writes the pages of the book that are made from all chapters: lists of exercises, and a glossary.

The glossary is made from the chapters' own definitions: a term stands in bold where it is defined, in a sentence that
says what it is. Where this sentence needs its neighbours, or there is none, glossary.toml has one that stands alone.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from chapter_page import FENCE, Book, folded, label, linked, reworded
from veils import FRAME

from exercises_tests.tools.chapters import Chapter, Exercise, tags
from exercises_tests.tools.course_map import minutes, number, question

FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
FENCE_OR_FOLD = re.compile(r"(^```.*?^```\s*?$|^~~~.*?^~~~\s*?$|<details.*?</details>)", re.MULTILINE | re.DOTALL)
TERM = re.compile(r"\*\*(?! )(`?[^*\n`]{1,40}`?)\*\*")  # two sentences in bold have a blank between their stars
# Words that chapters stress, and that name nothing.
STRESSED = {
    "a", "active", "after", "all", "also", "average", "before", "each", "everybody", "forward", "backward",
    "ideal", "mean", "new", "none", "not", "once", "only", "same", "start", "twice", "when", "why", "your", "x",
    "f", "g", "i", "w", "full", "selective", "weights", "gradients", "predict", "working", "recomputed", "peak",
    "hybrid", "pipelines", "simulated", "state", "optimizer", "floor", "identity", "weight", "factor", "row",
    "tooth", "split chunks", "larger units",
}
HELD = re.compile(  # no place for a link
    r"(\[[^\]]*\]\([^)]*\)|`[^`]*`|\$\$[^$]*\$\$|\$[^$]*\$|^[#|<].*$|<[^>]*>)", re.MULTILINE)
# Terms that are ordinary words outside of the chapter that defines them.
ORDINARY = {"budget", "exposed", "gather", "handle", "hook", "mask", "moments", "reduce", "replay", "root", "slots",
            "span"}
OPENINGS = {
    "a", "after", "an", "and", "before", "blocks", "each", "for", "how", "in", "kept", "not", "nothing", "only", "one",
    "the", "what", "where", "plain",
}
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*`\[$])|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=\|)")
SHOWN_ABOVE = re.compile(r"\b[Tt]he (picture)\b|\b[Tt]he (log|table|cell|code|lines) above\b")
DANGLING = re.compile(r"(?:This|That|It|Its|These|They|Such|Both|Here|To each of them)\b|In .* this is called")


@dataclass(frozen=True)
class Definition:
    """A term, the sentence that defines it, and where that stands."""

    term: str
    sentence: str
    chapter: Chapter
    to: str


# Exercises


def exercises_of(chapter: Chapter, book: Book) -> str:
    """Return a chapter's list of exercises as a page: what each asks for, its stub and its hints, folded."""
    parts = ["---\nnosearch: true\n---", f"({chapter.name[:4]}-exercises)=",
             f"# Exercises of chapter {number(chapter)}: {chapter.title}",
             f"{table([chapter])}\n\nYou write them in the chapter's notebook. In your copy of the course `make lab` "
             f"opens it: `work/{chapter.name}.ipynb`. There a check reads your answer and says what it found. Below, "
             "each name leads to the exercise in the chapter. Minutes are estimates."]
    for exercise in chapter.exercises:
        said, stub, hints = texts(chapter, exercise)
        body = reworded(re.sub(r"^#+ Exercise:.*\n", "", said, count=1, flags=re.MULTILINE)).strip()
        parts += [f"## [`{exercise.id}`](#{label(chapter, exercise.id)})", FRAME, linked(body, chapter, book),
                  elsewhere(f"{body}\n{hints}", label(chapter, exercise.id)),
                  folded("The stub", stub), linked_outside(reworded(hints), chapter, book), "</div>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def elsewhere(said: str, to: str) -> str:
    """Return a line that leads to what an exercise speaks of and only the chapter shows, if there is any."""
    things = dict.fromkeys(one or other for one, other in SHOWN_ABOVE.findall(said))
    if not things:
        return ""
    return f"*The {' and the '.join(things)}: see the chapter, [above the exercise](#{to}).*"


def linked_outside(source: str, chapter: Chapter, book: Book) -> str:
    """Return text with its links, and its fenced code as it was."""
    parts = FENCE.split(source)
    return "".join(part if place % 2 else linked(part, chapter, book) for place, part in enumerate(parts))


def texts(chapter: Chapter, exercise: Exercise) -> tuple[str, str, str]:
    """Return the text before an exercise, its stub, and its folded hints."""
    cells = chapter.notebook.cells
    place = next(place for place, cell in enumerate(cells)
                 if cell.get("id") == exercise.id and "exercise" in tags(cell))
    before = [cell.source for cell in cells[:place] if cell.cell_type == "markdown"]
    said = re.split(r"^(?=#+ Exercise:)", before[-1] if before else "", flags=re.MULTILINE)[-1]
    after = next((cell.source for cell in cells[place:] if cell.cell_type == "markdown"), "")
    return said, cells[place].source, "\n\n".join(FOLDED.findall(after))


def table(chapters: list[Chapter]) -> str:
    """Return the exercises of these chapters as a table, each with the first sentence of its docstring."""
    rows = ["| exercise | level | points | minutes |", "|---|---|---|---|"]
    rows += [f"| [`{e.id}`](#{label(chapter, e.id)})<br>{sentence(chapter, e)} | {e.level} | {e.points} | {e.minutes} |"
             for chapter in chapters for e in chapter.exercises]
    return "\n".join(rows)


def sentence(chapter: Chapter, exercise: Exercise) -> str:
    """Return the first sentence of an exercise's docstring; none where its stub has no docstring."""
    body = ast.parse(texts(chapter, exercise)[1]).body
    told = next((ast.get_docstring(part) for part in body if isinstance(part, ast.FunctionDef | ast.ClassDef)), None)
    first = re.split(r"(?<=[.?!])\s", " ".join((told or "").split()), maxsplit=1)[0]
    return re.sub(r"([\\|*_$<\[])", r"\\\1", first)


def exercises(book: Book) -> str:
    """Return the page that leads to all lists of exercises."""
    everything = [e for chapter in book.chapters for e in chapter.exercises]
    core = sum(e.level == "core" for e in everything)
    parts = ["(exercises)=\n# Exercises", f"{len(everything)} exercises, of which {core} are core: they build each "
             "chapter's idea itself. The others are extras. Minutes are estimates."]
    for chapter in book.chapters:
        if chapter.exercises:
            parts += [f"## [{number(chapter)} · {chapter.title}](#{chapter.name[:4]}-exercises)",
                      f"{question(chapter)} ({minutes(chapter)} minutes for the core exercises)", table([chapter])]
    listed = "\n".join(f"Chapter {number(chapter)} <{chapter.name}_exercises>"
                       for chapter in book.chapters if chapter.exercises)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```"]) + "\n"


# Glossary


def definitions(chapters: list[Chapter], course: list[Chapter] | None = None) -> list[Definition]:
    """Return every term of these chapters with the sentence that defines it, in the order of the alphabet.

    Which chapter a term belongs to is decided by the whole `course`: elsewhere the same word may mean something else.
    """
    found: dict[str, Definition] = {}
    alone = standing_alone()
    for chapter in course or chapters:
        for cell in chapter.notebook.cells:
            if cell.cell_type != "markdown":
                continue
            for term, sentence in defined(FOLDED.sub("", FENCE.sub("", cell.source))):
                said = alone.get(term.lower(), sentence)
                found.setdefault(term.lower(), Definition(term, said, chapter, label(chapter, f"in-{cell['id']}")))
    for term, sentence in written().items():
        if term.lower() not in found and (there := used(term, course or chapters)):
            found[term.lower()] = Definition(term, sentence, *there)
    names = {chapter.name for chapter in chapters}
    return sorted((one for one in found.values() if one.chapter.name in names), key=lambda known: known.term.lower())


def written() -> dict[str, str]:
    """Return the definitions of glossary.toml by their terms."""
    return tomllib.loads(Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8"))


def standing_alone() -> dict[str, str]:
    """Return the definitions of glossary.toml by their terms in small letters."""
    return {term.lower(): sentence for term, sentence in written().items()}


def used(term: str, chapters: list[Chapter]) -> tuple[Chapter, str] | None:
    """Return the chapter that uses a term in bold, else the first that uses it at all, and the label of its text."""
    places = []
    for chapter in chapters:
        for cell in chapter.notebook.cells:
            prose = FOLDED.sub("", cell.source)
            if cell.cell_type == "markdown" and linked_to_glossary(prose, [term]) != prose:
                bold = re.search(rf"\*\*`?{word(term).pattern}`?\*\*", prose, word(term).flags)
                places.append((not bold, len(places), chapter, label(chapter, f"in-{cell['id']}")))
    return min(places)[2:] if places else None


def word(term: str) -> re.Pattern[str]:
    """Return what finds a term in a text, also where several are meant; a name is written as it is."""
    return re.compile(rf"(?<![\w/.-]){re.escape(term)}(?:e?s)?(?![\w-])",
                      0 if re.search("[A-Z]", term) else re.IGNORECASE)


def in_bold(term: str) -> re.Pattern[str]:
    return re.compile(rf"\*\*(`?)({re.escape(term)})\1\*\*", re.IGNORECASE)


def carried(known: list[Definition], chapter: Chapter, course: list[Chapter]) -> list[str]:
    """Return the terms that earlier chapters define, the longest first.

    A plain word that the course has used before its definition, such as "table", is an ordinary one, too.
    """
    names = [one.name for one in course]
    texts = ["\n".join(prose(cell.source) for cell in one.notebook.cells if cell.cell_type == "markdown")
             for one in course]

    def ordinary(one: Definition) -> object:
        before = texts[:names.index(one.chapter.name)]
        return one.term in ORDINARY or (
            re.fullmatch("[a-z]+", one.term) and any(word(one.term).search(text) for text in before))

    here = names.index(chapter.name)
    terms = [one.term for one in known if names.index(one.chapter.name) < here and not ordinary(one)]
    return sorted(terms, key=len, reverse=True)


def prose(source: str) -> str:
    """Return a text without what is no place for a link: code, formulas, headings, tables and links."""
    return "".join(HELD.split(FENCE_OR_FOLD.sub("", source))[::2])


def linked_texts(sources: list[str], terms: list[str], earlier: list[str] | None = None) -> list[str]:
    """Return a chapter's texts, in which each of these terms leads to the glossary once: from where it is in bold.

    Only a term that is nowhere in bold, or that an `earlier` chapter has defined, does so from where it first stands:
    before it is defined, a word such as "table" may be an ordinary one.
    """
    left = [*terms, *(earlier or [])]
    whole = FENCE_OR_FOLD.sub("", "\n".join(sources))
    plain = {term for term in left if not in_bold(term).search(whole)} | set(earlier or [])
    return [linked_to_glossary(source, left, plain) for source in sources]


def linked_to_glossary(source: str, terms: list[str], plain: Container[str] | None = None) -> str:
    """Return a text in which each of these terms leads to the glossary from where it first stands, in bold if it does.

    Those that are not `plain` do so in bold only. The terms that are found are taken off the list.
    """
    parts = FENCE_OR_FOLD.split(source)
    for term in list(terms):
        bold = in_bold(term)
        place = next((place for place, part in enumerate(parts) if place % 2 == 0 and bold.search(part)), None)
        if place is not None:
            parts[place] = bold.sub(rf"**{{term}}`\2 <{term}>`**", parts[place], count=1)
            terms.remove(term)
        elif (plain is None or term in plain) and linked_plainly(parts, term):
            terms.remove(term)
    return "".join(parts)


def linked_plainly(parts: list[str], term: str) -> bool:
    """Link a term where it first stands in these parts, of which every other one is code; return whether it does."""
    known = word(term)
    for place in range(0, len(parts), 2):
        pieces = HELD.split(parts[place])
        for at in range(0, len(pieces), 2):
            if known.search(pieces[at]):
                pieces[at] = known.sub(rf"{{term}}`\g<0> <{term}>`", pieces[at], count=1)
                parts[place] = "".join(pieces)
                return True
    return False


def defined(text: str) -> Iterator[tuple[str, str]]:
    """Yield each term that a text defines, and the sentence that does it, with the one that it points back to."""
    said = [" ".join((sentence or "").split()) for sentence in SENTENCE.split(text)]
    for place, sentence in enumerate(said):
        for term in TERM.findall(sentence):
            if defines(sentence, term) and not sentence.startswith(("#", "|")):
                name = term.strip("`")
                known = name if re.search(r"[A-Z]", name[1:]) else name[0].lower() + name[1:]
                before = f"{said[place - 1]} " if DANGLING.match(sentence) and place else ""
                if not before.startswith(("#", "|", "$$")):
                    yield known, re.sub(r"^(?:[-*]|\d+\.)\s+", "", before + sentence)


def defines(sentence: str, term: str) -> bool:
    """Return whether a sentence says what a term in bold is: it is named, or is the subject of what follows."""
    name = term.strip("`")
    if name.lower() in STRESSED or name.lower().split()[0] in OPENINGS or len(sentence) < 25:
        return False
    if re.search(r"[.?!:=→%\d]$|^\d|\.\w", name) or len(name.split()) > 3:
        return False
    if sentence.endswith(":") and len(sentence) < 40:  # it only announces what comes
        return False
    bold = re.escape(f"**{term}**")
    named = (r"\b(?:an?|the|its|their|called|calls?|call it|calls it|name|named|names|term|means?|or|is)"
             rf"(?:\s+\w+'s)?\s+{bold}")
    aside = r"(?:\s+\((?:[^()]|\([^()]*\))*\)|, such as [^,]+|\s+and \*\*[^*]+\*\*)?"
    subject = (rf"{bold}, an? |{bold}s?{aside},?\s+(?:also )?(?:is|are|means?|says|has|holds|keeps|cuts|gives|"
               r"splits|puts|stores|adds|replaces|computes|joins|writes|freezes|works|lets|looks|goes|prevents|records|starts|which|\$=)"
               r"(?!\w)")
    opens = rf"^(?:[-*]\s+|\d+\.\s+)?(?:In (?:the |an? )?{bold}" + rf"|{bold}:" * name[0].isupper() + ")"
    return re.search(f"{named}|{subject}|{opens}", sentence) is not None  # in small letters it is a list's label


def glossary(book: Book) -> str:
    """Return the glossary as a page: a list of terms under each letter."""
    parts, letters = [], []
    for letter, group in groupby(definitions(book.chapters, book.course), lambda known: known.term[0].upper()):
        letters.append(f"[{letter}](#letter-{letter.lower()})")
        entries = "\n\n".join(entry(known, book) for known in group)
        parts += [f"(letter-{letter.lower()})=\n## {letter}", f"```{{glossary}}\n{entries}\n```"]
    about = "Each term in a sentence, with a link to the chapter that introduces it."
    return "\n\n".join(["(glossary)=\n# Glossary", about, " ".join(letters), *parts]) + "\n"


def entry(known: Definition, book: Book) -> str:
    """Return a term of the glossary and what it means."""
    sentence = re.sub(r"[:;]$", ".", known.sentence)  # what came next is not here
    said = linked(re.sub(r"\*\*(.+?)\*\*", r"*\1*", sentence), known.chapter, book)
    return f"{known.term}\n    {said} ([chapter {number(known.chapter)}](#{known.to}))"
