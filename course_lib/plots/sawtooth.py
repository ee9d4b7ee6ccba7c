"""The sawtooth of fully sharded training: what a rank keeps is a floor, and each borrowed layer is a tooth on it."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_lib.memory import model_state_bytes
from course_lib.models import MODELS, parameter_count
from course_lib.plots.canvas import (
    FACES,
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
from course_lib.plots.teeth import DOING, chips

FORWARD_TOOTH = (("gather", 0.42, 1), ("compute", 0.52, 1))  # what is done, how wide it is drawn, how many layers high
BACKWARD_TOOTH = (("gather", 0.42, 1), ("gradient", 0.52, 2), ("reduce-scatter", 0.52, 2))
GAP, BREAK = 0.3, 1.5  # of the floor after a tooth, of the layers that are left out
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
    ax = new_axes(ax, 4.5)
    teeth, end = _places(shape.layers)
    top = base + kept["gradients"] + 2 * layer

    ax.fill_between([0, end], 0, kept["optimizer"], color=OPTIMIZER, linewidth=0)
    ax.fill_between([0, end], kept["optimizer"], base, color=WEIGHTS, linewidth=0)
    share = kept["gradients"] / shape.layers
    wedge = [(x + _width(True) * after, base + share * (shape.layers - number + after))
             for x, number, backward in teeth if backward for after in (0, 1)]  # fmt: skip
    ax.add_patch(Polygon([(wedge[0][0], base), *wedge, (end, wedge[-1][1]), (end, base)], color=GRADIENTS, linewidth=0))
    for x, number, backward in teeth:
        floor, left = base + share * (shape.layers - number) * backward, x
        line = [(x, floor)]
        for doing, wide, high in BACKWARD_TOOTH if backward else FORWARD_TOOTH:
            parts = (DOING[doing][0],) if high == 1 else (FACES[0], DOING[doing][0])  # the layer, its gradient on top
            for part, colour in enumerate(parts):
                ax.add_patch(Rectangle((left, floor + part * layer), wide, layer, facecolor=colour, linewidth=0))
            line += [(left, floor + high * layer), (left + wide, floor + high * layer)]
            left += wide
        ax.plot(*zip(*line, (left, floor), strict=True), color=INK, linewidth=1)
        ax.text((x + left) / 2, floor + layer / 2, str(number), ha="center", va="center", fontsize=SMALLEST, color=INK)
    _words(ax, teeth, shape.layers, kept, base, layer, top, end)
    ax.set(xlim=(0, end), ylim=(0, 1.5 * top), xticks=[])
    ax.set_xlabel("one step: layer after layer forward, then back", fontsize=SMALLEST)
    ax.set_ylabel("GB on one rank", fontsize=SMALLEST)
    title = f"A rank keeps 1/{gpus} of {name} and borrows one whole layer at a time"
    ax.set_title(title, fontsize=TITLE, loc="left")
    verdict = f"Plain data parallelism would be {alone:,.0f} GB high. An H100 has 80 GB."
    ax.text(end * 0.99, 1.44 * top, verdict, fontsize=SMALLEST, color=LIMIT, va="center", ha="right")
    say(ax, f"{verdict}\nSharded, a rank keeps {kept['optimizer']:.1f} GB of optimizer state and "
            f"{kept['weights']:.1f} GB of weights all the time. In forward each of {shape.layers} layers is gathered "
            f"(+{layer:.1f} GB), computes and is freed. In backward, from the last layer to the first, it is gathered "
            f"again, its gradient appears (another +{layer:.1f} GB), is reduce-scattered, and both are freed; the "
            f"rank's gradient shards grow to {kept['gradients']:.1f} GB. At most {top:.1f} GB, activations not counted")
    return ax


def _width(backward: bool) -> float:
    return sum(wide for _, wide, _ in (BACKWARD_TOOTH if backward else FORWARD_TOOTH))


def _places(layers: int) -> tuple[list[tuple[float, int, bool]], float]:
    """Return (left edge, number of the layer, whether in backward) of each tooth, and where the step ends."""
    ahead = [1, 2, 3, layers - 1, layers]
    teeth, x = [], 0.3
    for backward, numbers in ((False, ahead), (True, ahead[::-1])):
        for before, number in zip([None, *numbers], numbers, strict=False):
            if before is not None and abs(number - before) > 1:
                x += BREAK
            teeth.append((x, number, backward))
            x += _width(backward) + GAP
    return teeth, x + 0.3


def _words(
    ax: Axes, teeth: list, layers: int, kept: dict, base: float, layer: float, top: float, end: float
) -> None:  # fmt: skip
    text = {"fontsize": SMALLEST, "color": INK, "va": "center"}
    ax.text(0.15, kept["optimizer"] / 2, f"its share of the optimizer's state: {kept['optimizer']:.1f} GB", **text)
    ax.text(0.15, kept["optimizer"] + kept["weights"] / 2, f"its share of the weights: {kept['weights']:.1f} GB",
            **(text | {"color": "white"}))
    ax.text(end - 0.15, base + kept["gradients"] * 0.45, f"its share of the gradients: {kept['gradients']:.1f} GB",
            ha="right", **text)
    for after, backward in ((2, False), (6, True)):
        place = teeth[after][0] + _width(backward) + (GAP + BREAK) / 2 - 0.08 * backward
        ax.text(place, base + layer * 0.7, f"…\n{layers - 5}\nmore", ha="center", **text)
    middle = teeth[5][0] - GAP / 2
    ax.axvline(middle, 0, 0.93, color=INK, linewidth=0.8, linestyle=":")
    for left, name, tooth in ((0.15, f"FORWARD, layer 1 to {layers}", FORWARD_TOOTH),
                              (middle + 0.15, f"BACKWARD, layer {layers} to 1", BACKWARD_TOOTH)):  # fmt: skip
        ax.text(left, 1.34 * top, name, weight="bold", **text)
        words = {doing: "gather again" if doing == "gather" and len(tooth) > 2 else doing for doing, *_ in tooth}
        chips(ax, left + 0.04, 1.23 * top, words | {"free": "free"}, end)
    x = teeth[0][0] - 0.12
    ax.text(x, base + 1.2 * layer, f"+{layer:.1f} GB: one whole layer", **text)
    x = teeth[7][0] - 0.15
    arrow(ax, (x, base + kept["gradients"]), (x, top - layer), "<|-|>")
    arrow(ax, (x, top - layer), (x, top), "<|-|>")
    ax.text(x + 0.1, top + 0.05 * top, f"+{layer:.1f} GB: its gradient", ha="right", **text)
    ax.text(end - 0.15, top + 0.05 * top, f"peak {top:.1f} GB", ha="right", **text)
