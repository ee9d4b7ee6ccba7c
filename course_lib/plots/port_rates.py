"""What GPUs of two nodes sent each other below what their ports could carry, and how much longer a sum took."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.plots.canvas import INK, LIMIT, NETWORK, SMALLEST, TITLE, WIDTH, Picture, new_axes, say

HEALTHY = 0.96  # of a port, by what NVIDIA's engineers expect of one
SLOW_PORT = 2.2e9  # bytes/s of the bad cable that would make eight pairs as slow as they were
FITS = 0.1  # how far a prediction may be off, as a share of what was measured


def rates_below_ports(
    rates: Mapping[str, Mapping[int, float]], port: float, ax: Axes | None = None, *, limits: bool = False
) -> Axes:
    """Draw `rates[size][GPUs in each of two nodes]`, bytes per second, as per cent of what their `port`s carry.

    `limits` draws the last size only, once for each of four suspects and for the two that fit together, beside what
    they would give. Its figure has an Axes for each, and the first is returned.
    """
    if limits:
        return _suspects(*list(rates.items())[-1], port)
    ax = new_axes(ax, 3.7)
    told, columns, last = [], list(next(iter(rates.values()))), list(rates)[-1]
    wide = 0.8 / len(rates)
    sizes = [size.split()[0] for size in rates]
    for place, gpus in enumerate(columns):
        most = gpus * port
        ax.plot([place - 0.46, place + 0.46], [100, 100], color=INK, linewidth=1.6)
        ax.text(place, 102, f"{most / 1e9:g} GB/s", ha="center", va="bottom", fontsize=SMALLEST, weight="bold")
        for step, row in enumerate(rates.values()):
            x, share = place + wide * (step - (len(rates) - 1) / 2), 100 * row[gpus] / most
            ax.bar([x], [share], width=0.9 * wide, color=NETWORK)
            ax.text(x, share + 1, f"{row[gpus] / 1e9:.1f}", ha="center", va="bottom", fontsize=SMALLEST)
            ax.text(x, -2, sizes[step], ha="center", va="top", fontsize=SMALLEST)
        each = ", ".join(f"{row[gpus] / 1e9:.1f} GB/s with {size}" for size, row in rates.items())
        told.append(f"{gpus} + {gpus} GPUs: {each}, of {most / 1e9:g}")
    ax.text(len(columns) - 0.48, -2, last.split()[-1], va="top", fontsize=SMALLEST)
    best = max(row[gpus] / gpus / port for row in rates.values() for gpus in columns)
    for y, colour, words in ((84, INK, "line: what the ports could carry"),
                             (74, NETWORK, f"bars: measured GB/s, {next(iter(rates))} to {last}")):  # fmt: skip
        ax.text(-0.44, y, words, fontsize=SMALLEST, weight="bold", color=colour, va="center")
    ax.set_xticks(range(len(columns)), [f"{gpus} + {gpus} GPUs" for gpus in columns])
    ax.set_yticks([0, 25, 50, 75, 100], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.tick_params(axis="x", length=0, pad=16)
    ax.set(xlim=(-0.5, len(columns) - 0.15), ylim=(0, 112))
    ax.set_ylabel("of what the ports could carry", fontsize=SMALLEST)
    title = f"No bar comes near what its ports could carry: {100 * best:.0f} % at best"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _suspects(size: str, measured: Mapping[int, float], port: float) -> Axes:
    """Draw what was measured once for each suspect, with the rates that it would give if all else were healthy."""
    alone, most, healthy = round(measured[min(measured)], -8), max(measured), HEALTHY * port
    detour = {pairs: pairs * alone for pairs in measured}
    cable = {pairs: most * SLOW_PORT if pairs == most else pairs * healthy for pairs in measured}
    suspects = {
        f"1 · detour\n{alone / 1e9:.1f} GB/s for each pair": detour,
        f"2 · one card for all\n{healthy / 1e9:g} GB/s together": dict.fromkeys(measured, healthy),
        f"3 · bad cable\n{SLOW_PORT / 1e9:g} GB/s for each of {most} pairs": cable,
        f"4 · uplink\n{most * port / 2e9:g} GB/s, half of the ports": {
            pairs: min(pairs * healthy, most * port / 2) for pairs in measured},
        "1 and 3 together\nthe detour and the cable": {pairs: min(detour[pairs], cable[pairs]) for pairs in measured},
    }  # fmt: skip
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 5.0), layout="constrained", FigureClass=Picture, sharex=True,
                                sharey=True)  # fmt: skip
    figure.suptitle("No suspect alone gives what was measured; a detour and a bad cable together do", fontsize=TITLE,
                    x=0.01, ha="left")  # fmt: skip
    for ax, (name, left) in zip(axes.flat, suspects.items(), strict=False):
        new_axes(ax, 0)
        ax.plot(range(len(measured)), [left[pairs] / 1e9 for pairs in measured], color=INK, linewidth=2)
        ax.plot(range(len(measured)), [rate / 1e9 for rate in measured.values()], "o", color=NETWORK, markersize=8,
                zorder=3)  # fmt: skip
        worst, words = _verdict(left, measured)
        if worst:
            ends = measured[worst] / 1e9, left[worst] / 1e9
            ax.plot([list(measured).index(worst)] * 2, ends, ":", color=LIMIT, linewidth=3)
        ax.set_title(name, fontsize=SMALLEST, weight="bold", loc="left")
        ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=SMALLEST, weight="bold",
                color=LIMIT if worst else INK)  # fmt: skip
        ax.tick_params(labelbottom=True)
        say(ax, f"{', '.join(map(str, measured))} pairs would get {', '.join(f'{left[one] / 1e9:.1f}' for one in left)}"
                f" GB/s\n{' '.join(words.split())}")  # fmt: skip
    axes[0, 0].set(xticks=range(len(measured)), xticklabels=[f"{pairs}" for pairs in measured], yscale="log",
                   ylim=(4, 400), xlim=(-0.4, len(measured) - 0.6))  # fmt: skip
    axes[0, 0].yaxis.set_major_locator(FixedLocator([5, 10, 20, 50, 100]))
    axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0, 0].yaxis.set_minor_locator(NullLocator())
    for ax in axes[:, 0]:
        ax.set_ylabel("GB/s out of a node", fontsize=SMALLEST)
    for ax in (*axes[1, :2], axes[0, 2]):
        ax.set_xlabel("pairs of GPUs", fontsize=SMALLEST)
    key = axes[1, 2]
    key.axis("off")
    left, dots = axes[0, 0].lines[:2]
    each = ", ".join(f"{rate / 1e9:.1f}" for rate in measured.values())
    key.legend([dots, left], [f"measured with {size}:\n{each} GB/s", "what this suspect\nwould give"],
               loc="center left", fontsize=SMALLEST, frameon=False, labelspacing=1.2)  # fmt: skip
    say(key, f"measured with {size}: " + ", ".join(f"{rate / 1e9:.1f} GB/s by {pairs}"
                                                   for pairs, rate in measured.items()))  # fmt: skip
    return axes[0, 0]


def _verdict(left: Mapping[int, float], measured: Mapping[int, float]) -> tuple[int, str]:
    """Return for how many pairs rates miss by most what was measured, 0 where all fit, and the same in words."""
    off = {pairs: max(left[pairs] / rate, rate / left[pairs]) for pairs, rate in measured.items()}
    worst = max(off, key=off.get)
    if off[worst] < 1 + FITS:
        return 0, f"fits all {len(measured)} groups"
    pairs = f"{worst} pairs" if worst > 1 else "1 pair"
    return worst, f"{pairs}: {left[worst] / 1e9:.0f} where\n{measured[worst] / 1e9:.1f} was measured"


def times_between_nodes(ways: Mapping[str, tuple[str, float]], size: str = "64 MiB", ax: Axes | None = None) -> Axes:
    """Draw how many times as long an all-reduce of one `size` takes between nodes: `ways[name] = (who, times)`.

    A name that ends with "ill" is that of an ill cluster, in the colour of what is wrong.
    """
    ax = new_axes(ax, 0.9 + 0.42 * len(ways))
    most = max(times for _, times in ways.values())
    for row, (who, times) in enumerate(ways.values()):
        ax.barh(row, times, 0.66, color=LIMIT if [*ways][row].endswith("ill") else NETWORK)
        inside = times > 0.7 * most  # else the words stand beside the bar
        ax.text(times + (-0.01 if inside else 0.01) * most, row, f"{times:.2g}, {who}", va="center", weight="bold",
                ha="right" if inside else "left", fontsize=SMALLEST, color="white" if inside else INK)  # fmt: skip
    ax.axvline(1, color=INK, linewidth=1, linestyle=":")
    ax.set_yticks(range(len(ways)), ways)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.02 * most), ylim=(len(ways) - 0.5, -0.5))
    ax.set_xlabel(f"{size}: times as long between nodes as inside one (dotted: equally long)", fontsize=SMALLEST)
    last = list(ways.values())[-1][1]
    ax.set_title(f"{most:.0f} times as long on an ill cluster, {last:.1f} on a healthy one with all ports",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(f"{name}: {times:.2g} times as long, {who}" for name, (who, times) in ways.items()))
    return ax
