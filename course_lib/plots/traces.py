"""Traces: what a profiler shows of one training step under each strategy, as a sketch to recognise it by."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import (
    BACKWARD,
    COLLECTIVE,
    FORWARD,
    INK,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    legend_below,
    say,
    sheet,
)  # fmt: skip


class Bar(NamedTuple):
    """One bar of a sketch: "F" or "B" for a piece of forward or backward, else the name of a call that communicates."""

    kind: str
    start: float
    length: float


LOOK = {
    "F": (FORWARD, ""), "B": (BACKWARD, ""), "all_reduce": (COLLECTIVE, ""), "all_gather": (RECEIVED, "///"),
    "reduce_scatter": (SENT, "///"), "all_to_all": (COLLECTIVE, "///"), "send": (SENT, ""), "recv": (RECEIVED, ""),
}  # fmt: skip
NAMES = {"F": "forward", "B": "backward"}


def _data() -> list[Bar]:
    compute = [Bar("F", 2 * layer, 2) for layer in range(4)] + [Bar("B", 8 + 4 * layer, 4) for layer in range(4)]
    return compute + [Bar("all_reduce", 12 + 4 * bucket, 3.4) for bucket in range(4)]


def _tensor() -> list[Bar]:
    bars, now = [], 0.0
    for kind, length in [("F", 0.9)] * 8 + [("B", 1.8)] * 8:  # two halves of each of four layers
        bars += [Bar(kind, now, length), Bar("all_reduce", now + length, 0.45)]
        now += length + 0.45
    return bars


def _sharded() -> list[Bar]:
    compute = [Bar("F", 1.4 + 2 * layer, 2) for layer in range(4)]
    compute += [Bar("B", 9.4 + 4 * layer, 4) for layer in range(4)]
    gathers = [Bar("all_gather", max(0.0, start - 1.4), 1.2) for start in (1.4, 3.4, 5.4, 7.4, 9.4, 13.4, 17.4, 21.4)]
    return compute + gathers + [Bar("reduce_scatter", 13.6 + 4 * layer, 1.2) for layer in range(4)]


def _experts() -> list[Bar]:
    bars, now = [], 0.0
    for kind, length in [("F", 0.75)] * 4 + [("B", 1.5)] * 4:
        bars += [Bar(kind, now, length), Bar("all_to_all", now + length, 0.7), Bar(kind, now + length + 0.7, length)]
        bars.append(Bar("all_to_all", now + 2 * length + 0.7, 0.7))
        now += 2 * length + 1.4
    return bars


def _pipeline() -> list[Bar]:
    bars = []
    for batch in range(4):
        start = 2.5 + 3 * batch
        bars += [Bar("recv", start - 0.5, 0.4), Bar("F", start, 1.8), Bar("send", start + 1.9, 0.4)]
        start = 17 + 4.4 * batch
        bars += [Bar("recv", start - 0.5, 0.4), Bar("B", start, 3.2), Bar("send", start + 3.3, 0.4)]
    return bars


SKETCHES = {
    "data parallel: an all_reduce for each bucket of gradients, only in backward": _data,
    "tensor parallel: two all_reduces for each layer, forward and backward": _tensor,
    "FSDP: an all_gather before each layer; in backward a reduce_scatter after it": _sharded,
    "experts: two all_to_alls for each layer": _experts,
    "pipeline: pairs of recv and send around each micro-batch, and gaps": _pipeline,
}


def traces(ax: Any = None) -> Axes:
    """Draw, for each strategy, the two rows of a GPU's trace: what it computes, and which calls communicate when."""
    ax = sheet(6.3, 1, 5 * 3.1 + 0.2, ax)
    ax.set_title("The calls between the matrix products give the strategy away (a sketch of one GPU's step)",
                 fontsize=TITLE, loc="left")  # fmt: skip
    kinds: dict[str, None] = {}
    for row, (name, sketch) in enumerate(SKETCHES.items()):
        floor = 3.1 * (4 - row)
        ax.text(0, floor + 2.45, name, ha="left", va="center", fontsize=SMALLEST, weight="bold", color=INK)
        bars = sketch()
        end = max(bar.start + bar.length for bar in bars)  # each as wide as the picture
        for bar in bars:
            colour, hatch = LOOK[bar.kind]
            kinds[bar.kind] = None
            low = floor + (1.1 if bar.kind in NAMES else 0.15)
            edge = "white" if not hatch else "#8A3F70"
            ax.add_patch(Rectangle((bar.start / end, low), bar.length / end, 0.85, facecolor=colour, hatch=hatch,
                                   edgecolor=edge, linewidth=0.7))  # fmt: skip
    keys = [Patch(facecolor=LOOK[kind][0], hatch=LOOK[kind][1], edgecolor="#8A3F70" if LOOK[kind][1] else "white",
                  label=NAMES.get(kind, kind)) for kind in LOOK if kind in kinds]  # fmt: skip
    legend_below(ax, keys, columns=4)
    say(ax, "Five sketches, from left to right one training step of one GPU: forward, then backward, and under them "
            "the calls that communicate.\n" + "\n".join(SKETCHES))
    return ax
