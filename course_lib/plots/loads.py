"""How many tokens each expert gets: seats and who finds none, and loads while a model learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from course_lib.plots.canvas import (
    ACTIVATIONS,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    legend_below,
    new_axes,
    say,
)


def seats(loads: Sequence[int], capacity: int, experts: int = 0, ax: Axes | None = None) -> Axes:
    """Draw a bar for each expert's tokens: what is over the capacity is dropped, what is under it stays empty.

    Where `loads` are those of the first ones only, `experts` says how many there are.
    """
    over = [max(load - capacity, 0) for load in loads]
    lost, pairs = sum(over), sum(loads)
    ax = new_axes(ax, 2.9)
    places = range(len(loads))
    ax.bar(places, [capacity] * len(loads), color=WAITING, width=0.8, label="empty")
    ax.bar(places, [min(load, capacity) for load in loads], color=ACTIVATIONS, width=0.8, label="served")
    ax.bar(places, over, bottom=capacity, color=LIMIT, width=0.8, label="dropped")
    line = ax.axhline(capacity, color=INK, lw=1.2, label=f"capacity {capacity}")
    ax.set_xlim(-0.7, len(loads) - 0.3)
    ax.set_xticks(list(places))
    part = f" (the first {len(loads)} of {experts})" if experts > len(loads) else ""
    ax.set_xlabel(f"expert{part}", fontsize=SMALLEST)
    ax.set_ylabel("pairs", fontsize=SMALLEST)
    free = sum(max(capacity - load, 0) for load in loads)
    ax.set_title(f"{lost} of {pairs:,} pairs find no seat, while {free} seats stay empty", fontsize=TITLE, loc="left")
    legend_below(ax, [*ax.containers, line])
    say(ax, f"loads of {len(loads)} experts{part}: {', '.join(map(str, loads))}; capacity {capacity}; {lost} of "
            f"{pairs} dropped, {free} seats empty")  # fmt: skip
    return ax


def load_maps(runs: Mapping[str, Any], every: int = 10) -> list[Axes]:
    """Draw the load of each expert over the steps of each run, as shades: one map below the other, on one scale."""
    figure, axes = plt.subplots(
        len(runs), 1, figsize=(WIDTH, 1.55 * len(runs) + 0.5), layout="constrained", FigureClass=Picture, sharex=True,
        squeeze=False,
    )  # fmt: skip
    image, full = None, plt.get_cmap("magma_r")
    # Neither so pale nor so dark as paper is: the darkest, too, is to be told from an empty cell of a dark page.
    shades = ListedColormap([full(0.13 + 0.64 * place / 255) for place in range(256)]).with_extremes(under="white")
    for ax, (name, run) in zip(axes.flat, runs.items(), strict=True):
        shares = [[load * len(loads) / sum(loads) for load in loads] for loads in run.loads]
        by_expert = list(zip(*shares, strict=True))
        image = ax.imshow(by_expert, aspect="auto", cmap=shades, vmin=1e-9, vmax=4, interpolation="nearest",
                          extent=(0, every * len(shares), len(by_expert), 0))  # fmt: skip
        end = run.imbalance[-1]
        empty = f"{run.unused} of {len(by_expert)} have nothing" if run.unused else "none is empty"
        ax.set_title(f"{name}: at the end up to {end:.1f} times the mean, {empty}", fontsize=TITLE, loc="left")
        for expert, share in enumerate(shares[-1]):
            if share > 4:  # the shades end there
                ax.text(every * len(shares) * 1.005, expert + 0.5, f"{share:.1f}×", va="center", fontsize=SMALLEST,
                        color=INK)  # fmt: skip
        ax.set_ylabel("expert", fontsize=SMALLEST)
        marked = range(0, len(by_expert), 3)
        ax.set_yticks([expert + 0.5 for expert in marked], [str(expert) for expert in marked])
        ax.tick_params(labelsize=SMALLEST)
        last = len(shares) - 1
        marks = ", ".join(f"{run.imbalance[int(part * last)]:.1f}" for part in (0.25, 0.5, 1))
        say(ax, f"load of {len(by_expert)} experts over {every * len(shares)} steps; the largest over the mean at a "
                f"quarter, half and the end: {marks}")  # fmt: skip
    axes.flat[-1].set_xlabel("step", fontsize=SMALLEST)
    bar = figure.colorbar(image, ax=list(axes.flat), shrink=0.7, ticks=[1e-9, 1, 2, 3, 4])
    bar.ax.set_yticklabels(["0", "1", "2", "3", "≥ 4"])
    bar.set_label("load, in units of the mean (blank: none)", fontsize=SMALLEST)
    bar.ax.tick_params(labelsize=SMALLEST)
    say(bar.ax, "the darker, the more pairs; four times the mean and more are darkest")
    return list(axes.flat)
