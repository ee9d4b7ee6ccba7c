"""What leaves a node over the number of its GPUs that take part, beside the rate of one port."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, INK, LIMIT, SMALLEST, TITLE, new_axes, say


def rates_and_port(rates: Mapping[int, float], port: float, ax: Axes | None = None) -> Axes:
    """Draw `rates[GPUs in each node]`, bytes per second between two nodes, as bars below the rate of one `port`.

    Open circles: what as many connections would carry if each were as fast as the first one alone.
    """
    ax = new_axes(ax, 3.0)
    gpus = sorted(rates)
    one = rates[gpus[0]] / gpus[0] / 1e9
    places = range(len(gpus))
    bars = ax.bar(places, [rates[count] / 1e9 for count in gpus], width=0.6, color=BLUE)
    for place, bar in zip(places, bars, strict=True):
        ax.text(place, bar.get_height() / 2 - 0.4, f"{bar.get_height():.1f}", ha="center", va="center",
                fontsize=SMALLEST, weight="bold", color="white")  # fmt: skip
    ax.plot(places, [one * count for count in gpus], "o", color=INK, markersize=8, markerfacecolor="none",
            markeredgewidth=1.6)  # fmt: skip
    ax.annotate(f"circles: {one:.1f} for each GPU of a node", (places[-1], one * gpus[-1]), (-10, 0),
                textcoords="offset points", ha="right", va="center", fontsize=SMALLEST)  # fmt: skip
    ax.axhline(port / 1e9, color=LIMIT, linewidth=1.6, linestyle="--")
    ax.text(-0.42, port / 1e9 + 0.8, f"one port: {port / 1e9:g} GB/s", fontsize=SMALLEST, weight="bold", color=LIMIT,
            va="bottom")  # fmt: skip
    ax.set_xticks(places, [f"{count} + {count} GPUs" for count in gpus])
    ax.set(ylim=(0, max(one * gpus[-1], port / 1e9) * 1.12), xlim=(-0.5, len(gpus) - 0.5))
    ax.set_ylabel("GB/s between the nodes", fontsize=SMALLEST)
    ax.set_title("More GPUs carry more, but never more than one port would", fontsize=TITLE, loc="left")
    say(ax, "between two nodes, in GB/s: " + ", ".join(f"{rates[count] / 1e9:.1f} with {count} of each" for count
            in gpus) + f"; one port carries {port / 1e9:g}, and {one:.1f} for each GPU would make "
            + ", ".join(f"{one * count:.1f}" for count in gpus))  # fmt: skip
    return ax
