"""Which algorithm wins as nodes are added: a ring, a tree of whole tensors, and two trees of chunks on one axis."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.costs import collective_seconds, nccl_seconds
from course_lib.hardware import DGX_H100, Node
from course_lib.plots.canvas import GREEN, INK, ORANGE, SMALLEST, TITLE, new_axes, say
from course_lib.plots.protocols import PALE

MARKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
FIRST = 4  # nodes: with fewer, a tree has hardly a middle, and two nodes send S each way instead of 2 S


def ring_and_trees(nodes: int, size: float, node: Node = DGX_H100) -> tuple[float, float, float]:
    """Return the seconds of a ring, of a tree of whole tensors and of two trees, with one GPU on each node.

    Ring and two trees by NCCL's own table, each with its best protocol; the tree of whole tensors by alpha and beta of
    one port, because NCCL has none.
    """
    table = nccl_seconds(node, nodes, 1, size)
    ring, two = (min(taken for (name, _), taken in table.items() if name == kind) for kind in ("Ring", "Tree"))
    whole = collective_seconds("all_reduce", nodes, size, node.nic.latency, node.nic.bandwidth, "tree")
    return ring, whole, two


def seconds_over_nodes(size: float = 64e6, most: int = 1024, node: Node = DGX_H100, ax: Axes | None = None) -> Axes:
    """Draw what an all-reduce of `size` bytes takes by each of the three over the number of nodes."""
    counts = {round(2 ** (step / 8)) for step in range(8, 8 * most.bit_length() - 7)}
    counts |= {2**step + 1 for step in range(2, most.bit_length() - 1)}  # a round more
    counts = sorted(count for count in counts if count >= FIRST)
    rows = [ring_and_trees(count, size, node) for count in counts]
    ax = new_axes(ax, 3.6)
    names = (("ring", INK), ("tree of whole tensors", ORANGE), ("two trees, in chunks", GREEN))
    told = []
    for place, (name, colour) in enumerate(names):
        taken = [1e3 * row[place] for row in rows]
        ax.plot(counts, taken, color=colour, linewidth=2.4,
                drawstyle="steps-pre" if place == 1 else "default")
        ax.annotate(f"{name}\n{taken[-1]:.1f} ms", (counts[-1], taken[-1]), (8, (-9, 9, 0)[place]),
                    textcoords="offset points", fontsize=SMALLEST, weight="bold", color=colour if place != 1 else INK,
                    va="center", annotation_clip=False, bbox=PALE if place == 1 else None)  # fmt: skip
        told.append(f"{name}: " + ", ".join(f"{1e3 * ring_and_trees(count, size, node)[place]:.2f} ms on {count} nodes"
                                            for count in (FIRST, 16, 128, most) if count <= most))  # fmt: skip
    crossing = next((count for count in range(2, most) if _two_win(count, size, node)), None)
    if crossing:
        at = 1e3 * ring_and_trees(crossing, size, node)[2]
        ax.plot([crossing], [at], "o", color=INK, markersize=8, markerfacecolor="none", markeredgewidth=1.6)
        ax.annotate(f"from {crossing} nodes on\nthe trees win", (crossing, at), (crossing * 0.9, at * 0.48),
                    fontsize=SMALLEST, weight="bold", ha="center", va="top", arrowprops={"arrowstyle": "-",
                    "linewidth": 0.8})  # fmt: skip
        told.append(f"from {crossing} nodes on two trees are faster than the ring")
    by = {count: _best_ring(count, size, node) for count in counts}
    bend = max((late for soon, late in zip(counts, counts[1:], strict=False) if by[soon] != by[late]), default=None)
    if bend:
        protocol = by[bend]
        ax.annotate(f"the ring changes to {protocol}", (bend, 1e3 * ring_and_trees(bend, size, node)[0]),
                    (bend * 0.8, 1.08e3 * ring_and_trees(bend, size, node)[0]), fontsize=SMALLEST, ha="right",
                    va="bottom", arrowprops={"arrowstyle": "-", "linewidth": 0.8})  # fmt: skip
        told.append(f"from {bend} nodes on the ring uses {protocol}")
    ax.set(xscale="log", yscale="log", xlim=(0.9 * FIRST, most))
    ax.set_ylim(0.6, 60)
    ax.xaxis.set_major_locator(FixedLocator([mark for mark in MARKS if mark <= most]))
    ax.yaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50]))
    for axis, unit in ((ax.xaxis, ""), (ax.yaxis, " ms")):
        axis.set_major_formatter(FuncFormatter(lambda value, _, unit=unit: f"{value:,g}{unit}"))
        axis.set_minor_locator(NullLocator())
    ax.grid(True, axis="y", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel(f"nodes on one rail, with a port of {node.nic.bandwidth / 1e9:g} GB/s in each", fontsize=SMALLEST)
    ax.set_ylabel(f"time of an all-reduce of {size / 1e6:g} MB", fontsize=SMALLEST)
    ax.set_title("A ring's time grows with the nodes; that of two trees hardly does", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _best_ring(nodes: int, size: float, node: Node) -> str:
    """Return the protocol by which NCCL's ring is the fastest."""
    table = nccl_seconds(node, nodes, 1, size)
    return min((taken, protocol) for (name, protocol), taken in table.items() if name == "Ring")[1]


def _two_win(nodes: int, size: float, node: Node) -> bool:
    ring, _, two = ring_and_trees(nodes, size, node)
    return two < ring
