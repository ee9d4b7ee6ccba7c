"""What some GPUs of two nodes sent each other, below what their ports could carry."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, WAITING, new_axes, say


def rates_below_ports(rates: Mapping[int, float], port: float, ax: Axes | None = None) -> Axes:
    """Draw `rates[GPUs in each of two nodes]`, bytes per second, in front of what a `port` for each GPU would carry."""
    ax = new_axes(ax, 3.2)
    told = []
    for place, (gpus, rate) in enumerate(rates.items()):
        most, got = gpus * port / 1e9, rate / 1e9
        ax.bar([place], [most], width=0.74, color=WAITING, edgecolor=INK, linewidth=0.8)
        ax.bar([place], [got], width=0.74, color=BLUE)
        ax.text(place, most + 3, f"{got:.1f} of {most:g}", ha="center", va="bottom", fontsize=SMALLEST, weight="bold",
                color=BLUE)  # fmt: skip
        told.append(f"{gpus} + {gpus} GPUs: {got:.1f} GB/s of {most:g}")
    ax.axhline(port / 1e9, color=LIMIT, linewidth=1.4, linestyle="--", zorder=3)
    last = len(rates) - 1
    ax.text(last + 0.42, port / 1e9 + 4, f"dashed: one\nport, {port / 1e9:g} GB/s", fontsize=SMALLEST, weight="bold",
            color=LIMIT, va="bottom")  # fmt: skip
    legend = (0.88, INK, "grey: what their ports could carry"), (0.76, BLUE, "blue: measured, if a ring did it")
    for high, colour, words in legend:
        ax.text(-0.3, high * max(rates) * port / 1e9, words, fontsize=SMALLEST, weight="bold", color=colour)
    ax.set_xticks(range(len(rates)), [f"{gpus} + {gpus} GPUs" for gpus in rates])
    ax.tick_params(axis="x", length=0)
    ax.set(xlim=(-0.6, last + 1.15), ylim=(0, 1.12 * max(rates) * port / 1e9))
    ax.set_ylabel("GB/s between two nodes", fontsize=SMALLEST)
    most, best = max(rates) * port / 1e9, max(rates.values()) / 1e9
    under = ", less than one port" if best < port / 1e9 else ""
    ax.set_title(f"The ports could carry {most:g} GB/s; the GPUs got {best:.0f} at best{under}", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join([*told, f"a dashed line: one port, {port / 1e9:g} GB/s"]))
    return ax


def ports_beside_nvlink(link: float, port: float, ports: int = 8, ax: Axes | None = None) -> Axes:
    """Draw what one port and all `ports` of a node carry, bytes per second, below what NVLink gives a GPU."""
    ax = new_axes(ax, 1.7)
    rows = {"a GPU's NVLink": (link, INK), "one port": (port, LIMIT), f"a node's {ports} ports": (ports * port, BLUE)}
    for row, (rate, colour) in enumerate(rows.values()):
        ax.barh(row, rate / 1e9, 0.66, color=colour)
        ax.text(rate / 1e9 + 0.015 * link / 1e9, row, f"{rate / 1e9:g}", va="center", fontsize=SMALLEST, weight="bold")
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.1 * max(link, ports * port) / 1e9), ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlabel("GB/s in each direction, by the data sheet", fontsize=SMALLEST)
    ax.set_title(f"One port is {link / port:.0f} times as narrow as NVLink; all ports together are nearly as wide",
                 fontsize=TITLE, loc="left")  # fmt: skip
    say(ax, "\n".join(f"{name}: {rate / 1e9:g} GB/s" for name, (rate, _) in rows.items()))
    return ax
