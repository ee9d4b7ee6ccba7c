"""What GPUs of two nodes sent each other below what their ports could carry, and how much longer a sum took."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, WAITING, new_axes, say


def rates_below_ports(
    rates: Mapping[int, float], port: float, others: Mapping[str, Mapping[int, float]] | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw `rates[GPUs in each of two nodes]`, bytes per second, in front of what a `port` for each GPU would carry.

    `others[size]` are the rates with tensors of other sizes, drawn as dots.
    """
    ax = new_axes(ax, 3.2)
    told = [f"dots, {size}: " + ", ".join(f"{rate / 1e9:.1f} GB/s on {gpus} + {gpus}" for gpus, rate in row.items())
            for size, row in (others or {}).items()]  # fmt: skip
    for place, row in enumerate((others or {}).values()):
        ax.plot([bar + 0.12 * (place - 1) for bar in range(len(row))], [rate / 1e9 for rate in row.values()], "o",
                color="white", markeredgecolor=INK, markersize=4, zorder=4)  # fmt: skip
    for place, (gpus, rate) in enumerate(rates.items()):
        most, got = gpus * port / 1e9, rate / 1e9
        ax.bar([place], [most], width=0.74, color=WAITING, edgecolor=INK, linewidth=0.8)
        ax.bar([place], [got], width=0.74, color=BLUE)
        ax.text(place, most + 3, f"{got:.1f} of {most:g}", ha="center", va="bottom", fontsize=SMALLEST, weight="bold",
                color=BLUE)  # fmt: skip
        told.append(f"{gpus} + {gpus} GPUs: {got:.1f} GB/s of {most:g}, {got / gpus:.1f} for each pair")
    first, *_, many = rates
    alone = rates[first] / first / 1e9
    for place, gpus in enumerate(rates):  # what there would be if nothing were shared
        if place:
            ax.plot([place - 0.37, place + 0.37], [gpus * alone] * 2, color=INK, linewidth=1.8, zorder=3)
    ax.text(len(rates) - 1, many * alone + 3, f"if nothing were\nshared: {many * alone:.0f}", fontsize=SMALLEST,
            ha="center", va="bottom")  # fmt: skip
    told.append(f"black lines: if nothing were shared, each pair would get {alone:.1f} GB/s, as one alone does, and "
                f"{many} pairs {many * alone:.0f}")  # fmt: skip
    ax.axhline(port / 1e9, color=LIMIT, linewidth=1.4, linestyle="--", zorder=3)
    last = len(rates) - 1
    ax.text(last + 0.42, port / 1e9 + 4, f"dashed: one\nport, {port / 1e9:g} GB/s", fontsize=SMALLEST, weight="bold",
            color=LIMIT, va="bottom")  # fmt: skip
    legend = [(0.88, INK, "grey: what their ports could carry"), (0.76, BLUE, "blue: bus bandwidth, measured")]
    if others:
        legend.append((0.64, INK, f"dots: with {', '.join(others)}"))
    for high, colour, words in legend:
        ax.text(-0.3, high * max(rates) * port / 1e9, words, fontsize=SMALLEST, weight="bold", color=colour)
    ax.set_xticks(range(len(rates)), [f"{gpus} + {gpus} GPUs:\n{rate / gpus / 1e9:.1f} for each pair"
                                      for gpus, rate in rates.items()])  # fmt: skip
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(-0.6, last + 1.15), ylim=(0, 1.12 * max(rates) * port / 1e9))
    ax.set_ylabel("GB/s between two nodes", fontsize=SMALLEST)
    most, best = max(rates) * port / 1e9, max(rates.values()) / 1e9
    under = ", less than one port" if best < port / 1e9 else ""
    ax.set_title(f"The ports could carry {most:g} GB/s; the GPUs got {best:.0f} at best{under}", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join([*told, f"a dashed line: one port, {port / 1e9:g} GB/s"]))
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
