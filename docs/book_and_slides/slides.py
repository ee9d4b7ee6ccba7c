"""Writes a chapter as slides for a workshop, one file that needs no network: python docs/book_and_slides/slides.py ch03

A slide has one message, its title, and below it one thing: a picture as large as the slide, a formula, what was
printed, an exercise (deck.py). What opens a section, asks, or is worth writing down stands alone in the middle, and
what was found in huge letters under its question. Under a picture stand two lines at most, and its letters have 18
pixels of a slide of 1920. The other text becomes the speaker's notes (key S), and code is folded, in small letters.
The letters of a text have 40 pixels of a slide of 1280 x 720, or 34 or 28 where that does not fit, and none that was
printed has fewer than 20; what does not fit goes on on the next slide (look/slides.js).
Code has 26 or more: a long line breaks. What has a title begins below it, always in the same place.
A picture can be built up step by step (captions.py), and lines of one shape are a table (columns.py).
"""

from __future__ import annotations

import argparse
import base64
import sys
from functools import cache
from pathlib import Path

from chapter_page import PICTURES
from deck import as_slides
from executed import KEPT, fresh
from jinja2 import Environment, FileSystemLoader, Template
from letters import font, reveal
from nbformat import NotebookNode
from packages import require
from slide import Slide
from talk import HIGHEST, height, spoilers

from exercises_tests.tools.chapters import ROOT, Chapter, ChapterError, find
from exercises_tests.tools.copies import write
from exercises_tests.tools.course_map import number

LOOK = Path(__file__).with_name("look")
LETTERS = (("regular", 400, "normal"), ("semibold", 600, "normal"), ("italic", 400, "italic"))  # of the slides' font


@cache
def parts() -> dict[str, object]:
    """Return what all slides share: reveal.js, its looks, and the fonts of letters and formulas."""
    folder = reveal()
    read = {name: (folder / place).read_text(encoding="utf-8").replace("</script", r"<\/script") for name, place in (
        ("reset", "dist/reset.css"), ("style", "dist/reveal.css"), ("script", "dist/reveal.js"))}
    fonts = {name: font(name, "woff") for name, *_ in LETTERS}
    fonts["math"] = LOOK / "STIXTwoMath.woff"
    return read | {"letters": LETTERS, "fonts": {name: base64.b64encode(path.read_bytes()).decode()
                                                 for name, path in fonts.items()}}


@cache
def frame() -> Template:
    return Environment(loader=FileSystemLoader(LOOK), autoescape=True).get_template("slides.html.j2")


def as_page(chapter: Chapter, slides: list[Slide]) -> str:
    """Return slides as one HTML page."""
    return frame().render(parts(), title=f"{number(chapter)} · {chapter.title}", slides=slides)


def too_high(slides: list[Slide]) -> list[str]:
    """Return the titles of the pictures whose letters the last row cannot read: lower them, or leave them out."""
    return [slide.title for slide in slides if slide.kind == "picture" and height(slide) > HIGHEST]


def write_slides(chapter: Chapter, notebook: NotebookNode, folder: Path, pictures: Path | None = None) -> Path:
    """Write the slides of a chapter that has run; return their file."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{chapter.name}.slides.html"
    slides = as_slides(chapter, notebook, pictures or KEPT.parent / "source" / PICTURES)
    for title in too_high(slides):
        print(f"Too high for a slide of {chapter.name}: {title}", file=sys.stderr)
    for slide in slides:
        if slide.unshown:
            print(f"No room under a picture of {chapter.name}: {slide.unshown}", file=sys.stderr)
    for told in spoilers(slides):
        print(f"Shown before it is guessed, on a slide of {chapter.name}: {told}", file=sys.stderr)
    write(target, as_page(chapter, slides))
    return target


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="slides.py", description="Write a chapter as slides.")
    parser.add_argument("chapter", nargs="?", default="", help="for instance ch03")
    parser.add_argument("--to", type=Path, default=ROOT / "book", help="the folder to write to (default: book/)")
    options = parser.parse_args(argv)
    try:
        chapter = find(options.chapter)
        require()
        target = write_slides(chapter, fresh(chapter), options.to)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Slides: {target}. Arrow keys move, S opens the speaker's notes, F fills the screen, D makes it dark, "
          "Q takes the short path, T starts and pauses an exercise's countdown, O lists all, ? the keys.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
