"""One weight in mixed precision: which copies of it there are, and who makes which from which in a step."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import GRADIENTS, INK, OPTIMIZER, SMALLEST, TITLE, WEIGHTS, arrow, box, say, sheet


def mixed_step(ax: Axes | None = None) -> Axes:
    """Draw what is kept of one weight in bf16 mixed precision, in bytes, and the way around in one training step."""
    ax = sheet(2.45, 34, 9.2, ax)
    ax.set_title("Matrices are multiplied in bf16; the weight itself moves in fp32", fontsize=TITLE, loc="left")
    for x, y, wide, colour, words, edge in (
        (1.0, 6.0, 8.4, WEIGHTS, "weight\nbf16: 2 bytes", "white"),
        (21.8, 6.0, 8.4, GRADIENTS, "gradient\nbf16: 2 bytes", INK),
        (1.0, 0.7, 8.4, OPTIMIZER, "master copy\nfp32: 4 bytes", INK),
        (18.6, 0.7, 7.2, OPTIMIZER, "moment m\nfp32: 4 bytes", INK),
        (26.2, 0.7, 7.2, OPTIMIZER, "moment v\nfp32: 4 bytes", INK),
    ):
        box(ax, x, y, wide, 2.4, colour)
        ax.text(x + wide / 2, y + 1.2, words, ha="center", va="center", fontsize=SMALLEST, color=edge)
    arrow(ax, (9.6, 7.2), (21.6, 7.2), line=1.8)
    ax.text(15.6, 7.5, "1  forward, backward", ha="center", va="bottom", fontsize=SMALLEST)
    box(ax, 18.1, 0.25, 15.8, 3.3, "none")  # one frame, because both moments are made, and both are needed
    arrow(ax, (26.0, 5.9), (26.0, 3.65), line=1.8)
    ax.text(26.5, 4.7, "2  into both averages", ha="left", va="center", fontsize=SMALLEST)
    arrow(ax, (18.0, 1.9), (9.6, 1.9), line=1.8)
    ax.text(13.8, 2.2, "3  AdamW's\nsmall step", ha="center", va="bottom", fontsize=SMALLEST)
    arrow(ax, (5.2, 3.2), (5.2, 5.9), line=1.8)
    ax.text(5.7, 4.55, "4  rounded", ha="left", va="center", fontsize=SMALLEST)
    told = ("the bf16 weight (2 bytes) goes through forward and backward, which make a bf16 gradient (2); AdamW "
            "averages it in moments m and v (fp32, 4 each), makes a small step on the fp32 master copy (4), and that "
            "is rounded to the bf16 weight of the next step")  # fmt: skip
    say(ax, told)
    return ax
