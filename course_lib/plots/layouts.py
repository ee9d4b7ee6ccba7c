"""Layouts in memory and seconds: all that fit, what a step is made of, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from course_lib.planning import AXES, Layout, Plan, Published, Step
from course_lib.planning.recipe import GENERATIONS
from course_lib.planning.search import KEPT_FREE
from course_lib.plots.canvas import (
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
from course_lib.plots.mesh import CONTEXT, DATA, TENSOR

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


def plan_picture(found: Plan, marked: Mapping[str, Layout], ax: Axes | None = None) -> Axes:
    """Draw every layout that fits as a point of (GB, seconds), those with context ranks apart, and those `marked`.

    The first of those that are marked gets a line: what lies below it is faster.
    """
    ax = new_axes(ax, 4.6)
    least = found.best.seconds
    low, top = 0.88 * least, 1.33 * least
    ring = [one for one in found.fitting if one.layout.cp > 1]
    plain = [one for one in found.fitting if one.layout.cp == 1]
    for chosen, colour, order in ((ring, CONTEXT, 1), (plain, BLUE, 2)):
        inside = [one for one in chosen if one.seconds <= top]
        ax.scatter([one.room.total / 1e9 for one in inside], [one.seconds for one in inside], s=14, color=colour,
                   alpha=0.5 if chosen is ring else 0.9, linewidths=0, zorder=order)  # fmt: skip
    limit = found.node.gpu.memory / 1e9
    allowed = limit * (1 - KEPT_FREE)
    for x, style, words in ((allowed, "--", f"a plan may use {allowed:.1f} GB"), (limit, "-", f"{limit:.0f} GB")):
        ax.plot([x, x], [0.99 * least, top], color=LIMIT, linestyle=style, linewidth=1.4)
        ax.text(x - 0.008 * limit, 1.3 * least, words, color=LIMIT, fontsize=SMALLEST, ha="right", va="top",
                rotation=90, bbox=PAPER, zorder=3)  # fmt: skip
    told, ends, half = [], [0.0, 0.0, 0.0], 0.165 * limit  # of the labels in each row below, and half a label's width
    named = {"the fastest": found.best.layout, **marked}
    for number, (name, layout) in enumerate(sorted(named.items(), key=lambda item: found.of(item[1]).room.total)):
        one = found.of(layout)
        x, y = one.room.total / 1e9, one.seconds
        best = layout == found.best.layout
        ax.plot([x], [y], marker="*" if best else "D", markersize=16 if best else 8, zorder=5, markeredgecolor=INK,
                color=CONTEXT if layout.cp > 1 else BLUE)  # fmt: skip
        words = f"{name} (place {found.place(layout):,}): {y:.2f} s, {x:.0f} GB"
        sizes = " · ".join(f"{axis} {getattr(layout, axis)}" for axis in AXES if getattr(layout, axis) > 1)
        middle = min(max(x if number else x + 0.02 * limit - half, half), limit - half)
        row = next((row for row, end in enumerate(ends) if middle - half >= end), 2)
        ends[row] = middle + half
        under = (0.965 - 0.05 * row) * least
        ax.text(middle, under, f"{words}\n{sizes}", ha="center", va="center", fontsize=SMALLEST)
        ax.plot([x, x], [under + 0.022 * least, y - 0.012 * least], color=INK, linewidth=1, zorder=1)
        told.append(f"{words}, {sizes} ({layout})")
    ax.set(ylim=(low, top), xlim=(0, 1.02 * limit))
    more = sum(one.seconds > top for one in found.fitting)
    marks = [Line2D([], [], color=colour, marker="o", linestyle="", markersize=6, label=name)
             for colour, name in ((CONTEXT, f"with context ranks ({len(ring):,})"),
                                  (BLUE, f"without ({len(plain):,})"))]  # fmt: skip
    legend_below(ax, marks, 2)
    ax.set_xlabel(f"GB on the fullest GPU ({more:,} slower layouts lie above)", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    title = f"{len(found.fitting):,} layouts fit"
    for name, layout in list(marked.items())[:1]:
        mine = found.of(layout).seconds
        ahead = [one for one in found.fitting if one.seconds < mine]
        rings = sum(one.layout.cp > 1 for one in ahead)
        many = "all" if ahead and rings == len(ahead) else f"{rings}"
        title += f"; {len(ahead)} are faster than {name}, and {many} of them have context ranks"
        ax.axhline(mine, color=INK, linestyle=":", linewidth=1.4, zorder=3)
        ax.text(0.4, mine, f"as fast as {name}", fontsize=SMALLEST, va="bottom", zorder=4)
    ax.set_title(title, fontsize=TITLE, loc="left")
    told.append(f"{more:,} layouts that take more than {top:.0f} s are not drawn")
    told.append(f"{len(ring):,} have context ranks, {len(plain):,} have none")
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
    for place, kind in enumerate(KINDS):
        mine = sorted((row for row in rows if kind_of(row) == kind), key=lambda row: row.error)
        for number, row in enumerate(mine):
            y = place + (number % 3 - 1) * 0.17
            face, edge = ("white", CONTEXT) if row.layout.cp > 1 else (GREY, GREY) if row.calibrates else (BLUE, BLUE)
            ax.scatter([100 * row.error], [y], s=46, marker="D" if row.calibrates else "o", linewidths=1.6, zorder=3,
                       facecolor=face, edgecolor=edge)  # fmt: skip
        errors = ", ".join(f"{_percent(row.error)}{' with context ranks' if row.layout.cp > 1 else ''}" for row in mine)
        told.append(f"{kind}: {errors}")
    meta, long = (next(row for row in rows if row.layout.ranks == 16384 and row.layout.cp == cp) for cp in (1, 16))
    worst = max(rows, key=lambda row: abs(row.error))
    ring = next(row for row in rows if row.shape.name == "Llama-3-8B" and row.layout.cp == 8)
    for row, words, there in ((meta, f"Meta, no context ranks: {_percent(meta.error)}", (4, 0.48)),
                              (long, f"Meta, 16 context ranks: {_percent(long.error)}", (-38, 0.48)),
                              (ring, f"8 context ranks: {_percent(ring.error)}", (-70, 3.45)),
                              (worst, f"worst: {worst.shape.name}, {_percent(worst.error)}", (-70, 4.55))):  # fmt: skip
        place = KINDS.index(kind_of(row))
        mine = sorted((one for one in rows if kind_of(one) == KINDS[place]), key=lambda one: one.error)
        y = place + (mine.index(row) % 3 - 1) * 0.17
        begin = (0.97, 0) if row is long else (0, 0.5) if row is meta else (0.5, 0.5)  # of the line, in the words
        ax.annotate(words, (100 * row.error, y), there, fontsize=SMALLEST, va="center",
                    arrowprops={"arrowstyle": "-", "color": INK, "shrinkB": 4, "relpos": begin})  # fmt: skip
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
