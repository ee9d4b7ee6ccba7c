"""Folds what follows a guess, up to the next heading, so that nothing on the page tells the answer before the guess.

A veil is a fold that stands open in the page: book.js closes it until there is a guess, so without scripts all is seen.
"""

from __future__ import annotations

import html
import json
import re
import tomllib

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_lib.notebook import TEMPTING

VEIL = ('<details class="veil" open data-guess="{}"{}><summary><span>Guess first, or <u>show what follows</u></span>'
        "<i>hide again</i></summary>")
HEADING = re.compile(r"^(?:\([^)\n]+\)=\n+)+#{1,6} ", re.MULTILINE)  # chapter_page.py puts a label before each
SPAN = re.compile(r"(\d) to (\d)(?: for a (\w+))?(?:, (\d) for (.+))?")
FEW = 6  # numbers of which one is chosen by a button
TOGETHER = re.compile(r"\b(\d)(\d) for \1 and \2\b")
LISTED = re.compile(r"^(\d)\. \*\*(.+?)[.:]?\*\*", re.MULTILINE)
FRAME = '<div class="exercise">'
HOW = re.compile(r"by |in |added up|counted|measured|replayed|simulated")  # the number was found; else it is told
PLAIN = "a an and as at for in of on that the to what which with"  # words that add nothing to a question
UNIT = re.compile(r"(?:^|\bin )(?:virtual )?"
                  r"(ns|µs|microseconds|ms|milliseconds|s|seconds|days|bytes|kB|MB|GB|%|percent)"
                  r"(?![\w/])(?! of \S+ over | .* / )")


class Veils:
    """The cells of a page, and the veils that are open at its end."""

    def __init__(self) -> None:
        self.cells: list[NotebookNode] = []
        self._open: list[tuple[list[str], NotebookNode]] = []  # veils, and the frame of an exercise, which has no guess
        self._asked: list[str] = []  # guesses after which nothing has come yet
        self._later = ""
        self._words: dict[str, dict[str, str]] = {}  # of the choices of each guess

    def ask(self, cell: NotebookNode, lines: list[str], later: str = "", said: str = "") -> None:
        """Add fields for guesses, asked for in the text `said`; what follows is veiled, and begins with `later`."""
        for place, line in enumerate(lines):
            field = guess(line, said, said if len(lines) == 1 else "")
            self.cells.append(new_markdown_cell(field, id=f"{cell['id']}-guess-{place}"))
            name, _, told = line.partition("=")
            self._asked.append(name.strip())
            self._words[name.strip()] = dict(several(told, said) or choices(asked_for(told)))
        self._later = later
        if later:
            self._begin()

    def add(self, *cells: NotebookNode) -> None:
        """Add cells without a heading."""
        if cells and self._asked:
            self._begin()
        self.cells += cells

    def answer(self, cell: NotebookNode, names: set[str]) -> None:
        """Tell the veil of these guesses what `cell` has measured; where none of them is veiled any more, begin one."""
        if not any(names.intersection(guesses) for guesses in [self._asked, *(guesses for guesses, _ in self._open)]):
            self._asked = sorted(names)
        if self._asked:
            self._begin()
        for guesses, veil in self._open:
            if names.intersection(guesses) and "data-known" not in veil.source:
                veil["source"] = VEIL.format(" ".join(guesses), measured(cell))
        for output in cell.outputs:  # book.js hides what says the answer again, where it has answered a guess
            if "no guess" in (page := output.get("data", {}).get("text/html", "")):
                output.data["text/html"] = page.replace('class="course-card', 'class="compared course-card', 1)
        for name in names if "choice=True" in cell.source else ():
            in_words(cell, self._words.get(name, {}))

    def text(self, said: str, name: str) -> None:
        """Add a text; a heading in it ends every veil, and one of an exercise begins its frame."""
        heading = HEADING.search(said)
        before, rest = (said[:heading.start()], said[heading.start():]) if heading else (said, "")
        if before.strip():
            self.add(new_markdown_cell(before, id=name if not rest else f"{name}-before"))
        if rest:
            self.end()
            title, exercise, task = rest.partition(FRAME)
            self.cells.append(new_markdown_cell(title, id=name))
            if exercise:
                self.frame(name)
                self.add(new_markdown_cell(task, id=f"{name}-task"))

    def frame(self, name: str) -> None:
        """Begin the frame around an exercise: its text, stub, check, hints and answer."""
        self.cells.append(new_markdown_cell(FRAME, id=f"{name}-frame"))
        self._open.append(([], self.cells[-1]))

    def unframe(self) -> None:
        """End the frame around an exercise, if one is open, and the veils in it."""
        while any(opened.source == FRAME for _, opened in self._open):
            self._close()

    def end(self) -> None:
        """End the veils and the frame that are open."""
        self._asked = []
        while self._open:
            self._close()

    def _close(self) -> None:
        _, opened = self._open.pop()
        end = "</div>" if opened.source == FRAME else "</details>"
        self.cells.append(new_markdown_cell(end, id=f"{opened['id']}-end"))

    def _begin(self) -> None:
        guesses, self._asked = self._asked, []
        veil = new_markdown_cell(VEIL.format(" ".join(guesses), ""), id=f"veil-{len(self.cells)}")
        self._open.append((guesses, veil))
        self.cells.append(veil)
        if self._later:
            self.cells.append(new_markdown_cell(self._later, id=f"{veil['id']}-later"))
            self._later = ""


def in_words(cell: NotebookNode, words: dict[str, str]) -> None:
    """Let a cell's comparison with a choice say its words in place of its number."""
    for output in cell.outputs:
        page = output.get("data", {}).get("text/html", "")
        if "no guess" in page:
            output.data["text/html"] = re.sub(r"(?<=<b>)\d+(?=</b>)", lambda found: " and ".join(
                words[one] for one in found[0]) if set(found[0]) <= set(words) else found[0], page)


def measured(cell: NotebookNode) -> str:
    """Return the attributes by which book.js answers a guess: the number, its words, and why one thinks of others.

    `compare` has said the number after the words "no guess".
    """
    told = "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    said = re.search(r"^no guess\s+(.*)", told, re.MULTILINE)
    if not said:
        return ""
    number = re.search(r"(?<!\S)-?\d[\d,.]*(?:e[-+]?\d+)?(?!\S)", said[1])
    known = {"known": number[0].replace(",", "") if number else said[1].split()[-1]}
    if name := re.search(r'because="(\w+)\.(\w+)"', cell.source):
        tempting = tomllib.loads(TEMPTING.read_text(encoding="utf-8"))
        known["reasons"] = json.dumps(tempting.get(name[1], {}).get(name[2], {}), ensure_ascii=False)
    if "choice=True" in cell.source:
        known["choice"] = "yes"
    elif number:
        by, value = said[1][:number.start()].strip(), re.split(r" {2,}", said[1][number.start():].strip())[0]
        known["told"] = f"The answer{f', {by}' if HOW.match(by) else ''}: {rounded(value)}."
        known |= {"unit": unit} if (unit := value.removeprefix(number[0]).strip()) else {}
    return "".join(f' data-{key}="{html.escape(value)}"' for key, value in known.items())


def rounded(told: str) -> str:
    """Return words with their numbers as one says them: 41.41 times as 41.4, 1 times as long as just as long."""
    def short(number: re.Match) -> str:
        return format(float(f"{float(number[0].replace(',', '')):.3g}"), ",.15g")

    return re.sub(r"(?<![\d.,])1 times as\b", "just as", re.sub(r"(?<![\d.,])\d[\d,]*\.\d+(?![\de,])", short, told))


def guess(line: str, said: str = "", asked: str = "") -> str:
    """Return a field for a guess, or a button for each choice, in place of the line of code that holds it.

    Beside the field stands what the line says and the question in the text `asked` does not.
    """
    name, _, told = line.partition("=")
    name, what = name.strip(), asked_for(told)
    together = several(told, said)
    if options := together or choices(what):
        kind = "checkbox" if together else "radio"
        buttons = "".join(f'<label><input type="{kind}" name="{name}" value="{html.escape(value)}"> '
                          f"<span>{html.escape(words)}</span></label>" for value, words in options)
        return f'<fieldset class="guess"><legend>Your guess</legend>{buttons}</fieldset>'
    found = UNIT.search(what)
    unit = found[1] if found else "share" if re.search(r"\bshare of\b", what) else ""
    held = f' data-unit="{unit}"' if unit else ""
    held += f' data-asked="{html.escape(what)}"'
    keys = "" if what.startswith("letters") else ' inputmode="decimal"'  # of a phone
    return (f'<div class="guess"{held}><label><span>Your guess</span> <input autocomplete="off" placeholder=" "{keys} '
            f'name="{name}"></label> <span>{html.escape(new_words(what, asked))}</span></div>')


def new_words(what: str, asked: str) -> str:
    """Return what a guess's comment adds to its question: nothing, or the note at its end, where that has all words."""
    def words(text: str) -> set[str]:
        return {word.rstrip("s") for word in re.findall(r"\w+", text.lower())}

    told, note = re.fullmatch(r"(.*?)(?: \(([^()]*)\))?", what).groups(default="")
    unit = UNIT.search(what)
    known = words(asked.rpartition("**Predict")[2]) | words(f"{unit[0] if unit else ''} {PLAIN}")
    return what if words(told) - known else note


def asked_for(told: str) -> str:
    """Return what a guess's comment asks for."""
    return re.sub(r"^your (?:number|choice|\w+)?[,:]?\s*|, in quotes", "", told.partition("#")[2].strip())


def several(told: str, said: str) -> list[tuple[str, str]]:
    """Return the choices of which a guess may name more than one, as 14 for 1 and 4: the list in its text."""
    listed = LISTED.findall(said) if TOGETHER.search(told) else []
    return [(value, f"{value} · {words}") for value, words in listed]


def choices(what: str) -> list[tuple[str, str]]:
    """Return the choices that a guess's comment names, each as its value and its words; none where it asks freely."""
    parts = re.split(r", or | or |, ", what)
    if len(parts) > 1 and all(re.fullmatch(r'"[^"]+"', part) for part in parts):
        return [(part[1:-1], part[1:-1]) for part in parts]
    if (span := SPAN.fullmatch(re.sub(r"^the \w+, ", "", what))) and int(span[2]) - int(span[1]) < FEW:
        named = [(str(one), f"{span[3] or ''} {one}".strip()) for one in range(int(span[1]), int(span[2]) + 1)]
        return named + [(span[4], span[5])] * bool(span[4])
    numbered = len(parts) > 1 and all(re.fullmatch(r"\d( .+)?", part) for part in parts)
    return [(part[0], part[2:] or part) for part in parts] if numbered else []
