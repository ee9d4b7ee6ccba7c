"""Replicas: one model on every rank, each with its own rows of the batch."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    INK,
    RECEIVED,
    SMALLEST,
    TITLE,
    WEIGHTS,
    arrow,
    box,
    say,
    sheet,
)


def replicas(ranks: int = 4, rows: int = 32, ax: Any = None) -> Axes:
    """Draw a step of data parallelism: a batch cut by rows, a gradient each, one all-reduce, and the same step."""
    each, gap = 4.4, 0.6
    left = [3.4 + (each + gap) * rank for rank in range(ranks)]
    whole = left[-1] + each - left[0]
    ax = sheet(5.5, left[-1] + each + 0.4, 15.3, ax)
    shared = {"edge": WEIGHTS, "line": 2.0}  # the same on all ranks
    share = rows // ranks
    names = {14.35: f"one batch\nof {rows} rows", 11.65: "the same\nweights", 8.95: "different\ngradients",
             6.05: "one\nall-reduce", 3.2: "the same\ngradient", 0.85: "the same\nweights again"}  # fmt: skip
    for y, words in names.items():
        ax.text(2.9, y, words, ha="right", va="center", fontsize=SMALLEST, color=INK)
    for rank, x in enumerate(left):
        middle, cut = x + each / 2, x - gap / 2
        box(ax, cut, 13.6, each + gap, 1.5, FACES[rank], f"rows {rank * share} to {(rank + 1) * share - 1}")
        arrow(ax, (middle, 13.6), (middle, 12.4))
        box(ax, x, 10.9, each, 1.5, "white", f"rank {rank}: the\nwhole model", **shared)
        arrow(ax, (middle, 10.9), (middle, 9.7))
        box(ax, x, 8.2, each, 1.5, FACES[rank], f"gradient $g_{rank}$\nof its own rows")
        arrow(ax, (middle, 8.2), (middle, 6.9), colour=COLLECTIVE, line=2.2)
        arrow(ax, (middle, 5.2), (middle, 3.9), colour=COLLECTIVE, line=2.2)
        box(ax, x, 2.5, each, 1.4, "white", "the mean $g$", **shared)
        arrow(ax, (middle, 2.5), (middle, 1.5))
        box(ax, x, 0.2, each, 1.3, "white", "after one\nstep with $g$", **shared)
    total = " + ".join(f"g_{rank}" for rank in range(ranks))
    box(ax, left[0], 5.2, whole, 1.7, RECEIVED, f"$g = ({total})\\,/\\,{ranks}$", size=TITLE)
    ax.set_title("Different rows give different gradients; one all-reduce gives every rank their mean",
                 fontsize=TITLE, loc="left")  # fmt: skip
    given = [f"rank {rank} gets rows {rank * share} to {(rank + 1) * share - 1}" for rank in range(ranks)]
    say(ax, f"One batch of {rows} rows is cut into {ranks} parts: {', '.join(given)}.\n"
            "Every rank holds the whole model with the same weights, and computes the gradient of its own rows: they "
            "differ.\nOne all-reduce gives every rank the mean of all gradients, the same one.\nEvery rank takes one "
            "step with it, and all have the same weights again; no weight is sent.")  # fmt: skip
    return ax
