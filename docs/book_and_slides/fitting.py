"""Fits text on slides of 1280 x 720 pixels: letters are counted, and their size is chosen so that nothing runs off."""

from __future__ import annotations

import io
import re
from functools import cache

import numpy as np
from chapter_page import FENCE
from formulas import shown
from PIL import Image

SIZES = {44: (48, 8), 36: (59, 10), 28: (76, 12)}  # letters of a line, and lines, of what is printed, by their size
WORDS = 420  # letters of a text that a slide takes
LISTED = 600  # letters of a list
TALL = 0.62  # height by width of a picture from which on its letters are small where it is shown whole
HANGING = 4  # letters by which a printed line that wraps is indented: slides.html.j2


def as_html(text: str) -> str:
    """Return Markdown with formulas as HTML; links to chapters become their words, for slides are passed on alone."""
    text = re.sub(r"\[([^\]]*)\]\((?:[./\w]*/)?ch\d\d\w*\.(?:ipynb|html)[^)]*\)", r"\1", text)
    return _reader().render(text)


@cache
def _reader():
    from markdown_it import MarkdownIt  # here, so that what is missing can be said: packages.py
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    return reader.use(dollarmath_plugin, renderer=lambda latex, options: shown(latex, options["display_mode"]),
                      allow_space=False, allow_digits=False, double_inline=True)


def inline(text: str) -> str:
    return re.sub(r"^<p>|</p>\s*$", "", as_html(" ".join(text.split())).strip())


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", " ".join(text.split()))


def questions(text: str) -> list[str]:
    """Return the sentences of a text that ask, if a title can hold them."""
    return re.findall(r"(?:^|(?<=[.?!:])\s)([A-Z][^.?!:|]{8,100}\?)", " ".join(text.split()))


def blocks(source: str) -> list[str]:
    """Return a text cut at empty lines; what is fenced or folded stays in one piece, and is no heading."""
    held: list[str] = []

    def hold(found: re.Match) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"

    whole = re.sub(r"<details>.*?</details>", hold, FENCE.sub(hold, source), flags=re.DOTALL)
    cut_up = re.split(r"\n\s*\n|(?<=\0)\n|(?m:^(#{1,6} .*)$)", whole)
    found = [part.strip("\n") for part in cut_up if part and part.strip()]
    for place, part in enumerate(found):
        while "\0" in part:
            part = re.sub(r"\0(\d+)\0", lambda m: held[int(m[1])], part)
        found[place] = part
    return found


def cut(text: str, letters: int = WORDS) -> str:
    """Return as many sentences of a text as a slide takes, and at least one."""
    taken, *more = sentences(text)
    for sentence in more:
        if len(taken) + len(sentence) > letters:
            break
        taken += f" {sentence}"
    whole = re.match(r".*[.?!](?=\s+\S.*:$)", taken)  # what leads to a list leads nowhere on a slide
    return whole[0] if whole else taken


def bullets(block: str) -> list[str]:
    """Return a list cut into slides, each item its first sentences."""
    made, filled = [], LISTED
    for item in re.split(r"\n?^(?:[-*]|\d+\.) ", block, flags=re.MULTILINE):
        short = cut(item, 160)
        if short and filled + len(short) > LISTED:
            made.append("")
            filled = 0
        if short:
            made[-1] += f"- {short}\n"
            filled += max(80, len(short))
    return made


def small(table: str) -> bool:
    """Return whether a table fits on a slide."""
    rows = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row) for row in table.splitlines()]
    return len(rows) <= 9 and max(map(len, rows)) <= 78


def narrow(lines: list[str]) -> list[str]:
    """Return lines without what is blank in all of them, where some would wrap: a table stays a table."""
    wide = max(map(len, lines), default=0)
    if wide <= SIZES[min(SIZES)][0]:
        return lines
    padded = [line.ljust(wide) for line in lines]
    blank = [all(line[place] == " " for line in padded) for place in range(wide)]
    keep = [place for place in range(wide) if not (blank[place] and (place == 0 or blank[place - 1]))]
    return ["".join(line[place] for place in keep).rstrip() for line in padded]


def pages(lines: list[str]) -> tuple[int, list[str]]:
    """Return the size of the letters in which printed lines fit best, and the lines cut into slides: long ones wrap."""
    for size, (letters, most) in SIZES.items():
        taken = [1 if len(line) <= letters else -(-len(line) // (letters - HANGING)) for line in lines]
        if size == min(SIZES) or (sum(taken) <= most and max(taken, default=0) == 1):
            break
    made: list[list[str]] = []
    filled = most
    for line, takes in zip(lines, taken, strict=True):
        if filled + takes > most:
            made.append([])
            filled = 0
        made[-1].append(line)
        filled += takes
    return size, ["\n".join(part) for part in made]


def halves(png: bytes) -> list[bytes]:
    """Return the upper and the lower half of a tall picture, cut where nothing is drawn; nothing of a wide one."""
    whole = Image.open(io.BytesIO(png))
    if whole.height / whole.width <= TALL:
        return []
    drawn = np.asarray(whole.convert("L"))
    blank = np.flatnonzero((drawn == drawn[:, :1]).all(axis=1))
    near = blank[abs(blank - whole.height / 2) < whole.height / 6]
    if not len(near):
        return []
    gaps = [gap for gap in np.split(near, np.flatnonzero(np.diff(near) > 1) + 1) if len(gap) > 2]
    lines = np.flatnonzero((drawn < 100).mean(axis=1) > 0.4)  # of axes: a drawing ends below
    ends = [gap for gap in gaps if any(0 < gap[0] - line < 30 for line in lines)]
    best = min(ends, key=lambda gap: abs(gap[0] - whole.height / 2)) if ends else max(gaps, key=len, default=near)
    middle, made = int(best[len(best) // 2]), []
    for box in ((0, 0, whole.width, middle), (0, middle, whole.width, whole.height)):
        half = io.BytesIO()
        whole.crop(box).save(half, format="png", compress_level=1)
        made.append(half.getvalue())
    return made
