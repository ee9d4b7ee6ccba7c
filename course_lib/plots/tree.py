"""A tree that spreads a tensor, round by round: who sends to whom, and how many have it."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, GREY, INK, SENT, SMALLEST, TITLE, arrow, box, say, sheet

WIDE, HIGH = 2.0, 2.3  # of a rank and of a round


def tree_rounds(ranks: int = 8) -> Axes:
    """Draw a broadcast from rank 0 by a binomial tree: a column for each rank, a row after each round.

    Who has the tensor is filled. In round k rank r sends to rank r + 2^(k-1), as the simulator's `dist.broadcast` does.
    """
    rounds = (ranks - 1).bit_length()
    left = 2.4
    ax = sheet(0.5 + 0.52 * (rounds + 1), left + WIDE * ranks + 4.0, HIGH * (rounds + 1))
    told = []
    for done in range(rounds + 1):
        y = HIGH * (rounds - done) + 0.3
        have = min(2**done, ranks)
        name = "at first" if not done else f"round {done}"
        ax.text(left - 0.4, y + 0.5, name, ha="right", va="center", fontsize=SMALLEST, color=INK)
        for rank in range(ranks):
            x = left + WIDE * rank
            there = rank < have
            box(ax, x, y, 1.4, 1.0, FACES[0] if there else "white", str(rank), edge=INK if there else GREY)
        count = "1 rank has it" if have == 1 else f"{have} ranks have it"
        ax.text(left + WIDE * ranks, y + 0.5, count, ha="left", va="center", fontsize=SMALLEST, color=INK)
        pairs = [(rank, rank + 2 ** (done - 1)) for rank in range(2 ** (done - 1))] if done else []
        for sender, receiver in ((one, other) for one, other in pairs if other < ranks):
            start, end = (left + WIDE * rank + 0.7 for rank in (sender, receiver))
            arrow(ax, (start, y + HIGH), (end, y + 1.0), colour=SENT, line=1.8)
        told.append(f"{name}: {count}" + "".join(f", {one} sends to {other}" for one, other in pairs if other < ranks))
    ax.set_title("A tree: after each round twice as many ranks have the tensor", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax
