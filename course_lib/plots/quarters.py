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
from course_lib.plots.teeth import CHIP, DOING

KEPT, PAPER = "#5FA8D8", "#FFF1CF"  # of weights, pale enough for black letters; behind what is in the middle
RANKS = 4
PATTERNS = ("////", "....", "\\\\\\\\", "xxxx")  # of the gradients that a rank's own tokens make
CELL, ROW = 1.5, 1.35  # of a quarter: how wide; how far rows are apart


def cut_all_reduce(steps: Sequence[tuple], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw an all-reduce that is cut in the middle, where each of four ranks steps its own quarter of the weights.

    `steps[rank]` is (its four gradients, the one sum that it gets, its stepped weight, the four weights at last).
    """
    ax = sheet(3.4, 42, 13.4, ax)
    width, lefts = RANKS * CELL, (3.4, 13.9, 24.7, 35.2)
    middle = lefts[1] - 0.8, lefts[2] + width + 0.8
    ax.add_patch(Rectangle((middle[0], 0), middle[1] - middle[0], 13.2, facecolor=PAPER, edgecolor="none"))
    heads = ("gradients:\neach its own", "the sum of\nmy quarter", "my quarter of\nthe weights",
             "weights:\nall, everywhere")  # fmt: skip
    for left, head in zip(lefts, heads, strict=True):
        _text(ax, left + width / 2, 11.4, head)
    for rank, (first, mine, stepped, last) in enumerate(steps):
        y = 8.1 - 1.7 * rank
        _text(ax, 3.0, y + 0.6, f"rank {rank}", ha="right")
        for quarter in range(RANKS):
            own, x = quarter == rank, CELL * quarter
            _cell(ax, lefts[0] + x, y, FACES[rank], f"{first[quarter]:g}", height=1.3)
            _cell(ax, lefts[1] + x, y, GRADIENTS if own else None, f"{mine:g}" if own else "", own, height=1.3)
            _cell(ax, lefts[2] + x, y, KEPT if own else None, f"{stepped:g}" if own else "", own, height=1.3)
            _cell(ax, lefts[3] + x, y, KEPT, f"{last[quarter]:g}", height=1.3)
    for start, end, high, words in ((9.7, 12.9, 7.2, "reduce-\nscatter"), (20.4, 24.2, 6.6, "step"),
                                    (31.7, 34.8, 7.2, "all-\ngather")):  # fmt: skip
        arrow(ax, (start, 5.6), (end, 5.6), line=2)
        _text(ax, (start + end) / 2, high, words, weight="bold")
        if words == "step":
            _text(ax, (start + end) / 2, 4.4, "100\n– sum/4")
    for x, words in ((6.4, "first half of an all-reduce"), (38.0, "second half")):
        _text(ax, x, 1.0, words)
    _text(ax, sum(middle) / 2, 1.0, "the cut: each rank steps its own quarter", weight="bold")
    title = title or "Cut an all-reduce in the middle, step there, and gather weights in place of gradients"
    ax.set_title(title, fontsize=TITLE, loc="left")
    rows = [f"rank {rank}: gradients {_row(first)}, then the sum {mine:g} of its quarter, then the stepped weight "
            f"{stepped:g}, then all weights {_row(last)}" for rank, (first, mine, stepped, last) in enumerate(steps)]
    told = "a reduce-scatter of gradients, then each rank steps its own quarter, then an all-gather of weights"
    say(ax, "\n".join([told, *rows]))
    return ax


def _row(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def gather_use_free(ax: Axes | None = None) -> Axes:
    """Draw what four ranks hold of one layer while stage 3 goes through it: forward above, backward below."""
    ax = sheet(5.4, 39.4, 20.0, ax)
    width = RANKS * CELL
    forward = (("between steps:\na quarter each", "own"), ("1  gather", "all"), ("2  compute,\nmy own tokens", "use"),
               ("3  free", "own"))  # fmt: skip
    backward = (("4  gather again", "all"), ("5  gradient,\nof my own tokens", "grad"),
                ("6  reduce-scatter:\nthe sum of my quarter", "sum"), ("7  free", "both"))  # fmt: skip
    rows = ((15.4, "FORWARD", forward, (3.4, 11.8, 20.2, 33.1)),
            (5.2, "BACKWARD", backward, (3.4, 11.7, 24.2, 33.1)))  # fmt: skip
    for top, name, panels, lefts in rows:
        _text(ax, 0.0, top + 4.0, name, ha="left", weight="bold")
        for number, (left, (head, kind)) in enumerate(zip(lefts, panels, strict=True)):
            doing = next((doing for doing in DOING if doing in head), None) if head[0].isdigit() else None
            chip = CHIP | {"facecolor": DOING[doing][0]} if doing else None
            _text(ax, left + width / 2, top + 2.4, head, bbox=chip)
            for rank in range(RANKS):
                _held(ax, left, top - ROW * rank, rank, kind)
            if number:
                beside = 4.9 if panels[number - 1][1] in ("use", "grad") else 0.0  # what stands to the right of a panel
                start = lefts[number - 1] + width + 0.35 + beside
                arrow(ax, (start, top - 1.5), (left - 0.35, top - 1.5), line=2)
        for rank in range(RANKS):
            _text(ax, 2.7, top - ROW * rank + 0.5, f"rank {rank}", ha="right")
    said = "above: weights, coloured by keeper; below: gradients, a pattern for each rank; plain: summed"
    _text(ax, 3.4, 0.1, said, ha="left")
    title = "Storage is divided, computing is not: every rank computes the whole layer, for its own tokens"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "Four ranks and one layer, cut into four quarters. Forward: between steps each rank keeps one quarter; 1, "
            "all quarters are gathered on every rank; 2, each rank computes the whole layer for its own tokens; 3, the "
            "three borrowed quarters are freed.\nBackward: 4, all quarters are gathered again; 5, each rank makes the "
            "gradient of the whole layer and that of x from that of y, for its own tokens; 6, a reduce-scatter leaves "
            "on each rank the sum of one quarter; 7, the layer is freed")
    return ax


def _text(ax: Axes, x: float, y: float, words: str, **more) -> None:
    ax.text(x, y, words, **({"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK} | more))


def _held(ax: Axes, left: float, y: float, rank: int, kind: str) -> None:
    for quarter in range(RANKS):
        x, own = left + CELL * quarter, quarter == rank
        if kind in ("own", "all", "use"):
            _cell(ax, x, y, FACES[quarter] if own or kind != "own" else None)
        elif kind == "grad":
            _cell(ax, x, y, FACES[quarter], height=0.5, lift=0.5)
            _cell(ax, x, y, GRADIENTS, height=0.5, hatch=PATTERNS[rank])
        else:
            _cell(ax, x, y, FACES[quarter] if own or kind == "sum" else None, height=0.5, lift=0.5)
            _cell(ax, x, y, GRADIENTS if own else None, height=0.5)
    if kind in ("use", "grad"):
        x = left + RANKS * CELL + 0.3
        first, then = (f"x{rank}", f"y{rank}") if kind == "use" else (f"dx{rank}", f"dy{rank}")
        ends = [(x + 1.75, y + 0.5), (x + 2.75, y + 0.5)]
        _cell(ax, x, y, ACTIVATIONS, first, wide=1.7)
        arrow(ax, *(ends if kind == "use" else ends[::-1]), colour=COMPUTE if kind == "use" else INK, line=1.6)
        _cell(ax, x + 2.8, y, ACTIVATIONS, then, wide=1.7)


def _cell(
    ax: Axes, x: float, y: float, colour: str | None, text: str = "", bold: bool = False, height: float = 1.0,
    lift: float = 0.0, wide: float = CELL, hatch: str = "",
) -> None:  # fmt: skip
    """Draw a cell, or the place of one that holds nothing."""
    look = {"facecolor": colour or "white", "edgecolor": INK if colour else GREY, "linewidth": 0.9 if colour else 0.6,
            "zorder": 1.5 if colour else 1}  # fmt: skip
    ax.add_patch(Rectangle((x, y + lift), wide, height, linestyle="-" if colour else ":", hatch=hatch, **look))
    weight = "bold" if bold else "normal"
    ax.text(x + wide / 2, y + lift + height / 2, text, ha="center", va="center", fontsize=SMALLEST, color=INK,
            weight=weight)  # fmt: skip
