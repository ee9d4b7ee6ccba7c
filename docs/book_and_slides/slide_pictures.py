"""Runs inside a chapter's kernel, too: what slides show of its figures.

For slides a picture is written in their letters, and drawn once more, smaller and lower, as far as its letters do not
touch: scaled to the slide they are larger there. One that a speaker builds up is drawn once for each step, too: what
lies right of a place on its x axis, or below one on its y axis, is covered, and so is what the titles of its panels
say of the end. executed.py calls `install`.
"""

from __future__ import annotations

import base64

from figures import in_letters, places, pulled_apart, worse
from IPython import get_ipython
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.plots import canvas

LOWER = "application/vnd.course.lower+png"
LOWER_DARK = "application/vnd.course.lower-dark+png"
BUILD = "application/vnd.course.build+json"  # the images of all steps but the last, which is the picture
LOW = 4.1  # inches: a picture of canvas.WIDTH that is no higher can be as wide as a slide
STEP = 0.3  # inches less, as long as no letters touch
SMALLER = (0.8, 0.84, 0.88, 0.92, 1.0)  # parts of its size in which a picture is tried


BUILDS: dict[str, dict[str, list[float]]] = {}  # by the source of a cell: its axis, and where each step ends
UNSEEN: set[str] = set()  # the sources of cells whose pictures are on no slide


def install(builds: dict[str, dict[str, list[float]]] | None = None, unseen: set[str] | None = None) -> None:
    BUILDS.update(builds or {})
    UNSEEN.update(unseen or ())
    Figure._repr_mimebundle_ = for_slides


def for_slides(figure: Figure, include=None, exclude=None) -> dict[str, object]:
    """Return what slides show of a figure beside its own images: lower ones, if it is high, and those of its steps."""
    own, found = tuple(map(float, figure.get_size_inches())), {}
    shell = get_ipython()
    source = shell.user_ns["In"][-1].strip() if shell else ""
    if source in UNSEEN:
        return {}
    steps = BUILDS.get(source, {})
    read = places(figure)
    with in_letters(figure):
        try:
            figure.set_size_inches(slide_size(figure, read))
            found |= dict(zip((LOWER, LOWER_DARK), images(figure), strict=True))
            for axis, ends in steps.items():
                found[BUILD] = [built(figure, axis, end) for end in ends]
        finally:
            figure.set_size_inches(own)
    return found


def slide_size(figure: Figure, read: tuple) -> tuple[float, float]:
    """Return how small and low a wide figure can be so that its letters touch no more than they did: `read`."""
    wide, high = own = tuple(map(float, figure.get_size_inches()))
    if wide < canvas.WIDTH - 0.1:
        return own
    sizes = {(wide * part, max(min(high, LOW) * part, high * part - STEP * step))
             for part in SMALLER for step in range(9)}
    tried = sorted((size for size in sizes if room(size) > room(own)), key=room, reverse=True)
    found, low, end = own, 0, len(tried)
    try:
        while low < end:  # a larger size leaves letters more room, so half of those left need not be tried
            middle = (low + end) // 2
            figure.set_size_inches(size := tried[middle])
            if figure.get_tightbbox().width <= 1.02 * size[0] and not worse(places(figure), read, size[0] < wide):
                found, end = size, middle
            else:
                low = middle + 1
    finally:
        figure.set_size_inches(own)
    return found


def room(size: tuple[float, float]) -> float:
    """Return how many pixels of a slide an inch of a picture of this size has."""
    return min(1152 / size[0], 560 / size[1])


def images(figure: Figure) -> list[str]:
    *_, light, dark = pulled_apart(figure)
    return [base64.b64encode(image).decode() for image in (light, dark)]


def built(figure: Figure, axis: str, end: float) -> list[str]:
    """Return the images of a figure, light and dark, of which what lies behind a place on an axis is not yet seen."""
    figure.canvas.draw()
    covers, hidden, spines = [], [], []
    titles = [(title, title.get_text()) for ax in figure.axes for title in (ax.title, ax._left_title, ax._right_title)
              if title.get_text()]
    for ax in [ax for ax in figure.axes if ax.get_visible()]:
        across, up = ax.transData.transform((end, end))
        right, above = ax.transAxes.inverted().transform((across, up))
        if axis == "x":
            cover = Rectangle((right, -0.02), max(0, 1.02 - right), 1.04, transform=ax.transAxes)
            behind = [text for text in ax.texts if text.get_window_extent().x1 > across + 1]
        else:
            cover = Rectangle((-0.3, -0.02), 1.32, max(0, above + 0.02), transform=ax.transAxes)
            behind = [text for text in ax.texts if text.get_window_extent().y0 < up - 1]
        lines = [(spine, spine.get_zorder()) for spine in ax.spines.values()]  # the axes stay seen
        spines += lines
        for spine, _ in lines:
            spine.set_zorder(1001)
        cover.set(facecolor="white", edgecolor="none", zorder=1000, clip_on=False, in_layout=False)
        covers.append(ax.add_artist(cover))
        hidden += [text for text in behind if text.get_visible()]
    hidden += [title for title, words in titles if ": " not in words]
    alphas = [text.get_alpha() for text in hidden]  # what is invisible has no room in the layout
    try:
        for title, words in titles:  # a name may stand there from the beginning, not what is found
            title.set_text(words.partition(": ")[0] if title not in hidden else words)
        for text in hidden:
            text.set_alpha(0)
        return images(figure)
    finally:
        for text, alpha in zip(hidden, alphas, strict=True):
            text.set_alpha(alpha)
        for title, words in titles:
            title.set_text(words)
        for spine, order in spines:
            spine.set_zorder(order)
        for cover in covers:
            cover.remove()
