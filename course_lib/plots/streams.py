"""Two streams of one GPU, as a profiler shows them: what the network carries, and what the GPU computes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import COMPUTE, SMALLEST, TITLE, WAITING, WIDTH, Picture, edge_of, legend_below, say
from course_lib.plots.time import look, time_unit


def streams(runs: Mapping[str, Any], title: str = "", rank: int = 0) -> list[Axes]:
    """Draw one rank of each run on one scale of time: its collectives above, its computing and waiting below.

    `runs` are simulated results by name. Each picture says how long the run takes, as a multiple of its computing.
    """
    figure, axes = plt.subplots(
        len(runs), 1, figsize=(WIDTH, 1.1 + 1.25 * len(runs)), layout="constrained", sharex=True, squeeze=False,
        FigureClass=Picture,
    )  # fmt: skip
    longest = max(result.seconds for result in runs.values())
    factor, unit = time_unit(longest)
    kinds: dict[str, None] = {}
    for ax, (name, result) in zip(axes[:, 0], runs.items(), strict=True):
        events = result.of(rank)
        ax.broken_barh([(0, result.seconds * factor)], (0.1, 0.8), facecolors=WAITING)
        for number, event in enumerate(event for event in events if event.kind == "work"):
            _bar(ax, event, factor, 0.1, COMPUTE, f"layer {number + 1}", longest)
        for number, event in enumerate(event for event in events if event.kind != "work"):
            colour, hatch = look(event.kind)
            kinds[event.kind] = None
            _bar(ax, event, factor, 1.1, colour, f"gather {number + 1}", longest, hatch)
        computing = sum(event.end - event.start for event in events if event.kind == "work")
        ratio = result.seconds / computing
        ax.set_yticks([0.5, 1.5], ["GPU", "network"])
        ax.set_ylim(0, 2)
        head = f"{name}: {result.seconds * factor:.3g} {unit}, {ratio:.2f} × the computing"
        ax.set_title(head, fontsize=SMALLEST, loc="left")
        ax.tick_params(labelsize=SMALLEST, axis="both")
        ax.tick_params(axis="y", length=0)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        say(ax, f"rank {rank} computes {computing * factor:.3g} {unit} and waits "
                f"{(result.seconds - computing) * factor:.3g} {unit}")
    axes[-1, 0].set_xlabel(f"virtual time in {unit}", fontsize=SMALLEST)
    axes[0, 0].set_xlim(0, None)
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    looks = [Patch(facecolor=look(kind)[0], hatch=look(kind)[1], edgecolor="white", label=kind) for kind in kinds]
    looks += [Patch(facecolor=COMPUTE, label="computes"), Patch(facecolor=WAITING, label="waits")]
    legend_below(axes[0, 0], looks)
    return list(axes[:, 0])


LETTERS = 85  # as many stand side by side over the whole time


def _bar(
    ax: Axes, event: Any, factor: float, low: float, colour: str, text: str, longest: float, hatch: str = ""
) -> None:
    """Draw a bar from `low` up, with its text where there is room for it."""
    begin, long = event.start * factor, (event.end - event.start) * factor
    frame = {"edgecolor": edge_of(colour), "linewidth": 0.8}
    ax.broken_barh([(begin, long)], (low, 0.8), facecolors=colour, hatch=hatch or None, **frame)
    paper = {"facecolor": colour, "edgecolor": "none", "pad": 1} if hatch else None  # or lines cross the letters
    if long / factor > longest * len(text) / LETTERS:
        ax.text(begin + long / 2, low + 0.4, text, ha="center", va="center", fontsize=SMALLEST, bbox=paper)
