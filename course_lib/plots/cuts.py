"""A product y = xW whose matrix is cut: which rank holds what, and what each rank's product is of y."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import GREY, SERIES, SMALLEST, WIDTH, legend_below
from course_lib.plots.words import Picture, say

THIN = 0.13  # how high a row vector is drawn, beside a square matrix of height 1
X, W, Y = 0.0, 1.3, 2.75  # where each is drawn


def cut_product(ranks: int = 4) -> list[Axes]:
    """Draw y = xW with W cut by columns (left) and by rows (right), a colour for each of at most eight ranks."""
    if not 1 <= ranks <= len(SERIES):
        raise ValueError(f"ranks={ranks}: there are colours for 1 to {len(SERIES)}")
    _, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.3), layout="constrained", FigureClass=Picture)
    for ax, name in zip(axes, ("W cut by columns", "W cut by rows"), strict=True):
        ax.set_title(name, fontsize=11, loc="left")
        ax.set_xlim(-0.05, Y + 1.05)
        ax.set_ylim(-0.32, 1.05)
        ax.set_aspect("equal")
        ax.axis("off")
        for left, right, sign in ((X + 1, W, "×"), (W + 1, Y, "=")):
            ax.text((left + right) / 2, 0.5, sign, ha="center", va="center", fontsize=12)
    by_columns, by_rows = axes
    part, middle, summand = 1 / ranks, 0.5 - THIN / 2, min(THIN, 0.4 / ranks)
    _box(by_columns, X, middle, 1, THIN, None, "x")
    for rank in range(ranks):
        _box(by_columns, W + rank * part, 0, part, 1, rank)
        _box(by_columns, Y + rank * part, middle, part, THIN, rank)
        _box(by_rows, X + rank * part, middle, part, THIN, rank)
        _box(by_rows, W, 1 - (rank + 1) * part, 1, part, rank)
        _box(by_rows, Y, 1 - (rank + 0.5) * part - summand / 2, 1, summand, rank)
        if rank:
            by_rows.text(Y + 0.5, 1 - rank * part, "+", ha="center", va="center", fontsize=12)
    says = ((by_columns, "x:\non every rank", "some columns", "some columns"),
            (by_rows, "x:\na part each", "some rows", "a summand"))  # fmt: skip
    for ax, of_x, of_w, of_y in says:
        for place, words in ((X, of_x), (W, f"W:\n{of_w} each"), (Y, f"y:\n{of_y} each")):
            ax.text(place + 0.5, -0.08, words, ha="center", va="top", fontsize=SMALLEST)
    say(by_columns, f"{ranks} ranks: x on every rank, some columns of W on each, whose product is as many columns of y")
    say(by_rows, f"{ranks} ranks: a part of x and some rows of W on each, whose product is a summand of all of y")
    legend_below(by_columns, [Patch(color=SERIES[rank], label=f"rank {rank}") for rank in range(ranks)], 8)
    return list(axes)


def _box(ax: Axes, x: float, y: float, width: float, height: float, rank: int | None, text: str = "") -> None:
    colour = "white" if rank is None else SERIES[rank]
    edge = GREY if rank is None else "white"
    ax.add_patch(plt.Rectangle((x, y), width, height, facecolor=colour, edgecolor=edge, linewidth=1.2))
    if text:
        ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=SMALLEST)
