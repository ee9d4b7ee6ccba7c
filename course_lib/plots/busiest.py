"""Ranks that wait for the busiest one: computing, trips and waiting over time."""

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
    keys = {"computing": COMPUTE, "sending and receiving, one partner at a time": COLLECTIVE,
            "waiting (in a trace: all_to_all)": WAITING}  # fmt: skip
    legend_below(axes[0], [Patch(facecolor=colour, label=name) for name, colour in keys.items()])
    return axes


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"


def _panels(results: Mapping[str, Any], heights: list[float]) -> list[Axes]:
    """Return axes below one another, for each run, on one axis of microseconds."""
    _, axes = plt.subplots(
        len(results), 1, figsize=(WIDTH, sum(heights) + 0.9), layout="constrained", FigureClass=Picture, sharex=True,
        squeeze=False, height_ratios=heights,
    )  # fmt: skip
    for ax in axes.flat:
        for name in ("top", "right", "left"):
            ax.spines[name].set_visible(False)
        ax.tick_params(labelsize=SMALLEST)
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(0, 1.005e6 * max(result.seconds for result in results.values()))
    axes[-1, 0].set_xlabel("simulated time, µs", fontsize=SMALLEST)
    return list(axes.flat)


def _bar(ax: Axes, row: float, start: float, end: float, colour: str, words: str = "") -> None:
    """Draw a bar from start to end, with words in it where they have room."""
    ax.barh(row, 1e6 * (end - start), left=1e6 * start, height=0.78, color=colour, edgecolor="white", lw=0.6)
    if words and 1e6 * (end - start) > 0.0125 * len(words) * ax.get_xlim()[1]:
        white = colour == COMPUTE
        ax.text(5e5 * (start + end), row, words, ha="center", va="center", fontsize=SMALLEST,
                color="white" if white else INK, weight="bold" if white else "normal")  # fmt: skip
