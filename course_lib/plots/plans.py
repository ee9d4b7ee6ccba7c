"""Plans for one model: those that do not fit on one scale, and those that do fit enlarged, with their parts named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say
from course_lib.plots.memory import PARTS, unit_of


def plans_that_fit(
    breakdowns: Mapping[str, Any], capacity: float, title: str, enlarged: str = "The plans that fit, enlarged"
) -> list[Axes]:
    """Draw what a GPU holds under each plan when most is alive, and below, enlarged, the plans within `capacity` bytes.

    Takes `Breakdown`s by name. Beside a bar that does not fit stands when in a step that is; in the enlarged
    part each part's name and number stand on it, or its number above it where it is too narrow.
    """
    plans = {name: b.moments[b.peak_moment] for name, b in breakdowns.items()}
    fits = {name: parts for name, parts in plans.items() if sum(parts.values()) <= capacity}
    scale, unit = unit_of(max(sum(parts.values()) for parts in plans.values()))
    _, (above, below) = plt.subplots(
        2, 1, figsize=(WIDTH, 2.45 + 0.44 * len(plans) + 0.7 * len(fits)), layout="constrained", FigureClass=Picture,
        height_ratios=(len(plans) + 0.6, 1.6 * len(fits) + 0.5),
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
                    name_too = f"{part}\n" * (size / scale > 0.1 * longest)
                    ax.text(left + size / scale / 2, row, f"{name_too}{size / scale:.1f}", ha="center", va="center",
                            fontsize=SMALLEST, color="white" if part == "weights" else INK, bbox=paper)
                elif ax is below and size:
                    ax.text(left + 0.002 * longest, row - 0.5, f"{size / scale:.1f}", ha="left", va="center",
                            fontsize=SMALLEST, color=INK)
                left += size / scale
            fit = ax is below or name in fits
            words = f"{left:,.3g} {unit}" + f", {_worst(parts)}" * (ax is above and not fit)
            ax.text(left + longest / 100, row, words, va="center", fontsize=SMALLEST,
                    color=INK if fit else LIMIT, weight="normal" if fit else "bold",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
        wide, head = (1.6, -1.7) if ax is above else (1.14, -0.8)
        ax.set(xlim=(0, wide * longest), ylim=(len(drawn) - 0.4, head))
        ax.set_yticks(range(len(drawn)), list(drawn), fontsize=SMALLEST)
        ax.tick_params(axis="y", length=0)
        say(ax, "\n".join(f"{name}: {sum(parts.values()) / scale:,.3g} {unit} ({_worst(parts)}), of it "
                          + ", ".join(f"{part} {size / scale:,.1f}" for part, size in parts.items() if size)
                          for name, parts in drawn.items()))
    above.plot(2 * [capacity / scale], [len(plans) - 0.4, -0.7], color=LIMIT, linestyle="--", linewidth=1.6, zorder=1.5)
    above.text(capacity / scale + 3, -0.62, f"the GPU has {capacity / scale:g} {unit}", color=LIMIT,
               fontsize=SMALLEST, va="center")
    above.set_xlabel(f"{unit} on one GPU at the worst moment of a step", fontsize=SMALLEST)
    above.set_title(title, fontsize=TITLE, loc="left", x=0)
    below.set_title(enlarged, fontsize=TITLE, loc="left")
    below.set_xlabel(f"{unit} on one GPU, when most is alive", fontsize=SMALLEST)
    _names(above, [part for part in PARTS if any(parts.get(part, 0) > 0 for parts in plans.values())])
    return [above, below]


def _worst(parts: Mapping[str, float]) -> str:
    """Return when in a step a GPU holds these parts."""
    if not parts.get("activations"):
        return "in the optimizer's step"
    return "at the loss" if parts.get("logits") else "in backward"


def _names(ax: Axes, parts: list[str]) -> None:
    """Write each part's name on its colour, in one row above the bars."""
    high = ax.get_xlim()[1]
    x = 0.0
    for part in parts:
        colour = "white" if part == "weights" else INK
        box = {"boxstyle": "square,pad=0.3", "facecolor": PARTS[part][0], "edgecolor": "none"}
        look = {}
        if PARTS[part][1]:
            box |= {"hatch": PARTS[part][1], "edgecolor": "white", "linewidth": 0}
            look = {"path_effects": [withStroke(linewidth=5, foreground=PARTS[part][0])]}
        words = f"   {part}   " if look else part
        written = ax.text(x + 0.008 * high, -1.3, words, fontsize=SMALLEST, va="center", color=colour, bbox=box, **look)
        wide = written.get_window_extent(ax.figure.canvas.get_renderer()).width
        x += wide / (0.7 * ax.figure.bbox.width) * high + 0.025 * high
