"""Pictures that only the slides of chapter 3 have."""

from __future__ import annotations

from math import cos, pi, sin

from kit import box, sheet, words
from matplotlib.figure import Figure

from course_lib.plots import canvas


def through_one_port() -> list[Figure]:
    """Everybody's gradient goes into rank 0, and then the total goes out of it."""
    return [_star(outwards) for outwards in (False, True)]


def _star(outwards: bool) -> Figure:
    ax = sheet(12, 10)
    ax.set_aspect("equal")
    for place in range(8):
        x, y = 6 + 4.3 * cos(pi * place / 4), 5.3 + 3.7 * sin(pi * place / 4)
        box(ax, x - 0.6, y - 0.45, 1.2, 0.9, canvas.FACES[place % 4 + 1], "")
        ends = [(6 + 0.78 * (x - 6), 5.3 + 0.78 * (y - 5.3)), (6 + 0.3 * (x - 6), 5.3 + 0.3 * (y - 5.3))]
        canvas.arrow(ax, *(reversed(ends) if outwards else ends), colour=canvas.COLLECTIVE, line=2)
    box(ax, 4.9, 4.6, 2.2, 1.4, canvas.FACES[0], "rank 0", line=2)
    words(ax, 6, 0.4, "1,023 totals go out" if outwards else "1,023 gradients come in", ha="center",
          colour=canvas.COLLECTIVE, weight="bold")
    return ax.figure
