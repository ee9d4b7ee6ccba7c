"""Two traces of the same job, healthy and with one slow rank: who works, who waits inside the all-reduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
    LIMIT,
    RECEIVED,
    SMALLEST,
    TITLE,
    WIDTH,
    Picture,
    legend_below,
    say,
)

SEEN = 4.0  # ms: as wide as the shortest all-reduce is drawn, or nobody would see it


def straggler_trace(
    runs: Mapping[str, Any], slow: int, ranks: Iterable[int], title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw work and all-reduces of some ranks of each run on one axis, as a profiler shows them; `slow` stands out."""
    ranks, longest = list(ranks), 1e3 * max(run.seconds for run in runs.values())
    figure, axes = plt.subplots(len(runs), 1, figsize=(WIDTH, 1.1 + len(runs) * (0.5 + 0.3 * len(ranks))),
                                layout="constrained", FigureClass=Picture, sharex=True, squeeze=False)  # fmt: skip
    for one, (name, run) in zip(axes[:, 0], runs.items(), strict=True):
        y, places, told = 0.0, [], []
        for before, rank in zip([ranks[0] - 1, *ranks], ranks, strict=False):
            if rank > before + 1:
                one.text(-2, y - 0.1, "\u22ee", ha="right", va="center", fontsize=TITLE)
                y += 0.7
            waited = 0.0
            for event in run.of(rank, "work"):
                one.add_patch(Rectangle((1e3 * event.start, y - 0.4), 1e3 * (event.end - event.start), 0.8,
                                        facecolor=COMPUTE, edgecolor="none"))  # fmt: skip
            for event in run.of(rank, "all_reduce"):
                wide = max(SEEN, 1e3 * (event.end - event.posted))
                waited += event.end - event.posted
                one.add_patch(Rectangle((1e3 * event.end - wide, y - 0.4), wide, 0.8, facecolor=RECEIVED,
                                        edgecolor=COLLECTIVE, linewidth=1.2))  # fmt: skip
            one.text(1e3 * run.seconds + 0.01 * longest, y, f"{1e3 * waited:.1f} ms", va="center", fontsize=SMALLEST,
                     weight="bold" if rank == slow and one is axes[-1, 0] else "normal")  # fmt: skip
            places.append((y, rank))
            told.append(f"rank {rank} is {1e3 * waited:.0f} ms in all-reduces")
            y += 1
        one.set(xlim=(0, 1.1 * longest), ylim=(y - 0.4, -0.6))
        one.set_yticks([place for place, _ in places], [str(rank) for _, rank in places], fontsize=SMALLEST)
        for label, (_, rank) in zip(one.get_yticklabels(), places, strict=True):
            if rank == slow and name != next(iter(runs)):
                label.set(weight="bold", color=LIMIT)
        one.tick_params(labelsize=SMALLEST)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
        one.set_ylabel("rank", fontsize=SMALLEST)
        one.set_title(f"{name}: {1e3 * run.seconds:.0f} ms in all", fontsize=SMALLEST, loc="left")
        one.set_title("in all_reduce", fontsize=SMALLEST, loc="right")
        say(one, "; ".join(told))
    axes[-1, 0].set_xlabel("virtual time in ms", fontsize=SMALLEST)
    figure.suptitle(title or f"All ranks wait in a long all-reduce, except the slow one: rank {slow}", fontsize=TITLE,
                    x=0.01, ha="left")  # fmt: skip
    called = f"all_reduce, with its waiting (drawn at least {SEEN:.0f} ms wide)"
    handles = [Patch(facecolor=COMPUTE, label="work"), Patch(facecolor=RECEIVED, edgecolor=COLLECTIVE, label=called)]
    legend_below(axes[0, 0], handles, columns=2)
    return axes[0, 0]
