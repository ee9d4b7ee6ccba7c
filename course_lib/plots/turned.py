"""Which of a few layouts is the fastest, by how many tensor messages are hidden and how late context ranks are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import GREY, INK, SMALLEST, TITLE, legend_below, new_axes, say
from course_lib.plots.mesh import CONTEXT

SHADES = 0.22, 0.5  # of the layouts with context ranks, in their order; the plain one is empty
KEPT = {0: "nothing", 0.25: "a quarter", 1: "all of it"}


def turned(without: Mapping[str, float], flagged: Mapping[str, float], plain: str, bet: str | None = None,
           kept: Sequence[float] = (0, 0.25, 1), longer: Sequence[float] = (0, 1, 7, 8, 17), ax: Axes | None = None,
           ) -> Axes:  # fmt: skip
    """Draw a table of worlds; each cell names the fastest layout and its lead over the second, or a tie below 1 %.

    A row is the share that is hidden of what a flag can hide, `without` − `flagged` seconds. A column is by how many
    percent all layouts but `plain` take longer than the formula says. Cells that a `bet` wins have a thick frame.
    """
    ax = new_axes(ax, 3.1)
    shades = dict.fromkeys(without, 0.0) | dict(zip((name for name in without if name != plain), SHADES, strict=True))
    told, won = [], 0
    for row, share in enumerate(kept):
        for column, percent in enumerate(longer):
            seconds = {name: (one + share * (flagged[name] - one)) * (1 + (name != plain) * percent / 100)
                       for name, one in without.items()}  # fmt: skip
            best, second = sorted(seconds, key=seconds.__getitem__)[:2]
            lead = 100 * (seconds[second] / seconds[best] - 1)
            tie, mine = lead < 1, best == bet and lead >= 1
            won += mine
            ax.add_patch(Rectangle((column, row), 1, 1, facecolor=GREY if tie else CONTEXT,
                                   alpha=0.35 if tie else shades[best], linewidth=0))  # fmt: skip
            ax.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=INK, linewidth=0.8))
            if mine:
                ax.add_patch(Rectangle((column + 0.03, row + 0.04), 0.94, 0.92, fill=False, edgecolor=INK, linewidth=3))
            words = (f"{best}\n{second}", "a tie") if tie else (best, f"{lead:.1f} % ahead")
            for y, word, size in zip((0.38, 0.78) if tie else (0.4, 0.74), words, (SMALLEST, SMALLEST) if tie else
                                     (TITLE, SMALLEST), strict=True):  # fmt: skip
                ax.text(column + 0.5, row + y, word, ha="center", va="center", fontsize=size, color=INK,
                        weight="bold" if word == words[0] else "normal", linespacing=1.0)  # fmt: skip
            told.append(f"{share:.0%} hidden, {percent} % longer: " + (f"{best} and {second} tie" if tie else
                                                                      f"{best} by {lead:.1f} %"))  # fmt: skip
    ax.set(xlim=(-0.02, len(longer) + 0.02), ylim=(len(kept) + 0.03, -0.03))
    ax.set_xticks([place + 0.5 for place in range(len(longer))], [f"{percent} %" for percent in longer])
    ax.set_yticks([place + 0.5 for place in range(len(kept))], [KEPT[share] for share in kept])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xlabel("context ranks take longer than the formula says", fontsize=SMALLEST)
    ax.set_ylabel("hidden of what\nthe flag can hide", fontsize=SMALLEST)
    legend_below(ax, [Patch(facecolor=CONTEXT if shade else "none", alpha=shade or None, edgecolor=INK, label=name)
                      for name, shade in shades.items()], 3)  # fmt: skip
    cells = len(kept) * len(longer)
    title = f"Your bet, {bet}, wins in {won} of {cells} cells" if bet in without else "The fastest layout of each cell"
    ax.set_title(f"{title}; grey: a tie, below 1 %", fontsize=TITLE, loc="left")
    say(ax, ". ".join(told))
    return ax
