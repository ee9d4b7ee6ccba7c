"""A mesh of ranks: tensor ranks inside a node, a pipeline of nodes, many pipelines."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.models import MODELS
from course_lib.planning import Layout
from course_lib.plots.canvas import (
    COLLECTIVE,
    FACES,
    GRADIENTS,
    INK,
    SMALLEST,
    TITLE,
    WAITING,
    arrow,
    box,
    say,
    sheet,
)

META = Layout(tp=8, pp=16, dp=128, chunks=8, zero=2)
LLAMA = MODELS["Llama-3-405B"]
# One colour for each axis, far apart on any projector; orange is what carries gradients, in the whole course.
TENSOR, PIPELINE, CONTEXT, DATA = COLLECTIVE, INK, "#8B5E3C", GRADIENTS
ONE = 1274  # GPU 2 of node 15 of copy 9: at the end of its row, beside the node that is drawn large
LEFT, STEP, WIDE, HIGH = 9.5, 8.4, 4.6, 5.0  # of the grid of nodes


def mesh_of_ranks(layout: Layout = META, rank: int = ONE, ax: Axes | None = None) -> Axes:
    """Draw copies as rows of nodes and one node with its GPUs, and light the three groups of one rank."""
    ax = sheet(4.3, 100, 60, ax)
    ax.set_ylim(4, 60)
    ax.text(LEFT, 57.6, f"nodes 0 to {layout.pp - 1} of each copy", va="center", fontsize=SMALLEST)
    inner, rest = rank % layout.tp, rank // layout.tp
    node, copy = rest % layout.pp, rest // layout.pp
    columns = [0, 1, None, layout.pp - 2, node]
    rows = {50: 0, 43: 1, 24: copy, 5: layout.dp - 1}
    for y, row in rows.items():
        own = row == copy
        for place, column in enumerate(columns):
            x = LEFT + place * STEP
            if column is None:
                ax.text(x + WIDE / 2, y + HIGH / 2, "…", ha="center", va="center", fontsize=TITLE)
                continue
            mine = own and column == node
            lit = FACES[5] if mine else WAITING if own else FACES[1] if column == node else "white"
            box(ax, x, y, WIDE, HIGH, lit, str(column), weight="bold" if mine else "normal", line=2.6 if mine else 1)
        for place in range(len(columns) - 1 if own else 0):
            x = LEFT + place * STEP + WIDE
            begin, end = (x + 0.1, y + HIGH / 2), (x + STEP - WIDE - 0.1, y + HIGH / 2)
            arrow(ax, begin, end, "<|-|>", colour=PIPELINE, line=1.6)
        ax.text(LEFT - 0.9, y + HIGH / 2, f"copy {row}", ha="right", va="center", fontsize=SMALLEST,
                weight="bold" if own else "normal")  # fmt: skip
    for y in (39.5, 17):
        for column in (0, 1, 3):
            ax.text(LEFT + column * STEP + WIDE / 2, y, "⋮", ha="center", va="center", fontsize=TITLE)
    middle, edge = LEFT + 4 * STEP + WIDE / 2, LEFT + 4 * STEP + WIDE
    for top, low in ((43, 24 + HIGH), (24, 5 + HIGH)):
        arrow(ax, (middle, top), (middle, low), "<|-|>", colour=DATA, line=2)
    # the node, enlarged, beside its box in the row
    for y, there in ((24, 17), (24 + HIGH, 36)):
        ax.plot([edge, 60], [y, there], color=INK, linewidth=0.8)
    ax.add_patch(Rectangle((60, 17), 36, 19, facecolor="white", edgecolor=INK, linewidth=1.2))
    for place in range(layout.tp):
        x, y = 61.8 + place % 4 * 8.4, 28.4 - place // 4 * 6.8
        mine = place == inner
        box(ax, x, y, 7.2, 5.6, FACES[5], str(place), weight="bold" if mine else "normal", line=2.6 if mine else 1)
    held = layout.chunks - (node in (0, layout.pp - 1))  # the embedding and the head count as a layer each
    ax.text(78, 18.9, f"1/{layout.tp} of each of the node's {held} layers", ha="center", va="center", fontsize=SMALLEST)
    heads = (
        (LEFT, 35.2, "pipeline group: its row", f"GPU {inner} of {layout.pp} nodes, ports of 50 GB/s", PIPELINE),
        (60, 42.4, "tensor group: its node", f"{layout.tp} GPUs, NVLink, about 370 GB/s", TENSOR),
        (60, 10.4, "data group: its column", f"the same GPU of {layout.dp} copies, ports of 50 GB/s", DATA),
    )
    for x, y, name, link, colour in heads:
        ax.plot([x, x], [y - 4.2, y + 1.6], color=colour, linewidth=5, solid_capstyle="butt")
        ax.text(x + 1.6, y, name, va="center", fontsize=SMALLEST, weight="bold")
        ax.text(x + 1.6, y - 2.9, link, va="center", fontsize=SMALLEST)
    told = f"GPU {inner} + {layout.tp} · (node {node} + {layout.pp} · copy {copy})"
    ax.text(60, 51, f"{told}\n= rank {rank:,}", va="center", fontsize=SMALLEST + 1, weight="bold")
    ax.set_title(f"Rank {rank:,} has a place in three groups: its node, its row and its column", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, f"{layout.tp} x {layout.pp} x {layout.dp} = {layout.ranks:,} ranks. Rank {rank:,} = {told}. Its tensor "
        f"group are the {layout.tp} GPUs of its node, joined by NVLink, which carries about 370 GB/s; its "
        f"pipeline group are GPU {inner} of {layout.pp} nodes in a row, its data group the same GPU in {layout.dp} "
        "copies of the model; both use ports of 50 GB/s")  # fmt: skip
    return ax
