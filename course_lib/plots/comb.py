"""The comb of fully sharded training: what a profiler's trace shows of a step, in three lanes and in its order."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.lessons.fsdp_trace import short, told
from course_lib.plots.canvas import BACKWARD, COMPUTE, INK, SMALLEST, TITLE, new_axes, say
from course_lib.plots.teeth import DOING

LANES = {"gather": (2, "FSDP::all_gather"), "compute": (1, "computing"),
         "reduce-scatter": (0, "FSDP::\npost_backward_reduce")}  # fmt: skip


def comb(order: Sequence[tuple[str, str, str]], title: str = "") -> Axes:
    """Draw a trace of lessons.fsdp_trace: each thing that is done equally wide, in a lane of its kind."""
    ax = new_axes(None, 2.7)
    for x, (way, doing, unit) in enumerate(order):
        colour = {"forward": COMPUTE, "backward": BACKWARD}[way] if doing == "compute" else DOING[doing][0]
        lane = LANES[doing][0]
        ax.add_patch(Rectangle((x, lane + 0.1), 0.94, 0.8, facecolor=colour, edgecolor="white", linewidth=0.8))
        ax.text(x + 0.47, lane + 0.5, short(unit), ha="center", va="center", fontsize=SMALLEST, color=INK)
    ways = [way for way, *_ in order]
    for way in dict.fromkeys(ways):
        left = ways.index(way)
        ax.text(left + 0.1, 3.3, way.upper(), fontsize=SMALLEST, color=INK, va="center", weight="bold")
        if left:
            ax.axvline(left, 0, 1, color=INK, linewidth=0.8, linestyle=":")
    ax.set(xlim=(-0.1, len(order)), ylim=(0, 3.6), xticks=[])
    ax.set_yticks([lane + 0.5 for lane, _ in LANES.values()], [name for _, name in LANES.values()], fontsize=SMALLEST)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("the order is measured, widths are not\nE: embedding, 0 to 3: layers, H: last norm and output matrix",
                  fontsize=SMALLEST)  # fmt: skip
    ax.set_title(title or "A trace of fully_shard: a comb of gathers", fontsize=TITLE, loc="left")
    say(ax, f"On rank 0, in the order of the trace\n{told(order)}")
    return ax
