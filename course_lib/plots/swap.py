"""Swap: why two ranks that both send first wait for each other for ever, drawn as a circle."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, arrow, box, say, sheet

WIDE, HIGH = 4.6, 1.5  # of the box of a call


def swap_circle(ax: Any = None) -> Axes:
    """Draw the four calls of two ranks that swap with send and then recv, each with an arrow to what it waits for."""
    ax = sheet(2.7, 22, 7.2, ax)
    ax.set_title("Each call waits for the next one around the circle, so none of them ever ends", fontsize=TITLE,
                 loc="left")  # fmt: skip
    left, right, above, below = 2.2, 15.2, 5.2, 0.6
    for x, y, rank, call in ((left, above, 0, "send"), (right, above, 1, "recv"), (right, below, 1, "send"),
                             (left, below, 0, "recv")):  # fmt: skip
        reached = call == "send"
        words = f"rank {rank}: {call}\n" + ("waits here" if reached else "never reached")
        box(ax, x, y, WIDE, HIGH, FACES[rank] if reached else "white", words, edge=LIMIT if reached else INK,
            line=2.4 if reached else 0.9)  # fmt: skip
    for y, way in ((above, 1), (below, -1)):
        start, end = (left + WIDE, right)[::way]
        arrow(ax, (start + 0.1 * way, y + HIGH / 2), (end - 0.1 * way, y + HIGH / 2), colour=LIMIT, line=2.2)
        ax.text((start + end) / 2, y + HIGH / 2 + 0.42, "a send ends when the other rank receives", ha="center",
                va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
    for x, start, end, words in ((right, above - 0.1, below + HIGH + 0.1, "its turn comes after\nrank 1's own send"),
                                 (left, below + HIGH + 0.1, above - 0.1, "its turn comes after\nrank 0's own send")):
        arrow(ax, (x + WIDE / 2, start), (x + WIDE / 2, end), colour=LIMIT, line=2.2)
        side = 1 if x == left else -1
        ax.text(x + WIDE / 2 + 0.4 * side, (start + end) / 2, words, ha="left" if x == left else "right", va="center",
                fontsize=SMALLEST, color=INK)  # fmt: skip
    say(ax, "Rank 0's send waits for rank 1's recv, whose turn comes after rank 1's own send; that waits for rank 0's "
            "recv, whose turn comes after rank 0's own send: a circle of four. Neither recv is ever reached.")
    return ax
