"""The winner's curse: how small the smallest of many honest estimates is."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say


def flattered(smallest: Mapping[int, object], true: float, unit: str = "days") -> list[Axes]:
    """Draw, for lists of several lengths, the histogram of the smallest estimate, below each other on one axis."""
    figure, axes = plt.subplots(len(smallest), 1, figsize=(WIDTH, 0.7 + 0.95 * len(smallest)), sharex=True,
                                layout="constrained", FigureClass=Picture, squeeze=False)  # fmt: skip
    every = {tried: np.asarray(found) for tried, found in smallest.items()}
    low, high = (edge(float(edge(found)) for found in every.values()) for edge in (min, max))
    bins = np.arange(np.floor(low), np.ceil(high) + 0.5, 0.5)
    for place, (ax, (tried, found)) in enumerate(zip(axes[:, 0], every.items(), strict=True)):
        new_axes(ax, 0)
        counts, *_ = ax.hist(found, bins, color=BLUE, edgecolor="white", linewidth=0.6)
        ax.axvline(true, color=LIMIT, linestyle="--", linewidth=1.6)
        ax.axvline(found.mean(), color="black", linewidth=1.4)
        right = found.mean() < true - 1
        ax.text(found.mean() - 0.3, 1.02 * counts.max(), f"mean {found.mean():.1f}", ha="right" if right or tried == 1
                else "left", va="bottom", fontsize=SMALLEST, weight="bold")  # fmt: skip
        if not place:
            ax.text(true + 0.3, 1.02 * counts.max(), f"all take {true:g} {unit}", color=LIMIT, va="bottom",
                    fontsize=SMALLEST)  # fmt: skip
        ax.set(yticks=[], ylim=(0, 1.3 * counts.max()))
        ax.spines["left"].set_visible(False)
        ax.set_ylabel("one estimate" if tried == 1 else f"smallest\nof {tried:,}", rotation=0, ha="right", va="center",
                      fontsize=SMALLEST)  # fmt: skip
        say(ax, f"{'one estimate' if tried == 1 else f'the smallest of {tried:,}'}: {found.mean():.1f} {unit} on "
                f"average, {np.quantile(found, 0.05):.1f} to {np.quantile(found, 0.95):.1f} in nine lists of ten; all "
                f"take {true:g}")  # fmt: skip
    axes[-1, 0].set_xlabel(f"{unit} that the smallest estimate promises", fontsize=SMALLEST)
    figure.suptitle("The longer the list, the more its first entry is flattered", fontsize=TITLE, x=0.01, ha="left")
    return list(axes[:, 0])
