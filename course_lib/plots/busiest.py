"""Ranks that wait for the busiest one, and half batches that don't: computing, trips and waiting over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
    INK,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    legend_below,
    say,
)

LETTERS = "AB"


def busiest_rank(results: Mapping[str, Any]) -> list[Axes]:
    """Draw each run of a layer of experts, on one scale: what every rank computes, sends, and waits for.

    An all-to-all ends for nobody before the last rank takes part. Until then whoever is in it waits, and is grey. (The
    few rows that the others exchange meanwhile are not drawn.)
    """
    axes = _panels(results, [0.5 + 0.36 * len(result) for result in results.values()])
    first = next(iter(results.values())).seconds
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        ranks, told = range(len(result)), []
        trips = [result.of(rank, "all_to_all") for rank in ranks]
        ready = [max(trip.posted for trip in meeting) for meeting in zip(*trips, strict=True)]
        last = [max(ranks, key=lambda rank, n=n: trips[rank][n].posted) for n in range(len(ready))]
        for rank in ranks:
            for event in result.of(rank, "work"):
                _bar(ax, rank, event.start, event.end, COMPUTE, f"computes {_us(event.end - event.start)}")
                told.append(f"rank {rank} computes {_us(event.end - event.start)}")
            for trip, start, whom in zip(trips[rank], ready, last, strict=True):
                wait = start - trip.posted
                if wait > 0.01 * result.seconds:
                    _bar(ax, rank, trip.posted, start, WAITING, f"waits for rank {whom}: {_us(wait)}")
                    told.append(f"rank {rank} waits {_us(wait)} for rank {whom}")
                _bar(ax, rank, max(start, trip.posted), trip.end, COLLECTIVE)
        longer = result.seconds / first
        times = f", {longer:.2f} times as long" if longer > 1.005 else ""
        ax.set_title(f"{name}: {_us(result.seconds)}{times}", fontsize=TITLE, loc="left")
        ax.set_yticks(list(ranks), [f"rank {rank}" for rank in ranks], fontsize=SMALLEST)
        ax.set_ylim(len(result) - 0.5, -0.5)
        say(ax, "; ".join(told))
    keys = {"computing": COMPUTE, "sending rows": COLLECTIVE, "waiting (a trace calls this all_to_all, too)": WAITING}
    legend_below(axes[0], [Patch(facecolor=colour, label=name) for name, colour in keys.items()])
    return axes


def half_batches(results: Mapping[str, Any], parts: Mapping[str, int]) -> list[Axes]:
    """Draw rank 0 of each run in two lanes, what computes and what travels; `parts` says of how many parts a batch is.

    Parts take turns, so of two parts every other bar is B's.
    """
    longest = max(result.seconds for result in results.values())
    unit, scale = ("ms", 1e3) if longest > 1e-2 else ("µs", 1e6)
    axes = _panels(results, [1.25] * len(results), unit)
    first = next(iter(results.values())).seconds
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        busy = 0.0
        lanes = (("work", COMPUTE, ("attention", "experts")), ("all_to_all", COLLECTIVE, ("there", "home")))
        for lane, (kind, colour, names) in enumerate(lanes):
            _bar(ax, lane, 0.0, result.seconds, WAITING, scale=scale)
            for place, event in enumerate(result.of(0, kind)):
                letter = LETTERS[place % parts[name]] if parts[name] > 1 else names[place % 2]
                _bar(ax, lane, event.start, event.end, colour, letter, dark=True, scale=scale)
                busy += (event.end - event.start) * (kind == "work")
        share = f"the GPU computes {busy / result.seconds:.0%} of the time"
        less = f", {first / result.seconds:.2f} times as fast" if result.seconds < 0.995 * first else ""
        time = f"{scale * result.seconds:.1f} ms" if unit == "ms" else _us(result.seconds)
        ax.set_title(f"{name}: {time}{less}; {share}", fontsize=TITLE, loc="left")
        ax.set_yticks([0, 1], ["computing", "network"], fontsize=SMALLEST)
        ax.set_ylim(1.5, -0.5)
        say(ax, f"{len(result.of(0, 'work'))} times computing, {len(result.of(0, 'all_to_all'))} trips; {share}")
    keys = {"computing": COMPUTE, "travelling": COLLECTIVE, "idle": WAITING}
    legend_below(axes[0], [Patch(facecolor=colour, label=name) for name, colour in keys.items()])
    return axes


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"


def _panels(results: Mapping[str, Any], heights: list[float], unit: str = "µs") -> list[Axes]:
    """Return axes below one another, for each run, on one axis of microseconds, or of milliseconds ("ms")."""
    scale = {"µs": 1e6, "ms": 1e3}[unit]
    _, axes = plt.subplots(
        len(results), 1, figsize=(WIDTH, sum(heights) + 0.9), layout="constrained", FigureClass=Picture, sharex=True,
        squeeze=False, height_ratios=heights,
    )  # fmt: skip
    for ax in axes.flat:
        for name in ("top", "right", "left"):
            ax.spines[name].set_visible(False)
        ax.tick_params(labelsize=SMALLEST)
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(0, 1.005 * scale * max(result.seconds for result in results.values()))
    axes[-1, 0].set_xlabel(f"simulated time, {unit}", fontsize=SMALLEST)
    return list(axes.flat)


def _bar(
    ax: Axes, row: float, start: float, end: float, colour: str, words: str = "", dark: bool = False, scale: float = 1e6
) -> None:  # fmt: skip
    """Draw a bar from start to end, with words in it where they have room."""
    ax.barh(row, scale * (end - start), left=scale * start, height=0.78, color=colour, edgecolor="white", lw=0.6)
    span = ax.get_xlim()[1]
    if words and scale * (end - start) > 0.0125 * len(words) * span:
        white = dark or colour == COMPUTE
        ax.text(0.5 * scale * (start + end), row, words, ha="center", va="center", fontsize=SMALLEST,
                color="white" if white else INK, weight="bold" if white else "normal")  # fmt: skip
