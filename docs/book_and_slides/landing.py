"""Writes the first page of the book: for whom, the map of the chapters, and how to begin.

The map is drawn from the chapters: an arrow leads from each chapter to those that say, in their first text, that they
need it.
"""

from __future__ import annotations

import html
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

from chapter_page import Book
from nbformat import NotebookNode

from exercises_tests.tools.chapters import Chapter
from exercises_tests.tools.course_map import minutes, needs, number, question, reading

sys.path.insert(0, str(Path(__file__).parents[1]))
from timetable import whole  # noqa: E402

BOX, HIGH, GAP, ROW = 94, 82, 30, 104  # of the map, in pixels; six columns are as wide as a page of a small screen
LARGER = 1.15  # the most by which the map grows with its place: with few chapters, boxes stay boxes
SHOWN = 3  # the chapter whose first picture with a slider stands on the first page
SAYS = ("Move the slider: four ranks pass quarters of their tensors round a ring. After three steps each sum is "
        "complete on one rank, after six steps on all of them.")
OFFERS = ("Wrong answers get a reason.",
          "The function that you write is run and measured, and where it is wrong you read what it did.")
REFUSED = ("ring_all_reduce", "On 4 ranks with 1,024 elements rank 0 sent 12,288 bytes; a ring sends 6,144. "
           "You are passing the whole tensor on: pass one chunk")
"""An exercise of that chapter, and what its check says of a wrong answer."""
SHORTER = "Each of these is a way through a part of the course, with all that its last chapter needs."
READ = ("These pages hold the whole course, its answers folded: guess before you unfold one. The numbers and pictures "
        "after an exercise come from the course's own answer.")
WRITE = ('To write your own answers and have them checked, {} and type <code class="literal">make lab</code> in its '
         "folder: it sets up Python, and opens the notebooks in JupyterLab.")
LETTERS = 12  # of a line in a box
LANE, PORT, HEAD = 4, 13, 7  # of the map, in pixels: between lines, between their ends at a box, and of an arrowhead
COLOURS = 6  # of lines and cards
TRACKS = {"Half a day": (0, 3), "Data parallel and FSDP": 7, "Only pipelines": 9, "Only serving": 8, "The network": 10}
"""Chapters to read in a row, or the last one, with all that it needs."""


def lines_of(chapters: list[Chapter]) -> dict[int, list[int]]:
    """Return the chapters from which a line leads to each: those it needs, less what these need themselves."""
    known = {number(chapter): [other for other in needs(chapter)] for chapter in chapters}
    reached: dict[int, set[int]] = {}
    for place in sorted(known):
        known[place] = [other for other in known[place] if other in known and other < place]
        reached[place] = set(known[place]).union(*(reached[other] for other in known[place]))
    return {place: [other for other in others if not any(other in reached[third] for third in others)]
            for place, others in known.items()}


def columns(chapters: list[Chapter]) -> dict[int, int]:
    """Return the column of each chapter: right of all that it needs, and as near as can be to what builds on it."""
    lines = lines_of(chapters)
    placed: dict[int, int] = {}
    for place in sorted(lines):  # a chapter needs earlier ones only
        placed[place] = max([placed[other] + 1 for other in lines[place]], default=0)
    for place in sorted(lines, reverse=True):  # or long lines would run behind the boxes between
        placed[place] = min([placed[other] - 1 for other, needed in lines.items() if place in needed],
                            default=placed[place])
    return placed


def chapter_map(book: Book) -> str:
    """Return the map as a drawing whose boxes are links."""
    placed, rows, spots = columns(book.chapters), {}, {}
    for chapter in book.chapters:
        column = placed[number(chapter)]
        row = rows.setdefault(column, 0)
        rows[column] += 1
        spots[number(chapter)] = (column * (BOX + GAP), row)
    tallest = max(rows.values(), default=1)
    for place, (x, row) in spots.items():  # each column stands in the middle
        spots[place] = (x, (row + (tallest - rows[placed[place]]) / 2) * ROW)
    needed, lines, boxes = lines_of(book.chapters), [], []
    drawn = Lines(spots, needed)
    for chapter in book.chapters:
        place = number(chapter)
        x, y = spots[place]
        others = sorted(needed[place], key=lambda other: (spots[other][1], other))
        for port, other in enumerate(others):
            lines.append(drawn.line(other, place, (port - (len(others) - 1) / 2) * PORT))
        titles = "".join(
            f'<text x="{x + 9:g}" y="{y + 19 + 16 * line:g}" class="name">{html.escape(words)}</text>'
            for line, words in enumerate(wrap(f"{place} · {chapter.title}", LETTERS, max_lines=3)))
        boxes.append(
            f'<a href="{chapter.name}.html"><rect x="{x:g}" y="{y:g}" width="{BOX}" height="{HIGH}" rx="6"/>'
            f'<rect class="edge from-{place % COLOURS}" x="{x:g}" y="{y:g}" width="5" height="{HIGH}" rx="2"/>'
            f'{titles}<text x="{x + 9:g}" y="{y + 72:g}">{reading(chapter) + minutes(chapter)} min</text></a>')
    wide = max((x for x, _ in spots.values()), default=0) + BOX
    names = ", ".join(f"{number(chapter)} needs {' and '.join(map(str, needs(chapter))) or 'nothing'}"
                      for chapter in book.chapters)
    high = (tallest - 1) * ROW + HIGH
    return (f'<figure class="map"><svg viewBox="-2 -10 {wide + 4:g} {high + 20:g}" style="min-width: {wide + 4:g}px; '
            f'max-width: {LARGER * (wide + 4):g}px" '
            f'role="group" aria-label="Map of the chapters: {names}"><g class="needs">{"".join(lines)}</g>'
            f'{"".join(boxes)}</svg></figure>')


def chapter_list(book: Book) -> str:
    """Return the chapters as a list, which a phone shows in place of the map."""
    rows = []
    for chapter in book.chapters:
        others = lines_of(book.chapters)[number(chapter)]
        after = f", after {' and '.join(map(str, others))}" if others else ""
        rows.append(f'<li class="from-{number(chapter) % COLOURS}"><a href="{chapter.name}.html">'
                    f"{number(chapter)} · {html.escape(chapter.title)}</a> "
                    f"<small>{reading(chapter) + minutes(chapter)} min{after}</small></li>")
    return f'<ul class="in-order">{"".join(rows)}</ul>'


@dataclass
class Lines:
    """The lines between boxes: each chapter's have a colour and a lane, and none runs on another's."""

    spots: dict[int, tuple[float, float]]
    needed: dict[int, list[int]]
    _levels: dict[tuple[float, float], list[int]] = field(default_factory=dict)  # whose lines pass a column, and where

    def line(self, start: int, end: int, port: float) -> str:
        """Return a line with an arrowhead at `port` pixels below the middle of the box where it ends."""
        (x, top), (last, to) = self.spots[start], self.spots[end]
        y, to_y = top + HIGH / 2, to + HIGH / 2 + port
        drawn = f"M{x + BOX:g} {y:g}"
        for column in sorted({x, *(spot[0] for spot in self.spots.values() if x < spot[0] < last)}):
            beyond = column + BOX + GAP
            level = to_y if beyond == last else self._level(beyond, (y + to_y) / 2, start)
            if level != y:
                drawn += f" H{column + BOX + LANE * (self._lanes(column).index(start) + 1.5):g} V{level:g}"
            drawn += f" H{beyond:g}" if beyond == last else f" H{beyond + BOX:g}"
            y = level
        return (f'<g class="from-{start % COLOURS}"><path d="{drawn}"/>'
                f'<path class="head" d="M{last:g} {y:g} l-{HEAD} -4 v8 z"/></g>')

    def _lanes(self, column: float) -> list[int]:
        """Return whose lines run through the gap right of a column: first those that come from further left."""
        through = {start for end, others in self.needed.items() for start in others
                   if self.spots[start][0] <= column < self.spots[end][0]}
        return sorted(through, key=lambda start: (self.spots[start][0], start))

    def _level(self, column: float, wanted: float, start: int) -> float:
        """Return where a line passes a column: through a gap between its boxes, beside other lines that pass there."""
        tops = [top for x, top in self.spots.values() if x == column]
        gaps = {top - (ROW - HIGH) / 2 for top in tops} | {top + (ROW + HIGH) / 2 for top in tops}
        gap = min(gaps, key=lambda one: (abs(one - wanted), one))
        passing = self._levels.setdefault((column, gap), [])
        passing += [start] * (start not in passing)
        return gap + LANE * passing.index(start)


def tracks(book: Book) -> str:
    """Return a line for each way through a part of the course that this book has whole."""
    known, rows = book.numbered, []
    for name, wanted in TRACKS.items():
        places = set(wanted) if isinstance(wanted, tuple) else {wanted}
        while not isinstance(wanted, tuple) and places <= set(known) and (
                more := {other for place in places for other in needs(known[place])} - places):
            places |= more
        if places <= set(known):
            row = " → ".join(f'<a href="{known[place].name}.html">{place}</a>' for place in sorted(places))
            spent = duration(sum(reading(known[place]) + minutes(known[place]) for place in places))
            rows.append(f"<li><b>{name}:</b> <span>{row},</span> {spent}</li>")
    listed = f'<ul class="tracks">{"".join(rows)}</ul>'
    return f'<div class="pair"><p><b>Short of time?</b> {SHORTER}</p>{listed}</div>' if rows else ""


def cards(book: Book) -> str:
    """Return a card for each chapter: its number, title, question, exercises and minutes."""
    made = []
    for chapter in book.chapters:
        extras = sum(exercise.level != "core" for exercise in chapter.exercises)
        more = f", {extras} extra" if extras else ""
        made.append(
            f'<a class="card from-{number(chapter) % COLOURS}" href="{chapter.name}.html">'
            f"<b>{number(chapter)} · {html.escape(chapter.title)}</b>"
            f"<span>{html.escape(re.sub(r'[*`]', '', question(chapter)))}</span>"
            f"<small>{reading(chapter)} min of reading, {minutes(chapter)} for {len(chapter.exercises) - extras} "
            f"core exercises{more}</small>"
            "</a>")
    return f'<div class="cards">{"".join(made)}</div>'


def landing(book: Book, title: str, slides: bool, picture: str = "") -> str:
    """Return the first page as text for Sphinx."""
    exercises = [exercise for chapter in book.chapters for exercise in chapter.exercises]
    names = "\n".join(chapter.name for chapter in book.chapters)
    first = book.chapters[0].name if book.chapters else ""
    begin = (f'<p class="begin"><a class="button" href="{first}.html">Begin with chapter '
             f'{number(book.chapters[0])}</a> ' if first else "<p>")
    more = "exercises\nglossary" + "\nslides" * slides
    return f"""---
hide-toc: true
---

# {title}

You know some PyTorch, and want to know what happens between the GPUs when a large language model is trained or served.
In each chapter you guess a number, run real processes that talk to each other, and write the function that makes them
faster. A laptop with two cores and no GPU is enough.

{begin}<span><a href="exercises.html">All {len(exercises)} exercises</a>
<a href="glossary.html">Glossary</a></span>
<span class="work"><b>Read here, write there.</b> {WRITE.format(source())}</span></p>

{picture}

<div class="pair"><p><b>{OFFERS[0]}</b> {OFFERS[1]}</p>
<p class="guessed far"><b>✗ <code>{REFUSED[0]}</code></b> {REFUSED[1]}.</p></div>

<div class="pair">
<div>

**At the end you can**

- say for a model and a cluster what will fit, what will be slow, and why;
- read a profiler's trace, and name the strategy behind it;
- find what is slow or broken: a cable, a rank, a wrong mean;
- show functions of your own for ring all-reduce, data, tensor and pipeline parallelism, FSDP and continuous batching,
  which run unchanged under `torchrun` on real machines.

</div>
<div>
{chapter_map(book)}
{chapter_list(book)}
<p class="arrows">An arrow leads from each chapter to those that build on it; minutes include reading
and core exercises.</p>
</div>
</div>

{tracks(book)}

## The chapters

The reading takes about {duration(sum(map(reading, book.chapters)))} in all, and the core exercises about
{duration(sum(map(minutes, book.chapters)))} (all minutes are estimated). {READ}

{cards(book)}

```{{toctree}}
:caption: Chapters
:hidden:

{names}
```

```{{toctree}}
:caption: Look up
:hidden:

{more}
```
"""


def source() -> str:
    """Return words that tell where the course is: at an address where the book is made on GitHub, else beside it."""
    host, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    there = f'get the course from <a href="{host}/{name}">{name}</a>' if host and name else ""
    return there or "get a copy of the course from where you found this book,"


def advertised(page: NotebookNode, chapter: Chapter) -> str:
    """Return the first picture with a slider of a chapter's page, with a link to the chapter."""
    told = (output.get("data", {}).get("text/html", "") for cell in page.cells for output in cell.get("outputs", []))
    picture = next((one for one in told if "course-player" in one), "")
    link = f'<p>{html.escape(SAYS)} (<a href="{chapter.name}.html">Chapter {number(chapter)}</a>)</p>'
    whole = f'<div class="first-picture"><div class="cell_output">{picture}</div>{link}</div>'
    return f"````{{raw}} html\n{whole}\n````" if picture else ""  # its script has empty lines


def nearby(chapter: Chapter, slides: bool) -> str:
    """Return the line below a chapter's title: what else there is of it."""
    links = [f'<a href="{chapter.name}_exercises.html">Exercises</a>'] * bool(chapter.exercises)
    links += [f'<a href="{chapter.name}.slides.html">Slides</a>'] * slides
    part = f"from-{number(chapter) % COLOURS}"  # its colour on the map
    return f'<p class="nearby {part}">{" · ".join(links)}</p>'


def duration(minutes: int) -> str:
    """Return minutes in words: 40 minutes, an hour, 12 hours."""
    hours = round(minutes / 60)
    return f"{minutes} minutes" if minutes < 55 else "an hour" if hours == 1 else f"{hours} hours"


def slides_page(chapters: list[Chapter]) -> str:
    """Return the page that leads to the slides of each chapter; `counted` adds how many there are."""
    made = [f'<a class="card from-{number(chapter) % COLOURS}" href="{chapter.name}.slides.html">'
            f"<b>{number(chapter)} · {html.escape(chapter.title)}</b>"
            f"<span>{html.escape(re.sub(r'[*`]', '', question(chapter)))}</span>"
            f'<small><span id="{chapter.name[:4]}-many"></span> {whole(chapter)} minutes</small></a>'
            for chapter in chapters]
    return "\n".join(["# Slides", "", "One chapter is one set of slides. Arrow keys move, S opens the speaker's notes, "
                      "F fills the screen, O lists all, D is dark, Q takes the short path. Minutes are the "
                      "timetable's: talk on the short path, core exercises and catching up.", "",
                      f'<div class="cards">{"".join(made)}</div>', ""])


def counted(page: str, slides: dict[str, int]) -> str:
    """Return the page of slides with how many each chapter has."""
    for name, many in slides.items():
        place = f'id="{name[:4]}-many">'
        page = page.replace(place, f"{place}{many} slides,")
    return page
