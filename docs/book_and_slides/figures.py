"""What the book and the slides do with a figure: they take its message out, and write it in their own letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

from letters import family, of_pages
from matplotlib.figure import Figure
from matplotlib.text import Text

from course_lib.plots import canvas
from course_lib.plots.png_files import twins

AIR = 4  # pixels around a text
LARGER = (1.12, 1.06, 1.0)  # these letters are smaller and narrower than those of a notebook's pictures


@contextmanager
def in_letters(figure: Figure) -> Iterator[None]:
    """Write a figure in the letters of the pages for a while, as large as they touch no more than now."""
    if not hasattr(figure, "course_larger"):
        read = places(figure)
        figure.course_larger = next(part for part in LARGER if part == LARGER[-1] or fits(figure, read, part))
    with of_pages(), written(figure, figure.course_larger):
        yield


@contextmanager
def written(figure: Figure, larger: float) -> Iterator[None]:
    """Write a figure in the letters of slides, and as much larger, for a while."""
    texts = [(text, text.get_fontfamily(), text.get_fontsize()) for text in figure.findobj(Text)]
    try:
        for text, names, size in texts:
            text.set_fontsize(size * larger)
            if names == ["sans-serif"]:  # code keeps its columns
                text.set_fontfamily(family())
        yield
    finally:
        for text, names, size in texts:
            text.set_fontfamily(names)
            text.set_fontsize(size)


def fits(figure: Figure, read: tuple, larger: float) -> bool:
    """Return whether no letters touch more in the letters of slides than in its own."""
    with of_pages(), written(figure, larger):
        return not worse(places(figure), read, True)


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
        return "", words, *twins(figure)
    titles[0].set_text("")
    try:
        return " ".join(said[0].split()), words, *twins(figure)
    finally:
        titles[0].set_text(said[0])


def worse(now: tuple, before: tuple, larger: bool) -> bool:
    """Return whether texts touch more than before, or one left its box, or, if they are larger, lies on an edge."""
    return not now[0] <= before[0] or now[1] != before[1] or now[2] > before[2] or larger and not now[3] <= before[3]


def places(figure: Figure) -> tuple[set, set, int, set]:
    """Return which texts touch each other, which stand inside which patch, how many ticks touch, who is on an edge."""
    figure.draw_without_rendering()  # a third of the time, and everything is where it will be
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
    lines = [(id(line), line.get_transform().transform_path(line.get_path())) for ax in seen for line in ax.lines
             if line.get_visible()]
    dots = [(id(some), ax.transData.transform(some.get_offsets())) for ax in seen for some in ax.collections
            if len(some.get_offsets())]
    crossed = {(one, other) for one, a in texts for other, path in lines if path.intersects_bbox(a, filled=False)}
    crossed |= {(one, other) for one, a in texts for other, places in dots
                if a.expanded(1 + AIR / max(a.width, 1), 1 + AIR / max(a.height, 1)).count_contains(places)}
    crossed |= {(one, other) for one, a in texts for other, b in patches if a.padded(2).overlaps(b)} - inside
    return touching(texts), inside, sum(len(touching(names)) for names in labels), crossed


def touching(texts: list) -> set:
    return {(one, other) for (one, a), (other, b) in combinations(texts, 2) if a.overlaps(b)}
