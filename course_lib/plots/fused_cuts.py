"""What a cut must not separate: gate and up of an MLP, query heads and the key/value head that they share."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, arrow, box, say, sheet

RANKS = 4
NEUTRAL = "#F4F4F4"


def cut_gate_and_up(ax: Axes | None = None) -> Axes:
    """Draw [gate | up] cut as one matrix, and each of the two cut by itself; beside it what every rank then holds."""
    ax = sheet(3.5, 26.0, 11.6, ax)
    title = "Cut as one matrix, [gate | up] leaves no rank a pair of columns to multiply"
    ax.set_title(title, fontsize=TITLE, loc="left")
    rows = (
        ("wrong: four blocks of the wide matrix", 6.1, (0, 0, 1, 1, 2, 2, 3, 3), LIMIT),
        ("right: four blocks of each", 0.2, (0, 1, 2, 3, 0, 1, 2, 3), INK),
    )
    for name, low, owner, colour in rows:
        ax.text(0.1, low + 4.5, name, fontsize=SMALLEST + 1, weight="bold", color=colour, va="center")
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
    ax = sheet(3.3, 66.5, 18.6, ax)
    title = f"Up to {kv_heads} GPUs, no key/value head is needed twice; colours are key/value heads"
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = []
    for low, gpus in ((9.8, kv_heads), (0.3, 2 * kv_heads)):
        mine, width = heads // gpus, 64 / gpus
        copies = "of its own" if gpus == kv_heads else "that two GPUs need"
        said = f"{gpus} GPUs: each has {mine} query heads and a key/value head {copies}"
        told.append(said)
        ax.text(1.0, low + 7.2, said, fontsize=SMALLEST + 1, weight="bold", color=INK, va="center")
        for gpu in range(gpus):
            x, colour = 1.0 + gpu * width, FACES[gpu * kv_heads // gpus]
            ax.add_patch(Rectangle((x + 0.15, low), width - 0.3, 6.0, facecolor=NEUTRAL, edgecolor=INK, linewidth=0.8))
            step = (width - 0.9) / mine
            for head in range(mine):
                place = (x + 0.45 + head * step, low + 3.7)
                ax.add_patch(Rectangle(place, 0.8 * step, 1.8, facecolor=colour, edgecolor=INK, linewidth=0.5))
            box(ax, x + 0.6, low + 0.6, width - 1.2, 2.5, colour, "k, v" if gpus == kv_heads else "kv")
    say(ax, "\n".join(told))
    return ax


def saved_by_a_layer(parts: dict[str, list[tuple[str, int, bool]]], ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw what a layer saves for backward, a row for each part: (what, how many times x, whether a cut divides it)."""
    pieces = [piece for row in parts.values() for piece in row]
    total, whole = sum(size for _, size, _ in pieces), sum(size for _, size, cut in pieces if not cut)
    most = max(sum(size for _, size, _ in row) for row in parts.values())
    ax = sheet(1.3 + 0.95 * len(parts), most + 2.9, 2.9 * len(parts) + 0.8, ax)
    title = f"One layer saves {total} times the size of x: {whole} stay whole (grey), {total - whole} are cut (colours)"
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = []
    for place, (name, row) in enumerate(parts.items()):
        x, low = 1.8, 2.9 * (len(parts) - 1 - place) + 1.0
        ax.text(0.1, low + 1.1, name, fontsize=SMALLEST, weight="bold", color=INK, va="center")
        for what, size, cut in row:
            for rank in range(ranks if cut else 1):
                high = 2.2 / (ranks if cut else 1)
                colour = FACES[rank] if cut else "#DDDDDD"
                at = (x, low + 2.2 - (rank + 1) * high)
                ax.add_patch(Rectangle(at, size, high, facecolor=colour, linewidth=0))
            ax.add_patch(Rectangle((x, low), size, 2.2, facecolor="none", edgecolor=INK, linewidth=1.0))
            ax.text(x + size / 2, low + 1.1, what, ha="center", va="center", fontsize=SMALLEST, color=INK)
            x += size
        for rank in range(ranks if cut else 0):
            at = (x + 0.15, low + 2.2 - (rank + 0.5) * 2.2 / ranks)
            ax.text(*at, f"rank {rank}", fontsize=SMALLEST, color=INK, va="center")
        told.append(f"{name}: " + ", ".join(f"{' '.join(what.split())} {size} ({'cut' if cut else 'whole'})"
                                            for what, size, cut in row))  # fmt: skip
    arrow(ax, (1.8, 0.65), (2.8, 0.65), "<|-|>")
    ax.text(2.95, 0.65, "as wide as one x", fontsize=SMALLEST, color=INK, va="center")
    say(ax, "\n".join(told))
    return ax
