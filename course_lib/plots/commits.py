"""A save in two phases: who writes what when, and which checkpoint a crash would leave; and where other saves lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    COLLECTIVE,
    GREEN,
    INK,
    LIMIT,
    OPTIMIZER,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    box,
    say,
    sheet,
)

PALE = "#BFDDF0"  # WEIGHTS, bright enough for black letters


def two_phases(ax: Axes | None = None) -> Axes:
    """Draw a save of three ranks: write and sync beside, ask everybody, rename, wait; and what is loaded meanwhile."""
    ax = sheet(3.0, 41.0, 14.4, ax)
    ax.set_title("Write beside, ask everybody, then rename: one whole checkpoint at every moment", fontsize=TITLE,
                 loc="left")  # fmt: skip
    for rank in range(3):
        y = 11.2 - 3.0 * rank
        ax.text(0.2, y + 1.0, f"rank {rank}", va="center", fontsize=SMALLEST)
        long = (5.0, 6.5, 8.0)[rank]
        box(ax, 4.2, y, long, 2.0, PALE, "write")
        box(ax, 4.2 + long, y, 3.4, 2.0, OPTIMIZER, "sync")
        if rank == 0:
            box(ax, 12.6, y, 5.6, 2.0, PALE, "manifest\n+ sync")
        begin = 18.2 if rank == 0 else 7.6 + long
        ax.add_patch(Rectangle((begin, y), 20.0 - begin, 2.0, facecolor=WAITING, edgecolor="none"))
        if rank:
            ax.add_patch(Rectangle((24.0, y), 7.4, 2.0, facecolor=WAITING, edgecolor="none"))
            ax.text(26.0, y + 1.0, "wait", ha="center", va="center", fontsize=SMALLEST)
    box(ax, 20.0, 5.2, 4.0, 8.0, "#E3BFD2", "all well?\n\nall-\nreduce", edge=COLLECTIVE)
    box(ax, 24.6, 11.2, 6.2, 2.0, "#EBCBDD", "rename", edge=SENT, line=2, weight="bold")
    box(ax, 31.4, 5.2, 3.6, 8.0, WAITING, "barrier")
    ax.text(35.6, 9.2, "returns", va="center", fontsize=SMALLEST)
    ax.add_patch(Rectangle((4.2, 1.4), 23.5, 2.0, facecolor="#CCCCCC", edgecolor=INK))
    ax.add_patch(Rectangle((27.7, 1.4), 12.8, 2.0, facecolor="#A8DCCB", edgecolor=INK))
    ax.text(15.9, 2.4, "a crash here: the old checkpoint is loaded", ha="center", va="center", fontsize=SMALLEST)
    ax.text(34.1, 2.4, "here: the new one", ha="center", va="center", fontsize=SMALLEST)
    ax.plot([27.7, 27.7], [1.0, 11.2], color=INK, linestyle=":", linewidth=1.5)
    ax.text(0.2, 2.4, "disk", va="center", fontsize=SMALLEST)
    say(ax, "each rank writes its shard under a new name and syncs it, rank 0 the manifest as well; an all-reduce asks "
            "whether all is well; rank 0 renames the manifest; a barrier lets nobody return earlier. A crash before "
            "the rename leaves the old checkpoint, and after it the new one")  # fmt: skip
    return ax


def crash_points(saves: Mapping[str, Sequence[str]], ax: Axes | None = None) -> Axes:
    """Draw for each way to save what each crash leaves: a whole checkpoint (""), or the code of what is wrong."""
    ax = sheet(0.75 + 0.62 * len(saves), WIDTH, 0.62 * len(saves), ax)
    told = []
    for row, (name, ends) in enumerate(saves.items()):
        y, lost = 0.62 * (len(saves) - 1 - row), sum(map(bool, ends))
        for place, code in enumerate(ends):
            wide = 5.2 / len(ends)
            ax.add_patch(Rectangle((1.9 + wide * place, y + 0.1), wide, 0.42, facecolor=LIMIT if code else GREEN,
                                   edgecolor="white", linewidth=0.2))  # fmt: skip
        ax.text(1.8, y + 0.31, name, ha="right", va="center", fontsize=SMALLEST)
        ax.text(7.2, y + 0.31, f"{lost} of {len(ends)} lost", va="center", fontsize=SMALLEST)
        told.append(f"{name}: {lost} of {len(ends)} crashes leave no whole checkpoint")
    ax.set_title("Each stripe is a crash: green leaves a whole checkpoint, red leaves none", fontsize=TITLE, loc="left")
    say(ax, "; ".join(told))
    return ax


