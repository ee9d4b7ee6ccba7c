"""Two layouts with context ranks: thinner slices of work, and sixteen ranks with one sequence on two nodes."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import COMPUTE, FACES, INK, SMALLEST, TITLE, WAITING, arrow, box, new_axes, say, sheet
from course_lib.plots.mesh import CONTEXT, DATA


def slices(busy: float = 5.87, pp: int = 16, chunks: int = 8, counts: tuple[int, ...] = (16, 32), ax: Axes | None = None
           ) -> Axes:  # fmt: skip
    """Draw one pipeline rank's step, to scale: its micro-batches, and how long it waits while the pipeline fills."""
    ax = new_axes(ax, 1.3 + 0.6 * len(counts))
    told, heads = [], []
    for place, count in enumerate(counts):
        one = busy / count
        bubble = one * (pp - 1) / chunks
        ax.barh([place] * count, one, 0.5, [one * micro for micro in range(count)], color=COMPUTE, edgecolor="white",
                linewidth=0.9)  # fmt: skip
        ax.barh(place, bubble, 0.5, busy, color=WAITING, edgecolor="white", linewidth=0.9)
        ax.text(busy + bubble, place, f" {bubble:.2f} s", va="center", fontsize=SMALLEST, weight="bold")
        heads.append(f"{count // pp} context rank{'s' if count > pp else ''}")
        ax.text(0.05, place - 0.3, f"{count} micro-batches of {one:.3f} s", va="bottom", fontsize=SMALLEST)
        told.append(f"{heads[-1]}: {count} micro-batches of {one:.3f} s, then {bubble:.2f} s of waiting")
    ax.text(busy, -0.3, "waiting", va="bottom", fontsize=SMALLEST)
    ax.set_yticks(range(len(counts)), heads, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.set(xlim=(0, 1.2 * busy), ylim=(len(counts) - 0.6, -0.75))
    ax.set_xlabel("seconds of one rank (its waiting drawn together, at the end)", fontsize=SMALLEST)
    ax.set_title("Twice as many context ranks, twice as many slices, half the waiting", fontsize=TITLE, loc="left",
                 x=-0.12)  # fmt: skip
    say(ax, "\n".join(told))
    return ax


def bold_on_nodes(tp: int = 4, cp: int = 4, per_node: int = 8, lit: int = 1, ax: Axes | None = None) -> Axes:
    """Draw tp x cp ranks on their nodes: a row of tensor ranks for each context rank, and lit the same weights."""
    ax = sheet(3.3, 100, 47, ax)
    rows = per_node // tp
    told = []
    for node in range(cp // rows):
        left = 17 + node * 45
        box(ax, left - 1.5, 9, 35, 27, "white", line=1.3)
        ax.text(left + 16, 38, f"node {node}", ha="center", va="center", fontsize=SMALLEST, weight="bold")
        for row in range(rows):
            context, y = node * rows + row, 24 - 12 * row
            named = f"context rank {context}"
            ax.text(left - 2.6, y + 4, f"context\nrank {context}", ha="right", va="center", fontsize=SMALLEST)
            for tensor in range(tp):
                x = left + tensor * 8.2
                mine = tensor == lit
                box(ax, x, y, 7.2, 8, FACES[1] if mine else "white", str(context * tp + tensor),
                    weight="bold" if mine else "normal", line=2.2 if mine else 1)  # fmt: skip
            ranks = ", ".join(str(context * tp + tensor) for tensor in range(tp))
            told.append(f"node {node}, {named}: ranks {ranks}")
        for place in (-1.2, 1.2):  # two ports of the node
            x = left + lit * 8.2 + 3.6 + place
            arrow(ax, (x, 9), (x, 3.5), "<|-|>", colour=DATA, line=2)
        ax.text(left + lit * 8.2 + 7.5, 5.8, "2 ports for their gradients", va="center", fontsize=SMALLEST)
    y = 44.5
    ax.plot([17, 20], [y, y], color=CONTEXT, linewidth=0)
    box(ax, 15.5, y - 1.6, 3.4, 3.2, FACES[1], line=1.6)
    ax.text(20, y, f"tensor rank {lit} of each context rank: the same quarter of the weights", va="center",
            fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.set_title("\"Bold\" puts the same weights on two GPUs of each node", fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, f"tensor rank {lit} of each context rank holds the same quarter of the weights: two in "
                              "each node, so their gradients leave by two ports"]))  # fmt: skip
    return ax
