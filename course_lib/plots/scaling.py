"""Time over the number of ranks, in panels side by side that share one axis."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from course_lib.plots.canvas import BLUE, GREEN, ORANGE, SMALLEST, TITLE, WIDTH, Picture, arrow, new_axes
from course_lib.plots.time import time_unit

LOOKS = ((GREEN, "^"), (BLUE, "o"), (ORANGE, "s"))


def seconds_over_ranks(panels: Mapping[str, Mapping[str, Mapping[int, float]]], title: str = "") -> list[Axes]:
    """Draw `panels[title][name][ranks]`, in seconds: a panel for each title, a named line for each name.

    All panels share the axis of time, and a name has one colour in all. At the most ranks an arrow says how many times
    as fast as the first line the last one is, by its name.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(WIDTH, 4.4 if title else 4.0), sharey=True, squeeze=False, layout="constrained",
        FigureClass=Picture,
    )  # fmt: skip
    looks = dict(zip(dict.fromkeys(name for lines in panels.values() for name in lines), LOOKS, strict=False))
    for ax, (name, lines) in zip(axes[0], panels.items(), strict=True):
        _panel(ax, name, lines, looks)
    axes[0, 0].set_ylabel("time", fontsize=SMALLEST)
    if title:
        figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return list(axes[0])


def _panel(ax: Axes, title: str, lines: Mapping[str, Mapping[int, float]], looks: Mapping[str, tuple]) -> None:
    new_axes(ax, 0)
    worlds = sorted({ranks for line in lines.values() for ranks in line})
    for name, line in lines.items():
        colour, marker = looks[name]
        ax.plot(worlds, [line[ranks] for ranks in worlds], marker=marker, color=colour, linewidth=2, label=name)
        above = name == next(iter(lines))
        at = worlds[max(len(worlds) - 2, 0)]  # where its name stands
        ax.annotate(
            name, (at, line[at]), (-6 if above else 6, 8 if above else -8), textcoords="offset points",
            ha="right" if above else "left", va="bottom" if above else "top", fontsize=SMALLEST, color=colour,
            weight="bold",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(worlds, [f"{ranks:,}" for ranks in worlds])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _text(value)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("ranks", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    most = worlds[-1]
    longest, shortest = (list(lines.values())[place][most] for place in (0, -1))
    arrow(ax, (most, longest), (most, shortest), "<|-|>", line=1.4)
    far = longest > 300 * shortest  # else there is no room between the lines
    said = f"{list(lines)[-1]} {_times(longest / shortest)}\ntimes as fast"
    ax.annotate(said, (most, (longest * shortest) ** 0.5 if far else longest),
                (-6 if far else 4, -22 if far else 22), ha="right", va="center", textcoords="offset points",
                fontsize=TITLE, weight="bold")  # fmt: skip


def _times(ratio: float) -> str:
    """Return a ratio as a reader remembers it: whole from 10 on, with separators where it is long."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.3g}"


def _text(seconds: float) -> str:
    factor, unit = time_unit(seconds)
    return f"{seconds * factor:,.4g} {unit}"
