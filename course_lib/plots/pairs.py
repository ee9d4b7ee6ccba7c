"""How much longer context ranks made published runs than predicted: each run compared with its nearest without."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from course_lib.planning import Published
from course_lib.planning.room import parameters
from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, new_axes, say
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
    """Draw every pair's factor as a dot, a row for each number of context ranks, and where they stop winning."""
    strips: dict[tuple[int, bool], list] = {}
    for pair in sorted(pairs_of(rows), key=ratio_of):
        strips.setdefault((pair[0].layout.cp, pair[0].sequence != pair[1].sequence), []).append(pair)
    ax = new_axes(ax, 1.3 + 0.55 * len(strips))
    told, heads = [], []
    for place, ((ranks, longer), pairs) in enumerate(sorted(strips.items())):
        heads.append(f"{ranks} context ranks,\n{'longer sequences' if longer else 'equally long'}")
        ax.axhline(place, color=INK, linewidth=0.4, alpha=0.3, zorder=1)
        for row, other in pairs:
            ratio = ratio_of((row, other))
            software = next(name for begin, name in SOFTWARE.items() if row.source.startswith(begin))
            ax.scatter([ratio], [place], s=80, facecolor="white" if longer else CONTEXT, edgecolor=CONTEXT,
                       linewidths=1.6, zorder=3)  # fmt: skip
            named = "Meta " * (software == "Meta")
            near = 0 < break_even - ratio < 0.02  # then its number stands left of the line
            ax.text(ratio + 0.004 * near, place - 0.2, f"{named}{ratio:.2f}", ha="right" if near else "center",
                    va="bottom", fontsize=SMALLEST)  # fmt: skip
            length = f"{other.sequence // 1024}k → {row.sequence // 1024}k" if longer else f"{row.sequence // 1024}k"
            against = "" if row.shape is other.shape else f" compared with {_short(other)}"
            told.append(f"{software}, {_short(row)}, {length}, {ranks} ranks{against}: {ratio:.2f}")
    ratios = [ratio_of(pair) for pair in pairs_of(rows)]
    ax.axvline(break_even, color=LIMIT, linestyle="--", linewidth=1.6, zorder=2)
    for side, words, where in ((-1, "\"bold\" wins", "right"), (1, "Meta's wins", "left")):
        ax.text(break_even + 0.01 * side, -0.8, words, color=LIMIT, fontsize=SMALLEST, ha=where, va="center")
    ax.set_yticks(range(len(strips)), heads, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set(ylim=(len(strips) - 0.6, -1.1), xlim=(min(ratios) - 0.04, max(ratios) + 0.04))
    ax.set_xlabel("factor of a pair (at 1.1 the run with context ranks lost 10 % more)", fontsize=SMALLEST)
    wins = sum(ratio < break_even for ratio in ratios)
    title = f"\"Bold\" wins at {wins} of the {len(ratios)} factors and loses at {len(ratios) - wins}"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.2)
    say(ax, "\n".join([f"the line: {break_even:.3f}", *told]))
    return ax
