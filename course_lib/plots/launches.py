"""Launches: two ranks on one axis of time, when their buckets are complete, and which all-reduce meets which."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import COLLECTIVE, FACES, INK, LIMIT, SMALLEST, TITLE, WAITING, arrow, say, sheet

LAYER, LANE = 3.0, 1.0  # how long a layer's backward is, and how high a lane is, in units of the sheet
BEGIN = 4.6  # where backward begins, right of the names
SUM = 2.4  # how long an all-reduce is drawn, from when both ranks have started it
LAYERS = (4, 3, 2, 1)  # in the order of backward; the first two are bucket 0
UNUSED = 3  # on rank 1
END = BEGIN + LAYER * len(LAYERS)


class Start(NamedTuple):
    """When a rank starts the all-reduce of which bucket."""

    at: float
    bucket: int


FIRST = Start(BEGIN + 2 * LAYER, 0), Start(END, 1)  # rank 0: each bucket when its layers are done
AS_READY = Start(END, 1), Start(END, 0)  # rank 1, where a layer of bucket 0 gets no gradient
AS_PLANNED = Start(END, 0), Start(END, 1)


def meetings(one: tuple[Start, Start], other: tuple[Start, Start]) -> list[float]:
    """Return when each all-reduce begins: when both ranks have started it, and the one before has ended."""
    times, free = [], 0.0
    for mine, yours in zip(one, other, strict=True):
        times.append(max(mine.at, yours.at, free))
        free = times[-1] + SUM + 0.2
    return times


def launch_order(ax: Any = None) -> Axes:
    """Draw two ranks that start the same two buckets in another order, and in the order of the plan."""
    ax = sheet(5.0, 25.5, 17.2, ax)
    _pair(ax, 9.9, "each rank starts the bucket that is complete first", AS_READY, good=False)
    _pair(ax, 2.3, "all ranks start in the order of the plan", AS_PLANNED, good=True)
    arrow(ax, (BEGIN, 1.2), (END + 2 * SUM + 0.2, 1.2))
    ax.text(BEGIN, 0.4, "time: backward goes from the last layer to the first, and gradients leave in this order",
            va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.set_title("The n-th all-reduce of a rank meets the n-th of every other rank, whatever is in it", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "Time goes to the right; backward goes from layer 4 to layer 1. Layers 4 and 3 are bucket 0, layers 2 and "
            f"1 bucket 1; on rank 1 no row uses layer {UNUSED}. Rank 0 starts bucket 0 halfway through backward, and "
            "waits until rank 1 starts an all-reduce, too.\nWhere each rank starts the bucket that is complete first, "
            "rank 0 starts bucket 0 and then bucket 1, rank 1 the other way round: bucket 0 is added to bucket 1.\nIn "
            "the order of the plan both start bucket 0 first, rank 1 when backward has ended, and the sums are right."
            )  # fmt: skip
    return ax


def _pair(ax: Axes, low: float, title: str, second: tuple[Start, Start], good: bool) -> None:
    """Draw two ranks, what they send in the two lanes between, so that what meets stands next to each other."""
    colour = COLLECTIVE if good else LIMIT
    ax.text(0, low + 5.9, title, va="center", fontsize=SMALLEST, weight="bold", color=INK if good else LIMIT)
    tops = low + 4.1, low  # of the lanes of backward
    sends = low + 2.95, low + 1.15
    for rank, (lane, sent) in enumerate(zip(tops, sends, strict=True)):
        ax.text(0, lane + LANE / 2, f"rank {rank}", va="center", fontsize=SMALLEST, color=INK)
        ax.text(BEGIN - 0.3, lane + LANE / 2, "backward", ha="right", va="center", fontsize=SMALLEST, color=INK)
        ax.text(BEGIN - 0.3, sent + LANE / 2, "sends", ha="right", va="center", fontsize=SMALLEST, color=INK)
        for place, layer in enumerate(LAYERS):
            unused = rank == 1 and layer == UNUSED
            _bar(ax, BEGIN + place * LAYER, lane, LAYER, "white" if unused else FACES[int(layer < 3)],
                 f"{layer}: unused" if unused else f"layer {layer}", "////" if unused else None)  # fmt: skip
        for start, meet in zip(FIRST if rank == 0 else second, meetings(FIRST, second), strict=True):
            if meet - start.at > SUM + 0.3:  # longer than behind the other bucket
                _bar(ax, start.at, sent, meet - start.at, WAITING, f"bucket {start.bucket} waits")
            _bar(ax, meet, sent, SUM, FACES[start.bucket], f"bucket {start.bucket}")
    if good:  # bucket 1 is complete when backward ends, and stands back for bucket 0
        ax.text(END + 2 * SUM + 0.5, sends[1] + LANE / 2, "bucket 0 first, with\nzeros for layer 3", va="center",
                fontsize=SMALLEST, color=INK)  # fmt: skip
    for meet in meetings(FIRST, second):
        arrow(ax, (meet + SUM / 2, sends[0]), (meet + SUM / 2, sends[1] + LANE), "<|-|>", colour=colour, line=2.0)
    if not good:
        ax.text(END + 2 * SUM + 0.5, sends[0] + LANE / 2 - 0.9, "bucket 0 is added\nto bucket 1, twice!",
                va="center", fontsize=SMALLEST, color=LIMIT)  # fmt: skip


def _bar(ax: Axes, x: float, y: float, width: float, colour: str, words: str, hatch: str | None = None) -> None:
    ax.add_patch(Rectangle((x, y), width, LANE, facecolor=colour, edgecolor=INK, linewidth=0.8, hatch=hatch))
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1} if hatch else None
    ax.text(x + width / 2, y + LANE / 2 - 0.03, words, ha="center", va="center", fontsize=SMALLEST, color=INK,
            bbox=paper)  # fmt: skip
