"""What ranks can hold of one tensor, whole, cut or as summands, and what leads from one of these states to another."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import COLLECTIVE, FACES, GREY, INK, SMALLEST, TITLE, arrow, say, sheet

RANKS = 4
STATES = (  # name, what it says, where it stands
    ("whole", "every rank has all of it", 2.3),
    ("cut", "every rank has its own columns", 13.0),
    ("summands", "every rank has one term of a sum", 23.7),
)
WIDE, LOW, ROW = 6.0, 4.5, 1.1


def three_states(ax: Axes | None = None) -> Axes:
    """Draw a tensor on four ranks whole, cut and as summands; products lead to the right, messages back to the left."""
    ax = sheet(3.3, 31.5, 12.4, ax)
    title = "A product with a cut matrix needs no message; the way back always does"
    ax.set_title(title, fontsize=TITLE, loc="left")
    ax.set_ylim(0.6, 12.4)
    middle = {"ha": "center", "va": "center", "fontsize": SMALLEST, "color": INK}
    for name, words, x in STATES:
        ax.text(x + WIDE / 2, 11.9, name, **(middle | {"fontsize": TITLE, "weight": "bold"}))
        ax.text(x + WIDE / 2, 10.6, words, **middle)
        for rank in range(RANKS):
            y = LOW + (RANKS - 1 - rank) * (ROW + 0.15)
            of_rank = {"whole": (0, 1), "cut": (rank / RANKS, 1 / RANKS), "summands": (0, 1)}[name]
            colour = "white" if name == "whole" else FACES[rank]
            ax.add_patch(Rectangle((x, y), WIDE, ROW, facecolor="none", edgecolor=GREY, linewidth=0.6))
            at, share = (x + of_rank[0] * WIDE, y), of_rank[1] * WIDE
            ax.add_patch(Rectangle(at, share, ROW, facecolor=colour, edgecolor=INK, linewidth=0.9))
    for rank in range(RANKS):
        y = LOW + (RANKS - 0.5 - rank) * (ROW + 0.15) - 0.1
        ax.text(1.0, y, f"rank {rank}", **middle)
    for left, said, back in ((STATES[0][2] + WIDE, "× columns", "all-gather"),
                             (STATES[1][2] + WIDE, "× rows", "reduce-\nscatter")):  # fmt: skip
        right = left + STATES[1][2] - STATES[0][2] - WIDE
        arrow(ax, (left + 0.2, 8.3), (right - 0.2, 8.3), line=1.8)
        ax.text((left + right) / 2, 9.0, said, **middle)
        arrow(ax, (right - 0.2, 5.2), (left + 0.2, 5.2), colour=COLLECTIVE, line=2.4)
        ax.text((left + right) / 2, 5.6, back, **(middle | {"color": COLLECTIVE, "weight": "bold", "va": "bottom"}))
    ends = STATES[2][2] + WIDE / 2, STATES[0][2] + WIDE / 2
    ax.plot([ends[0], ends[0], ends[1]], [LOW - 0.3, 2.2, 2.2], color=COLLECTIVE, linewidth=2.4)
    arrow(ax, (ends[1], 2.15), (ends[1], LOW - 0.2), colour=COLLECTIVE, line=2.4)
    said = "all-reduce: a reduce-scatter, then an all-gather"
    ax.text(sum(ends) / 2, 1.3, said, **(middle | {"color": COLLECTIVE, "weight": "bold"}))
    say(ax, "A tensor on 4 ranks. Whole: every rank has all of it; cut: every rank has its own columns; summands: "
            "every rank has one term of a sum.\nWithout a message a product with columns makes whole into cut, "
            "and one with its rows makes cut into summands.\nBack lead messages: all-gather from cut to "
            "whole, reduce-scatter from summands to cut, all-reduce from summands to whole.")  # fmt: skip
    return ax
