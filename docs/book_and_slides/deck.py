"""Cuts a chapter that has run into slides: one message each, and below it one thing."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass, field
from pathlib import Path

from chapter_page import kept_picture, together, unguessed
from fitting import as_html, blocks, bullets, cut, inline, narrow, pages, questions, small
from nbformat import NotebookNode

from course_lib.plots.sliders import FRAMES
from exercises_tests.tools.chapters import Chapter, tags
from exercises_tests.tools.course_map import question

TITLE = 95  # letters
POINTING = re.compile(  # at what is on a page, and not on a slide
    r"\b(?:next|this|above|below|first|the) (?:cell|picture|drawing|table)s?\b|\*\*Predict|^Now\b|:$"
    r"|\b(?:printed|upper|lower|left|right) (?:lines?|half|row)\b|^Each (?:bar|row|line|dot|column)\b", re.IGNORECASE)
STEPS = 12  # frames of a panel that become slides, one after the other
PICTURE = re.compile(r'<img[^>]*?alt="([^"]*)"[^>]*?src="data:image/png;base64,([^"]+)"|<figcaption>(.*?)</figcaption>',
                     re.DOTALL)


def unnumbered(heading: str) -> str:
    return re.sub(r"^\d+ · ", "", heading)


def message(text: str) -> str:
    """Return a text's first sentence if a title can hold it, or its main clause; nothing where it points elsewhere."""
    first = re.split(r"(?<=[.?!])\s+", " ".join(text.split()))[0].rstrip(".")
    clause = re.split(r"[;:] |, (?:because|so|but|while|where|which) ", first)[0]
    said = first if len(first) <= TITLE else clause
    said = "" if said.endswith(" al") else said  # et al. ends no sentence
    fits = 12 <= len(re.sub(r"[*`$]", "", said)) <= TITLE and said.count("$") % 2 == said.count("`") % 2 == 0
    return said if fits and first[0] not in "|-<([" and not POINTING.search(first) else ""


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

    @property
    def spoken(self) -> str:
        return as_html("\n\n".join(self.notes))


def as_slides(chapter: Chapter, notebook: NotebookNode, pictures: Path) -> list[Slide]:
    """Return the slides of a chapter that has run; `pictures` is a folder in which small pictures are kept."""
    deck = Deck(pictures)
    for cell in notebook.cells:
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
    deck.drop_repeated()
    deck.slides[0].body = f'<p class="question">{inline(question(chapter))}</p>'
    return deck.slides


class Deck:
    """The slides so far, the section they are in, and text that no slide has taken yet."""

    def __init__(self, pictures: Path) -> None:
        self.pictures = pictures
        self.slides: list[Slide] = []
        self.section = self.heading = ""
        self.waiting: list[str] = []
        self.last: list[str] = []  # the sentences of the last text, unless that has asked for a guess already
        self.stepped = False  # whether a panel has been shown step by step
        self.seen = False  # whether the last slide shows something that the next text is about

    def add(self, slide: Slide) -> None:
        slide.notes += self.waiting
        slide.over = "" if slide.kind in ("title", "section") else inline(self.heading)
        self.waiting, self.seen = [], slide.kind.startswith(("picture", "printed", "formula"))
        self.slides.append(slide)

    def end(self) -> None:
        if self.waiting and self.slides:
            self.slides[-1].notes += self.waiting
        self.waiting = []

    def drop_repeated(self) -> None:
        """Drop headings that the next slide has as its title, or that stand above themselves."""
        for slide in self.slides:
            slide.over = "" if unnumbered(slide.over) == slide.title else slide.over
        pairs = zip(self.slides, [*self.slides[1:], None], strict=True)
        kept = [slide for slide, after in pairs if not (
            slide.kind == "section" and not slide.body and after and unnumbered(slide.title) == after.title)]
        for slide, after in zip(self.slides, self.slides[1:], strict=False):
            if slide not in kept:
                after.notes = slide.notes + after.notes
        self.slides = kept

    def text(self, source: str) -> None:
        parts, predicted = blocks(source), False
        for place, block in enumerate(parts):
            if heading := re.match(r"(#{1,6}) (.*)", block):
                self.end()
                self.section = heading[2]
                if heading[2].startswith("Exercise:"):
                    self.add(Slide("exercise", inline(heading[2])))
                elif len(heading[1]) < 3:
                    self.heading = heading[2] if len(heading[1]) == 2 else ""
                    asked = questions(" ".join(parts[place + 1:]))
                    body = f'<p class="question">{inline(asked[0])}</p>' if asked else ""
                    self.add(Slide("section" if len(heading[1]) == 2 else "title", inline(heading[2]), body))
                    if len(heading[1]) == 1:  # what opens the chapter is said on its first slide
                        self.section = asked[0] if asked else self.section
                        self.slides[-1].notes += [part for part in parts[place + 1:] if not part.startswith("#")]
                        return
                continue
            if block.startswith("<details"):
                continue
            if block[0] not in "|$`":
                self.last = re.split(r"(?<=[.?!])\s+", " ".join(block.split()))
            if found := re.match(r"\*\*Predict[.,:]?\*\*[,.]?\s*(.*)", block, re.DOTALL):
                asked = cut(found[1])
                before = re.split(r"(?<=[.?!])\s+", " ".join(self.waiting[-1].split()))[-1] if self.waiting else ""
                if len(asked) < 60 and before[-1:] == "." and len(before) < 200:  # what the question is about
                    asked = f"{before} {asked}"
                self.add(Slide("guess", "Your guess", f"<p>{inline(asked)}</p>"))
                self.slides[-1].notes.append(block)
                predicted = True
            elif block.startswith("$$") and not self.in_exercise():
                self.formula(block)
            elif block.startswith("|") and not self.in_exercise() and small(block):
                self.add(Slide("table", self.lead(), as_html(block)))
            elif re.match(r"(?:[-*]|1\.) ", block) and not self.in_exercise():
                title = self.lead()
                for part in bullets(block):
                    self.add(Slide("list", title, as_html(part)))
                self.slides[-1].notes.append(block)
            elif self.in_exercise() and not self.slides[-1].body.count("<p"):
                self.slides[-1].body += f'<p class="facts">{inline(block)}</p>'
                self.slides[-1].notes.append(block)
            elif self.in_exercise() and self.slides[-1].body.count("<p") == 1 and block[0] not in "|$`":
                self.slides[-1].body += f"<p>{inline(cut(block))}</p>"
                self.slides[-1].notes.append(block)
            elif self.seen:  # what was seen, and why
                if self.slides[-1].open and (said := message(block)):
                    self.slides[-1].title = inline(said)
                self.slides[-1].notes.append(block)
                self.seen = False
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
            self.add(Slide("guess", "Your guess", f"<p>{inline(' '.join(asked))}</p>"))
            self.last = []

    def in_exercise(self) -> bool:
        return bool(self.slides) and self.slides[-1].kind == "exercise"

    def stub(self, source: str) -> None:
        """Put the first line of a stub on the slide of its exercise."""
        line = next((line for line in source.splitlines() if re.match(r"(def|class) ", line)), "")
        if self.in_exercise():
            self.slides[-1].body += f'<pre class="line">{html.escape(line)}</pre>'
            self.end()

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
        """Return the sentence that leads to what follows if a title can hold it, else the section's heading."""
        said = self.waiting[-1] if self.waiting else ""
        sentence = message(re.split(r"(?<=[.?!])\s+", " ".join(said.split()).rstrip(":"))[-1])
        return inline(sentence or unnumbered(self.heading if self.section.startswith("Exercise:") else self.section))

    def formula(self, block: str) -> None:
        """Make a slide of a formula: the sentence that leads to it is the title, or else the next one."""
        title = self.lead()
        apart = [part for part in re.split(r"(?:\\qquad\s*)+", block.strip().strip("$")) if part.strip()]
        body = as_html("\n\n".join(f"$${part.strip()}$$" for part in apart))
        letters = max(len(re.sub(r"<[^>]*>|\s", "", as_html(f"$${part.strip()}$$"))) for part in apart)
        size = 56 if letters < 30 else 40 if letters < 50 else 30
        self.add(Slide("formula", title, body, size=size, open=title == inline(unnumbered(self.section))))

    def title(self) -> str:
        """Return the question that the text before has asked, or the sentence that leads here, or the heading."""
        asked = questions(self.waiting[-1]) if self.waiting else []
        return inline(asked[-1]) if asked else self.lead()

    def picture(self, title: str, alt: str, png: str, code: str) -> None:
        image = base64.b64encode(kept_picture(base64.b64decode(png), self.pictures).read_bytes()).decode()
        source = f'src="data:image/webp;base64,{image}"'
        self.add(Slide("picture", title or self.title(), f'<img alt="{alt}" {source}>', code, open=not title))

    def panel(self, drawn: dict, code: str) -> None:
        """Make slides of a panel: one for each step of the first one that has steps, else the first frame."""
        steps = list(drawn["frames"].values())
        if self.stepped or len(drawn["controls"]) > 1 or len(steps) > STEPS:
            steps = [drawn["frames"][",".join(map(str, drawn["start"]))]]
        self.stepped |= len(steps) > 1
        title = self.title() if len(steps) > 1 else ""  # the question stays while the picture moves
        for frame in steps:
            if png := frame["src"].partition(",")[2]:
                self.picture(title, html.escape(frame["words"]), png, code)

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
        size, parts = pages(narrow(lines))
        for part in parts or [""]:
            lines = "".join(f"<span>{html.escape(line) or ' '}</span>" for line in part.split("\n"))
            body = f"<pre>{lines}</pre>" if part else ""
            self.add(Slide("printed" if part else "printed alone", title or self.title(), body, code, size=size,
                           open=not title))
