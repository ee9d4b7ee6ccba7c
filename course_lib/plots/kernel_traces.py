"""Profiler traces as one meets them: the kernels of two layers under five ways to split a model."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    BACKWARD,
    COLLECTIVE,
    FORWARD,
    INK,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    WIDTH,
    say,
    sheet,
)

KERNELS = {"AllReduce": COLLECTIVE, "AllGather": RECEIVED, "ReduceScatter": SENT, "SendRecv": "#DDA0C4",
           "F": FORWARD, "B": BACKWARD}  # fmt: skip
SHORT = {"AllReduce": "AR", "AllGather": "AG", "ReduceScatter": "RS", "SendRecv": "SR"}


def in_turn(*order: str) -> list[tuple[str, int, float, float]]:
    """Return bars one after the other, so that nothing overlaps: (kernel, stream, start, length)."""
    bars, now = [], 0.0
    for kernel in order:
        length = {"F": 1.0, "B": 1.5}.get(kernel, 0.75)
        bars.append((kernel, int(kernel in SHORT), now, length))
        now += length
    return bars


# Two layers, forward and backward. Stream 0 computes, stream 1 communicates.
TRACES = {
    1: [("F", 0, 0, 2.2), ("F", 0, 2.2, 2.2), ("B", 0, 4.4, 4.2), ("B", 0, 8.6, 4.2), ("AllReduce", 1, 8.6, 2.9),
        ("AllReduce", 1, 12.8, 2.9)],
    2: in_turn(*("F", "AllReduce") * 4, *("B", "AllReduce") * 4),
    3: [("AllGather", 1, 0, 1.5), ("F", 0, 1.5, 2.2), ("AllGather", 1, 1.5, 1.5), ("F", 0, 3.7, 2.2),
        ("AllGather", 1, 5.9, 1.5), ("B", 0, 7.4, 4.0), ("AllGather", 1, 7.4, 1.5), ("ReduceScatter", 1, 11.4, 1.9),
        ("B", 0, 11.4, 4.0), ("ReduceScatter", 1, 15.4, 1.9)],
    4: in_turn(*("F", "SendRecv") * 4, *("SendRecv", "B") * 4),
    5: [("SendRecv", 1, 0, 0.75), ("F", 0, 0.75, 2.2), ("F", 0, 2.95, 2.2), ("SendRecv", 1, 5.15, 0.75),
        ("SendRecv", 1, 7.6, 0.75), ("B", 0, 8.35, 3.4), ("B", 0, 11.75, 3.4), ("SendRecv", 1, 15.15, 0.75)],
}  # fmt: skip


HALVES = (2, 4)  # traces in which a layer's attention and its MLP are kernels of their own
STRATEGIES = {1: "data parallelism", 2: "tensor parallelism", 3: "FSDP", 4: "experts", 5: "pipeline"}


def trace_of(strategy: str) -> int:
    """Return the number of the trace of a strategy, such as "experts"."""
    return next(number for number, name in STRATEGIES.items() if name == strategy)


def kernel_traces(names: dict[int, str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the traces of five strategies, numbered 1 to 5; with `names`, each with the name of its strategy."""
    ax = sheet(4.7, 41, 24, ax)
    ax.set_title("What runs between the matrix products tells how a model was split", fontsize=TITLE, loc="left")
    longest = max(start + length for bars in TRACES.values() for _, _, start, length in bars)
    scale = (WIDTH * 5 - 6.2) / longest
    for row, (number, bars) in enumerate(TRACES.items()):
        y = 18.2 - 4.5 * row
        name = f"trace {number}" + (f": {names[number]}" if number in (names or {}) else "")
        ax.text(0.2, y + 3.15, name, fontsize=SMALLEST, color=INK, weight="bold")  # fmt: skip
        if number in HALVES:
            ax.text(WIDTH * 5 - 0.2, y + 3.15, "a layer is two F: its attention and its MLP", ha="right",
                    fontsize=SMALLEST, color=INK)  # fmt: skip
        for stream, what in enumerate(("compute", "NCCL")):
            ax.text(5.0, y + 2.25 - 1.45 * stream, what, ha="right", va="center", fontsize=SMALLEST, color=INK)
        for kernel, stream, start, length in bars:
            x, width = 5.5 + start * scale, length * scale
            look = {"facecolor": KERNELS[kernel], "edgecolor": "white", "linewidth": 0.8}
            ax.add_patch(Rectangle((x, y + 1.55 - 1.45 * stream), width, 1.35, **look))
            text = SHORT.get(kernel, kernel)
            ax.text(x + width / 2, y + 2.22 - 1.45 * stream, text, ha="center", va="center", fontsize=SMALLEST,
                    color="white" if kernel == "AllReduce" else INK)  # fmt: skip
    short = ", ".join(f"{two} {one}" for one, two in SHORT.items())
    told = f"Two layers, not to scale. F forward, B backward, {short}"
    ax.text(0.2, 22.9, told, fontsize=SMALLEST, color=INK)
    say(ax, "\n".join(_told(number, bars, names) for number, bars in TRACES.items()))
    return ax


def _told(number: int, bars: list, names: dict[int, str] | None) -> str:
    order = sorted(bars, key=lambda bar: (bar[2], bar[1]))
    said = ", ".join(f"{kernel} from {start:.3g} to {start + length:.3g}" for kernel, _, start, length in order)
    return f"trace {number}{f', {names[number]}' if number in (names or {}) else ''}: {said}"
