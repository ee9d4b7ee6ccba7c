"""Staleness: workers that wait for nobody, and how old their gradients are when the server applies them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, LIMIT, SENT, SMALLEST, TITLE, arrow, new_axes, say


def served(seconds: Sequence[float], until: float) -> list[tuple[int, float, float, int, int]]:
    """Return (worker, begin, end, version fetched, version met) of each gradient that a server without bound applies.

    Worker w takes `seconds[w]` for a gradient; messages take no time.
    """
    jobs, version = [(0.0, worker, 0) for worker in range(len(seconds))], 0
    done = []
    while jobs:
        begin, worker, fetched = min(jobs, key=lambda job: (job[0] + seconds[job[1]], job[1]))
        jobs.remove((begin, worker, fetched))
        end = begin + seconds[worker]
        if end > until:
            continue
        done.append((worker, begin, end, fetched, version))
        version += 1
        jobs.append((end, worker, version))
    return done


def under_way(seconds: Sequence[float], until: float) -> list[tuple[int, float, int]]:
    """Return (worker, begin, version fetched) of each gradient that is not there yet at `until`."""
    found, done = [], served(seconds, until)
    for worker in range(len(seconds)):
        ends = [(end, met + 1) for other, _, end, _, met in done if other == worker]
        begin, fetched = max(ends, default=(0.0, 0))
        if begin < until:
            found.append((worker, begin, fetched))
    return found


def stale_gradient(seconds: Sequence[float] = (2.0, 2.7, 6.8), until: float = 7.6, ax: Any = None) -> Axes:
    """Draw a server and workers of different speed: each version of the weights has a colour, and who computes on it.

    A worker's bar has the colour of the version that it fetched, so a bar below other colours is an old gradient. Bars
    without words are not done when the picture ends.
    """
    ax = new_axes(ax, 4.3)
    done = served(seconds, until)
    changes = [0.0, *(end for _, _, end, _, _ in done), until]
    for version, (start, end) in enumerate(pairwise(changes)):
        _bar(ax, 0.0, start, end, FACES[version], f"v{version}", 0.72)
    worst = max(met - fetched for *_, fetched, met in done)
    for worker, begin, end, fetched, met in done:
        y, late = worker + 1.3, met - fetched == worst
        crossed = [begin, *sorted(job[2] for job in done if job[0] > worker and begin < job[2] < end), end]
        room = max(pairwise(crossed), key=lambda free: free[1] - free[0])  # where no arrow crosses the words
        _bar(ax, y, begin, end, FACES[fetched], "", 0.62, LIMIT if late else INK, 2.0 if late else 0.8)
        words = f"v{fetched} → v{met}\n" + (f"{met - fetched} stale" if met > fetched else "fresh")
        ax.text(sum(room) / 2, y, words, ha="center", va="center", fontsize=SMALLEST, color=LIMIT if late else INK,
                weight="bold" if late else "normal", linespacing=1.05)  # fmt: skip
        arrow(ax, (end, y - 0.31), (end, 0.38), colour=LIMIT if late else SENT, line=2.0 if late else 1.2)
    for worker, begin, fetched in under_way(seconds, until):
        _bar(ax, worker + 1.3, begin, until, FACES[fetched], "", 0.62)
    names = [f"worker {worker + 1}\ntakes {spent:g}" for worker, spent in enumerate(seconds)]
    ax.set_yticks([0, *(worker + 1.3 for worker in range(len(seconds)))], ["server's\nweights", *names])
    ax.set_ylim(len(seconds) + 0.75, -0.5)
    ax.set_xlim(0, until)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("time; v0 → v5: a gradient computed with version 0 of the weights, and applied to version 5",
                  fontsize=SMALLEST)  # fmt: skip
    slow = max(done, key=lambda job: job[4] - job[3])
    ax.set_title(f"While worker {slow[0] + 1} computes, the weights change {slow[4] - slow[3]} times", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join(f"worker {worker + 1} computes from {begin:g} to {end:g} on version {fetched} of the weights; "
                      f"its gradient is applied to version {met}, {met - fetched} stale"
                      for worker, begin, end, fetched, met in done))  # fmt: skip
    return ax


def _bar(ax: Axes, y: float, begin: float, end: float, colour: str, words: str, high: float, edge: str = INK,
         line: float = 0.8) -> None:  # fmt: skip
    ax.add_patch(Rectangle((begin, y - high / 2), end - begin, high, facecolor=colour, edgecolor=edge, linewidth=line))
    ax.text((begin + end) / 2, y, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
