"""A save in two phases: who writes what when, and which checkpoint a crash would leave; and where other saves lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
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
    ax = sheet(3.4, 44.0, 16.4, ax)
    ax.set_title("Write beside, ask everybody, then rename: one whole checkpoint at every moment", fontsize=TITLE,
                 loc="left")  # fmt: skip
    for rank in range(3):
        y = 13.2 - 3.0 * rank
        ax.text(0.2, y + 1.0, f"rank {rank}", va="center", fontsize=SMALLEST)
        end = 13.8 + (0.0, 1.6, 3.4)[rank]
        box(ax, 4.2, y, end - 7.2, 2.0, PALE, f"shard-b2-{rank}.pt")
        box(ax, end - 3.0, y, 3.0, 2.0, OPTIMIZER, "sync")
        if rank == 0:
            box(ax, 13.8, y, 5.4, 2.0, PALE, "manifest-\nb2.new")
            box(ax, 19.2, y, 3.0, 2.0, OPTIMIZER, "sync")
        begin = 22.2 if rank == 0 else end
        ax.add_patch(Rectangle((begin, y), 23.0 - begin, 2.0, facecolor=WAITING, edgecolor="none"))
        if rank:
            ax.add_patch(Rectangle((27.2, y), 7.2, 2.0, facecolor=WAITING, edgecolor="none"))
            ax.text(29.2, y + 1.0, "wait", ha="center", va="center", fontsize=SMALLEST)
        ax.text(38.6, y + 1.0, "returns", va="center", fontsize=SMALLEST)
    box(ax, 23.0, 7.2, 4.2, 8.0, "#E3BFD2", "all well?\n\nall-\nreduce", edge=COLLECTIVE)
    box(ax, 27.6, 13.2, 6.6, 2.0, "#EBCBDD", "rename to\nmanifest.pt", edge=SENT, line=2)
    box(ax, 34.4, 7.2, 3.8, 8.0, WAITING, "barrier")
    ax.add_patch(Rectangle((4.2, 3.2), 26.7, 2.0, facecolor="#CCCCCC", edgecolor=INK))
    ax.add_patch(Rectangle((30.9, 3.2), 12.6, 2.0, facecolor="#A8DCCB", edgecolor=INK))
    ax.text(17.5, 4.2, "manifest.pt says a1: a crash here loads the old checkpoint", ha="center", va="center",
            fontsize=SMALLEST)  # fmt: skip
    ax.text(37.2, 4.2, "it says b2: the new one", ha="center", va="center", fontsize=SMALLEST)
    ax.plot([30.9, 30.9], [2.6, 13.2], color=INK, linestyle=":", linewidth=1.5)
    ax.text(0.2, 4.2, "disk", va="center", fontsize=SMALLEST)
    ax.text(4.2, 1.4, "blue: write   yellow: sync   grey: wait   b2: the identity of this save   time \u2192",
            va="center", fontsize=SMALLEST)  # fmt: skip
    say(ax, "each rank writes its shard under a new name and syncs it, rank 0 the manifest as well; an all-reduce asks "
            "whether all is well; rank 0 renames the manifest; a barrier lets nobody return earlier. A crash before "
            "the rename leaves the old checkpoint, and after it the new one")  # fmt: skip
    return ax


def crash_points(saves: Mapping[str, Sequence[Any]], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw for each way to save what each crash leaves: two lanes a save, and a block for each rank far behind.

    The crashes are those of `course_lib.lessons.careless.crash_map`.
    """
    high = 0.78 * len(saves)
    ax = sheet(1.15 + high, WIDTH, 0.62 + high, ax)
    blocks, told = list(dict.fromkeys(end.behind for ends in saves.values() for end in ends)), []
    left, wide = 1.95, 5.3 / len(blocks)
    for place, behind in enumerate(blocks):
        words = "all in step" if behind is None else f"rank {behind} late"
        ax.text(left + wide * (place + 0.48), high + 0.12, words, ha="center", va="center", fontsize=SMALLEST)
    for row, (name, ends) in enumerate(saves.items()):
        y, lost = 0.78 * (len(saves) - 1 - row), sum(bool(end.wrong) for end in ends)
        ax.text(0.0, y + 0.46, name, va="center", fontsize=SMALLEST, weight="bold")
        ax.text(7.32, y + 0.46, f"{lost} of {len(ends)}", va="center", fontsize=SMALLEST, weight="bold",
                color=LIMIT if lost else INK)  # fmt: skip
        for lane, (power, words) in enumerate(((False, "killed"), (True, "power"))):
            ax.text(left - 0.08, y + 0.61 - 0.3 * lane, words, ha="right", va="center", fontsize=SMALLEST)
            for place, behind in enumerate(blocks):
                here = [end for end in ends if end.behind == behind]
                step = 0.96 * wide / (1 + max((end.moment for end in here), default=0))
                ax.add_patch(Rectangle((left + wide * place, y + 0.48 - 0.3 * lane), 0.96 * wide, 0.26,
                                       facecolor="#F2F2F2", edgecolor="none"))  # fmt: skip
                for end in here:
                    if end.power == power:
                        ax.add_patch(Rectangle((left + wide * place + step * end.moment, y + 0.48 - 0.3 * lane), step,
                                               0.26, facecolor=LIMIT if end.wrong else GREEN, edgecolor="none"))
        told.append(f"{name}: {lost} of {len(ends)} crashes leave no whole checkpoint")
    ax.text(7.32, high + 0.12, "lost", va="center", fontsize=SMALLEST)
    ax.text(left, -0.14, "the moments of one save, from first to last; pale: power takes no more than a kill",
            ha="left", va="center", fontsize=SMALLEST)  # fmt: skip
    ax.set_ylim(-0.3, 0.3 + high)
    ax.set_title(title or "Red: a crash at this moment leaves no whole checkpoint", fontsize=TITLE, loc="left")
    say(ax, "; ".join(told))
    return ax


def save_beside(ax: Axes | None = None) -> Axes:
    """Draw what training and the disk do in three kinds of saves, on one axis of time; not to scale."""
    ax = sheet(2.9, 41.0, 14.6, ax)
    ax.set_ylim(1.4, 14.6)
    ax.set_title("An asynchronous save costs a copy; the disk works beside training", fontsize=TITLE, loc="left")
    rows = {
        "blocking": ([("train", 8, COMPUTE), ("wait", 12, WAITING), ("train", 13, COMPUTE)], 12, (8, 12)),
        "asynchronous": ([("train", 8, COMPUTE), ("copy", 3, OPTIMIZER), ("train", 22, COMPUTE)], 3, (11, 12)),
    }
    for row, (name, (pieces, costs, (begin, long))) in enumerate(rows.items()):
        y, x = 11.0 - 6.6 * row, 7.6
        ax.text(0.1, y + 1.0, name, va="center", fontsize=SMALLEST, weight="bold")
        for words, width, colour in pieces:
            box(ax, x, y, width, 2.0, colour, words)
            x += width
        ax.text(7.3, y - 1.5, "the disk", ha="right", va="center", fontsize=SMALLEST)
        box(ax, 7.6 + begin, y - 2.5, long, 2.0, PALE, "write, sync, rename")
        ax.annotate("", (15.6, y + 2.4), (15.6 + costs, y + 2.4), arrowprops={"arrowstyle": "<|-|>", "color": INK,
                                                                           "shrinkA": 0, "shrinkB": 0})  # fmt: skip
        ax.text(15.9 + costs, y + 2.7, "C, what the save costs", va="center", fontsize=SMALLEST)
    say(ax, "a blocking save costs the whole time of the disk; an asynchronous one only that of a copy in memory, "
            "while the disk writes the copy as training goes on")  # fmt: skip
    return ax
