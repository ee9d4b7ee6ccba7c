"""Typesets formulas as MathML, which browsers draw by themselves: no script, no network."""

from __future__ import annotations

import html
from functools import cache


@cache
def _converter():
    from math_core import LatexToMathML  # here, so that what is missing can be said: packages.py

    return LatexToMathML(fancy_error=False)


@cache
def mathml(latex: str, display: bool = False) -> str:
    """Return a formula written in LaTeX as MathML; where it cannot be read, raise ValueError with a sentence."""
    from math_core import LatexError

    try:
        return _converter().convert_with_local_state(latex.strip(), displaystyle=display)
    except LatexError as error:
        said = " ".join(str(error.args[0] if error.args else error).split()).rstrip(".")
        raise ValueError(f"The formula {latex.strip()!r} cannot be read: {said}.") from None


def shown(latex: str, display: bool = False) -> str:
    """Return a formula as MathML, and one that cannot be read as it is written."""
    try:
        return mathml(latex, display)
    except ValueError:
        return f"<code>{html.escape(latex)}</code>"
