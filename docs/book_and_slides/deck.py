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
POINTING = re.compile(r"\b(?:next|this|above|below|first) (?:cell|picture|drawing|table)|\*\*Predict|^Now\b|:$")
STEPS = 12  # frames of a panel that become slides, one after the other
PICTURE = re.compile(r'<img[^>]*?alt="([^"]*)"[^>]*?src="data:image/png;base64,([^"]+)"|<figcaption>(.*?)</figcaption>',
                     re.DOTALL)


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
        elif cell.cell_type == "code" and not {"imports", "prediction", "check"} & set(tags(cell)):
            if "exercise" in tags(cell):
                stub = next(c.source for c in chapter.notebook.cells if c.get("id") == cell["id"])
                deck.stub(stub)
            elif not re.match(r"progress\(\)", cell.source.strip()):
                deck.outputs(cell)
    deck.end()
    deck.slides[0].body = f'<p class="question">{inline(question(chapter))}</p>'
    return deck.slides


class Deck:
    """The slides so far, the section they are in, and text that no slide has taken yet."""

    def __init__(self, pictures: Path) -> None:
        self.pictures = pictures
        self.slides: list[Slide] = []
        self.section = self.heading = ""
        self.waiting: list[str] = []
        self.stepped = False  # whether a panel has been shown step by step
        self.seen = False  # whether the last slide shows something that the next text is about

    def add(self, slide: Slide) -> None:
        slide.notes += self.waiting
        slide.over = "" if slide.kind in ("title", "section") else inline(self.heading)
        self.waiting, self.seen = [], slide.kind.startswith(("picture", "printed"))
        self.slides.append(slide)

    def end(self) -> None:
        if self.waiting and self.slides:
            self.slides[-1].notes += self.waiting
        self.waiting = []

    def text(self, source: str) -> None:
        parts = blocks(source)
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
                        self.slides[-1].notes += [part for part in parts[place + 1:] if not part.startswith("#")]
                        return
                continue
            if block.startswith("<details"):
                continue
            if found := re.match(r"\*\*Predict[.,:]?\*\*[,.]?\s*(.*)", block, re.DOTALL):
                self.add(Slide("guess", "Your guess", f"<p>{inline(cut(found[1]))}</p>"))
                self.slides[-1].notes.append(block)
            elif block.startswith("$$") and not self.in_exercise():
                self.formula(block)
            elif block.startswith("|") and not self.in_exercise() and small(block):
                self.add(Slide("table", inline(self.section), as_html(block)))
            elif re.match(r"(?:[-*]|1\.) ", block) and not self.in_exercise():
                for part in bullets(block):
                    self.add(Slide("list", inline(self.section), as_html(part)))
                self.slides[-1].notes.append(block)
            elif self.in_exercise() and not self.slides[-1].body.count("<p"):
                self.slides[-1].body += f'<p class="facts">{inline(block)}</p>'
                self.slides[-1].notes.append(block)
            elif self.in_exercise() and self.slides[-1].body.count("<p") == 1 and block[0] not in "|$`":
                self.slides[-1].body += f"<p>{inline(cut(block))}</p>"
                self.slides[-1].notes.append(block)
            elif self.seen:  # what was seen, and why
                first = re.split(r"(?<=[.?!])\s+", " ".join(block.split()))[0]
                if self.slides[-1].open and len(first) <= TITLE and not POINTING.search(first):
                    self.slides[-1].title = inline(first.rstrip("."))
                self.slides[-1].notes.append(block)
                self.seen = False
            else:
                self.waiting.append(block)

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
        for output in together(cell.get("outputs", [])):
            data = output.get("data", {})
            if output.get("name") == "stderr":
                continue
            if FRAMES in data:
                self.panel(data[FRAMES], cell.source)
            elif "<img" in data.get("text/html", ""):
                caption = ""
                for alt, png, said in PICTURE.findall(data["text/html"]):
                    if said:
                        caption = said
                    else:
                        self.picture(caption, alt, png, cell.source)
            elif "image/png" in data:
                self.picture("", "", data["image/png"], cell.source)
            elif said := output.get("text") or data.get("text/plain", ""):
                self.printed(re.sub(r"^.*\r(?!\n)", "", said, flags=re.MULTILINE), cell.source)

    def formula(self, block: str) -> None:
        """Make a slide of a formula: the sentence that leads to it is the title."""
        said = self.waiting[-1] if self.waiting else ""
        sentence = re.split(r"(?<=[.?!])\s+", " ".join(said.split()))[-1].rstrip(":.")
        title = sentence if 0 < len(sentence) <= TITLE else re.sub(r"^\d+ · ", "", self.section)
        apart = [part for part in re.split(r"(?:\\qquad\s*)+", block.strip().strip("$")) if part.strip()]
        body = as_html("\n\n".join(f"$${part.strip()}$$" for part in apart))
        letters = max(len(re.sub(r"<[^>]*>|\s", "", as_html(f"$${part.strip()}$$"))) for part in apart)
        self.add(Slide("formula", inline(title), body, size=56 if letters < 30 else 40 if letters < 50 else 30))

    def title(self) -> str:
        """Return the question that the text before has asked, or else the section's heading."""
        asked = questions(self.waiting[-1]) if self.waiting else []
        return inline(asked[-1] if asked else re.sub(r"^\d+ · ", "", self.section))

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
        for frame in steps:
            if png := frame["src"].partition(",")[2]:
                self.picture("", html.escape(frame["words"]), png, code)

    def printed(self, said: str, code: str) -> None:
        """Make slides of printed text; what `compare` measured is the title."""
        title, lines = "", unguessed(said).rstrip().splitlines()
        for place, line in enumerate(lines):
            if found := re.match(r"(measured|by formula|exactly) (.*)", line):
                title = html.escape(f"{found[1].capitalize()}: {found[2]}")
                del lines[place]
                break
        size, parts = pages(narrow(lines))
        for part in parts or [""]:
            body = f"<pre>{html.escape(part)}</pre>" if part else ""
            self.add(Slide("printed" if part else "printed alone", title or self.title(), body, code, size=size,
                           open=not title))
