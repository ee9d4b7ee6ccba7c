"""Drawings that explain words; what a run has measured is drawn by `plots`."""

from __future__ import annotations

from typing import Any

from course_lib.plots.canvas import INK, SMALLEST, TITLE, arrow, box, say, sheet

PROCESS, GPU = "#9ecae1", "#fdd08a"


def star_and_ring(ax: Any = None) -> Any:
    """Draw four ranks that send through rank 0, and four in a ring, each with the chunk that it sends in step 1."""
    ax = sheet(3.4, 22, 8.3, ax)

    ax.text(4.9, 7.7, "through one rank: one link has all the traffic", ha="center", fontsize=TITLE, color=INK)
    box(ax, 4.0, 5.4, 1.8, 1.2, GPU, "rank 0")
    for rank, x in enumerate((1.0, 4.0, 7.0), start=1):
        box(ax, x, 1.4, 1.8, 1.2, PROCESS, f"rank {rank}")
        arrow(ax, (x + 0.7, 2.6), (4.9 + 0.45 * (rank - 2) - 0.15, 5.4))
        arrow(ax, (4.9 + 0.45 * (rank - 2) + 0.15, 5.4), (x + 1.1, 2.6))
    ax.text(4.9, 0.6, "whole tensors in, whole totals out", ha="center", fontsize=SMALLEST, color=INK)

    ax.text(16.4, 7.7, "ring: every link has equally much, all the time", ha="center", fontsize=TITLE, color=INK)
    places = [(12.0, 5.4), (19.0, 5.4), (19.0, 1.4), (12.0, 1.4)]
    for rank, (x, y) in enumerate(places):
        box(ax, x, y, 1.8, 1.2, PROCESS, f"rank {rank}")
    sides = (  # from, to, where its words stand
        ((13.8, 6.0), (19.0, 6.0), (16.4, 6.3)), ((19.9, 5.4), (19.9, 2.6), (18.8, 3.85)),
        ((19.0, 2.0), (13.8, 2.0), (16.4, 2.3)), ((12.9, 2.6), (12.9, 5.4), (14.0, 3.85)),
    )  # fmt: skip
    for rank, (start, end, words) in enumerate(sides):
        arrow(ax, start, end)
        ax.text(*words, f"chunk {(rank - 1) % 4}", ha="center", fontsize=SMALLEST, color=INK)
    said = "step 1: each rank sends one chunk to its right-hand neighbour"
    ax.text(16.4, 0.6, said, ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "Through one rank, one link has all the traffic: ranks 1, 2 and 3 each send a whole tensor to rank 0 and "
            "get a whole total back.\n"
            f"A ring, where every link has equally much, all the time. {said.capitalize()}: "
            + ", ".join(f"rank {rank} sends chunk {(rank - 1) % 4} to rank {(rank + 1) % 4}" for rank in range(4)))
    return ax
