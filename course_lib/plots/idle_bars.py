"""How long the same training step takes by several schedules: the work of a rank, and the waiting added to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import COMPUTE, INK, SMALLEST, TITLE, WAITING, new_axes, say


def idle_bars(results: Mapping[str, Any], title: str, ax: Axes | None = None) -> Axes:
    """Draw a bar for each played schedule: what a rank works, then what it waits, in seconds and as a share."""
    ax = new_axes(ax, 0.9 + 0.42 * len(results))
    longest = max(result.seconds for result in results.values())
    told = []
    for row, (name, result) in enumerate(results.items()):
        worked = sum(result.busy) / len(result)
        ax.barh(row, worked, 0.68, color=COMPUTE)
        ax.barh(row, result.seconds - worked, 0.68, worked, color=WAITING)
        ax.text(result.seconds + 0.012 * longest, row, f"{result.seconds - worked:.3g} s, {result.bubble_share:.1%}",
                va="center",
                fontsize=SMALLEST, weight="bold", color=INK)  # fmt: skip
        idle = f"{result.seconds - worked:.3g} s or {result.bubble_share:.1%}"
        told.append(f"{name}: {result.seconds:.3g} s, {idle} of it idle")
        if not row:
            for x, words, colour in ((worked / 2, "work", "white"), ((worked + result.seconds) / 2, "waiting", INK)):
                ax.text(x, row, words, ha="center", va="center", fontsize=SMALLEST, weight="bold", color=colour)
    ax.set_yticks(range(len(results)), list(results))
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.22 * longest), ylim=(len(results) - 0.5, -0.5))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("virtual time of one step, in s", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
