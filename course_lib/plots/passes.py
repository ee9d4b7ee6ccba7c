"""What the messages of one training step take by each way over the number of nodes, beside its computing."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.plots.canvas import BLUE, COMPUTE, INK, ORANGE, SMALLEST, TITLE, new_axes, say
from course_lib.plots.protocols import PALE


def step_over_nodes(
    ways: Mapping[str, Mapping[int, float]], computing: float, model: str, ax: Axes | None = None,
    half: float | None = None,
) -> Axes:  # fmt: skip
    """Draw `ways[name][nodes]`, the seconds of a step's messages, and a line for the seconds of its `computing`.

    The title says on how many nodes the first way takes longer than the computing. A third way is dashed.
    `half`: the seconds of computing with half the tokens, for a second line.
    """
    ax = new_axes(ax, 3.4)
    told = [f"computing: {computing:.2f} s"]
    for place, (name, taken) in enumerate(ways.items()):
        ends, seconds = list(taken), list(taken.values())
        colour = ORANGE if place else BLUE
        ax.plot(ends, seconds, "o--" if place > 1 else "o-", color=colour, linewidth=2.4, markersize=5)
        ax.annotate(f"{name}\n{seconds[-1]:.2f} s", (ends[-1], seconds[-1]), (8, 0), textcoords="offset points",
                    fontsize=SMALLEST, weight="bold", color=INK if place else colour, va="center",
                    annotation_clip=False, bbox=PALE if place else None)  # fmt: skip
        told.append(f"{name}: " + ", ".join(f"{one:.2f} s on {nodes}" for nodes, one in taken.items()))
    nodes = list(next(iter(ways.values())))
    ax.axhline(computing, color=COMPUTE, linewidth=2)
    ax.text(nodes[0], computing * 1.03, f"the GPUs compute: {computing:.2f} s", fontsize=SMALLEST, weight="bold",
            color=COMPUTE, va="bottom")  # fmt: skip
    if half:
        ax.axhline(half, color=COMPUTE, linewidth=1.4, linestyle=(0, (4, 3)))
        ax.text(nodes[0], half + 0.03 * computing, f"with half the tokens: {half:.2f} s", fontsize=SMALLEST,
                color=COMPUTE, va="bottom")  # fmt: skip
        told.append(f"computing with half the tokens: {half:.2f} s")
    first, second = [*ways.values()][0], [*ways.values()][min(1, len(ways) - 1)]
    faster = next((count for count in nodes if second[count] < first[count]), None)
    longest = max(max(taken.values()) for taken in ways.values())
    ax.set(xscale="log", xlim=(0.9 * nodes[0], nodes[-1]), ylim=(0, 1.12 * max(longest, computing)))
    ax.xaxis.set_major_locator(FixedLocator(nodes))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"nodes of eight GPUs, {model}", fontsize=SMALLEST)
    ax.set_ylabel("seconds in each step", fontsize=SMALLEST)
    title, late = "The messages of a step", next((count for count in nodes if first[count] > computing), None)
    if late:
        title = f"On {late} nodes {next(iter(ways))} take longer than the computing"
        ax.plot([late], [first[late]], "o", markersize=13, markerfacecolor="none", markeredgecolor=INK, zorder=5,
                clip_on=False)  # fmt: skip
        told.append(title)
    if faster:
        told.append(f"from {faster} nodes on {list(ways)[1]} are faster")
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
