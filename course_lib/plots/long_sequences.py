"""Attention over a sequence that no rank holds whole: keys and values in a ring, and how causal work is shared."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    COMPUTE,
    FACES,
    INK,
    LIMIT,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    box,
    say,
    sheet,
)


def ring_of_keys(ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw, round by round, whose keys and values each rank has, and which of them its tokens may not see."""
    ax = sheet(0.75 + 0.62 * ranks, 100, 12.5 * ranks + 9, ax)
    wide, told = 15.5, []
    for rank in range(ranks):
        x = 15 + rank * 21.5
        ax.text(x + wide / 2, 12.5 * ranks + 5.5, f"rank {rank}: queries {rank}", ha="center", va="center",
                fontsize=SMALLEST, weight="bold")  # fmt: skip
    for step in range(ranks):
        y = 12.5 * (ranks - step) - 7
        ax.text(0, y + 2.8, f"round {step + 1}", va="center", fontsize=SMALLEST, weight="bold")
        words = []
        for rank in range(ranks):
            source, x = (rank - step) % ranks, 15 + rank * 21.5
            sees = source <= rank
            name = f"keys {source}" if sees else f"{source}: future"
            box(ax, x, y, wide, 5.6, FACES[source] if sees else WAITING, name)
            words.append(f"rank {rank} has keys {source}{'' if sees else ', all in the future'}")
            if step < ranks - 1 and rank < ranks - 1:
                arrow(ax, (x + wide - 2, y - 0.2), (x + 23.5, y - 6.6), colour=SENT)
        if step < ranks - 1:
            arrow(ax, (15 + (ranks - 1) * 21.5 + wide - 1, y - 0.2), (16, y - 6.6), colour=SENT, bend=0.0)
        told.append(f"round {step + 1}: {'; '.join(words)}")
    ax.set_title("Keys and values go round; queries stay, and no rank holds all keys", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def causal_work(ranks: int = 4, zigzag: bool = True) -> list[Axes]:
    """Draw the lower triangle of scores, coloured by the rank that computes them: contiguous pieces, then zigzag."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.7), layout="constrained", FigureClass=Picture)
    deals = {"contiguous": [[2 * rank, 2 * rank + 1] for rank in range(ranks)],
             "zigzag": [[rank, 2 * ranks - 1 - rank] for rank in range(ranks)]}  # fmt: skip
    for ax, (name, deal) in zip(axes, deals.items(), strict=True):
        work = []
        for rank, chunks in enumerate(deal):
            for row in chunks:
                ax.add_patch(Rectangle((0, row), row, 0.94, facecolor=FACES[rank], linewidth=0))
                ax.add_patch(plt.Polygon([(row, row), (row, row + 0.94), (row + 0.94, row + 0.94)],
                                         facecolor=FACES[rank], linewidth=0))  # fmt: skip
                ax.text(-0.25, row + 0.5, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST)
            work.append(sum(row + 0.5 for row in chunks))
        ratio = max(work) * ranks / sum(work)
        for rank, amount in enumerate(work):
            y = 2.15 + 0.62 * rank
            ax.add_patch(Rectangle((6.3, y - 1.6), amount * 0.27, 0.44, facecolor=COMPUTE if amount < max(work) * 0.999
                                   or ratio < 1.01 else LIMIT, linewidth=0))  # fmt: skip
        ax.text(6.3, 0.12, "work of each rank", va="center", fontsize=SMALLEST)
        ax.set(xlim=(-1.9, 10.6), ylim=(2 * ranks, -0.35), aspect="equal")
        ax.axis("off")
        told = f"{name}: the busiest rank has {ratio:.2f} times the mean" if ratio > 1.01 else f"{name}: all the same"
        ax.set_title(told, fontsize=SMALLEST, loc="left", color=INK)
        shares = ", ".join(f"rank {rank}: {amount / sum(work):.1%}" for rank, amount in enumerate(work))
        say(ax, f"chunks of each rank: {deal}; share of the work: {shares}")
    figure.suptitle("A token sees only those before it, so the last piece has most to do", fontsize=TITLE, x=0.01,
                    ha="left")  # fmt: skip
    return list(axes)
