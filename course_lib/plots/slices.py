"""A pipeline rank's step on an axis of time: its slices, its waiting, and those of its gradients that are exposed."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import COMPUTE, FORWARD, LIMIT, SMALLEST, TITLE, WAITING, legend_below, new_axes, say
from course_lib.plots.mesh import DATA, TENSOR


def slices(counts: tuple[int, ...] = (4, 8), rows: int = 4, ax: Axes | None = None) -> Axes:
    """Draw a step's forwards on a pipeline of `rows` ranks without chunks, once in thick and once in thin slices.

    Each rank starts a slice later than the one before.
    """
    ax = new_axes(ax, 1.0 + 0.3 * (rows + 1) * len(counts))
    told, ticks, longest = [], [], 0.0
    for place, count in enumerate(counts):
        one, top = 1 / count, place * (rows + 1.5)
        end = 1 + (rows - 1) * one
        longest = max(longest, end)
        for row in range(rows):
            y, start = top + row, row * one
            ax.barh([y] * 2, [start, end - start - 1], 0.86, [0, start + 1], color=WAITING)
            ax.barh([y] * count, one, 0.86, [start + one * micro for micro in range(count)], color=FORWARD,
                    edgecolor="white", linewidth=0.9)  # fmt: skip
            for micro in range(count):
                ax.text(start + one * (micro + 0.5), y, str(micro), ha="center", va="center", fontsize=SMALLEST)
            ticks.append((y, f"rank {row}"))
        what = f"2 context ranks, half as many copies: {count} half" if place else f"1 context rank: {count}"
        words = f"{what} sequences. A rank waits for {rows - 1} {'thin' if place else 'thick'} slices"
        ax.text(0, top - 0.62, words, va="bottom", fontsize=SMALLEST, weight="bold")
        told.append(words)
    ax.set_yticks([y for y, _ in ticks], [name for _, name in ticks], fontsize=SMALLEST)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, pad=6)
    for name in ("left", "bottom"):
        ax.spines[name].set_visible(False)
    ax.set(xlim=(0, 1.02 * longest), ylim=((rows + 1.5) * len(counts) - 1.9, -1.5))
    ax.set_xlabel("time; forwards only, without chunks", fontsize=SMALLEST)
    ax.set_title("Twice as many slices, half as thick: a rank waits half as long", fontsize=TITLE, loc="left", x=-0.07)
    say(ax, "\n".join(told))
    return ax


def exposed_gradients(microbatches: int = 4, pp: int = 3, chunks: int = 2, compute: float = 2, tensor: float = 1,
              gradients: float = 3, ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw a step of the last pipeline rank in seconds, and below it its gradients, which hide behind one backward."""
    ax = new_axes(ax, 2.7)
    one = compute + tensor
    waits = one * (pp - 1) / chunks
    done = waits + microbatches * one
    begins = done - 2 / 3 * one  # the last backward
    end = max(done, begins + gradients)
    ax.barh(0, waits, 0.5, color=WAITING, edgecolor="white")
    ax.text(waits / 2, 0, f"waits, {waits:g} s\nin all", ha="center", va="center", fontsize=SMALLEST)
    for micro in range(microbatches):
        for share, start in ((1 / 3, waits + micro * one), (2 / 3, waits + (micro + 1 / 3) * one)):
            ax.barh(0, share * compute, 0.5, start, color=COMPUTE, edgecolor="white", linewidth=0.6)
            ax.barh(0, share * tensor, 0.5, start + share * compute, color=TENSOR, edgecolor="white", linewidth=0.6)
        ax.text(waits + (micro + 0.5) * one, -0.32, f"micro-batch {micro}", ha="center", va="bottom", fontsize=SMALLEST)
        ax.plot([waits + micro * one] * 2, [-0.6, 0.25], color="black", linewidth=0.9)
    ax.plot([done] * 2, [-0.6, 1.3], color="black", linewidth=0.9)
    for words, place in (("forward", done - 0.95 * one), ("backward", (begins + done) / 2)):
        ax.text(place, 0.3, words, ha="center", va="top", fontsize=SMALLEST)
    ax.barh(1, done - begins, 0.5, begins, color=DATA, edgecolor="white")
    ax.barh(1, end - done, 0.5, done, color=DATA, edgecolor=LIMIT, hatch="////", linewidth=1.2)
    ax.text(begins - 0.15, 1, f"its gradients travel for {gradients:g} s", ha="right", va="center", fontsize=SMALLEST)
    ax.text(end + 0.1, 1, "exposed", ha="left", va="center", fontsize=SMALLEST, color=LIMIT, weight="bold")
    ax.text(end + 0.1, 0, "the step\nends here", ha="left", va="center", fontsize=SMALLEST)
    ax.axvline(end, color="black", linestyle="--", linewidth=1.2)
    ax.set_yticks([])
    ax.set_xticks([0, *(waits + micro * one for micro in range(microbatches + 1)), end])
    ax.spines["left"].set_visible(False)
    ax.set(xlim=(0, 1.13 * end), ylim=(1.45, -0.75))
    ax.set_xlabel(f"seconds of the last of {pp} pipeline ranks with {chunks} chunks each; all its waiting is drawn in "
                  "front", fontsize=SMALLEST)  # fmt: skip
    marks = (COMPUTE, f"computing, {compute:g} s"), (TENSOR, f"tensor messages, {tensor:g} s"), (DATA, "gradients")
    legend_below(ax, [Patch(facecolor=colour, label=name) for colour, name in marks], 3)
    ax.set_title("The last backward hides most of the gradients; what is exposed makes the step longer", fontsize=TITLE,
                 loc="left", x=-0.01)  # fmt: skip
    say(ax, f"the last of {pp} pipeline ranks waits {waits:g} s, then works {one:g} s on each of {microbatches} "
        f"micro-batches, until {done:g} s. Its gradients travel from the start of the last backward, at {begins:g} s, "
        f"until {end:g} s: {end - done:g} s are exposed")  # fmt: skip
    return ax
