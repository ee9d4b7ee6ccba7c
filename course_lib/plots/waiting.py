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


def stall(served: Mapping[str, Any], *, title: str, begin: float = 0.0, until: float = 0.0) -> list[Axes]:
    """Draw what a long prompt does to the others from `begin` to `until` seconds (0: to the end).

    A timeline for each of `served`, which recorded its steps one by one, with the longest wait for a token of slot 0.
    """
    clock = "ms (simulated); a piece is one step, and a token comes at its end"
    axes = timelines(served, row="slot", numbers=False, clock=clock, title=title, names=NAMES)
    axes[0].figure.suptitle(f"{title}\n", fontsize=TITLE, weight="normal", x=0.01, ha="left", linespacing=0.4)
    unit = axes[0].get_xlim()[1] / max(result.seconds for result in served.values())
    for place, (ax, (name, result)) in enumerate(zip(axes, served.items(), strict=True)):
        _hatch_others(ax, result, unit)
        start, end = (moment * unit for moment in longest_gap(result))
        words = f"{end - start:.0f} ms from token to token" if place == 0 else f"never more than {end - start:.0f} ms"
        ax.annotate("", (end, -0.62), (start, -0.62), arrowprops={"arrowstyle": "<->", "color": LIMIT, "shrinkA": 0,
                                                                  "shrinkB": 0})
        ax.text((start + end) / 2, -0.85, words, ha="center", va="bottom", fontsize=SMALLEST, color=LIMIT)
        ax.set_ylim(len(result) - 0.5, -1.9)
        ax.set_xlim(begin * unit, until * unit or None)
        ax.set_title(name, fontsize=TITLE, loc="left")
        say(ax, f"slot 0: {words}, from {start:.0f} to {end:.0f} ms")
    _legend_with_others(axes[0])
    return axes


def batch_gain(
    curves: Mapping[str, Sequence[tuple[int, float, float]]], half: Mapping[str, int], *, title: str
) -> Axes:
    """Draw tokens per second over each user's ms per token; `curves[name]` holds (batch, seconds, tokens/s) in order.

    `half[name]` is the batch at which keys and values weigh as much as weights: a diamond marks it, where it fits. The
    last batch of each is where memory is full. Every dot bears the number of its sequences.
    """
    ax = new_axes(None, 4.4)
    told = []
    lower = min(curves.values(), key=lambda one: one[-1][2])
    for (name, found), colour in zip(curves.items(), SERIES, strict=False):
        xs, ys = [1e3 * seconds for _, seconds, _ in found], [rate for _, _, rate in found]
        ax.plot(xs, ys, color=colour, marker="o", markersize=5, linewidth=1.6, label=name)
        side, up, right = ((5, -5), "top", "left") if found is lower else ((-6, 4), "bottom", "right")
        for (batch, _, _), x, y in zip(found, xs, ys, strict=True):
            words, place, align = str(batch), side, (right, up)
            if batch == half[name]:
                ax.plot([x], [y], "D", color="white", markeredgecolor=colour, markeredgewidth=2, markersize=9, zorder=3)
            if batch == found[-1][0]:
                words, place, align = f"{batch}: memory is full", (8, 0), ("left", "center")
            if batch == 1:  # the curves begin side by side
                far = x == max(1e3 * one[0][1] for one in curves.values())
                words = "1" if far else ""  # one label for all of them
                place, align = (7, -2), ("left", "center")
            ax.annotate(words, (x, y), place, textcoords="offset points", ha=align[0], va=align[1], fontsize=SMALLEST,
                        color=INK)
        told.append(f"{name}: " + ", ".join(f"batch {b}: {1e3 * s:.1f} ms, {r:,.0f} tokens/s" for b, s, r in found))
    ax.plot([], [], "D", color="white", markeredgecolor=INK, markeredgewidth=2, markersize=9,
            label="as many bytes of cache as of weights")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.set_xlim(0, 1.25 * ax.get_xlim()[1])
    most = max(one[-1][2] for one in curves.values())
    ax.set_ylim(-0.07 * most, 1.45 * most)
    ax.set_xlabel("milliseconds per token, as each user sees it", fontsize=SMALLEST)
    ax.set_ylabel("tokens per second, all users", fontsize=SMALLEST)
    ax.grid(True, color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.legend(fontsize=SMALLEST, frameon=False, loc="upper left", title="numbers: sequences in the batch",
              title_fontsize=SMALLEST, alignment="left")
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, "the last batch of each is where memory is full"]))
    return ax
