"""The roofline of one machine: how many FLOP/s some work can reach at most, by the FLOPs that it does per byte."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from course_lib.plots.canvas import COMPUTE, INK, SMALLEST, TITLE, WAITING, new_axes, say

BYTES_DECIDE, FLOPS_DECIDE = WAITING, "#BFE5D8"  # the arithmetic units wait; they compute


def roofline(
    peak: float, bandwidth: float, work: Mapping[str, float], *, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the roof of a machine of `peak` FLOP/s and `bandwidth` bytes/s on logarithmic axes, and work on it.

    `work[name]` are FLOPs per byte. Below the roof, left of the ridge bytes decide, right of it FLOPs. Its text twin is
    the table from which these were made.
    """
    ridge = peak / bandwidth
    first, last = min(*work.values(), ridge) / 2.5, max(*work.values(), ridge) * 4
    heights = {name: min(peak, x * bandwidth) for name, x in work.items()}
    low, high = min(*heights.values(), first * bandwidth) / 3, peak * 5
    ax = new_axes(ax, 3.7)
    ax.set(xscale="log", yscale="log", xlim=(first, last), ylim=(low, high))
    ax.fill_between([first, ridge], [first * bandwidth, peak], low, color=BYTES_DECIDE, alpha=0.55, linewidth=0)
    ax.fill_between([ridge, last], [peak, peak], low, color=FLOPS_DECIDE, alpha=0.55, linewidth=0)
    ax.plot([first, ridge, last], [first * bandwidth, peak, peak], color=INK, linewidth=2)
    for x, side, words in ((ridge / 1.15, "right", "bytes decide:\nmemory-bound"),
                           (ridge * 1.15, "left", "FLOPs decide:\ncompute-bound")):  # fmt: skip
        ax.text(x, low * 1.25, words, ha=side, va="bottom", fontsize=SMALLEST, weight="bold")
    ax.text(ridge * 1.25, peak * 1.35, "the roof", ha="left", fontsize=SMALLEST, weight="bold")
    ax.annotate(f"the ridge: {ridge:.3g} FLOPs per byte\nbring {flops_text(peak)}, the peak", (ridge, peak), (-12, 10),
                textcoords="offset points", ha="right", fontsize=SMALLEST, arrowprops={"arrowstyle": "-", "color": INK})
    for name, x in work.items():
        ax.plot([x], [heights[name]], "D", color=COMPUTE, markeredgecolor=INK, markersize=8, zorder=4)
        share = 100 * heights[name] / peak
        # Words stay on their side of the ridge: right of a point far from it, above the slope of one near by.
        place, side, up = ((0, -9), "center", "top") if x >= ridge else (
            (11, 2), "left", "top") if x < ridge / 30 else ((-11, 2), "right", "bottom")
        ax.annotate(f"{name}:\nat most {share:.{2 if share < 99 else 3}g} % of the peak", (x, heights[name]), place,
                    textcoords="offset points", ha=side, va=up, fontsize=SMALLEST)  # fmt: skip
    ax.xaxis.set_major_locator(FixedLocator([10.0**n for n in range(-2, 6)]))
    ax.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_text(value)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("FLOPs per byte moved; both axes are logarithmic", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    told = [f"{name}: {x:.3g} FLOPs per byte, at most {flops_text(heights[name])}" for name, x in work.items()]
    say(ax, "\n".join([f"a roof that rises to the ridge at {ridge:.3g} FLOPs per byte and is flat from there on, at "
                       f"{flops_text(peak)}; left of the ridge bytes decide, right of it FLOPs", *told]))
    return ax


def flops_text(rate: float) -> str:
    """Return a rate of computing with the unit that keeps its digits few: 989 TFLOP/s."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}FLOP/s"
    return f"{rate:.3g} FLOP/s"
