"""Buckets: gradients that travel as one flat tensor, and the order in which ranks have to start them."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    GRADIENTS,
    INK,
    LIMIT,
    RECEIVED,
    SMALLEST,
    TITLE,
    arrow,
    box,
    say,
    sheet,
)

PIECES = (("bias", 1.5), ("weight", 3.4), ("bias", 1.5), ("weight", 2.9))  # drawn as wide as they are long


def bucket_packing(ax: Any = None) -> Axes:
    """Draw the way of a bucket on one rank: gradients into one flat tensor, one all-reduce, and back again."""
    ax = sheet(3.0, 22, 8.4, ax)
    names = [f"{name} {7 - place}" for place, (name, _) in enumerate(PIECES)]
    colours = FACES[:4]
    for top, title in ((6.6, "the gradients\nof the bucket"), (0.4, "their means")):
        ax.text(4.0, top + 0.75, title, ha="right", va="center", fontsize=SMALLEST)
        x = 4.6
        for name, (_, wide), colour in zip(names, PIECES, colours, strict=True):
            box(ax, x, top, wide + 0.2, 1.5, colour, name.replace(" ", "\n"), edge=GRADIENTS, line=1.6)
            x += wide + 1.6
    ax.text(4.0, 4.25, "one flat tensor", ha="right", va="center", fontsize=SMALLEST)
    inner, x = 6.6, 4.6
    for name, (_, wide), colour in zip(names, PIECES, colours, strict=True):
        box(ax, inner, 3.5, wide + 0.2, 1.5, colour, name.replace(" ", "\n"))
        arrow(ax, (x + wide / 2, 6.6), (inner + wide / 2, 5.1))
        arrow(ax, (inner + wide / 2, 3.4), (x + wide / 2, 2.0))
        inner, x = inner + wide + 0.2, x + wide + 1.6
    box(ax, 18.3, 3.5, 3.5, 1.5, RECEIVED, "one\nall-reduce", edge=COLLECTIVE, line=2.0)
    arrow(ax, (inner + 0.1, 4.25), (18.3, 4.25), "<|-|>", colour=COLLECTIVE, line=2.2)
    ax.text(20.05, 5.6, "at once: cat, start", ha="center", fontsize=SMALLEST)
    ax.text(20.05, 2.15, "later: wait,\nsplit, divide", ha="center", fontsize=SMALLEST)
    ax.set_title("A bucket is packed and sent at once, and unpacked only when the step needs it", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, f"On one rank: the gradients {', '.join(names)} are laid one after the other into one flat tensor; one "
            "all-reduce of it is started at once. Later the rank waits for it, splits the sum, divides it, and writes "
            "each piece to its parameter.")  # fmt: skip
    return ax


def launch_order(ax: Any = None) -> Axes:
    """Draw two ranks that start the same two buckets in another order, and in the order of the plan."""
    ax = sheet(3.2, 22, 9.4, ax)
    wrong = (("bucket 0", "bucket 1"), ("bucket 1", "bucket 0"))
    right = (("bucket 0", "bucket 1"), ("bucket 0", "bucket 1"))
    for left, calls, title, good in ((0.0, wrong, "each starts what is ready first", False),
                                     (11.6, right, "both start in the order of the plan", True)):  # fmt: skip
        ax.text(left + 5.9, 8.3, title, ha="center", fontsize=SMALLEST, weight="bold",
                color=INK if good else LIMIT)  # fmt: skip
        for rank, row in enumerate(calls):
            y = 5.8 if rank == 0 else 0.6
            ax.text(left + 1.6, y + 0.7, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST)
            for place, name in enumerate(row):
                x = left + 2.1 + 4.4 * place
                box(ax, x, y, 3.6, 1.4, FACES[int(name[-1])], name)
                if rank == 0:
                    arrow(ax, (x + 1.8, 5.7), (x + 1.8, 2.1), "<|-|>", colour=COLLECTIVE if good else LIMIT, line=2.0)
                    which = "first" if place == 0 else "second"
                    verdict = "sum" if good else "mixed up!"
                    ax.text(x + 2.05, 3.9, f"{which}:\n{verdict}", va="center", fontsize=SMALLEST,
                            color=INK if good else LIMIT)  # fmt: skip
    ax.set_title("The n-th all-reduce of a rank meets the n-th of every other rank, whatever is in it", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "Where each starts "
            "what is ready first, rank 0 starts bucket 0 and then bucket 1, rank 1 the other way round: bucket 0 is "
            "added to bucket 1.\nIn the order of the plan both start bucket 0 first, and the sums are right.")
    return ax
