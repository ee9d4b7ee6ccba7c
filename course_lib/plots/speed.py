"""How fast: the roofline of a machine, and what users of a server wait for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from course_lib.plots.canvas import GREY, INK, LIMIT, SERIES, SMALLEST, TITLE, new_axes, say


def roofline(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, Mapping[float, float]] | None = None,
    *,
    work: Mapping[str, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the roof of each machine, `roofs[name]` = (peak FLOP/s, bytes/s), on logarithmic axes; a dot is its ridge.

    `points[name][FLOPs per byte]` are FLOP/s that were measured. `work[name]` is the FLOPs per byte of some work: it is
    marked where the last machine's roof limits it, and left and right of that machine's ridge it says which limit it
    is. Its text twin is the table from which these were made.
    """
    points, work = points or {}, work or {}
    ridges = {name: peak / bandwidth for name, (peak, bandwidth) in roofs.items()}
    xs = [*ridges.values(), *work.values(), *(intensity for found in points.values() for intensity in found)]
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
    if work:
        _mark_work(ax, work, list(roofs)[-1], *list(roofs.values())[-1])
    ax.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_text(value)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("FLOPs per byte moved", fontsize=SMALLEST)
    ax.set_ylabel("FLOP/s", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False, loc="lower right" if work else "best")
    return ax


def _mark_work(ax: Axes, work: Mapping[str, float], machine: str, peak: float, bandwidth: float) -> None:
    """Mark work on one roof, and name the two regions on the sides of its ridge."""
    ridge, (first, last) = peak / bandwidth, ax.get_xlim()
    ax.fill_between([first, ridge], [first * bandwidth, peak], peak * 1000, color=GREY, alpha=0.12, linewidth=0)
    top = peak * 14
    ax.set_ylim(top=peak * 40)
    for x, words in ((math.sqrt(first * ridge), f"{machine}: memory-bound,\nbytes decide"),
                     (math.sqrt(ridge * last), "compute-bound,\nFLOPs decide")):
        ax.text(x, top, words, ha="center", va="center", fontsize=SMALLEST, weight="bold")
    for name, intensity in work.items():
        height = min(peak, intensity * bandwidth)
        ax.plot([intensity], [height], "D", color=INK, markersize=6, zorder=4)
        ax.annotate(name, (intensity, height), (-6, 6), textcoords="offset points", ha="right", fontsize=SMALLEST)


def flops_text(rate: float) -> str:
    """Return a rate of computing with the unit that keeps its digits few: 989 TFLOP/s."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}FLOP/s"
    return f"{rate:.3g} FLOP/s"


# Serving: latency distributions, and throughput against latency


WORDS = {"ttft": "time to the first token", "tpot": "time per output token", "latency": "time to the whole answer"}
DONE_BY = {"ttft": "requests with their first token by then", "tpot": "requests whose tokens come as fast",
           "latency": "requests answered by then"}


def latencies(
    served: Mapping[str, Any], name: str = "latency", *, limit: float = 0.0, title: str | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw which share of requests waited at most so long, a curve for each `served[label]`; dots are p50 and p99.

    `limit` is an objective in seconds, drawn as a line. `name` is "ttft", "tpot" or "latency". Its text
    twin is `print(served[label])`.
    """
    import seaborn

    ax, told = new_axes(ax, 3.4), []
    for label, colour, dashes in zip(served, SERIES, ["-", "--", "-.", ":"] * 2, strict=False):
        values = served[label].values(name)
        seaborn.ecdfplot(x=values, ax=ax, color=colour, linestyle=dashes, linewidth=1.8, label=label)
        for share in (0.5, 0.99):
            at = served[label].percentile(name, 100 * share)
            words = f"{at:,.3g} s" if at >= 1 else f"{1e3 * at:,.3g} ms"
            ax.plot([at], [share], "o", color=colour, markersize=5)
            ax.annotate(words, (at, share), (-6, 3), textcoords="offset points", ha="right", fontsize=SMALLEST)
            told.append(f"{label}: {share:.0%} wait at most {words}")
    ax.set_xscale("log")
    for share in (0.5, 0.99):
        ax.axhline(share, color=GREY, linewidth=0.6, zorder=0)
    if limit:
        ax.axvline(limit, color=LIMIT, linestyle="--", linewidth=1.4)
        ax.text(limit * 1.05, 0.3, f"objective: {limit:g} s", color=LIMIT, fontsize=SMALLEST)
        told.append(f"a line at the objective of {limit:g} s")
    ax.set_ylim(0, 1.08)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 0.99])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(f"{WORDS[name]} in seconds (each mark is ten times the one before)", fontsize=SMALLEST)
    ax.set_ylabel(DONE_BY[name], fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False)
    say(ax, "\n".join([f"{DONE_BY[name]}, over the {WORDS[name]}", *told]))
    return ax
