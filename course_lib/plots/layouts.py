"""Layouts in memory and seconds: all that fit, what a step is made of, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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
    "gradients and the rest": (DATA, ("pipeline", "data", "optimizer")),
}


def plan_picture(found: Plan, marked: Mapping[str, Layout], ax: Axes | None = None) -> Axes:
    """Draw every layout that fits as a point of (GB, seconds), with or without context ranks, and name those `marked`.

    The first of those that are marked gets a line: what lies below it is faster.
    """
    ax = new_axes(ax, 4.4)
    least = found.best.seconds
    slowest = max((found.of(layout).seconds for layout in marked.values()), default=least)
    low, top = 0.87 * least, max(1.355 * least, 1.05 * slowest)
    limit = found.node.gpu.memory / 1e9 * (1 - KEPT_FREE)
    colours = {False: BLUE, True: CONTEXT}
    for rings, colour in colours.items():
        inside = [one for one in found.fitting if one.seconds <= 0.992 * top and (one.layout.cp > 1) == rings]
        points = [(one.room.total / 1e9, one.seconds) for one in inside]
        size, alpha, above = (30, 0.55, 2) if rings else (60, 1, 4)
        ax.scatter(*zip(*points, strict=True) if points else ([], []), color=colour, s=size, linewidths=0.4,
                   edgecolor="white", alpha=alpha, zorder=above)  # fmt: skip
    ax.axvline(limit, color=LIMIT, linewidth=1.4)
    words = f"limit: {1 - KEPT_FREE:.0%}\nof {found.node.gpu.memory / 1e9:.1f} GB"
    ax.text(1.012 * limit, top, words, color=LIMIT, fontsize=SMALLEST, va="top")
    first = next(iter(marked), None)
    named = {name: found.of(layout) for name, layout in marked.items()}
    if found.best.layout not in marked.values():
        named["the fastest"] = found.best
    told = [f"the fastest: {found.best.seconds:.2f} s, {found.best.room.total / 1e9:.0f} GB ({found.best.layout})"]
    right = limit + 7.5  # the words stand side by side, none further right than its layout
    centres = {}
    for name in sorted(set(named) - {first}, key=lambda name: -named[name].room.total):
        right = centres[name] = min(named[name].room.total / 1e9, right - 15)
    for name, one in named.items():
        x, y, layout = one.room.total / 1e9, one.seconds, one.layout
        mark, size = ("D", 11) if name in marked else ("o", 8)
        ax.plot([x], [y], marker=mark, markersize=size, zorder=5, markeredgecolor=INK, color=colours[layout.cp > 1])
        if name in centres:
            there = centres[name]
            ax.plot([there, x], [0.963 * least, y], color=INK, linewidth=0.8, zorder=3)
            words = f"{name}\n{y:.2f} s, {x:.0f} GB" + "\nthe fastest" * (name in marked and one.seconds <= least)
            ax.text(there, 0.958 * least, words, va="top", ha="center", zorder=6, fontsize=SMALLEST,
                    weight="bold" if name in marked else "normal")  # fmt: skip
        if name not in marked:
            continue
        sizes = " · ".join(f"{axis} {getattr(layout, axis)}" for axis in AXES if getattr(layout, axis) > 1)
        told.append(f"{name} (place {found.place(layout):,}): {y:.2f} s, {x:.0f} GB, {sizes} ({layout})")
    ax.set(ylim=(low, top), xlim=(0, 1.2 * limit))
    more = sum(one.seconds > 0.992 * top for one in found.fitting)
    names = {False: "no context ranks", True: "with context ranks"}
    marks = [Line2D([], [], color=colours[rings], marker="o", linestyle="", markersize=7, label=name)
             for rings, name in names.items()]  # fmt: skip
    legend_below(ax, marks, 2)
    ax.set_xlabel(f"GB on the fullest GPU ({more:,} slower layouts lie above)", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    title = f"{len(found.fitting):,} layouts fit"
    told.insert(0, title)
    for name, layout in list(marked.items())[:1]:
        mine = found.of(layout).seconds
        ahead = [one for one in found.fitting if one.seconds < mine * (1 - 1e-9)]
        rings = sum(one.layout.cp > 1 for one in ahead)
        told.insert(1, f"{len(ahead)} look faster than {name}, and {rings} of them have context ranks")
        every = ahead and rings == len(ahead)
        many = "All layouts" if every else f"{rings} of {len(ahead)} layouts"
        title = f"{many} that look faster than {name} have context ranks"
        ax.plot([0, limit], [mine, mine], color=INK, linestyle=":", linewidth=1.4, zorder=3)
        height = min(mine, top - 0.2 * (top - low))  # below the words of the limit
        words = f"{name}\n{mine:.2f} s, {found.of(layout).room.total / 1e9:.0f} GB"
        ax.text(1.012 * limit, height, words, fontsize=SMALLEST, va="center", zorder=4, weight="bold")
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.05)
    told.append(f"{more:,} slower layouts lie above the picture")
    rings = sum(one.layout.cp > 1 for one in found.fitting)
    told.append(f"{rings:,} have context ranks, {len(found.fitting) - rings:,} have none")
    say(ax, "\n".join(told))
    return ax


def under_way(
    shape: ModelShape = LLAMA, stages: Sequence[int] = (1, 4, 16), batch: int = 2048, sequence: int = 8192,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw what a rank holds with more and more stages: a bar of GB, its activations cut into micro-batches."""
    ax = new_axes(ax, 1.5 + 0.75 * len(stages))
    told, most = [], 0.0
    usable = SHOWN / 1e9 * (1 - KEPT_FREE)
    for place, pp in enumerate(stages):  # all with as many micro-batches as stages
        chunks = 8 if pp > 1 else 1
        room = layout_memory(shape, Layout(tp=8, pp=pp, dp=batch // pp, chunks=chunks, zero=2), batch, sequence)
        layers = layers_on_rank(shape.layers, pp, chunks)
        held, rest = room.activations / 1e9, (room.total - room.activations) / 1e9
        ax.barh([place] * pp, held / pp, 0.5, [held / pp * micro for micro in range(pp)], color=ACTIVATIONS,
                edgecolor="white", linewidth=1.2)  # fmt: skip
        ax.barh(place, rest, 0.5, held, color=WEIGHTS, edgecolor="white", linewidth=1.2)
        edge = held + rest + (4 if held + rest < usable else 0)  # past the line
        ax.text(edge, place, f" {held + rest:.0f} GB", va="center", fontsize=SMALLEST, weight="bold")
        ax.text(0, place - 0.29, f"{layers} layers × {pp} micro-batch{'es' if pp > 1 else ''}: {held:.0f} GB",
                va="bottom", fontsize=SMALLEST)  # fmt: skip
        ax.text(held + rest - 1.5, place, f"{rest:.0f}", ha="right", va="center", fontsize=SMALLEST, color="white")
        head = f"{pp} stage{'s' if pp > 1 else ''}"
        told.append(f"{head}: {layers} layers × {pp} micro-batch{'es' if pp > 1 else ''}, {held:.0f} GB of activations "
                    f"and {rest:.0f} GB of weights, gradients, optimizer and logits")  # fmt: skip
        most = max(most, held + rest)
    ax.axvline(usable, color=LIMIT, linestyle="--", linewidth=1.6)
    ax.text(usable + 1.5, len(stages) - 0.62, f"{usable:.1f} GB can be used", color=LIMIT, fontsize=SMALLEST,
            va="center")  # fmt: skip
    ax.set_yticks(range(len(stages)), [f"{pp} stage{'s' if pp > 1 else ''}" for pp in stages])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.12 * most), ylim=(len(stages) - 0.4, -0.75))
    ax.set_xlabel("GB on a rank", fontsize=SMALLEST)
    marks = ((ACTIVATIONS, "activations, one piece a micro-batch under way"),
             (WEIGHTS, "weights, gradients, optimizer, logits"))  # fmt: skip
    legend_below(ax, [Patch(facecolor=colour, label=name) for colour, name in marks], 2)
    title = "More stages shrink everything but the activations"
    ax.set_title(title, fontsize=TITLE, loc="left", x=-0.1)
    say(ax, "\n".join(told))
    return ax


def step_parts(steps: Mapping[str, Step], title: str, ax: Axes | None = None, *, on_top: bool = False) -> Axes:
    """Draw what steps are made of, each as a bar of seconds on one axis, under a title that says what to see.

    With `on_top`, only what comes on top of computing, which should be the same for all, with names in the bars.
    """
    ax = new_axes(ax, 1.3 + 0.72 * len(steps))
    drawn = [{part: sum(getattr(step, field) for field in fields) for part, (_, fields) in PARTS.items()}
             for step in steps.values()]  # fmt: skip
    shown = [part for part in PARTS if not (on_top and part == "computing")]
    used = [part for part in shown if max(parts[part] for parts in drawn) > 0.01]
    most = max(sum(parts[part] for part in used) for parts in drawn)
    for place, (parts, step) in enumerate(zip(drawn, steps.values(), strict=True)):
        left = 0.0
        for part in used:
            wide, name = parts[part], f"{part.split()[0]} " * on_top
            ax.barh(place, wide, 0.5, left, color=PARTS[part][0], edgecolor="white", linewidth=0.6)
            if wide > (0.015 * len(f"{name}{wide:.2f}") if on_top else 0.045) * most:
                ink = "white" if part == "context" else "black"
                ax.text(left + wide / 2, place, f"{name}{wide:.2f}", ha="center", va="center", fontsize=SMALLEST,
                        color=ink)  # fmt: skip
            elif wide >= 0.005:  # too narrow for its number, which stands above it
                ax.text(left + wide / 2, place - 0.28, f"{name}{wide:.2f}", ha="center", va="bottom",
                        fontsize=SMALLEST)  # fmt: skip
            left += wide
        words = f" {left:.2f} s, the step {step.seconds:.2f} s" if on_top else f" {step.seconds:.2f} s"
        ax.text(left, place, words, va="center", fontsize=SMALLEST, weight="bold")
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.6, -0.65), xlim=(0, (1.42 if on_top else 1.13) * most))
    ax.set_xlabel(f"seconds on top of {drawn[0]['computing']:.2f} s of computing" if on_top else "seconds of a step",
                  fontsize=SMALLEST)  # fmt: skip
    if not on_top:
        legend_below(ax, [Patch(facecolor=PARTS[part][0], label=part) for part in used], 4)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {parts[part]:.2f} s" for part in used)
                      for name, parts in zip(steps, drawn, strict=True)))  # fmt: skip
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
        return place - 0.34
    others = [one for one in rows if kind_of(one) == kind_of(row) and one not in line]
    number = sorted(others, key=lambda one: one.error).index(row)
    return place + (number % 3 - 1) * 0.17 + (0.08 if kind_of(row) == "torchtitan, fp8" else 0)


def _percent(error: float) -> str:
    return f"{100 * error:+.0f} %".replace("-", "−")


def predicted_and_measured(rows: Sequence[Published], ax: Axes | None = None) -> Axes:
    """Draw how far off the prediction of each published run is, a strip for each kind of run."""
    ax = new_axes(ax, 4.5)
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
    for row, words, there in ((meta, f"Meta, no context ranks: {_percent(meta.error)}", (5.5, 0.62)),
                              (long, f"Meta, 16 context ranks: {_percent(long.error)}", (-43.5, 0.62)),
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
    ax.set_xlabel("predicted / measured − 1 (a run at −50 % took twice as long as predicted)", fontsize=SMALLEST)
    marks = ((BLUE, BLUE, "o", "no context ranks"), ("white", CONTEXT, "o", "context ranks"),
             (GREY, GREY, "D", "used to set a number"))  # fmt: skip
    handles = [Line2D([], [], marker=mark, linestyle="", markersize=7, markerfacecolor=face, markeredgecolor=edge,
                      markeredgewidth=1.6, label=name) for face, edge, mark, name in marks]  # fmt: skip
    handles.append(Patch(facecolor=SKY, alpha=0.25, label=f"half of the {count} others"))
    legend_below(ax, handles, 4)
    title = f"{len(rows)} published runs: half of the predictions are off by more than {middle // 1:.0f} %"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join([f"worst: {worst.shape.name}, {_percent(worst.error)}", *told]))
    return ax
