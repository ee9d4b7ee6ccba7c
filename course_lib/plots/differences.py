"""Differences: how far the results of several ways lie from one that is right, on an axis of powers of ten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, new_axes, say

LEAST = 1e-17  # what is drawn of no difference at all


def differences(
    far: Mapping[str, float], limit: float, *, title: str | None = None,
    axis: str = "largest difference between two weights that should be equal", ax: Any = None,
) -> Axes:  # fmt: skip
    """Draw a dot a way at its largest difference, and a line at the largest that is allowed. Text twin: its words."""
    ax = new_axes(ax, 1.35 + 0.42 * len(far))
    for row, size in enumerate(far.values()):
        good = size <= limit
        ax.plot(max(size, LEAST), row, "o", color=BLUE if good else LIMIT, markersize=9)
        ax.text(max(size, LEAST) * 2.2, row, _power(size), va="center", fontsize=SMALLEST, weight="bold",
                color=INK if good else LIMIT)  # fmt: skip
    ax.axvline(limit, color=INK, linestyle="--", linewidth=1.2)
    ax.text(limit, -0.72, f" we ask for at most {_power(limit)}", va="center", fontsize=SMALLEST, color=INK)
    ax.set_xscale("log")
    ax.set_xlim(LEAST, 1)
    ax.set_yticks(range(len(far)), list(far), fontsize=SMALLEST)
    ax.set_ylim(len(far) - 0.5, -1.1)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"{axis} (logarithmic)", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    told = [f"{name}: {_power(size)}, {'less' if size <= limit else 'more'} than the {_power(limit)} that we ask for"
            for name, size in far.items()]  # fmt: skip
    say(ax, "\n".join([axis, *told]))
    return ax


def _power(size: float) -> str:
    """Return 1e-9 for what Python writes as 1e-09."""
    return f"{size:.0e}".replace("e-0", "e-")
