"""Writes what the search shows of each section, and a term of its entry: pages opened from disk may fetch nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

BLOCKS = ["dt", "dd", "li", "p", "td", "th", "tr", "figcaption"]  # the next one begins a new word
# Answers stay folded; behind a veil only the text is found, not what was measured, and it is not shown.
OUTSIDE = ("script, style, svg, details:not(.veil), .veil > summary, .veil .cell_output, .guess, .nearby, .headerlink, "
           ".formula, .toctree-wrapper")


def search_texts(made: Path) -> str:
    """Return a script that holds, for each page of a made book, its sections.

    Of each: anchor, title, prose, code, and the text that waits behind a guess.
    """
    pages = {path.stem: sections(path.read_text(encoding="utf-8")) for path in sorted(made.glob("*.html"))
             if not path.stem.endswith(("_exercises", "search"))}
    return f"const courseTexts = {json.dumps(pages, ensure_ascii=False)};\n"


def term_texts(made: Path) -> str:
    """Return a script that holds what each term of a made glossary means, by the term's anchor."""
    from bs4 import BeautifulSoup

    page = made / "glossary.html"
    soup = BeautifulSoup(page.read_text(encoding="utf-8") if page.exists() else "", "html.parser")
    said = {term["id"]: term.find_next_sibling("dd").p.decode_contents() for term in soup.select("dl.glossary dt")}
    return f"const courseTerms = {json.dumps(said, ensure_ascii=False)};\n"


def sections(page: str) -> list[list[str]]:
    """Return a page's sections in order."""
    from bs4 import BeautifulSoup  # here, so that what is missing can be said: packages.py

    soup, found = BeautifulSoup(page, "html.parser"), []
    for gone in soup.select(OUTSIDE):
        gone.decompose()
    for cell in soup.select(":is(td, th):not(:last-child)"):
        cell.append(",")
    for row in soup("tr"):
        row.append(";")
    for caption in soup("figcaption"):
        caption.append("." if re.search(r"\w\s*$", caption.get_text()) else "")
    for block in soup(BLOCKS):
        block.append(" ")
    for end in soup("br"):
        end.replace_with(" ")
    for fraction in soup("mfrac"):
        above, below = fraction.contents
        for part in [above] * bool(above.mo) + [below] * (len(below.contents) > 1):  # a sum, or several factors
            part.insert(0, "(")
            part.append(")")
        above.insert_after("/")
        for beside, put in ((fraction.find_previous_sibling(), fraction.insert_before),
                            (fraction.find_next_sibling(), fraction.insert_after)):
            if beside and beside.name != "mo":
                put(" ")
    for term in soup.select("dl.glossary dt"):  # is a section of its own
        sentence = term.find_next_sibling("dd")
        found.append([term.get("id", ""), *(" ".join(part.get_text().split()) for part in (term, sentence)), "", ""])
    for entry in soup.select("dl.glossary"):
        entry.decompose()
    found.reverse()
    for section in reversed(soup.select("[role=main] section, article section")):  # the innermost first
        title = section.find(["h1", "h2", "h3", "h4", "h5", "h6"])
        heading = title.extract().get_text() if title else ""
        veils = [veil for veil in section.select(".veil") if not veil.find_parent(class_="veil")]
        behind = " ".join(veil.extract().get_text() for veil in veils)
        code = " ".join(block.extract().get_text() for block in section("pre"))
        prose = re.sub(r"\s+(?=[,;]\s)", "", section.get_text())
        found.append([section.get("id", ""), *(" ".join(part.split()) for part in (heading, prose, code, behind))])
        section.extract()
    return found[::-1]
