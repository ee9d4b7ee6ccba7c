"""An overlapped block: the exchanges of a forward hidden under the computing of a backward, and the other way round."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import BACKWARD, FORWARD, INK, SMALLEST, TITLE, WAITING, arrow, box, say, sheet


def overlapped_block(ax: Axes | None = None) -> Axes:
    """Draw one layer's forward and backward one after the other, and paired in one block FB; each step has its name."""
    ax = sheet(3.4, 26, 10.1, ax)
    words = "While micro-batch 9's forward exchanges, micro-batch 5's backward computes"
    ax.set_title(words, fontsize=TITLE, loc="left")
    steps = list(zip("cxcx", ("attention", "dispatch", "experts", "combine"), strict=True))
    alone = [("F9", *step) for step in steps] + [("B5", *step) for step in reversed(steps)]
    _lanes(ax, 5.7, "one after the other", [(step, *what) for step, what in enumerate(alone)], 8)
    paired = [(at % 4, *step) for at, step in enumerate(alone)]
    _lanes(ax, 0.4, "as one block FB", paired, 4)
    say(
        ax,
        "one after the other, the eight steps of micro-batch 9's forward (attention, dispatch, experts, combine) and "
        "of micro-batch 5's backward (the same from the last to the first) take 8 units, and computing and network are "
        "each idle for half of them; as one block FB they take 4 units, with both busy all the time",
    )
    return ax


def _lanes(ax: Axes, low: float, name: str, steps: list, until: int) -> None:
    """Draw two lanes, computing above network, with a box for each (unit, F9 or B5, c or x, name)."""
    left, unit, high = 5.6, 2.4, 1.4
    for kind, words in (("c", "computing"), ("x", "network")):
        y = low + (1.6 if kind == "c" else 0.0)
        ax.text(left - 0.3, y + high / 2, words, ha="right", va="center", fontsize=SMALLEST)
        for at in range(until):
            done = [(what, step) for when, what, lane, step in steps if when == at and lane == kind]
            colour = (FORWARD if done[0][0][0] == "F" else BACKWARD) if done else WAITING
            box(ax, left + unit * at + 0.05, y, unit - 0.1, high, colour, "\n".join(done[0]) if done else "")
    arrow(ax, (left, low + 3.5), (left + unit * until, low + 3.5), "|-|,widthA=0.3,widthB=0.3", colour=INK, line=1.4)
    place = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    words = f"{name}: {until} units"
    ax.text(left + unit * until / 2, low + 3.5, words, ha="center", va="center", fontsize=SMALLEST, bbox=place)
