"""Writes the first page of the book: for whom, the map of the chapters, and how to begin.

The map is drawn from the chapters: a line leads from each chapter to those that say, in their first text, that they
need it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from textwrap import wrap

from chapter_page import Book
from nbformat import NotebookNode

from exercises_tests.tools.chapters import Chapter
from exercises_tests.tools.course_map import minutes, needs, number, question, reading

BOX, HIGH, GAP, ROW = 103, 82, 18, 98  # of the map, in pixels; six columns are as wide as a page of a small screen
LARGER = 1.2  # the most by which the map grows with its place: with few chapters, boxes stay boxes
SHOWN = 3  # the chapter whose first picture stands on the first page
LETTERS = 13  # of a line in a box


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
    drawn, lines, boxes = lines_of(book.chapters), [], []
    for chapter in book.chapters:
        x, y = spots[number(chapter)]
        for other in drawn[number(chapter)]:
            lines.append(way(spots[other], (x, y), spots.values()))
        titles = "".join(
            f'<text x="{x + 8:g}" y="{y + 19 + 16 * place:g}" class="name">{html.escape(line)}</text>'
            for place, line in enumerate(wrap(f"{number(chapter)} · {chapter.title}", LETTERS, max_lines=3)))
        boxes.append(
            f'<a href="{chapter.name}.html"><rect x="{x:g}" y="{y:g}" width="{BOX}" height="{HIGH}" rx="8"/>'
            f'{titles}<text x="{x + 8:g}" y="{y + 72:g}">{reading(chapter) + minutes(chapter)} min</text></a>')
    wide = max((x for x, _ in spots.values()), default=0) + BOX
    names = ", ".join(f"{number(chapter)} needs {' and '.join(map(str, needs(chapter))) or 'nothing'}"
                      for chapter in book.chapters)
    high = (tallest - 1) * ROW + HIGH
    return (f'<figure class="map"><svg viewBox="-2 -10 {wide + 4:g} {high + 20:g}" style="min-width: {wide + 4:g}px; '
            f'max-width: {LARGER * (wide + 4):g}px" '
            f'role="group" aria-label="Map of the chapters: {names}"><g class="needs">{"".join(lines)}</g>'
            f'{"".join(boxes)}</svg></figure>')


def way(start: tuple[float, float], end: tuple[float, float], boxes: Iterable[tuple[float, float]]) -> str:
    """Return a line from one box to another; past the columns between, it runs through the gaps between boxes."""
    x, y = start[0] + BOX, start[1] + HIGH / 2
    last, to_y = end[0], end[1] + HIGH / 2
    drawn = f"M{x:g} {y:g}"
    for column in sorted({box[0] for box in boxes if start[0] < box[0] < end[0]}):
        tops = [box[1] for box in boxes if box[0] == column]
        gaps = {top - (ROW - HIGH) / 2 for top in tops} | {top + (ROW + HIGH) / 2 for top in tops}
        level = min(gaps, key=lambda gap: (abs(gap - (y + to_y) / 2), gap))
        drawn += curve(x, y, column, level) + f" H{column + BOX:g}"
        x, y = column + BOX, level
    return f'<path d="{drawn}{curve(x, y, last, to_y)}"/>'


def curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f" C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"


def cards(book: Book) -> str:
    """Return a card for each chapter: its number, title, question, exercises and minutes."""
    made = []
    for chapter in book.chapters:
        extras = sum(exercise.level != "core" for exercise in chapter.exercises)
        more = f", {extras} extra" if extras else ""
        made.append(
            f'<a class="card" href="{chapter.name}.html"><b>{number(chapter)} · {html.escape(chapter.title)}</b>'
            f"<span>{html.escape(re.sub(r'[*`]', '', question(chapter)))}</span>"
            f"<small>{reading(chapter)} min of reading, {minutes(chapter)} min for {len(chapter.exercises) - extras} "
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
    return f"""# {title}

You know some PyTorch, and you want to know what happens between the GPUs when a large language model is trained or
served. In each chapter you guess a number, run real processes that really talk to each other, write the function that
makes them faster, and are told in one sentence whether it is right. A laptop with two cores and no GPU is enough.

{begin}<a href="exercises.html">All {len(exercises)} exercises</a> <a href="glossary.html">Glossary</a></p>

**Read here, write there.** These pages hold the whole course: the text, the pictures, the numbers that were measured
when the pages were made, and the answers, folded. Guess before you unfold. What follows an exercise was measured with a
right answer. To write the answers yourself and have them checked, take the notebooks: in your copy of the course
`make lab` sets up Python and opens the chapters, `work/ch00_start_here.ipynb` and so on, in JupyterLab.

{picture}

## The chapters

The reading takes about {duration(sum(map(reading, book.chapters)))} in all, and the core exercises about
{duration(sum(map(minutes, book.chapters)))} (all minutes are estimated).

{cards(book)}

<details class="needs-map"><summary>The map: which chapter builds on which</summary>

A line leads from each chapter to those that build on it. A chapter that no line leads to can be read at any time. A box
has the minutes of reading and exercises.

{chapter_map(book)}

</details>

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


def advertised(page: NotebookNode, chapter: Chapter) -> str:
    """Return the first picture of a chapter's page, with a link to the chapter."""
    told = (output.get("data", {}).get("text/html", "") for cell in page.cells for output in cell.get("outputs", []))
    picture = next((one for one in told if "<figure" in one), "")
    link = f'<p>The first picture of <a href="{chapter.name}.html">chapter {number(chapter)}</a>:</p>'
    return f'{link}\n<div class="cell_output">{picture}</div>' if picture else ""


def nearby(chapter: Chapter, slides: bool) -> str:
    """Return the line below a chapter's title: where it is worked on, and what else there is of it."""
    links = [f'<a href="{chapter.name}_exercises.html">Its exercises</a>'] * bool(chapter.exercises)
    links += [f'<a href="{chapter.name}.slides.html">Its slides</a>'] * slides
    return f'<p class="nearby">To work on it: <code>work/{chapter.name}.ipynb</code> · {" · ".join(links)}</p>'


def duration(minutes: int) -> str:
    """Return minutes in words: 40 minutes, an hour, 12 hours."""
    hours = round(minutes / 60)
    return f"{minutes} minutes" if minutes < 55 else "an hour" if hours == 1 else f"{hours} hours"


def slides_page(chapters: list[Chapter]) -> str:
    """Return the page that leads to the slides of each chapter."""
    rows = [f'- <a href="{chapter.name}.slides.html">{number(chapter)} · {html.escape(chapter.title)}</a>'
            for chapter in chapters]
    return "\n".join(["# Slides", "", "One chapter is one set of slides. Arrow keys move, S opens the speaker's notes, "
                      "F fills the screen, O lists all.", "", *rows, ""])
