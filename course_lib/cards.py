"""Shows a result as a small card in a notebook, and as the same words everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

RIGHT, WRONG, OPEN, TOLD, PART = "right", "wrong", "open", "told", "partly"
STYLE = Path(__file__).with_name("data") / "cards.css"


def card(kind: str, *pieces: str) -> str:
    """Return a card in HTML, of a kind that colours it; the pieces are HTML already."""
    return f'<style>{_style()}</style><div class="course-card course-{kind}">{"".join(pieces)}</div>'


@cache
def _style() -> str:
    return STYLE.read_text(encoding="utf-8")


def paragraph(text: str, looks: str = "") -> str:
    """Return words, whoever's they are, as a paragraph."""
    return f"<p{looks and f' class={looks}'}>{escape(text)}</p>"


def mark(kind: str, text: str, looks: str = "course-mark", told: str = "") -> str:
    """Return a few letters in a colour; `told` is said to whoever points at them."""
    title = f' title="{escape(told)}"' if told else ""
    return f'<span class="{looks} course-{kind}"{title}>{escape(text)}</span>'


def bar(share: float, kind: str = "") -> str:
    """Return a bar that is filled to a share of its length; it has no words of its own."""
    width = 100 * min(1.0, max(0.0, share))
    colour = f" course-{kind}" if kind else ""
    return f'<span class="course-bar{colour}" aria-hidden="true"><span style="width: {width:.3g}%"></span></span>'


def table(rows: Iterable[Iterable[str]]) -> str:
    """Return rows of cells, which are HTML already; the first of each row is its heading."""
    lines = []
    for first, *rest in rows:
        cells = "".join(
            f'<td class="course-wide">{cell}</td>' if "course-bar" in cell else f"<td>{cell}</td>" for cell in rest
        )
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return f"<table>{''.join(lines)}</table>"


def in_notebook() -> bool:
    """Return whether a kernel runs this and may show more than text: COURSE_DISPLAY=text says that it may not."""
    if os.environ.get("COURSE_DISPLAY") == "text":
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def show(text: str, html: Any) -> None:
    """Show a card in a notebook, with its words for whoever shows no HTML; print the words elsewhere.

    `html` is a function, because few want what it makes.
    """
    if not in_notebook():
        print(text)
        return
    _display({"text/plain": text, "text/html": html()})


def show_for_now(text: str) -> Callable[[], None]:
    """Show a sentence in a notebook, and return what takes it away again."""
    from IPython.display import display

    shown = display({"text/plain": text, "text/html": paragraph(text)}, raw=True, display_id=True)
    return lambda: shown.update({"text/plain": "", "text/html": ""}, raw=True)


def _display(forms: dict[str, str]) -> None:
    from IPython.display import display

    display(forms, raw=True)


class Told(Exception):  # noqa: N818 - it is not always an error
    """An exception that a notebook shows as a card, not as a traceback; str() of it has the same words."""

    def card(self) -> str:
        return card(WRONG, paragraph(str(self)))

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
