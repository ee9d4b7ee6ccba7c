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

# f and g around the MLP or the attention, on two ranks


INSIDE = {  # of each part its three steps, on rank 0 and on rank 1
    "mlp": (("columns\nof A",) * 2, ("GELU",) * 2, ("rows\nof B",) * 2),
    "attention": (("columns of\nwq, wk, wv",) * 2, ("attends with\nheads 0, 1", "attends with\nheads 2, 3"),
                  ("rows\nof wo",) * 2),
}  # fmt: skip
TITLES = {
    "mlp": "An MLP on two ranks: one message forward, one backward, and none around GELU",
    "attention": "Attention on two ranks: the same two messages, because heads do not talk",
}
FORWARD_SAYS = {
    "mlp": "no message here: the columns that a rank has are those that its rows of B need",
    "attention": "no message here: the heads that a rank has are those that its rows of wo need",
}
BACKWARD_SAYS = "each rank goes back through its own part only, so its ∂x is one summand of the whole"
WIDE = 26.0
F, G, ENDS = (4.0, 3.5), (19.5, 3.5), (2.0, 24.0)  # where each begins, and how wide; where x and y stand
STEPS = (8.2, 3.3), (12.2, 3.3), (16.2, 2.5)


def cut_layer(part: str = "mlp", ax: Axes | None = None) -> Axes:
    """Draw f and g around the "mlp" or the "attention" of a layer on two ranks, forward and backward."""
    if part not in INSIDE:
        raise ValueError(f"part={part!r}: the parts of a layer are {', '.join(INSIDE)}")
    ax = sheet(4.8, WIDE, 14.2, ax)
    ax.set_title(TITLES[part], fontsize=TITLE, loc="left")
    _direction(ax, part, 7.5, FORWARD_SAYS[part], forward=True)
    _direction(ax, part, 0.3, BACKWARD_SAYS, forward=False)
    first, act, last = (names[0].replace("\n", " ") for names in INSIDE[part])
    act = "attends with heads of its own" if part == "attention" else f"applies {act}"
    say(ax, f"Forward: both ranks have x, and f passes it on; each rank multiplies with its {first}, {act} and "
            f"multiplies with its {last}, without a message; g is an all-reduce, after which both have y.\n"
            "Backward, from right to left: g passes the gradient of y on; each rank goes back through its own part, "
            "so its gradient of x is one summand; f is an all-reduce of these.")  # fmt: skip
    return ax


def _direction(ax: Axes, part: str, low: float, words: str, forward: bool) -> None:
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
        for (x, width), names in zip(STEPS, INSIDE[part], strict=True):
            box(ax, x, row, width, 1.6, FACES[rank], names[rank])
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
WAYS = (  # name, cut of A, message, cut of B, message, widths of y that the messages send
    ("columns, then columns", "columns", "all-gather\nxA", "columns", "all-gather\ny", ("4", "1", "4 + 1 = 5")),
    ("rows, then rows", "rows", "all-reduce\nxA", "rows", "all-reduce\ny", ("2 · 4", "2 · 1", "8 + 2 = 10")),
    ("columns, then rows", "columns", "", "rows", "all-reduce\ny", ("", "2 · 1", "2")),
)


def ways_to_cut(counted: bool = False, ax: Axes | None = None) -> Axes:
    """Draw an MLP whose two matrices are cut by columns and columns, rows and rows, columns and rows.

    `counted`: with how many widths of y each message sends, for a hidden layer four times as wide.
    """
    ax = sheet(4.9, 30.4, 17.3, ax)
    title = "Three ways to cut an MLP over 4 ranks; at each purple box all wait for all"
    title = "What a rank sends, in widths of y: 5, 10 or 2" if counted else title
    ax.set_title(title, fontsize=TITLE, loc="left")
    for (name, first, middle, second, last, widths), low in zip(WAYS, (11.5, 5.8, 0.1), strict=True):
        line = low + 2.0
        name = f"{name}: {widths[2]} widths" if counted else name
        for x, width in ((14.85, widths[0]), (28.25, widths[1])) if counted else ():
            ax.text(x, line - 1.75, width, ha="center", va="center", fontsize=SMALLEST, weight="bold", color=COLLECTIVE)
        ax.text(0.1, low + 4.7, name, fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        _matrix(ax, 0.2, line, 1.8, 0.7, "columns" if first == "rows" else "", "x")
        ax.text(2.4, line, "×", ha="center", va="center", fontsize=TITLE, color=INK)
        _matrix(ax, 2.8, line, 4.0, 1.7, first, f"A: {first}")
        arrow(ax, (6.9, line), (7.9, line))
        _matrix(ax, 8.0, line, 4.0, 0.7, "summands" if first == "rows" else first,
                "xA: summands" if first == "rows" else "xA: columns")  # fmt: skip
        if middle:
            _message(ax, 13.0, line - 1.1, 3.7, 2.2, middle)
            arrow(ax, (12.1, line), (13.0, line))
        else:
            ax.text(14.7, line + 0.6, "nothing to send", ha="center", va="center", fontsize=SMALLEST, color=INK)
        arrow(ax, (16.7 if middle else 12.1, line), (17.6, line))
        for rank in range(RANKS if not middle else 0):  # each rank applies it to its own columns
            at = (17.6 + 0.55 * rank, line - 0.7)
            ax.add_patch(Rectangle(at, 0.55, 1.4, facecolor=FACES[rank], linewidth=0))
        box(ax, 17.6, line - 0.7, 2.2, 1.4, "white" if middle else "none", "GELU")
        ax.text(20.2, line, "×", ha="center", va="center", fontsize=TITLE, color=INK)
        _matrix(ax, 20.6, line, 1.8, 3.0, second, f"B: {second}")
        arrow(ax, (22.5, line), (23.5, line))
        _matrix(ax, 23.6, line, 1.8, 0.7, "summands" if second == "rows" else second, "y")
        arrow(ax, (25.5, line), (26.4, line))
        _message(ax, 26.4, line - 1.1, 3.7, 2.2, last)
    say(ax, "Columns, then columns: each rank has some columns of xA, so they all-gather the whole hidden layer, and "
            "then y.\nRows, then rows: each rank has a summand of xA, so they all-reduce the whole hidden layer, and "
            "then y.\nColumns, then rows: each rank has some columns of xA, which are what its rows of B need, so "
            "there is nothing to send before the all-reduce of y."
            + ("\nSent, in widths of y: 4 and 1; twice 4 and twice 1; twice 1." if counted else ""))  # fmt: skip
    return ax


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
    ax = sheet(4.3, 26.6, 13.6, ax)
    ax.set_title("Sequence parallelism pulls the two halves of the all-reduce apart", fontsize=TITLE, loc="left")
    for low, apart in ((7.4, False), (0.6, True)):
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
            ax.add_patch(Rectangle((left, y), wide, 0.8, facecolor=FACES[rank], edgecolor=INK, linewidth=0.6))
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
            "and f is the all-gather before the next cut part.")  # fmt: skip
    return ax
