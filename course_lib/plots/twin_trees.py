"""Two trees that share the chunks of a tensor: who hands on to whom, and in which slot the first chunk of each goes."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.costs.two_trees import first_chunks
from course_lib.plots.canvas import COLLECTIVE, INK, RECEIVED, SMALLEST, TITLE, WIDTH, box, say, sheet

INCH = 5.0
LEVEL = 3.6  # from a rank to those below it
WIDE, HIGH = 1.7, 1.5  # of a rank


def two_trees(ranks: int = 8, ax: Axes | None = None) -> Axes:
    """Draw the two trees by which chunks go down from rank 0; on each arrow the slot in which it is used first."""
    trees = [first_chunks(ranks, tree) for tree in (0, 1)]
    depth = 1 + max(_height(edges, 0) for edges in trees)
    high = LEVEL * depth + 2.2
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Who only receives in one tree hands on in the other: so (nearly) all ports work", fontsize=TITLE,
                 loc="left")  # fmt: skip
    told = []
    for tree, (left, name) in enumerate(((0.6, "even chunks: 0, 2, 4, …"), (21.6, "odd chunks: 1, 3, 5, …"))):
        edges = trees[tree]
        ax.text(left, high - 0.9, name, fontsize=SMALLEST, weight="bold", va="center")
        places = _places(edges, 0, left + 0.4, 18.4 / (ranks - 1), high - 3.2)
        for rank, (above, slot) in edges.items():
            (x, y), (top_x, top_y) = places[rank], places[above]
            ax.annotate("", (x, y + HIGH), (top_x, top_y), arrowprops={
                "arrowstyle": "-|>", "color": COLLECTIVE, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0})  # fmt: skip
            ax.text((x + top_x) / 2, (y + HIGH + top_y) / 2, str(slot), ha="center", va="center", fontsize=SMALLEST,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        inner = {above for above, _ in edges.values()}
        for rank, (x, y) in places.items():
            box(ax, x - WIDE / 2, y, WIDE, HIGH, RECEIVED if rank in inner else "white", str(rank))
        hands = "; ".join(f"{above} to {rank} in slot {slot}" for rank, (above, slot) in sorted(
            edges.items(), key=lambda item: item[1][1]))  # fmt: skip
        told.append(f"{name.partition(':')[0]}, first: {hands}")
    box(ax, 0.6, 0.25, 1.2, 0.9, RECEIVED)
    ax.text(2.1, 0.7, "hands on", va="center", fontsize=SMALLEST)
    box(ax, 6.6, 0.25, 1.2, 0.9, "white")
    ax.text(8.1, 0.7, "leaf: only receives", va="center", fontsize=SMALLEST)
    ax.text(21.6, 0.7, "number: the slot in which the first chunk passes", va="center", fontsize=SMALLEST, color=INK)
    say(ax, "\n".join(told))
    return ax


def _height(edges: dict[int, tuple[int, int]], rank: int) -> int:
    return max((1 + _height(edges, one) for one, (above, _) in edges.items() if above == rank), default=0)


def _places(
    edges: dict[int, tuple[int, int]], root: int, left: float, step: float, top: float
) -> dict[int, tuple[float, float]]:
    """Return (x, y) of each rank: in the order left subtree, rank, right subtree, a level down for each arrow."""
    order: list[int] = []
    depths = {root: 0}

    def visit(rank: int) -> None:
        below = sorted(one for one, (above, _) in edges.items() if above == rank)
        depths.update(dict.fromkeys(below, depths[rank] + 1))
        for one in below[: (len(below) + 1) // 2]:
            visit(one)
        order.append(rank)
        for one in below[(len(below) + 1) // 2 :]:
            visit(one)

    visit(root)
    kept = [rank for rank in order if rank != root]
    xs = {rank: left + step * place + step / 2 for place, rank in enumerate(kept)}
    child = next(one for one, (above, _) in edges.items() if above == root)
    xs[root] = xs[child]
    return {rank: (xs[rank], top - LEVEL * depths[rank]) for rank in (root, *kept)}
