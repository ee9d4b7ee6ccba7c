"""What users of a server wait for: latency distributions, and throughput against latency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from course_lib.plots.canvas import GREY, SERIES, SMALLEST, new_axes

WORDS = {"ttft": "time to the first token", "tpot": "time per output token", "latency": "time to the whole answer"}


def latencies(
    served: Mapping[str, Any], name: str = "latency", *, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw which share of requests waited at most so long, a curve for each `served[label]`; dots are p50 and p99.

    `name` is "ttft", "tpot" or "latency". Its text twin is `print(served[label])`.
    """
    import seaborn

    ax = new_axes(ax, 3.4)
    for label, colour, dashes in zip(served, SERIES, ["-", "--", "-.", ":"] * 2, strict=False):
        values = served[label].values(name)
        seaborn.ecdfplot(x=values, ax=ax, color=colour, linestyle=dashes, linewidth=1.8, label=label)
        ax.plot([served[label].percentile(name, p) for p in (50, 99)], [0.5, 0.99], "o", color=colour, markersize=5)
    ax.set_xscale("log")
    for share in (0.5, 0.99):
        ax.axhline(share, color=GREY, linewidth=0.6, zorder=0)
    ax.set_ylim(0, 1.03)
    ax.set_yticks([0, 0.5, 0.99])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(f"{WORDS[name]} in seconds", fontsize=10)
    ax.set_ylabel("requests served by then", fontsize=10)
    if title:
        ax.set_title(title, fontsize=11, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False)
    return ax


def trade_off(
    points: Mapping[Any, tuple[float, float]], *, x: str, y: str, setting: str = "", title: str | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw one dot for each setting, `points[setting]` = (x, y), joined in order and labelled with the setting.

    `x` and `y` are the axes' names with their units. Its text twin is the table from which `points` was made.
    """
    ax = new_axes(ax, 3.4)
    xs, ys = zip(*points.values(), strict=True)
    ax.plot(xs, ys, color=SERIES[0], marker="o", markersize=6, linewidth=1.2)
    words = {"textcoords": "offset points", "fontsize": SMALLEST, "zorder": 2.2}  # above the line, below the axes
    words["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    top, height, last = max(ys) * 1.15, 180, -math.inf  # the axes are about 180 points high
    for name, (across, up) in points.items():  # above on the left, where a rising line does not go
        dot = up / top * height
        place = dot + 3 if abs(dot + 3 - last) >= 12 else last + 12  # nor on the words of the dot before
        ax.annotate(f"{setting}{name}", (across, up), (-7, place - dot), ha="right", **words)
        last = place
    ax.set_ylim(0, top)
    ax.set_xlim(0, max(xs) * 1.05)
    ax.set_xlabel(x, fontsize=10)
    ax.set_ylabel(y, fontsize=10)
    ax.grid(True, color="#EEEEEE")
    ax.set_axisbelow(True)
    if title:
        ax.set_title(title, fontsize=11, loc="left")
    return ax
