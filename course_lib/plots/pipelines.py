"""Pipelines in time: schedules on one axis, where a rank waits, what it holds, and the trip of a micro-batch."""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

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


def on_one_axis(
    results: Mapping[str, Any], title: str, *, held: bool = False, rows: int | None = None, middle: bool = False,
    framed: int | None = None, note: tuple[int, str] | None = None,
) -> list[Axes]:  # fmt: skip
    """Draw timelines by name one below the other, with one scale of time and one key; returns their Axes.

    `held` writes beside each rank how many micro-batches' activations it holds at most. `rows` makes each timeline as
    high as one of so many ranks, so that a picture under a slider keeps its height. `middle` hatches in red the waiting
    between a rank's first backward and its last forward, where a schedule takes turns. `framed` frames what rank 0 does
    for one micro-batch, and writes above it how long it is in flight there. `note` writes (rank, words) beside the
    last timeline.
    """
    high = [0.8 + 0.34 * ((rows or len(result)) + (framed is not None)) for result in results.values()]
    figure, panels = plt.subplots(
        len(results), 1, figsize=(WIDTH, 0.85 + sum(high)), height_ratios=high, layout="constrained", squeeze=False,
        FigureClass=Picture,
    )  # fmt: skip
    axes, until = list(panels[:, 0]), max(result.seconds for result in results.values())
    factor, unit = time_unit(until)
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        timeline(result, until=until, ax=new_axes(ax, 0))
        ax.set_title(f"{name}: {_short(result.seconds * factor)} {unit}", fontsize=TITLE - 1, loc="left")
        ax.set_xlabel(f"time in {unit}" if ax is axes[-1] else "", fontsize=SMALLEST)
        if held:
            _beside(ax, "in flight\nat most", result.peak_activations)
        if middle:
            _hatch_middle(ax, result, factor)
        if framed is not None:
            mine = [event for event in result.events if event.rank == 0 and event.action.microbatch == framed]
            for event in mine:
                _frame(ax, event)
            start, end = min(event.start for event in mine), max(event.end for event in mine)
            words = f"micro-batch {framed} in flight: {_short((end - start) * factor)} {unit}"
            _bracket(ax, start * factor, end * factor, -0.95, words)
            ax.set_ylim(top=-1.5)
            say(ax, f"{ax.course_words}\nrank 0 has {words}")
    keys = {key.get_label(): key for legend in figure.legends for key in legend.legend_handles}
    for legend in list(figure.legends):
        legend.remove()
    if middle:
        keys["middle"] = Patch(facecolor=WAITING, edgecolor=LIMIT, hatch="////", label="waits between turns")
    legend_below(axes[-1], list(keys.values()))
    if note:
        rank, words = note
        axes[-1].text(1.01, rank, words, transform=axes[-1].get_yaxis_transform(), va="center", fontsize=SMALLEST)
        say(axes[-1], f"{axes[-1].course_words}\nrank {rank} {' '.join(words.split())}")
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return axes


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.4g}"


def _hatch_middle(ax: Axes, result: Any, factor: float) -> None:
    """Hatch each rank's waiting between its first backward and its last forward, and say how long it is."""
    told = []
    for rank in range(len(result)):
        mine = sorted((event for event in result.events if event.rank == rank), key=lambda event: event.start)
        start = min(event.start for event in mine if event.kind != "F")
        end = max(event.end for event in mine if event.kind == "F")
        waits = 0.0
        for here, there in itertools.pairwise(event for event in mine if start <= event.start <= end):
            if there.start - here.end > 1e-9 * result.seconds:
                waits += there.start - here.end
                left, right = here.end * factor, there.start * factor
                look = {"facecolor": WAITING, "edgecolor": LIMIT, "hatch": "////", "linewidth": 0, "zorder": 1.5}
                ax.add_patch(plt.Rectangle((left, rank - 0.4), right - left, 0.8, **look))
        if waits:
            told.append(f"rank {rank} waits {waits * factor:.3g} between its turns")
    say(ax, "\n".join([ax.course_words, *told]))


def _frame(ax: Axes, event: Any) -> None:
    corner, wide = (event.start, event.rank - 0.4), event.end - event.start
    ax.add_patch(plt.Rectangle(corner, wide, 0.8, fill=False, edgecolor=INK, linewidth=2.2, zorder=4))


def _bracket(ax: Axes, start: float, end: float, y: float, words: str) -> None:
    """Write words on a line from start to end."""
    arrow(ax, (start, y), (end, y), "|-|,widthA=0.3,widthB=0.3", line=1.8)
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    middle = (start + end) / 2
    ax.text(middle, y, words, ha="center", va="center", fontsize=SMALLEST, weight="bold", bbox=clear)


def _beside(ax: Axes, head: str, numbers: list[int]) -> None:
    ax.text(BESIDE, 1.0, head, transform=ax.transAxes, ha="center", va="bottom", fontsize=SMALLEST)
    look = {"transform": ax.get_yaxis_transform(), "ha": "center", "va": "center", "fontsize": TITLE, "weight": "bold"}
    for rank, number in enumerate(numbers):
        ax.text(BESIDE, rank, str(number), **look)
    said = ", ".join(f"rank {rank} holds {number}" for rank, number in enumerate(numbers))
    say(ax, f"{ax.course_words}\nmicro-batches in flight at most: {said}")


def count_waiting(stages: int = 4, microbatches: int = 4) -> Axes:
    """Draw all forwards and then all backwards, the last micro-batch first, with F 1 and B 2.

    In each grey gap stands how many F and B it lasts.
    """
    ax = new_axes(None, 1.9 + 0.5 * stages)
    rounds, last = stages + microbatches - 1, stages - 1
    words = []
    for rank in range(stages):
        ax.barh(rank, 3 * rounds, height=0.8, color=WAITING)
        turn, back = rank + microbatches, rounds + 2 * (last - rank)  # its last F ends, its first B starts
        for number in range(microbatches):
            for start, length, colour in ((rank + number, 1, FORWARD), (back + 2 * number, 2, BACKWARD)):
                ax.barh(rank, length, left=start, height=0.8, color=colour, edgecolor="white", linewidth=0.8)
                name = number if colour == FORWARD else microbatches - 1 - number
                ax.text(start + length / 2, rank, str(name), ha="center", va="center", fontsize=SMALLEST)
        before, after = _times(rank, "F"), _times(rank, "B")
        between = f"{_times(last - rank, 'F')} + {_times(last - rank, 'B')}" if rank < last else ""
        end = back + 2 * microbatches
        for start, length, gap in ((0, rank, before), (turn, back - turn, between), (end, 3 * rounds - end, after)):
            ax.text(start + length / 2, rank, gap, ha="center", va="center", fontsize=SMALLEST, weight="bold")
        words.append(f"rank {rank} waits {' and '.join(filter(None, (before, between, after)))}")
        ax.text(3 * rounds * 1.01, rank, f"= {last} (F + B)", va="center", fontsize=SMALLEST, weight="bold")
    ax.set(xlim=(0, 3 * rounds), ylim=(last + 0.5, -0.5), xticks=range(0, 3 * rounds + 1, 3), yticks=range(stages))
    ax.set_ylabel("rank", fontsize=SMALLEST)
    ax.set_xlabel("time in s: a forward F (blue) lasts 1, a backward B (orange) 2; grey is waiting", fontsize=SMALLEST)
    ax.set_title(f"Early, late or in between: every rank waits {last} (F + B) in all", fontsize=TITLE, loc="left")
    say(ax, "\n".join(words))
    return ax


def _times(count: int, what: str) -> str:
    return "" if count == 0 else what if count == 1 else f"{count} {what}"


def held_over_time(
    results: Mapping[str, Any], title: str, *, rank: int = 0, gigabytes: float, limit: float | None = None,
    outlined: str = "", ends: bool = False,
) -> Axes:  # fmt: skip
    """Draw the memory that one rank's activations take over a step, a line for each replay by name.

    `gigabytes` is what one micro-batch leaves on the rank from its F until the end of its B; `limit` draws a line at
    the GB that are free for them. `outlined` is the name of one that is drawn pale, with a dashed outline where it
    is above the others. `ends` says of each when its step ends.
    """
    ax = new_axes(None, 3.4)
    stairs, told = {}, []
    for name, result in results.items():
        changes: Counter = Counter()  # a backward that ends when a forward starts makes room for it
        for event in result.events:
            if event.rank == rank:
                forward = event.kind == "F"
                changes[event.start if forward else event.end] += gigabytes if forward else -gigabytes
        times = sorted(changes)
        sizes = [round(held, 9) for held in itertools.accumulate(changes[time] for time in times)]
        stairs[name] = times, sizes
    for name, (times, sizes) in stairs.items():
        most = max(sizes)
        high = [place for place, size in enumerate(sizes) if size == most]
        middle = (2 * times[high[0]] + 3 * times[high[-1] + 1]) / 5
        outline = name == outlined  # pale and behind the others, which have solid lines
        ax.fill_between(times, sizes, step="post", color=ACTIVATIONS, alpha=0.15 if outline else 0.6,
                        zorder=0.5 if outline else 1, linewidth=0)  # fmt: skip
        if outline:
            corners = _above(stairs[name], [stair for other, stair in stairs.items() if other != name])
            ax.plot(*corners, color=INK, linewidth=1.8, zorder=0.6, linestyle=(0, (4, 3)))
        else:
            ax.step(times, sizes, where="post", color=INK, linewidth=1.4, zorder=2)
        words = f"{name}: {most:,.0f} GB" + (f", ends at {results[name].seconds:g} s" if ends else "")
        ax.text(middle, most + 1, words, ha="center", va="bottom", fontsize=SMALLEST, weight="bold")
        told.append(f"{name}: at most {most:,.0f} GB, in a step of {results[name].seconds:g} s")
    until = max(result.seconds for result in results.values())
    if limit:
        ax.axhline(limit, color=LIMIT, linewidth=1.8, linestyle=(0, (5, 3)))
        words = f"{limit:.0f} GB are free"
        ax.text(until, limit + 1, words, color=LIMIT, fontsize=SMALLEST, ha="right", va="bottom", weight="bold")
        told.append(words)
    ax.set(xlim=(0, until), ylim=(0, 1.2 * max(ax.dataLim.ymax, limit or 0)))
    ax.set_xlabel("time in s, if an F takes 1 s and a B 2 s", fontsize=SMALLEST)
    ax.set_ylabel(f"GB of activations on rank {rank}", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _above(stair: tuple, others: list[tuple]) -> tuple[list[float], list[float]]:
    """Return the corners of a stair (times, sizes) where it is above all others; NaN stands for the rest."""
    def size(of: tuple, time: float) -> float:
        return of[1][bisect(of[0], time) - 1] if time >= of[0][0] else 0.0

    xs, ys, drawn, last = [], [], False, 0.0
    for start, end in itertools.pairwise(sorted({time for times, _ in [stair, *others] for time in times})):
        here = size(stair, start)
        seen = all(here > size(other, start) + 1e-6 for other in others)
        if seen != drawn:  # the upright before or after what is seen
            xs += [start, start]
            ys += [last, here] if seen else [here, math.nan]
        if seen:
            xs += [start, end]
            ys += [here, here]
        drawn, last = seen, here
    return xs, ys


def round_trip(played: Any, title: str, *, microbatch: int = 0) -> Axes:
    """Draw a replay around the way of one micro-batch down the ranks and back, until the next one may enter rank 0.

    Above it stand the trip's time and the work that rank 0 has meanwhile; waiting between turns is hatched in red. What
    happens well before and after the trip is cut off.
    """
    ax = timeline(played, title=title)
    mine = sorted((event for event in played.events if event.action.microbatch == microbatch), key=lambda e: e.start)
    for here, there in itertools.pairwise(mine):
        if here.rank != there.rank:
            arrow(ax, (here.end, here.rank), (there.start, there.rank), line=2.2)
    first, home = mine[0].start, mine[-1].end
    entry = min((event for event in played.events if event.rank == 0 and event.kind == "F" and event.start >= home),
                key=lambda event: event.start)  # fmt: skip
    for event in [*mine, entry]:
        _frame(ax, event)
    trip, count = home - first, entry.action.microbatch - microbatch
    meanwhile = sorted((event for event in played.events if event.rank == 0 and first <= event.start < home),
                       key=lambda event: event.start)  # fmt: skip
    own = sum(event.end - event.start for event in meanwhile)
    waits = trip - own > 1e-9 * trip
    _hatch_middle(ax, played, 1.0)
    left, right = max(0.0, first - trip / 5), min(played.seconds, home + trip / 5)
    for text in [text for text in ax.texts if not left < text.get_position()[0] < right]:
        text.remove()
    for time in (first, home):
        ax.plot([time, time], [-1.9, 0.4], color=INK, linewidth=1, linestyle=(0, (2, 3)))
    kinds = Counter(event.kind for event in meanwhile)
    work = " and ".join(f"{number} {kind}" for kind, number in kinds.items())
    rest = f" and {trip - own:.4g} s of waiting" if waits else ""
    _bracket(ax, first, home, -1.7, f"round trip of micro-batch {microbatch}: {trip:.4g} s")
    words = f"rank 0 meanwhile: {work}, {own:.4g} s of work{rest}"
    ax.text((first + home) / 2, -0.85, words, ha="center", va="center", fontsize=SMALLEST, weight="bold")
    words = f"the ticket\nis free:\n{entry.action.microbatch} enters"
    ax.text(home + trip / 100, -0.55, words, ha="left", va="bottom", fontsize=SMALLEST)
    look = {"facecolor": WAITING, "edgecolor": LIMIT, "hatch": "////"}
    keys = [*ax.figure.legends[0].legend_handles, Patch(label="waits between turns", **look)]
    ax.figure.legends[0].remove()
    legend_below(ax, keys if waits else keys[:-1])
    ax.set_title(title, fontsize=TITLE, loc="left")
    ax.set_xlabel("time in s", fontsize=SMALLEST)
    ax.set_xlim(left, right)
    ax.xaxis.set_major_locator(MultipleLocator(own / count))  # an F and a B
    ax.set_ylim(top=-2.3)
    ax.figure.set_figheight(ax.figure.get_figheight() + 0.7)
    say(ax, f"micro-batch {microbatch} goes down the ranks and back in {trip:.4g} s, from {first:.4g} to {home:.4g} s; "
            f"then micro-batch {entry.action.microbatch} enters rank 0; meanwhile rank 0 has {work}, {own:.4g} s of "
            f"work for {count} micro-batches{rest}\n{ax.course_words}")
    return ax
