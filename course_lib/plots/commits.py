"""A save in two phases: who writes what when, and which checkpoint a crash would leave; and where other saves lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
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
    """Draw a save of three ranks: write and sync beside, vote, rename, wait; and what is loaded meanwhile."""
    ax = sheet(3.6, 44.0, 17.6, ax)
    ax.set_title("Write beside, sync, vote, rename: one whole checkpoint at every moment", fontsize=TITLE,
                 loc="left")  # fmt: skip
    for x, words in ((7.2, "1 write beside"), (12.8, "2 sync"), (25.1, "3 vote"), (30.9, "4 commit")):
        ax.text(x, 16.3, words, ha="center", va="center", fontsize=SMALLEST, weight="bold")
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
    box(ax, 23.0, 7.2, 4.2, 8.0, "#E3BFD2", "all well?\n\n(all-\nreduce)", edge=COLLECTIVE)
    box(ax, 27.6, 13.2, 6.6, 2.0, "#FFFFFF", "rename to\nmanifest.pt", edge=SENT, line=2)
    box(ax, 34.4, 7.2, 3.8, 8.0, WAITING, "barrier")
    ax.add_patch(Rectangle((4.2, 3.2), 26.7, 2.0, facecolor="#DDF2EA", edgecolor=INK))
    ax.add_patch(Rectangle((30.9, 3.2), 12.6, 2.0, facecolor="#A8DCCB", edgecolor=INK))
    ax.text(17.5, 4.2, "manifest.pt says a1: a crash here loads the old checkpoint", ha="center", va="center",
            fontsize=SMALLEST)  # fmt: skip
    ax.text(37.2, 4.2, "it says b2: the new one", ha="center", va="center", fontsize=SMALLEST)
    ax.plot([30.9, 30.9], [2.6, 13.2], color=INK, linestyle=":", linewidth=1.5)
    ax.text(0.2, 4.2, "disk", va="center", fontsize=SMALLEST)
    for x, colour, words in ((4.2, PALE, "write"), (8.4, OPTIMIZER, "sync"), (12.2, "#E3BFD2", "all ranks vote"),
                             (19.6, "#FFFFFF", "commit"), (24.6, WAITING, "wait")):  # fmt: skip
        ax.add_patch(Rectangle((x, 0.9), 1.0, 1.0, facecolor=colour, edgecolor=INK, linewidth=0.8))
        ax.text(x + 1.3, 1.4, words, va="center", fontsize=SMALLEST)
    ax.text(43.5, 1.4, "identity b2 after a1;  time \u2192", ha="right", va="center", fontsize=SMALLEST)
    say(ax, "each rank writes its shard under a new name and syncs it, rank 0 the manifest as well; in an all-reduce "
            "all vote whether it went well; rank 0 renames the manifest; a barrier lets nobody return "
            "earlier. A crash before the rename leaves the old checkpoint, and after it the new one")  # fmt: skip
    return ax


def crash_points(saves: Mapping[str, Sequence[Any]], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw each way to save as a row of operations; where a crash can lose the checkpoint, the operation is orange.

    The crashes are those of `course_lib.lessons.careless.crash_map`: drawn are the first runs in which some are lost;
    of a save that loses none, those with the same rank late as in the row above. Counted are all kills and power cuts.
    """
    row_high = 1.34
    high = row_high * len(saves)
    ax = sheet(0.7 + high, WIDTH, 0.3 + high, ax)
    ax.set_ylim(-0.2, 0.1 + high)
    runs = len({end.behind for ends in saves.values() for end in ends})
    words = f"{runs} runs: no rank late, then each. A power cut that leaves what a kill leaves isn't counted"
    words = words if runs > 1 else ""
    ax.text(0.05, 0.0, words, va="center", fontsize=SMALLEST)
    ax.text(WIDTH - 0.05, 0.0, "time \u2192, not to scale", ha="right", va="center", fontsize=SMALLEST)
    told, latest = [], None
    for row, (name, ends) in enumerate(saves.items()):
        y, lost = row_high * (len(saves) - 1 - row), sum(bool(end.wrong) for end in ends)
        latest = behind = next((end.behind for end in ends if end.wrong), latest)
        here = [end for end in ends if end.behind == behind]
        late = "" if behind is None else f"(drawn: rank {behind} is late)"
        ax.text(0.05, y + 1.08, name, va="center", fontsize=SMALLEST, weight="bold")
        ax.text(0.17 + 0.09 * len(name), y + 1.08, late, va="center", fontsize=SMALLEST)
        kinds = {words: [bool(end.wrong) for end in ends if bool(end.power) is power]
                 for words, power in (("kills", False), ("power cuts", True))}  # fmt: skip
        counted = ", ".join(f"{sum(wrong)} of {len(wrong)} {words}" for words, wrong in kinds.items())
        ax.text(WIDTH - 0.05, y + 1.08, f"lost by {counted}", ha="right", va="center", fontsize=SMALLEST)
        groups, unsynced = _operations(here), False
        for place, (doing, moments) in enumerate(groups):
            wide = (WIDTH - 0.1) / len(groups)
            x = 0.05 + wide * place
            ways = {bool(end.power) for end in here if end.wrong and end.moment in moments}
            if False in ways:
                ways.add(True)  # a power cut then loses it, too; it is tried only where it leaves other files
            if "sync" in doing and unsynced:
                ways.add(True)  # until it has returned, its bytes may not be on the disk
            unsynced = any(end.power and end.wrong and end.moment == moments[-1] for end in here)
            box(ax, x + 0.02, y + 0.47, wide - 0.04, 0.44, LIMIT if ways else "#A8DCCB")
            ax.text(x + wide / 2, y + 0.69, doing, ha="center", va="center", fontsize=SMALLEST,
                    color="white" if ways else INK, weight="bold" if ways else "normal")  # fmt: skip
            words = " or\n".join(word for word, power in (("killed", False), ("power cut", True)) if power in ways)
            words += ": still not\non the disk" if doing == "return" and words == "power cut" else ""
            ax.text(x + wide / 2, y + 0.42, words, ha="center", va="top", fontsize=SMALLEST, color=LIMIT,
                    weight="bold")  # fmt: skip
        told.append(f"{name}: {lost} of {len(ends)} crashes leave no whole checkpoint")
    ax.set_title(title or "Each careless save has moments (orange) when a crash leaves no whole checkpoint",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "; ".join(told))
    return ax


def _operations(ends: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Return (what is done, the moments of it) in order of time."""
    groups: list[tuple[str, list[int]]] = []
    for moment, doing in sorted({end.moment: end.doing for end in ends if not end.power}.items()):
        for part in doing.split("|"):
            if not groups or groups[-1][0] != part:
                groups.append((part, []))
            groups[-1][1].append(moment)
    return groups


def save_beside(ax: Axes | None = None) -> Axes:
    """Draw what training and the disk do in two kinds of saves, and from when each is safe; not to scale."""
    ax = sheet(3.7, 41.0, 18.6, ax)
    ax.set_title("An asynchronous save stops training for a copy, but is safe only when the disk is done",
                 fontsize=TITLE, loc="left")  # fmt: skip
    rows = {
        "blocking": ([("train", 7, COMPUTE), ("wait", 12, WAITING), ("train", 14, COMPUTE)], 12, (7, 12)),
        "asynchronous": ([("train", 7, COMPUTE), ("copy", 3, OPTIMIZER), ("train", 23, COMPUTE)], 3, (10, 12)),
    }
    for row, (name, (pieces, costs, (begin, long))) in enumerate(rows.items()):
        y, x = 13.6 - 8.2 * row, 7.6
        ax.text(0.1, y + 1.0, name, va="center", fontsize=SMALLEST, weight="bold")
        for words, width, colour in pieces:
            box(ax, x, y, width, 2.0, colour)
            look = {"color": "white", "weight": "bold"} if colour == COMPUTE else {"color": INK}
            ax.text(x + width / 2, y + 1.0, words, ha="center", va="center", fontsize=SMALLEST, **look)
            x += width
        ax.text(7.3, y - 1.5, "the disk", ha="right", va="center", fontsize=SMALLEST)
        box(ax, 7.6 + begin, y - 2.5, long, 2.0, PALE, "write, sync, rename")
        _span(ax, 14.6, 14.6 + costs, y + 2.5)
        ax.text(14.9 + costs, y + 2.8, "C: training stops", va="center", fontsize=SMALLEST)
        safe = 7.6 + begin + long
        ax.plot([safe, safe], [y - 2.9, y - 0.2], color=INK, linestyle=":", linewidth=1.8)
        ax.text(safe + 0.3, y - 1.5, "safe from here", va="center", fontsize=SMALLEST, weight="bold")
    _span(ax, 17.6, 29.6, 2.3)
    ax.text(23.6, 1.3, "W: a failure goes back to the save before this one", ha="center", va="center",
            fontsize=SMALLEST, color=LIMIT)  # fmt: skip
    ax.text(40.6, 1.3, "time \u2192", ha="right", va="center", fontsize=SMALLEST)
    say(ax, "a blocking save stops training for the whole time of the disk, and is safe when training goes on; an "
            "asynchronous one stops it for a copy in memory, and is safe only when the disk has written the copy: "
            "until then a failure goes back to the save before")  # fmt: skip
    return ax


def _span(ax: Axes, begin: float, end: float, y: float) -> None:
    ax.annotate("", (begin, y), (end, y), arrowprops={"arrowstyle": "<|-|>", "color": INK, "shrinkA": 0, "shrinkB": 0})
