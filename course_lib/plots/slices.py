"""A step with context ranks: the same work in thinner slices, and smaller corners of waiting."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import COMPUTE, SMALLEST, TITLE, WAITING, new_axes, say


def slices(busy: float = 5.87, pp: int = 16, chunks: int = 8, counts: tuple[int, ...] = (16, 32), rows: int = 4,
           ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw a step on `rows` pipeline ranks without chunks, once in thick and once in thin slices.

    Each rank starts a slice later than the one before. Beside the drawing stands what a rank of `pp` waits.
    """
    ax = new_axes(ax, 1.0 + 0.3 * (rows + 1) * len(counts))
    told, ticks, longest = [], [], 0.0
    for place, count in enumerate(counts):
        drawn = count * rows // pp
        one, top = 1 / drawn, place * (rows + 1.5)
        end = 1 + (rows - 1) * one
        longest = max(longest, end)
        for row in range(rows):
            y, start = top + row, row * one
            ax.barh([y] * 2, [start, end - start - 1], 0.86, [0, start + 1], color=WAITING)
            ax.barh([y] * drawn, one, 0.86, [start + one * micro for micro in range(drawn)], color=COMPUTE,
                    edgecolor="white", linewidth=0.9)  # fmt: skip
            ticks.append((y, f"rank {row}"))
        slice_, ranks = busy / count, f"{count // pp} context rank{'s' if count > pp else ''}"
        waits = slice_ * (pp - 1) / chunks
        words = f"{count} slices of {slice_:.3f} s, so a rank waits {waits:.2f} s"
        ax.text(0, top - 0.62, f"{ranks}. In Meta's step: {words}", va="bottom", fontsize=SMALLEST, weight="bold")
        told.append(f"{ranks}: {drawn} slices on each of {rows} ranks, and waiting as long as {rows - 1} of them. In "
                    f"Meta's step {words}")  # fmt: skip
    ax.set_yticks([y for y, _ in ticks], [name for _, name in ticks], fontsize=SMALLEST)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, pad=6)
    for name in ("left", "bottom"):
        ax.spines[name].set_visible(False)
    ax.set(xlim=(0, 1.02 * longest), ylim=((rows + 1.5) * len(counts) - 1.9, -1.5))
    ax.set_xlabel(f"time. Drawn: {rows} ranks without chunks; a slice is a micro-batch, forward and backward",
                  fontsize=SMALLEST)  # fmt: skip
    ax.set_title("Slices half as thick: the grey corners shrink to half", fontsize=TITLE, loc="left", x=-0.07)
    say(ax, "\n".join(told))
    return ax
