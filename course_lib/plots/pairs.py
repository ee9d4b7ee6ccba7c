"""How much longer context ranks made published runs than predicted: each run beside its nearest without them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.planning import Published
from course_lib.planning.room import parameters
from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.mesh import CONTEXT

SOFTWARE = {"2407": "Meta", "pyto": "torchtitan", "docs": "NeMo", "NVID": "Megatron-Bridge"}  # by its source


def pairs_of(rows: Sequence[Published]) -> list[tuple[Published, Published]]:
    """Return each run with context ranks, and the run without them of the same software and GPU that is nearest to it.

    Nearest is the model's size, then the tokens of a sequence on a rank, then the number of ranks.
    """
    found = []
    for row in rows:
        others = [one for one in rows if one.layout.cp == 1 and one.source == row.source
                  and one.node.gpu.name.split()[0] == row.node.gpu.name.split()[0]
                  and one.node.name == row.node.name and not one.shape.experts]  # fmt: skip
        if row.layout.cp > 1 and others:
            found.append((row, min(others, key=lambda one, row=row: _apart(one, row))))
    return found


def _apart(one: Published, row: Published) -> tuple[float, float, int]:
    size, mine = (parameters(shape, 1, 1, 1, 1)[0] for shape in (one.shape, row.shape))
    return (round(abs(math.log(size / mine)), 1), abs(one.sequence - row.sequence / row.layout.cp),
            abs(one.layout.ranks - row.layout.ranks))  # fmt: skip


def _short(row: Published) -> str:
    name = row.shape.name.removeprefix("Llama-3-")
    return "Llama 2" if name.startswith("Llama-2") else name


def ratio_of(pair: tuple[Published, Published]) -> float:
    """Return by what factor the run with context ranks lost more against its prediction than the one without."""
    row, other = pair
    return (1 + other.error) / (1 + row.error)


def context_pairs(rows: Sequence[Published], break_even: float, ax: Axes | None = None) -> Axes:
    """Draw every pair's factor as a dot, the fewest context ranks on top, and where they stop winning."""
    pairs = sorted(pairs_of(rows), key=lambda pair: (pair[0].layout.cp, ratio_of(pair)))
    ax = new_axes(ax, 1.5 + 0.3 * len(pairs))
    told, names = [], []
    for place, pair in enumerate(pairs):
        row, other = pair
        if place and row.layout.cp != pairs[place - 1][0].layout.cp:
            ax.axhline(place - 0.5, color=INK, linewidth=0.4, alpha=0.4)
        ratio, same = ratio_of(pair), row.sequence == other.sequence
        software = next(name for begin, name in SOFTWARE.items() if row.source.startswith(begin))
        ax.plot([1, ratio], [place, place], color=CONTEXT, linewidth=1.2, zorder=2)
        ax.scatter([ratio], [place], s=70, facecolor=CONTEXT if same else "white", edgecolor=CONTEXT, linewidths=1.6,
                   zorder=3)  # fmt: skip
        against = "" if row.shape is other.shape else f" beside {_short(other)}"
        left = ratio < break_even  # then its words stand to the left, away from the line
        ax.text(min(ratio, 1) - 0.013 if left else ratio + 0.013, place, f"{ratio:.2f}{against}", va="center",
                ha="right" if left else "left", fontsize=SMALLEST, weight="bold" if same else "normal")  # fmt: skip
        gpu = "" if "H100" in row.node.name else f" ({row.node.gpu.name.split()[0]})"
        size = row.shape.name.removeprefix("Llama-3-")
        length = f"{row.sequence // 1024}k" if same else f"{other.sequence // 1024}k → {row.sequence // 1024}k"
        names.append(f"{software}{gpu}, {size}, {length}, {row.layout.cp} ranks")
        told.append(f"{names[-1]}{against}: {ratio:.2f}")
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.axvline(break_even, color=LIMIT, linestyle="--", linewidth=1.6)
    ax.text(break_even + 0.008, -0.75, "from here on Meta's beats \"bold\"", color=LIMIT, fontsize=SMALLEST,
            va="center")  # fmt: skip
    ax.set_yticks(range(len(pairs)), names, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set(ylim=(len(pairs) - 0.5, -1.2), xlim=(0.74, 1.03 * max(map(ratio_of, pairs)) + 0.04))
    ax.set_xlabel("factor: measured / predicted with context ranks, divided by the same without", fontsize=SMALLEST,
                  x=0.3)  # fmt: skip
    marks = (("white", "open: with longer sequences, too"), (CONTEXT, "full: equally long sequences"))
    handles = [Line2D([], [], marker="o", linestyle="", markersize=8, markerfacecolor=face, markeredgecolor=CONTEXT,
                      markeredgewidth=1.6, label=name) for face, name in marks]  # fmt: skip
    legend_below(ax, handles, 2)
    ax.set_xticks([1, 1.1, 1.2, 1.3, 1.4])
    equal = sum(row.sequence == other.sequence for row, other in pairs)
    title = f"In {len(pairs) - equal} of {len(pairs)} pairs, the run with context ranks has longer sequences, too"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.62)
    say(ax, "\n".join([f"the line: {break_even:.3f}", *told]))
    return ax
