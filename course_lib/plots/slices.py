"""A step with context ranks: the same work in thinner slices, and less waiting."""

from __future__ import annotations

from matplotlib.axes import Axes

from course_lib.plots.canvas import COMPUTE, SMALLEST, TITLE, WAITING, new_axes, say


def slices(busy: float = 5.87, pp: int = 16, chunks: int = 8, counts: tuple[int, ...] = (16, 32), ax: Axes | None = None
           ) -> Axes:  # fmt: skip
    """Draw one pipeline rank's step, to scale: its micro-batches, and how long it waits while the pipeline fills."""
    ax = new_axes(ax, 1.3 + 0.6 * len(counts))
    told, heads = [], []
    for place, count in enumerate(counts):
        one = busy / count
        bubble = one * (pp - 1) / chunks
        ax.barh([place] * count, one, 0.5, [one * micro for micro in range(count)], color=COMPUTE, edgecolor="white",
                linewidth=0.9)  # fmt: skip
        ax.barh(place, bubble, 0.5, busy, color=WAITING, edgecolor="white", linewidth=0.9)
        ax.text(busy + bubble, place, f" waits {bubble:.2f} s", va="center", fontsize=SMALLEST,
                weight="bold")  # fmt: skip
        heads.append(f"{count // pp} context rank{'s' if count > pp else ''}")
        ax.text(0.05, place - 0.3, f"{count} micro-batches of {one:.3f} s", va="bottom", fontsize=SMALLEST)
        told.append(f"{heads[-1]}: {count} micro-batches of {one:.3f} s, then {bubble:.2f} s of waiting")
    ax.set_yticks(range(len(counts)), heads, fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0, pad=6)
    ax.set(xlim=(0, 1.35 * busy), ylim=(len(counts) - 0.6, -0.75))
    ax.set_xlabel("seconds of one rank (its waiting drawn together, at the end)", fontsize=SMALLEST)
    ax.set_title("Twice as many context ranks, twice as many slices, half the waiting", fontsize=TITLE, loc="left",
                 x=-0.12)  # fmt: skip
    say(ax, "\n".join(told))
    return ax
