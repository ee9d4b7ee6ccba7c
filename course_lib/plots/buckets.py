"""Buckets: which gradients a plan puts together, and how those of one bucket travel as one flat tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
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

PIECES = (2.0, 3.2, 2.2, 2.7)  # the parameters of a bucket, drawn as wide as they are long
LAST = 7  # the number of the first of them
GAP = 1.5  # between two of them, outside the flat tensor


def bucket_packing(ax: Any = None) -> Axes:
    """Draw the way of a bucket on one rank: gradients into one flat tensor, one all-reduce, and back again."""
    ax = sheet(3.0, 22, 8.4, ax)
    names = [f"parameter {LAST - place}" for place in range(len(PIECES))]
    colours = FACES[:4]
    for top, title in ((6.6, "the gradients\nof the bucket"), (0.4, "their means")):
        ax.text(4.0, top + 0.75, title, ha="right", va="center", fontsize=SMALLEST)
        x = 4.6
        for name, wide, colour in zip(names, PIECES, colours, strict=True):
            box(ax, x, top, wide + 0.2, 1.5, colour, name.replace(" ", "\n"))
            x += wide + GAP
    ax.text(4.0, 4.25, "one flat tensor", ha="right", va="center", fontsize=SMALLEST)
    inner, x = 6.2, 4.6
    for name, wide, colour in zip(names, PIECES, colours, strict=True):
        box(ax, inner, 3.5, wide + 0.2, 1.5, colour, name.replace(" ", "\n"))
        arrow(ax, (x + wide / 2, 6.6), (inner + wide / 2, 5.1))
        arrow(ax, (inner + wide / 2, 3.4), (x + wide / 2, 2.0))
        inner, x = inner + wide + 0.2, x + wide + GAP
    box(ax, 18.4, 3.5, 3.4, 1.5, RECEIVED, "one\nall-reduce", edge=COLLECTIVE, line=2.0)
    arrow(ax, (inner + 0.1, 4.25), (18.4, 4.25), "<|-|>", colour=COLLECTIVE, line=2.2)
    ax.text(4.0, 5.85, "at once: cat, start", ha="right", va="center", fontsize=SMALLEST, weight="bold")
    ax.text(4.0, 2.65, "later: wait,\nsplit, divide", ha="right", va="center", fontsize=SMALLEST, weight="bold")
    ax.set_title("A bucket is packed and sent at once, and unpacked only when the step needs it", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, f"On one rank: the gradients {', '.join(names)} are laid one after the other into one flat tensor; one "
            "all-reduce of it is started at once. Later the rank waits for it, splits the sum, divides it, and writes "
            "each piece to its parameter.")  # fmt: skip
    return ax


def bucket_plan(sizes: Sequence[int] = (100, 80, 20, 40), cap: int = 80, ax: Any = None) -> Axes:
    """Draw parameters as wide as their bytes, in the order of backward, and the buckets of at most `cap` bytes."""
    ax = sheet(3.2, 25.5, 9.2, ax)
    wide, left, gap = 19.2 / sum(sizes), 4.6, 0.7
    buckets: list[list[int]] = []
    for place in reversed(range(len(sizes))):
        if not buckets or sum(sizes[other] for other in buckets[-1]) + sizes[place] > cap:
            buckets.append([])
        buckets[-1].append(place)
    ax.text(left - 0.4, 6.55, "gradients,\nas they come", ha="right", va="center", fontsize=SMALLEST)
    ax.text(left - 0.4, 2.95, f"buckets of at\nmost {cap} bytes", ha="right", va="center", fontsize=SMALLEST)
    x = left
    for number, bucket in enumerate(buckets):
        begin = x
        for place in bucket:
            width = sizes[place] * wide
            name = f"{place}: {sizes[place]}" if width < 3 else f"parameter {place}:\n{sizes[place]} bytes"
            box(ax, x, 5.8, width, 1.5, FACES[number], name)
            arrow(ax, (x + width / 2, 5.7), (x + width / 2, 3.8))
            box(ax, x, 2.2, width, 1.5, FACES[number], str(place))
            x += width
        held = sum(sizes[place] for place in bucket)
        words = f"{held} bytes: full"
        if held > cap:
            words = f"{held} bytes: larger than\nthe cap, so it goes alone"
        elif held < cap and bucket[-1]:
            words = f"{held} bytes: {sizes[bucket[-1] - 1]} more\ndon't fit, so close it"
        ax.text((begin + x) / 2, 1.9, f"bucket {number}", ha="center", va="top", fontsize=SMALLEST, weight="bold")
        ax.text((begin + x) / 2, 1.15, words, ha="center", va="top", fontsize=SMALLEST,
                color=LIMIT if held > cap else INK)  # fmt: skip
        x += gap
    arrow(ax, (left, 8.1), (x - gap, 8.1))
    ax.text(left, 8.7, "time: backward reaches the last parameter first", va="center", fontsize=SMALLEST)
    ax.set_title("A bucket is filled in the order of backward, as long as the next gradient fits", fontsize=TITLE,
                 loc="left")  # fmt: skip
    told = [f"bucket {number} holds parameters {' and '.join(map(str, bucket))}, "
            f"{sum(sizes[place] for place in bucket)} bytes" for number, bucket in enumerate(buckets)]  # fmt: skip
    say(ax, f"Gradients come from the last parameter to the first. With at most {cap} bytes to a bucket, "
            + "; ".join(told) + ". Only a parameter larger than that may exceed it, alone.")
    return ax
