"""Rates over size with their names on the lines, and a size that is marked."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, SMALLEST, say
from course_lib.plots.collectives import bandwidth, bytes_text

ROOM = 0.5  # how far apart lines must end, as a logarithm, for their names to stand beside the ends


def rates_over_size(
    series: Mapping[str, Mapping[float, float]], *, title: str | None = None, marks: Mapping[str, float] | None = None
) -> Axes:
    """Draw `series[name][size]`, in bytes per second, as `bandwidth` does, but with names on the lines.

    `marks[name]` is a size at which a line is drawn, with its name and the size. The text twin is the rate of each
    series at each size.
    """
    ax = bandwidth(series, title=title)
    ax.get_legend().remove()
    sizes = sorted(next(iter(series.values())))
    at = max(sizes, key=lambda size: _closest(series, size))
    beside = _closest(series, sizes[-1]) > ROOM  # the names stand to the right of the lines
    at = sizes[-1] if beside else at
    ax.set_xlim(sizes[0] / 1.9, sizes[-1] * ((sizes[-1] / sizes[0]) ** 0.26 if beside else 1.9))
    order = sorted(series, key=lambda name: series[name][at])
    for line, (name, points) in zip(ax.lines, series.items(), strict=True):
        above = name == order[-1]
        offset, place = ((-7, 6), "bottom") if above else ((7, -6), "top")
        offset, place = ((8, 0), "center") if beside else (offset, place)
        ax.annotate(name, (at, points[at]), offset, textcoords="offset points",
                    ha="right" if above and not beside else "left",
                    va=place, fontsize=SMALLEST, color=line.get_color(), weight="bold")  # fmt: skip
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top * 1.6)
    told = [f"{name}: " + ", ".join(f"{bytes_text(points[size])}/s at {bytes_text(size)}" for size in sizes)
            for name, points in series.items()]  # fmt: skip
    for name, size in (marks or {}).items():
        ax.axvline(size, color=INK, linestyle=":")
        ax.annotate(f" {name}:\n {size / 1e3:,.0f} kB", (size, 0.04), xycoords=("data", "axes fraction"),
                    fontsize=SMALLEST, color=INK)  # fmt: skip
        told.append(f"a line at {size / 1e3:,.0f} kB: {name}")
    say(ax, "\n".join(told))
    return ax


def _closest(series: Mapping, size: float) -> float:
    """Return how far apart the two closest rates at a size are, as a logarithm: names go where there is room."""
    found = sorted(math.log(points[size]) for points in series.values())
    return min((upper - lower for lower, upper in zip(found, found[1:], strict=False)), default=0.0)
