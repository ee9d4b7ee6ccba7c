"""Replicas: one model on every rank, each with its own rows of the batch, and what keeps the copies equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    INK,
    LIMIT,
    RECEIVED,
    SERIES,
    SMALLEST,
    TITLE,
    WEIGHTS,
    WIDTH,
    Picture,
    arrow,
    box,
    new_axes,
    say,
    sheet,
)


def replicas(ranks: int = 4, rows: int = 32, ax: Any = None) -> Axes:
    """Draw a step of data parallelism: a batch cut by rows, a gradient each, one all-reduce, and the same step."""
    each, gap = 4.4, 0.6
    left = [3.4 + (each + gap) * rank for rank in range(ranks)]
    whole = left[-1] + each - left[0]
    ax = sheet(5.5, left[-1] + each + 0.2, 15.3, ax)
    shared = {"edge": WEIGHTS, "line": 2.0}  # the same on all ranks
    share = rows // ranks
    names = {14.35: f"one batch\nof {rows} rows", 11.65: "the same\nweights", 8.95: "different\ngradients",
             6.05: "one\nall-reduce", 3.2: "the same\ngradient", 0.85: "the step of\nthe optimizer"}  # fmt: skip
    for y, words in names.items():
        ax.text(2.9, y, words, ha="right", va="center", fontsize=SMALLEST, color=INK)
    for rank, x in enumerate(left):
        middle, cut = x + each / 2, left[0] + whole * rank / ranks
        box(ax, cut, 13.6, whole / ranks, 1.5, FACES[rank], f"rows {rank * share} to {(rank + 1) * share - 1}")
        arrow(ax, (cut + whole / ranks / 2, 13.6), (middle, 12.4))
        box(ax, x, 10.9, each, 1.5, "white", f"rank {rank}: the\nwhole model", **shared)
        arrow(ax, (middle, 10.9), (middle, 9.7))
        box(ax, x, 8.2, each, 1.5, FACES[rank], f"gradient $g_{rank}$\nof its own rows")
        arrow(ax, (middle, 8.2), (middle, 6.9), colour=COLLECTIVE, line=2.2)
        arrow(ax, (middle, 5.2), (middle, 3.9), colour=COLLECTIVE, line=2.2)
        box(ax, x, 2.5, each, 1.4, "white", "the mean $g$", **shared)
        arrow(ax, (middle, 2.5), (middle, 1.5))
        box(ax, x, 0.2, each, 1.3, "white", "one step with $g$", **shared)
    total = " + ".join(f"g_{rank}" for rank in range(ranks))
    box(ax, left[0], 5.2, whole, 1.7, RECEIVED, f"$g = ({total})\\,/\\,{ranks}$", size=TITLE)
    ax.set_title("Different rows give different gradients; one all-reduce gives every rank their mean",
                 fontsize=TITLE, loc="left")  # fmt: skip
    given = [f"rank {rank} gets rows {rank * share} to {(rank + 1) * share - 1}" for rank in range(ranks)]
    say(ax, f"One batch of {rows} rows is cut into {ranks} parts: {', '.join(given)}.\n"
            "Every rank holds the whole model with the same weights, and computes the gradient of its own rows: they "
            "differ.\nOne all-reduce gives every rank the mean of all gradients, the same one.\nEvery rank takes one "
            "step with it; no weight is sent.")  # fmt: skip
    return ax


def row_weights(examples: Sequence[int] = (3, 1), ax: Any = None) -> list[Axes]:
    """Draw how much each row counts in a mean of the ranks' means, and in the mean over all rows."""
    total = sum(examples)
    owners = [rank for rank, count in enumerate(examples) for _ in range(count)]
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.9), layout="constrained", sharey=True, FigureClass=Picture)
    ways = (("a mean of means", [1 / len(examples) / examples[rank] for rank in owners]),
            ("the mean over all rows", [1 / total for _ in owners]))  # fmt: skip
    for ax, (name, weights) in zip(axes, ways, strict=True):
        new_axes(ax, 0)
        for row, (rank, weight) in enumerate(zip(owners, weights, strict=True)):
            ax.bar(row, weight, 0.8, color=FACES[rank], edgecolor=INK, linewidth=0.8)
            ax.text(row, weight + 0.01, f"{weight:.3g}", ha="center", va="bottom", fontsize=SMALLEST)
        ax.set_xticks(range(total), [f"row {row}\nrank {rank}" for row, rank in enumerate(owners)])
        ax.set_title(name, fontsize=TITLE, loc="left", color=INK if ax is axes[1] else LIMIT)
        ax.set_ylim(0, 1.2 * max(ways[0][1]))
        say(ax, ", ".join(f"row {row} of rank {rank} counts {weight:.3g}"
                          for row, (rank, weight) in enumerate(zip(owners, weights, strict=True))))  # fmt: skip
    axes[0].set_ylabel("weight in the gradient", fontsize=SMALLEST)
    few, many = min(examples), max(examples)
    short, full = examples.index(few), examples.index(many)
    one = f"The only row of rank {short}" if few == 1 else f"A row of rank {short}"
    words = f"{one} counts {many / few:.3g} times as much as a row of rank {full}"
    figure.suptitle(words, fontsize=TITLE, x=0.01, ha="left")
    return list(axes)


def replica_paths(paths: Sequence[Sequence[Sequence[float]]], goal: Sequence[float], title: str | None = None,
                  ax: Any = None) -> Axes:  # fmt: skip
    """Draw the path of each rank's two weights, step by step, and the weights that were to be found."""
    ax = new_axes(ax, 3.9)
    for rank, path in enumerate(paths):
        xs, ys = zip(*path, strict=True)
        colour = SERIES[rank]
        ax.plot(xs, ys, "-o", color=colour, markersize=4, linewidth=1.6, label=f"rank {rank}")
        ax.text(xs[0], ys[0], f"rank {rank} ", ha="right", va="center", fontsize=SMALLEST, color=INK)
        ax.plot(xs[-1], ys[-1], "o", color=colour, markersize=9, zorder=4)
    apart = _apart(ax, paths)
    ax.plot(*goal, "*", color=INK, markersize=16, zorder=3)
    ax.annotate("the weights to find", goal, (-11, 0), textcoords="offset points", ha="right", va="center",
                fontsize=SMALLEST, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    ax.margins(0.14)
    ax.set_xlabel("first weight", fontsize=SMALLEST)
    ax.set_ylabel("second weight", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"rank {rank} goes from ({path[0][0]:.2f}, {path[0][1]:.2f}) to ({path[-1][0]:.2f}, "
                      f"{path[-1][1]:.2f})" for rank, path in enumerate(paths))
            + apart + f"\nthe weights to find are ({goal[0]:g}, {goal[1]:g})")  # fmt: skip
    return ax


def _apart(ax: Axes, paths: Sequence[Sequence[Sequence[float]]]) -> str:
    """Draw a line between the first and the last rank where they start, and where they end; return it in words."""
    pairs = [(path[0], path[-1]) for path in (paths[0], paths[-1])]
    told = []
    for place, when in enumerate(("start", "end")):
        one, other = (pair[place] for pair in pairs)
        far = math.dist(one, other)
        ax.plot(*zip(one, other, strict=True), "--", color=INK, linewidth=1.2, zorder=1)
        share, side, shift = ((0.5, "right", -7), (0.15, "left", 7))[place]  # at the end the curves lie on the left
        at = [share * a + (1 - share) * b for a, b in zip(one, other, strict=True)]
        ax.annotate(f"{when}: {far:.2f} apart", at, (shift, 0), textcoords="offset points", ha=side, va="center",
                    fontsize=SMALLEST, color=INK)  # fmt: skip
        told.append(f"at the {when} rank 0 and rank {len(paths) - 1} are {far:.2f} apart")
    return "\n" + ", ".join(told)
