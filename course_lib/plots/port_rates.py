"""What pairs of GPUs of two nodes can send each other if parts of the network are faulty, and what a sum takes then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, LIMIT, NETWORK, SMALLEST, TITLE, WIDTH, Picture, new_axes, say

PORT = 24.0  # GB/s that a healthy port of an A100's node gives, by what NVIDIA's engineers expect
FAULTS = {
    "detour": lambda pairs: 11.0 * pairs,
    "card": lambda pairs: PORT,
    "cable": lambda pairs: 7.5 * pairs if pairs == 8 else math.inf,
    "uplink": lambda pairs: 60.0,
}
"""The faults of a made-up cluster: how many GB/s each lets through of so many pairs together.

The cable is that of one of the last four GPUs, and all of eight rings wait for the one that crosses it.
"""
FITS = 0.1  # how far a rate may be off, as a share of what was found


def pair_rate(pairs: int, faults: Iterable[str] = ()) -> tuple[float, str]:
    """Return how many GB/s so many pairs send together, and what holds them back: one of `faults`, or the "ports"."""
    limits = {"ports": PORT * pairs} | {name: FAULTS[name](pairs) for name in faults}
    narrowest = min(limits, key=limits.get)
    return limits[narrowest], narrowest


def suspects(found: Mapping[int, float], groups: Iterable[Iterable[str]]) -> Axes:
    """Draw what was `found`, GB/s by pairs, beside what each group of FAULTS would give: four groups, an Axes each.

    Returns the first of the Axes.
    """
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 4.8), layout="constrained", FigureClass=Picture, sharex=True,
                                sharey=True)  # fmt: skip
    figure.suptitle("One card can't be it. Beside the detour, a cable and an uplink fit equally well", fontsize=TITLE,
                    x=0.01, ha="left")  # fmt: skip
    numbers = {name: number for number, name in enumerate(FAULTS, 1)}
    for ax, faults in zip(axes.flat, groups, strict=True):
        new_axes(ax, 0)
        worst = _worst(found, faults)
        _rates(ax, found, faults, 125)
        words = f"fits all {len(found)} rates"
        if worst:
            rate = pair_rate(worst, faults)[0]
            ax.plot([worst] * 2, [found[worst], rate], ":", color=LIMIT, linewidth=3)
            words = f"{worst} pairs: {rate:g}, but {found[worst]:g} was found"
        ax.set_title(" and ".join(f"{numbers[name]} · {name}" for name in faults), fontsize=SMALLEST, weight="bold",
                     loc="left")  # fmt: skip
        ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=SMALLEST, weight="bold",
                color=LIMIT if worst else INK)  # fmt: skip
        say(ax, f"{', '.join(map(str, found))} pairs would get "
                f"{', '.join(f'{pair_rate(pairs, faults)[0]:g}' for pairs in found)} GB/s; {words}")
    for ax in axes[:, 0]:
        ax.set_ylabel("GB/s out of a node", fontsize=SMALLEST)
    for ax in axes[1]:
        ax.set_xlabel("pairs of GPUs that send at the same time", fontsize=SMALLEST)
    _key(axes[0, 0], "with these suspects", "lower right")
    return axes[0, 0]


def faulty_network(found: Mapping[int, float], faults: Iterable[str] = (), ax: Axes | None = None) -> Axes:
    """Draw what pairs send if these of FAULTS are there, what holds each number of pairs back, and what was `found`."""
    ax, faults = new_axes(ax, 3.4), list(faults)
    _rates(ax, found, faults, 230)
    ax.plot(list(found), [PORT * pairs for pairs in found], ":", color=INK, linewidth=1)
    ax.text(6, 6 * PORT + 8, "healthy", ha="right", va="bottom", fontsize=SMALLEST)
    told = []
    for pairs in found:
        rate, narrowest = pair_rate(pairs, faults)
        last = pairs == max(found)  # beside it there is no room, and below a low rate is the dot that was found
        low = last and rate < PORT * pairs / 2
        ax.annotate(f"{rate:g}{chr(10) if last else ', '}{narrowest}", (pairs, rate),
                    (0, 9 if low else -9) if last else (8, -3), textcoords="offset points",
                    ha="center" if last else "left", va="bottom" if low else "top", fontsize=SMALLEST,
                    color=INK if narrowest == "ports" else LIMIT, weight="bold", zorder=5)  # fmt: skip
        told.append(f"{pairs} pairs: {rate:g} GB/s, held back by {narrowest}; found: {found[pairs]:g}")
    ax.set_xlabel("pairs of GPUs that send at the same time", fontsize=SMALLEST)
    ax.set_ylabel("GB/s out of a node", fontsize=SMALLEST)
    ax.set_ylim(bottom=-14)  # room below the words of low rates
    _key(ax, "with these faults, and what holds the pairs back", "upper left")
    names = " and ".join(faults) or "no fault"
    ax.set_title(f"With {names}: eight pairs get {pair_rate(max(found), faults)[0]:g} GB/s, one pair "
                 f"{pair_rate(min(found), faults)[0]:g}", fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(told))
    return ax


def _rates(ax: Axes, found: Mapping[int, float], faults: Iterable[str], most: float) -> None:
    """Draw the line of a network with these faults and the dots that were found, on axes up to `most` GB/s.

    Both axes are linear, so that pairs which don't disturb each other lie on a straight line.
    """
    would = [pair_rate(pairs, faults)[0] for pairs in found]  # between them a line for the eye
    ax.plot(list(found), would, "s-", color=INK, linewidth=1.4, markersize=5, zorder=4)
    ax.plot(list(found), list(found.values()), "o", color=NETWORK, markersize=10, zorder=3)
    ax.set(xticks=list(found), xlim=(0, max(found) + 0.6), ylim=(0, most))
    ax.tick_params(labelbottom=True)


def _key(ax: Axes, line: str, place: str) -> None:
    """Say what the line and the dots of `_rates` are."""
    ax.legend(ax.lines[:2], [line, "found at first"], loc=place, fontsize=SMALLEST, frameon=False)


def _worst(found: Mapping[int, float], faults: Iterable[str]) -> int:
    """Return for how many pairs these faults miss by most what was found, 0 where they fit all of it."""
    gives = {pairs: pair_rate(pairs, faults)[0] for pairs in found}
    off = {pairs: max(gives[pairs] / rate, rate / gives[pairs]) for pairs, rate in found.items()}
    worst = max(off, key=off.get)
    return worst if off[worst] > 1 + FITS else 0


def times_between_nodes(ways: Mapping[str, Mapping[str, float]], ax: Axes | None = None) -> Axes:
    """Draw how many times as long an all-reduce takes between nodes as inside one: `ways[who][by] = times`.

    What was measured has the colour of what is wrong and stands first, and last what the links allow.
    """
    rows = [(who, by, times) for who, each in ways.items() for by, times in each.items()]
    ax = new_axes(ax, 0.9 + 0.42 * len(rows))
    most = max(times for *_, times in rows)
    for row, (_, by, times) in enumerate(rows):
        ax.barh(row, times, 0.66, color=LIMIT if by.startswith("measured") else NETWORK)
        inside = times > 0.7 * most  # else the words stand beside the bar
        ax.text(times + (-0.01 if inside else 0.01) * most, row, f"{times:.2g}, {by}", va="center", weight="bold",
                ha="right" if inside else "left", fontsize=SMALLEST, color="white" if inside else INK)  # fmt: skip
    ax.axvline(1, color=INK, linewidth=1, linestyle=":")
    ax.set_yticks(range(len(rows)), [who for who, *_ in rows])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.02 * most), ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlabel("all-reduce: times as long between nodes as inside one (dotted: equally long)", fontsize=SMALLEST)
    pairs = [[f"{times:.2g}" for times in each.values()] for each in ways.values()]
    ax.set_title(f"{pairs[0][0]} times as long where the links allow {pairs[0][-1]}, and {pairs[-1][0]} where they "
                 f"allow {pairs[-1][-1]}", fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(f"{who}: {times:.2g} times as long, {by}" for who, by, times in rows))
    return ax
