"""Runs inside a chapter's kernel while the book is made: a picture's message becomes text above it.

Text can be searched, read aloud, and read on a phone. A picture that is too high for the width of a slide is drawn once
more, lower, so that its letters are larger there. executed.py calls `install` by path, because a kernel does not
find docs/.
"""

from __future__ import annotations

import base64
import html
from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib_inline.config import InlineBackend

from course_lib.plots import canvas

LOWER = "application/vnd.course.lower+png"
LOWER_DARK = "application/vnd.course.lower-dark+png"
LOW = 4.1  # inches: a picture of canvas.WIDTH that is no higher can be as wide as a slide
STEP = 0.3  # inches more, where letters would touch


def install() -> None:
    Figure._repr_html_ = canvas.Picture._repr_html_ = figure_html
    Figure._repr_mimebundle_ = lower
    InlineBackend.instance().figure_formats = set()  # or each figure would be drawn once more, as a PNG beside the HTML


def figure_html(figure: Figure) -> str:
    """Return a figure as HTML: its message as a caption, and the image with alternative text."""
    title, words, image, dark = pulled_apart(figure)
    caption = f"<figcaption>{html.escape(title)}</figcaption>" if title else ""
    return f'<figure class="picture">{caption}{canvas.as_html(image, words, dark)}</figure>'


def lower(figure: Figure, include=None, exclude=None) -> dict[str, str]:
    """Return a high figure's images as low as they can be read, for slides; nothing where that is its own height."""
    height, width = figure.get_figheight(), figure.get_figwidth()
    if height <= LOW or width < canvas.WIDTH - 0.1:
        return {}
    read, tried = places(figure), LOW
    try:
        while tried < height:
            figure.set_figheight(tried)
            if places(figure) == read:
                *_, light, dark = pulled_apart(figure)
                return {LOWER: base64.b64encode(light).decode(), LOWER_DARK: base64.b64encode(dark).decode()}
            tried += STEP
    finally:
        figure.set_figheight(height)
    return {}


def places(figure: Figure) -> tuple[set, set, int]:
    """Return which texts of a figure touch each other, which stand inside which patch, and how many ticks touch."""
    figure.canvas.draw()
    seen = [ax for ax in figure.axes if ax.get_visible()]
    axes = [axis for ax in seen for axis in (ax.xaxis, ax.yaxis)]
    labels = [[(id(text), text.get_window_extent()) for text in axis.get_ticklabels() if text.get_text()]
              for axis in axes if axis.axes.axison]
    on_axes = {id(text) for axis in axes for text in axis.findobj(Text)}
    texts = [(id(text), text.get_window_extent()) for text in figure.findobj(Text)
             if text.get_visible() and text.get_text().strip() and id(text) not in on_axes]
    patches = [(id(patch), patch.get_window_extent()) for ax in seen for patch in ax.patches]
    inside = {(one, other) for one, a in texts for other, b in patches
              if b.x0 <= a.x0 and a.x1 <= b.x1 and b.y0 <= a.y0 and a.y1 <= b.y1}
    return touching(texts), inside, sum(len(touching(names)) for names in labels)


def touching(texts: list) -> set:
    return {(one, other) for (one, a), (other, b) in combinations(texts, 2) if a.overlaps(b)}


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
