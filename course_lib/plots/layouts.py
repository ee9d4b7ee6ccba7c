"""Layouts in memory and seconds: all that fit, what a step is made of, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from course_lib.models import ModelShape
from course_lib.planning import AXES, Layout, Plan, Published, Step, layout_memory
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
    legend_below,
    new_axes,
    say,
)
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, TENSOR

PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
COMPUTING = ("products", "attention", "memory")
PARTS = {  # of a step: the fields of a `Step` that are drawn as one
    "computing": (COMPUTE, COMPUTING),
    "tensor": (TENSOR, ("tensor",)),
    "context": (CONTEXT, ("context",)),
    "experts": (SENT, ("experts",)),
    "bubble": (WAITING, ("bubble",)),
    "pipeline, data and optimizer": (DATA, ("pipeline", "data", "optimizer")),
}


# the more context ranks, the darker and the smaller, so that dots of one place are seen one in the other; blue has none
SHADES = {1: BLUE, 2: "#F2C879", 4: "#CF8A3C", 8: CONTEXT, 16: "#2E1608"}


def _shade(layout: Layout) -> str:
    return SHADES[max(number for number in SHADES if number <= layout.cp)]


def plan_picture(found: Plan, marked: Mapping[str, Layout], ax: Axes | None = None) -> Axes:
    """Draw every layout that fits as a point of (GB, seconds), coloured by its context ranks, and those `marked`.

    The first of those that are marked gets a line: what lies below it is faster.
    """
    ax = new_axes(ax, 4.4)
    least = found.best.seconds
    low, top = 0.955 * least, 1.19 * least
    for number, colour in SHADES.items():
        inside = [one for one in found.fitting if one.seconds <= top and SHADES[number] == _shade(one.layout)]
        ax.scatter([one.room.total / 1e9 for one in inside], [one.seconds for one in inside], color=colour,
                   s=60 if number == 1 else 190 / number, linewidths=0.4, edgecolor="white", zorder=2)  # fmt: skip
    memory = found.node.gpu.memory / 1e9
    limit = memory * (1 - KEPT_FREE)
    ax.axvline(limit, color=LIMIT, linewidth=1.4)
    words = f"limit: {1 - KEPT_FREE:.0%}\nof {memory:.1f} GB"
    ax.text(1.012 * limit, top, words, color=LIMIT, fontsize=SMALLEST, va="top")
    told = []
    named = {"the fastest": found.best.layout, **marked}
    below = [name for name, layout in named.items() if found.of(layout).seconds < 1.02 * least]
    below.sort(key=lambda name: found.of(named[name]).room.total)
    for name, layout in named.items():
        one = found.of(layout)
        x, y = one.room.total / 1e9, one.seconds
        best = layout == found.best.layout
        ax.plot([x], [y], marker="*" if best else "D", markersize=17 if best else 9, zorder=5, markeredgecolor=INK,
                color=_shade(layout))  # fmt: skip
        if name in below:
            away = 0 if len(below) == 1 else 2 if name == below[0] else -2
            side = {0: "center", 2: "right", -2: "left"}[away]
            ax.text(x + away, y - 0.015 * least, f"{name}: {y:.2f} s", ha=side, va="top", fontsize=SMALLEST, zorder=6)
        else:  # beside the limit
            ax.text(1.012 * limit, y - 0.006 * least, f"{name}:\n{y:.2f} s", va="top", fontsize=SMALLEST)
        sizes = " · ".join(f"{axis} {getattr(layout, axis)}" for axis in AXES if getattr(layout, axis) > 1)
        told.append(f"{name} (place {found.place(layout):,}): {y:.2f} s, {x:.0f} GB, {sizes} ({layout})")
    ax.set(ylim=(low, top), xlim=(0, 1.2 * limit))
    more = sum(one.seconds > top for one in found.fitting)
    used = {_shade(one.layout) for one in found.fitting}
    words = {1: "no context ranks", 2: "2 context ranks"}
    marks = [Line2D([], [], color=colour, marker="o", linestyle="", markersize=7, label=words.get(number, f"{number}"))
             for number, colour in SHADES.items() if colour in used]  # fmt: skip
    legend_below(ax, marks, 5)
    ax.set_xlabel(f"GB on the fullest GPU ({more:,} slower layouts lie above)", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    title = f"{len(found.fitting):,} layouts fit"
    for name, layout in list(marked.items())[:1]:
        mine = found.of(layout).seconds
        ahead = [one for one in found.fitting if one.seconds < mine * (1 - 1e-9)]
        rings = sum(one.layout.cp > 1 for one in ahead)
        many = "all" if ahead and rings == len(ahead) else f"{rings} of those"
        title += f"; {name} is number {len(ahead) + 1}, and {many} ahead of it have context ranks"
        ax.plot([0, limit], [mine, mine], color=INK, linestyle=":", linewidth=1.4, zorder=3)
        ax.text(0.6, mine + 0.002 * least, f"as fast as {name}", fontsize=SMALLEST, va="bottom", zorder=4)
    ax.set_title(title, fontsize=TITLE, loc="left")
    told.append(f"{more:,} layouts that take more than {top:.1f} s are not drawn")
    counts = {number: sum(_shade(one.layout) == colour for one in found.fitting) for number, colour in SHADES.items()}
    told += [f"{count:,} have {number} context ranks" for number, count in counts.items() if number > 1 and count]
    told.append(f"{counts[1]:,} have none")
    say(ax, "\n".join(told))
    return ax


def under_way(
    shape: ModelShape = LLAMA, stages: Sequence[int] = (1, 4, 16), batch: int = 2048, sequence: int = 8192,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw what a rank keeps of activations with more and more stages: its layers high, its micro-batches wide."""
    ax = new_axes(ax, 3.5)
    left, told = 0.5, []
    for pp in stages:  # all with as many micro-batches as stages
        chunks = 8 if pp > 1 else 1
        room = layout_memory(shape, Layout(tp=8, pp=pp, dp=batch // pp, chunks=chunks, zero=2), batch, sequence)
        layers = layers_on_rank(shape.layers, pp, chunks)
        for micro in range(pp):
            ax.add_patch(Rectangle((left + micro, 0), 1, layers, facecolor=ACTIVATIONS, edgecolor="white", linewidth=1))
        many = f"{layers} layers\n× {pp} micro-batch{'es' if pp > 1 else ''}"
        held, rest = room.activations / 1e9, (room.total - room.activations) / 1e9
        head = f"{pp} stage{'s' if pp > 1 else ''}"
        words = f"{many}\n{held:.0f} GB of activations\n{rest:.0f} GB of weights etc."
        ax.text(left, -20, head, va="top", fontsize=SMALLEST, weight="bold")
        ax.text(left, -32, words, va="top", fontsize=SMALLEST)
        told.append(f"{head}: {' '.join(words.splitlines())}")
        left += max(pp, 6) + 2
    ax.set(xlim=(0, left), ylim=(-79, shape.layers + 4), xticks=[], yticks=[0, 50, 100])
    ax.spines["left"].set_bounds(0, shape.layers)
    ax.spines["bottom"].set_visible(False)
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.text(0.5, -4, "wide: micro-batches under way (a strip is one)", va="top", fontsize=SMALLEST)
    ax.set_ylabel("high: layers of a rank", fontsize=SMALLEST, y=0.68)
    title = "More stages: fewer layers on a rank, but more micro-batches under way. The area stays"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.03)
    say(ax, "\n".join(told))
    return ax


def step_parts(steps: Mapping[str, Step], title: str, ax: Axes | None = None) -> Axes:
    """Draw what steps are made of, each as a bar of seconds on one axis, under a title that says what to see."""
    ax = new_axes(ax, 1.3 + 0.72 * len(steps))
    drawn = [{part: sum(getattr(step, field) for field in fields) for part, (_, fields) in PARTS.items()}
             for step in steps.values()]  # fmt: skip
    used = [part for part in PARTS if max(parts[part] for parts in drawn) > 0.01]
    most = max(step.seconds for step in steps.values())
    for place, (parts, step) in enumerate(zip(drawn, steps.values(), strict=True)):
        left = 0.0
        for part in used:
            wide = parts[part]
            ax.barh(place, wide, 0.5, left, color=PARTS[part][0], edgecolor="white", linewidth=0.6)
            if wide > 0.045 * most:
                ink = "white" if part == "context" else "black"
                ax.text(left + wide / 2, place, f"{wide:.2f}", ha="center", va="center", fontsize=SMALLEST, color=ink)
            elif wide >= 0.005:  # too narrow for its number, which stands above it
                ax.text(left + wide / 2, place - 0.28, f"{wide:.2f}", ha="center", va="bottom", fontsize=SMALLEST)
            left += wide
        ax.text(left, place, f" {step.seconds:.2f} s", va="center", fontsize=SMALLEST, weight="bold")
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.6, -0.65), xlim=(0, 1.1 * most))
    ax.set_xlabel("seconds of a step", fontsize=SMALLEST)
    legend_below(ax, [Patch(facecolor=PARTS[part][0], label=part) for part in used], 4)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {parts[part]:.2f} s" for part in used)
                      for name, parts in zip(steps, drawn, strict=True)))  # fmt: skip
    return ax


KINDS = ("DGX A100", "DGX H100", "Blackwell", "torchtitan, bf16", "torchtitan, fp8", "with experts")


def kind_of(row: Published) -> str:
    """Return to which row of `predicted_and_measured` a published run belongs."""
    if row.shape.experts:
        return "with experts"
    if row.node.name == "H100 HBM2e":  # torchtitan's own machines
        return f"torchtitan, {row.recipe.dtype}"
    generation = next(GENERATIONS[word] for word in row.node.gpu.name.split() if word in GENERATIONS)
    return {"Ampere": "DGX A100", "Hopper": "DGX H100"}.get(generation, generation)


def _line(rows: Sequence[Published]) -> list[Published]:
    """Return torchtitan's runs of one model that differ in their context ranks, with as many tokens on each."""
    found = [row for row in rows if kind_of(row) == "torchtitan, fp8" and row.shape is LLAMA
             and row.sequence == 32768 * row.layout.cp]  # fmt: skip
    return sorted(found, key=lambda row: row.layout.cp)


def _height(row: Published, rows: Sequence[Published]) -> float:
    """Return how high a run's dot stands: in its strip, among the others in turn, or on the line above them."""
    place, line = KINDS.index(kind_of(row)), _line(rows)
    if row in line:
        return place - 0.34
    others = [one for one in rows if kind_of(one) == kind_of(row) and one not in line]
    number = sorted(others, key=lambda one: one.error).index(row)
    return place + (number % 3 - 1) * 0.17 + (0.08 if kind_of(row) == "torchtitan, fp8" else 0)


def _percent(error: float) -> str:
    return f"{100 * error:+.0f} %".replace("-", "−")


def predicted_and_measured(rows: Sequence[Published], ax: Axes | None = None) -> Axes:
    """Draw how far off the prediction of each published run is, a strip for each kind of run."""
    ax = new_axes(ax, 4.1)
    middle = 100 * median(abs(row.error) for row in rows if not row.calibrates)
    count = sum(not row.calibrates for row in rows)
    ax.axvspan(-middle, middle, color=SKY, alpha=0.25, linewidth=0)
    ax.axvline(0, color=INK, linewidth=0.8)
    told = []
    for kind in KINDS:
        mine = sorted((row for row in rows if kind_of(row) == kind), key=lambda row: row.error)
        for row in mine:
            y = _height(row, rows)
            face, edge = ("white", CONTEXT) if row.layout.cp > 1 else (GREY, GREY) if row.calibrates else (BLUE, BLUE)
            ax.scatter([100 * row.error], [y], s=46, marker="D" if row.calibrates else "o", linewidths=1.6, zorder=3,
                       facecolor=face, edgecolor=edge)  # fmt: skip
        errors = ", ".join(f"{_percent(row.error)}{' with context ranks' if row.layout.cp > 1 else ''}" for row in mine)
        told.append(f"{kind}: {errors}")
    line = _line(rows)
    ax.plot([100 * row.error for row in line], [_height(row, rows) for row in line], color=CONTEXT, zorder=2)
    meta, long = (next(row for row in rows if row.layout.ranks == 16384 and row.layout.cp == cp) for cp in (1, 16))
    worst = max(rows, key=lambda row: abs(row.error))
    for row, words, there in ((meta, f"Meta, no context ranks: {_percent(meta.error)}", (4, 0.48)),
                              (long, f"Meta, 16 context ranks: {_percent(long.error)}", (-38, 0.48)),
                              (worst, f"worst: {worst.shape.name}", (-66, 4.75))):  # fmt: skip
        y = _height(row, rows)
        begin = (0.97, 0) if row is long else (0, 0.5) if row is meta else (0.5, 0.5)  # of the line, in the words
        ax.annotate(words, (100 * row.error, y), there, fontsize=SMALLEST, va="center",
                    arrowprops={"arrowstyle": "-", "color": INK, "shrinkB": 4, "relpos": begin})  # fmt: skip
    ranks = ", ".join(f"{row.layout.cp}" for row in reversed(line))
    ax.text(-48, 3.33, f"405B, context ranks {ranks}", fontsize=SMALLEST, va="center")
    told.append("the line joins Llama 3 405B: " + ", ".join(f"{row.layout.cp} context ranks {_percent(row.error)}"
                                                             for row in line))  # fmt: skip
    counts = [sum(kind_of(row) == kind for row in rows) for kind in KINDS]
    ax.set_yticks(range(len(KINDS)), [f"{kind} ({count})" for kind, count in zip(KINDS, counts, strict=True)])
    ax.set(xlim=(-74, 44), ylim=(len(KINDS) - 0.5, -0.5))
    ax.xaxis.set_major_formatter(lambda value, _: _percent(value / 100) if value else "exact")
    ax.set_xlabel("predicted / measured − 1:  ← it took longer than predicted      it was faster →", fontsize=SMALLEST)
    marks = ((BLUE, BLUE, "o", "no context ranks"), ("white", CONTEXT, "o", "context ranks"),
             (GREY, GREY, "D", "used to set a number"))  # fmt: skip
    handles = [Line2D([], [], marker=mark, linestyle="", markersize=7, markerfacecolor=face, markeredgecolor=edge,
                      markeredgewidth=1.6, label=name) for face, edge, mark, name in marks]  # fmt: skip
    handles.append(Patch(facecolor=SKY, alpha=0.25, label=f"half of the {count} others"))
    legend_below(ax, handles, 4)
    rings = [row for row in rows if row.layout.cp > 1]
    late = sum(row.error < 0 for row in rings)
    many = f"all {late}" if late == len(rings) else f"{late} of {len(rings)}"
    title = f"{len(rows)} published runs: {many} with context ranks took longer than predicted"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join([f"worst: {worst.shape.name}, {_percent(worst.error)}", *told]))
    return ax
