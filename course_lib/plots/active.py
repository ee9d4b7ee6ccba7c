"""Parameters in memory and at work, the time of a layer in wider groups, and DeepEP's times: mixtures of real size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.models import ModelShape, active_parameters, parameter_count
from course_lib.plots.canvas import (
    ACTIVATIONS,
    COLLECTIVE,
    COMPUTE,
    INK,
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
    rows: Sequence[tuple[int, float, float, float, float]], ax: Axes | None = None
) -> Axes:
    """Draw the time of one mixture layer in groups of several widths: reading its experts, dispatch, combine.

    `rows`: ranks, seconds to read a rank's experts, of their arithmetic, of dispatch, of combine. Reading and
    arithmetic overlap, so only the longer one counts.
    """
    ax = new_axes(ax, 0.5 * len(rows) + 1.2)
    totals = [max(read, compute) + there + back for _, read, compute, there, back in rows]
    best, told, handles = totals.index(min(totals)), [], {}
    for row, (ranks, read, compute, there, back) in enumerate(rows):
        left = 0.0
        bars = (("reading", read, WEIGHTS) if read > compute else ("arithmetic", compute, COMPUTE),
                ("dispatch", there, SENT), ("combine", back, COLLECTIVE))  # fmt: skip
        for name, seconds, colour in bars:
            bar = ax.barh(row, 1e6 * seconds, left=left, height=0.66, color=colour, edgecolor="white", lw=0.8)
            handles.setdefault(name if name != "arithmetic" else "arithmetic, where it takes longer than reading", bar)
            words = f"{name} {1e6 * seconds:.0f}" if seconds > 0.14 * max(totals) else f"{1e6 * seconds:.0f}"
            ax.text(left + 5e5 * seconds, row, words, ha="center", va="center", fontsize=SMALLEST, weight="bold",
                    color=INK if colour == SENT else "white")  # fmt: skip
            left += 1e6 * seconds
        ends = f"{left:.0f} µs" + (", the fastest" if row == best else "")
        ax.text(left + 6, row, ends, va="center", fontsize=SMALLEST, color=INK, weight="bold")
        told.append(f"EP{ranks}: " + ", ".join(f"{name} {1e6 * seconds:.0f}" for name, seconds, _ in bars)
                    + f", together {ends}")  # fmt: skip
    ax.set_yticks(range(len(rows)), [f"EP{ranks}" for ranks, *_ in rows], fontsize=SMALLEST)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, 1.22e6 * max(totals))
    ax.set_xlabel("µs for the experts' part of one layer, 128 requests on each GPU", fontsize=SMALLEST)
    for name, bar in handles.items():
        bar.set_label(name)
    legend_below(ax, list(handles.values()))
    ax.set_title("A wider group reads less but travels longer: EP16 to EP64 take nearly the same time", fontsize=TITLE,
                 loc="left")  # fmt: skip
    say(ax, "; ".join(told))
    return ax


def step_by_width(served: Mapping[str, tuple[int, Mapping[str, float]]]) -> list[Axes]:
    """Draw a step's parts and the tokens per second that come of it, for groups of several widths, a row for each.

    By name: the requests on a GPU, and the seconds of each part of a step. The title compares the fastest with the
    first, which is the narrowest.
    """
    steps = {name: sum(parts.values()) for name, (_, parts) in served.items()}
    rates = {name: requests / steps[name] for name, (requests, _) in served.items()}
    _, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 0.5 * len(served) + 1.5), layout="constrained", FigureClass=Picture, sharey=True,
        width_ratios=[1.9, 1],
    )  # fmt: skip
    colours, told, handles = (WEIGHTS, ACTIVATIONS, COLLECTIVE), [], []
    for row, (name, (requests, parts)) in enumerate(served.items()):
        at, handles = 0.0, []
        for (part, seconds), colour in zip(parts.items(), colours, strict=True):
            handles.append(left.barh(row, 1e3 * seconds, left=at, height=0.66, color=colour, edgecolor="white", lw=0.8,
                                     label=part))  # fmt: skip
            digits = 1 if seconds > 0.1 * max(steps.values()) else 0  # a narrow piece has no room for more
            left.text(at + 5e2 * seconds, row, f"{1e3 * seconds:.{digits}f}", ha="center", va="center",
                      fontsize=SMALLEST, weight="bold", color=INK if colour == ACTIVATIONS else "white")  # fmt: skip
            at += 1e3 * seconds
        left.text(at + 1, row, f"{at:.1f} ms", va="center", fontsize=SMALLEST, color=INK, weight="bold")
        right.barh(row, rates[name], height=0.66, color=INK)
        right.text(rates[name] + 0.03 * max(rates.values()), row, f"{rates[name]:,.0f}", va="center", fontsize=SMALLEST,
                   color=INK)  # fmt: skip
        of = ", ".join(f"{part} {1e3 * seconds:.0f}" for part, seconds in parts.items())
        told.append(f"{name}, {requests} requests: {of}, together {at:.0f} ms: {rates[name]:,.0f} tokens/s")
    ticks = [f"{name}: {held} requests" for name, (held, _) in served.items()]
    new_axes(left, 0).set_yticks(range(len(served)), ticks, fontsize=SMALLEST)
    left.set(ylim=(len(served) - 0.5, -0.5), xlim=(0, 1.2e3 * max(steps.values())))
    left.set_xlabel("ms of a step: a token for each request", fontsize=SMALLEST)
    new_axes(right, 0).set_xlim(0, 1.35 * max(rates.values()))
    right.tick_params(axis="y", length=0)
    right.set_xlabel("tokens/s of a GPU: requests / step", fontsize=SMALLEST)
    legend_below(left, handles)
    first, best = next(iter(served)), max(served, key=rates.__getitem__)
    title = f"{best} has room for more and writes {rates[best] / rates[first]:.1f} times {first}'s tokens"
    if best == first:
        title = f"{first} writes more tokens than wider groups, though they have room for more requests"
    left.figure.suptitle(title, fontsize=TITLE, x=0.01, ha="left")
    say(left, "; ".join(told))
    return [left, right]


def times_over_ranks(
    measured: Sequence[tuple[int, float]], predicted: Sequence[tuple[int, float]], floor: float, ax: Axes | None = None
) -> Axes:
    """Draw measured times (ranks, seconds) as dots and a formula's as a line, above what starting takes."""
    ax = new_axes(ax, 3.2)
    places = range(len(measured))
    ax.axhspan(0, 1e6 * floor, color=SENT, alpha=0.35, lw=0)
    ax.text(len(measured) - 0.55, 1e6 * floor / 2, f"{1e6 * floor:.0f} µs to start: fitted", va="center", ha="right",
            fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.plot(places, [1e6 * seconds for _, seconds in predicted], color=INK, lw=1.8, label="formula")
    ax.plot(places, [1e6 * seconds for _, seconds in measured], "o", color=WEIGHTS, ms=8, label="measured")
    for place, ((_, seconds), (_, guess)) in enumerate(zip(measured, predicted, strict=True)):
        # to the left of a rising line
        ax.text(place - 0.05, 1e6 * max(seconds, guess) + 6, f"{1e6 * seconds:.0f}\n({guess / seconds - 1:+.1%})",
                ha="right", fontsize=SMALLEST, color=INK)  # fmt: skip
    ax.set_xticks(list(places), [f"EP{ranks}" for ranks, _ in measured])
    ax.set_xlim(-0.75, len(measured) - 0.5)
    ax.set_xlabel("GPUs in one group (in brackets: formula against measured)", fontsize=SMALLEST)
    ax.set_ylim(0, 1e6 * max(seconds for _, seconds in measured) * 1.35)
    ax.set_ylabel("µs for 128 tokens", fontsize=SMALLEST)
    ax.set_title("From EP64 on, a dispatch takes little longer (dots: measured, line: formula)", fontsize=TITLE,
                 loc="left")  # fmt: skip
    rows = ", ".join(f"EP{ranks} {1e6 * seconds:.0f} measured and {1e6 * guess:.0f} by formula"
                     for (ranks, seconds), (_, guess) in zip(measured, predicted, strict=True))  # fmt: skip
    say(ax, f"µs: {rows}; of these {1e6 * floor:.0f} to start")
    return ax
