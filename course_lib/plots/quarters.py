"""Who holds which quarter: an all-reduce that is cut in the middle, and a layer that is gathered, used and freed."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    ACTIVATIONS,
    COMPUTE,
    FACES,
    GRADIENTS,
    GREY,
    INK,
    SMALLEST,
    TITLE,
    arrow,
    say,
    sheet,
)

RANKS = 4
CELL, ROW = 1.5, 1.35  # of a quarter: how wide; how far rows are apart


def cut_all_reduce(steps: Sequence[tuple], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw what four ranks hold before a reduce-scatter, after it, and after the all-gather that follows.

    `steps[rank]` is (its four numbers at first, its one sum, the four sums at last).
    """
    ax = sheet(3.0, 33, 9.0, ax)
    lefts, width = (2.6, 14.0, 25.4), RANKS * CELL
    heads = ("before:\na whole gradient each", "halfway:\nthe sum of one quarter each",
             "after:\nall the sums everywhere")  # fmt: skip
    for left, head in zip(lefts, heads, strict=True):
        ax.text(left + width / 2, 8.0, head, ha="center", va="center", fontsize=SMALLEST, color=INK)
    for rank, (first, mine, last) in enumerate(steps):
        y = 5.4 - ROW * rank
        ax.text(2.3, y + 0.5, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
        for quarter in range(RANKS):
            _cell(ax, lefts[0] + CELL * quarter, y, FACES[rank], f"{first[quarter]:g}")
            own = quarter == rank
            _cell(ax, lefts[1] + CELL * quarter, y, GRADIENTS if own else None, f"{mine:g}" if own else "", bold=own)
            _cell(ax, lefts[2] + CELL * quarter, y, GRADIENTS, f"{last[quarter]:g}")
    for start, words in ((lefts[0] + width, "reduce-\nscatter"), (lefts[1] + width, "all-\ngather")):
        ax.text(start + 2.7, 5.0, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
        arrow(ax, (start + 0.6, 3.6), (start + 4.8, 3.6), line=2)
    said = "stop here: each rank can step its own quarter"
    ax.text(lefts[1] + width / 2, 0.3, said, ha="center", va="center", fontsize=SMALLEST, color=INK, weight="bold")
    title = title or "Cut an all-reduce in the middle: each rank holds the sum of its own quarter"
    ax.set_title(title, fontsize=TITLE, loc="left")
    rows = [f"rank {rank}: {_row(first)}, then {mine:g}, then {_row(last)}"
            for rank, (first, mine, last) in enumerate(steps)]  # fmt: skip
    told = "numbers before the reduce-scatter, the one sum after it, the sums after the all-gather"
    say(ax, "\n".join([told, *rows, said]))
    return ax


def _row(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def gather_use_free(ax: Axes | None = None) -> Axes:
    """Draw what four ranks hold of one layer while stage 3 goes through it: forward above, backward below."""
    ax = sheet(5.2, 39.4, 19.0, ax)
    width, lefts = RANKS * CELL, (3.4, 12.1, 20.8, 33.1)
    forward = (("keep a quarter", "own"), ("gather", "all"), ("use: all of the layer,\nown tokens only", "use"),
               ("free", "own"))  # fmt: skip
    backward = (("gather again", "all"), ("gradient of the layer,\nof own tokens only", "grad"),
                ("reduce-scatter: the sum\nof one quarter", "sum"), ("free the layer", "both"))  # fmt: skip
    for top, name, panels in ((14.6, "forward", forward), (5.2, "backward", backward)):
        ax.text(0.0, top + 3.7, name, ha="left", va="center", fontsize=TITLE, color=INK, weight="bold")
        for number, (left, (head, kind)) in enumerate(zip(lefts, panels, strict=True)):
            ax.text(left + width / 2, top + 2.1, head, ha="center", va="center", fontsize=SMALLEST, color=INK)
            for rank in range(RANKS):
                _held(ax, left, top - ROW * rank, rank, kind)
            if number:
                beside = 4.3 if panels[number - 1][1] == "use" else 0.0  # what stands to the right of a panel
                start = lefts[number - 1] + width + 0.35 + beside
                arrow(ax, (start, top - 1.5), (left - 0.35, top - 1.5), line=2)
        for rank in range(RANKS):
            ax.text(2.7, top - ROW * rank + 0.5, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
    said = "upper half: weights, coloured by the rank that keeps them; lower half, orange: gradients"
    ax.text(lefts[0], 0.2, said, ha="left", va="center", fontsize=SMALLEST, color=INK)
    ax.set_title("Every rank computes the whole layer, for its own tokens", fontsize=TITLE, loc="left")
    say(ax, "Four ranks and one layer, cut into four quarters. Forward: each rank keeps one quarter; all quarters are "
            "gathered on every rank; each rank computes the whole layer for its own tokens; the three borrowed "
            "quarters are freed.\nBackward: all quarters are gathered again; each rank makes the gradient of the whole "
            "layer for its own tokens; a reduce-scatter leaves on each rank the sum of one quarter; the layer is freed")
    return ax


def _held(ax: Axes, left: float, y: float, rank: int, kind: str) -> None:
    for quarter in range(RANKS):
        x, own = left + CELL * quarter, quarter == rank
        if kind in ("own", "all", "use"):
            _cell(ax, x, y, FACES[quarter] if own or kind != "own" else None)
        elif kind == "grad":
            _cell(ax, x, y, FACES[quarter], height=0.5, lift=0.5)
            _cell(ax, x, y, GRADIENTS, height=0.5)
        else:
            _cell(ax, x, y, FACES[quarter] if own or kind == "sum" else None, height=0.5, lift=0.5)
            _cell(ax, x, y, GRADIENTS if own else None, height=0.5)
    if kind == "use":
        x = left + RANKS * CELL + 0.3
        _cell(ax, x, y, ACTIVATIONS, f"x{rank}", wide=1.3)
        arrow(ax, (x + 1.4, y + 0.5), (x + 2.4, y + 0.5), colour=COMPUTE, line=1.6)
        _cell(ax, x + 2.5, y, ACTIVATIONS, f"y{rank}", wide=1.3)


def _cell(
    ax: Axes, x: float, y: float, colour: str | None, text: str = "", bold: bool = False, height: float = 1.0,
    lift: float = 0.0, wide: float = CELL,
) -> None:  # fmt: skip
    """Draw a cell, or the place of one that holds nothing."""
    look = {"facecolor": colour or "white", "edgecolor": INK if colour else GREY, "linewidth": 0.9 if colour else 0.6}
    ax.add_patch(Rectangle((x, y + lift), wide, height, linestyle="-" if colour else ":", **look))
    weight = "bold" if bold else "normal"
    ax.text(x + wide / 2, y + lift + height / 2, text, ha="center", va="center", fontsize=SMALLEST, color=INK,
            weight=weight)  # fmt: skip
