"""What the pictures of sketches/ share: a sheet beside words or across a slide, and bars of what is compared.

An inch of a sheet has 180 pixels of a slide of 1280 x 720, so letters of 11 points have 27.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.plots import canvas
from course_lib.plots.dark import luminance
from course_lib.plots.time import look

BESIDE, ACROSS = (3.6, 3.0), (6.5, 3.0)  # inches of a picture beside words, and of one that has the slide
LETTERS, BIG = 11, 13  # points: no letter is smaller, and what is read first is as large
PALE, GREY_WORDS = "#F4F4F4", "#666666"  # the ground of a frame; letters of what counts less
MONO = {"family": "monospace"}
DARK = 0.28  # luminance up to which a fill has white letters, with a contrast of more than 3


def sheet(wide: float, high: float, size: tuple[float, float] = BESIDE) -> Axes:
    """Return axes without frame or ticks on a figure of this size, `wide` by `high` units of their own."""
    figure = canvas.Picture(figsize=size, layout="constrained")  # of no window, so that none needs to be closed
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)
    ax = figure.add_subplot()
    ax.set(xlim=(0, wide), ylim=(0, high))
    ax.axis("off")
    return ax


def axes(size: tuple[float, float] = BESIDE) -> Axes:
    """Return axes with ticks on a figure of this size, without lines above and to the right."""
    ax = canvas.Picture(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=LETTERS)
    return ax


def steps(places: Iterable[int]) -> Callable[[Callable], Callable]:
    """Make of a function that draws a picture as it is at a step one that returns it at each of these steps."""
    return lambda draw: wraps(draw)(lambda: [draw(step) for step in places])


def box(ax: Axes, x: float, y: float, wide: float, high: float, colour: str, text: str = "", *,
        size: float = LETTERS, **look) -> None:  # fmt: skip
    """Draw a rounded box with its lower left corner at (x, y), and a text in its middle."""
    canvas.box(ax, x, y, wide, high, colour, text, size=size, **look)


def words(ax: Axes, x: float, y: float, text: str, *, size: float = LETTERS, colour: str = canvas.INK,
          **look) -> None:  # fmt: skip
    """Write at (x, y), from its left edge and its middle on unless `ha` and `va` say otherwise."""
    ax.text(x, y, text, fontsize=size, color=colour, **{"ha": "left", "va": "center", **look})


def _is_dark(colour: str) -> bool:
    *rgb, alpha = to_rgba(colour)
    return alpha > 0 and luminance(np.array(rgb)) <= DARK


def bars(names: Sequence[str], lengths: Sequence[float], labels: Sequence[str], colours: Sequence[str] | str,
         size: tuple[float, float] = BESIDE) -> Figure:  # fmt: skip
    """Return bars from zero, one below the other, each with its name above it and its value behind it or, if it is
    long, at its end."""
    ax = sheet(1, len(names), size)
    longest = max(lengths)
    colours = [colours] * len(names) if isinstance(colours, str) else colours
    for place, (name, length, label, colour) in enumerate(zip(names, lengths, labels, colours, strict=True)):
        low = len(names) - 1 - place
        share = length / longest
        ax.barh(low + 0.3, share, 0.42, color=colour)
        words(ax, 0, low + 0.7, name)
        inside = share > 0.55
        words(ax, share - 0.02 if inside else share + 0.02, low + 0.3, label, weight="bold",
              ha="right" if inside else "left", colour="white" if inside and _is_dark(colour) else canvas.INK)
    canvas.say(ax, "; ".join(f"{name}: {label}" for name, label in zip(names, labels, strict=True)))
    return ax.figure


def bar(ax: Axes, x: float, y: float, wide: float, high: float, colour: str, text: str = "", *, ink: str = "",
        size: float = LETTERS, **look) -> None:  # fmt: skip
    """Draw a bar without a frame, with its lower left corner at (x, y), and a text in its middle that can be read."""
    ax.add_patch(Rectangle((x, y), wide, high, facecolor=colour, **look))
    if text:
        words(ax, x + wide / 2, y + high / 2, text, ha="center", weight="bold", size=size,
              colour=ink or ("white" if _is_dark(colour) else canvas.INK))


def frame(ax: Axes, x: float, y: float, wide: float, high: float, colour: str = PALE, **look) -> None:
    """Draw a rounded frame behind what stands in it, with its lower left corner at (x, y)."""
    look = {"edgecolor": canvas.INK, "linewidth": 1, "zorder": 0} | look
    ax.add_patch(FancyBboxPatch((x, y), wide, high, boxstyle="round,pad=0,rounding_size=0.6", facecolor=colour, **look))


def line(ax: Axes, *points: tuple[float, float], colour: str = canvas.INK, wide: float = 1.5, **look) -> None:
    """Draw a line through these points, so many points wide."""
    ax.plot(*zip(*points, strict=True), **{"color": colour, "linewidth": wide, "solid_capstyle": "butt"} | look)


def span(ax: Axes, left: float, right: float, y: float, told: str = "", colour: str = canvas.INK,
         up: float = 1.5) -> None:  # fmt: skip
    """Draw a line with ends from left to right, and above it what it stands for."""
    canvas.arrow(ax, (left, y), (right, y), "|-|,widthA=0.25,widthB=0.25", line=1.6, colour=colour)
    words(ax, (left + right) / 2, y + up, told, ha="center", colour=colour, weight="bold")


def timeline(ax: Axes, events: Iterable, area: tuple[float, float, float, float], *, ranks: int, until: float,
             end: float | None = None, now: float | None = None, label: Callable = lambda event: "",
             size: float = LETTERS, share: float = 0.84) -> Callable:  # fmt: skip
    """Draw a replay's events in the area (x, y, wide, high) on grey rows, the one of rank 0 at the top.

    The area is `until` seconds wide, and the grey ends at `end`. What begins at `now` or later is not drawn yet. A
    second chunk is pale. Returns the function that says where (second, rank) lies, in the middle of the row.
    """
    x, y, wide, high = area
    row, second = high / ranks, wide / until
    for rank in range(ranks):
        low = y + high - (rank + (1 + share) / 2) * row
        bar(ax, x, low, second * (end or until), share * row, canvas.WAITING)
    for event in events:
        if now is not None and event.start >= now - 1e-9:
            continue
        left, length = x + second * event.start, second * (event.end - event.start)
        low = y + high - (event.rank + (1 + share) / 2) * row
        colour = to_rgb(look(event.kind.split()[0])[0])
        if event.action.chunk and event.kind != "FB":
            colour = tuple(1 - 0.5 * (1 - part) for part in colour)
        bar(ax, left, low, length, share * row, colour, edgecolor="white", linewidth=0.7 if length > 0.4 else 0)
        if said := label(event):
            words(ax, left + length / 2, low + share * row / 2 - 0.05, said, ha="center", size=size)
    return lambda time, rank: (x + second * time, y + high - (rank + 0.5) * row)
