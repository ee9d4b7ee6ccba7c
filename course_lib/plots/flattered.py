"""What the first of a list of estimates promises beside what it takes: the winner's curse, as two histograms."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say


def flattered(promised: Sequence[float], taken: Sequence[float], best: float, unit: str = "days") -> list[Axes]:
    """Draw what the smallest estimates of many lists promise, above what those layouts take; `best` could be had."""
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 2.9), sharex=True, layout="constrained", FigureClass=Picture)
    rows = {"the formula\npromises": np.asarray(promised), "the run then\ntakes": np.asarray(taken)}
    low, high = (edge(float(edge(found)) for found in rows.values()) for edge in (min, max))
    bins = np.arange(np.floor(low), np.ceil(high) + 0.5, 0.5)
    for ax, (name, found) in zip(axes, rows.items(), strict=True):
        new_axes(ax, 0)
        counts, *_ = ax.hist(found, bins, color=BLUE, edgecolor="white", linewidth=0.6)
        ax.axvline(float(best), color=LIMIT, linestyle="--", linewidth=1.6)
        ax.axvline(found.mean(), color=INK, linewidth=1.4)
        left = found.mean() < best
        ax.text(found.mean() + (-0.2 if left else 0.2), 1.04 * counts.max(), f"mean {found.mean():.1f}", va="bottom",
                ha="right" if left else "left", fontsize=SMALLEST, weight="bold")  # fmt: skip
        ax.set(yticks=[], ylim=(0, 1.35 * counts.max()))
        ax.spines["left"].set_visible(False)
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=SMALLEST)
        say(ax, f"{' '.join(name.split())}: {found.mean():.1f} {unit} on average, {np.quantile(found, 0.05):.1f} to "
                f"{np.quantile(found, 0.95):.1f} in nine lists of ten; the fastest takes {float(best):g}")  # fmt: skip
    axes[0].text(float(best) + 0.2, 0.98, f"the fastest of all takes {float(best):g}", color=LIMIT, va="top",
                 transform=axes[0].get_xaxis_transform(), fontsize=SMALLEST)  # fmt: skip
    axes[1].set_xlabel(unit, fontsize=SMALLEST)
    lists = f"{len(rows[name]):,} lists"
    title = f"The first of the list promises too little, and isn't the fastest ({lists})"
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return list(axes)
