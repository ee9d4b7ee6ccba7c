"""Parameters in memory and at work, the time of a layer in wider groups, and the tokens that they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.models import ModelShape, active_parameters, parameter_count
from course_lib.plots.canvas import (
    ACTIVATIONS,
    BLUE,
    COLLECTIVE,
    COMPUTE,
    GREEN,
    INK,
    ORANGE,
    SENT,
    SMALLEST,
    TITLE,
    WEIGHTS,
    WIDTH,
    Picture,
    legend_below,
    new_axes,
    say,
)


def total_and_active(shapes: Sequence[ModelShape], years: Sequence[int] = ()) -> list[Axes]:
    """Draw a bar for the parameters of each model, and beside it the share that a token uses; `years` go with names."""
    _, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 0.42 * len(shapes) + 1.2), layout="constrained", FigureClass=Picture, sharey=True,
        width_ratios=[1.9, 1],
    )  # fmt: skip
    told, shares = [], []
    most = max(parameter_count(shape) for shape in shapes) / 1e9
    for row, shape in enumerate(shapes):
        total, active = parameter_count(shape) / 1e9, active_parameters(shape) / 1e9
        shares.append(active / total)
        left.barh(row, total, color=ACTIVATIONS, height=0.62)
        left.barh(row, active, color=WEIGHTS, height=0.62)
        left.text(total + 0.012 * most, row, f"{active:,.1f} of {total:,.0f}", va="center", fontsize=SMALLEST,
                  color=INK)  # fmt: skip
        right.barh(row, 100 * shares[-1], color=WEIGHTS, height=0.62)
        right.text(100 * shares[-1] + 0.5, row, f"{shares[-1]:.1%}", va="center", fontsize=SMALLEST, color=INK)
        told.append(f"{shape.name} {active:,.1f} of {total:,.0f} billion: {shares[-1]:.1%}")
    names = [f"{shape.name}, {year}" for shape, year in zip(shapes, years, strict=True)] if years else [
        shape.name for shape in shapes]  # fmt: skip
    new_axes(left, 0).set_yticks(range(len(shapes)), names, fontsize=SMALLEST)
    left.set(ylim=(len(shapes) - 0.5, -0.5), xlim=(0, 1.32 * most))
    left.set_xlabel("billions in memory (dark: at work for a token)", fontsize=SMALLEST)
    new_axes(right, 0).set_xlim(0, 136 * max(shares))
    right.tick_params(axis="y", length=0)
    right.set_xlabel("% at work for a token", fontsize=SMALLEST)
    left.figure.suptitle(f"All parameters are in memory; a token uses {max(shares):.0%} to {min(shares):.0%} of them",
                         fontsize=TITLE, x=0.01, ha="left")  # fmt: skip
    say(left, "; ".join(told))
    return [left, right]


def layer_by_width(
    rows: Sequence[tuple[int, float, float, float, float]], room: Sequence[int], requests: int = 128,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw the time of one mixture layer in groups of several widths: reading its experts, dispatch, combine.

    `rows`: ranks, seconds to read a rank's experts, of their arithmetic, of dispatch, of combine. Reading and
    arithmetic overlap, so only the longer one counts. `room`: how many requests fit on a GPU of each group; a row is
    pale where they are fewer than `requests`.
    """
    ax = new_axes(ax, 0.5 * len(rows) + 1.2)
    totals = [max(read, compute) + there + back for _, read, compute, there, back in rows]
    told, shown = [], {}
    for row, (ranks, read, compute, there, back) in enumerate(rows):
        left = 0.0
        bars = (("reading", read, WEIGHTS) if read > compute else ("arithmetic", compute, COMPUTE),
                ("dispatch", there, SENT), ("combine", back, COLLECTIVE))  # fmt: skip
        for name, seconds, colour in bars:
            ax.barh(row, 1e6 * seconds, left=left, height=0.66, color=colour, edgecolor="white", lw=0.8,
                          alpha=1.0 if room[row] >= requests else 0.35)  # fmt: skip
            shown.setdefault(name if name != "arithmetic" else "arithmetic, where it takes longer than reading", colour)
            words = f"{name} {1e6 * seconds:.0f}" if seconds > 0.18 * max(totals) else f"{1e6 * seconds:.0f}"
            ax.text(left + 5e5 * seconds, row, words, ha="center", va="center", fontsize=SMALLEST, weight="bold",
                    color=INK if colour == SENT or room[row] < requests else "white")  # fmt: skip
            left += 1e6 * seconds
        ends = f"{left:.0f} µs" + (f", but {room[row] or 'none'} fit" if room[row] < requests else "")
        ax.text(left + 6, row, ends, va="center", fontsize=SMALLEST, color=INK, weight="bold")
        told.append(f"EP{ranks}: " + ", ".join(f"{name} {1e6 * seconds:.0f}" for name, seconds, _ in bars)
                    + f", together {ends}")  # fmt: skip
    ax.set_yticks(range(len(rows)), [f"EP{ranks}" for ranks, *_ in rows], fontsize=SMALLEST)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, 1.32e6 * max(totals))
    ax.set_xlabel(f"µs for the experts' part of one layer, {requests} requests on each GPU (faint: they don't fit)",
                  fontsize=SMALLEST)  # fmt: skip
    legend_below(ax, [Patch(facecolor=colour, label=name) for name, colour in shown.items()])
    ax.set_title("A wider group reads less, travels longer, and has room for more", fontsize=TITLE, loc="left")
    say(ax, "; ".join(told))
    return ax


def rates_by_length(
    served: Mapping[str, Sequence[tuple[int, int, float]]], measured: int, ax: Axes | None = None
) -> Axes:
    """Draw tokens per second of a GPU against the length of a request, a line for each group, from narrow to wide.

    By name, for each length: the length, the requests on a GPU, and the seconds of a step. A line is dashed where more
    than `measured` requests fit.
    """
    ax = new_axes(ax, 3.4)
    told, rates = [], {}
    for (name, line), colour in zip(served.items(), (BLUE, ORANGE, GREEN), strict=True):
        points = [(length, requests, requests / seconds) for length, requests, seconds in line]
        dashed = [point for point in points if point[1] > measured]
        solid = points[max(0, len(dashed) - 1) :]  # the two pieces meet
        ax.plot([point[0] for point in dashed], [point[2] for point in dashed], "--", color=colour, lw=1.8)
        ax.plot([point[0] for point in solid], [point[2] for point in solid], color=colour, lw=2.4, label=name)
        rates[name] = [rate for _, _, rate in points]
        told.append(f"{name} writes {rates[name][0]:,.0f} at {points[0][0]:,} and {rates[name][-1]:,.0f} at "
                    f"{points[-1][0]:,}")  # fmt: skip
    lengths = [length for length, *_ in next(iter(served.values()))]
    leads = [max(rates, key=lambda name, place=place: rates[name][place]) for place in range(len(lengths))]
    turns = [place for place in range(1, len(lengths)) if leads[place] != leads[place - 1]]
    most = max(max(line) for line in rates.values())
    for place, after in zip([0, *turns], [*turns, len(lengths)], strict=True):
        ends = lengths[place] if place else 0, lengths[after - 1]
        ax.text(sum(ends) / 2, 1.16 * most, f"{leads[place]} leads", ha="center", fontsize=SMALLEST, color=INK)
        if place:
            ax.axvline((lengths[place] + lengths[place - 1]) / 2, color=INK, lw=0.8, ls=":")
            told.append(f"between {lengths[place - 1]:,} and {lengths[place]:,}, {leads[place]} overtakes "
                        f"{leads[place - 1]}")  # fmt: skip
    ax.set_xlabel(f"tokens of a request (dashed: more than the {measured} requests that were measured)",
                  fontsize=SMALLEST)  # fmt: skip
    ax.set_ylabel("tokens/s of a GPU", fontsize=SMALLEST)
    ax.set(xlim=(0, None), ylim=(0, 1.3 * most))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    legend_below(ax, ax.get_legend_handles_labels()[0])
    ax.set_title(f"Short requests favour {leads[0]}, long ones {leads[-1]}", fontsize=TITLE, loc="left")
    say(ax, "; ".join(told))
    return ax
