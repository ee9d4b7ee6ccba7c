"""The sawtooth of fully sharded training: what a rank keeps is a floor, and each borrowed layer is a tooth on it."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_lib.memory import model_state_bytes
from course_lib.models import MODELS, parameter_count
from course_lib.plots.canvas import (
    GRADIENTS,
    INK,
    LIMIT,
    OPTIMIZER,
    SMALLEST,
    TITLE,
    WEIGHTS,
    arrow,
    new_axes,
    say,
)

BORROWED, FRESH = "#8FC1E3", "#F3CF8B"  # paler than WEIGHTS and GRADIENTS: here for a moment only
WIDE, GAP, BREAK = 0.76, 0.24, 1.5  # of a tooth, of the floor after it, of the layers that are left out
GB = 1e9


def sawtooth(name: str = "Llama-3-70B", gpus: int = 256, ax: Axes | None = None) -> Axes:
    """Draw the memory of one of `gpus` ranks over a step of fully sharded training, without activations.

    The model is one of course_lib.models.MODELS, in bf16 mixed precision with AdamW. Only a few layers at either end
    are drawn; the gradient's shards grow by equal steps from the last layer to the first.
    """
    shape = MODELS[name]
    total = parameter_count(shape)
    layer = 2 * (parameter_count(replace(shape, layers=2)) - parameter_count(replace(shape, layers=1))) / GB
    kept = {part: size / GB for part, size in model_state_bytes(total, zero=3, ranks=gpus).items()}
    alone = sum(model_state_bytes(total).values()) / GB
    base = kept["optimizer"] + kept["weights"]
    ax = new_axes(ax, 4.3)
    teeth, end = _places(shape.layers)
    top = base + kept["gradients"] + 2 * layer

    middle = teeth[4][0] + WIDE + GAP  # where forward ends
    ax.fill_between([0, end], 0, kept["optimizer"], color=OPTIMIZER, linewidth=0)
    ax.fill_between([0, end], kept["optimizer"], base, color=WEIGHTS, linewidth=0)
    share = kept["gradients"] / shape.layers
    wedge = [(x + WIDE * after, base + share * (shape.layers - number + after))
             for x, number, backward in teeth if backward for after in (0, 1)]  # fmt: skip
    ax.add_patch(Polygon([(middle, base), *wedge, (end, wedge[-1][1]), (end, base)], color=GRADIENTS, linewidth=0))
    for x, number, backward in teeth:
        floor = base + share * (shape.layers - number) * backward
        look = {"edgecolor": "white", "linewidth": 0.8}
        ax.add_patch(Rectangle((x, floor), WIDE, layer, facecolor=BORROWED, **look))
        if backward:
            ax.add_patch(Rectangle((x + 0.3, floor + layer), WIDE - 0.3, layer, facecolor=FRESH, **look))
        ax.text(x + WIDE / 2, floor + layer / 2, str(number), ha="center", va="center", fontsize=SMALLEST)
    _words(ax, teeth, shape.layers, kept, base, layer, top, middle, end)
    ax.set(xlim=(0, end), ylim=(0, 1.32 * top))
    ax.set_xticks([middle / 2, (middle + end) / 2], ["forward, layer by layer", "backward, layer by layer"])
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("GB on one rank, over one step", fontsize=SMALLEST)
    title = f"A rank keeps 1/{gpus} of {name} and, for a moment, one whole layer"
    ax.set_title(title, fontsize=TITLE, loc="left")
    verdict = f"Plain data parallelism: {alone:,.0f} GB on every GPU. An H100 has 80 GB."
    ax.text(0.15, 1.25 * top, verdict, fontsize=SMALLEST, color=LIMIT, va="center")
    say(ax, f"{verdict}\nSharded, a rank keeps {kept['optimizer']:.1f} GB of optimizer state and "
            f"{kept['weights']:.1f} GB of weights all the time. In forward each of {shape.layers} layers is gathered "
            f"(+{layer:.1f} GB), used and freed. In backward, from the last layer to the first, it is gathered again, "
            f"its gradient appears (another +{layer:.1f} GB), is reduce-scattered, and both are freed; the rank's "
            f"gradient shards grow to {kept['gradients']:.1f} GB. At most {top:.1f} GB, activations not counted")
    return ax


def _places(layers: int) -> tuple[list[tuple[float, int, bool]], float]:
    """Return (left edge, number of the layer, whether in backward) of each tooth, and where the step ends."""
    ahead = [1, 2, 3, layers - 1, layers]
    teeth, x = [], 0.3
    for backward, numbers in ((False, ahead), (True, ahead[::-1])):
        for before, number in zip([None, *numbers], numbers, strict=False):
            if before is not None and abs(number - before) > 1:
                x += BREAK
            teeth.append((x, number, backward))
            x += WIDE + GAP
    return teeth, x + 0.5


def _words(
    ax: Axes, teeth: list, layers: int, kept: dict, base: float, layer: float, top: float, middle: float, end: float
) -> None:
    text = {"fontsize": SMALLEST, "color": INK, "va": "center"}
    ax.text(0.15, kept["optimizer"] / 2, f"what this rank keeps of the optimizer: {kept['optimizer']:.1f} GB", **text)
    ax.text(0.15, kept["optimizer"] + kept["weights"] / 2, f"its share of the weights: {kept['weights']:.1f} GB",
            **(text | {"color": "white"}))
    ax.text(end - 0.15, base + kept["gradients"] * 0.45, f"its gradients: {kept['gradients']:.1f} GB", ha="right",
            **text)
    for after in (2, 6):
        place = teeth[after][0] + WIDE + (GAP + BREAK) / 2
        ax.text(place, base + layer * 0.62, f"…\n{layers - 5} more", ha="center", **text)
    ax.axvline(middle - GAP / 2 + 0.02, 0, 0.86, color=INK, linewidth=0.8, linestyle=":")
    x, high = teeth[0][0], base + layer
    ax.text(x + WIDE / 2, high + 0.17 * top, f"gather\n+{layer:.1f} GB", ha="center", **text)
    arrow(ax, (x + WIDE / 2, high + 0.09 * top), (x + WIDE / 2, high + 0.01 * top))
    x = teeth[1][0]
    ax.text(x + WIDE + 0.25, high + 0.17 * top, "use, free", ha="center", **text)
    arrow(ax, (x + WIDE + GAP / 2, high + 0.12 * top), (x + WIDE + GAP / 2, base + 0.02 * top))
    ax.text(end - 0.15, top + 0.05 * top, f"peak {top:.1f} GB", ha="right", **text)
    x, high = teeth[5][0], base + 2 * layer
    words = f"gather again: +{layer:.1f} GB\nthe gradient: +{layer:.1f} GB\nreduce-scatter it, free both"
    ax.text(x + 0.1, high + 0.17 * top, words, ha="left", **text)


def sawtooth_measured(curve: Any, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the bytes that a rank has alive over a run, operation by operation: a Curve of lessons.stage_3.

    Its text twin is `print(curve)`.
    """
    ax = new_axes(ax, 3.4)
    points = [key for key, _ in groupby(curve.samples)]
    heights = [held / 1e3 for *_, held in points] + [points[-1][2] / 1e3]
    floor, top = curve.floor / 1e3, max(heights)
    ax.fill_between(range(len(heights)), 0, heights, step="post", color=BORROWED, linewidth=0)
    ax.fill_between([0, len(points)], 0, floor, color=WEIGHTS, linewidth=0)
    ax.plot(range(len(heights)), heights, drawstyle="steps-post", color=INK, linewidth=0.9)
    paper = {"fontsize": SMALLEST, "color": INK}
    white = paper | {"color": "white"}
    ax.text(len(points) / 2, floor / 2, f"kept all the time: {floor:,.1f} kB", ha="center", va="center", **white)
    at = 0
    for (_, unit), group in groupby(points, key=lambda point: point[:2]):
        mine = list(group)
        ax.text(at + len(mine) / 2, max(held for *_, held in mine) / 1e3 + 0.02 * top, str(unit), ha="center", **paper)
        at += len(mine)
    begin = 0
    for way, group in groupby(points, key=lambda point: point[0]):
        many = len(list(group))
        ax.text(begin + many / 2, 1.17 * top, f"{way}, unit by unit", ha="center", va="center", **paper)
        if begin:
            ax.axvline(begin, color=INK, linewidth=0.8, linestyle=":")
        begin += many
    ax.set(xlim=(0, len(points)), ylim=(0, 1.25 * top), xticks=[])
    ax.set_xlabel("operations, one after the other", fontsize=SMALLEST)
    ax.set_ylabel("kB alive on rank 0", fontsize=SMALLEST)
    ax.set_title(title or "Measured: one unit at a time comes and goes", fontsize=TITLE, loc="left")
    peaks = {f"{way} of unit {unit}": max(held for *_, held in group)
             for (way, unit), group in groupby(points, key=lambda point: point[:2])}  # fmt: skip
    say(ax, f"kB alive on rank 0; kept all the time {floor:,.1f}; at most "
            + ", ".join(f"{held / 1e3:,.1f} in {when}" for when, held in peaks.items()))
    return ax
