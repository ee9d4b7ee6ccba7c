"""Plans for one model: those that do not fit on one scale, and those that do fit enlarged, with their parts named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say
from course_lib.plots.memory import PARTS, unit_of


def plans_that_fit(breakdowns: Mapping[str, Any], capacity: float, title: str) -> list[Axes]:
    """Draw what a GPU holds under each plan when most is alive, and below, enlarged, the plans within `capacity` bytes.

    Takes `Breakdown`s by name. Beside each bar stands when in a step that is; in the enlarged part each part's number
    stands on it, or, where several are too narrow for that, all stand beside the bar.
    """
    plans = {name: b.moments[b.peak_moment] for name, b in breakdowns.items()}
    fits = {name: parts for name, parts in plans.items() if sum(parts.values()) <= capacity}
    scale, unit = unit_of(max(sum(parts.values()) for parts in plans.values()))
    _, (above, below) = plt.subplots(
        2, 1, figsize=(WIDTH, 2.45 + 0.44 * (len(plans) + len(fits))), height_ratios=(len(plans), len(fits) + 0.8),
        layout="constrained", FigureClass=Picture,
    )  # fmt: skip
    for ax, drawn in ((above, plans), (below, fits)):
        new_axes(ax, 0)
        longest = max(sum(parts.values()) for parts in drawn.values()) / scale
        for row, (name, parts) in enumerate(drawn.items()):
            left = 0.0
            for part, size in parts.items():
                colour, hatch = PARTS[part]
                ax.barh(row, size / scale, 0.7, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8)
                if ax is below and size / scale > 0.05 * longest:
                    paper = {"facecolor": colour, "edgecolor": "none", "pad": 1} if hatch else None
                    ax.text(left + size / scale / 2, row, f"{size / scale:.1f}", ha="center", va="center",
                            fontsize=SMALLEST, color="white" if part == "weights" else INK, bbox=paper)
                left += size / scale
            fit = ax is below or name in fits
            each = [f"{size / scale:.1f}" for size in parts.values() if size]
            few = ax is below and sum(size / scale <= 0.05 * longest for size in parts.values() if size) > 1
            words = f"{left:,.3g} {unit}" + f": {', '.join(each)}" * few
            ax.text(left + longest / 100, row, words, va="center", fontsize=SMALLEST,
                    color=INK if fit else LIMIT, weight="normal" if fit else "bold")
            if ax is above:
                ax.text(1.55 * longest, row, _worst(parts), ha="right", va="center", fontsize=SMALLEST, color=INK)
        wide, head = (1.55, -1.3) if ax is above else (1.14, -1.5)
        ax.set(xlim=(0, wide * longest), ylim=(len(drawn) - 0.4, head))
        ax.set_yticks(range(len(drawn)), list(drawn), fontsize=SMALLEST)
        ax.tick_params(axis="y", length=0)
        say(ax, "\n".join(f"{name}: {sum(parts.values()) / scale:,.3g} {unit} (worst moment: {_worst(parts)}), of it "
                          + ", ".join(f"{part} {size / scale:,.1f}" for part, size in parts.items() if size)
                          for name, parts in drawn.items()))
    above.axvline(capacity / scale, color=LIMIT, linestyle="--", linewidth=1.6)
    above.text(capacity / scale + 3, len(plans) - 0.7, f"the GPU has {capacity / scale:g} {unit}", color=LIMIT,
               fontsize=SMALLEST, va="center")
    above.text(above.get_xlim()[1], -0.85, "the worst moment", ha="right", va="center", fontsize=SMALLEST, color=INK,
               weight="bold")  # fmt: skip
    above.set_xlabel(f"{unit} on one GPU", fontsize=SMALLEST)
    above.set_title(title, fontsize=TITLE, loc="left", x=0)
    below.set_title("The plans that fit, enlarged", fontsize=TITLE, loc="left")
    below.set_xlabel(f"{unit} on one GPU, when most is alive", fontsize=SMALLEST)
    _names(below, [part for part in PARTS if any(parts.get(part, 0) > 0 for parts in plans.values())])
    return [above, below]


def _worst(parts: Mapping[str, float]) -> str:
    """Return when in a step a GPU holds these parts."""
    if not parts.get("activations"):
        return "optimizer's step"
    return "loss" if parts.get("logits") else "backward"


def _names(ax: Axes, parts: list[str]) -> None:
    """Write each part's name on its colour, in one row above the bars."""
    high = ax.get_xlim()[1]
    x = 0.0
    for part in parts:
        colour = "white" if part == "weights" else INK
        box = {"boxstyle": "square,pad=0.3", "facecolor": PARTS[part][0], "edgecolor": "none"}
        words = f"{part} (hatched)" if PARTS[part][1] else part
        written = ax.text(x + 0.008 * high, -1.0, words, fontsize=SMALLEST, va="center", color=colour, bbox=box)
        wide = written.get_window_extent(ax.figure.canvas.get_renderer()).width
        x += wide / (0.7 * ax.figure.bbox.width) * high + 0.025 * high
