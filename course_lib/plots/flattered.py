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
    rows = {"what the formula\npromises": np.asarray(promised), "what the run\nthen takes": np.asarray(taken)}
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
        ax.set(yticks=[0, 200, 400] if counts.max() > 150 else [0, 20, 40], ylim=(0, 1.35 * counts.max()))
        ax.set_ylabel("lists", fontsize=SMALLEST)
        ax.text(0.99 if left else 0.01, 0.5, name, ha="right" if left else "left", va="center", fontsize=SMALLEST,
                weight="bold", transform=ax.transAxes)  # fmt: skip
        say(ax, f"{' '.join(name.split())}: {found.mean():.1f} {unit} on average, {np.quantile(found, 0.05):.1f} to "
                f"{np.quantile(found, 0.95):.1f} in nine lists of ten; the fastest takes {float(best):g}")  # fmt: skip
    axes[0].text(float(best) + 0.2, 0.98, f"the fastest of all takes {float(best):g}", color=LIMIT, va="top",
                 transform=axes[0].get_xaxis_transform(), fontsize=SMALLEST)  # fmt: skip
    axes[1].set_xlabel(unit, fontsize=SMALLEST)
    told, then = (f"{found.mean():.1f}" for found in rows.values())
    title = f"The first of a list promises {told} {unit} and takes {then} (means of {len(rows[name]):,} lists)"
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return list(axes)
