"""Buckets: which gradients a plan puts together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    FACES,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    arrow,
    box,
    say,
    sheet,
)


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
            name = f"{place}: {sizes[place]}\nbytes" if width < 3 else f"parameter {place}:\n{sizes[place]} bytes"
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
