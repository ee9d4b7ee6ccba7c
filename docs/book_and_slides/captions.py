"""Runs inside a chapter's kernel while the book is made: a picture's message becomes text above it.

Text can be searched, read aloud, and read on a phone. executed.py calls `install`.
"""

from __future__ import annotations

import html

from matplotlib.figure import Figure
from matplotlib_inline.config import InlineBackend

from course_lib.plots import canvas


def install() -> None:
    Figure._repr_html_ = canvas.Picture._repr_html_ = figure_html
    InlineBackend.instance().figure_formats = set()  # or each figure would be drawn once more, as a PNG beside the HTML


def figure_html(figure: Figure) -> str:
    """Return a figure as HTML: its message as a caption, and the image with alternative text."""
    title, words, image, dark = pulled_apart(figure)
    caption = f"<figcaption>{html.escape(title)}</figcaption>" if title else ""
    return f'<figure class="picture">{caption}{canvas.as_html(image, words, dark)}</figure>'


def pulled_apart(figure: Figure) -> tuple[str, str, bytes, bytes]:
    """Return a figure's message, the figure in words, and its light and dark images, without the message."""
    words = canvas.words_of(figure)
    seen = [ax for ax in figure.axes if ax.get_visible()]
    if figure.get_suptitle():
        titles = [figure._suptitle]
    elif len(seen) == 1:  # several axes have a title each, and none speaks for all
        titles = [ax_title for ax_title in (seen[0]._left_title, seen[0].title, seen[0]._right_title)
                  if ax_title.get_text()]
    else:
        titles = []
    said = [title.get_text() for title in titles]
    if len(said) != 1 or "$" in said[0]:
        return "", words, canvas.png(figure), canvas.png(figure, dark=True)
    titles[0].set_text("")
    try:
        return " ".join(said[0].split()), words, canvas.png(figure), canvas.png(figure, dark=True)
    finally:
        titles[0].set_text(said[0])
