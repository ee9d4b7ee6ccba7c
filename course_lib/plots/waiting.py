"""What the users of a server wait for: a long prompt among short answers, a larger batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from course_lib.plots.canvas import INK, LIMIT, SERIES, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.timelines import timelines

NAMES = {"idle": "slot is empty", "prefill": "prompt", "decode": "tokens"}  # what a slot works on
OTHERS, HATCH = "#D3E9F7", "///"  # it waits meanwhile for somebody else's prompt


def _legend_with_others(ax: Axes) -> None:
    keys = [*ax.figure.legends[0].legend_handles,
            Patch(facecolor=OTHERS, edgecolor=INK, linewidth=0, hatch=HATCH, label="waits for another's prompt")]
    for legend in list(ax.figure.legends):
        legend.remove()
    legend_below(ax, keys)


def _hatch_others(ax: Axes, result: Any, factor: float) -> None:
    """Hatch every slot that does nothing while there is a prompt in another one, unless it is empty to the end."""
    mine = {slot: [(e.start, e.end) for e in result.events if e.rank == slot] for slot in range(len(result))}
    for event in result.events:
        if event.kind == "prefill":
            for slot, spans in mine.items():
                works = any(start < event.end - 1e-12 and event.start < end - 1e-12 for start, end in spans)
                if not works and any(event.start < end for _, end in spans):
                    ax.barh(slot, (event.end - event.start) * factor, 0.8, event.start * factor, color=OTHERS,
                            hatch=HATCH, edgecolor=INK, linewidth=0, zorder=2)


def longest_gap(result: Any, slot: int = 0) -> tuple[float, float]:
    """Return from when to when a slot's user waits longest for a token, from one to the next.

    The engine has recorded its steps one by one.
    """
    comes = [event.end for event in result.events if event.rank == slot and event.kind == "decode"]
    return max(zip(comes, comes[1:], strict=False), key=lambda span: span[1] - span[0])


def stall(served: Mapping[str, Any], *, title: str, begin: float = 0.0) -> list[Axes]:
    """Draw what a long prompt does to the others from `begin` seconds on, with the longest wait for a token of slot 0.

    A timeline for each of `served`, which recorded its steps one by one.
    """
    clock = "ms (simulated); a piece is one step, and a token comes at its end"
    axes = timelines(served, row="slot", numbers=False, clock=clock, title=title, names=NAMES)
    unit = axes[0].get_xlim()[1] / max(result.seconds for result in served.values())
    for place, (ax, (name, result)) in enumerate(zip(axes, served.items(), strict=True)):
        _hatch_others(ax, result, unit)
        start, end = (moment * unit for moment in longest_gap(result))
        words = f"{end - start:.0f} ms from token to token" if place == 0 else f"never more than {end - start:.0f} ms"
        ax.annotate("", (end, -0.62), (start, -0.62), arrowprops={"arrowstyle": "<->", "color": LIMIT, "shrinkA": 0,
                                                                  "shrinkB": 0})
        ax.text((start + end) / 2, -0.85, words, ha="center", va="bottom", fontsize=SMALLEST, color=LIMIT)
        ax.set_ylim(len(result) - 0.5, -1.9)
        ax.set_xlim(left=begin * unit)
        ax.set_title(name, fontsize=TITLE, loc="left")
        say(ax, f"slot 0: {words}, from {start:.0f} to {end:.0f} ms")
    _legend_with_others(axes[0])
    return axes


def batch_gain(
    curves: Mapping[str, Sequence[tuple[int, float, float]]], half: Mapping[str, int], *, title: str
) -> Axes:
    """Draw tokens per second over each user's ms per token; `curves[name]` holds (batch, seconds, tokens/s) in order.

    `half[name]` is the batch at which keys and values weigh as much as weights: a diamond marks it, where it fits. The
    axis is logarithmic, so that requests of 500 and of 8,000 tokens are read on the same one.
    """
    ax = new_axes(None, 4.4)
    ax.set_yscale("log")
    told = []
    lower = min(curves.values(), key=lambda one: one[-1][2])
    for (name, found), colour in zip(curves.items(), SERIES, strict=False):
        xs, ys = [1e3 * seconds for _, seconds, _ in found], [rate for _, _, rate in found]
        ax.plot(xs, ys, color=colour, marker="o", markersize=5, linewidth=1.6, label=name)
        for (batch, _, _), x, y in zip(found, xs, ys, strict=True):
            knee, last = batch == half[name], batch == found[-1][0]
            if knee:
                ax.plot([x], [y], "D", color="white", markeredgecolor=colour, markeredgewidth=2, markersize=9, zorder=3)
            if last:
                ax.plot([x], [y], "s", color=LIMIT, markersize=8, zorder=3)
            words = f"{batch}: as many bytes of\ncache as of weights" if knee else str(batch)
            words = f"{batch}: memory is full" if last else words
            if knee or last:
                ax.annotate(words, (x, y), (8, -6), textcoords="offset points", va="top", fontsize=SMALLEST)
            elif abs(batch / half[name] - 1) > 0.5 and abs(batch / found[-1][0] - 1) > 0.5:
                place, side = ((8, -7), "left") if found is lower and batch > 1 else ((-7, 3), "right")
                if batch == 1:  # the curves begin side by side
                    right = x == max(1e3 * one[0][1] for one in curves.values())
                    place, side = ((8, -4), "left") if right else ((-8, -4), "right")
                ax.annotate(words, (x, y), place, textcoords="offset points", ha=side, fontsize=SMALLEST, color=colour,
                            weight="bold", va="top" if found is lower and batch > 1 else "baseline")
        told.append(f"{name}: " + ", ".join(f"batch {b}: {1e3 * s:.1f} ms, {r:,.0f} tokens/s" for b, s, r in found))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.set_xlim(0, 1.25 * ax.get_xlim()[1])
    ax.set_ylim(100, max(1e5, 2 * max(one[-1][2] for one in curves.values())))
    ax.set_xlabel("milliseconds per token, as each user sees it", fontsize=SMALLEST)
    ax.set_ylabel("tokens per second, all users", fontsize=SMALLEST)
    ax.grid(True, color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.legend(fontsize=SMALLEST, frameon=False, loc="upper left", title="numbers: sequences in the batch",
              title_fontsize=SMALLEST, alignment="left")
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, "the last batch of each is where memory is full"]))
    return ax
