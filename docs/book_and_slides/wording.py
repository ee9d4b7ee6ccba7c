"""The words of a chapter as those of a slide: Markdown as HTML, and which of its sentences a room needs."""

from __future__ import annotations

import math
import re
from functools import cache

from chapter_page import FENCE
from formulas import shown

LEAD = 400  # letters of the sentences that lead to a formula, a table, a list or, with its own, a guess
BRIEF = 80  # letters of a definition that needs the sentence after it
SEEN = 240  # letters of those that say what was printed
LINE = 72  # letters of a printed line that a slide takes
SHOWN = re.compile(r"\$\$|\||```|(?:[-*]|\d+\.) ")  # how a formula, a table, a listing or a list begins
UNIT = re.compile(r"(?<=\d) (?=(?:[kMGT]?B|[µmn]?s|%|W|days|hours)(?!\w)|× \d)|(?<=\d ×) (?=\d)|(?<= =) (?=\d)")
CELLS = re.compile(r"\b(?:cells?|pencil|slider|next (?:picture|table))\b|^Here\b")  # what a slide does not have
HANDS = re.compile(r"\b(?:sliders?|pencil|press play|the one after it|cells?)\b|\bNow run\b", re.IGNORECASE)


def as_html(text: str) -> str:
    """Return Markdown with formulas as HTML; links to chapters become their words, for slides are passed on alone."""
    text = re.sub(r"\[([^\]]*)\]\((?:[./\w]*/)?ch\d\d\w*\.(?:ipynb|html)[^)]*\)", r"\1", text)
    return UNIT.sub("\N{NO-BREAK SPACE}", _reader().render(text))


@cache
def _reader():
    from markdown_it import MarkdownIt  # here, so that what is missing can be said: packages.py
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    return reader.use(dollarmath_plugin, renderer=lambda latex, options: shown(latex, options["display_mode"]),
                      allow_space=False, allow_digits=False, double_inline=True)


def inline(text: str) -> str:
    return re.sub(r"^<p>|</p>\s*$", "", as_html(" ".join(text.split())).strip())


def length(text: str) -> int:
    """Return the words of HTML, a row of a table or a formula counted as a line's."""
    rows = len(re.findall(r"<tr|<math|<span|<li", text))
    return len(re.sub(r"<math.*?</math>|<[^>]*>", " ", text, flags=re.DOTALL).split()) + 4 * rows


def aloud(found: re.Match) -> str:
    """Return a number as one says it: 5.025 as 5.0, 68.18 as 68, 1.065 as 1.07."""
    number = found[0]
    if number == "1":
        return "1.0"
    if len(number.replace(".", "").lstrip("0")) <= 3:
        return number
    value = float(number)
    digits = 3 if number.lstrip("0.").startswith(("1", "2")) else 2
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def apart(number: str) -> str:
    """Return two choices that end a text as one number, as one says them: 13 as 1 and 3."""
    return re.sub(r"\b(\d)(\d)$", r"\1 and \2", number)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])(?<! al\.)\s+", " ".join(text.split()))


def lead(paragraph: str, room: int = LEAD) -> str:
    """Return the last sentences of a paragraph: as many as stand above what they lead to, but at least one."""
    *before, taken = sentences(paragraph)
    while before and len(before[-1]) + len(taken) < room:
        taken = f"{before.pop()} {taken}"
    return taken


def seen(paragraph: str, room: int = SEEN) -> str:
    """Return the first sentences of a paragraph that are about what stands above it; none where it leads on."""
    taken = ""
    for sentence in sentences(paragraph) if paragraph.rstrip("*_)`")[-1] in ".?!" else []:
        if CELLS.search(sentence) or taken and len(taken) + len(sentence) > room:
            break
        taken += f"{sentence} "
    return taken


def beside(sentence: str, paragraph: str) -> str:
    """Return a definition; one that is very short together with the sentence after it, or else with that before it."""
    before, _, after = paragraph.partition(sentence)
    if len(sentence) > BRIEF or before == paragraph:
        return sentence
    if (more := sentences(after.strip())[0]) and not CELLS.search(more):
        return f"{sentence} {more}"
    return f"{sentences(before.strip())[-1]} {sentence}"


def without_hands(block: str) -> str:
    """Return a text of a notebook without the sentences that speak of its cells and sliders: slides have none."""
    if SHOWN.match(block) or not HANDS.search(block):
        return block
    return " ".join(sentence for sentence in sentences(block) if not HANDS.search(sentence))


def narrow(lines: list[str]) -> list[str]:
    """Return lines with two letters between columns, where some would wrap: a table stays a table."""
    wide = max(map(len, lines), default=0)
    if wide <= LINE:
        return lines
    padded = [line.ljust(wide) for line in lines]
    blank = [all(line[place] == " " for line in padded) for place in range(wide)]
    keep = [place for place in range(wide) if not all(blank[max(0, place - 2):place + 1])]
    return ["".join(line[place] for place in keep).rstrip() for line in padded]


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
