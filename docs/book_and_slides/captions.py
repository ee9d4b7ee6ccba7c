"""Runs inside a chapter's kernel while the book is made: a picture's message becomes text above it.

Text can be searched, read aloud, and read on a phone. executed.py calls `install`.
"""

from __future__ import annotations

import html

from figures import in_letters, pulled_apart, written
from letters import of_pages
from matplotlib.figure import Figure
from matplotlib_inline.config import InlineBackend
from PIL import Image

from course_lib.plots import canvas, png_files, slider_frames

IN_PANELS = 1.1  # as much larger are letters of all frames of a panel, so that nothing jumps


def install() -> None:
    slider_frames.drawn = drawn
    Figure._repr_html_ = canvas.Picture._repr_html_ = figure_html
    InlineBackend.instance().figure_formats = set()  # or each figure would be drawn once more, as a PNG beside the HTML


def figure_html(figure: Figure) -> str:
    """Return a figure as HTML: its message as a caption, and the image with alternative text."""
    with in_letters(figure):
        title, words, image, dark = pulled_apart(figure)
    caption = f"<figcaption>{html.escape(title)}</figcaption>" if title else ""
    return f'<figure class="picture">{caption}{canvas.as_html(image, words, dark)}</figure>'


def drawn(figure: Figure, dark: bool = False, placed: bool = False) -> Image.Image:
    """Return a frame of a panel as an image."""
    with of_pages(), written(figure, IN_PANELS):
        return png_files.drawn(figure, dark, placed)
