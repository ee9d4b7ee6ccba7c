"""A transformer layer cut over ranks: f and g around a part of it, ways to cut its MLP, and what stands in between."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    GREY,
    INK,
    SMALLEST,
    TITLE,
    arrow,
    box,
    say,
    sheet,
)

# f and g around the MLP, on two ranks


INSIDE = "columns\nof A", "GELU", "rows\nof B"
FORWARD_SAYS = "no message here: the columns that a rank has are those that its rows of B need"
BACKWARD_SAYS = "each rank goes back through its own part only, so its ∂x is one summand of the whole"
WIDE = 26.0
F, G, ENDS = (4.0, 3.5), (19.5, 3.5), (2.0, 24.0)  # where each begins, and how wide; where x and y stand
STEPS = (8.2, 3.3), (12.2, 3.3), (16.2, 2.5)


def cut_layer(ax: Axes | None = None) -> Axes:
    """Draw f and g around the MLP of a layer on two ranks, forward and backward."""
    ax = sheet(4.8, WIDE, 14.2, ax)
    title = "An MLP on two ranks: one message forward, one backward, and none around GELU"
    ax.set_title(title, fontsize=TITLE, loc="left")
    _direction(ax, 7.5, FORWARD_SAYS, forward=True)
    _direction(ax, 0.3, BACKWARD_SAYS, forward=False)
    say(ax, "Forward: both ranks have x, and f passes it on; each rank multiplies with its columns of A, applies GELU "
            "and multiplies with its rows of B, without a message; g is an all-reduce, after which both have y.\n"
            "Backward, from right to left: g passes the gradient of y on; each rank goes back through its own part, "
            "so its gradient of x is one summand; f is an all-reduce of these.")  # fmt: skip
    return ax


def _direction(ax: Axes, low: float, words: str, forward: bool) -> None:
    """Draw one way through the part, on a band whose lower edge is at `low`."""
    ax.add_patch(Rectangle((0, low), WIDE, 6.5, facecolor="#F4F4F4", linewidth=0))
    name = "forward →" if forward else "← backward"
    ax.text(0.3, low + 5.75, name, fontsize=TITLE, color=INK, va="center", weight="bold")
    begin, end = STEPS[0][0] + 0.2, sum(STEPS[2]) - 0.2
    ax.plot([begin, begin, end, end], [low + 4.7, low + 4.9, low + 4.9, low + 4.7], color=INK, linewidth=1)
    ax.text((begin + end) / 2 + 1.0, low + 5.6, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
    blocks = (F, *STEPS, G)
    stops = [(ENDS[0] + 1.1, F[0]), *((sum(one), two[0]) for one, two in zip(blocks, blocks[1:], strict=False)),
             (sum(G), ENDS[1])]  # fmt: skip
    for rank, row in enumerate((low + 2.75, low + 0.45)):
        ax.text(0.3, row + 0.8, f"rank {rank}", fontsize=SMALLEST, color=INK, va="center")
        for x, said in zip(ENDS, ("x", "y") if forward else ("∂x", "∂y"), strict=True):
            box(ax, x, row + 0.3, 1.1, 1.0, "white", said)
        for (x, width), name in zip(STEPS, INSIDE, strict=True):
            box(ax, x, row, width, 1.6, FACES[rank], name)
        for left, right in stops:
            arrow(ax, (left, row + 0.8), (right, row + 0.8), "-|>" if forward else "<|-", line=1.4)
    for (x, width), name, sums in ((F, "f", not forward), (G, "g", forward)):
        if sums:
            _message(ax, x, low + 0.45, width, 3.9, f"{name}\nall-reduce")
        else:
            box(ax, x, low + 0.45, width, 3.9, "white", f"{name}\npasses it on")


def _message(ax: Axes, x: float, y: float, width: float, height: float, words: str) -> None:
    box(ax, x, y, width, height, COLLECTIVE)
    look = {"ha": "center", "va": "center", "fontsize": SMALLEST, "weight": "bold", "color": "white"}
    ax.text(x + width / 2, y + height / 2, words, **look)


# Ways to cut the two matrices of an MLP


RANKS = 4
SIZE_OF_Y = 0.7  # how high a message as large as y is drawn
WAYS = (  # name, cut of A, (message, how many times the size of y), cut of B, the same of the last message
    ("columns, then columns", "columns", ("all-gather\nxA", 4), "columns", ("all-gather y", 1)),
    ("rows, then columns", "rows", ("all-reduce\nxA", 8), "columns", ("all-gather y", 1)),
    ("rows, then rows", "rows", ("reduce-\nscatter xA", 4), "rows", ("all-reduce\ny", 2)),
    ("columns, then rows", "columns", None, "rows", ("all-reduce\ny", 2)),
)


def ways_to_cut(ax: Axes | None = None) -> Axes:
    """Draw an MLP whose two matrices are cut by columns or rows, all four plans.

    A message is as high as what is sent in it, where the vector in the middle is four times as long as y.
    """
    ax = sheet(6.4, 31.2, 24.4, ax)
    ax.set_title("Columns, then rows sends the least: 2 times the size of y", fontsize=TITLE, loc="left")
    for (name, first, middle, second, last), low in zip(WAYS, (18.9, 12.1, 6.1, 0.2), strict=True):
        line, sent = low + 2.2, last[1] + (middle[1] if middle else 0)
        if middle and middle[1] > 4:
            line += 1.1  # room below for the highest message
        ax.text(0.1, line + 2.3, f"{name}: {sent} × y", fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        _matrix(ax, 0.2, line, 1.8, 0.7, "columns" if first == "rows" else "", "x")
        ax.text(2.4, line, "×", ha="center", va="center", fontsize=TITLE, color=INK)
        _matrix(ax, 2.8, line, 4.0, 1.7, first, f"A: {first}")
        arrow(ax, (6.9, line), (7.9, line))
        _matrix(ax, 8.0, line, 4.0, 0.7, "summands" if first == "rows" else first,
                "xA: summands" if first == "rows" else "xA: columns")  # fmt: skip
        if middle:
            _sent(ax, 12.8, line, *middle)
            arrow(ax, (12.1, line), (12.8, line))
        else:
            ax.text(14.8, line + 0.6, "nothing to send", ha="center", va="center", fontsize=SMALLEST, color=INK)
        arrow(ax, (16.9 if middle else 12.1, line), (17.7, line))
        box(ax, 17.7, line - 0.9, 2.2, 1.8, "white", "GELU\n")
        whole = middle is not None and middle[0].startswith("all-")  # or each rank has its own columns
        for rank in range(1 if whole else RANKS):
            at, wide = (17.9 + 0.45 * rank, line - 0.65), 1.8 if whole else 0.45
            face = "white" if whole else FACES[rank]
            ax.add_patch(Rectangle(at, wide, 0.5, facecolor=face, edgecolor=INK, linewidth=0.5))
        ax.text(20.3, line, "×", ha="center", va="center", fontsize=TITLE, color=INK)
        _matrix(ax, 20.7, line, 1.8, 3.0, second, f"B: {second}")
        arrow(ax, (22.6, line), (23.6, line))
        _matrix(ax, 23.7, line, 1.8, 0.7, "summands" if second == "rows" else second, "y")
        arrow(ax, (25.6, line), (26.5, line))
        _sent(ax, 26.5, line, *last)
    # a light ground for the best plan
    ax.add_patch(Rectangle((0, -0.4), 31.2, 5.75, facecolor="#F3E6EF", edgecolor="none", zorder=-1))
    say(ax, "Columns, then columns: each rank has some columns of xA, so they all-gather the whole vector in the "
            "middle, 4 times the size of y, and then y: 5.\nRows, then columns: each rank has a summand of "
            "xA and all of it must be whole for columns of B, so an all-reduce sends 8 times y, and an all-gather of y "
            "1: 9.\nRows, then rows: each rank has a summand of xA; a "
            "reduce-scatter, 4 times y, gives each the finished columns that its rows of B need, and an all-reduce of "
            "y sends 2: 6.\nColumns, then rows: each rank has some columns of xA, which are what its rows of B need, "
            "so there is nothing to send before the all-reduce of y: 2.")  # fmt: skip
    return ax


def _sent(ax: Axes, x: float, middle: float, name: str, times: int) -> None:
    """Draw a message as high as it is large, in sizes of y, and write these below."""
    high = SIZE_OF_Y * times
    _message(ax, x, middle - high / 2, 4.1, high, name)
    look = {"ha": "center", "va": "center", "fontsize": SMALLEST, "weight": "bold", "color": COLLECTIVE}
    ax.text(x + 2.05, middle - high / 2 - 0.5, f"{times} × y", **look)


def _matrix(ax: Axes, x: float, middle: float, width: float, height: float, cut: str, name: str) -> None:
    """Draw a matrix around the height `middle`: each rank's columns, rows or summand in its colour, its name below."""
    for rank in range(RANKS if cut else 1):
        left, low, wide, high = x, middle - height / 2, width, height
        if cut == "columns":
            left, wide = x + rank * width / RANKS, width / RANKS
        elif cut == "rows":
            low, high = middle + height / 2 - (rank + 1) * height / RANKS, height / RANKS
        elif cut == "summands":
            low, high = middle + 0.58 * (1.5 - rank) - 0.2, 0.4
        colour = FACES[rank] if cut else "white"
        ax.add_patch(Rectangle((left, low), wide, high, facecolor=colour, edgecolor=INK, linewidth=0.6))
    bottom = middle - (1.1 if cut == "summands" else height / 2)
    ax.text(x + width / 2, bottom - 0.55, name, ha="center", va="center", fontsize=SMALLEST, color=INK)


# What stands between g and the next f


PART, HALF = 5.0, 3.3  # how wide a cut part is drawn, and each half of an all-reduce


def sequence_parallel(ax: Axes | None = None) -> Axes:
    """Draw what stands between two cut parts of a layer, without and with sequence parallelism."""
    ax = sheet(4.6, 26.6, 14.4, ax)
    ax.set_title("Sequence parallelism pulls the two halves of the all-reduce apart", fontsize=TITLE, loc="left")
    back = "backward runs from right to left: then f is the reduce-scatter and g the all-gather"
    ax.text(26.4, 0.15, back, ha="right", va="center", fontsize=SMALLEST, color=INK)
    for low, apart in ((8.2, False), (1.5, True)):
        name = "with sequence parallelism" if apart else "tensor parallelism alone"
        ax.text(0.1, low + 5.1, name, fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        norm, tokens = (10.2, 7.0) if apart else (13.5, 5.4)
        scatter, gather = (f"{end}:\n" if apart else "" for end in "gf")
        box(ax, 0.1, low + 0.6, PART, 2.8, "#F4F4F4", "attention or MLP,\ncut over ranks")
        _message(ax, 6.0, low + 0.6, HALF, 2.8, f"{scatter}reduce-\nscatter")
        _message(ax, 18.1 if apart else 6.0 + HALF, low + 0.6, HALF, 2.8, f"{gather}all-\ngather")
        said = "a quarter of the tokens" if apart else "all tokens, all the same"
        words = f"dropout, +, norm: each rank\n{said}"
        ax.text(norm + tokens / 2, low + 4.9, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
        for rank in range(RANKS):
            y, share = low + 0.1 + (3 - rank) * 0.98, tokens / RANKS
            ax.add_patch(Rectangle((norm, y), tokens, 0.8, facecolor="white", edgecolor=GREY, linewidth=0.6))
            left, wide = (norm + rank * share, share) if apart else (norm, tokens)
            colour = FACES[rank] if apart else "white"
            ax.add_patch(Rectangle((left, y), wide, 0.8, facecolor=colour, edgecolor=INK, linewidth=0.6))
            place = {"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK}
            ax.text(left + wide / 2, y + 0.38, f"{'' if apart else 'rank '}{rank}", **place)
        ax.text(norm + tokens / 2, low - 0.4, "first token → last token", ha="center", va="center", fontsize=SMALLEST)
        box(ax, 22.3, low + 0.6, 4.1, 2.8, "#F4F4F4", "the next\ncut part")
        if not apart:
            ax.text(6.0 + HALF, low + 3.85, "g: an all-reduce", ha="center", fontsize=SMALLEST, color=INK)
            box(ax, 19.8, low + 0.6, 1.7, 2.8, "white", "f:\npass\non")
        middle = (9.3, 10.2, 17.2, 18.1) if apart else (12.6, 13.5, 18.9, 19.8)
        edges = (5.1, 6.0, *middle, 21.4 if apart else 21.5, 22.3)
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            arrow(ax, (left, low + 2.0), (right, low + 2.0))
    say(ax, "Tensor parallelism alone: after a cut part comes g, an all-reduce, which is a reduce-scatter and an "
            "all-gather; then every one of 4 ranks does dropout, addition and norm for all tokens, and f passes them "
            "on.\nWith sequence parallelism: g is the reduce-scatter, then every rank does a quarter of the tokens, "
            "and f is the all-gather before the next cut part; backward f is the reduce-scatter and g the "
            "all-gather.")  # fmt: skip
    return ax
