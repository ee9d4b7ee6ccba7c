"""Two disasters under torchrun: who notices, who is ended, and which processes are new afterwards."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, LIMIT, SMALLEST, TITLE, arrow, box, say, sheet

DEAD = "#E6E6E6"


def agents_and_workers(ax: Axes | None = None) -> Axes:
    """Draw a worker that dies and a machine that dies, each with what the agents do then, from top to bottom."""
    ax = sheet(4.0, 41.0, 20.0, ax)
    ax.set_title("A death ends every worker of the job, and the agents start new ones", fontsize=TITLE, loc="left")
    for x, words in ((0.3, "a worker dies"), (21.6, "a machine dies")):
        ax.text(x, 18.9, words, va="center", fontsize=SMALLEST, weight="bold")
    ax.plot([20.5, 20.5], [0.4, 19.2], color="#BBBBBB", linewidth=1.0)
    _agent(ax, 5.2)
    for place, left in enumerate((0.8, 11.0)):
        _worker(ax, left, 9.6, place, dead=place == 1)
        arrow(ax, (8.4 + 2.2 * place, 14.2), (left + 4.0, 12.2))
        _worker(ax, left, 0.9, place, new=True)
        arrow(ax, (left + 4.0, 5.6), (left + 4.0, 3.7))
    ax.text(2.7, 13.4, "2. its agent\nends it", ha="center", va="center", fontsize=SMALLEST)
    ax.text(15.4, 13.4, "1. killed", ha="center", va="center", fontsize=SMALLEST, color=LIMIT, weight="bold")
    ax.text(9.7, 6.5, "3. starts both again, from the checkpoint", ha="center", va="center", fontsize=SMALLEST)
    _agent(ax, 21.9)
    _agent(ax, 32.1, dead=True)
    for place, left in enumerate((21.9, 32.1)):
        _worker(ax, left, 9.6, place, dead=place == 1)
        arrow(ax, (left + 4.0, 14.2), (left + 4.0, 12.2))
    ax.text(36.1, 17.4, "1. killed", ha="center", va="center", fontsize=SMALLEST, color=LIMIT, weight="bold")
    ax.text(25.9, 8.6, "2. fails: its partner is gone", ha="center", va="center", fontsize=SMALLEST)
    ax.text(30.9, 6.5, "3. its agent starts one worker, alone", ha="center", va="center", fontsize=SMALLEST)
    arrow(ax, (25.9, 5.6), (25.9, 3.7))
    _worker(ax, 21.9, 0.9, 0, new=True)
    say(ax, "a worker dies: worker 1 is killed, its agent ends worker 0 and starts both again from the checkpoint; "
            "a machine dies: agent 1 and its worker are killed, worker 0 fails because its partner is gone, and its "
            "agent goes on alone with a single new worker")  # fmt: skip
    return ax


def _agent(ax: Axes, left: float, dead: bool = False) -> None:
    box(ax, left, 14.2, 8.0, 2.2, DEAD if dead else "#F2F2F2", "agent (torchrun)")
    if dead:
        _cross(ax, left, 14.2, 2.2)


def _worker(ax: Axes, left: float, bottom: float, rank: int, dead: bool = False, new: bool = False) -> None:
    words = f"new worker,\nrank {rank}" if new else f"worker,\nrank {rank}"
    box(ax, left, bottom, 8.0, 2.6, DEAD if dead else FACES[rank], words, edge=INK, line=2.2 if new else 1.0)
    if dead:
        _cross(ax, left, bottom, 2.6)


def _cross(ax: Axes, left: float, bottom: float, high: float) -> None:
    for ends in ((bottom, bottom + high), (bottom + high, bottom)):
        ax.plot([left, left + 8.0], ends, color=LIMIT, linewidth=2.5, alpha=0.55)
