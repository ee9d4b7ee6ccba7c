"""Swap: the calls of two ranks in their order, once as a deadlock and once as a way out."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, GREY, INK, LIMIT, SENT, SMALLEST, TITLE, arrow, box, say, sheet


def swap_calls(ax: Any = None) -> Axes:
    """Draw what two ranks call, from top to bottom, if both send first, and if both send without waiting."""
    ax = sheet(3.4, 22, 9.0, ax)
    ax.set_ylim(0.9, 9.3)
    words = "Two ranks swap a tensor: with send both stand still, with isend both go on"
    ax.set_title(words, fontsize=TITLE, loc="left")
    stuck, free = (0.9, 7.1), (12.3, 18.5)
    for middle, words in ((5.5, "send, then recv: a deadlock"), (16.9, "isend, then recv, then wait")):
        ax.text(middle, 8.8, words, ha="center", va="center", fontsize=SMALLEST, weight="bold", color=INK)
    for rank in range(2):
        _column(ax, stuck[rank], rank, ["send  ✗", "recv"], reached=1)
        _column(ax, free[rank], rank, ["isend", "recv", "wait"], reached=3)
    for start, end in ((stuck[0] + 3, stuck[1]), (stuck[1], stuck[0] + 3)):
        look = {"arrowstyle": "-|>", "color": LIMIT, "linewidth": 2.2, "shrinkA": 0, "shrinkB": 0,
                "linestyle": (0, (2, 1.5))}  # fmt: skip
        ax.annotate("", (end, 4.0), (start, 6.1), arrowprops=look)
    for start, end in ((free[0] + 3, free[1]), (free[1], free[0] + 3)):
        arrow(ax, (start, 6.1), (end, 4.0), colour=SENT, line=2.4)
    ax.text(5.5, 2.3, "recv is never reached, because each send\nwaits for the other rank's recv", ha="center",
            va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
    say(ax, "Left: rank 0 calls send and stands there, since send waits for rank 1's recv; rank 1 calls send and "
            "stands there, since it waits for rank 0's recv. Neither recv is ever reached.\n"
            "Right: both ranks call isend, which returns at once, then recv, where the other's message arrives, and "
            "then wait.")  # fmt: skip
    return ax


def _column(ax: Axes, x: float, rank: int, calls: list[str], reached: int) -> None:
    """Draw a rank and its calls; those that are not `reached` are only dashed frames."""
    ax.text(x + 1.5, 7.75, f"rank {rank}", ha="center", va="center", fontsize=SMALLEST, color=INK)
    for place, call in enumerate(calls):
        y = 5.5 - 2.1 * place
        there = place < reached
        edge = (LIMIT if "✗" in call else INK) if there else GREY
        box(ax, x, y, 3.0, 1.3, FACES[rank] if there else "white", call, edge=edge, line=2.4 if "✗" in call else 1.0)
        if place:
            arrow(ax, (x + 1.5, y + 2.1), (x + 1.5, y + 1.3), colour=edge, line=1.0)
