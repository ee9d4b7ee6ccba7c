"""What GPUs of two nodes sent each other below what their ports could carry, and how much longer a sum took."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, WAITING, new_axes, say

HIGHEST = 62  # GB/s: what the ports could carry above this is cut off, and told


def rates_below_ports(
    rates: Mapping[str, Mapping[int, float]], port: float, ax: Axes | None = None, *, limits: bool = False
) -> Axes:
    """Draw `rates[size][GPUs in each of two nodes]`, bytes per second, in front of what their `port`s carry.

    `limits` draws two more lines: what one port carries, and as many times what one pair gets as there are pairs.
    """
    ax = new_axes(ax, 3.6)
    told, rows = [], {size: {gpus: rate / 1e9 for gpus, rate in row.items()} for size, row in rates.items()}
    columns, last = list(next(iter(rows.values()))), list(rows)[-1]
    wide, alone = 0.8 / len(rows), rows[last][columns[0]]
    sizes = [size.split()[0] for size in rows]
    for place, gpus in enumerate(columns):
        most = gpus * port / 1e9
        ax.bar([place], [min(most, HIGHEST)], width=0.92, color=WAITING)
        ax.text(place, min(most, HIGHEST) - 1, f"{most:g}{' ↑' if most > HIGHEST else ''}", ha="center", va="top",
                fontsize=SMALLEST, weight="bold")  # fmt: skip
        for step, row in enumerate(rows.values()):
            x = place + wide * (step - (len(rows) - 1) / 2)
            ax.bar([x], [row[gpus]], width=0.9 * wide, color=BLUE)
            if not limits:  # whose lines would cross the numbers
                ax.text(x, row[gpus] + 0.9, f"{row[gpus]:.1f}", ha="center", va="bottom", fontsize=SMALLEST)
            ax.text(x, -1.2, sizes[step], ha="center", va="top", fontsize=SMALLEST)
        each = ", ".join(f"{row[gpus]:.1f} GB/s with {size}" for size, row in rows.items())
        told.append(f"{gpus} + {gpus} GPUs: {each}, of {most:g}")
        if limits:
            ax.plot([place - 0.46, place + 0.46], [min(gpus * alone, HIGHEST)] * 2, color=INK, linewidth=1.8, zorder=3)
    ax.text(len(columns) - 0.48, -1.2, last.split()[-1], va="top", fontsize=SMALLEST)
    for high, colour, words in ((0.92, INK, "grey: what their ports could carry"),
                                (0.82, BLUE, f"blue: measured, {next(iter(rows))} to {last}")):  # fmt: skip
        ax.text(-0.44, high * HIGHEST, words, fontsize=SMALLEST, weight="bold", color=colour)
    best = max(max(row.values()) for row in rows.values())
    title = "No bar comes near what its ports could carry"
    if limits:
        title = "Two limits: each pair's own way, and something that all pairs share"
        ax.plot([-0.5, len(columns) - 0.54], [port / 1e9] * 2, color=LIMIT, linewidth=1.4, linestyle="--", zorder=3)
        for y, colour, words in ((port / 1e9, LIMIT, f"dashed: one\nport, {port / 1e9:g}"),
                                 (columns[-1] * alone, INK, f"own way: as many\npairs times {alone:.1f}")):  # fmt: skip
            ax.text(len(columns) - 0.48, y, words, fontsize=SMALLEST, weight="bold", color=colour, va="center")
        told += [f"a dashed line: one port, {port / 1e9:g} GB/s; the best rate is {best:.1f}",
                 f"a black line in each group: as many times what one pair gets as there are pairs, at the right "
                 f"{columns[-1] * alone:.0f}"]  # fmt: skip
    ax.set_xticks(range(len(columns)), [f"{gpus} + {gpus} GPUs" for gpus in columns])
    ax.tick_params(axis="x", length=0, pad=16)
    ax.set(xlim=(-0.5, len(columns) + (0.4 if limits else -0.15)), ylim=(0, HIGHEST))
    ax.set_ylabel("GB/s between two nodes", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


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
