"""Which of a few layouts is the fastest, if those with context ranks take longer than predicted."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, LIMIT, SKY, SMALLEST, TITLE, new_axes, say
from course_lib.plots.mesh import CONTEXT

MOST = 12  # percent on the axis
FLOOR, CEILING = 5.6, 7.25  # seconds on the axis: the same whatever a control is set to
DASHES = ((0, (1, 1)), (0, (5, 2)), "-")


def break_even(seconds: Mapping[str, float], plain: str, later: float = 0, how: str = "",
               ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw the predicted seconds of layouts over the percent by which all but `plain` are later than predicted.

    A broad band lies under the fastest, and a line stands at `later`. `how` begins the title.
    """
    ax = new_axes(ax, 3.6)
    still = seconds[plain]
    others = {name: seconds[name] for name in sorted(seconds, key=seconds.__getitem__) if name != plain}
    turns = {name: 100 * (still / one - 1) for name, one in others.items() if one < still}
    first = min(seconds.values())
    band = [(0, first), (max(turns.values(), default=0), still), (MOST, still)]
    ax.plot(*zip(*band, strict=True), color=SKY, alpha=0.45, linewidth=11, solid_capstyle="butt", zorder=1)
    ends = {name: one * (1 if name == plain else 1 + MOST / 100) for name, one in seconds.items()}
    named = -1.0
    for name in sorted(ends, key=ends.__getitem__):
        colour = INK if name == plain else CONTEXT
        dashes = "-" if name == plain else DASHES[list(seconds).index(name) % len(DASHES)]
        ax.plot([0, MOST], [seconds[name], ends[name]], color=colour, linestyle=dashes, linewidth=2.2, zorder=2)
        named = max(ends[name], named + 0.09)  # so that no name lies on another
        ax.text(MOST + 0.15, named, name, va="center", color=colour, fontsize=SMALLEST, weight="bold")
    for percent in turns.values():
        ax.plot([percent, percent], [FLOOR, still], color=LIMIT, linestyle=":", linewidth=1.4, zorder=1)
        ax.scatter([percent], [still], s=46, color=LIMIT, zorder=4)
        right = percent == max(turns.values())
        ax.text(percent + (0.12 if right else -0.12), FLOOR + 0.03, f"{percent:.0f} %", color=LIMIT, va="bottom",
                ha="left" if right else "right", fontsize=SMALLEST, zorder=6,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # fmt: skip
    now = {name: one * (1 if name == plain else 1 + later / 100) for name, one in seconds.items()}
    ax.axvline(later, color=INK, linewidth=1.2, zorder=1)
    ax.scatter([later] * len(now), list(now.values()), s=40, color=INK, zorder=5)
    best, second = sorted(now, key=now.__getitem__)[:2]
    lead = round(now[second], 2) - round(now[best], 2)  # of the seconds as they are printed
    ax.set(xlim=(-0.3, MOST + 1.9), ylim=(FLOOR, CEILING))
    ax.set_xticks(range(0, MOST + 1, 2), [f"{percent} %" for percent in range(0, MOST + 1, 2)])
    ax.set_xlabel("by how much the layouts with context ranks are later than predicted", fontsize=SMALLEST)
    ax.set_ylabel("seconds of a step", fontsize=SMALLEST)
    ax.set_title(f"{how}{later:g} % later: {best} is the fastest, {lead:.2f} s before {second}",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, f"{how}{later:g} % later: " + ", ".join(f"{name} {one:.2f} s" for name, one in now.items())
        + ". As slow as " + plain + ": " + ", ".join(f"{name} at {one:.1f} %" for name, one in turns.items()))
    return ax
