"""Layouts in memory and seconds: all that fit with the Pareto line, what a step is made of, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes

from course_lib.planning import Layout, Plan, Published, Step
from course_lib.plots.canvas import (
    BLUE,
    COLLECTIVE,
    COMPUTE,
    GRADIENTS,
    GREEN,
    GREY,
    INK,
    LIMIT,
    OPTIMIZER,
    ORANGE,
    PURPLE,
    RECEIVED,
    SENT,
    SKY,
    SMALLEST,
    TITLE,
    WAITING,
    legend_below,
    new_axes,
    say,
)

PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
PARTS = {
    "products": (COMPUTE, ""),
    "attention": (COMPUTE, "///"),
    "memory": (OPTIMIZER, ""),
    "tensor": (COLLECTIVE, ""),
    "context": (RECEIVED, ""),
    "experts": (SENT, "///"),
    "pipeline": (SENT, ""),
    "bubble": (WAITING, ""),
    "data": (GRADIENTS, ""),
    "optimizer": (OPTIMIZER, "///"),
}


def plan_picture(found: Plan, marked: Mapping[str, Layout], ax: Axes | None = None) -> Axes:
    """Draw every layout that fits as a point of (GB, seconds), the Pareto line, and the layouts that are `marked`."""
    ax = new_axes(ax, 4.2)
    least = found.best.seconds
    ax.scatter([one.room.total / 1e9 for one in found.fitting], [one.seconds for one in found.fitting], s=7, color=GREY,
               alpha=0.35, linewidths=0)  # fmt: skip
    line = [(one.room.total / 1e9, one.seconds) for one in found.pareto if one.seconds < 4 * least]
    ax.plot(*zip(*line, strict=True), color=BLUE, linewidth=1.6, marker="o", markersize=4)
    limit = found.node.gpu.memory / 1e9
    ax.axvline(limit, color=LIMIT, linestyle="--", linewidth=1.4)
    ax.text(limit - 0.6, 3.75 * least, f"{found.node.gpu.name}: {limit:.0f} GB", color=LIMIT, fontsize=SMALLEST,
            ha="right", va="center", bbox=PAPER)  # fmt: skip
    told = []
    for place, (name, layout) in enumerate({"the best": found.best.layout, **marked}.items()):
        one = found.of(layout)
        x, y = one.room.total / 1e9, one.seconds
        ax.plot([x], [y], marker="*" if place == 0 else "D", color=ORANGE, markersize=14 if place == 0 else 9,
                markeredgecolor=INK, zorder=5)  # fmt: skip
        above = y + (0.62 if place else -0.5) * least * (1 if place else 0.45)
        side = 1 if x < limit / 2 else -1
        ax.annotate(f"{name}: {y:.2f} s, {x:.0f} GB\n{layout}", (x, y), (x + 1.5 * side, above), va="center",
                    ha="left" if side > 0 else "right", fontsize=SMALLEST, bbox=PAPER,
                    arrowprops={"arrowstyle": "-", "color": INK})  # fmt: skip
        told.append(f"{name}: {layout}, {y:.2f} s, {x:.0f} GB")
    ax.set(ylim=(0.55 * least, 4 * least), xlim=(0, 1.04 * limit))
    ax.set_xlabel("GB on the fullest GPU", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    more = sum(one.seconds >= 4 * least for one in found.fitting)
    ax.set_title(f"{len(found.fitting):,} layouts fit, and many differ by little", fontsize=TITLE, loc="left")
    told.append(f"{more:,} layouts that take more than {4 * least:.0f} s are not drawn")
    line = ", ".join(f"{y:.2f} s with {x:.0f} GB" for x, y in (line[0], line[len(line) // 2], line[-1]))
    say(ax, "\n".join([*told, f"the Pareto line runs from {line}"]))
    return ax


def step_parts(steps: Mapping[str, Step], ax: Axes | None = None) -> Axes:
    """Draw what steps are made of, each as a bar of seconds on one axis."""
    ax = new_axes(ax, 1.3 + 0.62 * len(steps))
    used = [part for part in PARTS if max(getattr(step, part) for step in steps.values()) > 0.01]
    handles = []
    for place, step in enumerate(steps.values()):
        left = 0.0
        for part in used:
            colour, hatch = PARTS[part]
            wide = getattr(step, part)
            bar = ax.barh(place, wide, 0.6, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
            handles += [bar] if place == 0 else []
            left += wide
        ax.text(step.seconds, place, f" {step.seconds:.2f} s", va="center", fontsize=SMALLEST, weight="bold")
    for bar, part in zip(handles, used, strict=True):
        bar.set_label(part)
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.5, -0.5), xlim=(0, 1.13 * max(step.seconds for step in steps.values())))
    ax.set_xlabel("seconds of a step", fontsize=SMALLEST)
    legend_below(ax, handles, 5)
    ax.set_title("What differs between layouts is what is not computing", fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {getattr(step, part):.2f} s" for part in used)
                      for name, step in steps.items()))  # fmt: skip
    return ax


KINDS = (("Ampere", ORANGE, "s"), ("Hopper", BLUE, "o"), ("Blackwell", GREEN, "^"), ("experts", PURPLE, "D"))


def predicted_and_measured(rows: Sequence[Published], ax: Axes | None = None) -> Axes:
    """Draw published runs, predicted over measured seconds, with a band of 15 % and the three rows calibrated on."""
    from course_lib.planning.recipe import GENERATIONS

    ax = new_axes(ax, 4.2)
    kind_of = {}
    for row in rows:
        generation = next(GENERATIONS[word] for word in row.node.gpu.name.split() if word in GENERATIONS)
        kind_of.setdefault("experts" if row.shape.experts else generation, []).append(row)
    low, high = 0.9, 300
    band = [[share * low, share * high] for share in (0.85, 1.15)]
    ax.fill_between([low, high], *band, color=SKY, alpha=0.3, linewidth=0)
    ax.plot([low, high], [low, high], color=INK, linewidth=0.8)
    handles = []
    for name, colour, mark in KINDS:
        mine = kind_of.get(name, [])
        points = [(row.measured, row.predicted.seconds) for row in mine]
        handles.append(ax.scatter(*zip(*points, strict=True), s=34, color=colour, marker=mark, edgecolors="white",
                                  linewidths=0.5, label=f"{name} ({len(mine)})"))  # fmt: skip
    worst = max(rows, key=lambda row: abs(row.error))
    ring = next(row for row in rows if row.shape.name == "Llama-3-8B" and row.layout.cp == 8)
    for row, words, place in ((worst, f"worst: {worst.shape.name}, {worst.error:+.0%}", (62, 4.2)),
                              (ring, f"8 context ranks, {ring.error:+.0%}", (82, 21))):  # fmt: skip
        ax.annotate(words, (row.measured, row.predicted.seconds), place, fontsize=SMALLEST, va="center",
                    arrowprops={"arrowstyle": "-", "color": INK})  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
        axis.set_minor_locator(axis.get_minor_locator().__class__())
    ax.minorticks_off()
    ax.set_xlabel("measured seconds of a step", fontsize=SMALLEST)
    ax.set_ylabel("predicted seconds", fontsize=SMALLEST)
    middle = median(abs(row.error) for row in rows)
    ax.text(1.05, 190, f"band: 15 % off\nmedian: {middle:.1%}", fontsize=SMALLEST, va="center")
    legend_below(ax, handles, 4)
    title = f"{len(rows)} published runs: half of them are predicted within {middle:.1%}"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, f"{len(rows)} runs from 1 to 256 s; median error {middle:.0%}; {worst.shape.name} is the worst with "
        f"{worst.error:+.0%}; runs with context parallelism lie below the band")  # fmt: skip
    return ax
