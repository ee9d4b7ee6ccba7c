"""What the milliseconds of an answer were spent on: in all, and a piece of it as its user lives through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from course_lib.plots.canvas import COMPUTE, FORWARD, INK, SMALLEST, TITLE, WIDTH, Picture, legend_below, say

PARTS = {"until the first token": FORWARD, "own tokens": COMPUTE, "others in its steps": "#C5E6DC",
         "others' prompts": "#D3E9F7"}
LABELS = {"others in its steps": "longer steps, because of others", "others' prompts": "others' prompts between"}
HATCHES = {"others in its steps": "...", "others' prompts": "///"}

TOLD = "In chunks no stranger's prompt stops the answer"


def bill(
    answers: Mapping[str, Mapping[str, float]], *, title: str = TOLD,
    strips: Mapping[str, Sequence[tuple[float, float]]] | None = None, span: float = 0.2,
) -> list[Axes]:  # fmt: skip
    """Draw what the seconds of some answers were spent on: a bar for each, `answers[name][part]` in seconds.

    `strips[name]` are the beginning and end of each step that gave this user a token; `span` seconds of them, from the
    middle of the answer on, are drawn below, on an axis of time.
    """
    strips = strips or {}
    heights = [0.6 + 0.6 * len(answers)] + [0.55 + 0.42 * len(strips)] * bool(strips)
    figure, axes = plt.subplots(len(heights), 1, figsize=(WIDTH, sum(heights) + 0.5), height_ratios=heights,
                                layout="constrained", FigureClass=Picture, squeeze=False)  # fmt: skip
    for ax in axes.flat:
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.tick_params(labelsize=SMALLEST)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1e3 * value:,.0f}"))
    _sums(axes[0, 0], answers)
    axes[0, 0].set_title(title, fontsize=TITLE, loc="left")
    if strips:
        _strips(axes[1, 0], strips, span)
    return list(axes.flat)


def _sums(ax: Axes, answers: Mapping[str, Mapping[str, float]]) -> None:
    longest, told = max(sum(parts.values()) for parts in answers.values()), []
    for row, (name, parts) in enumerate(answers.items()):
        left, whole = 0.0, sum(parts.values())
        for part, seconds in parts.items():
            ax.barh(row, seconds, 0.62, left, color=PARTS[part], edgecolor=INK, linewidth=0.6,
                    hatch=HATCHES.get(part, ""))
            if seconds > 0.04 * longest:
                paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if part in HATCHES else None
                ax.text(left + seconds / 2, row, f"{1e3 * seconds:,.0f}", ha="center", va="center",
                        fontsize=SMALLEST, bbox=paper)
            left += seconds
        ax.text(whole + 0.01 * longest, row, f"{1e3 * whole:,.0f} ms", va="center", fontsize=SMALLEST, weight="bold")
        told.append(f"{name}: " + ", ".join(f"{part} {1e3 * s:,.0f} ms" for part, s in parts.items() if s > 0.0005))
    ax.set_xlim(0, 1.13 * longest)
    shown = [part for part in PARTS if any(parts.get(part, 0) > 0.0005 for parts in answers.values())]
    legend_below(ax, [Patch(facecolor=PARTS[part], edgecolor=INK, hatch=HATCHES.get(part, ""),
                            label=LABELS.get(part, part))
                      for part in shown], columns=2)
    ax.set_ylim(len(answers) - 0.5, -0.5)
    ax.set_yticks(range(len(answers)), list(answers))
    ax.set_xlabel("the whole answer: ms by what they were spent on (simulated)", fontsize=SMALLEST)
    say(ax, "\n".join(told))


def _strips(ax: Axes, strips: Mapping[str, Sequence[tuple[float, float]]], span: float) -> None:
    told = []
    for row, (name, steps) in enumerate(strips.items()):
        begin = steps[len(steps) // 2][0]
        seen = [(start - begin, min(end - begin, span)) for start, end in steps if 0 <= start - begin < span]
        ax.barh(row, span, 0.6, color=PARTS["others' prompts"], edgecolor=INK, linewidth=0.6, hatch="///")
        for start, end in seen:
            ax.barh(row, end - start, 0.6, start, color=COMPUTE, edgecolor="white", linewidth=0.6)
        came = sum(0 < end - begin <= span and start >= begin for start, end in steps)
        told.append(f"{name}: {came} tokens in {1e3 * span:.0f} ms")
        ax.text(1.01 * span, row, f"{came} tokens", va="center", fontsize=SMALLEST, weight="bold")
    ax.set_xlim(0, 1.13 * span)
    ax.set_ylim(len(strips) - 0.45, -0.55)
    ax.set_yticks(range(len(strips)), list(strips))
    words = "a piece from the answer's middle, in ms: each green step ends with a token"
    ax.set_xlabel(words, fontsize=SMALLEST)
    say(ax, "\n".join(told))
