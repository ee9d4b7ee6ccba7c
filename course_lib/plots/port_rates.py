"""What GPUs of two nodes sent each other below what their ports could carry, and how much longer a sum took."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, WAITING, new_axes, say

HIGHEST = 62  # GB/s: what the ports could carry above this is cut off, and told


def rates_below_ports(rates: Mapping[str, Mapping[int, float]], port: float, ax: Axes | None = None) -> Axes:
    """Draw `rates[size][GPUs in each of two nodes]`, bytes per second, in front of what their `port`s carry."""
    ax = new_axes(ax, 3.5)
    told, rows = [], {size: {gpus: rate / 1e9 for gpus, rate in row.items()} for size, row in rates.items()}
    columns, last = list(next(iter(rows.values()))), list(rows)[-1]
    wide = 0.8 / len(rows)
    for place, gpus in enumerate(columns):
        most = gpus * port / 1e9
        ax.bar([place], [min(most, HIGHEST)], width=0.92, color=WAITING)
        ax.text(place, min(most, HIGHEST) - 1, f"{most:g}{' ↑' if most > HIGHEST else ''}", ha="center", va="top",
                fontsize=SMALLEST, weight="bold")  # fmt: skip
        for step, (size, row) in enumerate(rows.items()):
            x = place + wide * (step - (len(rows) - 1) / 2)
            ax.bar([x], [row[gpus]], width=0.9 * wide, color=BLUE, alpha=1 if size == last else 0.62)
            ax.text(x, row[gpus] + 0.9, f"{row[gpus]:.1f}", ha="center", va="bottom", fontsize=SMALLEST, zorder=4,
                    bbox={"facecolor": WAITING, "edgecolor": "none", "pad": 0.5})  # fmt: skip
        each = ", ".join(f"{row[gpus]:.1f} GB/s with {size}" for size, row in rows.items())
        told.append(f"{gpus} + {gpus} GPUs: {each}, of {most:g}")
    ax.plot([-0.5, len(columns) - 0.54], [port / 1e9] * 2, color=LIMIT, linewidth=1.4, linestyle="--", zorder=3)
    many, alone = columns[-1], rows[last][columns[0]]
    ax.plot([len(columns) - 1.46, len(columns) - 0.54], [many * alone] * 2, color=INK, linewidth=1.8, zorder=3)
    for y, colour, words in ((port / 1e9, LIMIT, f"dashed: one\nport, {port / 1e9:g}"),
                             (many * alone, INK, f"{many} times what\none pair gets: {many * alone:.0f}")):  # fmt: skip
        ax.text(len(columns) - 0.48, y, words, fontsize=SMALLEST, weight="bold", color=colour, va="center")
    for high, colour, words in ((0.92, INK, "grey: what their ports could carry"),
                                (0.82, BLUE, f"blue: measured, {next(iter(rows))} to {last}")):  # fmt: skip
        ax.text(-0.44, high * HIGHEST, words, fontsize=SMALLEST, weight="bold", color=colour)
    ax.set_xticks(range(len(columns)), [f"{gpus} + {gpus} GPUs" for gpus in columns])
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(-0.5, len(columns) + 0.3), ylim=(0, HIGHEST))
    ax.set_ylabel("GB/s between two nodes", fontsize=SMALLEST)
    most, best = many * port / 1e9, max(max(row.values()) for row in rows.values())
    under = ", less than one port" if best < port / 1e9 else ""
    ax.set_title(f"The ports could carry {most:g} GB/s; the GPUs got {best:.0f} at best{under}", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join([*told, f"a dashed line: one port, {port / 1e9:g} GB/s",
                       f"a black line: {many} times what one pair gets, {many * alone:.0f}"]))  # fmt: skip
    return ax


def times_between_nodes(ways: Mapping[str, tuple[str, float]], ax: Axes | None = None) -> Axes:
    """Draw how many times as long an all-reduce takes between nodes as inside one: `ways[name] = (who, times)`.

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
    ax.set_xlabel("times as long between nodes as inside one (dotted: equally long)", fontsize=SMALLEST)
    last = list(ways.values())[-1][1]
    ax.set_title(f"{most:.0f} times as long on an ill cluster, {last:.1f} on a healthy one with all ports",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(f"{name}: {times:.2g} times as long, {who}" for name, (who, times) in ways.items()))
    return ax
