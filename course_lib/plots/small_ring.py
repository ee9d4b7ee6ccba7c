"""A small ring: three ranks pass thirds of their tensors around a circle until each has the whole sum."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, SENT, SMALLEST, TITLE, arrow, box, say, sheet
from course_lib.plots.ring import ring_messages

RANKS = 3
WHEN = {0: "before", 1: "after round 1", 2: "after round 2", 4: "after round 4"}


def ring_pieces(ax: Any = None) -> Axes:
    """Draw what is in each of the three pieces on three ranks, before and after some rounds of a ring all-reduce."""
    ax = sheet(2.6, 33, 10.0, ax)
    ax.set_title("In each round every rank sends a third of its tensor to the next one, and all links work",
                 fontsize=TITLE, loc="left")  # fmt: skip
    told = []
    for place, (rounds, words) in enumerate(WHEN.items()):
        left = 2.7 + 7.75 * place
        held, new = pieces(rounds)
        ax.text(left + 3.3, 8.7, words, ha="center", va="center", fontsize=SMALLEST, color=INK, weight="bold")
        for rank, row in enumerate(held):
            y = 5.7 - 2.5 * rank
            if not place:
                ax.text(2.4, y + 0.85, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
            for piece, ranks in enumerate(row):
                whole = len(ranks) == RANKS
                just = rounds and piece in new[rank]
                box(ax, left + 2.2 * piece, y, 2.05, 1.7, FACES[rank] if whole else "white",
                    "all" if whole else "+".join(map(str, sorted(ranks))), edge=SENT if just else INK,
                    line=2.6 if just else 0.9)  # fmt: skip
        told.append(f"{words}: " + "; ".join(_row_in_words(rank, row) for rank, row in enumerate(held)))
        if place:
            arrow(ax, (left - 0.95, 4.05), (left - 0.2, 4.05), line=1.4)
    words = "0+2: the sum of rank 0's and rank 2's values for this piece. A thick frame: it has just come in."
    ax.text(2.7, -0.35, words, va="center", fontsize=SMALLEST, color=INK)
    ax.set_ylim(-0.9, 9.6)
    say(ax, "Each piece is told by the ranks whose values are in it. " + ". ".join(told))
    return ax


def pieces(rounds: int) -> tuple[list[list[set[int]]], list[set[int]]]:
    """Return which ranks' parts are in each piece of each rank after some rounds, and which pieces came in the last."""
    held = [[{rank} for _ in range(RANKS)] for rank in range(RANKS)]
    new: list[set[int]] = [set() for _ in range(RANKS)]
    sent = ring_messages(RANKS)
    for step in range(rounds):
        before = [[set(piece) for piece in row] for row in held]
        new = [set() for _ in range(RANKS)]
        for rank, _, _, piece in sent[step * RANKS:(step + 1) * RANKS]:
            target = (rank + 1) % RANKS
            held[target][piece] = before[rank][piece] | before[target][piece]
            new[target].add(piece)
    return held, new


def _row_in_words(rank: int, row: list[set[int]]) -> str:
    return f"rank {rank} has " + ", ".join("+".join(map(str, sorted(ranks))) for ranks in row)
