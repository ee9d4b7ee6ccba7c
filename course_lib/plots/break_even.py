"""Which of a few layouts is the fastest, if those with context ranks take longer than the formula says."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_lib.plots.canvas import INK, LIMIT, SKY, SMALLEST, TITLE, WIDTH, Picture, legend_below, new_axes, say
from course_lib.plots.mesh import CONTEXT

MOST = 12  # percent on the axis
FLOOR, CEILING = 5.6, 7.25  # seconds on the axis: the same whatever a control is set to
DASHES = ((0, (1, 1)), (0, (5, 2)), "-")
BAND = {"color": SKY, "alpha": 0.45, "linewidth": 11}


def _lines(ax: Axes, seconds: Mapping[str, float], plain: str) -> dict[str, float]:
    """Draw a line for each layout, a band under the fastest, and a dot at each break-even; return those in percent."""
    still = seconds[plain]
    turns = {name: 100 * (still / seconds[name] - 1) for name in sorted(seconds, key=seconds.__getitem__)
             if seconds[name] < still}  # fmt: skip
    band = [(0, min(seconds.values())), (max(turns.values(), default=0), still), (MOST, still)]
    ax.plot(*zip(*band, strict=True), **BAND, solid_capstyle="butt", zorder=1)
    ends = {name: one * (1 if name == plain else 1 + MOST / 100) for name, one in seconds.items()}
    named = -1.0
    for name in sorted(ends, key=ends.__getitem__):
        colour = INK if name == plain else CONTEXT
        dashes = "-" if name == plain else DASHES[list(seconds).index(name) % len(DASHES)]
        ax.plot([0, MOST], [seconds[name], ends[name]], color=colour, linestyle=dashes, linewidth=2.2, zorder=2)
        named = max(ends[name], named + 0.12)  # so that no name lies on another
        ax.text(MOST + 0.15, named, name, va="center", color=colour, fontsize=SMALLEST, weight="bold")
    for percent in turns.values():
        ax.plot([percent, percent], [FLOOR, still], color=LIMIT, linestyle=":", linewidth=1.4, zorder=1)
        ax.scatter([percent], [still], s=46, color=LIMIT, zorder=4)
        right = percent == max(turns.values())
        ax.text(percent + (0.12 if right else -0.12), FLOOR + 0.03, f"{percent:.0f} %", color=LIMIT, va="bottom",
                ha="left" if right else "right", fontsize=SMALLEST, zorder=6,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # fmt: skip
    ax.set(ylim=(FLOOR, CEILING))
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    return turns


def _legend(ax: Axes, plain: str, *more: Line2D) -> None:
    band = Line2D([], [], **BAND, label="the fastest")
    dot = Line2D([], [], marker="o", linestyle="", markersize=7, color=LIMIT, label=f"break-even with {plain}")
    legend_below(ax, [band, dot, *more], 3)


def break_even(seconds: Mapping[str, float], plain: str, longer: float = 0, how: str = "",
               ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw the predicted seconds of layouts over the percent by which all but `plain` take longer than that.

    A line with a dot for each layout stands at `longer`. `how` begins the title.
    """
    ax = new_axes(ax, 3.9)
    turns = _lines(ax, seconds, plain)
    now = {name: one * (1 if name == plain else 1 + longer / 100) for name, one in seconds.items()}
    ax.axvline(longer, color=INK, linewidth=1.2, zorder=1)
    ax.scatter([longer] * len(now), list(now.values()), s=40, color=INK, zorder=5)
    best, second = sorted(now, key=now.__getitem__)[:2]
    lead = round(now[second], 2) - round(now[best], 2)  # of the seconds as they are printed
    ax.set(xlim=(-0.3, MOST + 1.9))
    ax.set_xticks(range(0, MOST + 1, 2), [f"{percent} %" for percent in range(0, MOST + 1, 2)])
    ax.set_xlabel("by how much the layouts with context ranks take longer than the formula says", fontsize=SMALLEST)
    here = Line2D([], [], marker="o", color=INK, markersize=6, linewidth=1.2, label="where the slider stands")
    _legend(ax, plain, here)
    ax.set_title(f"{how}{longer:g} % longer: {best} is the fastest, {lead:.2f} s before {second}",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, f"{how}{longer:g} % longer: " + ", ".join(f"{name} {one:.2f} s" for name, one in now.items())
        + ". As slow as " + plain + ": " + ", ".join(f"{name} at {one:.1f} %" for name, one in turns.items()))
    return ax


def turned_by_a_flag(without: Mapping[str, float], flagged: Mapping[str, float], plain: str) -> list[Axes]:
    """Draw the lines of `break_even` without and with a flag beside each other, each panel named after its winner."""
    _, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.7), sharey=True, layout="constrained", FigureClass=Picture)
    for ax, seconds, how in zip(axes, (without, flagged), ("Without the flag", "With the flag"), strict=True):
        new_axes(ax, 0)
        turns = _lines(ax, seconds, plain)
        best = min(seconds, key=seconds.__getitem__)
        for name, one in seconds.items():
            ax.scatter([0], [one], s=30, color=INK if name == plain else CONTEXT, zorder=5)
        ax.set(xlim=(-0.4, MOST + 3.6))
        ax.set_xticks(range(0, MOST + 1, 4), [f"{percent} %" for percent in range(0, MOST + 1, 4)])
        ax.set_xlabel("context ranks take longer than the formula says", fontsize=SMALLEST)
        ax.set_title(f"{how}, {best} wins: {seconds[best]:.2f} s", fontsize=TITLE, loc="left")
        say(ax, f"{how}: " + ", ".join(f"{name} {one:.2f} s" for name, one in seconds.items()) + ". As slow as " + plain
            + ": " + ", ".join(f"{name} at {one:.1f} %" for name, one in turns.items()))  # fmt: skip
    axes[1].set_ylabel("")
    _legend(axes[0], plain)
    return list(axes)
