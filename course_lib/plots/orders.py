"""In which order parts are added: in a ring each chunk once, in a false ring once on each rank."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, WIDTH, box, say, sheet

LINE = 0.5  # inches of a row
NAME, PART, STEP = 0.8, 0.36, 0.58  # inches: a row's name, a part, and from part to part


def orders_of_adding(ranks: int = 4) -> Axes:
    """Draw on the left the order in which a ring adds up each chunk, on the right that of each rank of a false ring.

    The false ring is `whole_tensors_around` of `course_lib.lessons.ring`. Ranks that add for themselves have an order
    each, so what they end with differs; a chunk of a ring has one order, and all ranks get a copy of one result.
    """
    high = LINE * ranks + 1.0
    ax = sheet(high + 0.45, WIDTH, high)
    ring = [[(chunk + 1 + hop) % ranks for hop in range(ranks)] for chunk in range(ranks)]
    false = [[(rank - hop) % ranks for hop in range(ranks)] for rank in range(ranks)]
    told = [*_draw(ax, 0, high, "The ring, to the right", "chunk", ring),
            *_draw(ax, WIDTH / 2 + 0.4, high, "Your colleague's version", "rank", false)]
    serial = ring.index(list(range(ranks)))
    ax.text(NAME + STEP * ranks - 0.1, high - 0.75 - LINE * serial, "← serial order", va="center",
            fontsize=SMALLEST, color=INK)  # fmt: skip
    for left, words, colour in ((0, "each chunk is added up once, then copied", INK),
                                (WIDTH / 2 + 0.4, "each rank adds up whatever comes past", LIMIT)):
        ax.text(left, 0.1, words, va="center", fontsize=SMALLEST, color=colour)
    ax.set_title("In which order are the parts added?", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _draw(ax: Axes, left: float, high: float, title: str, name: str, orders: Sequence[Sequence[int]]) -> list[str]:
    """Draw a row for each order, its parts from left to right as they are added, and return its words."""
    ax.text(left, high - 0.2, title, va="center", fontsize=SMALLEST, weight="bold", color=INK)
    for row, order in enumerate(orders):
        y = high - 0.75 - LINE * row
        ax.text(left, y, f"{name} {row}", va="center", fontsize=SMALLEST, color=INK)
        for place, rank in enumerate(order):
            x = left + NAME + STEP * place
            box(ax, x, y - 0.16, PART, 0.32, FACES[rank], str(rank))
            if place:
                ax.text(x - (STEP - PART) / 2, y, "+", ha="center", va="center", fontsize=SMALLEST, color=INK)
    return [title, *(f"{name} {row} is {' + '.join(map(str, order))}" for row, order in enumerate(orders))]
