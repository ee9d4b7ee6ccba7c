"""The roofline: how many FLOP/s a machine can reach, by how much is computed with each byte."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from course_lib.plots.canvas import SERIES, SMALLEST, new_axes


def roofline(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, Mapping[float, float]] | None = None,
    *,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the roof of each machine, `roofs[name]` = (peak FLOP/s, bytes/s), on logarithmic axes; a dot is its ridge.

    `points[name][FLOPs per byte]` are FLOP/s that were measured. Its text twin is the table from which these were made.
    """
    points = points or {}
    ridges = {name: peak / bandwidth for name, (peak, bandwidth) in roofs.items()}
    xs = [*ridges.values(), *(intensity for found in points.values() for intensity in found)]
    first, last = min(xs) / 8, max(xs) * 4
    ax = new_axes(ax, 4.2)
    styles = zip(SERIES * 9, ["-", "--", "-.", ":"] * 18, strict=False)
    for (name, (peak, bandwidth)), (colour, dashes) in zip(roofs.items(), styles, strict=False):
        ridge = ridges[name]
        label = f"{name}: ridge at {ridge:.3g} FLOPs per byte"
        reached = [first * bandwidth, peak, peak]
        ax.plot([first, ridge, last], reached, color=colour, linestyle=dashes, linewidth=1.8, label=label)
        ax.plot([ridge], [peak], color=colour, marker="o", markersize=6)
    for (name, found), marker in zip(points.items(), "s^Dv*X" * 9, strict=False):
        colour = SERIES[list(roofs).index(name) % len(SERIES)] if name in roofs else "black"
        ax.plot(
            sorted(found), [found[x] for x in sorted(found)], color=colour, marker=marker, markersize=6,
            markeredgecolor="black", linestyle="none", label=f"{name}, measured",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(first, last)
    ax.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_text(value)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("FLOPs per byte moved", fontsize=10)
    ax.set_ylabel("FLOP/s", fontsize=10)
    if title:
        ax.set_title(title, fontsize=11, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False)
    return ax


def flops_text(rate: float) -> str:
    """Return a rate of computing with the unit that keeps its digits few: 989 TFLOP/s."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}FLOP/s"
    return f"{rate:.3g} FLOP/s"
