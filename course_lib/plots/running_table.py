"""The running table as bars: what each rank holds under each strategy, and how a step's time is spent."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.lessons.running_table import Row
from course_lib.plots import BLUE, GREEN, ORANGE, PURPLE, RED, SMALLEST, WIDTH, Picture

HELD = (("weights", BLUE), ("gradients", ORANGE), ("optimizer", PURPLE), ("activations", GREEN))


def strategy_bars(rows: Sequence[Row], title: str | None = None) -> list[Axes]:
    """Draw bytes held by a rank (left) and the seconds of a step (right), a bar per row. Text twin: `table(rows)`."""
    figure, (held, spent) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.3 + 0.42 * len(rows)), layout="constrained", sharey=True, FigureClass=Picture
    )
    places = range(len(rows))
    left = [0.0] * len(rows)
    for part, colour in HELD:
        sizes = [getattr(row, part) / 1e6 for row in rows]
        held.barh(places, sizes, left=left, color=colour, label=part, height=0.7)
        left = [before + size for before, size in zip(left, sizes, strict=True)]
    held.set_xlabel("MB held by a rank", fontsize=10)
    computing = [(1 - row.waiting) * row.seconds * 1e3 for row in rows]
    waiting = [row.waiting * row.seconds * 1e3 for row in rows]
    spent.barh(places, computing, color=GREEN, label="computing", height=0.7)
    spent.barh(places, waiting, left=computing, color=RED, hatch="///", edgecolor="white", label="waiting", height=0.7)
    spent.set_xlabel("ms of a step (simulated)", fontsize=10)
    names = [f"{row.strategy}\n{row.cluster}, {row.ranks} rank{'s' * (row.ranks > 1)}" for row in rows]
    held.set_yticks(places, names, fontsize=SMALLEST)
    held.invert_yaxis()
    for ax, ends in ((held, left), (spent, [row.seconds * 1e3 for row in rows])):
        for place, end in zip(places, ends, strict=True):
            ax.text(end, place, f" {end:.3g}", va="center", fontsize=SMALLEST)
        ax.set_xlim(0, 1.15 * max(ends))
        ax.tick_params(labelsize=SMALLEST)
        ax.legend(fontsize=SMALLEST, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
        for name in ("top", "right"):
            ax.spines[name].set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return [held, spent]
