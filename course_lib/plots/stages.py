"""Drawings of a model cut into stages: over GPUs, over the nodes of a real run, and one cut from close by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import (
    ACTIVATIONS,
    BACKWARD,
    COLLECTIVE,
    COMPUTE,
    FACES,
    FORWARD,
    GRADIENTS,
    INK,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    box,
    legend_below,
    new_axes,
    say,
    sheet,
)

PAPER = "#F4F4F4"  # what stands behind
CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # behind words that a line would cross


def _write(ax: Axes, x: float, y: float, words: str, **more) -> None:
    ax.text(x, y, words, **({"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK} | more))


def cut_model() -> list[Axes]:
    """Draw a model of 16 layers cut over four GPUs, and below it when each of them works on one batch (F 1, B 2)."""
    _, (above, below) = plt.subplots(
        2, 1, height_ratios=(1.25, 1), figsize=(WIDTH, 5.9), layout="constrained", FigureClass=Picture
    )

    sheet(0, 40, 13.6, above)
    for gpu in range(4):
        left = 1.2 + 10.2 * gpu
        box(above, left, 1.6, 7.0, 10.0, FACES[gpu])
        _write(above, left + 3.5, 10.6, f"GPU {gpu}: stage {gpu}", weight="bold")
        for slab in range(4):
            box(above, left + 0.5 + 1.55 * slab, 2.4, 1.35, 7.2, "white", str(4 * gpu + slab))
        if gpu < 3:
            arrow(above, (left + 7.1, 7.8), (left + 10.1, 7.8), colour=ACTIVATIONS, line=3)
            arrow(above, (left + 10.1, 4.6), (left + 7.1, 4.6), colour=GRADIENTS, line=3)
            above.plot([left + 8.6] * 2, [0.6, 12.2], color=INK, linewidth=1, linestyle=(0, (4, 3)))
            _write(above, left + 8.6, 8.9, "x", bbox=CLEAR)
            _write(above, left + 8.6, 3.5, "x.grad", bbox=CLEAR)
            _write(above, left + 8.6, 12.9, "a cut")
    title = "A model cut between its layers: only x crosses a cut forward, and only x.grad back"
    above.set_title(title, fontsize=TITLE, loc="left")

    new_axes(below, 0)
    for rank in range(4):
        turn = 4 + 2 * (3 - rank)
        for start, length, colour, words in (
            (0, 12, WAITING, ""), (rank, 1, FORWARD, "F"), (turn, 2, BACKWARD, "B"),
        ):  # fmt: skip
            below.barh(rank, length, left=start, height=0.8, color=colour, edgecolor="white", linewidth=0.8)
            _write(below, start + length / 2, rank, words)
        for start, end in ((0, rank), (rank + 1, turn), (turn + 2, 12)):  # before, between and after
            _write(below, (start + end) / 2, rank, "waits" if end > start else "")
    below.set(xlim=(0, 12), ylim=(3.5, -0.5), yticks=range(4), yticklabels=[f"GPU {rank}" for rank in range(4)])
    below.set_xlabel("time in s: F, the forward of one stage, takes 1 s, and B, its backward, 2 s", fontsize=SMALLEST)
    below.set_title("One batch: it takes 12 s, and each GPU works for 3 of them", fontsize=TITLE, loc="left")
    say(above, "Sixteen layers on four GPUs in a row: GPU 0 has layers 0 to 3, GPU 1 4 to 7, GPU 2 8 to 11, GPU 3 12 "
               "to 15. Across each of the three cuts x goes to the next GPU in forward, and x.grad comes back in "
               "backward.")
    say(below, "Forward walks from GPU 0 to GPU 3 in seconds 0 to 4, one GPU at a time. Backward walks back from GPU 3 "
               "in second 4 to GPU 0, which ends at 12. Each GPU works for 3 s and waits for 9 s.")
    return [above, below]


def price_of_cuts(milliseconds: Mapping[str, float], title: str) -> Axes:
    """Draw milliseconds by name on one axis; a name with "compute" is computing, one with "NVLink" is sent in a node.

    All others are sent over the network.
    """
    ax = new_axes(None, 1.4 + 0.5 * len(milliseconds))
    kinds = {
        "compute": (COMPUTE, "computing"), "NVLink": (FACES[5], "sent over NVLink"),
        "": (SENT, "sent over the network"),
    }  # fmt: skip
    longest = max(milliseconds.values())
    for place, (name, spent) in enumerate(milliseconds.items()):
        colour = next(colour for word, (colour, _) in kinds.items() if word in name)
        ax.barh(place, spent, height=0.7, color=colour, edgecolor="none" if colour == COMPUTE else COLLECTIVE)
        _write(ax, spent + longest / 100, place, _short(spent), ha="left")
    ax.set_yticks(range(len(milliseconds)), milliseconds, fontsize=SMALLEST)
    ax.set(xlim=(0, 1.15 * longest), ylim=(len(milliseconds) - 0.5, -0.5))
    ax.set_xlabel("ms in forward, for one sequence of 8,192 tokens (its x: 268 MB)", fontsize=SMALLEST)
    legend_below(ax, [Patch(facecolor=colour, label=words) for colour, words in kinds.values()])
    ax.figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    say(ax, "\n".join(f"{name}: {_short(spent)}" for name, spent in milliseconds.items()))
    return ax


def _short(spent: float) -> str:
    return f"{spent:.0f} ms" if spent >= 10 else f"{spent:.1f} ms"


def pipeline_of_nodes(
    layers: Sequence[int], gpus: int, copies: int, title: str, *, gigabytes: tuple[float, float] = (450, 50),
) -> Axes:  # fmt: skip
    """Draw one copy of a model: a node of `gpus` GPUs for each entry of `layers`, one pipeline from left to right.

    Each entry is the number of layers that a node holds; the first one also has the embedding and the last the head.
    `gigabytes` is what a GPU sends in a second over NVLink, and over the network.
    """
    nodes, shown = len(layers), 5 * len(layers) // 8  # which cut is drawn with all its pairs
    ax = sheet(3.6, 41, 18.5)
    step = 34.5 / (nodes + 1)  # the cut that is drawn in full is one node wider
    for shade in (0.8, 0.4):  # the other copies, behind this one
        ax.add_patch(plt.Rectangle((1 + shade, 2.9 + shade), 35.3, 13.4, facecolor=PAPER, edgecolor="#BBBBBB"))
    ax.add_patch(plt.Rectangle((1, 2.9), 35.3, 13.4, facecolor="white", edgecolor=INK))
    for node in range(nodes):
        left = 1.4 + step * (node + (node > shown))
        box(ax, left, 3.3, 0.66 * step, 10.4, FACES[0])
        for gpu in range(gpus):
            at = 3.6 + 9.9 / gpus * gpu
            size = 0.46 * step, 7.4 / gpus
            ax.add_patch(plt.Rectangle((left + 0.1 * step, at), *size, facecolor="white", edgecolor=INK))
        if node == shown:  # one cut in full: each GPU has a partner behind the cut
            for gpu in range(gpus):
                at = 3.6 + 9.9 / gpus * gpu + 3.7 / gpus
                here, there = left + 0.72 * step, left + 1.94 * step
                arrow(ax, (here, at + 0.25), (there, at + 0.25), colour=ACTIVATIONS, line=2)
                arrow(ax, (there, at - 0.25), (here, at - 0.25), colour=GRADIENTS, line=2)
        elif node + 1 < nodes:
            arrow(ax, (left + 0.67 * step, 9.3), (left + 0.99 * step, 9.3), colour=ACTIVATIONS, line=2.4)
            arrow(ax, (left + 0.99 * step, 7.5), (left + 0.67 * step, 7.5), colour=GRADIENTS, line=2.4)
        extra = "E+" if node == 0 else "+H" if node + 1 == nodes else ""
        words = f"{extra}{layers[node]}" if node == 0 else f"{layers[node]}{extra}"
        _write(ax, left + 0.33 * step, 14.9, words)
    _write(ax, 18.6, 17.6, f"layers in each node (E embedding, H head): {sum(layers)} layers in {nodes} stages")
    arrow(ax, (2.2, 1.9), (2.2, 3.2))
    nvlink, network = (f"{bandwidth:.0f} GB/s" for bandwidth in gigabytes)
    inside = f"a node: {gpus} GPUs on\nNVLink, {nvlink} each"
    _write(ax, 1.0, 0.9, inside, ha="left")
    gap = 1.4 + 5.83 * step
    arrow(ax, (gap, 1.9), (gap, 7.0))
    between = f"network, {network} for each GPU:\nx to the right, x.grad to the left"
    _write(ax, 10.4, 0.9, between, ha="left")
    arrow(ax, (1.4 + (shown + 1.33) * step, 1.9), (1.4 + (shown + 1.33) * step, 3.6))
    whole = f"one cut in full: each of {gpus} GPUs\nsends its share of x to its partner"
    _write(ax, 23.8, 0.9, whole, ha="left")
    _write(ax, 37.6, 9.6, f"and {copies - 1}\nmore\ncopies\n(data\nparallel)", ha="left")
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, f"{nodes} nodes in a row with {', '.join(map(str, layers))} layers, the first also with the embedding and "
            f"the last with the head. In a node {gpus} GPUs on NVLink ({nvlink} each) share each layer, tensor "
            f"parallel. Between neighbouring nodes x goes to the right and x.grad to the left, over the network "
            f"({network} a GPU): each of the {gpus} GPUs sends its share of x to its partner in the next node. Behind "
            f"it stand {copies - 1} more copies, data parallel.")
    return ax


def one_cut() -> Axes:
    """Draw what two neighbouring ranks do at a cut, forward above and backward below, with the calls that do it."""
    ax = sheet(4.5, 40, 21.2)
    for left, rank in ((0.2, 0), (22.2, 1)):
        box(ax, left, 0.4, 17.6, 20.4, PAPER)
        _write(ax, left + 8.8, 19.8, f"rank {rank}: stage {rank}", weight="bold")
    for y, way, colour, words in ((12.2, 1, ACTIVATIONS, "forward"), (2.4, -1, GRADIENTS, "backward")):
        _write(ax, 20, y + 3.8, words, weight="bold")
        _write(ax, 20, y + 1.3, "numbers")
        arrow(ax, (20 - 2.1 * way, y), (20 + 2.1 * way, y), colour=colour, line=3.5)

    box(ax, 0.8, 15.2, 6.4, 3.2, "white", "y = stage(x)")
    arrow(ax, (7.3, 16.8), (8.7, 16.8))
    box(ax, 8.8, 15.2, 8.4, 3.2, "white", "y and its graph\nstay here")
    arrow(ax, (13.6, 15.1), (13.6, 13.3), line=1.8)
    box(ax, 10.2, 11.2, 7.0, 2.0, ACTIVATIONS, "isend(y.detach())")
    box(ax, 23.2, 11.2, 7.6, 2.0, ACTIVATIONS, "irecv(x)")
    arrow(ax, (27.0, 13.3), (27.0, 15.1), line=1.8)
    box(ax, 23.2, 15.2, 7.6, 3.2, "white", "x.requires_grad_()")
    arrow(ax, (30.9, 16.8), (32.3, 16.8))
    box(ax, 32.4, 15.2, 6.8, 3.2, "white", "y = stage(x),\nthen the loss")
    arrow(ax, (35.8, 15.1), (35.8, 8.7), line=1.8)

    box(ax, 32.4, 5.4, 6.8, 3.2, "white", "loss.backward()\nfills x.grad")
    arrow(ax, (32.3, 7.0), (30.9, 7.0))
    box(ax, 23.2, 5.4, 7.6, 3.2, "white", "x.grad")
    arrow(ax, (27.0, 5.3), (27.0, 3.5), line=1.8)
    box(ax, 23.2, 1.4, 7.6, 2.0, GRADIENTS, "isend(x.grad)")
    box(ax, 8.8, 1.4, 8.4, 2.0, GRADIENTS, "irecv(grad)")
    arrow(ax, (12.8, 3.5), (12.8, 5.3), line=1.8)
    box(ax, 8.8, 5.4, 8.4, 3.2, "white", "y.backward(grad)")
    arrow(ax, (8.7, 7.0), (7.3, 7.0))
    box(ax, 0.8, 5.4, 6.4, 3.2, "white", "gradients of\nits weights")
    arrow(ax, (9.5, 15.1), (9.5, 8.7), line=1.8)
    _write(ax, 9.1, 12.2, "keeps y", ha="right")
    order = ((0.8, 18.4), (10.2, 13.2), (23.2, 13.2), (23.2, 18.4), (32.4, 18.4), (32.4, 8.6), (23.2, 3.4), (8.8, 3.4),
             (8.8, 8.6))  # fmt: skip
    for step, (x, y) in enumerate(order, 1):  # in this order it happens
        look = {"boxstyle": "circle,pad=0.15", "facecolor": INK, "edgecolor": "none"}
        _write(ax, x, y, str(step), color="white", weight="bold", bbox=look, zorder=5)
    title = "At a cut the graph of autograd ends: numbers cross, and backward is handed over"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "In nine steps. Forward: rank 0 computes y = stage(x), keeps y with its graph, and sends y.detach(). Rank "
            "1 receives these numbers into its x, calls x.requires_grad_(), and computes y = stage(x) and then the "
            "loss.\n"
            "Backward: rank 1 calls loss.backward(), which fills x.grad, and sends x.grad. Rank 0 receives it as grad "
            "and calls y.backward(grad), which makes the gradients of its weights.")
    return ax
