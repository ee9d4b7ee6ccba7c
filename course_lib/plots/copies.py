"""Copies: what every GPU of a data-parallel run holds of a model, as one column a GPU, against what a GPU has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import GRADIENTS, INK, LIMIT, OPTIMIZER, SMALLEST, TITLE, WEIGHTS, new_axes, say

LOOKS = {"weights": (WEIGHTS, "weights"), "gradients": (GRADIENTS, "gradients"),
         "optimizer": (OPTIMIZER, "Adam's state")}  # fmt: skip
SHOWN = 4  # columns before the dots; the last GPU stands behind them
COLUMN = 0.8
GAP = 0.9  # between two models, in columns
GB = 1e9


def copies_on_gpus(held: Mapping[str, Mapping[str, float]], capacity: float, gpus: int = 64, *,
                   gpu: str = "an H100", title: str | None = None, ax: Any = None) -> Axes:  # fmt: skip
    """Draw for each model a column on each of `gpus` GPUs, of the bytes `held[model][part]`, and a line at `capacity`.

    Data parallelism copies all parts, so the columns of a model are equally high. Text twin: the words of the picture.
    """
    ax = new_axes(ax, 3.7)
    highest = max(sum(parts.values()) for parts in held.values()) / GB
    group = SHOWN + 2 + GAP
    for number, (name, parts) in enumerate(held.items()):
        begin = number * group
        columns = {place: str(place) for place in range(SHOWN)} | {SHOWN + 1: f"{gpus - 1:,}"}
        for place, which in columns.items():
            _column(ax, begin + place, parts)
            ax.text(begin + place, -0.025 * highest, which, ha="center", va="top", fontsize=SMALLEST, color=INK)
        middle = begin + (SHOWN + 1) / 2
        ax.text(begin + SHOWN, 0.3 * sum(parts.values()) / GB, "…", ha="center", fontsize=TITLE, color=INK)
        ax.text(middle, -0.12 * highest, f"{name} on GPU 0 to {gpus - 1:,}", ha="center", va="top", fontsize=SMALLEST,
                color=INK)  # fmt: skip
        total = sum(parts.values())
        fits = total <= capacity
        words = f"{total / GB:.0f} GB on every GPU" + ("" if fits else f": {(total - capacity) / GB:.0f} GB too much")
        ax.text(middle, total / GB + 0.02 * highest, words, ha="center", va="bottom", fontsize=SMALLEST,
                weight="bold", color=INK if fits else LIMIT)  # fmt: skip
    last = (len(held) - 1) * group + SHOWN + 1
    low = 0.0
    for part, size in list(held.values())[-1].items():  # names beside the last column
        y = (low + size / 2) / GB - (0.07 * highest if part == "optimizer" else 0)  # not on the line
        ax.text(last + COLUMN / 2 + 0.12, y, f"{LOOKS[part][1]}\n{size / GB:.0f} GB", va="center", linespacing=1.0,
                fontsize=SMALLEST, color=INK)  # fmt: skip
        low += size
    ax.plot([-0.6, last + COLUMN / 2], [capacity / GB] * 2, color=LIMIT, linestyle="--", linewidth=1.6, zorder=3)
    ax.text(-0.5, capacity / GB + 0.015 * highest, f"{gpu} has {capacity / GB:g} GB", va="bottom", fontsize=SMALLEST,
            color=LIMIT)  # fmt: skip
    ax.set_xlim(-0.6, last + 2.2)
    ax.set_ylim(0, 1.12 * highest)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel("GB held by a GPU", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left", pad=10)
    say(ax, "\n".join([*(_told(name, parts, gpus) for name, parts in held.items()),
                       f"a line at {capacity / GB:g} GB, which {gpu} has"]))  # fmt: skip
    return ax


def _column(ax: Axes, place: float, parts: Mapping[str, float]) -> None:
    low = 0.0
    for part, size in parts.items():
        ax.add_patch(Rectangle((place - COLUMN / 2, low / GB), COLUMN, size / GB, facecolor=LOOKS[part][0],
                               edgecolor="white", linewidth=0.8))  # fmt: skip
        low += size


def _told(name: str, parts: Mapping[str, float], gpus: int) -> str:
    each = ", ".join(f"{LOOKS[part][1]} {size / GB:.1f} GB" for part, size in parts.items())
    return f"each of {gpus:,} GPUs holds of {name} {sum(parts.values()) / GB:.1f} GB: {each}"
