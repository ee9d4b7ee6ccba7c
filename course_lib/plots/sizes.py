"""Sizes and bandwidth: bytes per second over the size of what is sent."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from course_lib.plots.canvas import GREY, SERIES, SMALLEST, new_axes


def bytes_text(size: float) -> str:
    """Return a size with the decimal unit that keeps its digits few: 16 MB."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size) >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def bandwidth(
    series: Mapping[str, Mapping[float, float]],
    *,
    limit: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bandwidth over size, both on logarithmic axes: `series[name][size in bytes]` is in bytes per second.

    `limit` draws a line at what the link can carry. Its text twin is the table from which `series` was made.
    """
    ax = new_axes(ax, 3.8)
    looks = zip(SERIES * 9, "os^Dv*X" * 9, ["-", "--", "-.", ":"] * 16, strict=False)
    for (name, points), (colour, marker, dashes) in zip(series.items(), looks, strict=False):
        sizes = sorted(size for size in points if size > 0 and points[size] > 0)
        rates = [points[size] for size in sizes]
        ax.plot(sizes, rates, color=colour, marker=marker, linestyle=dashes, markersize=6, label=name)
    if limit:
        ax.axhline(limit, color=GREY, linewidth=1, label=f"link: {bytes_text(limit)}/s")
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, ending in ((ax.xaxis, ""), (ax.yaxis, "/s")):
        axis.set_major_locator(LogLocator(base=10, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _, ending=ending: bytes_text(value) + ending))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("size of the tensor", fontsize=10)
    ax.set_ylabel("tensor bytes per second", fontsize=10)
    if title:
        ax.set_title(title, fontsize=11, loc="left")
    if series or limit:
        ax.legend(fontsize=SMALLEST, frameon=False)
    return ax
