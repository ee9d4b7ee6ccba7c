"""A small ring: three ranks pass thirds of their tensors around a circle until each has the whole sum."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import FACES, INK, SENT, SMALLEST, TITLE, arrow, box, say, sheet
from course_lib.plots.ring import ring_messages

RANKS = 3
LETTERS = "abc"  # what ranks 0, 1 and 2 bring
WIDE, LEFT = 7.15, 2.7  # of a panel with the gap behind it, and of the names of the rows


def ring_pieces(ax: Any = None) -> Axes:
    """Draw what is in each of the three pieces on three ranks, before and after each round of a ring all-reduce."""
    last = 2 * (RANKS - 1)
    ax = sheet(2.9, LEFT + WIDE * (last + 1) - 1.7, 11.4, ax)
    ax.set_title("In every round each rank sends one piece to the next rank, so every link has a message",
                 fontsize=TITLE, loc="left")  # fmt: skip
    told = []
    first = [{piece for sender, _, _, piece in ring_messages(RANKS)[:RANKS] if sender == rank} for rank in range(RANKS)]
    for rounds in range(last + 1):
        left = LEFT + WIDE * rounds
        held, new = pieces(rounds)
        words = f"after round {rounds}" if rounds else "before"
        ax.text(left + 2.67, 8.3, words, ha="center", va="center", fontsize=SMALLEST, color=INK, weight="bold")
        for rank, row in enumerate(held):
            if not rounds:
                middle = _row(rank) + 0.85
                ax.text(2.4, middle, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST, color=INK)
            for piece, ranks in enumerate(row):
                whole, just = len(ranks) == RANKS, piece in (new if rounds else first)[rank]
                box(ax, left + 1.8 * piece, _row(rank), 1.7, 1.7, FACES[2] if whole else "white",
                    "all" if whole else _sum(ranks), edge=SENT if just else INK, line=3 if just else 0.9)  # fmt: skip
        if rounds:
            _messages(ax, left - 1.75)
        told.append(f"{words}: " + "; ".join(_row_in_words(rank, row) for rank, row in enumerate(held)))
    for start, words in ((1, "two rounds to add up"), (RANKS, "two rounds to hand on")):
        start, end = LEFT + WIDE * start - 1.5, LEFT + WIDE * (start + 2) - 1.9
        ax.plot([start, end], [9.3, 9.3], color=INK, linewidth=1)
        ax.text((start + end) / 2, 9.95, words, ha="center", va="center", fontsize=SMALLEST, color=INK)
    words = "a, b, c: what ranks 0, 1, 2 have brought; all = a+b+c. Pink: has just come in, or moves on next."
    ax.text(LEFT, -0.55, words, va="center", fontsize=SMALLEST, color=INK)
    ax.set_ylim(-1.1, 10.4)
    say(ax, "Rank 0 sends to rank 1, rank 1 to rank 2 and rank 2 to rank 0. Rank 0 brings a, rank 1 b, rank 2 c, in "
            "three pieces each. " + ". ".join(told))  # fmt: skip
    return ax


def _row(rank: int) -> float:
    return 5.4 - 2.5 * rank


def _messages(ax: Axes, left: float) -> None:
    """Draw the round's three messages in the gap before a panel: each to the next row, the last one to the first."""
    for rank in range(RANKS):
        start, end = _row(rank) + 0.85, _row((rank + 1) % RANKS) + 0.85
        arrow(ax, (left + 0.1, start), (left + 1.6, end), colour=SENT, line=1.8)


def _sum(ranks: set[int]) -> str:
    return "+".join(LETTERS[rank] for rank in sorted(ranks))


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
    return f"rank {rank} has " + ", ".join(map(_sum, row))
