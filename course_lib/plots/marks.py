"""Marks on a timeline: how long a rank idles, what it spans, and the way of a micro-batch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from course_lib.plots.canvas import INK, SMALLEST, arrow

LEAST = 1e-9  # seconds: a shorter pause is rounding


def pauses(result: Any, rank: int, *, ends: bool = True) -> list[tuple[float, float]]:
    """Return (begin, end) of each time in which a rank does nothing; without `ends` only those between its actions."""
    mine = sorted((event.start, event.end) for event in result.events if event.rank == rank)
    found, clock = [], 0.0 if ends else mine[0][0]
    for start, end in mine:
        if start > clock + LEAST:
            found.append((clock, start))
        clock = max(clock, end)
    return [*found, (clock, result.seconds)] if ends and result.seconds > clock + LEAST else found


def mark_idle(ax: Axes, result: Any, rank: int) -> Axes:
    """Frame the idle times of one rank of a timeline and write into each how many seconds it takes; returns `ax`.

    What is too narrow for its number has it below the row, if that is the last one.
    """
    narrow = False
    for begin, end in pauses(result, rank):
        _frame(ax, rank, begin, end)
        words = f"{end - begin:g} s"
        look = {"ha": "center", "fontsize": SMALLEST, "zorder": 5}
        if end - begin > 0.03 * ax.get_xlim()[1]:
            ax.text((begin + end) / 2, rank, words, va="center", **look)
        elif rank == len(result) - 1:
            ax.text((begin + end) / 2, rank + 0.48, words, va="top", **look)
            narrow = True
    if narrow:
        ax.set_ylim(bottom=len(result) - 0.05)
    return ax


def mark_span(ax: Axes, result: Any, rank: int) -> Axes:
    """Draw above the first row from where to where one rank's own actions go, and how much of it is idle."""
    mine = [event for event in result.events if event.rank == rank]
    begin, end = min(event.start for event in mine), max(event.end for event in mine)
    idle = sum(end - begin for begin, end in pauses(result, rank, ends=False))
    top = ax.get_ylim()[1] - 0.75
    ax.set_ylim(ax.get_ylim()[0], top)
    arrow(ax, (begin, top + 0.4), (end, top + 0.4), "|-|,widthA=0.3,widthB=0.3", colour=INK, line=1.6)
    words = f"rank {rank}'s own span: {end - begin:g} s, {f'{idle:g} s of it idle' if idle > LEAST else 'no pause'}"
    place = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.text((begin + end) / 2, top + 0.4, words, ha="center", va="center", fontsize=SMALLEST, bbox=place)
    return ax


def mark_stairs(ax: Axes, result: Any) -> Axes:
    """Frame what lies outside each rank's own span, before its first action and after its last one; returns `ax`."""
    for rank in range(len(result)):
        inside = pauses(result, rank, ends=False)
        for begin, end in pauses(result, rank):
            if (begin, end) not in inside:
                _frame(ax, rank, begin, end)
    return ax


def mark_put_off(ax: Axes, result: Any) -> Axes:
    """Frame the weight parts that are left when a rank has run its last I; how many stands behind the row."""
    for rank in range(len(result)):
        mine = sorted((event for event in result.events if event.rank == rank), key=lambda event: event.start)
        last = max(place for place, event in enumerate(mine) if event.action.kind == "I")
        late = mine[last + 1 :]
        if late:
            _frame(ax, rank, late[0].start, late[-1].end)
            right = late[-1].end + 0.01 * ax.get_xlim()[1]
            ax.text(right, rank, f"{len(late)} left", va="center", fontsize=SMALLEST)
    return ax


def _frame(ax: Axes, rank: int, begin: float, end: float) -> None:
    ax.add_patch(Rectangle((begin, rank - 0.4), end - begin, 0.8, fill=False, edgecolor=INK, linewidth=1.6, zorder=4,
                           clip_on=False))  # fmt: skip


def mark_way(ax: Axes, result: Any, microbatch: int = 0, *, back: bool = False, alone: bool = False) -> Axes:
    """Draw one micro-batch's way through a timeline, its forwards and then its backwards; returns `ax`.

    A step to the same rank or to its neighbour is a strong line, and the micro-batch's own number stands in front of
    it. A step across several ranks is a thin dotted line behind all numbers. With `back` only the backwards are drawn.
    With `alone` the numbers on the way are the only ones left.
    """
    steps = []
    for event in result.events:
        action = event.action
        kinds = {"B", "I"} if back else {"F", "B", "I", "FB"}  # W is on nobody's way
        if action.kind in kinds and microbatch in (action.microbatch, (action.back or [None])[0]):
            steps.append((event.start, event.end, event.rank))
    steps.sort()
    points = [((start + end) / 2, rank + 0.25) for start, end, rank in steps]
    ax.plot(*zip(*points, strict=True), color=INK, linestyle="none", marker="o", markersize=4, zorder=6)
    for (x0, y0), (x1, y1) in pairwise(points):
        far = abs(y1 - y0) > 1.5
        (line,) = ax.plot([x0, x1], [y0, y1], color=INK, linewidth=1.0 if far else 1.6, zorder=2.5 if far else 5,
                          linestyle=":" if far else "-")  # fmt: skip
        if not far:
            line.set_path_effects([withStroke(linewidth=3.6, foreground="white")])
    places = {((start + end) / 2, rank) for start, end, rank in steps}
    for text in list(ax.texts):
        if text.get_text() == str(microbatch) and text.get_position() in places:
            text.set(zorder=7, path_effects=[withStroke(linewidth=2.4, foreground="white")])
        elif alone and text.get_text().isdigit():
            text.remove()
    return ax
