"""The measured sawtooth of a step of stage 3: what is gathered, computed, reduce-scattered and freed, unit by unit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes

from course_lib.plots.canvas import (
    ACTIVATIONS,
    BACKWARD,
    COMPUTE,
    FACES,
    GRADIENTS,
    INK,
    LIMIT,
    OPTIMIZER,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    WEIGHTS,
    arrow,
    new_axes,
    say,
)

# What is done in a tooth, in order: its colour, its width, and its name in backward. What comes in and what goes out
# are pink as everywhere, computing is green, and what only backward does is orange.
DOING = {
    "gather": (RECEIVED, 1.0, "gather again"),
    "compute": (COMPUTE, 1.0, "compute again"),
    "gradient": (BACKWARD, 1.0, "gradient"),
    "reduce-scatter": (SENT, 1.6, "reduce-scatter"),
    "free": ("white", 0.8, "free"),
}
CHIP = {"boxstyle": "square,pad=0.3", "edgecolor": INK, "linewidth": 0.6}  # behind the name of what is done


def sawtooth_measured(curve: Any, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the bytes that a rank has alive over a run, coloured by what it does: a Curve of lessons.stage_3.

    Heights are measured. Each thing that is done is drawn equally wide, however many operations it takes. Its text
    twin is `print(curve)`.
    """
    ax = new_axes(ax, 4.3)
    spans, end = _spans(curve)
    floor, top = curve.floor / 1e3, max(held for *_, heights in spans for held in heights) / 1e3
    weights = sum(curve.shards) / 1e3
    ax.fill_between([0, end], 0, floor - weights, color=OPTIMIZER, linewidth=0)
    ax.fill_between([0, end], floor - weights, floor, color=WEIGHTS, linewidth=0)
    outline, base, kept = ([], []), floor, 0.0
    for way, unit, doing, x, wide, heights in spans:
        places = [x + wide * number / len(heights) for number in range(len(heights) + 1)]
        tall = [height / 1e3 for height in (*heights, heights[-1])]
        if doing == "free":
            kept += curve.shards[unit] / 1e3 * (way == "backward")
            base = tall[-1]
        stays = min(floor + kept, base)
        ax.fill_between([x, x + wide], floor, stays, color=GRADIENTS, linewidth=0)
        ax.fill_between([x, x + wide], stays, base, color=ACTIVATIONS, linewidth=0)
        if doing != "free":
            ax.fill_between(places, base, tall, step="post", color=DOING[doing][0], linewidth=0)
        if doing in ("gradient", "reduce-scatter"):  # below, the unit; above, its gradient
            below = [min(height, base + curve.units[unit] / 1e3) for height in tall]
            ax.fill_between(places, base, below, step="post", color=FACES[0], linewidth=0)
        outline[0].extend(places), outline[1].extend(tall)
    ax.plot(*outline, drawstyle="steps-post", color=INK, linewidth=1.0)
    _words(ax, curve, spans, end, floor, weights, top)
    ax.set(xlim=(0, end), ylim=(0, 1.48 * top), xticks=[])
    ax.set_xlabel("one unit after the other; heights are measured, widths are not", fontsize=SMALLEST)
    ax.set_ylabel("kB alive on rank 0", fontsize=SMALLEST)
    ax.set_title(title or "Measured: one unit at a time comes and goes", fontsize=TITLE, loc="left")
    peaks = {f"{way} of unit {unit}": max(held for *_, heights in group for held in heights)
             for (way, unit), group in groupby(spans, key=lambda span: span[:2])}  # fmt: skip
    told = ", ".join(f"{held / 1e3:,.1f} in {when}" for when, held in peaks.items())
    back = ("in backward it is gathered and computes again, makes its gradient, reduce-scatters it and is freed; "
            if any(span[0] == "backward" for span in spans) else "")  # fmt: skip
    say(ax, f"kB alive on rank 0; kept all the time {floor:,.1f}, of it {weights:,.1f} shards of the weights; a unit "
            f"is gathered, computes and is freed; {back}at most {told}\n{_verdict(curve) * bool(back)}".strip())
    return ax


def _verdict(curve: Any) -> str:
    whole = 4 * sum(curve.units) / 1e3  # weights, gradients and two moments
    return f"Plain data parallelism would be {whole:,.0f} kB high."


def _spans(curve: Any) -> tuple[list[tuple], float]:
    """Return (way, unit, what is done, left edge, width, heights in bytes) of each span, and where the last one ends.

    The end of the last unit's forward is the beginning of its backward: the loss is computed between.
    """
    spans, x = [], 0.0
    rows = [(*sample, doing) for sample, doing in zip(curve.samples, curve.doing, strict=True)]
    for (way, unit, doing), group in groupby(rows, key=lambda row: (row[0], row[1], row[3])):
        heights = [held for held, _ in groupby(held for _, _, held, _ in group)]
        heights = heights[-1:] if doing == "free" else heights
        wide = DOING[doing][1]
        spans.append((way, unit, doing, x, wide, heights))
        x += wide
    return spans, x


def _words(ax: Axes, curve: Any, spans: list, end: float, floor: float, weights: float, top: float) -> None:
    text = {"fontsize": SMALLEST, "va": "center", "color": INK}
    if floor > weights:
        ax.text(end / 100, (floor - weights) / 2, f"both moments: {floor - weights:.1f} kB", **text)
    ax.text(end / 100, floor - weights / 2, f"its shards of the weights: {weights:.1f} kB", **text | {"color": "white"})
    halves = {way: list(group) for way, group in groupby(spans, key=lambda span: span[0])}
    for way, mine in halves.items():
        left = mine[0][3]
        if left:
            ax.axvline(left, 0, 1, color=INK, linewidth=0.8, linestyle=":")
        units = [unit for unit, _ in groupby(span[1] for span in mine)]
        ax.text(left + end / 100, 1.29 * top, f"{way.upper()}, unit {units[0]} to {units[-1]}", weight="bold", **text)
        done = [doing for doing in DOING if doing in {span[2] for span in mine}]
        words = {doing: DOING[doing][2] if way == "backward" else doing for doing in done}
        chips(ax, left + end / 100, 1.17 * top, words, end)
        for unit, group in groupby(mine, key=lambda span: span[1]):
            tooth = [span for span in group if span[2] != "free"]
            if tooth:
                first = [span for span in tooth if span[2] in ("gather", "compute")]  # its number stands on these
                middle = (first[0][3] + first[-1][3] + first[-1][4]) / 2
                high = max(max(span[5]) for span in first) / 1e3
                ax.text(middle, high + 0.035 * top, str(unit), ha="center", **text)
    if "backward" in halves:
        last = f"its shards of the gradients: {sum(curve.shards) / 1e3:.1f} kB"
        ax.text(end * 0.99, floor + 0.18 * weights, last, ha="right", **text)
        high, right = max((max(span[5]), span[3] + span[4]) for span in spans)
        ax.text(right, high / 1e3 + 0.045 * top, f"peak {high / 1e3:.0f} kB", ha="right", **text)
        ax.text(end * 0.99, 1.42 * top, _verdict(curve), ha="right", **text | {"color": LIMIT})
    beside = halves["backward"][0][3] if "backward" in halves else end  # here the most inputs are kept
    place, stripe = (beside + end / 60, "left") if beside < end else (end * 0.99, "right")
    ax.text(place, floor - weights / 2, "the inputs that it keeps", ha=stripe, **text | {"color": "white"})
    x = place + (end / 30 if stripe == "left" else -end / 60)
    arrow(ax, (x, floor - weights / 2 + 0.04 * top), (x, floor + 0.01 * top), colour="white", line=1.6)


def chips(ax: Axes, x: float, y: float, words: Mapping[str, str], end: float) -> None:
    """Write what is done, each on its colour and one after the other, on an axis that is `end` long."""
    for doing, word in words.items():
        box = CHIP | {"facecolor": DOING[doing][0]}
        written = ax.text(x, y, word, fontsize=SMALLEST, va="center", color=INK, bbox=box)
        wide = written.get_window_extent(ax.figure.canvas.get_renderer()).width
        x += wide / (0.9 * ax.figure.bbox.width) * end + end / 60  # the axis is about as wide as the picture
