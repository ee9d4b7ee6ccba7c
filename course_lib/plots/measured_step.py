"""A measured training step: the bytes alive as blocks of memory come and go, one step or two on one axis."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.plots.canvas import INK, LIMIT, SMALLEST, TITLE, WIDTH, Picture, new_axes, say
from course_lib.plots.memory import PARTS, unit_of

NAMES = {"step": "optimizer", "zero_grad": "zero\ngrad"}
FLOOR = ("weights", "optimizer")
NARROW = 0.42  # of another phase; it has few blocks
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def memory_timeline(
    step: Any, *, title: str | None = None, stairs: int = 0, top: float = 0.0, ax: Axes | None = None
) -> Axes:
    """Draw the bytes alive during a `MeasuredStep`, part on part, as blocks of memory come and go.

    Forward, backward and the optimizer's step are drawn equally wide, though they take unequal time and number of
    blocks. `stairs` is the number of layers, each of which is a stair of forward; `top` is the highest of several steps
    that are drawn side by side. Its text twin is `print(step)`.
    """
    scale, unit = unit_of(step.peak)
    ax = new_axes(ax, 4.0)
    places, begin = [0.0], 0
    most = max(top, step.peak) / scale
    starts = _starts(step)
    for phase, end in step.ends.items():
        start, wide = starts[phase]
        places += [start + wide * (i + 1) / (end - begin) for i in range(end - begin)]
        begin = end
        ax.text(start + wide / 2, 1.16 * most, NAMES.get(phase, phase), ha="center", va="center", fontsize=SMALLEST,
                weight="bold")  # fmt: skip
        if start:
            ax.plot([start, start], [1.1 * most, 1.22 * most], color=INK, linewidth=0.8)
    bottom = [0.0] * len(places)
    for part in (*FLOOR, *(part for part in step.alive if part not in FLOOR)):  # what stays lies below what goes
        sizes = step.alive[part]
        above = [low + size / scale for low, size in zip(bottom, sizes, strict=True)]
        colour, hatch = PARTS[part]
        ax.fill_between(places, bottom, above, step="post", facecolor=colour, hatch=hatch or None, edgecolor="white",
                        linewidth=0.0)  # fmt: skip
        _name(ax, part, places, bottom, above, 0.08 * most)
        bottom = above
    ax.plot(places, bottom, color="black", linewidth=0.6, drawstyle="steps-post")
    _most(ax, places[bottom.index(max(bottom))], step, scale, unit, most)
    for start, _ in list(starts.values())[1:]:
        ax.plot([start, start], [0, bottom[_nearest(places, start)]], color=INK, linewidth=0.6, linestyle=":")
    if stairs:
        _stairs(ax, places, bottom, stairs, most)
    ax.set_xlim(0, sum(wide for _, wide in starts.values()))
    ax.set_ylim(0, 1.24 * most)
    ax.set_xticks([])
    ax.set_xlabel("blocks of memory in the order in which they come and go", fontsize=SMALLEST)
    ax.set_ylabel(f"{unit} alive", fontsize=SMALLEST)
    told = f"measured: at most {step.peak / scale:.3g} {unit}, {step.peak_moment}"
    ax.set_title(title or told, fontsize=TITLE, loc="left")
    say(ax, "\n".join([told, str(step)]))
    return ax


def memory_timelines(first: Any, second: Any, limit: float | None = None) -> list[Axes]:
    """Draw a first and a second `MeasuredStep` on one axis of bytes: what stays, and how much higher the peak gets.

    `limit` are the bytes of a GPU, which the first step may pass and the second not. Its text twin is `print(step)`.
    """
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 4.3), layout="constrained", sharey=True, FigureClass=Picture)
    top = max(first.peak, second.peak)
    scale, unit = unit_of(top)
    for ax, name, step in ((axes[0], "first step", first), (axes[1], "second step", second)):
        memory_timeline(step, title=name, top=top, ax=ax)
        ax.set_xlabel("blocks of memory, in order", fontsize=SMALLEST)
    left, right = axes
    right.set_ylabel("")
    floor = first.totals[-1] / scale
    for ax, span in ((left, (0.62, 1)), (right, (0, 1))):
        wide = ax.get_xlim()[1]
        ax.plot([span[0] * wide, span[1] * wide], [floor, floor], color=INK, linewidth=1.6, linestyle="--")
    right.text(0.06, floor - 0.06 * top / scale, f"floor: {floor:.2f} {unit} that stay", fontsize=SMALLEST,
               color=INK, va="center", weight="bold", bbox={"facecolor": PARTS["optimizer"][0], "edgecolor": "none",
                                                            "pad": 1})  # fmt: skip
    peak, end = first.peak / scale, right.get_xlim()[1]
    right.plot([1.9, end], [peak, peak], color=INK, linewidth=1)
    right.annotate("", (2.2, top / scale), (2.2, peak), arrowprops={"arrowstyle": "<->", "color": INK, "shrinkA": 0,
                                                                     "shrinkB": 0})  # fmt: skip
    right.text(2.28, (peak + top / scale) / 2, f"+{second.peak / first.peak - 1:.0%}", fontsize=TITLE, va="center",
               weight="bold")  # fmt: skip
    right.text(end - 0.05, peak + 0.05 * top / scale, "the first peak", fontsize=SMALLEST, va="center", ha="right")
    for ax, step in ((left, first), (right, second)) if limit else ():
        ax.axhline(limit / scale, color=LIMIT, linestyle="--", linewidth=1.6)
        words = f"{limit / scale:g} {unit}: " + ("out of\nmemory" if step.peak > limit else "enough")
        ax.text(0.06, (limit + 0.02 * top) / scale, words, fontsize=SMALLEST, color=LIMIT, va="bottom")
    title = "The second step begins with the moments in memory, and its peak is higher"
    figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return list(axes)


def _starts(step: Any) -> dict[str, tuple[float, float]]:
    """Return where each phase begins, and how wide it is."""
    found, start = {}, 0.0
    for phase in step.ends:
        wide = NARROW if phase == "zero_grad" else 1.0
        found[phase] = (start, wide)
        start += wide
    return found


def _nearest(places: list, x: float) -> int:
    return min(range(len(places)), key=lambda i: abs(places[i] - x))


def _stairs(ax: Axes, places: list, top: list, stairs: int, most: float) -> None:
    """Number the stairs of forward, and name what is too thin for a name inside."""
    for stair in range(stairs):
        x = (stair + 0.45) / (stairs + 0.35)
        ax.text(max(x - 0.03, 0.12), top[_nearest(places, x)] + 0.08 * most, f"layer {stair + 1}", ha="center",
                va="center", fontsize=SMALLEST)  # fmt: skip
    spike = max((i for i, x in enumerate(places) if 1 <= x < 1.2), key=top.__getitem__)
    of_logits = "blue's tip: logits\nspike: their gradient"
    for x, dy, words in ((places[spike], 0.06, of_logits), (1.52, 0.14, "grey: working")):
        y = top[_nearest(places, x)]
        ax.annotate(words, (x, y - 0.02 * most), (x + 0.09, y + dy * most), fontsize=SMALLEST, va="center",
                    arrowprops={"arrowstyle": "-", "color": INK})  # fmt: skip


INSIDE = {"weights": (0.5, 0.5), "gradients": (2.68, 0.36), "optimizer": (2.62, 0.5), "activations": (0.6, 0.2)}


def _name(ax: Axes, part: str, places: list, bottom: list, above: list, enough: float) -> None:
    """Write the name of a part inside of it, where it is thick enough: the place, and the share of the height."""
    if part not in INSIDE:
        return  # a speck
    x, share = INSIDE[part]
    at = _nearest(places, x)
    if above[at] - bottom[at] > enough:
        words = "moments" if part == "optimizer" else part
        ax.text(x, bottom[at] + share * (above[at] - bottom[at]), words, ha="center", va="center", fontsize=SMALLEST,
                color="white" if part == "weights" else INK,
                bbox={"facecolor": PARTS[part][0], "edgecolor": "none", "pad": 1})  # fmt: skip


def _most(ax: Axes, x: float, step: Any, scale: float, unit: str, most: float) -> None:
    height = step.peak / scale
    last = sum(wide for _, wide in _starts(step).values())
    aside = -0.12 if x > 0.55 * last else 0.12
    ax.annotate(f"most: {height:.3g} {unit}", (x, height), (x + aside, height + 0.055 * most), fontsize=SMALLEST,
                weight="bold", ha="right" if aside < 0 else "left", va="center", bbox=PAPER,
                arrowprops={"arrowstyle": "-|>", "color": INK})  # fmt: skip
