"""Staleness: workers that wait for nobody, and how old their gradients are when the server applies them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import BACKWARD, INK, LIMIT, RECEIVED, SENT, SMALLEST, TITLE, arrow, new_axes, say


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


def stale_gradient(seconds: Sequence[float] = (2.0, 2.4, 6.0), until: float = 6.3, ax: Any = None) -> Axes:
    """Draw a server and workers of different speed: on which weights each computes, and which its gradient meets."""
    ax = new_axes(ax, 3.9)
    done = served(seconds, until)
    changes = [0.0, *(end for _, _, end, _, _ in done), until]
    for version, (start, end) in enumerate(zip(changes, changes[1:], strict=False)):
        ax.add_patch(Rectangle((start, -0.36), end - start, 0.72, facecolor=RECEIVED, edgecolor="white", linewidth=1.5))
        if end - start > 0.25:
            ax.text((start + end) / 2, 0, f"v{version}", ha="center", va="center", fontsize=SMALLEST, color=INK)
    for worker, begin, end, fetched, met in done:
        y, old = worker + 1.3, met - fetched
        look = {"facecolor": BACKWARD, "edgecolor": "white", "linewidth": 1.5}
        ax.add_patch(Rectangle((begin, y - 0.3), end - begin, 0.6, **look))
        worst = old == max(job[4] - job[3] for job in done)
        crossed = [begin, *sorted(job[2] for job in done if job[0] > worker and begin < job[2] < end), end]
        left, right = max(pairwise(crossed), key=lambda free: free[1] - free[0])  # where no arrow crosses the words
        words = f"on v{fetched}: {old} stale" if right - left > 1 else f"v{fetched}: {old}"
        ax.text((left + right) / 2, y, words, ha="center", va="center", fontsize=SMALLEST, color=INK,
                weight="bold" if worst else "normal")  # fmt: skip
        arrow(ax, (end, y - 0.3), (end, 0.38), colour=LIMIT if worst else SENT, line=2.0 if worst else 1.0)
    ax.set_yticks([0, *(worker + 1.3 for worker in range(len(seconds)))],
                  ["server:\nweights", *(f"worker {worker + 1}" for worker in range(len(seconds)))])  # fmt: skip
    ax.set_ylim(len(seconds) + 0.75, -0.5)
    ax.set_xlim(0, until)
    ax.set_xlabel("time: " + ", ".join(f"worker {worker + 1} takes {spent:g}" for worker, spent in enumerate(seconds)),
                  fontsize=SMALLEST)  # fmt: skip
    slow = max(done, key=lambda job: job[4] - job[3])
    ax.set_title(f"While worker {slow[0] + 1} computes, the weights change {slow[4] - slow[3]} times", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join(f"worker {worker + 1} computes from {begin:g} to {end:g} on version {fetched} of the weights; "
                      f"its gradient is applied to version {met}, {met - fetched} stale"
                      for worker, begin, end, fetched, met in done))  # fmt: skip
    return ax
