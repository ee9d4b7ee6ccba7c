"""Pictures that only the slides of chapter 5 have."""

from __future__ import annotations

from functools import partial
from math import cos, erf, pi, sin, sqrt

import kit
from kit import ACROSS, BIG, LETTERS, PALE, axes, bar, box, frame, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Wedge

from course_lib.costs import one_shot_seconds, protocol_seconds
from course_lib.hardware import DGX_H100, H100
from course_lib.lessons.layer_trace import layer_seconds
from course_lib.memory import activation_bytes, training_memory
from course_lib.models import MODELS, attention_weights, mlp_weights, parameter_count
from course_lib.plots import canvas

line = partial(kit.line, zorder=0.6)  # below what it joins

WHITE, INK = "#FFFFFF", canvas.INK
FACES, SENT, FAULT = canvas.FACES, canvas.COLLECTIVE, canvas.LIMIT
LLAMA, LARGE = MODELS["Llama-3-70B"], MODELS["Llama-3-405B"]
LINKS = {"NVLink": H100.link, "the network": DGX_H100.nic}
HALF_PEAK = 0.5 * H100.peak("bf16")
PARTS = {"weights": canvas.WEIGHTS, "gradients": canvas.GRADIENTS, "optimizer": canvas.OPTIMIZER,
         "activations": canvas.ACTIVATIONS}  # fmt: skip


def _cell(ax: Axes, x: float, y: float, wide: float, high: float, colour: str = WHITE) -> None:
    bar(ax, x, y, wide, high, colour, edgecolor=INK, linewidth=0.9)


def _columns(ax: Axes, x: float, y: float, wide: float, high: float, ranks: int = 4) -> None:
    """Draw a matrix whose columns belong to ranks."""
    for rank in range(ranks):
        _cell(ax, x + wide / ranks * rank, y, wide / ranks, high, FACES[rank])


def _rows(ax: Axes, x: float, y: float, wide: float, high: float, ranks: int = 4) -> None:
    """Draw a matrix whose rows belong to ranks, rank 0 on top."""
    for rank in range(ranks):
        _cell(ax, x, y + high / ranks * (ranks - 1 - rank), wide, high / ranks, FACES[rank])


def _reading(gpus: int, bits: int = 8) -> float:
    """Return the seconds in which each GPU reads its weights of Llama-3-405B once."""
    return bits / 8 * parameter_count(LARGE) / gpus / H100.memory_bandwidth


def _waiting(gpus: int, one_step: bool = False) -> float:
    """Return the seconds that a token waits for all-reduces, with the chapter's constants."""
    size = 2 * LARGE.hidden
    each = one_shot_seconds(gpus, size, 4.6e-6, 295e9) if one_step else protocol_seconds(
        "all_reduce", gpus, size, H100.link, "LL")
    return 2 * LARGE.layers * each


# The opening


def too_slow_or_too_large() -> Figure:
    """What one token of Llama-3-405B reads, and one of its layers in training beside the memory of a GPU."""
    ax = sheet(36, 30)
    words(ax, 1, 28, "too slow", weight="bold", size=BIG)
    bar(ax, 1, 22, 34, 4, canvas.WEIGHTS)
    size, speed = 2 * parameter_count(LARGE) / 1e9, H100.memory_bandwidth / 1e12
    words(ax, 18, 24, f"{size:.0f} GB of weights", ha="center", colour="white", weight="bold")
    words(ax, 1, 20, f"read at {speed:.2f} TB a second for each token:")
    words(ax, 1, 17.4, f"{1 / _reading(1, 16):.0f} tokens a second", weight="bold", size=BIG, colour=FAULT)
    layer, scale = 16 * (attention_weights(LARGE) + mlp_weights(LARGE)) / 1e9, 0.32
    words(ax, 1, 12, "too large", weight="bold", size=BIG)
    frame(ax, 1, 4, 80 * scale, 5.6)
    for place, look in enumerate(({"edgecolor": INK}, {"edgecolor": FAULT, "linestyle": "--", "linewidth": 2})):
        bar(ax, 1.2 + layer * scale * place, 4.8, layer * scale - 0.4, 4, FACES[0] if not place else "none", **look)
        words(ax, 1 + layer * scale * (place + 0.5), 6.8, f"a layer: {layer:.0f} GB" if not place else "the next?",
              ha="center", weight="bold", colour=FAULT if place else INK)
    words(ax, 1, 2, "training, on a GPU of 80 GB")
    return ax.figure


@steps(range(2))
def row_or_share(step: int) -> Figure:
    """Who reads its weights when: in a row of GPUs one after another, and then all in every layer together."""
    ax, gpus, wide = sheet(65, 30, ACROSS), 16, 48
    for base, name, told in ((16.4, "a row of 16 GPUs", "one after another"),
                             (0.6, "16 GPUs in each layer", "all at the same moment"))[:step + 1]:
        words(ax, 0.4, base + 9, name.replace(" in ", "\nin ").replace("of 16", "\nof 16"), weight="bold")
        words(ax, 0.4, base + 4.6, told.replace("the same", "the\nsame"))
        for gpu in range(gpus):
            y = base + 11.2 - 0.72 * gpu
            bar(ax, 16, y, wide, 0.6, canvas.WAITING if base > 10 else "#F7F7F7")
            if base > 10:
                bar(ax, 16 + wide / gpus * gpu, y, wide / gpus, 0.6, canvas.WEIGHTS)
            else:
                bar(ax, 16, y, wide / gpus, 0.6, canvas.WEIGHTS)
    words(ax, 64, 29.2, f"one token: {_reading(1, 16):.2f} s", ha="right", weight="bold")
    words(ax, 16, 29.2, "blue: a GPU reads weights")
    if step:
        words(ax, 20.4, 6.6, "each reads a sixteenth of every layer,", size=BIG, weight="bold")
        words(ax, 20.4, 3.6, "but after each layer they have to talk", size=BIG, weight="bold", colour=SENT)
    return ax.figure


def mlp() -> Figure:
    """An MLP as wide as its vectors are: x, the inner vector of four times its length, and y."""
    ax = sheet(36, 30)
    middle = 18
    for y, half, name in ((27, 3.5, "x"), (15, 14, "inner vector, 4 times as long"), (2, 3.5, "y")):
        _cell(ax, middle - half, y, 2 * half, 2.4)
        words(ax, middle, y + 1.2, name, ha="center", weight="bold")
    for top, bottom, y, name in ((3.5, 14, 22.2, "matrix A, then GELU"), (14, 3.5, 9.6, "matrix B")):
        ax.add_patch(Polygon([(middle - top, y + 4.2), (middle + top, y + 4.2), (middle + bottom, y - 4.2),
                              (middle - bottom, y - 4.2)], facecolor=FACES[7], edgecolor=INK))
        words(ax, middle, y - 0.6 if top < bottom else y + 0.8, name, ha="center", weight="bold", size=BIG)
    return ax.figure


# Section 1: columns and rows


def two_cuts() -> Figure:
    """A matrix of four ranks, once cut by columns and once by rows."""
    ax = sheet(36, 22, (3.6, 2.2))
    for x, name, draw in ((1, "by columns", _columns), (20, "by rows", _rows)):
        draw(ax, x, 1, 15, 15)
        words(ax, x + 7.5, 18.6, name, ha="center", weight="bold", size=BIG)
    for rank in range(4):
        words(ax, 1 + 3.75 * (rank + 0.5), 8.5, f"{rank}", ha="center", size=BIG)
        words(ax, 27.5, 1 + 3.75 * (3.5 - rank), f"rank {rank}", ha="center")
    return ax.figure


@steps(range(1, 3))
def columns_and_rows(step: int) -> Figure:
    """A product cut by columns, and then by rows: what of x each rank needs, and what of y it gets."""
    ax = sheet(65, 30, ACROSS)
    for x, name, by_rows in ((0.5, "by columns: finished pieces of y", False),
                             (33.2, "by rows: summands of y", True))[:step]:
        words(ax, x, 28.4, name, weight="bold", size=BIG)
        for rank in range(4):
            _cell(ax, x + 2.05 * rank, 18, 2.05, 2.2, FACES[rank] if by_rows else WHITE)
        words(ax, x + 9.9, 19.1, "×", ha="center", size=BIG)
        (_rows if by_rows else _columns)(ax, x + 11.4, 14, 8.2, 10.2)
        words(ax, x + 21.2, 19.1, "=", ha="center", size=BIG)
        for rank in range(4):
            if by_rows:
                _cell(ax, x + 22.8, 22.2 - 3.2 * rank, 8.2, 1.9, FACES[rank])
                if rank:
                    words(ax, x + 26.9, 24.65 - 3.2 * rank, "+", ha="center")
            else:
                _cell(ax, x + 22.8 + 2.05 * rank, 18, 2.05, 2.2, FACES[rank])
        for at, letter in ((4.1, "x"), (15.5, "W"), (26.9, "y")):
            words(ax, x + at, 25.9, letter, ha="center", weight="bold")
        told = (("a quarter", "of x"), ("a quarter", "of W"), ("as long as y,", "not finished")) if by_rows else (
            ("all of x", ""), ("a quarter", "of W"), ("a quarter of", "y, finished"))
        for at, lines in zip((4.1, 15.5, 26.9), told, strict=True):
            words(ax, x + at, 8.8, "\n".join(lines), ha="center")
        formula = "  +  ".join(f"x{n}R{n}" for n in "₀₁₂₃") if by_rows else "[ " + " | ".join(
            f"xC{n}" for n in "₀₁₂₃") + " ]"
        words(ax, x + 15.5, 3, formula, ha="center", size=BIG, family="DejaVu Sans")
    return ax.figure


@steps(range(1, 3))
def plans(step: int) -> Figure:
    """The way of x through an MLP by two plans: what is computed on four ranks, and where they send."""
    ax = sheet(65, 30, ACROSS)
    for y, name, second in ((21.4, "columns, then columns", True), (6.4, "columns, then rows", False))[:step]:
        words(ax, 0.5, y + 7.2, name, weight="bold", size=BIG)
        _cell(ax, 0.5, y - 1.2, 3, 2.4)
        words(ax, 2, y + 2.8, "x", ha="center", weight="bold")
        _columns(ax, 6.3, y - 3, 8, 6)
        words(ax, 10.3, y - 5, "A", ha="center", weight="bold")
        box(ax, 31, y - 2, 6, 4, WHITE, "GELU")
        if second:
            _sum(ax, 18.5, y - 5, 8.5, 10, "all-gather\ninner\nvector")
            _columns(ax, 40.4, y - 3, 6, 6)
            _sum(ax, 49.6, y - 2, 9, 4, "all-gather\ny")
            ways = ((3.5, 6.3), (14.3, 18.5), (27, 31), (37, 40.4), (46.4, 49.6), (58.6, 61.2))
        else:
            words(ax, 22.7, y - 0.8, "nothing is sent:\nthe rank's rows need\njust its columns", ha="center", va="top")
            _rows(ax, 40.4, y - 3, 6, 6)
            _sum(ax, 49.6, y - 2, 9, 4, "all-reduce\ny")
            ways = ((3.5, 6.3), (14.3, 31), (37, 40.4), (46.4, 49.6), (58.6, 61.2))
        words(ax, 43.4, y - 5, "B", ha="center", weight="bold")
        _cell(ax, 61.2, y - 1.2, 3, 2.4)
        words(ax, 62.7, y + 2.8, "y", ha="center", weight="bold")
        for start, end in ways:
            canvas.arrow(ax, (start + 0.2, y), (end - 0.2, y))
    return ax.figure


def _sum(ax: Axes, x: float, y: float, wide: float, high: float, text: str) -> None:
    """Draw a box in which ranks exchange numbers."""
    bar(ax, x, y, wide, high, SENT)
    words(ax, x + wide / 2, y + high / 2, text, ha="center", colour="white", weight="bold")


def lengths() -> Figure:
    """How long the inner vector is beside y, and what each plan sends of them."""
    ax = sheet(36, 30)
    for y, name, long, short in ((17, "columns, then columns", "gather the inner vector", "gather y"),
                                 (3, "columns, then rows", "", "all-reduce y")):
        words(ax, 1, y + 9.4, name, weight="bold", size=BIG)
        if long:
            bar(ax, 1, y + 4, 32, 3, SENT)
            words(ax, 17, y + 5.5, long, ha="center", colour="white", weight="bold")
        low = y if long else y + 4
        bar(ax, 1, low, 8, 3, SENT)
        words(ax, 10, low + 1.5, short, weight="bold")
    return ax.figure


def sent_by_plans() -> list[Figure]:
    """What each way to cut both matrices sends, in lengths of y: between the products, and at the end."""
    return [_sent_by_plans(shown) for shown in (2, 4)]


def _sent_by_plans(shown: int) -> Figure:
    ax, unit = sheet(36, 30), 3.5
    ways = (("columns, then columns", 4, 1), ("columns, then rows", 0, 2), ("rows, then columns", 8, 1),
            ("rows, then rows", 4, 2))
    for place, (name, inner, last) in enumerate(ways[:shown]):
        y = 22.6 - 7.3 * place
        words(ax, 0.5, y + 4.9, name, weight="bold" if inner + last == 2 else "normal")
        bar(ax, 0.5, y, unit * inner, 3.4, SENT)
        bar(ax, 0.5 + unit * inner, y, unit * last, 3.4, FACES[5], edgecolor=SENT)
        words(ax, 0.5 + unit * inner / 2, y + 1.7, f"inner vector: {inner}" if inner else "", ha="center",
              colour="white", weight="bold")
        words(ax, 0.5 + unit * (inner + last / 2), y + 1.7, f"y: {last}", ha="center", weight="bold")
        words(ax, 1.3 + unit * (inner + last), y + 1.7, f"{inner + last}", weight="bold", size=BIG)
    return ax.figure


def gelu_first() -> Figure:
    """Two summands that are added up before GELU, and two that go through it alone."""
    ax = sheet(36, 30)
    words(ax, 1, 28.2, "add up first", weight="bold", size=BIG)
    words(ax, 1, 13.4, "GELU first", weight="bold", size=BIG)
    for y, number, rank in ((22.6, "3", 0), (17.6, "−3", 1), (7.8, "3", 0), (2.8, "−3", 1)):
        box(ax, 1, y - 1.6, 8, 3.2, FACES[rank], f"rank {rank}:  {number}")
    for y in (22.6, 17.6):
        canvas.arrow(ax, (9.2, y), (12.8, 20.1 + (y - 20.1) * 0.3))
    for x, name, wide, colour in ((13, "+", 3, SENT), (18, "0", 3, WHITE), (23, "GELU", 6, WHITE), (32, "0", 3, WHITE)):
        box(ax, x, 18.5, wide, 3.2, colour, name, weight="bold")
    for start, end in ((16, 18), (21, 23), (29, 32)):
        canvas.arrow(ax, (start + 0.1, 20.1), (end - 0.1, 20.1))
    for y in (7.8, 2.8):
        box(ax, 12.6, y - 1.6, 6, 3.2, WHITE, "GELU", weight="bold")
        box(ax, 21, y - 1.6, 3, 3.2, WHITE, "?", weight="bold")
        canvas.arrow(ax, (9.2, y), (12.4, y))
        canvas.arrow(ax, (18.7, y), (20.8, y))
        canvas.arrow(ax, (24.2, y), (26.6, 5.3 + (y - 5.3) * 0.3))
    box(ax, 26.8, 3.7, 3, 3.2, SENT, "+", weight="bold")
    box(ax, 32, 3.7, 3, 3.2, WHITE, "?", weight="bold")
    canvas.arrow(ax, (29.9, 5.3), (31.8, 5.3))
    return ax.figure


def gelu_curve() -> Figure:
    """GELU's curve with the two summands on it."""
    ax = axes()
    xs = [place / 20 for place in range(-80, 81)]
    ax.plot(xs, [_gelu(x) for x in xs], color=canvas.COMPUTE, linewidth=3)
    ax.plot(xs, xs, color=canvas.GREY, linewidth=1, linestyle="--")
    for x, place, side in ((3, (-0.35, 0), "right"), (-3, (0, 0.5), "center"), (0, (0.35, -0.45), "left")):
        ax.plot(x, _gelu(x), "o", color=FAULT if x else INK, markersize=9)
        told = f"GELU({x}) = {_gelu(x):.3f}" if x else "GELU(0) = 0"
        words(ax, x + place[0], _gelu(x) + place[1], told.replace("-", "−"), ha=side, weight="bold", size=BIG,
              colour=FAULT if x else INK)
    ax.set(xlim=(-4.9, 4), ylim=(-1, 4), xticks=(-3, 0, 3), yticks=(0, 3))
    ax.set_xticklabels(["−3", "0", "3"])
    return ax.figure


def _gelu(x: float) -> float:
    return x * (1 + erf(x / sqrt(2))) / 2


# Section 2: f and g


def seven_x() -> Figure:
    """Two ranks compute 2x and 5x, and g adds them up."""
    return _seven(backward=False, summed=False)


def two_terms() -> list[Figure]:
    """Backward through each rank's own part leaves it one term of the gradient, and f adds the terms up."""
    return [_seven(backward=True, summed=summed) for summed in (False, True)]


def without_f() -> Figure:
    """Each rank goes on with its own term of the gradient, because nobody adds the terms up."""
    ax = _seven(backward=True, summed=False).axes[0]
    words(ax, 1, 0.9, "f is forgotten: nobody adds up", weight="bold", colour=FAULT)
    return ax.figure


def _seven(*, backward: bool, summed: bool) -> Figure:
    ax = sheet(36, 24, (3.6, 2.4))
    for y, rank, told in ((15.4, 0, "2x"), (5.4, 1, "5x")):
        words(ax, 16, y + 5.4, f"rank {rank}", ha="center")
        box(ax, 12.5, y, 7, 4, FACES[rank], told, size=BIG, weight="bold")
        canvas.arrow(ax, (5.6, 11.6 if rank else 14.2), (12.3, y + 2.8), colour=canvas.FORWARD, line=2)
        canvas.arrow(ax, (19.7, y + 2.6), (24.2, 13 if not rank else 11.4), colour=canvas.FORWARD, line=2)
        if backward:
            end = (5.6, 10 if rank else 12.6) if summed else (8.6, (y + 1.2 + (10 if rank else 12.6)) / 2)
            canvas.arrow(ax, (12.3, y + 1.2), end, colour=canvas.BACKWARD, line=4)
            words(ax, 8.2, (20 if not rank else 4.4), f"∂x: {2 if not rank else 5}", ha="center", weight="bold",
                  size=BIG, colour="#9A5B00", family="DejaVu Sans")
    bar(ax, 24.4, 9.6, 4, 5.4, SENT)
    words(ax, 26.4, 12.3, "g: +", ha="center", colour="white", weight="bold")
    canvas.arrow(ax, (28.6, 12.3), (31.4, 12.3), colour=canvas.FORWARD, line=2)
    words(ax, 31.8, 12.3, "7x", weight="bold", size=BIG)
    if summed:
        bar(ax, 0.3, 9, 5, 6.4, SENT)
        words(ax, 2.8, 12.2, "f: 7", ha="center", colour="white", weight="bold")
    else:
        words(ax, 3.6, 12.2, "x", ha="center", weight="bold", size=BIG)
    return ax.figure


def mirror() -> list[Figure]:
    """What f does in forward and backward, and then g: each passes on in one direction, and sums in the other."""
    return [_mirror(step) for step in range(1, 3)]


def _mirror(step: int) -> Figure:
    ax = sheet(65, 30, ACROSS)
    words(ax, 29, 28.6, "forward", weight="bold", size=BIG, ha="center", colour="#1F7DB0")
    words(ax, 51, 28.6, "backward", weight="bold", size=BIG, ha="center", colour="#9A5B00")
    for y, name, told in ((19.6, "f", "where x enters"), (6.4, "g", "where y leaves"))[:step]:
        words(ax, 0.5, y + 1.2, name, weight="bold", size=22)
        words(ax, 3.4, y + 1, told)
        for x, back in ((29, False), (51, True)):
            colour = canvas.BACKWARD if back else canvas.FORWARD
            summing = (name == "f") == back
            ends = ((x + 4, y + 1.6, x + 9.6, y + 4.2), (x + 4, y + 0.4, x + 9.6, y - 2.2)) if name == "f" else (
                (x - 9.6, y + 4.2, x - 4, y + 1.6), (x - 9.6, y - 2.2, x - 4, y + 0.4))
            for x0, y0, x1, y1 in ends:
                canvas.arrow(ax, *(((x1, y1), (x0, y0)) if back else ((x0, y0), (x1, y1))), colour=colour, line=2.5)
            single = ((x - 8.4, y + 1), (x - 4, y + 1)) if name == "f" else ((x + 4, y + 1), (x + 8.4, y + 1))
            canvas.arrow(ax, *(reversed(single) if back else single), colour=colour, line=2.5)
            if summing:
                _sum(ax, x - 3.8, y - 1.8, 7.6, 5.6, "all-\nreduce")
            else:
                box(ax, x - 3.8, y - 1.8, 7.6, 5.6, WHITE, "passes\non")
            for place, low in enumerate((y + 3, y - 3.4)):
                left = x + 9.8 if name == "f" else x - 12.6
                box(ax, left, low, 2.8, 2.6, FACES[place], f"{place}")
    return ax.figure


# Section 3: attention


def softmax_between() -> Figure:
    """The plan for attention: columns, then rows, with a softmax between them."""
    ax = sheet(36, 20, (3.6, 2.0))
    _columns(ax, 0.5, 6, 10, 9, 2)
    _rows(ax, 26, 6, 9, 9, 2)
    box(ax, 14, 7, 8.6, 7, WHITE, "softmax\nmixes\ntokens", edge=FAULT, line=2)
    words(ax, 18.3, 16.8, "?", ha="center", size=20, weight="bold", colour=FAULT)
    for start, end in ((10.6, 13.8), (22.8, 25.8)):
        canvas.arrow(ax, (start, 10.5), (end, 10.5), line=2)
    words(ax, 5.5, 17, "wq, wk, wv", ha="center", weight="bold")
    words(ax, 30.5, 17, "wo", ha="center", weight="bold")
    words(ax, 5.5, 3.6, "columns", ha="center")
    words(ax, 30.5, 3.6, "rows", ha="center")
    return ax.figure


@steps(range(3))
def heads(step: int) -> Figure:
    """Columns, softmax and rows of four heads, and then where two ranks may cut and where not."""
    ax = sheet(36, 30)
    words(ax, 0.3, 28.8, "wq, wk, wv: columns", weight="bold")
    for head in range(4):
        x, colour = 0.4 + 8.9 * head, FACES[head // 2] if step else WHITE
        for column in range(4):
            _cell(ax, x + 2.05 * column, 19.4, 2.05, 7.4, colour)
        canvas.arrow(ax, (x + 4.1, 19.2), (x + 4.1, 16.6))
        box(ax, x, 12.2, 8.2, 4.2, colour, "softmax")
        canvas.arrow(ax, (x + 4.1, 12), (x + 4.1, 9.4))
        box(ax, x, 6, 8.2, 3.2, colour, f"head {head}")
    words(ax, 0.3, 4.2, "wo: rows")
    if step:
        line(ax, (17.75, 3.4), (17.75, 28), wide=4, zorder=4)
        words(ax, 17, 1.6, "cut here", ha="center", weight="bold", size=BIG)
    if step == 2:
        line(ax, (24.35, 3.4), (24.35, 28), wide=2.5, colour=FAULT, linestyle="--", zorder=4)
        words(ax, 28, 1.6, "not here", ha="center", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


@steps(range(1, 3))
def shared_heads(step: int) -> Figure:
    """The query heads and key/value heads of Llama-3-70B on eight GPUs, and then on sixteen."""
    ax = sheet(65, 30, ACROSS)
    for y, gpus in ((16.6, 8), (1.4, 16))[:step]:
        wide = 64 / gpus
        words(ax, 0.5, y + 11.4, f"{gpus} GPUs", weight="bold", size=BIG)
        told = "each key/value head is held once" if gpus == 8 else "each is held twice"
        words(ax, 10, y + 11.3, told, colour=INK if gpus == 8 else FAULT, weight="bold")
        queries = LLAMA.heads // gpus
        for gpu in range(gpus):
            x, group = 0.5 + wide * gpu, gpu * LLAMA.kv_heads // gpus
            frame(ax, x + 0.2, y, wide - 0.4, 9.4)
            for query in range(queries):
                size = (wide - 1.2) / queries
                _cell(ax, x + 0.6 + size * query, y + 5.6, size, 2.8, FACES[group])
            look = {"hatch": "////"} if gpus == 16 and gpu % 2 else {}
            bar(ax, x + 0.6, y + 1.2, wide - 1.2, 3, FACES[group], edgecolor=INK, linewidth=0.9, **look)
            words(ax, x + wide / 2, y + 2.7, f"k, v {group}" if gpus == 8 else f"{group}", ha="center",
                  bbox={"facecolor": FACES[group], "edgecolor": "none", "pad": 1.5})
    words(ax, 64, 28, f"above {LLAMA.heads} query heads, below {LLAMA.kv_heads} key/value heads", ha="right")
    return ax.figure


# Section 4: the same model?


def one_or_four() -> Figure:
    """A model on one rank, and the same layers cut over four."""
    ax = sheet(36, 22, (3.6, 2.2))
    for x, ranks, told in ((1, 1, "one device"), (20, 4, "four ranks")):
        for layer in range(4):
            for rank in range(ranks):
                _cell(ax, x + 15 / ranks * rank, 4 + 3.6 * layer, 15 / ranks, 2.8, FACES[rank] if ranks > 1 else WHITE)
        words(ax, x + 7.5, 20.4, told, ha="center", weight="bold")
    words(ax, 18, 10.6, "=?", ha="center", weight="bold", size=BIG)
    words(ax, 18, 1.6, "the same loss after eight steps?", ha="center")
    return ax.figure


def meetings() -> Figure:
    """The sixteen all-reduces of a step: in each half of four layers, one forward and one backward."""
    ax = sheet(36, 30)
    for place in range(8):
        y = 24.4 - 3.2 * place
        box(ax, 8.4, y, 13, 2.5, FACES[7] if place % 2 else FACES[4], "MLP" if place % 2 else "attention")
        for x, name in ((25.6, "g"), (32, "f")):
            _sum(ax, x - 1.6, y + 0.1, 3.2, 2.3, name)
        if place % 2 == 0:
            words(ax, 0.3, y - 0.4, f"layer {place // 2 + 1}", weight="bold")
    for x, name in ((25.2, "forward"), (32, "backward")):
        words(ax, x, 28.8, name, ha="center", weight="bold")
    words(ax, 35.4, 0.4, "16 all-reduces in a step", ha="right", weight="bold", colour=SENT)
    return ax.figure


def downhill() -> Figure:
    """The right step of the embedding, and that of a rank without the sum, 70 degrees away and still downhill."""
    ax = sheet(36, 24, (3.6, 2.4))
    ax.set_aspect("equal")
    x, y, long = 15, 11.4, 11
    ax.add_patch(Wedge((x, y), long, -65, 115, facecolor=FACES[2], edgecolor="none", alpha=0.55))
    line(ax, *((x + long * cos(a), y + long * sin(a)) for a in (115 * pi / 180, 295 * pi / 180)), colour=INK,
          linestyle="--", wide=1.5)
    for degrees, colour in ((25, canvas.COMPUTE), (95, FAULT)):
        a = degrees * pi / 180
        canvas.arrow(ax, (x, y), (x + (long - 1) * cos(a), y + (long - 1) * sin(a)), colour=colour, line=4)
    words(ax, 25.6, 17, "right step", weight="bold", colour="#00735A")
    words(ax, 12.6, 22.2, "rank 0's step", weight="bold", colour=FAULT, ha="right")
    words(ax, 15.8, 15.4, "70°", weight="bold", size=BIG)
    words(ax, 18.2, 6.6, "downhill:\nbelow 90°", weight="bold")
    words(ax, 7, 5, "uphill", ha="center")
    return ax.figure


# Section 5: memory


def expected() -> Figure:
    """What training holds on one device, and on each of four ranks what you would expect."""
    ax = sheet(36, 26, (3.6, 2.6))
    parts = training_memory(LLAMA, 1, 8192, recompute="selective").parts
    total, low = sum(parts[name] for name in PARTS), 3
    for name, colour in PARTS.items():
        high = 21 * parts[name] / total
        bar(ax, 1, low, 8, high, colour)
        words(ax, 10, low + high / 2, name)
        for rank in range(4):
            bar(ax, 20.6 + 3.9 * rank, 3 + (low - 3) / 4, 3.2, high / 4, colour, alpha=0.6)
        low += high
    for rank in range(4):
        bar(ax, 20.6 + 3.9 * rank, 3, 3.2, 21 / 4, "none", edgecolor=INK, linestyle="--")
    words(ax, 5, 1.4, "one device", ha="center")
    words(ax, 28, 1.4, "each of four?", ha="center")
    return ax.figure


@steps(range(2))
def held(step: int) -> Figure:
    """What a rank holds of Llama-3-70B with 1, 2, 4 and 8 ranks, and then activations beside an eighth of them."""
    ax, scale = sheet(65, 30, ACROSS), 50 / 1347
    for place, ranks in enumerate((1, 2, 4, 8)):
        parts = training_memory(LLAMA, 1, 8192, recompute="selective", tp=ranks).parts
        x, y = 8, 24.2 - 3.8 * place
        words(ax, 7.4, y + 1.5, f"{ranks} GPU{'s' * (ranks > 1)}", ha="right")
        for name, colour in PARTS.items():
            wide = scale * parts[name] / 1e9
            bar(ax, x, y, wide, 3, colour)
            if wide > 4 and name != "weights":
                words(ax, x + wide / 2, y + 1.5, f"{parts[name] / 1e9:.0f}", ha="center")
            x += wide
        total = sum(parts[name] for name in PARTS) / 1e9
        words(ax, x + 0.8, y + 1.5, f"{total:,.0f} GB", weight="bold")
    line(ax, (8 + 80 * scale, 11.4), (8 + 80 * scale, 28), colour=FAULT, wide=2.5, zorder=4)
    words(ax, 8 + 80 * scale, 29, "80 GB", ha="center", colour=FAULT, weight="bold")
    for x, (name, colour) in zip((17, 27, 38, 49), PARTS.items(), strict=True):
        bar(ax, x, 28.4, 1.6, 1.4, colour)
        words(ax, x + 2.2, 29.1, name)
    if step:
        whole = [activation_bytes(LLAMA, 1, 8192, "selective", tp=ranks) / 1e9 for ranks in (1, 8)]
        rows = (("weights, gradients, optimizer", 141, 141, canvas.OPTIMIZER),
                ("activations", whole[0] / 8, whole[1], canvas.ACTIVATIONS))
        words(ax, 0.5, 9.2, "on each of 8", weight="bold")
        for place, (name, eighth, real, colour) in enumerate(rows):
            y = 4.8 - 4.2 * place
            words(ax, 0.5, y + 1.5, name)
            bar(ax, 23, y, 0.2 * real, 3, colour)
            bar(ax, 23, y, 0.2 * eighth, 3, "none", edgecolor=INK, linewidth=2, linestyle="--")
            told = f"{real:.0f} GB: an eighth" if eighth == real else f"{real:.0f} GB, an eighth would be {eighth:.0f}"
            words(ax, 23.8 + 0.2 * real, y + 1.5, told, weight="bold", colour=INK if eighth == real else FAULT)
    return ax.figure


@steps(range(1, 3))
def sequence(step: int) -> Figure:
    """What each rank keeps between two cut parts: all tokens, and with sequence parallelism a quarter of them."""
    ax = sheet(65, 30, ACROSS)
    for y, name, apart in ((16.8, "alone: each rank keeps all tokens", False),
                           (1, "with sequence parallelism: its quarter", True))[:step]:
        words(ax, 0.5, y + 11.8, name, weight="bold", size=BIG)
        for x, told in ((0.5, "cut\npart"), (57.6, "next\ncut\npart")):
            _rows(ax, x, y + 0.4, 1.6, 9)
            _cell(ax, x + 1.6, y + 0.4, 5.4, 9)
            words(ax, x + 4.3, y + 4.9, told, ha="center", weight="bold")
        if apart:
            _sum(ax, 11, y + 0.4, 8.6, 9, "reduce-\nscatter")
            _sum(ax, 45.8, y + 0.4, 8.6, 9, "all-\ngather")
            ways = (7.7, 10.8), (19.8, 22.6), (42.8, 45.6), (54.6, 57.4)
        else:
            _sum(ax, 11, y + 0.4, 8.6, 9, "all-\nreduce\ng")
            ways = (7.7, 10.8), (19.8, 22.6), (42.8, 57.4)
        for start, end in ways:
            canvas.arrow(ax, (start, y + 4.9), (end, y + 4.9))
        for rank in range(4):
            low = y + 7.6 - 2.4 * rank
            bar(ax, 22.8, low, 19.8, 1.9, PALE, edgecolor=canvas.GREY, linewidth=0.6)
            left, wide = (22.8 + 4.95 * rank, 4.95) if apart else (22.8, 19.8)
            bar(ax, left, low, wide, 1.9, FACES[rank], edgecolor=INK, linewidth=0.9)
            words(ax, left + wide / 2, low + 0.95, f"rank {rank}", ha="center")
        words(ax, 64.5, y + 11.8, "norm of its own tokens" if apart else "norm of all tokens", ha="right")
    return ax.figure


def still_too_much() -> Figure:
    """What each of eight GPUs holds with tensor parallelism alone and with sequence parallelism, beside its 80 GB."""
    ax, scale = sheet(36, 26, (3.6, 2.6)), 33 / 206
    parts = training_memory(LLAMA, 1, 8192, recompute="selective", tp=8).parts
    state = sum(parts[name] for name in ("weights", "gradients", "optimizer")) / 1e9
    for y, name, apart in ((16, "tensor parallelism on 8 GPUs", False), (5.4, "with sequence parallelism", True)):
        active = activation_bytes(LLAMA, 1, 8192, "selective", tp=8, sequence_parallel=apart) / 1e9
        words(ax, 0.5, y + 6, name, weight="bold")
        bar(ax, 0.5, y, scale * state, 4.4, canvas.OPTIMIZER)
        bar(ax, 0.5 + scale * state, y, scale * active, 4.4, canvas.ACTIVATIONS)
        words(ax, 13.6 + 0.5, y + 2.2, "state: 141", weight="bold")
        words(ax, 0.5 + scale * (state + active / 2), y + 2.2, f"{active:.0f}", ha="center", weight="bold")
        words(ax, 35.5, y + 6, f"{state + active:.0f} GB", ha="right", weight="bold", size=BIG)
        line(ax, (0.5 + 80 * scale, y - 0.8), (0.5 + 80 * scale, y + 4.8), colour=FAULT, wide=3, zorder=4)
    words(ax, 0.5 + 80 * scale, 2.6, "a GPU: 80 GB", ha="center", colour=FAULT, weight="bold")
    return ax.figure


# Section 6: why eight


def node() -> Figure:
    """Two nodes of eight GPUs, NVLink inside and the network between them."""
    ax = sheet(36, 26, (3.6, 2.6))
    for y, rank in ((15.4, 0), (2.6, 1)):
        frame(ax, 0.5, y, 35, 8)
        for gpu in range(8):
            x = 1.5 + 4.2 * gpu
            line(ax, (x + 1.7, y + 2), (x + 1.7, y + 5), colour=canvas.NVLINK, wide=4)
            box(ax, x, y + 3.6, 3.4, 3.2, FACES[rank], "")
        line(ax, (2.4, y + 1.9), (33.2, y + 1.9), colour=canvas.NVLINK, wide=9)
    for gpu in range(8):
        x = 3.2 + 4.2 * gpu
        line(ax, (x, 10.6), (x, 15.4), colour=canvas.NETWORK, wide=1.2)
    words(ax, 18, 24.8, f"NVLink: {H100.link.bandwidth / 1e9:.0f} GB/s", colour=canvas.NVLINK, weight="bold",
          ha="center")
    words(ax, 18, 1.2, f"network: {DGX_H100.nic.bandwidth / 1e9:.0f} GB/s for each GPU", colour=canvas.NETWORK,
          weight="bold", ha="center")
    return ax.figure


def share_of_two() -> Figure:
    """A layer's time on two GPUs, of which 3 % are messages, and on eight, where nobody has counted them yet."""
    ax = sheet(36, 24, (3.6, 2.4))
    compute, talk = layer_seconds(LLAMA, 4096, 2, H100, LINKS["NVLink"])
    scale = 33 / (compute + talk)
    words(ax, 0.5, 21.6, "on two GPUs", weight="bold", size=BIG)
    bar(ax, 0.5, 14.6, scale * compute, 5, canvas.COMPUTE)
    bar(ax, 0.5 + scale * compute, 14.6, scale * talk, 5, SENT)
    words(ax, 1.4, 17.1, "computing", colour="white", weight="bold")
    words(ax, 35.4, 21.6, f"all-reduces: {100 * talk / (compute + talk):.0f} %", ha="right", weight="bold", colour=SENT)
    words(ax, 0.5, 10, "on eight", weight="bold", size=BIG)
    bar(ax, 0.5, 3, scale * compute / 4, 5, canvas.COMPUTE)
    bar(ax, 0.5 + scale * compute / 4, 3, 5, 5, "none", edgecolor=SENT, linewidth=2, linestyle="--")
    words(ax, 3 + scale * compute / 4, 5.5, "?", ha="center", weight="bold", size=BIG, colour=SENT)
    return ax.figure


@steps(range(1, 3))
def layer_times(step: int) -> Figure:
    """Computing and all-reduces of a layer on 2, 4 and 8 GPUs: over NVLink, and then over the network."""
    ax = sheet(36, 30)
    for block, (name, link) in list(enumerate(LINKS.items()))[:step]:
        top = 28.4 - 15.2 * block
        words(ax, 0.3, top, f"over {name}", weight="bold", colour=(canvas.NVLINK, canvas.NETWORK)[block])
        for place, ranks in enumerate((2, 4, 8)):
            compute, talk = layer_seconds(LLAMA, 4096, ranks, H100, link)
            y, scale = top - 4.8 - 4 * place, 22 / 0.0268
            words(ax, 0.3, y + 1.5, f"{ranks}", weight="bold")
            bar(ax, 2.4, y, scale * compute, 3, canvas.COMPUTE)
            bar(ax, 2.4 + scale * compute, y, scale * talk, 3, SENT)
            words(ax, 3.2 + scale * (compute + talk), y + 1.5, f"{100 * talk / (compute + talk):.0f} %", weight="bold",
                  size=BIG, colour=SENT)
            words(ax, 35.6, y + 1.5, f"{1e3 * (compute + talk):.1f} ms", ha="right")
    return ax.figure


def counted() -> Figure:
    """The matrices of a layer of Llama-3-70B, each as large as it is."""
    ax, h = sheet(36, 26, (3.6, 2.6)), 6.2
    for name, x, y, wide, high in (("wq", 0.5, 14.6, h, h), ("wo", 0.5, 4.2, h, h)):
        _cell(ax, x, y, wide, high, FACES[4])
        words(ax, x + wide / 2, y + high / 2, name, ha="center", weight="bold")
    for name, y in (("wk", 14.6), ("wv", 4.2)):
        _cell(ax, 8, y, h / 8, h, FACES[4])
        words(ax, 8.4, y + h + 1.2, name, ha="center")
    for place in range(3):
        _cell(ax, 12.4, 2.4 + 7 * place, 3.5 * h, h, FACES[7])
        words(ax, 12.4 + 1.75 * h, 2.4 + 7 * place + h / 2, f"MLP: {3.5} h²", ha="center", weight="bold")
    words(ax, 3.6, 22.2, "h · h", ha="center")
    words(ax, 18, 25, f"a layer's weights: {(attention_weights(LLAMA) + mlp_weights(LLAMA)) / LLAMA.hidden**2:.2f} h²",
          weight="bold", size=BIG, ha="center")
    words(ax, 0.5, 1, "attention: 2.25 h²")
    return ax.figure


def half_sending() -> Figure:
    """The share of sending over the GPUs, over NVLink and over the network, with the places where it is a half."""
    ax = axes(ACROSS)
    for_a_byte = 6 * 12.75 / 16 * LLAMA.hidden
    ax.axhline(0.5, color=canvas.GREY, linewidth=1, linestyle="--")
    ax.axvspan(1, 8, color=FACES[0], alpha=0.4, linewidth=0)
    words(ax, 4.5, 0.95, "one node", ha="center", colour=canvas.NVLINK, weight="bold")
    for (name, link), colour, at in zip(LINKS.items(), (canvas.NVLINK, canvas.NETWORK), (57, 57), strict=True):
        machine = HALF_PEAK / link.bandwidth
        places = [1 + place / 4 for place in range(253)]
        ax.plot(places, [1 / (1 + for_a_byte / (p - 1) / machine) if p > 1 else 0 for p in places], color=colour,
                linewidth=3)
        half = round(1 + for_a_byte / machine)
        ax.plot(half, 0.5, "o", color=colour, markersize=10)
        words(ax, half + 1, 0.44, f"{half} GPUs", weight="bold", size=BIG, colour=colour)
        words(ax, at, 1 / (1 + for_a_byte / (at - 1) / machine) + (0.05 if colour == canvas.NETWORK else -0.07), name,
              weight="bold", size=BIG, colour=colour, ha="center")
    ax.set(xlim=(1, 64), ylim=(0, 1.02), xticks=(1, 8, 16, 32, 64), yticks=(0, 0.5, 1))
    ax.set_yticklabels(["0", "half", "all"])
    ax.set_xlabel("GPUs that share each layer", fontsize=LETTERS)
    ax.set_ylabel("sending's share", fontsize=LETTERS)
    return ax.figure


def cliff() -> Figure:
    """The tokens per second of each GPU, as measured with 4, 8 and 16 GPUs in a group, in shares of those with 4."""
    ax = sheet(36, 28, (3.6, 2.8))
    shares = (1, 0.88, 0.88 * 0.57)
    for place, (gpus, share) in enumerate(zip((4, 8, 16), shares, strict=True)):
        x = 1 + 12.4 * place
        bar(ax, x, 4, 8.6, 21 * share, canvas.COMPUTE if gpus < 16 else canvas.NETWORK)
        words(ax, x + 4.3, 2, f"{gpus} GPUs", ha="center", weight="bold")
        if place:
            words(ax, x + 4.3, 4 + 21 * share + 1.8, f"−{100 * (1 - share / shares[place - 1]):.0f} %", ha="center",
                  weight="bold", size=20, colour=INK if gpus < 16 else FAULT)
    line(ax, (23.6, 1), (23.6, 27), wide=2, linestyle="--")
    words(ax, 22.8, 27, "one node", ha="right")
    words(ax, 24.4, 27, "two nodes")
    return ax.figure


@steps(range(1, 3))
def trace(step: int) -> Figure:
    """What a profiler shows of a layer's forward: two all-reduces, or with sequence parallelism their halves."""
    ax = sheet(65, 24, (6.5, 2.4))
    rows = ((13.2, "tensor parallelism", (("attention", 9), ("AllReduce", 11), ("MLP", 18), ("AllReduce", 11))),
            (1.2, "with sequence parallelism", (("All-\nGather", 6), ("attention", 9), ("Reduce-\nScatter", 6),
                                                ("All-\nGather", 6), ("MLP", 16), ("Reduce-\nScatter", 6))))
    for y, name, parts in rows[:step]:
        words(ax, 0.5, y + 8.6, name, weight="bold", size=BIG)
        words(ax, 64.5, y + 8.6, "one layer, forward", ha="right")
        x = 7.5
        for told, wide in parts:
            sent = told not in ("attention", "MLP")
            bar(ax, x, y, wide - 0.2, 6.4, SENT if sent else canvas.COMPUTE)
            words(ax, x + wide / 2, y + 3.2, told, ha="center", colour="white", weight="bold")
            x += wide
        for left, wide in ((0.5, 6.6), (x + 0.3, 7.4)):
            bar(ax, left, y, wide, 6.4, canvas.WAITING)
            words(ax, left + wide / 2, y + 3.2, "…", ha="center", size=BIG)
    return ax.figure


# Section 7: the next word


def weights_on_eight() -> Figure:
    """The weights in 8 bits beside one H100, and over eight."""
    ax = sheet(36, 26, (3.6, 2.6))
    size = parameter_count(LARGE) / 1e9
    words(ax, 0.5, 24, f"{size:.0f} GB of weights in 8 bits", weight="bold", size=BIG)
    for gpu in range(8):
        x, y = 0.5 + 9 * (gpu % 4), 12.4 - 11.4 * (gpu // 4)
        frame(ax, x, y, 8, 9.6)
        bar(ax, x + 0.6, y + 0.6, 6.8, 8.4 * size / 8 / 80, canvas.WEIGHTS)
        words(ax, x + 4, y + 3.2, f"{size / 8:.0f} GB", ha="center", colour="white", weight="bold")
        words(ax, x + 4, y + 7.7, "of 80", ha="center")
    return ax.figure


def waits() -> Figure:
    """What a token does in one layer: read, wait for a sum, read, wait for a sum; and 126 layers."""
    ax = sheet(36, 24, (3.6, 2.4))
    words(ax, 0.5, 21.4, "one layer, on every GPU", weight="bold", size=BIG)
    x, scale = 0.5, 34.4 * LARGE.layers / (_reading(8) + _waiting(8))
    attention = attention_weights(LARGE) / (attention_weights(LARGE) + mlp_weights(LARGE))
    read, wait = scale * _reading(8) / LARGE.layers, scale * _waiting(8) / LARGE.layers / 2
    for told, wide, colour in (("read", read * attention, canvas.WEIGHTS), ("sum", wait, SENT),
                               ("read", read * (1 - attention), canvas.WEIGHTS), ("sum", wait, SENT)):
        bar(ax, x, 13.4, wide - 0.1, 5, colour)
        words(ax, x + wide / 2, 15.9, told, ha="center", colour="white", weight="bold")
        x += wide
    words(ax, 0.5 + read * attention + wait / 2, 10.8, "about 15 µs", ha="center", colour=SENT, weight="bold")
    words(ax, 35.2, 10.8, "about 15 µs", ha="right", colour=SENT, weight="bold")
    for layer in range(42):
        bar(ax, 0.5 + 0.83 * layer, 4, 0.5, 3.4, canvas.WEIGHTS)
        bar(ax, 1 + 0.83 * layer, 4, 0.22, 3.4, SENT)
    words(ax, 0.5, 1.6, f"{LARGE.layers} layers, one after another")
    return ax.figure


def with_eight() -> Figure:
    """What a token takes on one GPU, an eighth of it, and what it takes on eight GPUs."""
    read, wait = 1e3 * _reading(8), 1e3 * _waiting(8)
    ax, scale = sheet(36, 26, (3.6, 2.6)), 33 / (1e3 * _reading(8) + 1e3 * _waiting(8))
    words(ax, 0.5, 24, f"one GPU: {1e3 * _reading(1):.0f} ms a token")
    for y, name, parts, rate in ((14.4, "an eighth of it", (read, 0), 1e3 / read),
                                 (3.8, "on eight GPUs", (read, wait), 1e3 / (read + wait))):
        words(ax, 0.5, y + 5.8, name, weight="bold")
        bar(ax, 0.5, y, scale * parts[0], 4.4, canvas.WEIGHTS)
        bar(ax, 0.5 + scale * parts[0], y, scale * parts[1], 4.4, SENT)
        words(ax, 1.3, y + 2.2, f"reading: {read:.1f} ms", colour="white", weight="bold")
        words(ax, 35.4, y + 5.8, f"{rate:.0f} tokens a second", ha="right", weight="bold", size=BIG)
    words(ax, 0.5 + scale * (read + wait / 2), 6, f"{wait:.1f}", ha="center", colour="white", weight="bold")
    words(ax, 33.5, 1.8, f"{2 * LARGE.layers} all-reduces", ha="right", colour=SENT, weight="bold")
    return ax.figure


@steps(range(2, 6))
def staircase(step: int) -> Figure:
    """Tokens a second after each of three steps, and at last what a real server would give."""
    ax = sheet(65, 30, ACROSS)
    one_step = 1 / (_reading(8) + _waiting(8, one_step=True))
    rates = (("16 bits,\nlayer after layer", 1 / _reading(1, 16), FACES[0]), ("weights\nin 8 bits", 1 / _reading(1),
                                                                         FACES[0]),
             ("each layer cut\nover eight GPUs", 1 / (_reading(8) + _waiting(8)), canvas.WEIGHTS),
             ("sums\nin one step", one_step, canvas.WEIGHTS), ("about this on\na real server", one_step / 1.6, "none"))
    for place, (name, rate, colour) in enumerate(rates[:step]):
        x, high = 0.5 + 13 * place, 18 * rate / one_step
        look = {"edgecolor": FAULT, "linestyle": "--", "linewidth": 2} if colour == "none" else {}
        bar(ax, x, 5.4, 10.6, high, colour, **look)
        words(ax, x + 5.3, 2.6, name, ha="center")
        told = f"{rate:.2f}" if 5 < rate < 10 else f"{rate:.1f}" if rate < 5 else f"{rate:.0f}"
        words(ax, x + 5.3, 7 + high, told, ha="center", weight="bold", size=20, colour=FAULT if look else INK)
        if 0 < place < 4:
            ratio = rate / rates[place - 1][1]
            words(ax, x + 5.3, 10.2 + high, f"× {ratio:.2g}" if ratio > 1.5 else f"× {ratio:.2f}", ha="center")
    words(ax, 0.5, 28.6, "tokens a second of Llama-3-405B", weight="bold")
    return ax.figure
