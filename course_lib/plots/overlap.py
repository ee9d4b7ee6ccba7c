"""An overlapped block: the exchanges of a forward hidden under the computing of a backward, and the other way round."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import BACKWARD, FORWARD, INK, SMALLEST, TITLE, WAITING, arrow, box, say, sheet


def overlapped_block(ax: Axes | None = None) -> Axes:
    """Draw one layer's forward and backward one after the other, and paired in one block FB."""
    ax = sheet(3.4, 26, 10.1, ax)
    ax.set_title("While the forward exchanges, the backward computes, and so on in turn", fontsize=TITLE, loc="left")
    alone = [("F", kind) for kind in "cxcx"] + [("B", kind) for kind in "xcxc"]
    _lanes(ax, 5.7, "one after the other", [(step, *what) for step, what in enumerate(alone)], 8)
    paired = [(0, "F", "c"), (1, "F", "x"), (2, "F", "c"), (3, "F", "x")]
    paired += [(0, "B", "x"), (1, "B", "c"), (2, "B", "x"), (3, "B", "c")]
    _lanes(ax, 0.4, "as one block FB", paired, 4)
    say(
        ax,
        "one after the other, the eight steps of a forward and a backward take 8 units, and computing and network are "
        "each idle for half of them; as one block FB they take 4 units, with both busy all the time",
    )
    return ax


def _lanes(ax: Axes, low: float, name: str, steps: list, until: int) -> None:
    """Draw two lanes, computing above network, with a box for each (unit, F or B, c or x)."""
    left, unit, high = 5.6, 2.4, 1.4
    for kind, words in (("c", "computing"), ("x", "network")):
        y = low + (1.6 if kind == "c" else 0.0)
        ax.text(left - 0.3, y + high / 2, words, ha="right", va="center", fontsize=SMALLEST)
        for at in range(until):
            done = [what for when, what, lane in steps if when == at and lane == kind]
            colour = (FORWARD if done[0] == "F" else BACKWARD) if done else WAITING
            box(ax, left + unit * at + 0.05, y, unit - 0.1, high, colour, done[0] if done else "")
    arrow(ax, (left, low + 3.5), (left + unit * until, low + 3.5), "|-|,widthA=0.3,widthB=0.3", colour=INK, line=1.4)
    place = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    words = f"{name}: {until} units"
    ax.text(left + unit * until / 2, low + 3.5, words, ha="center", va="center", fontsize=SMALLEST, bbox=place)
