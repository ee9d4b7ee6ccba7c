"""Failures: a day of a run that fails at random, what interrupted Llama 3, and how often one should save."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import PercentFormatter

from course_lib.costs import LLAMA_3, LLAMA_3_DAYS, LLAMA_3_GPUS, expected_goodput, young_interval
from course_lib.lessons.failing_run import KINDS, expected_shares, failing_run
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
FACTORS = {0.25: "a quarter", 0.5: "half", 1: "the best", 2: "twice", 4: "four times"}
HOUR = 3600.0
DAY = 179  # the seed of a day on which both habits keep about what they keep on average


def failing_day(
    intervals: Sequence[float] = (0.5, 3.0), mtbf: float = 3.09, save: float = 120.0, restart: float = 600.0,
    hours: float = 24.0, seed: int = DAY,
) -> Axes:  # fmt: skip
    """Draw a day of a simulated run for each way to save: intervals and mtbf in hours, save and restart in seconds.

    The run goes on after the day, so that its last piece, too, is drawn as what became of it.
    """
    figure, axes = plt.subplots(len(intervals), 1, figsize=(WIDTH, 1.5 + 1.15 * len(intervals)), layout="constrained",
                                FigureClass=Picture, sharex=True, squeeze=False)  # fmt: skip
    axes, seen = axes[:, 0], []
    for ax, interval in zip(axes, intervals, strict=True):
        run = failing_run(interval * HOUR, mtbf * HOUR, save, restart, 2 * hours / 24, seed)
        pieces = [one._replace(end=min(one.end, hours * HOUR)) for one in run.pieces if one.start < hours * HOUR]
        for piece in pieces:
            ax.add_patch(Rectangle((piece.start / HOUR, 0), (piece.end - piece.start) / HOUR, 1,
                                   facecolor=COLOURS[piece.kind], edgecolor="none"))  # fmt: skip
        fails = [piece.start / HOUR for piece in pieces if piece.kind == "restarting"]
        ax.plot(fails, [1.14] * len(fails), "v", color=INK, markersize=5, clip_on=False)
        kept = sum(piece.end - piece.start for piece in pieces if piece.kind == "training") / (hours * HOUR)
        often = f"{60 * interval:.0f} minutes" if interval < 1 else f"{interval:g} hours"
        ax.set_title(f"saved every {often}: {kept:.0%} of the day is training that lasts", fontsize=SMALLEST,
                     loc="left", pad=18)  # fmt: skip
        seen.append(f"saved every {often}: {len(fails)} failures, {kept:.0%} of the day is training that lasts")
        ax.set(xlim=(0, hours), ylim=(0, 1), yticks=[])
        ax.tick_params(labelsize=SMALLEST, bottom=ax is axes[-1])
        for name in ("top", "right", "left"):
            ax.spines[name].set_visible(False)
    axes[-1].set_xticks(range(0, int(hours) + 1, 4))
    words = f"hours of a simulated day; triangles: the same {len(fails)} failures in both"
    if any(late - early < restart / HOUR for early, late in pairwise(fails)):
        words += "\n(where two triangles touch, the second failure came during the restart)"
    axes[-1].set_xlabel(words, fontsize=SMALLEST)
    figure.suptitle(f"{LLAMA_3_GPUS:,} GPUs: a failure takes everything since the last save", fontsize=TITLE,
                    x=0.01, ha="left")  # fmt: skip
    handles = [Patch(facecolor=COLOURS[kind], label=NAMES[kind]) for kind in KINDS]
    legend_below(axes[0], handles, columns=4)
    say(axes[0], "; ".join(seen))
    for ax in axes[1:]:
        say(ax, " ")
    return axes[0]


def interruptions(ax: Axes | None = None) -> Axes:
    """Draw what interrupted Llama 3 405B in 54 days, by cause."""
    ax = new_axes(ax, 4.0)
    rows = sorted(LLAMA_3.items(), key=lambda row: row[1])
    gpu = {name for name, _ in rows if "GPU" in name or "silent" in name}
    bars = ax.barh([name for name, _ in rows], [count for _, count in rows], label="_",
                   color=[LIMIT if name in gpu else BLUE for name, _ in rows])  # fmt: skip
    quiet = [name for name, _ in rows].index("silent data corruption")
    bars[quiet].set(hatch="////", edgecolor="white")
    ax.bar_label(bars, fontsize=SMALLEST, padding=3)
    ax.annotate("wrong numbers, and no error", (13, quiet), (40, quiet - 0.9), fontsize=SMALLEST, va="center",
                arrowprops={"arrowstyle": "-|>", "color": INK})  # fmt: skip
    total, gpus = sum(LLAMA_3.values()), sum(count for name, count in rows if name in gpu)
    ax.set_title(f"Llama 3: {gpus} of {total} failures in {LLAMA_3_DAYS} days came from a GPU",
                 fontsize=TITLE, x=-0.35, ha="left")  # fmt: skip
    ax.set_xlim(0, 165)
    ax.set_xlabel("unplanned interruptions", fontsize=SMALLEST)
    ax.text(100, len(rows) - 2.6, "a GPU or a part of it", fontsize=SMALLEST, color=LIMIT, weight="bold")
    ax.text(100, len(rows) - 3.6, "everything else", fontsize=SMALLEST, color=BLUE, weight="bold")
    say(ax, "; ".join(f"{name}: {count}" for name, count in reversed(rows)))
    return ax


def goodput_over_interval(
    mtbf: float, save: float, restart: float, simulated: Mapping[float, float], ax: Axes | None = None
) -> Axes:
    """Draw what the time goes into over the seconds between saves, by formula, and the simulated goodput as dots."""
    ax = new_axes(ax, 3.9)
    best = young_interval(mtbf, save)
    places = [best * 2 ** (step / 20) for step in range(-60, 61)]
    shares = [expected_shares(place, mtbf, save, restart) for place in places]
    minutes, order = [place / 60 for place in places], ("training", "saving", "lost", "restarting")
    ax.stackplot(minutes, [[share[kind] for share in shares] for kind in order],
                 colors=[COLOURS[kind] for kind in order])  # fmt: skip
    ax.plot([place / 60 for place in simulated], list(simulated.values()), "o", color=INK)
    worst = max(expected_goodput(best, mtbf, save, restart) - expected_goodput(factor * best, mtbf, save, restart)
                for factor in (0.5, 2))  # fmt: skip
    for place, share in simulated.items():
        words = f"{share:.0%}\n{FACTORS.get(round(place / best, 3), '')}"
        ax.annotate(words, (place / 60, share), (0, -9), textcoords="offset points", ha="center", va="top",
                    fontsize=SMALLEST, color="white", weight="bold")  # fmt: skip
    for factor in (0.5, 2):
        ax.plot([factor * best / 60] * 2, [0, expected_goodput(factor * best, mtbf, save, restart) - 0.17], "--",
                color="white", linewidth=1.5)  # fmt: skip
    ax.text(best / 60, 0.12, "from half to twice", ha="center", va="center", color="white", fontsize=SMALLEST)
    low, high = expected_shares(places[4], mtbf, save, restart), expected_shares(places[-5], mtbf, save, restart)
    ax.text(minutes[2], low["training"] + low["saving"] / 2, "saving", va="center", fontsize=SMALLEST)
    ax.text(minutes[-3], high["training"] + high["saving"] + high["lost"] / 2, "lost", ha="right", va="center",
            fontsize=SMALLEST, color="white", weight="bold")  # fmt: skip
    ax.text(best / 60, 1 - low["restarting"] / 2, "restarting", ha="center", va="center", fontsize=SMALLEST)
    ax.text(minutes[2], 0.12, "training that lasts", va="center", color="white", fontsize=SMALLEST, weight="bold")
    ax.set_xscale("log", base=2)
    ax.set_xticks([place / 60 for place in simulated], [f"{place / 60:.0f}" for place in simulated])
    ax.minorticks_off()
    ax.set(xlim=(minutes[0], minutes[-1]), ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("minutes of training between two saves (each mark doubles); dots: simulated", fontsize=SMALLEST)
    ax.set_ylabel("share of the time", fontsize=SMALLEST)
    ax.set_title(f"The top is flat: from half to twice the best interval, at most {math.ceil(100 * worst)} points less",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "; ".join(f"{place / 60:.3g} min: {share:.1%} simulated, "
                      f"{expected_goodput(place, mtbf, save, restart):.1%} by formula"
                      for place, share in simulated.items()))  # fmt: skip
    return ax
