"""The fullest moment of an interleaved step: which chunks the first rank has started and not yet taken back."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import (
    BACKWARD,
    FORWARD,
    INK,
    SMALLEST,
    TITLE,
    WAITING,
    arrow,
    legend_below,
    new_axes,
    say,
)

PALE = tuple((1 + part) / 2 for part in to_rgb(FORWARD))  # the second chunk, half as strong


def fullest_moment(played: Any, ax: Axes | None = None) -> Axes:
    """Draw a played schedule with 2 chunks a rank until micro-batch 0 is back on the first rank.

    Above that rank the chunks are counted that it has started by then; a forward takes 1, a backward 2.
    """
    pp = 1 + max(event.rank for event in played.events)
    chunks = 1 + max(event.action.chunk for event in played.events)
    back = min(event.start for event in played.events if event.rank == 0 and event.kind.startswith("B"))
    end = min(event.end for event in played.events if event.rank == 0 and event.start == back)
    ax = new_axes(ax, 1.6 + 0.42 * pp)
    held: list[tuple[int, int]] = []  # micro-batch and chunk
    for rank in range(pp):
        mine = [event for event in played.events if event.rank == rank and event.start < end]
        ax.add_patch(Rectangle((0, rank - 0.36), end, 0.72, facecolor=WAITING, linewidth=0))
        for event in mine:
            forward, zero = event.action.kind == "F", event.action.microbatch == 0
            colour = (FORWARD, PALE)[event.action.chunk] if forward else BACKWARD
            ax.add_patch(Rectangle((event.start, rank - 0.36), min(event.end, end) - event.start, 0.72,
                                   facecolor=colour, edgecolor=INK if zero else "white", linewidth=2.2 if zero else 0.9,
                                   zorder=3 if zero else 2))  # fmt: skip
            hop = f", hop {pp - rank}" if zero and not forward and rank else ""
            ax.text((event.start + min(event.end, end)) / 2, rank, f"{event.action.microbatch}{hop}", ha="center",
                    va="center", fontsize=SMALLEST, weight="bold" if zero else "normal", zorder=4)  # fmt: skip
            if rank == 0 and forward:
                held.append((event.action.microbatch, event.action.chunk))
    more = len(held) - chunks * pp
    ends = (0, pp, chunks * pp, len(held))
    counted = (f"{pp} chunks", f"{pp} chunks", f"{more}, one a hop")
    for start, stop, words in zip(ends, ends[1:], counted, strict=False):
        arrow(ax, (start + 0.08, -0.75), (stop - 0.08, -0.75), "|-|,widthA=0.25,widthB=0.25", line=1.6)
        ax.text((start + stop) / 2, -1.2, words, ha="center", va="center", fontsize=SMALLEST, weight="bold")
    for rank in range(1, pp):  # the hops of micro-batch 0 on its way back to the first rank
        left = next(event.end for event in played.events
                    if event.rank == rank and event.kind.startswith("B") and event.action.microbatch == 0)
        arrow(ax, (left - 0.05, rank - 0.2), (left + 0.4, rank - 0.8), line=2.2)
    told = f"= {len(held)}, or {len(held) / chunks:g} micro-batches"
    ax.text(len(held) + 0.1, -1.2, told, va="center", fontsize=SMALLEST, weight="bold")
    ax.text((len(held) + back) / 2, 0, "waits for 0", ha="center", va="center", fontsize=SMALLEST)
    ax.text(len(held) + 0.1, -0.65, "no more may start", va="center", fontsize=SMALLEST)
    ax.set_yticks(range(pp), [f"rank {rank}" for rank in range(pp)])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, end), ylim=(pp - 0.5, -1.75), xticks=range(0, int(end) + 1, 2))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("time, if a chunk's forward takes 1 and its backward 2", fontsize=SMALLEST)
    marks = ((FORWARD, "forward, first chunk"), (PALE, "forward, second chunk"), (BACKWARD, "backward"),
             (WAITING, "waits"))  # fmt: skip
    keys = [Patch(facecolor=colour, label=name) for colour, name in marks]
    legend_below(ax, [*keys, Patch(facecolor="white", edgecolor=INK, linewidth=2.2, label="micro-batch 0")], 5)
    title = f"While micro-batch 0 comes back, the first rank starts {more} chunks more"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.055)
    names = ", ".join(f"micro-batch {micro} chunk {chunk}" for micro, chunk in held)
    counts = " + ".join(str(stop - start) for start, stop in zip(ends, ends[1:], strict=False))
    say(ax, f"{pp} ranks with {chunks} chunks each. Before its first backward, at {back:g}, rank 0 has started "
        f"{names}: {counts} = {len(held)} chunks, {len(held) / chunks:g} micro-batches. The schedule allows no "
        "more, so it waits")  # fmt: skip
    return ax
