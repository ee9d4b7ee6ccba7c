"""Nodes and places: ranks as a grid with a row for each node, their groups, and a sum on two levels."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.hardware import DGX_H100, H100
from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    GREY,
    INK,
    NETWORK,
    NVLINK,
    SERIES,
    SMALLEST,
    TITLE,
    WIDTH,
    arrow,
    box,
    say,
    sheet,
)

INCH = 5.0
PALE = "#F4F4F4"
THIN = 1.6  # points, of a link between nodes; one inside is as many times as thick as it is fast


def node_groups(nodes: int = 2, per_node: int = 4, ax: Axes | None = None) -> Axes:
    """Draw the ranks of some nodes as a grid: a row is the group of a node, a column that of a place, with its sum."""
    inside, across = H100.link.bandwidth / 1e9, DGX_H100.nic.bandwidth / 1e9  # GB/s
    high = 5.2 * nodes + 2.9
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Rows talk over thick links, columns over thin ones: a ninth of the speed", fontsize=TITLE,
                 loc="left")  # fmt: skip
    left, step = 5.6, 6.4
    rows = [high - 5.0 - 5.2 * node for node in range(nodes)]
    columns = [range(place, nodes * per_node, per_node) for place in range(per_node)]
    sums = [f"{' + '.join(map(str, column))} = {sum(column)}" for column in columns]
    for place in range(per_node):
        x = left + step * place
        ax.plot([x + 1.9] * 2, [rows[-1] + 1.8, rows[0]], color=COLLECTIVE, linewidth=THIN, zorder=1)
        ax.text(x + 1.9, rows[0] + 3.4, f"place {place}", ha="center", fontsize=SMALLEST, color=INK)
        ax.text(x + 1.9, rows[-1] - 1.9, sums[place], ha="center", va="center", fontsize=SMALLEST, color=INK,
                weight="bold")  # fmt: skip
    for node, y in enumerate(rows):
        ax.text(left - 1.6, y + 0.9, f"node {node}", ha="right", va="center", fontsize=SMALLEST, color=INK,
                weight="bold")  # fmt: skip
        _frame(ax, left - 0.9, y - 0.6, step * (per_node - 1) + 5.6, 3.0, PALE, INK, "solid", under=True)
        ends = [left + 1.9, left + 1.9 + step * (per_node - 1)]
        ax.plot(ends, [y + 0.9] * 2, color=COLLECTIVE, linewidth=THIN * inside / across, zorder=1,
                solid_capstyle="butt")  # fmt: skip
        for place in range(per_node):
            rank = node * per_node + place
            box(ax, left + 0.4 + step * place, y, 3.0, 1.8, FACES[place % len(FACES)], f"rank {rank}")
    beside = left + step * per_node + 0.1
    ax.text(beside, rows[0] + 0.9, f"row, {inside:.0f} GB/s:\ntensor parallelism", va="center", fontsize=SMALLEST,
            color=INK)  # fmt: skip
    ax.text(beside, (rows[0] + rows[-1] + 1.8) / 2, f"column, {across:.0f} GB/s:\ndata parallelism", va="center",
            fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.text(beside, rows[-1] - 1.9, "the sum in each column", va="center", fontsize=SMALLEST, color=INK)
    told = [f"node {node}: ranks {', '.join(str(node * per_node + place) for place in range(per_node))}"
            for node in range(nodes)]
    told += [f"place {place}: ranks {', '.join(map(str, column))}, sum {sum(column)}"
             for place, column in enumerate(columns)]
    speeds = f"The links inside a node carry {inside:.0f} GB/s, those between nodes {across:.0f} GB/s"
    say(ax, "\n".join([*told, speeds]))
    return ax


def two_levels(per_node: int = 4, ax: Axes | None = None) -> Axes:
    """Draw an all-reduce on two nodes: what ranks hold at first, and after each of three phases."""
    ax = sheet(3.3, WIDTH * INCH, 3.3 * INCH, ax)
    ax.set_title(f"On 2 nodes of {per_node}: only sums of a whole node cross, 1/{per_node} by each port",
                 fontsize=TITLE, loc="left")  # fmt: skip
    panels = (
        ("before", "", INK, "a whole tensor\non every GPU"),
        ("phase 1: inside", "reduce-scatter", NVLINK, "hatched: a piece of\nthis node's sum"),
        ("phase 2: on the rails", "all-reduce", NETWORK, "solid: this piece\nof the whole sum"),
        ("phase 3: inside", "all-gather", NVLINK, "all pieces, on\nevery GPU"),
    )
    side, gap, tall = 1.8, 0.3, 2.5
    wide = per_node * (side + gap) - gap
    for phase, (name, call, colour, words) in enumerate(panels):
        left = 2.5 + 9.8 * phase
        middle = left + wide / 2
        ax.text(middle, 14.8, name, ha="center", fontsize=SMALLEST, color=colour, weight="bold")
        ax.text(middle, 13.6, call, ha="center", fontsize=SMALLEST, color=INK)
        ax.text(middle, 0.0, words, ha="center", fontsize=SMALLEST, color=INK)
        for node, y in enumerate((8.9, 3.2)):
            if phase == 0:
                ax.text(left - 0.6, y + tall / 2, f"node\n{node}", ha="right", va="center", fontsize=SMALLEST,
                        color=INK)  # fmt: skip
            for place in range(per_node):
                x, rank = left + (side + gap) * place, node * per_node + place
                _pieces(ax, x, y, side, tall, place, per_node, phase, node)
                ax.text(x + side / 2, y + (tall + 0.25 if node == 0 else -1.15), str(rank), ha="center",
                        fontsize=SMALLEST, color=INK)  # fmt: skip
            if phase in (1, 3):
                y_arrow = y + (-0.6 if node == 0 else tall + 0.6)
                arrow(ax, (left, y_arrow), (left + wide, y_arrow), "<|-|>", colour=NVLINK, line=2.6)
        if phase == 2:
            for place in range(per_node):
                x = left + (side + gap) * place + side / 2
                arrow(ax, (x, 8.8), (x, 5.8), "<|-|>", colour=NETWORK, line=2.6)
    phases = "\n".join(f"{name}, {call}: {' '.join(words.split())}" if call else f"{name}: {' '.join(words.split())}"
                       for name, call, _, words in panels)  # fmt: skip
    pairs = ", ".join(f"{place} and {per_node + place}" for place in range(per_node))
    say(ax, f"{phases}\nThe pairs that talk across are {pairs}")
    return ax


def _frame(ax: Axes, x: float, y: float, width: float, height: float, colour: str, edge: str, line: object,
           under: bool = False) -> None:  # fmt: skip
    look = {"boxstyle": "round,pad=0,rounding_size=0.4", "facecolor": colour, "edgecolor": edge, "linewidth": 1.6}
    ax.add_patch(FancyBboxPatch((x, y), width, height, linestyle=line, zorder=0 if under else 1, **look))


def _pieces(ax: Axes, x: float, y: float, side: float, tall: float, place: int, count: int, phase: int,
            node: int) -> None:  # fmt: skip
    """Draw a rank as its tensor in pieces: pale what it brought, hatched a node's sum, strong the sum of both."""
    for piece in range(count):
        kept = phase in (0, 3) or piece == place
        look = {"facecolor": "white", "edgecolor": GREY}
        if kept:
            strong = SERIES[piece % len(SERIES)]
            look = {"facecolor": FACES[piece % len(FACES)] if phase < 2 else strong, "edgecolor": GREY}
            if phase == 1:  # the two nodes' sums differ
                look |= {"hatch": ("////", "\\\\\\\\")[node], "edgecolor": strong}
        ax.add_patch(Rectangle((x, y + tall - (piece + 1) * tall / count), side, tall / count, linewidth=0.5, **look))
    ax.add_patch(Rectangle((x, y), side, tall, facecolor="none", edgecolor=INK, linewidth=1.2))
