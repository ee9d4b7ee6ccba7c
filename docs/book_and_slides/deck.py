"""Cuts a chapter that has run into slides: one message each, its title, and below it one thing.

A title is never torn from the text. It is the title that the picture has, the question of a guess, a sentence in bold,
or else the section's heading. What a speaker shows is kept: pictures, guesses and then their answers, formulas, tables
and lists with the sentences that lead to them, what an exercise asks for, the summary's points. Of the other text a
slide has what a room needs: how the chapter and each section begin, each sentence that defines a term (the glossary's
rule), a question that the next picture answers. The rest becomes notes, those of the next slide from where the text
points to a cell. What follows the summary stays in the book. What is too long for one slide goes on on the next:
look/slides.js. What a speaker needs beside the slides is added last: talk.py.

Where this cut fails, the chapter's author writes a cell's slides in its metadata (CONTRIBUTING.md).
"""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

from chapter_page import IN_A_NOTEBOOK, kept_picture, together, unguessed
from columns import as_columns, big
from drawn import drawings
from nbformat import NotebookNode
from PIL import Image
from reference_pages import defined
from slide import ANSWER, Slide
from slide_pictures import BUILD, LOWER, LOWER_DARK
from talk import YOURS, alike, example, options, promised, ready, replies
from wording import (
    CELLS,
    LEAD,
    SEEN,
    SHOWN,
    aloud,
    apart,
    as_html,
    beside,
    blocks,
    inline,
    lead,
    length,
    narrow,
    seen,
    sentences,
)

from course_lib.plots.sliders import FRAMES
from exercises_tests.tools.chapters import Chapter, tags
from exercises_tests.tools.course_map import question

SUMMARY = "What we learned"
EXERCISE = "### Exercise: "
WORDS = 60  # that a slide of sentences has, if they are more than one paragraph's
FEW = 28  # words that have no slide of their own where they fit on the one before or after
FULL = 100  # words that such a slide has with them
FEW_OF_ITS_OWN = 13  # words of a guess that needs the table before it
REASON = 140  # letters of an answer's reason, where the author of the slides gives none
STEPS = 12  # frames of a panel that a slide shows, one after the other
RULE = re.compile(r"\*\*([^*]{20,}[.!])\*\*")  # a sentence in bold
PAIR = re.compile(r"\b(\d)(\d) for \1 and \2\b")  # what a guess's comment says where two choices are one number
LINES, WIDE = 10, 104  # lines of what was printed, and letters of one, on a slide: what is more or wider is folded
ROWS = 7  # of tables that have room under an answer, with their heads
NOTEBOOK = "The whole task stands in your notebook."
HINT = re.compile(r"<details>\s*<summary>.*?</summary>(.*?)</details>", re.DOTALL)
PREDICT = re.compile(r"\*\*(?:Predict|Choose)[.,:]?\*\*[,.]?\s*(.*)", re.DOTALL)
# What of an output an author keeps: its title, what, and of which cell, if that stands before.
OUTPUT = re.compile(r"(?:## (.*)\n+)?\[(printed|picture)(?: of (\w+))?\]")
ASKED = re.compile(r"\*\*([^*]+\?)\*\*\s*")  # a question in bold
OWN = re.compile(r"^> ?(.*)$", re.MULTILINE)  # what the speaker says
LONG = "[long]"
TITLES = re.compile(r"#{1,6} (.*)(?:\n+#{1,6} (.*))?")
DRAWN = re.compile(r"^\[drawn (\w+)\]$", re.MULTILINE)  # a picture that only slides have
JOINED = ("said", "formula", "text", "printed", "section", "part")  # the kinds below which a few words can stand
ROUGH = re.compile(r"\d+\.\d+(?![\d.]|,\d)|\b1(?= times)")  # a number of more digits than anybody says
BOLD = re.compile(r"<strong>([^<]{3,40}?)[.:,]?</strong>")
HEADING = re.compile(r"(#{1,6}) (.*)")
PICTURE = re.compile(r'<img[^>]*?alt="([^"]*)"[^>]*?src="data:image/png;base64,([^"]+)"|<figcaption>(.*?)</figcaption>',
                     re.DOTALL)
NIGHT = re.compile(r'<img class="[^"]*course-dark" src="data:image/png;base64,([^"]+)"')  # a picture's twin


def authored(cell: NotebookNode) -> str | None:
    """Return what a chapter's author wants to stand on the slides of a cell; None where they are cut from the cell."""
    return cell.metadata.get("course", {}).get("slide")


def drawn(output: NotebookNode) -> bool:
    """Return whether an output is a picture or a panel of pictures."""
    data = output.get("data", {})
    return FRAMES in data or "<img" in data.get("text/html", "") or "image/png" in data


def written(text: str) -> list[str]:
    """Return the slides of what an author wrote, which a line of three hyphens parts."""
    return [part.strip() for part in re.split(r"^---$", text, flags=re.MULTILINE) if part.strip()]


def as_slides(chapter: Chapter, notebook: NotebookNode, pictures: Path) -> list[Slide]:
    """Return the slides of a chapter that has run; `pictures` is a folder in which small pictures are kept."""
    deck = Deck(pictures, question(chapter), {cell.get("id"): cell for cell in notebook.cells}, chapter.name)
    deck.replies = replies(notebook)
    later = {kept[3] for cell in notebook.cells for part in written(authored(cell) or "")
             if (kept := OUTPUT.fullmatch(part))} - {None}
    stubs = {cell.get("id"): cell.source for cell in chapter.notebook.cells if "exercise" in tags(cell)}
    core = {exercise.id for exercise in chapter.exercises if exercise.level == "core"}
    for before, cell in zip([{}, *notebook.cells], notebook.cells, strict=False):
        said = authored(cell)
        if cell.cell_type == "markdown":
            deck.hint(cell.source)
            deck.behind(cell.source)
        if f"## {SUMMARY}\n" in cell.source and said and said.startswith("..."):
            deck.text(cell.source)
            deck.slides[-1].body += as_html(said.removeprefix("...").strip())
        elif said == "" and before.get("id") in later:  # what is said of its picture
            deck.held[before["id"]] = blocks(cell.source)
        elif cell.cell_type == "markdown" and said is None:
            deck.text(cell.source)
        elif said is not None:
            text, exercise, task = cell.source.partition(EXERCISE) if cell.cell_type == "markdown" else ("", "", "")
            deck.written(said, text, cell)
            if exercise:  # whoever says it in fewer words leaves out a promise
                deck.text(exercise + task)
        elif "prediction" in tags(cell):
            deck.guess(cell.source)
        elif cell.get("id") in stubs:
            task = deck.stub(stubs[cell["id"]])
            task.answer = cell.source if cell["id"] in core and cell.source != stubs[cell["id"]] else ""
        elif cell.cell_type == "code" and not {"imports", "check"} & set(tags(cell)):
            deck.outputs(cell)
        if deck.heading == SUMMARY:
            break
    deck.slides[-1].notes += deck.waiting
    slides = ready(deck.slides, chapter)
    told_apart(slides)
    return slides


def stepwise(body: str, steps: int) -> str:
    """Return paragraphs that come with the steps of the picture beside them, if there are as many as steps."""
    if steps < 2 or len(re.findall("<p>", body)) != steps or re.search("<(?:table|ul|ol|pre)", body):
        return body
    places = iter(range(-1, steps))
    return re.sub("<p>", lambda _: f'<p class="fragment" data-fragment-index="{at}">' if (at := next(places)) >= 0
                  else "<p>", body)


def told_apart(slides: list[Slide]) -> None:
    """Say in titles that several slides have what each is about: the words in bold on it, else which one it is."""
    titles: dict[str, list[Slide]] = {}
    for slide in slides:
        if slide.kind in ("said", "text", "formula", "printed", "picture"):
            titles.setdefault(slide.title, []).append(slide)
    for title, same in titles.items():
        used: set[str] = set()
        for place, slide in enumerate(same if len(same) > 1 else [], 1):
            bold = next((words for words in BOLD.findall(slide.body) if words.lower() not in used),
                        f"{place}/{len(same)}")
            used.add(bold.lower())
            slide.title = f'{title} <span class="more">· {bold}</span>'


class Deck:
    """The slides so far, and where in the text the next one is."""

    def __init__(self, pictures: Path, asked: str, cells: dict[str, NotebookNode] | None = None,
                 chapter: str = "") -> None:
        self.pictures, self.cells, self.chapter = pictures, cells or {}, chapter
        self.held: dict[str, list[str]] = {}  # what is said of pictures that come later, by their cells
        self.slides: list[Slide] = []
        self.heading = self.question = inline(asked)  # the title of what has none; the last question
        self.opening = False  # whether the text is still above the chapter's question
        self.terms: set[str] = set()  # that a slide has defined
        self.owed: list[tuple[str, list[str]]] = []  # sentences that stand before the next slide, and their notes
        self.before = self.asking = ""  # the paragraph before, and the last one that asks something
        self.since = ""  # what was said of no slide since the last one
        self.asked = False  # whether the guess that comes has its slide already
        self.posed = ""  # a question that the next slide answers
        self.replies: dict[str, dict[str, str]] = {}  # to wrong guesses, by the name of the guess
        self.choices: dict[str, str] = {}  # of the last guess, until it is answered
        self.pairs = False  # whether its answer can be two of them, written as one number
        self.bare: Slide | None = None  # an answer without its reason
        self.whole: Slide | None = None  # an exercise or the summary: all of its text is on the slide
        self.explained = True  # whether the text says already what was printed
        self.waiting: list[str] = []  # what is said of the next slide
        self.drawn: list[Slide] = []  # pictures since the last text

    def add(self, slide: Slide) -> Slide:
        self.pay(slide)
        slide.notes += self.waiting
        self.waiting, self.before, self.since, self.whole, self.explained = [], "", "", None, True
        self.bare = self.bare if slide.kind in ("picture", "printed") else None
        if slide.kind in ("section", "part"):
            self.posed = ""
        elif self.posed and slide.kind not in ("guess", "exercise"):
            self.answers(slide)
        self.slides.append(slide)
        self.opening = False
        return slide

    def answers(self, slide: Slide) -> None:
        """Put what was asked on the slide that answers it: above what it says, or as its title if that says nothing."""
        if slide.title == self.heading:
            slide.over, slide.title = ANSWER, self.posed
        elif not slide.over:
            slide.over = self.posed
        self.posed = ""

    def pay(self, coming: Slide | None = None) -> None:
        """Put the sentences that a slide needs to be understood before it, as few slides as they need."""
        owed, self.owed, first, space = self.owed, [], len(self.slides), 0
        if coming and (coming.kind == "guess" or coming.kind in ("formula", "text") and coming.title == self.heading):
            space = WORDS if coming.kind == "guess" else FULL
        for place, (said, notes) in enumerate(owed):
            last, words = self.slides[-1] if self.slides else None, len(said.split())
            if last and len(self.slides) > first:
                room = WORDS if words > FEW else FULL
            else:
                joins = words <= FEW and last and last.kind in JOINED
                begins = joins and last.kind in ("section", "part")
                room = WORDS if begins else FULL * (last.title == self.heading) if joins else 0
            if last and length(last.body) + words <= room:
                last.body += as_html(said)
                last.notes += notes
            elif words <= FEW and place == len(owed) - 1 and coming and length(coming.body) + words <= space:
                coming.body = as_html(said) + coming.body
                coming.notes += notes
            else:
                self.slides.append(Slide("said", self.heading, as_html(said), notes=list(notes)))

    # Text

    def text(self, source: str) -> None:
        self.before = self.since = ""
        parts = blocks(source)
        for block, after in zip(parts, [*parts[1:], ""], strict=True):
            if heading := HEADING.match(block):
                if self.heading == SUMMARY:
                    return
                self.headed(len(heading[1]), heading[2])
            elif block.startswith("<details"):
                continue
            elif self.whole and self.whole.kind == "exercise" and self.whole.body:
                self.whole.notes.append(block)  # below the line that says how long it takes
            elif self.whole and self.whole.kind == "summary" and block.startswith("- "):
                points = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
                self.whole.body += as_html("\n".join(f"- {sentences(point)[0]}" for point in points))
                self.whole.notes.append(block)
            elif self.whole:
                self.whole.body += as_html(block)
            elif asked := PREDICT.match(block):
                self.ask(asked[1])
            elif SHOWN.match(block):
                before = lead(self.before) if self.before else ""
                self.stands(f"{before} {block}")
                kind = "formula" if block.startswith("$$") else "text"
                self.add(Slide(kind, self.heading, as_html(f"{before}\n\n{block}")))
            else:
                self.said(block, bool(PREDICT.match(after) or SHOWN.match(after)))

    def written(self, text: str, source: str, cell: NotebookNode) -> None:
        """Make the slides that an author wrote instead of this cell's: its headings keep theirs, its text is spoken."""
        self.before = self.since = ""
        parts = written(text)
        told = [OWN.findall(part) for part in parts]
        long = [LONG in part for part in parts]
        parts = [OWN.sub("", part).replace(LONG, "").strip() for part in parts]
        spoken: dict[int, list[str]] = {}  # by the part that it is about
        place, end = 0, len(parts)
        for block in blocks(source):
            if heading := HEADING.match(block):
                begun = next((at for at, part in enumerate(parts) if part.startswith(block)), None)
                if begun is None:
                    self.spoken_before(spoken.pop(place, []))
                    self.headed(len(heading[1]), heading[2])
                place = place if begun is None else begun
            elif not block.startswith("<details"):
                end = next((at for at in range(place + 1, len(parts)) if HEADING.match(parts[at])
                            and HEADING.match(parts[at])[0] in blocks(source)), len(parts))
                place = max(range(place, end), key=lambda at: alike(block, parts[at]), default=place)
                spoken.setdefault(place, []).append(block)
                self.terms |= {term for term, _ in defined(block)}
                asked = PREDICT.match(block)
                self.asking = asked[1] if asked else block if "?" in block else self.asking
        if self.bare and spoken and not any(part.startswith("...") or "\n..." in part for part in parts):
            self.bare.body += as_html(seen(next(iter(spoken.values()))[0], REASON))
        for place, part in enumerate(parts):
            if kept := OUTPUT.fullmatch(part):
                first = len(self.slides)
                of = self.cells.get(kept[3], cell)
                self.outputs(NotebookNode(source=of.source, metadata=of.metadata, outputs=[
                    one for one in of.get("outputs", []) if drawn(one) == (kept[2] == "picture")]))
                for slide in self.slides[first:first + bool(kept[1])]:
                    slide.over = slide.title if slide.over == ANSWER else slide.over
                    slide.title = inline(kept[1])
                    slide.notes += self.held.get(kept[3], [])
                self.marked(self.slides[-1], told[place], long[place])
                continue
            self.stands(part)
            shown = self.bare if part.startswith("...") else None
            self.part(part, source)
            self.slides[-1].notes += spoken.get(place, [])
            self.marked(shown or self.slides[-1], told[place], long[place])
        if not parts:
            self.spoken_before(spoken.get(0, []))
        self.opening, self.explained = False, True

    def marked(self, slide: Slide, told: list[str], long: bool) -> None:
        """Give a slide what its author lets the speaker say, and note whether the short path leaves it out."""
        slide.own = " ".join(told) or slide.own
        slide.long = slide.long or long

    def spoken_before(self, spoken: list[str]) -> None:
        """Put what has no slide of its own into the notes of the slide before, or after an exercise of the next."""
        last = self.slides[-1] if self.slides else None
        (last.notes if last and last.kind != "exercise" else self.waiting).extend(spoken)

    def part(self, part: str, source: str) -> None:
        """Make one slide that an author wrote, or put it below what the slide before shows."""
        if asked := DRAWN.search(part):
            self.sketched(part.replace(asked[0], "").strip(), asked[1], source)
            return
        titled, whole = HEADING.match(part), self.whole
        title, body = (titled[2], part[titled.end():].strip()) if titled else (self.heading, part)
        late = ""
        if titled and (second := HEADING.match(body)):  # it comes with the last step of a picture
            late, body = inline(second[2]), body[second.end():].strip()
        if titled and titled[0] in blocks(source):
            if asked := len(titled[1]) == 1 and ASKED.match(body):  # shorter than the chapter's own
                self.question, body = inline(asked[1]), body[asked.end():]
            self.headed(len(titled[1]), title)
            self.slides[-1].body += as_html(body.removeprefix("...").strip())
            return
        if body.startswith("...") and (whole or self.slides[-1].kind != "exercise"):  # no answer below an exercise
            shown = self.bare or self.slides[-1]
            shown.body += as_html(body.removeprefix("...").strip())
            self.bare = None
            if titled:
                shown.over = shown.title if shown.over == ANSWER else shown.over
                shown.title, shown.late = inline(title), late
        elif asked := PREDICT.match(body := body.removeprefix("...").strip()):
            self.ask(asked[1])
        elif rule := RULE.fullmatch(body):
            self.add(Slide("rule", inline(rule[1])))
        elif titled and title.endswith("?"):
            self.posed = self.add(Slide("guess", inline(title), as_html(body), over="A question")).title
        else:
            shown = [block for block in blocks(body) if SHOWN.match(block)]
            kind = "said" if not shown else "formula" if all(one.startswith("$$") for one in shown) else "text"
            self.add(Slide(kind, inline(title) if titled else title, as_html(body)))
        self.whole = whole  # of an exercise, until its stub comes

    def sketched(self, part: str, name: str, source: str) -> None:
        """Make one slide that an author wrote, with a picture of its own beside its words, or alone under its title."""
        alone = TITLES.fullmatch(part)
        steps = [self.film(step) for step in drawings(self.chapter, name)]
        if alone and part not in blocks(source):
            first, *others = steps
            late = inline(alone[2]) if alone[2] and others else ""
            self.add(Slide("picture", inline(alone[1]), first, late=late, steps=others))
            return
        shown = self.bare if part.startswith("...") and self.bare else None
        if shown:  # what was printed beside the number, which the picture shows
            shown.body = ""
        self.part(part, source)
        slide = shown or self.slides[-1]
        slide.beside, slide.body = steps, stepwise(slide.body, len(steps))

    def headed(self, level: int, heading: str) -> None:
        if level == 1:
            self.heading = inline(re.sub(r"^\d+ · ", "", heading))
            self.add(Slide("title", inline(heading), f'<p class="question">{self.question}</p>'))
            self.opening = True
        elif heading.startswith("Exercise:"):
            self.whole = self.add(Slide("exercise", inline(heading)))
        else:
            self.pay()
            self.heading = inline(re.sub(r"^\d+ · ", "", heading))
            added = self.add(Slide("section" if level < 3 else "part", inline(heading)))
            self.whole = added if heading == SUMMARY else None
            added.kind = "summary" if self.whole else added.kind
            self.explained = False  # how it begins stands below its heading

    def said(self, block: str, leads: bool) -> None:
        """Put a paragraph into the notes, except what says what was seen, how a section begins, what a term means."""
        last, shown, block = self.slides[-1], self.bare or self.slides[-1], " ".join(block.split())
        told = self.explained and not self.bare or leads and last.kind in ("section", "part")
        said, self.bare = "" if told else seen(block), None
        shown.body += as_html(said)
        self.opening = self.opening and not ASKED.fullmatch(block)
        if last.kind == "formula" and not self.before and block[0].islower():
            last.body += as_html(sentences(block)[0])
        if rules := RULE.findall(block):
            title = inline(" ".join(rule[0].upper() + rule[1:] for rule in rules))
            if last.kind == "rule" and len(last.notes) == 1:  # one paragraph after the other has one
                last.title += f" {title}"
                last.notes.append(block)
            else:
                why = sentences(RULE.split(block)[0].strip())  # what the bold words may point to
                told = lead(" ".join(one for one in why if one.endswith(".")), SEEN)
                self.add(Slide("rule", title, as_html(told))).notes.append(block)
        else:
            self.note(block, said)
        self.before, self.explained = block[len(said):], True  # no sentence stands on two slides
        self.since = f"{self.since} {self.before}".strip()
        self.asking = block if "?" in block else self.asking

    def note(self, block: str, said: str) -> None:
        """Put a paragraph into the notes of the slide that it is about; what a room needs of it is owed as a slide."""
        needed, every = seen(block, LEAD) if self.opening else "", sentences(block)
        for term, sentence in defined(block):
            if term not in self.terms and sentence not in said + needed:
                more = sentences(beside(sentence, block))
                needed += "".join(f" {one}" for one in more if one not in said + needed)
            self.terms.add(term)
        points = next((place for place, one in enumerate(every) if CELLS.search(one)), len(every))
        if self.waiting or self.slides[-1].kind == "exercise":
            points = 0
        notes = [" ".join(every[:points])] if points else []
        if needed.strip():
            self.owed.append((needed.strip(), notes))
        else:
            (self.owed[-1][1] if self.owed else self.slides[-1].notes).extend(notes)
        self.waiting += [" ".join(every[points:])] if every[points:] else []

    def stands(self, text: str) -> None:
        """Note that a slide has this text: what it says is no longer owed before that slide."""
        text = " ".join(text.split())
        self.terms |= {term for term, _ in defined(text)}
        for said, notes in [one for one in self.owed if one[0] in text]:
            self.owed.remove((said, notes))
            (self.owed[-1][1] if self.owed else self.slides[-1].notes).extend(notes)

    # Guesses

    def guess(self, source: str) -> None:
        """Make the slide of a guess, unless the text has said that it is one, with its choices and what to reply."""
        if not self.asked:
            self.before = ""
            self.ask(self.asking)
        self.asked = False
        slide = next(one for one in reversed(self.slides) if one.kind == "guess")
        slide.choices = self.choices = options(source)
        said = self.replies.get(source.partition("=")[0].strip(), {})
        self.pairs = bool(PAIR.search(source))
        slide.replies = {apart(guess) if self.pairs else guess: why for guess, why in said.items()}

    def ask(self, asked: str) -> None:
        """Make the slide of a guess, with what was said directly before it, if there is room."""
        if before := " ".join(one for one in sentences(lead(self.before, LEAD)) if one and not CELLS.search(one)):
            self.stands(before)
            self.owed.append((before, []))
        slide = self.put(YOURS, asked)
        self.question, self.posed, self.asked = slide.title, "", True
        slide.notes.append(asked)
        before = self.slides[-2]  # what the guess needs, if that says nothing or little of its own
        listed = re.search(r"<table|<pre", before.body) and len(slide.body.split()) < FEW_OF_ITS_OWN
        if before.kind in ("section", "part", "said", "formula", "text", "guess") and (listed or not slide.body):
            slide.body = before.body + slide.body

    def put(self, over: str, asked: str) -> Slide:
        """Make a slide that asks: the last question is its title, and what leads to it in its own text below."""
        said = sentences(asked)
        places = [place for place, one in enumerate(said) if one.rstrip("*_").endswith("?")]
        question = inline(said.pop(places[-1])) if places else "What do you expect?"
        shown = " ".join(one for one in said if not CELLS.search(one))
        self.stands(shown)
        return self.add(Slide("guess", question, as_html(shown), over=over))

    # Code and what it puts out

    def behind(self, source: str) -> None:
        """Keep what the text says first behind pictures, for whoever speaks of them."""
        text = re.split(r"^#+ |<details", source, flags=re.MULTILINE)[0]
        paragraphs = [one.removeprefix("- ") for one in blocks(text) if not re.match(r"\$\$|\||```|\d+\. ", one)]
        first = sentences(paragraphs[0].partition("\n- ")[0])[:2] if paragraphs and not PREDICT.match(text) else []
        said = " ".join(one for one in first if not CELLS.search(one) and not one.endswith(":"))
        while said and self.drawn:
            self.drawn.pop().behind = said
        self.drawn = []

    def stub(self, source: str) -> Slide:
        """Show of an exercise how long it takes, its signature, what it promises and an example; the rest is spoken."""
        signature = re.search(r"^(?:def|class) (\w+).*?:$", source, re.MULTILINE | re.DOTALL)
        name = signature[1]
        slide = self.whole or self.add(Slide("exercise", inline(f"Exercise: `{name}`"), notes=[self.asking]))
        said = "\n\n".join(filter(None, [promised(source), example(slide.notes)]))
        slide.body += (f'<pre class="signature">{html.escape(signature[0])}</pre>{as_html(said)}'
                       f'<p class="whole">{NOTEBOOK}</p>')
        slide.exercise, self.whole = name, None
        return slide

    def hint(self, source: str) -> None:
        """Keep the first hint of the exercise before, for whoever speaks."""
        if self.slides and (slide := self.slides[-1]).exercise and not slide.hint and (hint := HINT.search(source)):
            slide.hint, slide.idea = " ".join(hint[1].split()), as_html(hint[1].strip().partition("\n\n")[0])

    def outputs(self, cell: NotebookNode) -> None:
        """Make slides of what a cell put out."""
        said, found = "", together(cell.get("outputs", []))
        asks = any(one.endswith("?") and "guess" not in one for one in sentences(self.before)[-3:])
        if found and asks and not any("no guess" in output.get("text", "") for output in found):
            self.posed = self.put("A question", lead(self.since)).title
        code = IN_A_NOTEBOOK.sub("", cell.source)
        for output in found:
            data = output.get("data", {})
            if output.get("name") == "stderr":
                continue
            if not drawn(output):
                written = output.get("text") or data.get("text/plain", "")
                said += re.sub(r"^.*\r(?!\n)", "", written, flags=re.MULTILINE).rstrip("\n") + "\n" * bool(written)
                continue
            self.printed(said, code)
            said, title = "", ""
            if FRAMES in data:
                self.panel(data[FRAMES], code)
            page = data.get("text/html", "") if FRAMES not in data else ""
            night = iter(NIGHT.findall(page))
            for alt, png, caption in PICTURE.findall(page):
                title = caption or title
                if png:
                    dark = data.get(LOWER_DARK, next(night, ""))
                    steps = [(alt, *images) for images in data.get(BUILD, [])]
                    self.picture(title, [*steps, (alt, data.get(LOWER, png), dark)], code)
                    if steps:
                        self.slides[-1].built = cell.metadata["course"]["build"]["say"]
        self.printed(said, code)

    def picture(self, title: str, drawn: list[tuple[str, str, str]], code: str) -> None:
        """Make a slide of a picture, or of the steps of one: words, the image, and its twin on dark paper if any."""
        first, *steps = [self.images(*one) for one in drawn]
        self.drawn.append(self.add(Slide("picture", title or self.heading, first, code, steps=steps)))

    def images(self, alt: str, day: str, night: str) -> str:
        """Return an image and its twin on dark paper, if there is one, as HTML."""
        return self.image(alt, day, "day" * bool(night)) + (night and self.image("", night, "night"))

    def film(self, frames: list[tuple[str, str, str]]) -> str:
        """Return a step as HTML: an image, or several that are played when the step comes."""
        shown = [self.images(*one) for one in frames]
        return shown[0] if len(shown) == 1 else "".join(f'<span class="frame">{one}</span>' for one in shown)

    def image(self, alt: str, png: str, seen: str) -> str:
        path = kept_picture(base64.b64decode(png), self.pictures)
        wide, high = Image.open(path).size
        return (f'<img alt="{alt}" class="{seen}" width="{wide}" height="{high}" '
                f'src="data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}">')

    def panel(self, drawn: dict, code: str) -> None:
        """Make a slide of a panel: all its steps in turn if they are few, else the frame that it begins with."""
        frames = list(drawn["frames"].values())
        if len(drawn["controls"]) > 1 or len(frames) > STEPS:
            frames = [drawn["frames"][",".join(map(str, drawn["start"]))]]
        images = [(html.escape(frame["words"]), *(frame.get(kind, "").partition(",")[2] for kind in ("src", "dark")))
                  for frame in frames if frame["src"]]
        if images:
            self.picture("", images, code)

    def printed(self, said: str, code: str) -> None:
        """Make a slide of printed text, if there is any; what `compare` found is the title, under what was asked."""
        if not said.strip():
            return
        slide = Slide("printed", self.heading, code=code)
        if known := re.search(r"^no guess +(.*)\n?", said, re.MULTILINE):
            said = said.replace(known[0], "", 1)
            number = ROUGH.sub(aloud, re.sub(r"^([^\d:]*\w) (?=-?[\d.])", r"\1: ", known[1]))
            number = re.sub(r"(?<=: )\d+$", lambda found: self.choices.get(found[0], found[0]), number)
            number = apart(number) if self.pairs else number
            self.choices, self.pairs = {}, False
            slide.kind, slide.title, slide.over = "answer", html.escape(number[0].upper() + number[1:]), self.question
            self.question = self.heading  # what else is compared answers no guess
        lines = narrow(unguessed(said).rstrip().splitlines())
        spans = "".join(f"<span>{html.escape(line) or ' '}</span>" for line in lines)
        slide.body = f'<pre class="lines">{spans}</pre>' if lines else ""
        pieces = lines[0].split(", ") if known and len(lines) == 1 else lines
        if shaped := as_columns(pieces) if 1 < len(pieces) <= LINES else "" if known else big("".join(lines)):
            slide.body = shaped
        if (known and shaped.count("<tr>") > ROWS if shaped
                else len(lines) > LINES or len(lines) > 2 and max(map(len, lines)) > WIDE):
            slide.body = f'<details class="output"><summary>output</summary>{slide.body}</details>'
        self.add(slide)
        self.bare = slide if known else None
        self.explained = False
