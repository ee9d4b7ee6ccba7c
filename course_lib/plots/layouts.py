"""Layouts in memory and seconds: all that fit, what a step is made of, what stages hold, and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from course_lib.planning import AXES, Layout, Plan, Published, Step, layout_memory
from course_lib.planning.recipe import GENERATIONS
from course_lib.planning.search import KEPT_FREE
from course_lib.plots.canvas import (
    ACTIVATIONS,
    BLUE,
    COMPUTE,
    GREY,
    INK,
    LIMIT,
    OPTIMIZER,
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
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, PIPELINE, TENSOR

PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
PARTS = {
    "products": (COMPUTE, "", "matrix products"),
    "attention": (COMPUTE, "///", "attention"),
    "memory": (OPTIMIZER, "", "norms and the like"),
    "tensor": (TENSOR, "", "tensor"),
    "context": (CONTEXT, "", "context"),
    "experts": (SENT, "///", "experts"),
    "pipeline": (PIPELINE, "", "pipeline"),
    "bubble": (WAITING, "", "bubble"),
    "data": (DATA, "", "data"),
    "optimizer": (OPTIMIZER, "///", "optimizer"),
}


def plan_picture(found: Plan, marked: Mapping[str, Layout], ax: Axes | None = None) -> Axes:
    """Draw every layout that fits as a point of (GB, seconds), those with context ranks apart, and those `marked`."""
    ax = new_axes(ax, 4.4)
    least = found.best.seconds
    ring = [one for one in found.fitting if one.layout.cp > 1]
    plain = [one for one in found.fitting if one.layout.cp == 1]
    for chosen, colour, order in ((ring, CONTEXT, 1), (plain, BLUE, 2)):
        ax.scatter([one.room.total / 1e9 for one in chosen], [one.seconds for one in chosen], s=9, color=colour,
                   alpha=0.45 if chosen is ring else 0.9, linewidths=0, zorder=order)  # fmt: skip
    limit = found.node.gpu.memory / 1e9
    allowed = limit * (1 - KEPT_FREE)
    low, top = 0.78 * least, 1.65 * least
    for x, style in ((allowed, "--"), (limit, "-")):
        ax.plot([x, x], [0.97 * least, top], color=LIMIT, linestyle=style, linewidth=1.4)
    ax.text((allowed + limit) / 2, 1.4 * least, f"a plan may use {allowed:.1f} GB", color=LIMIT,
            fontsize=SMALLEST, ha="center", va="center", rotation=90)  # fmt: skip
    named = {"the fastest": found.best.layout}
    if found.best.layout.cp > 1 and plain:
        named["the fastest without context ranks"] = plain[0].layout
    told = []
    for row, (name, layout) in enumerate({**named, **marked}.items()):
        one = found.of(layout)
        x, y = one.room.total / 1e9, one.seconds
        shape, large = ("*", 16) if row == 0 else ("D", 8)
        ax.plot([x], [y], marker=shape, markersize=large, zorder=5, markeredgecolor=INK,
                color=CONTEXT if layout.cp > 1 else BLUE)  # fmt: skip
        words = f"{name} (place {found.place(layout):,}): {y:.2f} s"
        sizes = " · ".join(f"{axis} {getattr(layout, axis)}" for axis in AXES if getattr(layout, axis) > 1)
        under = (0.95 - 0.06 * row) * least
        side = 1 if x > limit / 2 else -1
        ax.text(x + 0.6 * side, under, f"{words}, {sizes}", ha="right" if side > 0 else "left", va="center",
                fontsize=SMALLEST)  # fmt: skip
        ax.plot([x, x], [under + 0.025 * least, y - 0.015 * least], color=INK, linewidth=1, zorder=1)
        told.append(f"{words}, {x:.0f} GB ({layout})")
    ax.set(ylim=(low, top), xlim=(0, 1.02 * limit))
    more = sum(one.seconds > top for one in found.fitting)
    marks = [Line2D([], [], color=colour, marker="o", linestyle="", markersize=5, label=name)
             for colour, name in ((CONTEXT, f"with context ranks ({len(ring):,})"),
                                  (BLUE, f"without ({len(plain):,})"))]  # fmt: skip
    legend_below(ax, marks, 2)
    ax.set_xlabel(f"GB on the fullest GPU ({more:,} slower layouts lie above)", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    title = f"{len(found.fitting):,} layouts fit"
    for name, layout in list(marked.items())[:1]:
        ahead = [one for one in found.fitting if one.seconds < found.of(layout).seconds]
        rings = sum(one.layout.cp > 1 for one in ahead)
        many = "all" if ahead and rings == len(ahead) else f"{rings}"
        title += f"; {len(ahead)} are faster than {name}, and {many} of them have context ranks"
    ax.set_title(title, fontsize=TITLE, loc="left")
    told.append(f"{more:,} layouts that take more than {top:.0f} s are not drawn")
    told.append(f"{len(ring):,} have context ranks, {len(plain):,} have none")
    say(ax, "\n".join(told))
    return ax


COMPUTING = ("products", "attention", "memory")


def step_parts(steps: Mapping[str, Step], title: str, computing: bool = True, ax: Axes | None = None) -> Axes:
    """Draw what steps are made of, each as a bar of seconds on one axis, under a title that says what to see.

    Without `computing`, what all have in common is left out, and the bars hold what comes on top.
    """
    ax = new_axes(ax, 1.3 + 0.62 * len(steps))
    used = [part for part in PARTS if max(getattr(step, part) for step in steps.values()) > 0.01]
    used = [part for part in used if computing or part not in COMPUTING]
    most = max(sum(getattr(step, part) for part in used) for step in steps.values()) or 1.0
    for place, step in enumerate(steps.values()):
        left = 0.0
        for part in used:
            colour, hatch, _ = PARTS[part]
            wide = getattr(step, part)
            ax.barh(place, wide, 0.6, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
            if wide > 0.045 * most:
                ink = "white" if part in ("context", "pipeline") else "black"
                ax.text(left + wide / 2, place, f"{wide:.2f}", ha="center", va="center", fontsize=SMALLEST, color=ink,
                        bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.6})  # fmt: skip
            left += wide
        words = f" {step.seconds:.2f} s" if computing else f" {left:.2f} s on top of {step.seconds - left:.2f}"
        ax.text(left, place, words, va="center", fontsize=SMALLEST, weight="bold")
    handles = [Patch(facecolor=PARTS[part][0], hatch=PARTS[part][1], edgecolor="white", label=PARTS[part][2])
               for part in used]  # fmt: skip
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.5, -0.5), xlim=(0, (1.1 if computing else 1.36) * most))
    ax.set_xlabel("seconds of a step" + ("" if computing else " that are not computing"), fontsize=SMALLEST)
    legend_below(ax, handles, 5)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{PARTS[part][2]} {getattr(step, part):.2f} s" for part in used)
                      for name, step in steps.items()))  # fmt: skip
    return ax


def memory_by_stages(stages: Sequence[int] = (1, 4, 16), ax: Axes | None = None) -> Axes:
    """Draw what the fullest rank of Llama-3-405B holds on 8 tensor ranks and more and more pipeline stages.

    16,384 GPUs and 2,048 sequences of 8,192 tokens, so that every pipeline has as many micro-batches as stages.
    """
    ax = new_axes(ax, 1.6 + 0.5 * len(stages))
    parts = (("weights, gradients, optimizer, logits", WEIGHTS), ("activations", ACTIVATIONS))
    told, most = [], 0.0
    for row, pp in enumerate(stages):
        layout = Layout(tp=8, pp=pp, dp=2048 // pp, chunks=8 if pp > 1 else 1, zero=2)
        room = layout_memory(LLAMA, layout, 2048, 8192)
        sizes = (room.total - room.activations, room.activations)
        left = 0.0
        for (_, colour), size in zip(parts, sizes, strict=True):
            ax.barh(row, size / 1e9, 0.66, left, color=colour, edgecolor="white", linewidth=0.8)
            ax.text(left + size / 2e9, row, f"{size / 1e9:.0f}", ha="center", va="center", fontsize=SMALLEST,
                    color="white" if colour == WEIGHTS else INK)  # fmt: skip
            left += size / 1e9
        most = max(most, left)
        right = 81 if 70 < left < 80 else left + 1  # not across the line of 80 GB
        ax.text(right, row, f"{left:.0f} GB", va="center", fontsize=SMALLEST, weight="bold", bbox=PAPER)
        told.append(f"{pp} stages: {sizes[0] / 1e9:.1f} GB of weights and the like, {sizes[1] / 1e9:.1f} of "
                    f"activations, {left:.1f} in all")  # fmt: skip
    ax.axvline(80, color=LIMIT, linestyle="--", linewidth=1.6, zorder=0.5)
    ax.text(81, len(stages) - 0.35, f"an H100 has 80 GB; a plan may use {80 * (1 - KEPT_FREE):.1f}", color=LIMIT,
            fontsize=SMALLEST, va="center")  # fmt: skip
    ax.set(xlim=(0, 1.1 * most), ylim=(len(stages) - 0.1, -0.6))
    ax.set_yticks(range(len(stages)), [f"{pp} stage{'s' if pp > 1 else ''}" for pp in stages])
    ax.set_xlabel("GB on the fullest GPU, with 8 tensor ranks", fontsize=SMALLEST)
    legend_below(ax, [Patch(facecolor=colour, label=name) for name, colour in parts], 3)
    ax.set_title("More stages, all kept busy: fewer weights, but just as many activations", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
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
    ax.axvspan(-15, 15, color=SKY, alpha=0.25, linewidth=0)
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
    meta = next(row for row in rows if row.layout.ranks == 16384 and row.layout.cp == 1)
    worst = max(rows, key=lambda row: abs(row.error))
    ring = next(row for row in rows if row.shape.name == "Llama-3-8B" and row.layout.cp == 8)
    for row, words, there in ((meta, f"Meta, 16,384 GPUs: {_percent(meta.error)}", (6.5, 0.5)),
                              (ring, f"8 context ranks: {_percent(ring.error)}", (-70, 3.45)),
                              (worst, f"worst: {worst.shape.name}, {_percent(worst.error)}", (-70, 4.55))):  # fmt: skip
        place = KINDS.index(kind_of(row))
        mine = sorted((one for one in rows if kind_of(one) == KINDS[place]), key=lambda one: one.error)
        y = place + (mine.index(row) % 3 - 1) * 0.17
        ax.annotate(words, (100 * row.error, y), there, fontsize=SMALLEST, va="center",
                    arrowprops={"arrowstyle": "-", "color": INK, "shrinkB": 4})  # fmt: skip
    counts = [sum(kind_of(row) == kind for row in rows) for kind in KINDS]
    ax.set_yticks(range(len(KINDS)), [f"{kind} ({count})" for kind, count in zip(KINDS, counts, strict=True)])
    ax.set(xlim=(-74, 44), ylim=(len(KINDS) - 0.5, -0.5))
    ax.xaxis.set_major_formatter(lambda value, _: _percent(value / 100) if value else "exact")
    ax.set_xlabel("predicted / measured − 1:  ← it took longer than predicted      it was faster →", fontsize=SMALLEST)
    marks = ((BLUE, BLUE, "o", "no context ranks"), ("white", CONTEXT, "o", "context ranks"),
             (GREY, GREY, "D", "used to set a number"))  # fmt: skip
    handles = [Line2D([], [], marker=mark, linestyle="", markersize=7, markerfacecolor=face, markeredgecolor=edge,
                      markeredgewidth=1.6, label=name) for face, edge, mark, name in marks]  # fmt: skip
    handles.append(Patch(facecolor=SKY, alpha=0.25, label="within 15 %"))
    legend_below(ax, handles, 4)
    middle = median(abs(row.error) for row in rows if not row.calibrates)
    count = sum(not row.calibrates for row in rows)
    title = f"{len(rows)} published runs: half of the {count} predictions are within {middle:.1%}, but see which"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join([f"worst: {worst.shape.name}, {_percent(worst.error)}", *told]))
    return ax
