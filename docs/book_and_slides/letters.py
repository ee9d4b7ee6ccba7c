"""The letters of the book and the slides: what stands in a picture is written as what stands beside it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from pathlib import Path

import matplotlib as mpl
from matplotlib.font_manager import fontManager

FAMILY = "Source Sans Pro"
STYLES = ("regular", "italic", "semibold", "semibolditalic")
WEIGHTS = {"regular": 400, "italic": 400, "semibold": 700}  # bold words of a picture are as bold as those of a slide


def reveal() -> Path:
    """Return the folder of reveal.js, which the package sphinx-revealjs brings, and with it the letters."""
    import sphinx_revealjs

    found = Path(sphinx_revealjs.__file__).parent.rglob("reveal*/dist/reveal.js")
    return next(found).parents[1]


def font(style: str, kind: str) -> Path:
    """Return the file of a font: regular, italic, semibold or semibolditalic, as woff or ttf."""
    return reveal() / f"dist/theme/fonts/source-sans-pro/source-sans-pro-{style}.{kind}"


@cache
def family() -> list[str]:
    """Return the names of the letters, most wanted first; signs that the first does not have are the second's."""
    for style, weight in WEIGHTS.items():
        fontManager.addfont(font(style, "ttf"))
        fontManager.ttflist[-1] = replace(fontManager.ttflist[-1], name=FAMILY, weight=weight)
    return [FAMILY, "DejaVu Sans"]


def of_pages() -> AbstractContextManager:
    """Return a context in which figures are written in these letters."""
    return mpl.rc_context({"font.sans-serif": family()})
