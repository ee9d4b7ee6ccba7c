"""ZeRO's stages: what each GPU holds of the state when none, one, two or all three of its parts are divided."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.memory import model_state_bytes
from course_lib.plots.canvas import SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.memory import PARTS

STAGES = ("0: nothing is divided", "1: the optimizer is", "2: the gradients, too", "3: the weights, too")
GIGA = 1e9


def zero_stages(parameters: float, ranks: int, ax: Axes | None = None) -> Axes:
    """Draw the state in bf16 mixed precision on each of `ranks` GPUs, a bar for each stage of ZeRO."""
    held = [model_state_bytes(parameters, zero=stage, ranks=ranks) for stage in range(len(STAGES))]
    totals = [sum(parts.values()) / GIGA for parts in held]
    ax = new_axes(ax, 3.2)
    for stage, parts in enumerate(held):
        left = 0.0
        for part, size in parts.items():
            wide = size / GIGA
            ax.barh(stage, wide, 0.66, left, color=PARTS[part][0], edgecolor="white", linewidth=0.6)
            if wide > 0.08 * totals[0]:
                ax.text(left + wide / 2, stage, f"{wide:.0f}", ha="center", va="center", fontsize=SMALLEST,
                        color="white" if part == "weights" else "black")  # fmt: skip
            left += wide
        words = f"{left:.1f} GB, a {totals[0] / left:.2g}th" if stage == 3 else f"{left:.{1 if stage else 0}f} GB"
        ax.text(left + 0.01 * totals[0], stage, words, va="center", fontsize=SMALLEST, weight="bold")
    ax.set_yticks(range(len(STAGES)), STAGES)
    ax.set(xlim=(0, 1.12 * totals[0]), ylim=(len(STAGES) - 0.5, -0.5))
    ax.set_xlabel(f"GB of state on each of {ranks} GPUs, {parameters / 1e9:g} billion parameters", fontsize=SMALLEST)
    title = f"ZeRO: each stage divides one part more, until {totals[0]:.0f} GB have become {totals[-1]:.1f}"
    ax.set_title(title, fontsize=TITLE, loc="left")
    legend_below(ax, [Patch(facecolor=PARTS[part][0], label=part) for part in held[0]])
    told = [f"stage {name}: {total:.3g} GB, " + ", ".join(f"{part} {size / GIGA:.2g}" for part, size in parts.items())
            for name, total, parts in zip(STAGES, totals, held, strict=True)]
    say(ax, "\n".join([f"the state on each of {ranks} GPUs", *told]))
    return ax
