"""How much longer than predicted published runs took: those with context ranks beside those without, by source."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.planning import Published
from course_lib.plots.canvas import BLUE, GREY, INK, SKY, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.layouts import took
from course_lib.plots.mesh import CONTEXT, LLAMA

SOFTWARE = {"2407": "Meta", "docs": "NeMo", "NVID": "Megatron-Bridge", "pyto": "torchtitan"}  # by its source
TOGETHER = 4  # so many rings of one source stand on one line, under one name
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
    size = run.shape.name.removeprefix("Llama-3-")
    return f"{size}, {run.recipe.dtype}, {run.sequence // 1024}k tokens, CP {run.layout.cp}"


def _names(runs: Sequence[Published]) -> str:
    """Return one name for many runs: their models, and from where to where tokens and context ranks go."""
    models = " and ".join(sorted({run.shape.name.removeprefix("Llama-3-") for run in runs}, reverse=True))
    tokens, ranks = (sorted({*found}) for found in zip(*((run.sequence // 1024, run.layout.cp) for run in runs),
                                                       strict=True))  # fmt: skip
    told = f"{tokens[0]}k to {tokens[-1]}k tokens, CP {ranks[0]} to {ranks[-1]}"
    return f"{models}, {runs[0].recipe.dtype}, {told}"


def late_runs(runs: Sequence[Published], lead: float = 0.03, ax: Axes | None = None) -> Axes:
    """Draw every run of the sources that have some with context ranks, a row for each source, and name those.

    Llama 3 405B with sequences of 8k tokens, which is nearest to the chapter's layouts, stands in bold letters. A strip
    shows by how much a run may be late before a `lead` is gone.
    """
    rows = rows_of(runs)
    order = sorted(rows, key=lambda row: ([*SOFTWARE.values()].index(row[0]), -len(rows[row][1])))
    heights, edge = [], 0.0
    for row in order:  # a line of letters for each name
        heights.append(edge)
        edge += 0.58 + 0.42 * (len(rows[row][1]) if len(rows[row][1]) < TOGETHER else 2)
    ax = new_axes(ax, 1.2 + 0.52 * edge)
    ax.axvspan(1, 1 + lead, color=SKY, alpha=0.35, linewidth=0)
    ax.axvline(1, color=INK, linewidth=0.9, zorder=1)
    ax.text(1.045, -0.32, f"the strip: late by up to {100 * lead:.0f} %, as much as the leads", va="center",
            fontsize=SMALLEST)  # fmt: skip
    told = []
    for row, top in zip(order, heights, strict=True):
        without, with_them = ([*sorted(found, key=took)] for found in rows[row])
        ax.axhline(top, color=INK, linewidth=0.4, alpha=0.3, zorder=1)
        ax.scatter([took(run) for run in without], [top] * len(without), s=60, edgecolor="white", linewidths=0.8,
                   facecolor=[GREY if run.calibrates else BLUE for run in without], zorder=3)  # fmt: skip
        many = len(with_them) >= TOGETHER  # on one line, with one name
        for place, run in enumerate(with_them):
            x, y = took(run), top + 0.42 * (1 if many else place + 1)
            ax.scatter([x], [y], s=60, facecolor="white", edgecolor=CONTEXT, linewidths=1.8, zorder=3)
            if not many:
                near = run.shape is LLAMA and run.sequence == 8192
                like = f"nearest to {run.layout.tp} x {8 // run.layout.tp * 2}: " if near else ""
                ax.text(x + 0.018, y, f"{like}{_named(run)}: {x:.2f}", va="center", fontsize=SMALLEST,
                        weight="bold" if near else "normal")  # fmt: skip
        if many:
            ends = f"{took(with_them[0]):.2f} to {took(with_them[-1]):.2f}"
            ax.text(took(with_them[-1]), top + 0.84, f"{_names(with_them)}: {ends}", ha="right", va="center",
                    fontsize=SMALLEST)  # fmt: skip
        none, some = (", ".join(f"{took(run):.2f}" for run in found) for found in (without, with_them))
        names = ", ".join(f"{_named(run)}: {took(run):.2f}" for run in with_them)
        told.append(f"{row[0]}, {row[1]}, {row[2]}: without context ranks {none}; with them {names or some}")
    ax.set_yticks(heights, [f"{software}\n{gpu}, {dtype}" for software, gpu, dtype in order], fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.spines["left"].set_visible(False)
    ax.set(ylim=(edge - 0.2, -0.6), xlim=(0.9, 1.95))
    ax.set_xlabel("measured / predicted (a run at 1.1 took 10 % longer than predicted)", fontsize=SMALLEST)
    marks = ((BLUE, "white", "without context ranks"), (GREY, "white", "used to set a number"),
             ("white", CONTEXT, "with context ranks (CP)"))  # fmt: skip
    legend_below(ax, [Line2D([], [], marker="o", linestyle="", markersize=8, markerfacecolor=face, markeredgecolor=line,
                             markeredgewidth=1.6, label=name) for face, line, name in marks], 3)  # fmt: skip
    ax.set_title("Every run with context ranks took longer than predicted", fontsize=TITLE, loc="left", x=-0.19)
    say(ax, "\n".join(told))
    return ax
