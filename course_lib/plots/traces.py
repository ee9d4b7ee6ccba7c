"""Traces: what a profiler shows of one training step under each strategy, as a sketch to recognise it by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
    arrow,
    say,
    sheet,
)


class Bar(NamedTuple):
    """One bar of a sketch: "F" or "B" for a piece of forward or backward, else the name of a call that communicates."""

    kind: str
    start: float
    length: float
    name: str = ""
    """Of a piece of forward or backward: its layer, or its piece of the batch."""


CALLS = {
    "all_reduce": ("AR", COLLECTIVE), "all_gather": ("AG", RECEIVED), "reduce_scatter": ("RS", SENT),
    "all_to_all": ("A2A", "#F6E3EE"), "send": ("S", SENT), "recv": ("R", RECEIVED),
}  # fmt: skip
PASSES = {"F": FORWARD, "B": BACKWARD}
LEFT = 0.125  # of the picture: the names of the rows


def _data() -> list[Bar]:
    layers = [Bar("F", 0, 2, "1"), Bar("F", 2, 2, "2"), Bar("B", 4, 4, "2"), Bar("B", 8, 4, "1")]
    return layers + [Bar("all_reduce", 8, 3.0), Bar("all_reduce", 12, 3.0)]


def _tensor() -> list[Bar]:
    bars, now = [], 0.0
    passes = [("F", 0.9, name) for name in "1122"] + [("B", 1.8, name) for name in "2211"]  # two halves of each layer
    for kind, length, name in passes:
        bars += [Bar(kind, now, length, name), Bar("all_reduce", now + length, 0.6)]
        now += length + 0.6
    return bars


def _sharded() -> list[Bar]:
    starts = {1.4: ("F", 2, "1"), 3.4: ("F", 2, "2"), 5.4: ("B", 4, "2"), 9.4: ("B", 4, "1")}
    bars = [Bar(kind, start, length, name) for start, (kind, length, name) in starts.items()]
    bars += [Bar("all_gather", max(0.0, start - 1.4), 1.2) for start in starts]
    return bars + [Bar("reduce_scatter", 9.5, 1.2), Bar("reduce_scatter", 13.5, 1.2)]


def _experts() -> list[Bar]:
    bars, now = [], 0.0
    for kind, length, name in (("F", 0.8, "1"), ("F", 0.8, "2"), ("B", 1.6, "2"), ("B", 1.6, "1")):
        bars += [Bar(kind, now, length, name), Bar("all_to_all", now + length, 0.75)]
        bars += [Bar(kind, now + length + 0.75, length, name), Bar("all_to_all", now + 2 * length + 0.75, 0.75)]
        now += 2 * length + 1.5
    return bars


def _pipeline() -> list[Bar]:
    bars = []
    for place, piece in enumerate("abc"):
        for kind, start, length in (("F", 1.8 + 2.6 * place, 1.5), ("B", 11.4 + 3.8 * place, 2.7)):
            bars += [Bar("recv", start - 0.5, 0.45), Bar(kind, start, length, piece)]
            bars.append(Bar("send", start + length + 0.05, 0.45))
    return bars


SKETCHES = {1: _tensor, 2: _pipeline, 3: _data, 4: _experts, 5: _sharded}


def traces(names: Mapping[int, str] | None = None, ax: Any = None) -> Axes:
    """Draw the two rows of a GPU's trace, what it computes and which calls communicate, for five strategies.

    The sketches are numbered; with `names` each has the name of its strategy, too.
    """
    ax = sheet(6.7, 1, 16.6, ax)
    ax.set_title("The calls between the matrix products give the strategy away (one step of one GPU, a sketch)",
                 fontsize=TITLE, loc="left")  # fmt: skip
    for number, sketch in SKETCHES.items():
        floor = 1.1 + 3.1 * (5 - number)
        name = f"sketch {number}" + (f": {names[number]}" if names else "")
        ax.text(0, floor + 2.5, name, ha="left", va="center", fontsize=SMALLEST, weight="bold", color=INK)
        for row, (words, height) in enumerate((("computes", 1.1), ("communicates", 0.1))):
            ax.text(LEFT - 0.008, floor + height + 0.47, words, ha="right", va="center", fontsize=SMALLEST, color=INK)
            _row(ax, [bar for bar in sketch() if (bar.kind in CALLS) == bool(row)], sketch(), floor + height)
    arrow(ax, (LEFT, 0.75), (1, 0.75))
    ax.text(1, 0.2, "time", ha="right", va="center", fontsize=SMALLEST, color=INK)
    keys = "F, B and a number: forward and backward of layer 1 or 2; with a letter: of a piece of the batch"
    ax.text(0, 0.2, keys, ha="left", va="center", fontsize=SMALLEST, color=INK)
    short = ", ".join(f"{two} {one}" for one, (two, _) in CALLS.items())
    ax.text(0, -0.6, short, ha="left", va="center", fontsize=SMALLEST, color=INK)
    ax.set(xlim=(0, 1.003), ylim=(-1, 16.6))
    say(ax, "Each sketch is one training step of one GPU, from left to right.\n"
            + "\n".join(_told(number, names) for number in SKETCHES))  # fmt: skip
    return ax


def _row(ax: Axes, bars: list[Bar], whole: list[Bar], low: float) -> None:
    scale = (1 - LEFT) / max(bar.start + bar.length for bar in whole)  # each as wide as the picture
    for bar in bars:
        words, colour = CALLS[bar.kind] if bar.kind in CALLS else (bar.kind + bar.name, PASSES[bar.kind])
        x = LEFT + bar.start * scale
        ax.add_patch(Rectangle((x, low), bar.length * scale, 0.92, facecolor=colour, edgecolor=INK, linewidth=0.6))
        ax.text(x + bar.length * scale / 2, low + 0.45, words, ha="center", va="center", fontsize=SMALLEST, color=INK)


def _told(number: int, names: Mapping[int, str] | None) -> str:
    computes, calls = [], []
    for bar in sorted(SKETCHES[number](), key=lambda bar: bar.start):
        there = calls if bar.kind in CALLS else computes
        there.append(f"{CALLS[bar.kind][0] if bar.kind in CALLS else bar.kind + bar.name} {bar.start:.3g}")
    name = f", {names[number]}" if names else ""
    return f"sketch {number}{name}: computes from {', '.join(computes)}; communicates from {', '.join(calls)}"
