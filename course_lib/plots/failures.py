"""Failures: a day of a run that fails at random, what interrupted Llama 3, and how often one should save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import PercentFormatter

from course_lib.costs import LLAMA_3, LLAMA_3_DAYS, LLAMA_3_GPUS, expected_goodput, young_interval
from course_lib.lessons.failing_run import KINDS, failing_run
from course_lib.plots.canvas import (
    BLUE,
    COMPUTE,
    INK,
    LIMIT,
    OPTIMIZER,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    legend_below,
    new_axes,
    say,
)

COLOURS = dict(zip(KINDS, (COMPUTE, OPTIMIZER, LIMIT, WAITING), strict=True))
NAMES = {"training": "training that lasts", "saving": "saving", "lost": "lost", "restarting": "restarting"}
HOUR = 3600.0


def failing_day(
    intervals: Sequence[float] = (27 / 60, 3.0), mtbf: float = 3.09, save: float = 120.0, restart: float = 600.0,
    hours: float = 24.0, seed: int = 0,
) -> Axes:  # fmt: skip
    """Draw a day of a simulated run for each way to save: intervals and mtbf in hours, save and restart in seconds."""
    figure, axes = plt.subplots(len(intervals), 1, figsize=(WIDTH, 1.2 + 1.0 * len(intervals)), layout="constrained",
                                FigureClass=Picture, sharex=True, squeeze=False)  # fmt: skip
    axes, seen = axes[:, 0], []
    for ax, interval in zip(axes, intervals, strict=True):
        run = failing_run(interval * HOUR, mtbf * HOUR, save, restart, hours / 24, seed)
        for piece in run.pieces:
            ax.add_patch(Rectangle((piece.start / HOUR, 0), (piece.end - piece.start) / HOUR, 1,
                                   facecolor=COLOURS[piece.kind], edgecolor="none"))  # fmt: skip
        ends = [piece.end / HOUR for piece in run.pieces if piece.kind == "restarting" and piece.end < hours * HOUR]
        kept = sum(min(piece.end, hours * HOUR) - piece.start for piece in run.pieces
                   if piece.kind == "training" and piece.start < hours * HOUR) / (hours * HOUR)  # fmt: skip
        often = f"{60 * interval:.0f} min" if interval < 1 else f"{interval:g} h"
        head = f"saved every {often}: {kept:.0%} of the day is training that lasts"
        ax.set_title(head, fontsize=SMALLEST, loc="left")
        seen.append(f"saved every {often}: {len(ends)} failures, {kept:.0%} of the day is training that lasts")
        ax.set(xlim=(0, hours), ylim=(0, 1), yticks=[])
        ax.tick_params(labelsize=SMALLEST)
        for name in ("top", "right", "left"):
            ax.spines[name].set_visible(False)
    axes[-1].set_xticks(range(0, int(hours) + 1, 4))
    axes[-1].set_xlabel("hours", fontsize=SMALLEST)
    figure.suptitle(f"A simulated day of {LLAMA_3_GPUS:,} GPUs: a failure takes what was not saved", fontsize=TITLE,
                    x=0.01, ha="left")  # fmt: skip
    handles = [Patch(facecolor=COLOURS[kind], label=NAMES[kind]) for kind in KINDS]
    legend_below(axes[0], handles, columns=4)
    say(axes[0], "; ".join(seen))
    for ax in axes[1:]:
        say(ax, " ")
    return axes[0]


def interruptions(ax: Axes | None = None) -> Axes:
    """Draw what interrupted Llama 3 405B in 54 days, by cause."""
    ax = new_axes(ax, 3.9)
    rows = sorted(LLAMA_3.items(), key=lambda row: row[1])
    colours = [LIMIT if "GPU" in name or "silent" in name else BLUE for name, _ in rows]
    bars = ax.barh([name for name, _ in rows], [count for _, count in rows], color=colours, label="_")
    ax.bar_label(bars, fontsize=SMALLEST, padding=3)
    total, gpus = sum(LLAMA_3.values()), sum(count for name, count in rows if "GPU" in name or "silent" in name)
    ax.set_title(f"Llama 3: {gpus} of {total} failures in {LLAMA_3_DAYS} days came from a GPU or its memory",
                 fontsize=TITLE, x=-0.35, ha="left")  # fmt: skip
    ax.set_xlabel("interruptions", fontsize=SMALLEST)
    ax.text(0.98, 0.1, "red: a GPU or its memory", transform=ax.transAxes, ha="right", fontsize=SMALLEST, color=LIMIT)
    say(ax, "; ".join(f"{name}: {count}" for name, count in reversed(rows)))
    return ax


def goodput_over_interval(
    mtbf: float, save: float, restart: float, simulated: Mapping[float, float], ax: Axes | None = None
) -> Axes:
    """Draw the share of time that is training which lasts over the seconds between saves: formula and simulation."""
    ax = new_axes(ax, 3.4)
    best = young_interval(mtbf, save)
    places = [best * 2 ** (step / 20) for step in range(-60, 61)]
    ax.plot([place / 60 for place in places], [expected_goodput(place, mtbf, save, restart) for place in places],
            color=BLUE, label="formula")  # fmt: skip
    ax.plot([place / 60 for place in simulated], list(simulated.values()), "o", color=INK, label="simulated")
    for place, share in simulated.items():
        factor = place / best
        words = f"τ × {factor:.3g}: {share:.0%}" if abs(factor - 1) > 1e-6 else f"τ = {best / 60:.0f} min: {share:.0%}"
        side = 0 if abs(factor - 1) < 1e-6 else 1 if factor > 1 else -1
        ax.annotate(words, (place / 60, share), (8 * side, 4 if side else 9), textcoords="offset points",
                    ha=("right", "center", "left")[side + 1], fontsize=SMALLEST)  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_xticks([place / 60 for place in simulated], [f"{place / 60:.3g}" for place in simulated])
    ax.set_ylim(0.5, 0.9)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("minutes of training between two saves", fontsize=SMALLEST)
    ax.set_ylabel("training that lasts", fontsize=SMALLEST)
    ax.set_title("The optimum is flat: half or twice the best interval costs little", fontsize=TITLE, loc="left")
    ax.text(0.98, 0.95, "line: formula, dots: simulated", transform=ax.transAxes, ha="right", va="top",
            fontsize=SMALLEST)  # fmt: skip
    say(ax, "; ".join(f"{place / 60:.3g} min: {share:.1%} simulated, "
                      f"{expected_goodput(place, mtbf, save, restart):.1%} by formula"
                      for place, share in simulated.items()))  # fmt: skip
    return ax
