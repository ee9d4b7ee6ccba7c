"""Pipelines in time: schedules on one axis, where a rank waits, what it holds, and the trip of a micro-batch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    ACTIVATIONS,
    BACKWARD,
    FORWARD,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    legend_below,
    new_axes,
    say,
)
from course_lib.plots.time import time_unit, timeline

BESIDE = 1.05  # where a column of numbers stands, to the right of a timeline


def on_one_axis(results: Mapping[str, Any], title: str, *, held: bool = False, rows: int | None = None) -> list[Axes]:
    """Draw timelines by name one below the other, with one scale of time and one key; returns their Axes.

    `held` writes beside each rank how many micro-batches' activations it holds at most. `rows` makes each timeline as
    high as one of so many ranks, so that a picture under a slider keeps its height.
    """
    high = [0.8 + 0.34 * (rows or len(result)) for result in results.values()]
    figure, panels = plt.subplots(
        len(results), 1, figsize=(WIDTH, 0.85 + sum(high)), height_ratios=high, layout="constrained", squeeze=False,
        FigureClass=Picture,
    )  # fmt: skip
    axes, until = list(panels[:, 0]), max(result.seconds for result in results.values())
    factor, unit = time_unit(until)
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        timeline(result, until=until, ax=new_axes(ax, 0))
        ax.set_title(f"{name}: {result.seconds * factor:.4g} {unit}", fontsize=TITLE - 1, loc="left")
        ax.set_xlabel(f"time in {unit}" if ax is axes[-1] else "", fontsize=SMALLEST)
        if held:
            _beside(ax, "holds", result.peak_activations)
    keys = {key.get_label(): key for legend in figure.legends for key in legend.legend_handles}
    for legend in list(figure.legends):
        legend.remove()
    legend_below(axes[-1], list(keys.values()))
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return axes


def _beside(ax: Axes, head: str, numbers: list[int]) -> None:
    ax.text(BESIDE, 1.0, head, transform=ax.transAxes, ha="center", va="bottom", fontsize=SMALLEST)
    look = {"transform": ax.get_yaxis_transform(), "ha": "center", "va": "center", "fontsize": TITLE, "weight": "bold"}
    for rank, number in enumerate(numbers):
        ax.text(BESIDE, rank, str(number), **look)
    said = ", ".join(f"rank {rank} {head} {number}" for rank, number in enumerate(numbers))
    say(ax, f"{ax.course_words}\nmicro-batches at most: {said}")


def count_waiting(stages: int = 4, microbatches: int = 4) -> Axes:
    """Draw all forwards and then all backwards (F 1, B 2), and write in each grey gap how many F and B it lasts."""
    ax = new_axes(None, 1.9 + 0.5 * stages)
    rounds, last = stages + microbatches - 1, stages - 1
    words = []
    for rank in range(stages):
        ax.barh(rank, 3 * rounds, height=0.8, color=WAITING)
        turn, back = rank + microbatches, rounds + 2 * (last - rank)  # its last F ends, its first B starts
        for number in range(microbatches):
            for start, length, colour in ((rank + number, 1, FORWARD), (back + 2 * number, 2, BACKWARD)):
                ax.barh(rank, length, left=start, height=0.8, color=colour, edgecolor="white", linewidth=0.8)
                ax.text(start + length / 2, rank, str(number), ha="center", va="center", fontsize=SMALLEST)
        before, after = _times(rank, "F"), _times(rank, "B")
        between = f"{_times(last - rank, 'F')} + {_times(last - rank, 'B')}" if rank < last else ""
        end = back + 2 * microbatches
        for start, length, gap in ((0, rank, before), (turn, back - turn, between), (end, 3 * rounds - end, after)):
            ax.text(start + length / 2, rank, gap, ha="center", va="center", fontsize=SMALLEST, weight="bold")
        words.append(f"rank {rank} waits {' and '.join(filter(None, (before, between, after)))}")
        ax.text(3 * rounds * 1.01, rank, f"= {last} (F + B)", va="center", fontsize=SMALLEST, weight="bold")
    ax.set(xlim=(0, 3 * rounds), ylim=(last + 0.5, -0.5), xticks=range(0, 3 * rounds + 1, 3), yticks=range(stages))
    ax.set_ylabel("rank", fontsize=SMALLEST)
    ax.set_xlabel("time: a forward F (blue) lasts 1, a backward B (orange) 2; grey is waiting", fontsize=SMALLEST)
    ax.set_title(f"Before, between and after: every rank waits {last} (F + B) in all", fontsize=TITLE, loc="left")
    say(ax, "\n".join(words))
    return ax


def _times(count: int, what: str) -> str:
    return "" if count == 0 else what if count == 1 else f"{count} {what}"


def held_over_time(
    results: Mapping[str, Any], title: str, *, rank: int = 0, gigabytes: float, limit: float | None = None
) -> Axes:
    """Draw the memory that one rank's activations take over a step, a line for each replay by name.

    `gigabytes` is what one micro-batch leaves on the rank from its F until the end of its B; `limit` draws a line at
    the GB that are free for them.
    """
    ax = new_axes(None, 3.4)
    told = []
    for name, result in results.items():
        changes: Counter = Counter()  # a backward that ends when a forward starts makes room for it
        for event in result.events:
            if event.rank == rank:
                changes[event.start if event.kind == "F" else event.end] += 1 if event.kind == "F" else -1
        times = sorted(changes)
        sizes = [held * gigabytes for held in itertools.accumulate(changes[time] for time in times)]
        most = max(sizes)
        high = [place for place, size in enumerate(sizes) if size == most]
        middle = (2 * times[high[0]] + 3 * times[high[-1] + 1]) / 5
        ax.fill_between(times, sizes, step="post", color=ACTIVATIONS, alpha=0.4, linewidth=0)
        ax.step(times, sizes, where="post", color=INK, linewidth=1.4)
        ax.text(middle, most + 1, f"{name}: {most:,.0f} GB", ha="center", va="bottom", fontsize=SMALLEST, weight="bold")
        told.append(f"{name}: at most {most:,.0f} GB, in a step of {result.seconds:g} s")
    until = max(result.seconds for result in results.values())
    if limit:
        ax.axhline(limit, color=LIMIT, linewidth=1.8, linestyle=(0, (5, 3)))
        words = f"{limit:.0f} GB are free"
        ax.text(until, limit, words, color=LIMIT, fontsize=SMALLEST, ha="right", va="bottom", weight="bold")
        told.append(words)
    ax.set(xlim=(0, until), ylim=(0, 1.2 * max(ax.dataLim.ymax, limit or 0)))
    ax.set_xlabel("time in s, with F 1 s and B 2 s", fontsize=SMALLEST)
    ax.set_ylabel(f"GB of activations on rank {rank}", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def round_trip(played: Any, title: str, *, microbatch: int = 0) -> Axes:
    """Draw a replay's timeline with the way of one micro-batch down the ranks and back, and who enters then."""
    ax = timeline(played, title=title)
    mine = sorted((event for event in played.events if event.action.microbatch == microbatch), key=lambda e: e.start)
    for here, there in zip(mine, mine[1:], strict=False):
        if here.rank != there.rank:
            arrow(ax, (here.end, here.rank), (there.start, there.rank), line=2.2)
    home = mine[-1].end
    entry = min((event for event in played.events if event.rank == 0 and event.kind == "F" and event.start >= home),
                key=lambda event: event.start)  # fmt: skip
    for event in [*mine, entry]:
        outline = plt.Rectangle((event.start, event.rank - 0.4), event.end - event.start, 0.8, fill=False,
                                edgecolor=INK, linewidth=2.2, zorder=4)  # fmt: skip
        ax.add_patch(outline)
    ax.set_title(title, fontsize=TITLE, loc="left")
    trip = home - mine[0].start
    say(ax, f"micro-batch {microbatch} goes down the ranks and back in {trip:.4g} s, from {mine[0].start:.4g} to "
            f"{home:.4g} s; then micro-batch {entry.action.microbatch} enters rank 0\n{ax.course_words}")
    return ax
