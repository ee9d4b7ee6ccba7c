"""Bytes that a rank holds: breakdowns against what the GPU has, the ladder of sharding, the running table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import (
    ACTIVATIONS,
    COMPUTE,
    GRADIENTS,
    GREY,
    INK,
    LIMIT,
    OPTIMIZER,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    WIDTH,
    Picture,
    legend_below,
    new_axes,
    say,
)

if TYPE_CHECKING:
    from course_lib.lessons.running_table import Row

PARTS = {
    "weights": (WEIGHTS, ""), "gradients": (GRADIENTS, ""), "optimizer": (OPTIMIZER, ""),
    "activations": (ACTIVATIONS, ""), "logits": (ACTIVATIONS, "///"), "working": (GREY, ""),
}  # fmt: skip
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))


def memory_bars(
    breakdowns: Mapping[str, Any] | Iterable[Any],
    *,
    capacity: float | None = None,
    title: str | None = None,
    until: float = 0.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw each breakdown at the moment when most is alive: a bar of its parts, and a line at what the GPU has.

    Takes `Breakdown`s or `MeasuredStep`s, by name or as they come. Without `capacity` the line stands at that of the
    breakdowns' GPU where they have one and the same. With `until` the axis and every longer bar end at so many bytes,
    and the key has all parts, so that the pictures of many plans look alike. Its text twin is `print(breakdown)`.
    """
    named = dict(breakdowns) if isinstance(breakdowns, Mapping) else {b.shape.name: b for b in breakdowns}
    moments = {name: b.moments[b.peak_moment] for name, b in named.items()}
    most = max([sum(parts.values()) for parts in moments.values()] + [capacity or 0])
    gpus = {getattr(b, "gpu", None) for b in named.values()}
    line = f"{capacity / 1e9:g} GB" if capacity else ""
    if capacity is None and len(gpus) == 1 and (gpu := gpus.pop()):
        capacity, line = gpu.memory, f"{gpu.name}: {gpu.memory / 1e9:g} GB"
        most = max(most, capacity)
    most = until or most
    scale, unit = unit_of(most)
    ax = new_axes(ax, 1.5 + 0.5 * len(named))
    for row, parts in enumerate(moments.values()):
        left = 0.0
        for part, size in parts.items():
            colour, hatch = PARTS.get(part, (GREY, ""))
            ax.barh(row, size / scale, 0.6, left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
            seen = min(size, most - left * scale)  # all of it, but for `until`
            if until and part in ("logits", "working"):  # both are the loss's, and have one number above them
                seen = 0.0
            if seen > {"logits": 0.02, "weights": 0.01}.get(part, 0.045) * most:  # narrow ones have their number above
                ink = "white" if part == "weights" and seen > 0.045 * most else "black"
                place, within = (row, colour) if seen > 0.045 * most else (row - 0.43, "none")
                number = f"{size / scale:,.{1 if size < 10 * scale else 0}f}"
                corner = part == "weights" and within == "none"  # else the number would cross the axis
                x, side = (left, "left") if corner else (left + seen / scale / 2, "center")
                ax.text(x, place, number, ha=side, va="center", color=ink,
                        fontsize=SMALLEST, bbox={"facecolor": within, "edgecolor": "none", "pad": 1})
            left += size / scale
        loss = sum(parts.get(part, 0) for part in ("logits", "working")) / scale if until else 0
        if loss > 0.01 * most / scale and left < most / scale:
            begin, end = (left - loss + 0.002 * most / scale), (left - 0.002 * most / scale)  # a bracket over both
            ax.plot([begin, begin, end, end], [row - 0.32, row - 0.36, row - 0.36, row - 0.32], color=INK, linewidth=1)
            ax.text(left - loss / 2, row - 0.48, f"{loss:,.{1 if loss < 10 else 0}f}", ha="center", va="center",
                    fontsize=SMALLEST)
        words, room = f"{left:,.{0 if left >= 1000 else 3}{'f' if left >= 1000 else 'g'}} {unit}", 0.01 * most / scale
        if until and left > most / scale:
            ax.barh(row, 0.2 * most / scale, 0.62, most / scale, color="white", zorder=2)  # the bar goes on, unseen
            ax.text(most / scale + room, row, f"{words} →", va="center", fontsize=SMALLEST)
        elif capacity and left < capacity / scale < left + 11 * room:  # on its side of the line, below the bar's end
            ax.text(left, row + 0.47, words, ha="right", va="center", fontsize=SMALLEST)
        else:
            ax.text(left + room, row, words, va="center", fontsize=SMALLEST)
    if capacity:
        ax.axvline(capacity / scale, color=LIMIT, linestyle="--", linewidth=1.6)
        right = capacity > 0.6 * most  # else the words would leave the picture
        ax.text(
            capacity / scale, -0.62, f"{line} " if right else f" {line}", color=LIMIT, fontsize=SMALLEST,
            ha="right" if right else "left", va="bottom",
        )  # fmt: skip
    ax.set_xlim(0, (1.2 if until else 1.12) * most / scale or 1)
    ax.set_ylim(len(named) - 0.4, -0.6)
    ax.set_yticks(range(len(named)), list(named))
    when = dict.fromkeys(_when(breakdown) for breakdown in named.values())
    ax.set_xlabel(f"{unit}, when most is alive: {'; '.join(when)}", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left", pad=20)
    _key(ax, [part for part in PARTS if until or any(parts.get(part) for parts in moments.values())])
    told = [f"{name}: {sum(parts.values()) / scale:,.3g} {unit}, of it "
            + ", ".join(f"{part} {size / scale:,.3g}" for part, size in parts.items() if size)
            for name, parts in moments.items()]
    say(ax, "\n".join([*told, f"a line at {line}" if line else ""]))
    return ax


def unit_of(most: float) -> tuple[float, str]:
    """Return (bytes, unit) in which a size of up to `most` bytes is read best: (1e9, "GB")."""
    return next((scale, unit) for scale, unit in UNITS if most >= scale or scale == 1)


def _when(breakdown: Any) -> str:
    """Return the moment of the peak in words: with the logits still there, backward has just begun."""
    moment = breakdown.peak_moment
    early = moment == "inside backward" and breakdown.moments[moment].get("logits")
    return "early in backward" if early else moment


def _key(ax: Axes, parts: list[str]) -> None:
    looks = {part: PARTS[part] for part in parts}
    legend_below(
        ax,
        [
            Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=part)
            for part, (colour, hatch) in looks.items()
        ],
    )


# The ladder of sharding: what a rank holds and sends at each rung, measured beside the formula


Parts = Mapping[str, float]


def ladder(
    held: Mapping[str, tuple[Parts, Parts]], sent: Mapping[str, tuple[float, float]], title: str | None = None
) -> list[Axes]:
    """Draw a bar a rung, as it was measured, and in figures the formula beside it: bytes held, and bytes sent a step.

    `held[rung]` is (measured, formula), each the bytes of "weights", "gradients" and "optimizer"; `sent[rung]` likewise
    two numbers.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.4 + 0.6 * len(held)), layout="constrained", sharey=True, width_ratios=(3, 2),
        FigureClass=Picture,
    )  # fmt: skip
    totals = {"held": [sum(p.values()) for both in held.values() for p in both], "sent": sum(sent.values(), ())}
    for ax, name in ((left, "held"), (right, "sent")):
        new_axes(ax, 0)
        most = max(totals[name])
        scale, _ = unit_of(most)
        for rung in range(len(held)):
            parts = list(held.values())[rung][0] if name == "held" else {"": list(sent.values())[rung][0]}
            _bar(ax, rung, parts, scale, names=rung == 0)
            times = sum(parts.values()) / totals[name][0]
            if name == "sent" and abs(times - 1) > 0.02:
                ax.text(sum(parts.values()) / scale / 2, rung, f"{times:.3g} ×", ha="center", va="center",
                        fontsize=SMALLEST, weight="bold")
        what = "a rank holds" if name == "held" else "it sends a step"
        wide, columns = (1.62, (1.33, 1.61)) if name == "held" else (2.1, (1.58, 2.08))  # as parts of the longest bar
        ax.set(xlim=(0, wide * most / scale), ylim=(len(held) - 0.5, -1.15), xticks=[])
        ax.spines["bottom"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        small, its = unit_of(most / 1000)  # a thousand times finer than the axis: MB are told in kB
        heads = ("measured", "formula")
        caption = f"{its} {what}"
        pairs = list(zip(totals[name][::2], totals[name][1::2], strict=True))
        if all(abs(seen - said) <= 1e-3 * said for seen, said in pairs):
            columns, heads = (), ()  # one number is enough, at the bar's end
            caption += ": measured = formula"
            ax.set_xlim(0, (1.2 if name == "held" else 1.4) * most / scale)
            for rung, (seen, _) in enumerate(pairs):
                ax.text((seen + 0.02 * most) / scale, rung, f"{seen / small:,.0f}", va="center", fontsize=SMALLEST)
        ax.text(0.02 * most / scale, -0.8, caption, va="center", fontsize=SMALLEST)
        for place, head in zip(columns, heads, strict=True):
            ax.text(place * most / scale, -0.8, head, ha="right", va="center", fontsize=SMALLEST, weight="bold")
        for rung in range(len(held)):
            for place, size in zip(columns, pairs[rung], strict=False):  # no columns: none
                ax.text(place * most / scale, rung, f"{size / small:,.0f}", ha="right", va="center", fontsize=SMALLEST)
        told = [f"{rung}: measured {seen / small:,.0f}, by formula {said / small:,.0f}"
                for rung, (seen, said) in zip(held, pairs, strict=True)]  # fmt: skip
        say(ax, "\n".join([f"{its} {what}", *told]))
    left.set_yticks(range(len(held)), list(held))
    if title:
        figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return [left, right]


def _bar(ax: Axes, row: float, sizes: Parts, scale: float, names: bool) -> None:
    begin = 0.0
    for part, size in sizes.items():
        ax.barh(row, size / scale, 0.7, begin, color=PARTS[part][0] if part else SENT, edgecolor="white")
        if names and part:
            colour = "white" if part == "weights" else "black"
            ax.text(begin + size / scale / 2, row, part, ha="center", va="center", fontsize=SMALLEST, color=colour)
        begin += size / scale


# The running table as bars


def strategy_bars(
    rows: Sequence[Row], title: str | None = None, new: int = 0, apart: bool = False, state: bool = False,
) -> list[Axes]:  # fmt: skip
    """Draw bytes held by a rank (left) and the seconds of a step (right), a bar per row. Text twin: `table(rows)`.

    Beside a step stands how many times as fast as the first row's it is; the last `new` rows have bold names.
    `apart` draws a line where the rows go on to another cluster, and writes how many times as fast to three digits.
    `state` leaves activations out, and writes how many times as long a step takes as the first one on its cluster.
    """
    figure, (held, spent) = plt.subplots(
        1, 2, figsize=(WIDTH, 1.5 + 0.46 * len(rows)), layout="constrained", sharey=True, FigureClass=Picture
    )
    places = range(len(rows))
    left = [0.0] * len(rows)
    for part in ("weights", "gradients", "optimizer", *(() if state else ("activations",))):
        sizes = [getattr(row, part) / 1e6 for row in rows]
        held.barh(places, sizes, left=left, color=PARTS[part][0], label=part, height=0.7)
        left = [before + size for before, size in zip(left, sizes, strict=True)]
    what = "MB held by a rank,\nactivations not counted" if state else "MB held by a rank"
    held.set_xlabel(what, fontsize=SMALLEST)
    computing = [(1 - row.waiting) * row.seconds * 1e3 for row in rows]
    waiting = [row.waiting * row.seconds * 1e3 for row in rows]
    spent.barh(places, computing, color=COMPUTE, label="computing", height=0.7)
    spent.barh(places, waiting, left=computing, color=WAITING, label="waiting", height=0.7)
    than = f'times as long as "{rows[0].strategy}"' if state else "times as fast as the first row"
    spent.set_xlabel(f"ms of a step (simulated),\nin brackets: {than}", fontsize=SMALLEST)
    names = [f"{row.strategy}\n{row.cluster}, {row.ranks} rank{'s' * (row.ranks > 1)}" for row in rows]
    held.set_yticks(places, names, fontsize=SMALLEST)
    for name in held.get_yticklabels()[len(rows) - new :]:
        name.set_weight("bold")
    held.invert_yaxis()
    steps = [row.seconds * 1e3 for row in rows]
    ratios = ["", *(f"  ({steps[0] / step:.{2 + apart}g}×)" for step in steps[1:])]
    if state:
        first = {row.cluster: row for row in reversed(rows)}
        longer = [row.seconds / first[row.cluster].seconds for row in rows]
        ratios = [f"  ({more:.2g}×)" * (row is not first[row.cluster]) for row, more in zip(rows, longer, strict=True)]
    borders = [place for place in places[1:] if apart and rows[place].cluster != rows[place - 1].cluster]
    for ax, ends, more in ((held, left, [""] * len(rows)), (spent, steps, ratios)):
        for place, end, ratio in zip(places, ends, more, strict=True):
            ax.text(end, place, f" {end:.3g}{ratio}", va="center", fontsize=SMALLEST)
        ax.set_xlim(0, (1.55 if any(more) else 1.15) * max(ends))
        for place in borders:
            ax.axhline(place - 0.5, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        ax.tick_params(labelsize=SMALLEST)
        ax.legend(fontsize=SMALLEST, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
        ax.tick_params(axis="y", length=0)
        for name in ("top", "right"):
            ax.spines[name].set_visible(False)
    if title:
        figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    return [held, spent]
