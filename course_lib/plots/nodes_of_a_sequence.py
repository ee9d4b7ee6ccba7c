"""Where context ranks sit: tensor groups inside nodes, a ring of keys across them, for one stage of one copy."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, SMALLEST, TITLE, arrow, box, say, sheet
from course_lib.plots.mesh import CONTEXT, TENSOR


def nodes_of_a_sequence(tp: int = 4, cp: int = 4, per_node: int = 8, ax: Axes | None = None) -> Axes:
    """Draw the nodes that hold one sequence in one pipeline stage, a row of GPUs for each context rank."""
    rows = per_node // tp  # context ranks in a node
    nodes = cp // rows
    ax = sheet(2.6, 100, 31, ax)
    ax.set_ylim(-2, 31)
    size, name, apart = 5.6, 10.0, 50.0
    wide = name + tp * 7 + 0.6
    told, left = [], [5.0 + node * apart for node in range(nodes)]
    heights = [2.6 + (rows - 1 - row) * 10 + 2.6 for row in range(rows)]
    for node, x0 in enumerate(left):
        ax.add_patch(Rectangle((x0, 3), wide, rows * 10, facecolor="white", edgecolor=INK, linewidth=1.2))
        ax.text(x0, rows * 10 + 4.8, f"node {node}", va="center", fontsize=SMALLEST, weight="bold")
        for row, y in enumerate(heights):
            rank, first = node * rows + row, node * per_node + row * tp
            ax.text(x0 + 1, y + size / 2, f"context {rank}", va="center", fontsize=SMALLEST)
            for place in range(tp):
                box(ax, x0 + name + place * 7, y, size, size, FACES[rank % 4], str(first + place))
            ax.plot([x0 + name, x0 + wide - 2], [y - 1] * 2, color=TENSOR, linewidth=3.5, solid_capstyle="butt")
            if row:  # from the row above
                arrow(ax, (x0 + 5, y + 10 + 1), (x0 + 5, y + size - 1), colour=CONTEXT, line=2)
            told.append(f"ranks {first} to {first + tp - 1}, in node {node}, are context rank {rank}")
    for here, there in zip(left, left[1:], strict=False):  # from the last row of a node to the first of the next
        arrow(ax, (here + wide + 0.2, heights[-1] + size / 2), (there - 0.2, heights[0] + size / 2), colour=CONTEXT,
              line=2)  # fmt: skip
    end, back = left[-1] + 5, left[0] - 3.5
    ax.plot([end, end, back, back], [heights[-1] + 1, 0, 0, heights[0] + size / 2], color=CONTEXT, linewidth=2)
    arrow(ax, (back, heights[0] + size / 2), (left[0] - 0.2, heights[0] + size / 2), colour=CONTEXT, line=2)
    for x, colour, words in ((20, TENSOR, "tensor group: NVLink"), (59, CONTEXT, "the way of the keys")):
        ax.plot([x - 3.2, x - 0.8], [28.8] * 2, color=colour, linewidth=3.5)
        ax.text(x, 28.8, words, va="center", fontsize=SMALLEST)
    ax.text(left[0] + name, 28.8, f"0 to {nodes * per_node - 1}: ranks", ha="right", va="center", fontsize=SMALLEST)
    title = f"tp{tp}-cp{cp}: each of 16 pipeline ranks takes {nodes} nodes, with {rows} tensor groups in each"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "; ".join(told) + f". The {tp} GPUs of a row are a tensor group and use NVLink. Keys go round from row to "
        "row: inside a node by NVLink, from node to node by ports")  # fmt: skip
    return ax
