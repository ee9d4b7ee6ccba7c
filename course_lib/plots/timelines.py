"""Several results under one another, on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from course_lib.plots.canvas import SENT, SMALLEST, TITLE, WIDTH, Picture, legend_below
from course_lib.plots.messages import HATCH, ON_ITS_WAY
from course_lib.plots.time import key, kinds_of, look, time_unit, timeline

LEAST = 1e-9  # seconds: shorter pauses are rounding


def timelines(
    results: Mapping[str, Any], *, row: str = "rank", clock: str = "", numbers: bool = True,
    title: str | None = None, names: Mapping[str, str] | None = None, until: float = 0.0,
    tints: bool = False, halves: bool = False, latency: float = 0.0, kinds: bool = True,
) -> list[Axes]:  # fmt: skip
    """Draw a timeline for each of `results`, all on one scale; above each stand its name and its seconds.

    A played schedule also says which share of its time is idle; from the second on it is said how many times as fast it
    is as the first, or how many times as long where that is twice or more. `clock` names the axis; without `numbers`
    the bars bear none; `names` says what a kind of event is called in the legend; with `halves` sends lie in the
    upper half of a row, receives in the lower; the last `latency` seconds of a send and the first of a receive are
    hatched, as `messages` does it; with `tints` a second chunk is pale rather than hatched; without `kinds` all work
    looks alike, because strips of a pixel would mix to a colour that is none of theirs; the axis reaches at least to
    `until` seconds. Its text twin is `print(result)` of each.
    """
    if not kinds:
        results = {name: _alike(result) for name, result in results.items()}
    longest = max([until, *(result.seconds for result in results.values())])
    factor, unit = time_unit(longest)
    heights = [0.55 + min((0.42 if numbers else 0.2) * len(result), 4.0) for result in results.values()]
    figure, axes = plt.subplots(
        len(results), 1, figsize=(WIDTH, sum(heights) + 0.9), layout="constrained", FigureClass=Picture, sharex=True,
        squeeze=False, height_ratios=heights,
    )  # fmt: skip
    first = next(iter(results.values())).seconds
    for place, (ax, (name, result)) in enumerate(zip(axes.flat, results.items(), strict=True)):
        timeline(result, row=row, until=longest, ax=ax, halves=halves)
        faster = first / result.seconds if place else 1.0
        gain = "" if abs(faster - 1) < 0.005 else f", {faster:.2f} times as fast"
        if faster < 0.5:
            gain = f", {1 / faster:.2f} times as long"
        idle = f", {result.bubble_share:.0%} of it idle" if hasattr(result, "bubble_share") else ""
        look = {"fontsize": SMALLEST, "weight": "bold"} if title else {"fontsize": TITLE}
        ax.set_title(f"{name}: {result.seconds * factor:.3g} {unit}{idle}{gain}", loc="left", **look)
        words = clock or f"{'virtual' if getattr(result, 'simulated', False) else 'wall'} time in {unit}"
        ax.set_xlabel(words if place == len(results) - 1 else "", fontsize=SMALLEST)
        _hatch(ax, latency * factor)
        for bars in [] if kinds else ax.collections:
            bars.set_linewidth(0)  # a white edge would hide a short pause
        for text in [] if numbers else list(ax.texts):
            text.remove()
    for legend in list(figure.legends):
        legend.remove()
    keys = [key(kind) for kind in kinds_of(results.values())]
    for patch in [*keys, *(bars for ax in axes.flat for bars in ax.collections)] if tints else ():
        if "chunk" in patch.get_label():
            patch.set(hatch=None, facecolor=_pale(patch.get_label()))
    for text in [text for ax in axes.flat for text in ax.texts] if tints else ():
        text.set_path_effects([])  # no line crosses it
    for patch in keys:
        patch.set_label((names or {}).get(patch.get_label(), patch.get_label()))
    late = [Patch(facecolor=ON_ITS_WAY, edgecolor=SENT, hatch=HATCH, linewidth=0.6, label="latency")] if latency else []
    legend_below(axes[0, 0], keys + late)
    if title:
        figure.suptitle(f"{title}\n", fontsize=TITLE, x=0.01, ha="left", linespacing=0.4)
    return list(axes.flat)


def _alike(result: Any) -> Any:
    """Return a result whose events are all work, one event for as long as a rank goes on without a pause."""
    found, joined = copy(result), []
    for event in sorted(result.events, key=lambda event: (event.rank, event.start)):
        before = joined[-1] if joined else None
        if before and before.rank == event.rank and event.start - before.end < LEAST:
            joined[-1] = before._replace(end=max(before.end, event.end))
        else:
            joined.append(event._replace(kind="work", label=""))
    found.events = joined
    return found


def _hatch(ax: Axes, latency: float) -> None:
    """Hatch what each message waits for its way: of a send the end, of a receive the beginning."""
    for bars in [bars for bars in ax.collections if latency and bars.get_label() in ("send", "recv")]:
        sent = bars.get_label() == "send"
        corners = [path.vertices for path in bars.get_paths()]
        boxes = [(across.max() - latency if sent else across.min(), up.min(), up.max())
                 for across, up in (vertices.T for vertices in corners)]
        ax.add_collection(PolyCollection(
            [[(x, low), (x + latency, low), (x + latency, high), (x, high)] for x, low, high in boxes],
            facecolors=ON_ITS_WAY, edgecolors=SENT, linewidths=0.6, hatch=HATCH, label="latency", zorder=2.5,
        ))  # fmt: skip


def _pale(kind: str) -> tuple[float, ...]:
    """Return the colour of a kind of event, half as strong."""
    return tuple((1 + part) / 2 for part in to_rgb(look(kind)[0]))
