"""What leaves a node over the number of its GPUs and the size of the tensor, beside the rate of one port."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course_lib.plots.canvas import BLUE, FACES, INK, LIMIT, SMALLEST, TITLE, new_axes, say


def rates_and_port(rates: Mapping[int, Mapping[int, float]], port: float, ax: Axes | None = None) -> Axes:
    """Draw `rates[MiB][GPUs in each node]`, bytes per second between two nodes, as bars below the rate of one `port`.

    Black strokes: what as many connections would carry if each were as fast as the one between two GPUs alone.
    """
    ax = new_axes(ax, 3.5)
    sizes = sorted(rates)
    gpus = sorted(rates[sizes[0]])
    one = rates[sizes[-1]][gpus[0]] / gpus[0] / 1e9
    wide = 0.8 / len(sizes)
    ticks, names = [], []
    for group, count in enumerate(gpus):
        for place, size in enumerate(sizes):
            x = group - 0.4 + wide * (place + 0.5)
            rate = rates[size][count] / 1e9
            last = size == sizes[-1]
            ax.bar([x], [rate], width=0.92 * wide, color=BLUE if last else FACES[0])
            ax.text(x, rate - 0.7, f"{rate:.1f}", ha="center", va="top", fontsize=SMALLEST, weight="bold",
                    color="white" if last else INK)  # fmt: skip
            ticks.append(x)
            names.append(f"{size} MiB")
        ax.plot([group - 0.42, group + 0.42], [one * count] * 2, color=INK, linewidth=1.6)
        ax.text(group, -6.4, f"{count} + {count} GPUs", ha="center", va="top", fontsize=SMALLEST,
                weight="bold")  # fmt: skip
    ax.text(len(gpus) - 1 - 0.46, one * gpus[-1], f"black: {one:.1f} GB/s for each\nGPU of a node", ha="right",
            va="center", fontsize=SMALLEST)  # fmt: skip
    ax.axhline(port / 1e9, color=LIMIT, linewidth=1.6, linestyle="--", zorder=0)
    ax.text(-0.46, port / 1e9 + 0.8, f"one port: {port / 1e9:g} GB/s", fontsize=SMALLEST, weight="bold", color=LIMIT,
            va="bottom")  # fmt: skip
    for group, count in enumerate(gpus[1:], start=1):  # as slow as one connection, although more could work
        if rates[sizes[0]][count] / 1e9 < 1.1 * one:
            x = group - 0.4 + wide / 2
            ax.annotate("no more than\nwith 1 + 1", (x, one + 0.4), (x - 0.28, 19.5), fontsize=SMALLEST,
                        weight="bold", ha="center", va="center", arrowprops={"arrowstyle": "-|>", "color": INK})
    ax.set_xticks(ticks, names)
    ax.tick_params(axis="x", length=0)
    ax.set(ylim=(0, max(one * gpus[-1], port / 1e9) * 1.08), xlim=(-0.5, len(gpus) - 0.5))
    ax.set_ylabel("GB/s between the nodes", fontsize=SMALLEST)
    ax.set_title("64 MiB: twice the GPUs carry twice as much, but never more than one port", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "\n".join([*(f"between two nodes, in GB/s with {size} MiB: " + ", ".join(
        f"{rates[size][count] / 1e9:.1f} with {count} + {count} GPUs" for count in gpus) for size in sizes),
        f"one port carries {port / 1e9:g}, and {one:.1f} for each GPU would make "
        + ", ".join(f"{one * count:.1f}" for count in gpus)]))  # fmt: skip
    return ax
