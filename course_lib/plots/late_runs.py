"""How much longer than predicted published runs took: those with context ranks beside those without, by source."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.planning import Published
from course_lib.plots.canvas import BLUE, GREY, INK, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.layouts import took
from course_lib.plots.mesh import CONTEXT, LLAMA

SOFTWARE = {"2407": "Meta", "docs": "NeMo", "NVID": "Megatron-Bridge", "pyto": "torchtitan"}  # by its source
Row = tuple[str, str, str]  # software, GPU, and the number format of the layers' products


def rows_of(runs: Sequence[Published]) -> dict[Row, tuple[list[Published], list[Published]]]:
    """Return each source's dense runs without and with context ranks, on one kind of GPU in one number format."""
    found: dict[Row, tuple[list[Published], list[Published]]] = {}
    for run in runs:
        software = next((name for begin, name in SOFTWARE.items() if run.source.startswith(begin)), "")
        if software and not run.shape.experts:
            row = software, run.node.gpu.name.split()[0], run.recipe.dtype
            found.setdefault(row, ([], []))[run.layout.cp > 1].append(run)
    return {row: both for row, both in found.items() if both[1]}


def _named(run: Published) -> str:
    return f"{run.shape.name.removeprefix('Llama-3-')}, {run.sequence // 1024}k, CP {run.layout.cp}"


def late_runs(runs: Sequence[Published], ax: Axes | None = None) -> Axes:
    """Draw every run of the sources that have some with context ranks, a row for each source, and name those.

    Llama 3 405B with sequences of 8k tokens, which is nearest to the chapter's layouts, stands in bold letters.
    """
    rows = rows_of(runs)
    order = sorted(rows, key=lambda row: ([*SOFTWARE.values()].index(row[0]), -len(rows[row][1])))
    heights, edge = [], 0.0
    for row in order:  # a line of letters for each name
        heights.append(edge)
        edge += 0.55 + 0.42 * len(rows[row][1])
    ax = new_axes(ax, 1.2 + 0.52 * edge)
    ax.axvline(1, color=INK, linewidth=0.9, zorder=1)
    told = []
    for row, top in zip(order, heights, strict=True):
        without, with_them = ([*sorted(found, key=took)] for found in rows[row])
        ax.axhline(top, color=INK, linewidth=0.4, alpha=0.3, zorder=1)
        ax.scatter([took(run) for run in without], [top] * len(without), s=60, edgecolor="white", linewidths=0.8,
                   facecolor=[GREY if run.calibrates else BLUE for run in without], zorder=3)  # fmt: skip
        for place, run in enumerate(with_them):
            x, y = took(run), top + 0.42 * (place + 1)
            ax.scatter([x], [y], s=60, facecolor="white", edgecolor=CONTEXT, linewidths=1.8, zorder=3)
            right = x < 1.55
            ax.text(x + (0.018 if right else -0.018), y, f"{_named(run)}: {x:.2f}", ha="left" if right else "right",
                    va="center", fontsize=SMALLEST,
                    weight="bold" if run.shape is LLAMA and run.sequence == 8192 else "normal")  # fmt: skip
        none, some = (", ".join(f"{took(run):.2f}" for run in found) for found in (without, with_them))
        names = ", ".join(f"{_named(run)}: {took(run):.2f}" for run in with_them)
        told.append(f"{row[0]}, {row[1]}, {row[2]}: without context ranks {none}; with them {names or some}")
    ax.set_yticks(heights, [f"{software}\n{gpu}, {dtype}" for software, gpu, dtype in order], fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.spines["left"].set_visible(False)
    ax.set(ylim=(edge - 0.2, -0.45), xlim=(0.9, 1.95))
    ax.set_xlabel("measured / predicted (a run at 1.1 took 10 % longer than predicted)", fontsize=SMALLEST)
    marks = ((BLUE, "white", "without context ranks"), (GREY, "white", "used to set a number"),
             ("white", CONTEXT, "with context ranks: model, tokens, ranks"))  # fmt: skip
    legend_below(ax, [Line2D([], [], marker="o", linestyle="", markersize=8, markerfacecolor=face, markeredgecolor=line,
                             markeredgewidth=1.6, label=name) for face, line, name in marks], 3)  # fmt: skip
    ax.set_title("Every run with context ranks took longer than predicted", fontsize=TITLE, loc="left", x=-0.19)
    say(ax, "\n".join(told))
    return ax
