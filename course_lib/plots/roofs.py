"""The roofline of one machine: how many FLOP/s some work can reach at most, by the FLOPs that it does per byte."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from course_lib.plots.canvas import COMPUTE, INK, SMALLEST, TITLE, WAITING, new_axes, say

BYTES_DECIDE, FLOPS_DECIDE = WAITING, "#BFE5D8"  # the arithmetic units wait; they compute


def roofline(
    peak: float, bandwidth: float, work: Mapping[str, float], reached: Mapping[str, float] | None = None, *,
    title: str, gain: tuple[str, str] | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the roof of a machine of `peak` FLOP/s and `bandwidth` bytes/s on logarithmic axes, and work below it.

    `work[name]` are FLOPs per byte; `reached[name]` are the FLOP/s that were measured, without it work stands on the
    roof, as calculated. Below the roof, left of the ridge bytes decide, right of it FLOPs. `gain` are two names whose
    ratio is drawn. Its text twin is the table from which these were made.
    """
    ridge = peak / bandwidth
    first, last = min(*work.values(), ridge) / 2.5, max(*work.values(), ridge) * (4 if reached is None else 2)
    heights = {name: (reached or {}).get(name, min(peak, x * bandwidth)) for name, x in work.items()}
    low, high = min(*heights.values(), first * bandwidth) / 3, peak * 5
    ax = new_axes(ax, 3.7)
    ax.set(xscale="log", yscale="log", xlim=(first, last), ylim=(low, high))
    ax.fill_between([first, ridge], [first * bandwidth, peak], low, color=BYTES_DECIDE, alpha=0.55, linewidth=0)
    ax.fill_between([ridge, last], [peak, peak], low, color=FLOPS_DECIDE, alpha=0.55, linewidth=0)
    ax.plot([first, ridge, last], [first * bandwidth, peak, peak], color=INK, linewidth=2)
    for x, side, words in ((ridge / 1.15, "right", "bytes decide:\nmemory-bound"),
                           (ridge * 1.15, "left", "FLOPs decide:\ncompute-bound")):  # fmt: skip
        ax.text(x, low * 1.25, words, ha=side, va="bottom", fontsize=SMALLEST, weight="bold")
    ax.annotate(f"the ridge: {ridge:.3g} FLOPs per byte\nbring {flops_text(peak)}, the peak", (ridge, peak), (-12, 10),
                textcoords="offset points", ha="right", fontsize=SMALLEST, arrowprops={"arrowstyle": "-", "color": INK})
    for name, x in work.items():
        measured = reached is not None
        ax.plot([x], [heights[name]], "s" if measured else "D", color=COMPUTE, markeredgecolor=INK, markersize=8,
                zorder=4)  # fmt: skip
        beside = not measured and x < ridge
        words = name if measured else f"{name}:\n{100 * heights[name] / peak:.3g} % of the peak"
        ax.annotate(words, (x, heights[name]), (11, 2) if beside else (0, -9), textcoords="offset points",
                    ha="left" if beside else "center", va="top", fontsize=SMALLEST)  # fmt: skip
    if gain:
        _gain(ax, *((work[name], heights[name]) for name in gain))
    ax.xaxis.set_major_locator(FixedLocator([10.0**n for n in range(-2, 6)]))
    ax.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_text(value)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("FLOPs per byte moved", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    how = "measured" if reached is not None else "at most"
    told = [f"{name}: {x:.3g} FLOPs per byte, {how} {flops_text(heights[name])}" for name, x in work.items()]
    say(ax, "\n".join([f"a roof that rises to the ridge at {ridge:.3g} FLOPs per byte and is flat from there on, at "
                       f"{flops_text(peak)}; left of the ridge bytes decide, right of it FLOPs", *told]))
    return ax


def _gain(ax: Axes, one: tuple[float, float], other: tuple[float, float]) -> None:
    """Draw how many times as high the other point lies."""
    (x, low), (x_other, high) = one, other
    ax.plot([x, x_other], [high, high], color=INK, linewidth=0.8, linestyle=":", zorder=1)
    ax.annotate("", (x, high), (x, low), arrowprops={"arrowstyle": "<->", "color": INK, "shrinkA": 0, "shrinkB": 5})
    ax.annotate(f"×{high / low:.1f}", (x, math.sqrt(low * high)), (6, 0), textcoords="offset points", va="center",
                fontsize=TITLE, weight="bold")  # fmt: skip


def flops_text(rate: float) -> str:
    """Return a rate of computing with the unit that keeps its digits few: 989 TFLOP/s."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}FLOP/s"
    return f"{rate:.3g} FLOP/s"
