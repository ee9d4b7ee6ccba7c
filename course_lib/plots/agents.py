"""Who starts and watches whom under torchrun: agents, their workers, and the place where agents meet."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import COLLECTIVE, FACES, RECEIVED, SMALLEST, TITLE, arrow, box, say, sheet


def agents_and_workers(ax: Axes | None = None) -> Axes:
    """Draw two machines with an agent and two workers each, and the rendezvous of their agents."""
    ax = sheet(3.5, 41.0, 17.4, ax)
    ax.set_title("An agent watches only its own workers; agents meet in the rendezvous", fontsize=TITLE, loc="left")
    box(ax, 14.5, 13.6, 12.0, 2.8, "#F2F2F2", "rendezvous: who is here,\nand who gets which rank?")
    for machine in range(2):
        x = 1.0 + 21.5 * machine
        box(ax, x, 0.6, 17.5, 11.4, "#FFFFFF")
        ax.text(x + 0.5, 11.1, f"machine {machine}", va="center", fontsize=SMALLEST)
        box(ax, x + 4.5, 8.0, 8.5, 2.2, "#E6E6E6", "agent (torchrun)")
        arrow(ax, (x + 8.75, 10.2), (17.5 + 6.0 * machine, 13.6))
        for place in range(2):
            left, rank = x + 1.2 + 8.6 * place, 2 * machine + place
            box(ax, left, 3.2, 6.5, 2.4, FACES[rank], f"worker, rank {rank}")
            arrow(ax, (x + 7.0 + 3.5 * place, 8.0), (left + 3.25, 5.6))
        ax.text(x + 8.75, 6.7, "starts,\nwatches", ha="center", va="center", fontsize=SMALLEST)
    box(ax, 2.2, 1.2, 36.6, 1.2, RECEIVED, "all_reduce, through all workers", edge=COLLECTIVE)
    say(ax, "each machine has an agent, which is torchrun; it starts and watches the workers of its own machine, one "
            "for each GPU; agents meet in the rendezvous, which says who is here and who gets which rank; an "
            "all-reduce goes through all workers")  # fmt: skip
    return ax
