"""A layout that a learner types: what it needs of a rank's memory, and what a step takes, beside Meta's."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.hardware import DGX_H100
from course_lib.planning import Layout, layout_memory, layout_time
from course_lib.planning.search import KEPT_FREE
from course_lib.plots.canvas import (
    ACTIVATIONS,
    COMPUTE,
    GRADIENTS,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    WIDTH,
    Picture,
    new_axes,
    say,
)
from course_lib.plots.layouts import SHOWN
from course_lib.plots.mesh import DATA, LLAMA, META, TENSOR

USABLE = SHOWN / 1e9 * (1 - KEPT_FREE)
COLOURS = (
    {"weights": WEIGHTS, "gradients, Adam": GRADIENTS, "activations": ACTIVATIONS, "other": INK},
    {"computing": COMPUTE, "tensor": TENSOR, "bubble": WAITING, "rest": DATA},
)


def _parts(layout: Layout) -> tuple[dict[str, float], dict[str, float]]:
    """Return a rank's GB and a step's seconds, in the parts of `COLOURS`."""
    room, step = layout_memory(LLAMA, layout, 2048, 8192), layout_time(LLAMA, layout, DGX_H100, 2048, 8192)
    held = [room.weights, room.gradients + room.optimizer, room.activations]
    took = [step.products + step.attention + step.memory, step.tensor, step.bubble]
    sums = [*held, room.total - sum(held)], [*took, step.seconds - sum(took)]
    gigabytes, seconds = (dict(zip(names, parts, strict=True)) for names, parts in zip(COLOURS, sums, strict=True))
    return {name: one / 1e9 for name, one in gigabytes.items()}, seconds


def _verdict(held: float, took: float, meta: float) -> str:
    if held > USABLE:
        return f"Needs {held:.1f} of {USABLE:.1f} GB: it would stop in its first step"
    percent = round(100 * (took / meta - 1))
    much = f"{abs(percent)} % {'more' if percent > 0 else 'less'} than Meta's" if percent else "as long as Meta's"
    return f"Fits, and a step takes {took:.2f} s: {much}"


def typed_layout(gpus: int, *, tp: int, cp: int, pp: int, chunks: int, zero: int) -> list[Axes] | None:
    """Draw memory and seconds of Llama-3-405B's layout above Meta's; for one that can't be cut print why.

    The data ranks are what remains of `gpus`.
    """
    try:
        layout = Layout.filling(gpus, tp=tp, cp=cp, pp=pp, chunks=chunks, zero=zero)
        drawn = {"yours": _parts(layout), "Meta's": _parts(META)}
    except ValueError as wrong:
        print(wrong)
        return None
    _, axes = plt.subplots(1, 2, figsize=(WIDTH, 3), layout="constrained", FigureClass=Picture)
    for side, (ax, unit) in enumerate(zip(axes, ("GB", "s"), strict=True)):
        new_axes(ax, 0)
        rows = {name: parts[side] for name, parts in drawn.items()}
        most = max(sum(parts.values()) for parts in rows.values())
        for place, parts in enumerate(rows.values()):
            left = 0.0
            for part, wide in parts.items():
                ax.barh(place, wide, 0.5, left, color=COLOURS[side][part], edgecolor="white", linewidth=0.6)
                left += wide
            edge = left if side or left > USABLE else max(left, USABLE)  # past the line
            ax.text(edge, place, f" {left:.1f} GB" if side == 0 else f" {left:.2f} s", va="center",
                    fontsize=SMALLEST, weight="bold")  # fmt: skip
        if side == 0:
            most = max(most, USABLE)
            ax.axvline(USABLE, color=LIMIT, linestyle="--", linewidth=1.6)
            ax.text(USABLE, -0.47, f"{USABLE:.1f} GB can be used ", color=LIMIT, fontsize=SMALLEST, ha="right")
        ax.set(xlim=(0, 1.32 * most), ylim=(1.5, -0.75))
        ax.set_yticks(range(2), list(rows) if side == 0 else ["", ""])
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("GB on a rank" if side == 0 else "seconds of a step", fontsize=SMALLEST)
        marks = [Patch(facecolor=colour, label=name) for name, colour in COLOURS[side].items()]
        ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, frameon=False,
                  fontsize=SMALLEST)  # fmt: skip
        say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {one:.2f} {unit}" for part, one in parts.items())
                          for name, parts in rows.items()))  # fmt: skip
    totals = [sum(parts.values()) for parts in drawn["yours"]]
    axes[0].set_title(_verdict(*totals, sum(drawn["Meta's"][1].values())), fontsize=TITLE, loc="left")
    return list(axes)
