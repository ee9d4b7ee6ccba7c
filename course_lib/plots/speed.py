"""What users of a server wait for: the distribution of their latencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from course_lib.plots.canvas import GREY, LIMIT, SERIES, SMALLEST, TITLE, new_axes, say

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
    ax.set_xlabel(f"{WORDS[name]} in seconds (logarithmic)", fontsize=SMALLEST)
    ax.set_ylabel(DONE_BY[name], fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False)
    say(ax, "\n".join([f"{DONE_BY[name]}, over the {WORDS[name]}", *told]))
    return ax
