"""What a cut must not separate: a head's columns, gate and up, query heads and the key/value head they share."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import COLLECTIVE, FACES, INK, LIMIT, SMALLEST, TITLE, arrow, box, say, sheet

RANKS = 4
NEUTRAL = "#F4F4F4"


def cut_heads(ax: Axes | None = None) -> Axes:
    """Draw attention with four heads on two ranks: columns of wq, wk and wv, a softmax in each head, rows of wo."""
    ax = sheet(3.7, 31.0, 13.8, ax)
    title = "Cut between heads, and every softmax stays on one rank"
    ax.set_title(title, fontsize=TITLE, loc="left")
    look = {"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK}
    box(ax, 0.1, 5.6, 0.8, 1.4, "white", "x")
    box(ax, 1.45, 5.6, 0.8, 1.4, "white", "f")
    arrow(ax, (0.95, 6.3), (1.42, 6.3))
    columns = "wq (wk and wv alike):\na head is neighbouring columns\n(16 in the tiny GPT, drawn as 4)"
    ax.text(7.6, 12.4, columns, **look)
    for head in range(4):
        left, low = 2.9 + 2.1 * head, 9.4 - 2.2 * head
        for column in range(4):
            at = (left + 0.525 * column, 3.4)
            ax.add_patch(Rectangle(at, 0.525, 6.2, facecolor=FACES[head // 2], edgecolor="#888888", linewidth=0.5))
        ax.add_patch(Rectangle((left, 3.4), 2.1, 6.2, facecolor="none", edgecolor=INK, linewidth=1.2))
        ax.text(left + 1.05, 10.3, f"head {head}", **look)
        box(ax, 13.6, low - 1.0, 5.4, 1.7, FACES[head // 2], f"softmax of head {head}")
        arrow(ax, (19.1, low - 0.15), (21.2, low - 0.15))
        ax.add_patch(Rectangle((21.4, low - 1.25), 3.0, 2.2, facecolor=FACES[head // 2], edgecolor=INK, linewidth=1.2))
        ax.text(22.9, low - 0.15, f"head {head}", **look)
    for rank, low in enumerate((8.2, 3.8)):
        ax.text(16.3, (10.75, 1.1)[rank], f"rank {rank}", **(look | {"weight": "bold"}))
        arrow(ax, (11.5, low), (13.3, low))
        box(ax, 13.35, low - 2.15, 5.9, 4.2, "none", line=0.8, edge="#888888")
        arrow(ax, (24.6, low), (26.3, low))
    arrow(ax, (2.3, 6.3), (2.85, 6.3))
    ax.plot([7.1, 7.1], [2.6, 9.9], color=INK, linewidth=3.2)
    ax.text(6.6, 1.9, "cut here", ha="center", va="center", fontsize=SMALLEST, weight="bold", color=INK)
    ax.plot([10.25, 10.25], [2.6, 9.6], color=LIMIT, linewidth=2.2, linestyle=(0, (3, 2)))
    ax.text(10.6, 1.9, "✗ not here", ha="center", va="center", fontsize=SMALLEST, weight="bold", color=LIMIT)
    ax.text(22.9, 11.4, "wo: rows", **look)
    ax.text(16.3, 11.9, "no message here", **look)
    box(ax, 26.4, 1.7, 3.0, 8.8, COLLECTIVE)
    ax.text(27.9, 6.1, "g\nall-\nreduce", **(look | {"color": "white", "weight": "bold"}))
    arrow(ax, (29.5, 6.1), (30.2, 6.1))
    ax.text(30.6, 6.1, "y", **look)
    say(ax, "Each head is some neighbouring columns of wq, wk and wv; rank 0 has heads 0 and 1, rank 1 heads 2 and 3. "
            "The cut runs between head 1 and head 2; a cut through the middle of a head is wrong.\nEach softmax is "
            "computed inside one head, so no message is needed before g, the all-reduce behind wo.")  # fmt: skip
    return ax


def cut_gate_and_up(ax: Axes | None = None) -> Axes:
    """Draw [gate | up] cut as one matrix, and each of the two cut by itself; beside it what every rank then holds."""
    ax = sheet(3.5, 26.0, 11.6, ax)
    title = "Cut as one matrix, [gate | up] leaves no rank a pair of columns to multiply"
    ax.set_title(title, fontsize=TITLE, loc="left")
    rows = (
        ("✗ wrong: four blocks of the wide matrix", 6.1, (0, 0, 1, 1, 2, 2, 3, 3), "two pieces that never meet"),
        ("✓ right: four blocks of each", 0.2, (0, 1, 2, 3, 0, 1, 2, 3), "the same piece of G and of U"),
    )
    for name, low, owner, pair in rows:
        ax.text(0.1, low + 4.5, name, fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        ax.text(12.4, low + 4.5, f"each rank holds {pair}", fontsize=SMALLEST, color=INK, va="center")
        for column, rank in enumerate(owner):
            _piece(ax, 0.2 + 1.35 * column, low + 0.1, 1.35, 2.6, rank)
        for half, said in enumerate(("gate G", "up U")):
            ax.text(0.2 + 5.4 * half + 2.7, low + 3.2, said, ha="center", va="center", fontsize=SMALLEST, color=INK)
        ax.plot([5.6, 5.6], [low, low + 3.5], color=INK, linewidth=2.2)
        for rank in range(RANKS):
            x, held = 12.4 + 3.5 * rank, [column for column, of in enumerate(owner) if of == rank]
            for place, column in enumerate(held):
                _piece(ax, x + 1.35 * place, low + 0.1, 1.35, 2.6, rank, "G" if column < RANKS else "U")
                number = ("1st", "2nd", "3rd", "4th")[column % RANKS]
                ax.text(x + 1.35 * (place + 0.5), low + 0.75, number, ha="center", va="center", fontsize=SMALLEST)
            ax.text(x + 1.35, low + 3.2, f"rank {rank}", ha="center", va="center", fontsize=SMALLEST, color=INK)
    say(ax, "Wrong: rank 0 has the first and second block of the gate's columns, rank 1 its third and fourth, ranks 2 "
            "and 3 have the same of up.\nRight: each rank has the same block of the gate and of up.")  # fmt: skip
    return ax


def _piece(ax: Axes, x: float, y: float, width: float, height: float, rank: int, words: str = "") -> None:
    ax.add_patch(Rectangle((x, y), width, height, facecolor=FACES[rank], edgecolor=INK, linewidth=0.8))
    ax.text(x + width / 2, y + 0.68 * height, words, ha="center", va="center", fontsize=SMALLEST + 1, weight="bold")


def shared_heads(heads: int = 64, kv_heads: int = 8, ax: Axes | None = None) -> Axes:
    """Draw query heads and the key/value heads that they share on as many GPUs as there are of these, and on twice."""
    if not (1 <= kv_heads <= len(FACES) and heads % (2 * kv_heads) == 0):
        raise ValueError(f"heads={heads}, kv_heads={kv_heads}: at most {len(FACES)}, and twice that divides heads")
    ax = sheet(3.6, 66.5, 20.6, ax)
    title = f"Up to {kv_heads} GPUs, no key/value head is needed twice; colours are key/value heads"
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = []
    for low, gpus in ((11.8, kv_heads), (2.1, 2 * kv_heads)):
        mine, width = heads // gpus, 64 / gpus
        more = " (thin bars) and a key/value head of its own" if gpus == kv_heads else "; two need the same k and v"
        said = f"{gpus} GPUs: each has {mine} query heads{more}"
        told.append(said)
        ax.text(1.0, low + 7.2, said, fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        for gpu in range(gpus):
            x, colour = 1.0 + gpu * width, FACES[gpu * kv_heads // gpus]
            ax.add_patch(Rectangle((x + 0.15, low), width - 0.3, 6.0, facecolor=NEUTRAL, edgecolor=INK, linewidth=0.8))
            step = (width - 0.9) / mine
            for head in range(mine):
                place = (x + 0.45 + head * step, low + 3.7)
                ax.add_patch(Rectangle(place, 0.8 * step, 1.8, facecolor=colour, edgecolor=INK, linewidth=0.5))
            box(ax, x + 0.6, low + 0.6, width - 1.2, 2.5, colour, "k, v")
    for pair in range(kv_heads):
        left, right = 1.3 + 64 / kv_heads * pair, 0.7 + 64 / kv_heads * (pair + 1)
        ax.plot([left, left, right, right], [1.7, 1.3, 1.3, 1.7], color=INK, linewidth=1.0)
        ax.text((left + right) / 2, 0.5, "twice", ha="center", va="center", fontsize=SMALLEST, color=INK)
    say(ax, "\n".join(told))
    return ax


def saved_by_a_layer(
    parts: dict[str, list[tuple[str, int, bool]]], ranks: int = 4, more: str = "", ax: Axes | None = None
) -> Axes:
    """Draw what a layer saves for backward, a row for each part: (what, how many times x, whether a cut divides it).

    `more` says what is saved besides the layers.
    """
    pieces = [piece for row in parts.values() for piece in row]
    total, whole = sum(size for _, size, _ in pieces), sum(size for _, size, cut in pieces if not cut)
    most = max(sum(size for _, size, _ in row) for row in parts.values())
    ax = sheet(1.3 + 0.95 * len(parts), most + 2.9, 2.9 * len(parts) + 0.8, ax)
    title = f"One layer saves {total} times the size of x: {whole} whole (white), {total - whole} cut (colours)"
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = []
    for place, (name, row) in enumerate(parts.items()):
        x, low = 1.8, 2.9 * (len(parts) - 1 - place) + 1.0
        ax.text(0.1, low + 1.1, name, fontsize=SMALLEST, weight="bold", color=INK, va="center")
        for what, size, cut in row:
            for rank in range(ranks if cut else 1):
                high = 2.2 / (ranks if cut else 1)
                colour = FACES[rank] if cut else "white"
                at = (x, low + 2.2 - (rank + 1) * high)
                ax.add_patch(Rectangle(at, size, high, facecolor=colour, linewidth=0))
            ax.add_patch(Rectangle((x, low), size, 2.2, facecolor="none", edgecolor=INK, linewidth=1.0))
            words = what if size == 1 else f"{what}: {size}"
            paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # or a colour's border runs through them
            ax.text(x + size / 2, low + 1.1, words, ha="center", va="center", fontsize=SMALLEST, color=INK, bbox=paper)
            x += size
        for rank in range(ranks if cut else 0):
            at = (x + 0.15, low + 2.2 - (rank + 0.5) * 2.2 / ranks)
            ax.text(*at, f"rank {rank}", fontsize=SMALLEST, color=INK, va="center")
        told.append(f"{name}: " + ", ".join(f"{' '.join(what.split())} {size} ({'cut' if cut else 'whole'})"
                                            for what, size, cut in row))  # fmt: skip
    arrow(ax, (1.8, 0.65), (2.8, 0.65), "<|-|>")
    ax.text(2.95, 0.65, "as wide as one x", fontsize=SMALLEST, color=INK, va="center")
    ax.text(most + 1.8, 0.65, more, fontsize=SMALLEST, color=INK, va="center", ha="right")
    say(ax, "\n".join([*told, more]))
    return ax
