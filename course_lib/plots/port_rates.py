"""What GPUs of two nodes sent each other below what their ports could carry, and how much longer a sum took."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, new_axes, say

HEALTHY = 0.96  # of a port, by what NVIDIA's engineers expect of one
SLOW_PORT = 2.2e9  # bytes/s of the bad cable that would make eight pairs as slow as they were


def rates_below_ports(
    rates: Mapping[str, Mapping[int, float]], port: float, ax: Axes | None = None, *, limits: bool = False
) -> Axes:
    """Draw `rates[size][GPUs in each of two nodes]`, bytes per second, as per cent of what their `port`s carry.

    `limits` draws only the last size, and what each of four suspects would leave: each pair's own way, one card for
    all, one bad cable at the last port, and an uplink with half of the ports' rate.
    """
    ax = new_axes(ax, 3.7)
    if limits:
        rates = dict([list(rates.items())[-1]])
    told, columns, last = [], list(next(iter(rates.values()))), list(rates)[-1]
    wide, alone = (0.5 if limits else 0.8) / len(rates), rates[last][columns[0]]
    sizes = [size.split()[0] for size in rates]
    for place, gpus in enumerate(columns):
        most = gpus * port
        ax.plot([place - 0.46, place + 0.46], [100, 100], color=INK, linewidth=1.6)
        ax.text(place, 102, f"{most / 1e9:g} GB/s", ha="center", va="bottom", fontsize=SMALLEST, weight="bold")
        for step, row in enumerate(rates.values()):
            x, share = place + wide * (step - (len(rates) - 1) / 2), 100 * row[gpus] / most
            ax.bar([x], [share], width=0.9 * wide, color=BLUE)
            if limits:  # inside the bar, where no line crosses it
                ax.text(x, share / 2, f"{row[gpus] / 1e9:.1f}", ha="center", va="center", fontsize=SMALLEST,
                        weight="bold", color="white")  # fmt: skip
            else:
                ax.text(x, share + 1, f"{row[gpus] / 1e9:.1f}", ha="center", va="bottom", fontsize=SMALLEST)
            ax.text(x, -2, sizes[step], ha="center", va="top", fontsize=SMALLEST)
        each = ", ".join(f"{row[gpus] / 1e9:.1f} GB/s with {size}" for size, row in rates.items())
        told.append(f"{gpus} + {gpus} GPUs: {each}, of {most / 1e9:g}")
    ax.text(len(columns) - 0.48, -2, last.split()[-1], va="top", fontsize=SMALLEST)
    best = max(row[gpus] / gpus / port for row in rates.values() for gpus in columns)
    title = f"No bar comes near what its ports could carry: {100 * best:.0f} % at best"
    if limits:
        title = "What each suspect would leave: only 1 and 3 together fit all groups at 64 MiB"
        told += _suspects(ax, columns, alone, port)
    else:
        for y, colour, words in ((84, INK, "line: what the ports could carry"),
                                 (74, BLUE, f"bars: measured GB/s, {next(iter(rates))} to {last}")):  # fmt: skip
            ax.text(-0.44, y, words, fontsize=SMALLEST, weight="bold", color=colour, va="center")
    ax.set_xticks(range(len(columns)), [f"{gpus} + {gpus} GPUs" for gpus in columns])
    ax.set_yticks([0, 25, 50, 75, 100], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.tick_params(axis="x", length=0, pad=16)
    ax.set(xlim=(-0.5, len(columns) + (0.55 if limits else -0.15)), ylim=(0, 112))
    ax.set_ylabel("of what the ports could carry", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _suspects(ax: Axes, columns: list[int], alone: float, port: float) -> list[str]:
    """Draw four limits as shares of the ports, a line for each, and name them at the right."""
    most, end = columns[-1], len(columns) - 0.48
    own, slow, uplink = 100 * alone / port, 100 * SLOW_PORT / port, 50
    shared = [100 * HEALTHY / gpus for gpus in columns]
    ax.plot([-0.46, end - 0.06], [own, own], color=INK, linewidth=2, zorder=3)
    for place, share in enumerate(shared):
        ax.plot([place - 0.46, place + 0.46], [share, share], color=LIMIT, linewidth=2, linestyle="--", zorder=3)
    for share, line in ((slow, "-."), (uplink, ":")):
        ax.plot([end - 0.98, end - 0.06], [share, share], color=INK, linewidth=2, linestyle=line, zorder=3)
    names = ((uplink, "4 · uplink:\nhalf of the ports"), (own, f"1 · detour: {alone / 1e9:.1f}\nGB/s a pair"),
             (slow, f"3 · bad cable: {SLOW_PORT / 1e9:g},\nand all wait"))  # fmt: skip
    for y, words in names:
        ax.text(end, y, words, fontsize=SMALLEST, weight="bold", va="center")
    ax.text(0.54, shared[1] + 5, f"2 · one card for all: {HEALTHY * port / 1e9:g} GB/s together", fontsize=SMALLEST,
            weight="bold", color=LIMIT, va="center")  # fmt: skip
    return [f"1, a detour: {own:.1f} % with any number of pairs",
            "2, one card for all: " + ", ".join(f"{share:.0f} %" for share in shared),
            f"3, a bad cable at the last port, {SLOW_PORT / 1e9:g} GB/s: {slow:.1f} % with {most} pairs, which is "
            f"{most * SLOW_PORT / 1e9:.1f} GB/s", f"4, an uplink: {uplink} % with {most} pairs"]  # fmt: skip


def times_between_nodes(ways: Mapping[str, tuple[str, float]], size: str = "64 MiB", ax: Axes | None = None) -> Axes:
    """Draw how many times as long an all-reduce of one `size` takes between nodes: `ways[name] = (who, times)`.

    A name that ends with "ill" is that of an ill cluster, in orange.
    """
    ax = new_axes(ax, 0.9 + 0.42 * len(ways))
    most = max(times for _, times in ways.values())
    for row, (who, times) in enumerate(ways.values()):
        ax.barh(row, times, 0.66, color=LIMIT if [*ways][row].endswith("ill") else BLUE)
        inside = times > 0.7 * most  # else the words stand beside the bar
        ax.text(times + (-0.01 if inside else 0.01) * most, row, f"{times:.2g}, {who}", va="center", weight="bold",
                ha="right" if inside else "left", fontsize=SMALLEST, color="white" if inside else INK)  # fmt: skip
    ax.axvline(1, color=INK, linewidth=1, linestyle=":")
    ax.text(most, len(ways) - 1.0, "orange: ill\nblue: healthy", fontsize=SMALLEST, ha="right", va="center")
    ax.set_yticks(range(len(ways)), ways)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.02 * most), ylim=(len(ways) - 0.5, -0.5))
    ax.set_xlabel(f"{size}: times as long between nodes as inside one (dotted: equally long)", fontsize=SMALLEST)
    last = list(ways.values())[-1][1]
    ax.set_title(f"{most:.0f} times as long on an ill cluster, {last:.1f} on a healthy one with all ports",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(f"{name}: {times:.2g} times as long, {who}" for name, (who, times) in ways.items()))
    return ax
