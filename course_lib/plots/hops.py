"""A tensor on its way down a chain of hops, whole and in chunks, on one axis of time."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import FACES, INK, SENT, SMALLEST, TITLE, WAITING, new_axes, say


def hops_in_chunks(hops: int = 3, chunks: int = 6, ax: Axes | None = None) -> Axes:
    """Draw when each hop carries a tensor: whole, one hop after the other, and in chunks, all hops at once."""
    ax = new_axes(ax, 1.0 + 0.32 * (2 * hops + 3))
    whole, cut = hops * chunks, hops + chunks - 1
    top = 0.0
    for in_chunks, slots in ((False, whole), (True, cut)):
        name = f"in {chunks} chunks: {slots} slots" if in_chunks else f"whole: {slots} slots"
        ax.text(0, top + 0.72, name, fontsize=SMALLEST, weight="bold", va="bottom")
        for hop in range(hops):
            y = top + 1.0 + hop
            ax.add_patch(Rectangle((0, y), slots, 0.8, facecolor=WAITING))
            first = hop if in_chunks else hop * chunks
            pieces = range(chunks) if in_chunks else (None,)
            for place, chunk in enumerate(pieces):
                long = 1 if in_chunks else chunks
                colour = FACES[chunk % len(FACES)] if in_chunks else SENT
                ax.add_patch(Rectangle((first + place, y), long, 0.8, facecolor=colour, edgecolor=INK, linewidth=0.7))
                words = str(chunk) if in_chunks else "the whole tensor"
                ax.text(first + place + long / 2, y + 0.4, words, ha="center", va="center", fontsize=SMALLEST)
        top += hops + 1.1
    ax.set(xlim=(0, whole), ylim=(top + 0.1, 0))
    rows = [place + 1.4 + hop for place in (0, hops + 1.1) for hop in range(hops)]
    ax.set_yticks(rows, [f"hop {hop + 1}" for hop in range(hops)] * 2)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("time, in slots (a slot: one chunk over one hop); grey: the link waits", fontsize=SMALLEST)
    ax.set_title(f"In chunks all hops work at the same time: {cut} slots instead of {whole}", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, f"a tensor over {hops} hops: whole, hop after hop, {whole} slots; in {chunks} chunks, where a hop passes "
            f"on chunk 0 while chunk 1 comes in, {cut} slots")
    return ax
