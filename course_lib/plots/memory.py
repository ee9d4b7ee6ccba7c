"""Bytes: a bar for each breakdown against what the GPU has, and the bytes alive during a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, SMALLEST, legend_below, new_axes
from course_lib.plots.words import say

PARTS = {
    "weights": (BLUE, ""), "gradients": (ORANGE, ""), "optimizer": (PURPLE, ""), "activations": (GREEN, ""),
    "logits": (SKY, "///"), "working": (GREY, "..."),
}  # fmt: skip
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))


def memory_bars(
    breakdowns: Mapping[str, Any] | Iterable[Any],
    *,
    capacity: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each breakdown at the moment when most is alive: a bar of its parts, and a line at what the GPU has.

    Takes `Breakdown`s or `MeasuredStep`s, by name or as they come. Without `capacity` the line stands at that of the
    breakdowns' GPU where they have one and the same. Its text twin is `print(breakdown)`.
    """
    named = dict(breakdowns) if isinstance(breakdowns, Mapping) else {b.shape.name: b for b in breakdowns}
    moments = {name: b.moments[b.peak_moment] for name, b in named.items()}
    most = max([sum(parts.values()) for parts in moments.values()] + [capacity or 0])
    gpus = {getattr(b, "gpu", None) for b in named.values()}
    line = f"{capacity / 1e9:g} GB" if capacity else ""
    if capacity is None and len(gpus) == 1 and (gpu := gpus.pop()):
        capacity, line = gpu.memory, f"{gpu.name}: {gpu.memory / 1e9:g} GB"
        most = max(most, capacity)
    scale, unit = unit_of(most)
    ax = new_axes(ax, 1.5 + 0.5 * len(named))
    for row, parts in enumerate(moments.values()):
        left = 0.0
        for part, size in parts.items():
            colour, hatch = PARTS.get(part, (GREY, ""))
            ax.barh(row, size / scale, 0.6, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
            left += size / scale
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # or the line runs through the letters
        ax.text(left + most / scale * 0.01, row, f"{left:,.3g} {unit}", va="center", fontsize=SMALLEST, bbox=paper)
    if capacity:
        ax.axvline(capacity / scale, color=RED, linestyle="--", linewidth=1.6)
        right = capacity > 0.6 * most  # else the words would leave the picture
        ax.text(
            capacity / scale, -0.62, f"{line} " if right else f" {line}", color=RED, fontsize=SMALLEST,
            ha="right" if right else "left", va="bottom",
        )  # fmt: skip
    ax.set_xlim(0, 1.12 * most / scale or 1)
    ax.set_ylim(len(named) - 0.4, -0.6)
    ax.set_yticks(range(len(named)), list(named))
    ax.set_xlabel(f"{unit}, when most is alive", fontsize=10)
    if title:
        ax.set_title(title, fontsize=11, loc="left", pad=16)
    _key(ax, [part for part in PARTS if any(parts.get(part) for parts in moments.values())])
    told = [f"{name}: {sum(parts.values()) / scale:,.3g} {unit}, of it "
            + ", ".join(f"{part} {size / scale:,.3g}" for part, size in parts.items() if size)
            for name, parts in moments.items()]
    say(ax, "\n".join([*told, f"a line at {line}" if line else ""]))
    return ax


def memory_timeline(step: Any, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the bytes alive during a `MeasuredStep`, part on part, as blocks of memory come and go.

    Forward, backward and the optimizer's step are drawn equally wide, though they take unequal time and number of
    blocks. Its text twin is `print(step)`.
    """
    scale, unit = unit_of(step.peak)
    ax = new_axes(ax, 3.6)
    places, begin = [0.0], 0
    widths = {phase: 0.3 if phase == "zero_grad" else 1.0 for phase in step.ends}
    for number, (phase, end) in enumerate(step.ends.items()):
        start = sum(list(widths.values())[:number])
        places += [start + widths[phase] * (i + 1) / (end - begin) for i in range(end - begin)]
        begin = end
        middle = start + widths[phase] / 2
        ax.text(middle, 1.08 * step.peak / scale, phase.replace("_", " "), ha="center", fontsize=SMALLEST)
        ax.axvline(start, color="black", linewidth=0.6, linestyle=":")
    bottom = [0.0] * len(places)
    for part, sizes in step.alive.items():
        top = [low + size / scale for low, size in zip(bottom, sizes, strict=True)]
        colour, hatch = PARTS[part]
        ax.fill_between(places, bottom, top, step="post", color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        bottom = top
    ax.plot(places, bottom, color="black", linewidth=0.8, drawstyle="steps-post")
    ax.set_xlim(0, sum(widths.values()))
    ax.set_ylim(0, 1.15 * step.peak / scale)
    ax.set_xticks([])
    ax.set_xlabel("blocks of memory come and go, in order; forward, backward and step drawn equally wide", fontsize=10)
    ax.set_ylabel(f"{unit} alive", fontsize=10)
    told = f"measured: at most {step.peak / scale:.3g} {unit}, {step.peak_moment}"
    ax.set_title(f"{title} ({told})" if title else told, fontsize=11, loc="left")
    _key(ax, [part for part, sizes in step.alive.items() if max(sizes)])
    say(ax, str(step))
    return ax


def unit_of(most: float) -> tuple[float, str]:
    """Return (bytes, unit) in which a size of up to `most` bytes is read best: (1e9, "GB")."""
    return next((scale, unit) for scale, unit in UNITS if most >= scale or scale == 1)


def _key(ax: Axes, parts: list[str]) -> None:
    looks = {part: PARTS[part] for part in parts}
    legend_below(
        ax,
        [
            Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=part)
            for part, (colour, hatch) in looks.items()
        ],
    )
