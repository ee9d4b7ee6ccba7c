"""The peak of a rank under several ways to cut a model into units: what it keeps, and what is whole at that moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, GRADIENTS, INK, SMALLEST, TITLE, WEIGHTS, new_axes, say

LOOKS = {"kept": (FACES[6], INK), "gradient": (GRADIENTS, INK)}  # by a part's first word; others are weights


def peaks(ways: Mapping[str, Sequence[tuple[str, float]]], title: str) -> Axes:
    """Draw a bar for each way, made of parts (name, bytes): "kept", "gradient" (of what), or a whole weight."""
    ax = new_axes(None, 1.3 + 0.75 * len(ways))
    longest = max(sum(size for _, size in parts) for parts in ways.values()) / 1e9
    for row, parts in enumerate(ways.values()):
        left = 0.0
        for part, size in parts:
            wide = size / 1e9
            colour, ink = LOOKS.get(part.split()[0], (WEIGHTS, "white"))
            ax.barh(row, wide, 0.74, left, color=colour, edgecolor="white", linewidth=1.2)
            ax.text(left + wide / 2, row, f"{part}\n{wide:.1f}", ha="center", va="center", fontsize=SMALLEST, color=ink)
            left += wide
        ax.text(left + longest / 100, row, f"{left:.1f} GB", va="center", fontsize=SMALLEST, weight="bold")
    ax.set(xlim=(0, 1.1 * longest), ylim=(len(ways) - 0.5, -0.5))
    ax.set_yticks(range(len(ways)), list(ways), fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0)
    what = "GB on one rank at the peak of a step, without activations; dark blue: whole weights"
    ax.set_xlabel(what, fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: ".replace("\n", " ")
                      + ", ".join(f"{part} {size / 1e9:.1f}".replace("\n", " ") for part, size in parts)
                      + f", in all {sum(size for _, size in parts) / 1e9:.1f} GB" for name, parts in ways.items()))
    return ax
