"""Traces: what a profiler shows of one training step under each strategy, as a sketch to recognise it by."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    BACKWARD,
    FORWARD,
    INK,
    RECEIVED,
    SMALLEST,
    TITLE,
    WAITING,
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


CALLS = {"all_reduce": "AR", "all_gather": "AG", "reduce_scatter": "RS", "all_to_all": "A2A", "send": "S", "recv": "R"}
PASSES = {"F": FORWARD, "B": BACKWARD}
LEFT = 0.135  # of the picture: the names of the rows


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
    starts = {1.2: ("F", 2, "1"), 3.2: ("F", 2, "2"), 5.2: ("B", 4, "2"), 9.2: ("B", 4, "1")}
    bars = [Bar(kind, start, length, name) for start, (kind, length, name) in starts.items()]
    fetched = [start for start in starts if start != 5.2]  # layer 2 is still there when backward begins with it
    bars += [Bar("all_gather", start - 1.2, 1.2) for start in fetched]
    return bars + [Bar("reduce_scatter", 9.2, 1.2), Bar("reduce_scatter", 13.2, 1.2)]


def _experts() -> list[Bar]:
    """Return attention, out, experts, back for each layer, and in backward the same from its end to its beginning."""
    bars, now = [], 0.0
    for kind, length, name in (("F", 0.8, "1"), ("F", 0.8, "2"), ("B", 1.6, "2"), ("B", 1.6, "1")):
        for _ in range(2):
            calls = [("all_to_all", 0.75), (kind, length)]
            for what, long in calls if kind == "B" else calls[::-1]:
                bars.append(Bar(what, now, long, name if what == kind else ""))
                now += long
        now += 0.12 if kind + name == "F2" else 0.0  # so that the two calls at the turn are told apart
    return bars


def _pipeline() -> list[Bar]:
    bars = []
    for place, piece in enumerate("abc"):
        for kind, start, length in (("F", 2.1 + 3.0 * place, 1.5), ("B", 12.6 + 4.2 * place, 2.7)):
            bars += [Bar("recv", start - 0.75, 0.7), Bar(kind, start, length, piece)]
            bars.append(Bar("send", start + length + 0.05, 0.7))
    return bars


SKETCHES = {1: _tensor, 2: _pipeline, 3: _data, 4: _experts, 5: _sharded}
NAMES = {1: "tensor parallelism", 2: "pipeline", 3: "data parallelism", 4: "mixture of experts", 5: "FSDP"}
SIGNS = {
    1: "two AR in each layer, in forward too, and nothing is computed meanwhile",
    2: "R before each piece, S behind it, and gaps",
    3: "AR in backward only, beside the computing of the next layer",
    4: "two A2A in each layer; one ends forward, one begins backward",
    5: "AG ahead of each layer, RS behind it; computing waits only for the first AG",
}
"""By what each strategy is told, and below which of its calls show it: those are framed."""
SHOWN = {1: (0, 1), 2: (0, 1), 3: (0, 1), 4: (3, 4), 5: (1, 3)}


def traces(*numbers: int, named: bool = False, title: str = "", ax: Any = None) -> Axes:
    """Draw the two rows of a GPU's trace, what it computes and which calls communicate, for strategies by number.

    Without numbers sketches 1 to 5 are drawn. With `named` each has the name of its strategy, and what tells it is
    framed and said.
    """
    numbers = numbers or (1, 2, 3, 4, 5)
    count = len(numbers)
    high = 3.1 * count + 2.1
    ax = sheet(0.37 * high + 0.2, 1, high, ax)
    words = title or "What gives each strategy away: its calls, and whether computing waits for them"
    asked = title or "One training step of one GPU, five ways: which strategy is which?"
    ax.set_title(words if named else asked, fontsize=TITLE, loc="left")
    top = 3.1 * count
    keys = ("F1, B1: forward, backward of layer 1, sometimes in two parts; Fa: forward of piece a of the batch",
            ", ".join(f"{short} {call}" for call, short in CALLS.items()))  # fmt: skip
    for place, words in enumerate(keys):
        ax.text(0, top + 1.75 - 0.7 * place, words, ha="left", va="center", fontsize=SMALLEST, color=INK)
    for place, number in enumerate(numbers):
        floor = top - 3.1 * (place + 1) + 0.7
        ax.text(0, floor + 2.5, f"sketch {number}" + (f": {NAMES[number]}" if named else ""), ha="left", va="center",
                fontsize=SMALLEST, weight="bold", color=INK)  # fmt: skip
        if named:
            ax.text(1, floor + 2.5, SIGNS[number], ha="right", va="center", fontsize=SMALLEST, color=INK)
        bars = sorted(SKETCHES[number](), key=lambda bar: bar.start)
        for row, (words, height) in enumerate((("computes", 1.1), ("communicates", 0.1))):
            ax.text(LEFT - 0.008, floor + height + 0.47, words, ha="right", va="center", fontsize=SMALLEST, color=INK)
            signs = SHOWN[number] if named and row else ()
            shown = [bar for bar in bars if (bar.kind in CALLS) == bool(row)]
            _row(ax, shown, bars, floor + height, signs)
            if named and NAMES[number] == "pipeline" and not row:
                _gaps(ax, shown, bars, floor + height)
    arrow(ax, (LEFT, 0.3), (1, 0.3))
    ax.text(0, 0.3, "time", ha="left", va="center", fontsize=SMALLEST, color=INK)
    ax.set(xlim=(0, 1.003), ylim=(0, high))
    say(ax, "Each sketch is one training step of one GPU, from left to right.\n"
            + "\n".join(_told(number, named) for number in numbers))  # fmt: skip
    return ax


def _row(ax: Axes, bars: list[Bar], whole: list[Bar], low: float, signs: Collection[int]) -> None:
    scale = (1 - LEFT) / max(bar.start + bar.length for bar in whole)  # each as wide as the picture
    for place, bar in enumerate(bars):
        words, colour = (CALLS[bar.kind], RECEIVED) if bar.kind in CALLS else (bar.kind + bar.name, PASSES[bar.kind])
        x, line = LEFT + bar.start * scale, 2.6 if place in signs else 0.6
        ax.add_patch(Rectangle((x, low), bar.length * scale, 0.92, facecolor=colour, edgecolor=INK, linewidth=line,
                               zorder=2 if line > 1 else 1))  # fmt: skip
        ax.text(x + bar.length * scale / 2, low + 0.45, words, ha="center", va="center", fontsize=SMALLEST, color=INK)


def _gaps(ax: Axes, bars: list[Bar], whole: list[Bar], low: float) -> None:
    """Draw the time in which nothing is computed between the first bar and the last."""
    scale = (1 - LEFT) / max(bar.start + bar.length for bar in whole)
    for one, other in pairwise(bars):
        begin, end = one.start + one.length, other.start
        ax.add_patch(Rectangle((LEFT + begin * scale, low), (end - begin) * scale, 0.92, facecolor=WAITING,
                               edgecolor=INK, linewidth=2.6, zorder=2))  # fmt: skip
        ax.text(LEFT + (begin + end) / 2 * scale, low + 0.45, "gap", ha="center", va="center", fontsize=SMALLEST,
                color=INK, zorder=3)  # fmt: skip


def _told(number: int, named: bool) -> str:
    computes, calls = [], []
    for bar in sorted(SKETCHES[number](), key=lambda bar: bar.start):
        there = calls if bar.kind in CALLS else computes
        there.append(f"{CALLS[bar.kind] if bar.kind in CALLS else bar.kind + bar.name} {bar.start:.3g}")
    name = f", {NAMES[number]} ({SIGNS[number]})" if named else ""
    return f"sketch {number}{name}: computes from {', '.join(computes)}; communicates from {', '.join(calls)}"
