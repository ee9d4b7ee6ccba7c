"""Layouts in memory and seconds: what a rank holds, what a step is made of, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from course_lib.models import ModelShape
from course_lib.planning import Layout, Published, Step, layout_memory
from course_lib.planning.recipe import GENERATIONS
from course_lib.planning.room import layers_on_rank
from course_lib.planning.search import KEPT_FREE
from course_lib.plots.canvas import (
    ACTIVATIONS,
    BLUE,
    COMPUTE,
    GREY,
    INK,
    LIMIT,
    SENT,
    SKY,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    legend_below,
    new_axes,
    say,
)
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, TENSOR

PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
SHOWN = 81_559 * 2**20  # bytes of an H100, as nvidia-smi shows them
COMPUTING = ("products", "attention", "memory")
PARTS = {  # of a step: the fields of a `Step` that are drawn as one
    "computing": (COMPUTE, COMPUTING),
    "tensor": (TENSOR, ("tensor",)),
    "context": (CONTEXT, ("context",)),
    "experts": (SENT, ("experts",)),
    "bubble": (WAITING, ("bubble",)),
}
SMALL = {"gradients and the rest": (DATA, ("pipeline", "gradients", "weights", "optimizer"))}
FINER = {
    "gradients": (DATA, ("gradients",)),
    "new weights and pipeline": (GREY, ("weights", "pipeline", "optimizer")),
}


def under_way(
    shape: ModelShape = LLAMA, ranks: Sequence[int] = (1, 4, 16), batch: int = 2048, sequence: int = 8192,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw what one of more and more pipeline ranks holds: a bar of GB, its activations cut into micro-batches."""
    ax = new_axes(ax, 1.5 + 0.75 * len(ranks))
    told, most = [], 0.0
    usable = SHOWN / 1e9 * (1 - KEPT_FREE)
    for place, pp in enumerate(ranks):  # all with as many micro-batches as pipeline ranks
        chunks = 8 if pp > 1 else 1
        room = layout_memory(shape, Layout(tp=8, pp=pp, dp=batch // pp, chunks=chunks, zero=2), batch, sequence)
        layers = layers_on_rank(shape.layers, pp, chunks)
        held, rest = room.activations / 1e9, (room.total - room.activations) / 1e9
        ax.barh([place] * pp, held / pp, 0.5, [held / pp * micro for micro in range(pp)], color=ACTIVATIONS,
                edgecolor="white", linewidth=1.2)  # fmt: skip
        ax.barh(place, rest, 0.5, held, color=WEIGHTS, edgecolor="white", linewidth=1.2)
        edge = held + rest + (4 if held + rest < usable else 0)  # past the line
        ax.text(edge, place, f" {held + rest:.0f} GB", va="center", fontsize=SMALLEST, weight="bold")
        ax.text(1.2, place - 0.29, f"{layers} layers × {pp} micro-batch{'es' if pp > 1 else ''}: {held:.0f} GB",
                va="bottom", fontsize=SMALLEST)  # fmt: skip
        unit = " GB" if rest > 20 else ""  # of the smallest the number only has room
        ax.text(held + rest - 1.5, place, f"{rest:.0f}{unit}", ha="right", va="center", fontsize=SMALLEST,
                color="white")  # fmt: skip
        head = f"{pp} pipeline rank{'s' if pp > 1 else ''}"
        told.append(f"{head}: {layers} layers × {pp} micro-batch{'es' if pp > 1 else ''}, {held:.0f} GB of activations "
                    f"and {rest:.0f} GB of weights and all the rest")  # fmt: skip
        most = max(most, held + rest)
    ax.axvline(usable, color=LIMIT, linestyle="--", linewidth=1.6)
    ax.text(usable + 1.5, len(ranks) - 0.62, f"{usable:.1f} GB can be used", color=LIMIT, fontsize=SMALLEST,
            va="center")  # fmt: skip
    ax.set_yticks(range(len(ranks)), [f"{pp} pipeline\nrank{'s' if pp > 1 else ''}" for pp in ranks])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.12 * most), ylim=(len(ranks) - 0.4, -0.75))
    ax.set_xlabel("GB on a rank", fontsize=SMALLEST)
    marks = ((ACTIVATIONS, "activations, one piece a micro-batch under way"),
             (WEIGHTS, "weights and all the rest"))  # fmt: skip
    legend_below(ax, [Patch(facecolor=colour, label=name) for colour, name in marks], 2)
    title = "More pipeline ranks shrink everything but the activations"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.1)
    say(ax, "\n".join(told))
    return ax


def step_parts(steps: Mapping[str, Step], title: str, ax: Axes | None = None, *, on_top: bool = False) -> Axes:
    """Draw what steps are made of, each as a bar of seconds on one axis, under a title that says what to see.

    With `on_top`, only what comes on top of computing, which should be the same for all, in finer parts, and the whole
    step beside it.
    """
    ax = new_axes(ax, 1.3 + 0.72 * len(steps))
    every = PARTS | (FINER if on_top else SMALL)
    drawn = [{part: sum(getattr(step, field) for field in fields) for part, (_, fields) in every.items()}
             for step in steps.values()]  # fmt: skip
    shown = [part for part in every if not (on_top and part == "computing")]
    used = [part for part in shown if max(parts[part] for parts in drawn) > 0.01]
    most = max(sum(parts[part] for part in used) for parts in drawn)
    for place, (parts, step) in enumerate(zip(drawn, steps.values(), strict=True)):
        left = 0.0
        narrow: list[str] = []  # numbers of neighbours that are too narrow for them: together above the bar
        for part in used:
            wide = parts[part]
            ax.barh(place, wide, 0.5, left, color=every[part][0], edgecolor="white", linewidth=0.6)
            if wide > (0.06 if on_top else 0.045) * most:
                ax.text(left + wide / 2, place, f"{wide:.2f}", ha="center", va="center", fontsize=SMALLEST,
                        color="white" if part == "context" else "black")  # fmt: skip
            elif wide > 0.004 * most:
                narrow.append(f"{wide:.2f}")
            left += wide
        ax.text(left, place - 0.28, " + ".join(narrow), ha="right" if left > 0.9 * most else "center", va="bottom",
                fontsize=SMALLEST)  # fmt: skip
        ax.text(left, place, f" {step.seconds:.2f} s", va="center", fontsize=SMALLEST, weight="bold")
    ax.set_yticks(range(len(steps)), list(steps))
    ax.tick_params(axis="y", length=0, pad=6)
    ax.set(ylim=(len(steps) - 0.6, -0.65), xlim=(0, 1.13 * most))
    ax.set_xlabel(f"seconds on top of the computing, {drawn[0]['computing']:.2f} s" if on_top else "seconds of a step",
                  fontsize=SMALLEST)  # fmt: skip
    legend_below(ax, [Patch(facecolor=every[part][0], label=part) for part in used], 6)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {parts[part]:.2f} s" for part in used)
                      for (name, step), parts in zip(steps.items(), drawn, strict=True)))  # fmt: skip
    return ax


KINDS = ("DGX A100", "Meta, NVIDIA: H100", "Blackwell", "torchtitan, bf16", "torchtitan, fp8", "with experts")


def kind_of(row: Published) -> str:
    """Return to which row of `predicted_and_measured` a published run belongs."""
    if row.shape.experts:
        return "with experts"
    if row.node.name == "H100 HBM2e":  # torchtitan's own machines
        return f"torchtitan, {row.recipe.dtype}"
    generation = next(GENERATIONS[word] for word in row.node.gpu.name.split() if word in GENERATIONS)
    return {"Ampere": "DGX A100", "Hopper": "Meta, NVIDIA: H100"}.get(generation, generation)


def _line(rows: Sequence[Published]) -> list[Published]:
    """Return torchtitan's runs of one model that differ in their context ranks, with as many tokens on each."""
    found = [row for row in rows if kind_of(row) == "torchtitan, fp8" and row.shape is LLAMA
             and row.sequence == 32768 * row.layout.cp]  # fmt: skip
    return sorted(found, key=lambda row: row.layout.cp)


def _height(row: Published, rows: Sequence[Published]) -> float:
    """Return how high a run's dot stands: in its strip, among the others in turn, or on the line above them."""
    place, line = KINDS.index(kind_of(row)), _line(rows)
    if row in line:
        return place - 0.36 + 0.2 * (row is line[2])  # the second and the third would touch
    others = [one for one in rows if kind_of(one) == kind_of(row) and one not in line]
    number = sorted(others, key=lambda one: one.error).index(row)
    return place + (number % 3 - 1) * 0.17 + (0.08 if kind_of(row) == "torchtitan, fp8" else 0)


def took(row: Published) -> float:
    """Return how many times as long as predicted a run took."""
    return row.measured / row.predicted.seconds


RATIOS = 0.75, 2.15  # of both pictures of published runs, so that a millimetre is the same in them


def ratio_axis(ax: Axes) -> None:
    """Give an Axes the logarithmic axis of what took how many times as long."""
    ticks = (0.8, 1, 1.25, 1.5, 2)
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(*RATIOS)


def predicted_and_measured(rows: Sequence[Published], ax: Axes | None = None) -> Axes:
    """Draw how many times as long as predicted each published run took, a strip for each kind of run."""
    ax = new_axes(ax, 4.5)
    others = [row for row in rows if not row.calibrates]
    middle = median(abs(row.error) for row in others)
    ax.axvspan(1 / (1 + middle), 1 / (1 - middle), color=SKY, alpha=0.25, linewidth=0)
    ax.axvline(1, color=INK, linewidth=0.9)
    told = []
    for kind in KINDS:
        mine = sorted((row for row in rows if kind_of(row) == kind), key=took)
        looks = [("white", CONTEXT, 1.8) if row.layout.cp > 1 else (GREY if row.calibrates else BLUE, "white", 0.8)
                 for row in mine]  # fmt: skip
        faces, edges, lines = zip(*looks, strict=True)
        ax.scatter([took(row) for row in mine], [_height(row, rows) for row in mine], s=60, linewidths=lines, zorder=3,
                   facecolor=faces, edgecolor=edges)  # fmt: skip
        ratios = ", ".join(f"{took(row):.2f}{' with context ranks' if row.layout.cp > 1 else ''}" for row in mine)
        told.append(f"{kind}: {ratios}")
    line = _line(rows)
    ax.plot([took(row) for row in line], [_height(row, rows) for row in line], color=CONTEXT, zorder=2)
    meta, long = (next(row for row in rows if row.layout.ranks == 16384 and row.layout.cp == cp) for cp in (1, 16))
    worst = max(rows, key=took)
    thin = {"arrowstyle": "-", "color": INK, "shrinkB": 4}
    for words, run, x, side, foot in (("Meta", meta, 0.96, "right", 0.9), ("Meta, CP 16", long, 1.04, "left", 0.1)):
        ax.annotate(f"{words}: {took(run):.2f}", (took(run), _height(run, rows)), (x, 0.58), fontsize=SMALLEST,
                    va="center", ha=side, arrowprops=thin | {"relpos": (foot, 0)})  # fmt: skip
    y = _height(worst, rows)  # its dot is outside
    ax.annotate(f"{worst.shape.name}: {took(worst):.1f}", (0.98 * RATIOS[1], y), (1.55, y), fontsize=SMALLEST,
                va="center", arrowprops={"arrowstyle": "-|>", "color": INK})  # fmt: skip
    ranks = ", ".join(f"{row.layout.cp}" for row in line)
    ax.text(1.3, 3.27, f"405B, context ranks {ranks}", fontsize=SMALLEST, va="center")
    told.append("the line joins Llama 3 405B: " + ", ".join(f"{row.layout.cp} context ranks {took(row):.2f}"
                                                             for row in line))  # fmt: skip
    counts = [sum(kind_of(row) == kind for row in rows) for kind in KINDS]
    ax.set_yticks(range(len(KINDS)), [f"{kind} ({count})" for kind, count in zip(KINDS, counts, strict=True)])
    ax.tick_params(axis="y", length=0)
    ratio_axis(ax)
    ax.set(ylim=(len(KINDS) - 0.5, -0.5))
    ax.set_xlabel("measured / predicted (a run at 2 took twice as long as predicted)", fontsize=SMALLEST)
    marks = ((BLUE, "white", "without context ranks"), (GREY, "white", "used to set a number"),
             ("white", CONTEXT, "with context ranks"))  # fmt: skip
    handles = [Line2D([], [], marker="o", linestyle="", markersize=8, markerfacecolor=face, markeredgecolor=edge,
                      markeredgewidth=1.6, label=name) for face, edge, name in marks]  # fmt: skip
    handles.append(Patch(facecolor=SKY, alpha=0.25, label=f"half of the {len(others)} others"))
    legend_below(ax, handles, 4)
    title = f"Of {len(others)} predicted runs, half are off by more than {100 * middle // 1:.0f} %"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.2)
    say(ax, "\n".join([f"worst: {worst.shape.name}, {took(worst):.1f} times as long as predicted", *told]))
    return ax
