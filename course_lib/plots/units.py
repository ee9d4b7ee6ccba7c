"""What is whole on a GPU while one layer computes: the layer, and the root unit beside it."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, SMALLEST, TITLE, WEIGHTS, new_axes, say


def whole_at_once(models: Mapping[str, Mapping[str, float]], title: str) -> Axes:
    """Draw a bar for each model, made of parts in bytes; the part named "a layer" comes and goes, the others stay."""
    ax = new_axes(None, 1.3 + 0.75 * len(models))
    longest = max(sum(parts.values()) for parts in models.values()) / 1e9
    for row, parts in enumerate(models.values()):
        left = 0.0
        for part, size in parts.items():
            wide = size / 1e9
            goes = part == "a layer"
            ax.barh(row, wide, 0.66, left, color=FACES[0] if goes else WEIGHTS, edgecolor="white", linewidth=1.2)
            label = f"{part}\n{wide:.2f}" if wide > 0.11 * longest else ""
            ax.text(left + wide / 2, row, label, ha="center", va="center", fontsize=SMALLEST,
                    color=INK if goes else "white")
            left += wide
        small = [f"{part} {size / 1e9:.2f}, " for part, size in parts.items() if size / 1e9 <= 0.11 * longest]
        ax.text(left + longest / 100, row, f"{''.join(small)}in all {left:.2f} GB", va="center", fontsize=SMALLEST)
    ax.set(xlim=(0, 1.3 * longest), ylim=(len(models) - 0.5, -0.5))
    ax.set_yticks(range(len(models)), list(models), fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("GB of weights in bf16; dark: whole all the time, pale: comes and goes", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(f"{name}: " + ", ".join(f"{part} {size / 1e9:.2f}" for part, size in parts.items())
                      + f", in all {sum(parts.values()) / 1e9:.2f} GB" for name, parts in models.items()))
    return ax
