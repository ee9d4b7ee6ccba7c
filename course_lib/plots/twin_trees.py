"""Two trees that share the chunks of a tensor, as NCCL lays them: who hands on to whom, and who is a leaf in which."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.models import check_whole
from course_lib.plots.canvas import COLLECTIVE, FACES, INK, SMALLEST, TITLE, WIDTH, arrow, box, say, sheet

INCH = 5.0
LEVEL = 3.1  # from a rank to those below it
WIDE, HIGH = 1.7, 1.5  # of a rank
HANDS_ON = (FACES[0], FACES[1])  # in the first tree, in the second
NAMES = ("even chunks: 0, 2, 4, …", "odd chunks: 1, 3, 5, …")


def parents(ranks: int, tree: int) -> dict[int, int]:
    """Return the parent of each rank but the root, in NCCL's first tree (0) or second (1); `ranks` must be even.

    NCCL 2.27.5, src/graph/trees.cc, ncclGetDtree: the second tree is the first one's mirror image.
    """
    check_whole(ranks=ranks)
    if ranks % 2:
        raise ValueError(f"ranks = {ranks}: NCCL's second tree is the mirror of its first where ranks are even")
    above = {}
    for rank in range(1, ranks):
        low = rank & -rank
        up = rank ^ low | low << 1
        above[rank] = up if up < ranks else rank ^ low
    return above if not tree else {ranks - 1 - rank: ranks - 1 - up for rank, up in above.items()}


def two_trees(ranks: int = 8, ax: Axes | None = None) -> Axes:
    """Draw the two trees by which chunks go down, and below them in which of the two each rank hands on."""
    trees = [parents(ranks, tree) for tree in (0, 1)]
    depth = _height(trees[0], 0)
    high = LEVEL * depth + 9.2
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title("Every rank is a leaf in one tree and hands on in the other", fontsize=TITLE, loc="left")
    told = []
    for tree, left in enumerate((0.6, 21.6)):
        edges, root = trees[tree], (ranks - 1) * tree
        ax.text(left, high - 0.9, f"the way down of {NAMES[tree]}", fontsize=SMALLEST, weight="bold", va="center")
        step = 18.4 / ranks
        places = {rank: (left + step * (rank + 0.5), high - 3.4 - LEVEL * _depth(edges, rank)) for rank in range(ranks)}
        for rank, above in edges.items():
            (x, y), (top_x, top_y) = places[rank], places[above]
            arrow(ax, (top_x, top_y), (x, y + HIGH), colour=COLLECTIVE, line=1.6)
        inner = set(edges.values())
        for rank, (x, y) in places.items():
            wide = min(WIDE, 0.9 * step)
            box(ax, x - wide / 2, y, wide, HIGH, HANDS_ON[tree] if rank in inner else "white", str(rank))
        told.append(f"{NAMES[tree].partition(':')[0]} start at rank {root}: " + "; ".join(
            f"{up} to {', '.join(str(rank) for rank in sorted(edges) if edges[rank] == up)}" for up in sorted(inner)))
    _strip(ax, trees, ranks)
    told.append("each rank hands on in exactly one of the two trees, and is a leaf in the other")
    say(ax, "\n".join(told))
    return ax


def _strip(ax: Axes, trees: list[dict[int, int]], ranks: int) -> None:
    """Draw a row for each tree and a column for each rank: coloured where it hands on."""
    left, step = 10.6, min(2.3, 22 / ranks)
    ax.text(left - 0.5, 3.85, "rank", ha="right", va="center", fontsize=SMALLEST)
    for tree, y in ((0, 1.9), (1, 0.3)):
        ax.text(left - 0.5, y + 0.65, f"hands on {('even', 'odd')[tree]} chunks", ha="right", va="center",
                fontsize=SMALLEST)  # fmt: skip
        for rank in range(ranks):
            inner = rank in trees[tree].values()
            box(ax, left + step * rank, y, step - 0.25, 1.3, HANDS_ON[tree] if inner else "white")
    for rank in range(ranks):
        ax.text(left + step * rank + (step - 0.25) / 2, 3.85, str(rank), ha="center", va="center", fontsize=SMALLEST)
    ax.text(left + step * ranks + 0.4, 1.75, "one colour in each column:\nall ports are at work", va="center",
            fontsize=SMALLEST, color=INK)  # fmt: skip


def _height(edges: dict[int, int], rank: int) -> int:
    return max((1 + _height(edges, one) for one, above in edges.items() if above == rank), default=0)


def _depth(edges: dict[int, int], rank: int) -> int:
    return 1 + _depth(edges, edges[rank]) if rank in edges else 0
