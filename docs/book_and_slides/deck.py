"""Cuts a chapter that has run into slides: one message each, and below it one thing.

What a speaker shows is kept: pictures, guesses and their answers, formulas, exercises, the summary; and what was
printed, a list or a table where a sentence of the text says what it means. Everything else becomes notes, and what
follows the summary stays in the book.
"""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass, field
from pathlib import Path

from chapter_page import kept_picture, together, unguessed
from fitting import as_html, blocks, bullets, cut, halves, inline, narrow, pages, questions, sentences, small
from nbformat import NotebookNode

from course_lib.plots.sliders import FRAMES
from exercises_tests.tools.chapters import Chapter, tags
from exercises_tests.tools.course_map import question

TITLE, LONG = 95, 120  # letters of a title, and of one with little below it
SUMMARY = "What we learned"
POINTING = re.compile(  # at what is on a page, and not on a slide
    r"\b(?:next|this|above|below|first|the) (?:cell|picture|drawing|table)s?\b|\*\*Predict|^Now\b|:$|\babove\b"
    r"|\b(?:printed|upper|lower|left|right) (?:lines?|half|row)\b|^Each (?:bar|row|line|dot|column)\b", re.IGNORECASE)
# The end of a sentence that has no end: its formula or list comes after it.
HANGING = re.compile(r"\b(?:is|are|makes?|gives?|takes?|becomes?|only|then|that|with|of|for|to|by|and|or|in|when)$")
STARTING = re.compile(r"(?:With|For|From|Because|If|In|On|At|After|and|or|because|so) ")  # needs a comma
ASKING = re.compile(r"(?:How|Which|Who|By|At|On|From)\b")  # and not "Would 5 MB be enough?"
STEPS = 12  # frames of a panel that a slide shows, one after the other
PICTURE = re.compile(r'<img[^>]*?alt="([^"]*)"[^>]*?src="data:image/png;base64,([^"]+)"|<figcaption>(.*?)</figcaption>',
                     re.DOTALL)


def unnumbered(heading: str) -> str:
    return re.sub(r"^\d+ · ", "", heading)


def message(text: str, most: int = TITLE) -> str:
    """Return a text's first sentence if a title can hold it, or its main clause; nothing where it points elsewhere."""
    first = sentences(text)[0].rstrip(".")
    clause = re.split(r"[;:] |, (?:because|so|but|while|where|which|however|also) ", first)[0]
    said = first if len(first) <= most else clause
    said = "" if said.endswith(" al") else said  # et al. ends no sentence
    fits = 12 <= len(re.sub(r"[*`$]", "", said)) <= most and said.count("$") % 2 == said.count("`") % 2 == 0
    fits = fits and said.count("(") == said.count(")")
    whole = not HANGING.search(said) and ("," in said or not STARTING.match(said))
    return said if fits and whole and first[0] not in "|-<([" and not POINTING.search(first) else ""


def told(texts: list[str]) -> str:
    """Return the sentence of some texts that can best be a title: one in bold, or else the last that fits; or none."""
    prose = [text for text in texts if text[0] not in "|$`<-#" and not re.match(r"\d+\. ", text)]
    bold = [found for text in prose for found in re.findall(r"\*\*([A-Z][^*]{20,}?[.!])\*\*", " ".join(text.split()))]
    every = [sentence for text in prose for sentence in sentences(text)]
    return next(filter(None, map(message, [*reversed(bold), *reversed(every)])), "")


@dataclass
class Slide:
    """One slide: its title and body are HTML, its notes are the chapter's text."""

    kind: str
    title: str
    body: str = ""
    code: str = ""
    notes: list[str] = field(default_factory=list)
    over: str = ""  # the section, in small letters above the title
    size: int = 30  # of the letters of the body, in pixels
    open: bool = False  # whether the title waits for what the next text says was seen
    answer: str = ""  # the number that was guessed: it comes when everybody has
    parts: list[str] = field(default_factory=list)  # what is shown one after the other in place of the body

    @property
    def spoken(self) -> str:
        return as_html("\n\n".join(self.notes))


def as_slides(chapter: Chapter, notebook: NotebookNode, pictures: Path) -> list[Slide]:
    """Return the slides of a chapter that has run; `pictures` is a folder in which small pictures are kept."""
    deck = Deck(pictures, chapter.title)
    for cell in notebook.cells:
        if deck.ended:
            break
        if cell.cell_type == "markdown":
            deck.text(cell.source)
        elif "prediction" in tags(cell):
            deck.guess()
        elif cell.cell_type == "code" and not {"imports", "check"} & set(tags(cell)):
            if "exercise" in tags(cell):
                stub = next(c.source for c in chapter.notebook.cells if c.get("id") == cell["id"])
                deck.stub(stub)
            elif not re.match(r"progress\(\)", cell.source.strip()):
                deck.outputs(cell)
    deck.end()
    deck.drop_untitled()
    deck.slides[0].body = f'<p class="question">{inline(question(chapter))}</p>'
    return deck.slides


class Deck:
    """The slides so far, the section they are in, and text that no slide has taken yet."""

    def __init__(self, pictures: Path, name: str) -> None:
        self.pictures, self.name = pictures, name
        self.slides: list[Slide] = []
        self.section = self.heading = ""
        self.waiting: list[str] = []
        self.last: list[str] = []  # the sentences of the last text, unless that has asked for a guess already
        self.stepped = False  # whether a panel has been shown step by step
        self.seen = False  # whether the last slide shows something that the next text is about
        self.in_exercise = self.ended = False

    def add(self, slide: Slide) -> None:
        slide.notes += self.waiting
        heading = inline(self.heading)
        guess = "Your guess" if slide.kind.startswith("guess") else ""
        slide.over = "" if slide.kind == "title" else " · ".join(filter(None, [heading, guess]))
        self.waiting, self.seen = [], slide.kind.startswith(("picture", "printed", "formula"))
        self.slides.append(slide)

    def end(self) -> None:
        if self.waiting and self.slides:
            self.slides[-1].notes += self.waiting
        self.waiting = []

    def drop_untitled(self) -> None:
        """Put what no sentence sums up into the notes of the slide before; a picture has words, a formula a heading."""
        kept: list[Slide] = []
        for slide in self.slides:
            if not slide.title and slide.kind in ("picture", "formula"):
                slide.title = self.named(slide)
            if slide.title:
                slide.over = "" if unnumbered(slide.over) == slide.title else slide.over
                kept.append(slide)
            else:
                kept[-1].notes += [*slide.notes, slide.body]
        self.slides = kept

    def named(self, slide: Slide) -> str:
        """Return the best title for a slide that no sentence beside it has given one."""
        words = re.search(r'alt="([^"]*)"', slide.body)
        first = html.unescape(words[1]).partition(";")[0].strip() if words else ""
        said = html.escape(first) if 12 <= len(first) <= TITLE else inline(told(slide.notes))
        return said or unnumbered(slide.over) or inline(self.name)

    def text(self, source: str) -> None:
        parts, predicted = blocks(source), False
        for place, block in enumerate(parts):
            if heading := re.match(r"(#{1,6}) (.*)", block):
                self.end()
                if self.heading == SUMMARY:
                    self.ended = True
                    return
                self.in_exercise = heading[2].startswith("Exercise:")
                if self.in_exercise:
                    self.add(Slide("exercise", inline(heading[2])))
                elif len(heading[1]) == 2:
                    self.heading = heading[2]
                elif len(heading[1]) == 1:  # what opens the chapter is said on its first slide
                    self.heading = ""
                    self.add(Slide("title", inline(heading[2])))
                    self.slides[-1].notes += [part for part in parts[place + 1:] if not part.startswith("#")]
                    return
                continue
            if block.startswith("<details"):
                continue
            if block[0] not in "|$`":
                self.last = sentences(block)
            if found := re.match(r"\*\*Predict[.,:]?\*\*[,.]?\s*(.*)", block, re.DOTALL):
                asked = cut(found[1])
                before = sentences(self.waiting[-1])[-1] if self.waiting else ""
                if len(asked) < 60 and before[-1:] == "." and len(before) < 200:  # what the question is about
                    asked = f"{before} {asked}"
                self.ask(asked)
                self.slides[-1].notes.append(block)
                predicted = True
            elif block.startswith("$$") and not self.in_exercise:
                self.formula(block)
            elif block.startswith("|") and not self.in_exercise and small(block):
                self.add(Slide("table", self.lead(), as_html(block), open=True))
            elif re.match(r"(?:[-*]|1\.) ", block) and not self.in_exercise:
                title = self.lead() or (inline(SUMMARY) if self.heading == SUMMARY else "")
                for part in bullets(block):
                    self.add(Slide("list", title, as_html(part)))
                self.slides[-1].notes.append(block)
            elif self.in_exercise and not self.slides[-1].body.count("<p"):
                self.slides[-1].body += f'<p class="facts">{inline(block)}</p>'
                self.slides[-1].notes.append(block)
            elif self.in_exercise and self.slides[-1].body.count("<p") == 1 and block[0] not in "|$`":
                goal = re.sub(r"^\*\*Goal:\*\* *", "", block)
                first, *rest = sentences(goal)
                if purpose := message(goal, LONG):
                    self.slides[-1].over = self.slides[-1].title
                    self.slides[-1].title = inline(purpose[0].upper() + purpose[1:])
                    goal = " ".join(rest) if rest and purpose == first.rstrip(".") else goal
                self.slides[-1].body += f"<p>{inline(cut(goal))}</p>"
                self.slides[-1].notes.append(block)
            elif self.seen:  # what was seen, and why
                if self.slides[-1].open and (said := message(block)):
                    self.slides[-1].title, self.slides[-1].open = inline(said), False
                self.slides[-1].notes.append(block)
                self.seen = self.slides[-1].open and not self.slides[-1].title  # then the next text may say it
            else:
                self.waiting.append(block)
        self.last = [] if predicted else self.last

    def guess(self) -> None:
        """Make the slide of a guess that the last text did not call one: its question, and two sentences before."""
        places = [place for place, sentence in enumerate(self.last) if "?" in sentence] or [len(self.last) - 1]
        asked = self.last[max(0, places[-1] - 2):places[-1] + 1]
        while len(asked) > 1 and len(" ".join(asked)) > 300:
            del asked[0]
        if asked:
            self.ask(" ".join(asked))
            self.last = []

    def ask(self, asked: str) -> None:
        """Make the slide of a guess: the last question is its title, and what leads to it stands below."""
        said = sentences(asked)
        places = [place for place, one in enumerate(said) if one.endswith("?") and len(one) <= LONG]
        places = [place for place in places if ASKING.match(said[place])] or places
        title = said.pop(places[-1]) if places else "What do you expect?"
        body = f"<p>{inline(' '.join(said))}</p>" if said else ""
        self.add(Slide("guess" if body else "guess alone", inline(title), body))

    def stub(self, source: str) -> None:
        """Put the first line of a stub on the slide of its exercise."""
        line = next((line for line in source.splitlines() if re.match(r"(def|class) ", line)), "")
        if self.in_exercise:
            self.slides[-1].body += f'<pre class="line">{html.escape(line)}</pre>'
            self.end()
        self.in_exercise = False

    def outputs(self, cell: NotebookNode) -> None:
        """Make slides of what a cell put out."""
        said = ""
        for output in together(cell.get("outputs", [])):
            data = output.get("data", {})
            if output.get("name") == "stderr":
                continue
            if FRAMES not in data and "<img" not in data.get("text/html", "") and "image/png" not in data:
                shown = output.get("text") or data.get("text/plain", "")
                said += re.sub(r"^.*\r(?!\n)", "", shown, flags=re.MULTILINE).rstrip("\n") + "\n" * bool(shown)
                continue
            self.printed(said, cell.source)
            said = ""
            if FRAMES in data:
                self.panel(data[FRAMES], cell.source)
            elif "<img" in data.get("text/html", ""):
                caption = ""
                for alt, png, message_above in PICTURE.findall(data["text/html"]):
                    if message_above:
                        caption = message_above
                    else:
                        self.picture(caption, alt, png, cell.source)
            else:
                self.picture("", "", data["image/png"], cell.source)
        self.printed(said, cell.source)

    def lead(self) -> str:
        """Return the sentence that leads to what follows if a title can hold it, or nothing."""
        said = self.waiting[-1] if self.waiting else ""
        return inline(message(sentences(said.rstrip(":"))[-1])) if said else ""

    def formula(self, block: str) -> None:
        """Make a slide of a formula: the sentence that leads to it is the title, or else the next one."""
        title = self.lead() or inline(told(self.waiting))
        apart = [part for part in re.split(r"(?:\\qquad\s*)+", block.strip().strip("$")) if part.strip()]
        body = as_html("\n\n".join(f"$${part.strip()}$$" for part in apart))
        letters = max(len(re.sub(r"<[^>]*>|\s", "", as_html(f"$${part.strip()}$$"))) for part in apart)
        size = 56 if letters < 30 else 40 if letters < 50 else 30
        self.add(Slide("formula", title, body, size=size, open=not title))

    def title(self) -> str:
        """Return the question that the text before has asked, or the sentence that leads here, or nothing."""
        asked = questions(self.waiting[-1]) if self.waiting else []
        return inline(asked[-1]) if asked else self.lead()

    def picture(self, title: str, alt: str, png: str, code: str) -> None:
        """Make a slide of a picture. A tall one is shown whole, and then each half as wide as the slide."""
        data = base64.b64decode(png)
        whole, *parts = [self.image(alt, part) for part in (data, *halves(data))]
        slide = Slide("picture", title or self.title(), whole, code, open=not title, parts=parts)
        self.add(slide)

    def image(self, alt: str, png: bytes) -> str:
        image = base64.b64encode(kept_picture(png, self.pictures).read_bytes()).decode()
        return f'<img alt="{alt}" src="data:image/webp;base64,{image}">'

    def panel(self, drawn: dict, code: str) -> None:
        """Make a slide of a panel: of the first one that has steps all are shown in turn, else one frame."""
        steps = list(drawn["frames"].values())
        if self.stepped or len(drawn["controls"]) > 1 or len(steps) > STEPS:
            steps = [drawn["frames"][",".join(map(str, drawn["start"]))]]
        self.stepped |= len(steps) > 1
        title = self.title() if len(steps) > 1 else ""  # the question stays while the picture moves
        first, *more = [(html.escape(frame["words"]), frame["src"].partition(",")[2]) for frame in steps]
        if first[1]:
            self.picture(title, *first, code)
            if more:
                self.slides[-1].parts = [self.image(alt, base64.b64decode(png)) for alt, png in more if png]

    def printed(self, said: str, code: str) -> None:
        """Make slides of printed text, if there is any; what `compare` measured is the title."""
        if not said.strip():
            return
        title, known = "", re.search(r"^no guess +(.*)\n?", said, re.MULTILINE)
        if known:
            said = said.replace(known[0], "", 1)
            number = re.sub(r"^([^\d:]*\w) (?=-?[\d.])", r"\1: ", known[1])
            title = html.escape(number[0].upper() + number[1:])
        lines = unguessed(said).rstrip().splitlines()
        if title and not lines and self.slides[-1].kind.startswith("guess"):
            self.slides[-1].answer = title  # nothing but a number: it stands under its question
            return
        size, parts = pages(narrow(lines))
        for part in parts or [""]:
            lines = "".join(f"<span>{html.escape(line) or ' '}</span>" for line in part.split("\n"))
            body = f"<pre>{lines}</pre>" if part else ""
            self.add(Slide("printed" if part else "printed alone", title or self.title(), body, code, size=size,
                           open=not title))
