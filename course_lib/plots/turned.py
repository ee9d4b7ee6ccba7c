"""Which of a few layouts is the fastest, by how much of its promise a flag keeps and how late context ranks are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import INK, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.mesh import CONTEXT

SHADES = 0.22, 0.5  # of the layouts with context ranks, in their order; the plain one is empty
KEPT = {0: "nothing", 0.25: "a quarter,\nas measured", 1: "all of it"}


def turned(without: Mapping[str, float], flagged: Mapping[str, float], plain: str, kept: Sequence[float] = (0, 0.25, 1),
           longer: Sequence[float] = (0, 1, 7, 8, 17), ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw a table of worlds; each cell names the fastest layout and its lead over the second, a tie below 1 %.

    A row is the share that a flag keeps of its promise, `without` − `flagged` seconds. A column is by how many percent
    all layouts but `plain` take longer than the formula says.
    """
    ax = new_axes(ax, 3.1)
    shades = dict.fromkeys(without, 0.0) | dict(zip((name for name in without if name != plain), SHADES, strict=True))
    told, winners = [], set()
    for row, share in enumerate(kept):
        for column, percent in enumerate(longer):
            seconds = {name: (one + share * (flagged[name] - one)) * (1 + (name != plain) * percent / 100)
                       for name, one in without.items()}  # fmt: skip
            best, second = sorted(seconds, key=seconds.__getitem__)[:2]
            winners.add(best)
            lead = 100 * (seconds[second] / seconds[best] - 1)
            ax.add_patch(Rectangle((column, row), 1, 1, facecolor=CONTEXT, alpha=shades[best], linewidth=0))
            ax.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=INK, linewidth=0.8))
            ax.text(column + 0.5, row + 0.4, best, ha="center", va="center", fontsize=TITLE, weight="bold", color=INK)
            ax.text(column + 0.5, row + 0.74, f"{lead:.1f} % ahead" if lead >= 1 else f"a tie: {lead:.1f} %",
                    ha="center", va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
            told.append(f"{share:.0%} of the promise, {percent} % longer: {best} by {lead:.1f} %")
    ax.set(xlim=(-0.01, len(longer) + 0.01), ylim=(len(kept) + 0.01, -0.01))
    ax.set_xticks([place + 0.5 for place in range(len(longer))], [f"{percent} %" for percent in longer])
    ax.set_yticks([place + 0.5 for place in range(len(kept))], [KEPT[share] for share in kept])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xlabel("context ranks take longer than the formula says", fontsize=SMALLEST)
    ax.set_ylabel("the flag keeps of\nits promise", fontsize=SMALLEST)
    legend_below(ax, [Patch(facecolor=CONTEXT if shade else "none", alpha=shade or None, edgecolor=INK, label=name)
                      for name, shade in shades.items()], 3)  # fmt: skip
    title = "Each layout wins somewhere" if len(winners) == len(without) else "Only some layouts win"
    ax.set_title(f"{title}; below, how far it is ahead of the second", fontsize=TITLE, loc="left")
    say(ax, ". ".join(told))
    return ax
