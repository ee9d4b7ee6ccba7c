"""The ladder of sharding: what a rank holds and sends at each rung, measured beside the formula."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import GREY, SKY, SMALLEST, WIDTH, legend_below
from course_lib.plots.memory import PARTS, unit_of
from course_lib.plots.words import Picture, say

Parts = Mapping[str, float]


def ladder(
    held: Mapping[str, tuple[Parts, Parts]], sent: Mapping[str, tuple[float, float]], title: str | None = None
) -> list[Axes]:
    """Draw two bars a rung, the upper measured and the lower by formula: bytes held by part, and bytes sent a step.

    `held[rung]` is (measured, formula), each the bytes of "weights", "gradients" and "optimizer"; `sent[rung]` likewise
    two numbers. Its text twin is `ladder_text`.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.4 + 0.62 * len(held)), layout="constrained", sharey=True, width_ratios=(3, 2),
        FigureClass=Picture,
    )  # fmt: skip
    totals = {"held": [sum(p.values()) for both in held.values() for p in both], "sent": sum(sent.values(), ())}
    for ax, name in ((left, "held"), (right, "sent")):
        scale, unit = unit_of(max(totals[name]))
        for rung in range(len(held)):
            parts = list(held.values())[rung] if name == "held" else [{"": x} for x in list(sent.values())[rung]]
            for place, (sizes, formula) in enumerate(zip(parts, (False, True), strict=True)):
                _bar(ax, rung + 0.38 * place - 0.19, sizes, scale, formula, max(totals[name]))
        ax.set_xlim(0, 1.25 * max(totals[name]) / scale)
        ax.set_xlabel(f"{unit} a rank holds" if name == "held" else f"{unit} a rank sends in a step", fontsize=10)
        ax.tick_params(labelsize=SMALLEST)
        measured, formula = ([size / scale for size in totals[name][place::2]] for place in (0, 1))
        pairs = zip(held, measured, formula, strict=True)
        told = [f"{rung}: measured {seen:.3g}, by formula {said:.3g}" for rung, seen, said in pairs]
        say(ax, "\n".join([ax.get_xlabel(), *told]))
        for spine in ("top", "right"):
            ax.spines[spine].set_visible(False)
    left.set_yticks(range(len(held)), list(held))
    left.set_ylim(len(held) - 0.5, -0.5)
    if title:
        left.set_title(title, fontsize=11, loc="left")
    looks = [Patch(facecolor=PARTS[part][0], label=part) for part in ("weights", "gradients", "optimizer")]
    looks += [Patch(facecolor=SKY, label="sent"), Patch(facecolor=GREY, alpha=0.45, label="lower, pale: by formula")]
    legend_below(left, looks)
    return [left, right]


def ladder_text(held: Mapping[str, tuple[Parts, Parts]], sent: Mapping[str, tuple[float, float]]) -> str:
    """Return what `ladder` draws as a table: bytes measured, and their ratio to the formula."""
    lines = [f"{'':<8}" + "".join(f"{head:>14}" for head in ("held", "/ formula", "sent a step", "/ formula"))]
    for rung, both in held.items():
        now, formula = (sum(parts.values()) for parts in both)
        counted, said = sent[rung]
        lines.append(f"{rung:<8}{now:>14,}{now / formula:>14.4f}{counted:>14,}{counted / said:>14.4f}")
    return "\n".join(lines)


def _bar(ax: Axes, row: float, sizes: Parts, scale: float, formula: bool, most: float) -> None:
    begin = 0.0
    for part, size in sizes.items():
        colour = PARTS[part][0] if part else SKY
        ax.barh(row, size / scale, 0.36, begin, color=colour, alpha=0.45 if formula else 1, edgecolor="white")
        begin += size / scale
    ax.text(begin + 0.01 * most / scale, row, f"{begin:.3g}", va="center", fontsize=SMALLEST)
