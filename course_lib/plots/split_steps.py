"""A decode step on more and more GPUs: its reading is divided, its messages are not."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import COLLECTIVE, INK, SMALLEST, TITLE, WEIGHTS, WIDTH, Picture, say


def reading_and_messages(models: Mapping[str, Mapping[int, tuple[float, float]]], *, title: str) -> list[Axes]:
    """Draw a bar for each number of GPUs in a panel for each model; `models[name][gpus]` = seconds (read, sent)."""
    widths = [len(found) + 0.6 for found in models.values()]
    figure, axes = plt.subplots(1, len(models), figsize=(WIDTH, 3.0), layout="constrained", FigureClass=Picture,
                                width_ratios=widths, squeeze=False)  # fmt: skip
    for ax, (name, found) in zip(axes.flat, models.items(), strict=True):
        most, told = 1e3 * max(map(sum, found.values())), []
        for place, (gpus, (reading, messages)) in enumerate(found.items()):
            low, high = 1e3 * reading, 1e3 * messages
            ax.bar(place, low, 0.7, color=WEIGHTS)
            ax.bar(place, high, 0.7, low, color=COLLECTIVE)
            ax.text(place, low + high + 0.02 * most, f"{low + high:.1f}", ha="center", fontsize=SMALLEST, weight="bold")
            told.append(f"{gpus} GPU{'s' if gpus > 1 else ''}: {low:.1f} ms of reading and {high:.1f} ms of messages")
        ax.set_xticks(range(len(found)), [f"{gpus} GPU{'s' if gpus > 1 else ''}" for gpus in found], fontsize=SMALLEST)
        ax.tick_params(axis="y", labelsize=SMALLEST)
        ax.set_ylim(0, 1.15 * most)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.set_ylabel("ms a token (note the scale)" if ax is not axes.flat[0] else "ms a token", fontsize=SMALLEST)
        ax.set_title(name, fontsize=SMALLEST + 1, loc="left")
        say(ax, "\n".join(told))
    one = axes.flat[0]
    for colour, words, height in ((COLLECTIVE, "messages", 0.88), (WEIGHTS, "reading", 0.75)):
        one.text(0.98, height, words, transform=one.transAxes, ha="right", color="white", fontsize=SMALLEST,
                 weight="bold", bbox={"facecolor": colour, "edgecolor": "none", "pad": 3})
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left", color=INK)
    return list(axes.flat)
