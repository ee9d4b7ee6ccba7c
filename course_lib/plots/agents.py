"""Two disasters under torchrun: who notices, who is ended, and which processes are new afterwards."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import LIMIT, SMALLEST, TITLE, arrow, box, say, sheet

DEAD, ALIVE = "#E6E6E6", "#A8DCCB"
ENDED = "#888888"


def agents_and_workers(ax: Axes | None = None) -> Axes:
    """Draw a worker that dies and a machine that dies: above the agents the old workers, below them the new ones."""
    ax = sheet(4.2, 41.0, 21.0, ax)
    ax.set_title("One death ends every worker of the job; here a living agent starts new ones", fontsize=TITLE,
                 loc="left")  # fmt: skip
    for x, words in ((0.3, "a worker dies"), (21.9, "a machine dies")):
        ax.text(x, 20.0, words, va="center", fontsize=SMALLEST, weight="bold")
    ax.plot([20.6, 20.6], [0.4, 20.4], color="#BBBBBB", linewidth=1.0)
    _agent(ax, 1.0, 18.2)
    for place, left in enumerate((1.0, 11.2)):
        _worker(ax, left, 14.4, place, dead=LIMIT if place else ENDED)
        _worker(ax, left, 0.6, place)
        arrow(ax, (left + 4.0, 7.6), (left + 4.0, 3.4))
    arrow(ax, (5.0, 9.9), (5.0, 14.2))
    ax.text(5.5, 12.0, "2. the agent ends it", va="center", fontsize=SMALLEST)
    ax.text(15.2, 18.2, "1. killed", ha="center", va="center", fontsize=SMALLEST, color=LIMIT, weight="bold")
    ax.text(5.0, 18.2, "healthy", ha="center", va="center", fontsize=SMALLEST)
    ax.text(10.1, 5.5, "3. starts both\nagain", ha="center", va="center", fontsize=SMALLEST)
    for place, left in enumerate((21.9, 32.1)):
        _worker(ax, left, 14.4, place, dead=LIMIT if place else ENDED)
        _agent(ax, left, 8.0, dead=place == 1)
    ax.text(25.9, 18.2, "healthy", ha="center", va="center", fontsize=SMALLEST)
    ax.text(22.0, 12.0, "2. fails: the connection\nto its partner is lost", va="center", fontsize=SMALLEST)
    ax.text(36.1, 18.2, "1. killed, and its agent", ha="center", va="center", fontsize=SMALLEST, color=LIMIT,
            weight="bold")  # fmt: skip
    arrow(ax, (25.9, 7.6), (25.9, 3.4))
    ax.text(26.4, 5.5, "3. starts one worker, alone", va="center", fontsize=SMALLEST)
    _worker(ax, 21.9, 0.6, 0)
    say(ax, "a worker dies: worker 1 is killed, its agent ends the healthy worker 0 and starts both again; "
            "a machine dies: agent 1 and its worker are killed, worker 0 fails because the connection to its partner "
            "is lost, and its agent goes on alone with a single new worker")  # fmt: skip
    return ax


def _agent(ax: Axes, left: float, wide: float, dead: bool = False) -> None:
    box(ax, left, 7.6, wide, 2.3, DEAD if dead else ALIVE, "" if dead else "agent (torchrun)")
    if dead:
        _cross(ax, left, 7.6, 2.3, LIMIT, "agent (torchrun)")


def _worker(ax: Axes, left: float, bottom: float, rank: int, dead: str = "") -> None:
    """Draw a new worker, or one that is gone, crossed out in the colour `dead`."""
    box(ax, left, bottom, 8.0, 2.8, DEAD if dead else ALIVE, "" if dead else f"new worker,\nrank {rank}")
    if dead:
        _cross(ax, left, bottom, 2.8, dead, f"worker,\nrank {rank}")


def _cross(ax: Axes, left: float, bottom: float, high: float, colour: str, words: str) -> None:
    """Cross out a box of eight units, and write its words over the cross."""
    for ends in ((bottom, bottom + high), (bottom + high, bottom)):
        ax.plot([left, left + 8.0], ends, color=colour, linewidth=2.5, alpha=0.55)
    ax.text(left + 4.0, bottom + high / 2, words, ha="center", va="center", fontsize=SMALLEST,
            bbox={"facecolor": DEAD, "edgecolor": "none", "pad": 1.0})  # fmt: skip
