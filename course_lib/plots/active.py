"""Parameters in memory and at work, tokens for each read of an expert, and DeepEP's times: mixtures of real size."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from course_lib.models import ModelShape, active_parameters, parameter_count
from course_lib.plots.canvas import (
    ACTIVATIONS,
    COMPUTE,
    INK,
    LIMIT,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    new_axes,
    say,
)


def total_and_active(shapes: Sequence[ModelShape], years: Sequence[int] = (), ax: Axes | None = None) -> Axes:
    """Draw a bar for the parameters of each model, and in it those that one token uses; `years` go with the names."""
    ax = new_axes(ax, 0.42 * len(shapes) + 1.1)
    told, shares = [], []
    for row, shape in enumerate(shapes):
        total, active = parameter_count(shape) / 1e9, active_parameters(shape) / 1e9
        ax.barh(row, total, color=ACTIVATIONS, height=0.62)
        ax.barh(row, active, color=WEIGHTS, height=0.62)
        words = f"{active:,.1f} of {total:,.0f} billion: {active / total:.1%}"
        ax.text(total + 12, row, words, va="center", fontsize=SMALLEST, color=INK)
        told.append(f"{shape.name} {words}")
        shares.append(active / total)
    names = [f"{shape.name}, {year}" for shape, year in zip(shapes, years, strict=True)] if years else [
        shape.name for shape in shapes]  # fmt: skip
    ax.set_yticks(range(len(shapes)), names, fontsize=SMALLEST)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.42 * max(parameter_count(shape) for shape in shapes) / 1e9)
    ax.set_xlabel("billions of parameters (pale: in memory; dark: at work for one token)", fontsize=SMALLEST)
    used = f"a token uses {max(shares):.0%} to {min(shares):.0%} of them"
    ax.set_title(f"All parameters are in memory; {used}", fontsize=TITLE, loc="left")
    say(ax, "; ".join(told))
    return ax


def tokens_for_each_read(
    rows: Sequence[tuple[int, int, float, int]], ridge: float, memory: float, ax: Axes | None = None
) -> Axes:
    """Draw how many tokens each expert gets for one read of its weights, and how many make the read worthwhile.

    `rows`: ranks, experts of a layer on each, bytes of experts on each, tokens for each expert. From `ridge` tokens on
    arithmetic takes longer than reading; `memory`: bytes of a GPU.
    """
    ax = new_axes(ax, 0.62 * len(rows) + 1.2)
    told, names = [], []
    most = max(tokens for *_, tokens in rows)
    for row, (ranks, experts, held, tokens) in enumerate(rows):
        ax.barh(row, ridge, color=WAITING, height=0.6)
        ax.barh(row, tokens, color=COMPUTE, height=0.6)
        share = min(1.0, tokens / ridge)
        words = f"{tokens:,} tokens: at most {share:.0%} of the peak" if share < 1 else f"{tokens:,} tokens: enough"
        ax.text(max(tokens, ridge) + 0.02 * most, row, words, va="center", fontsize=SMALLEST, color=INK)
        full = ", too much" if held > memory else ""
        some = f"EP{ranks}: {experts} expert{'s' * (experts > 1)}"
        names.append(f"{some} a GPU\n({held / 1e9:.1f} GB in all{full})")
        told.append(f"{some} of a layer and {held / 1e9:.1f} GB on a GPU{full}, {words}")
    ax.axvline(ridge, color=LIMIT, lw=1.8)
    ax.text(ridge + 0.01 * most, -0.62, f"{ridge:.0f} tokens must share a read", fontsize=SMALLEST, color=INK)
    ax.set_yticks(range(len(rows)), names, fontsize=SMALLEST)
    ax.set_ylim(len(rows) - 0.5, -0.95)
    ax.set_xlim(0, 1.36 * most)
    ax.set_xlabel("tokens for each expert and step, with 128 tokens on every GPU", fontsize=SMALLEST)
    ax.set_title("The wider the group, the more tokens share one read of an expert", fontsize=TITLE, loc="left")
    say(ax, f"{ridge:.0f} tokens must share a read of an expert; " + "; ".join(told))
    return ax


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
    ax.set_title("From EP64 on, more ranks cost hardly more (dots: measured, line: formula)", fontsize=TITLE,
                 loc="left")  # fmt: skip
    rows = ", ".join(f"EP{ranks} {1e6 * seconds:.0f} measured and {1e6 * guess:.0f} by formula"
                     for (ranks, seconds), (_, guess) in zip(measured, predicted, strict=True))  # fmt: skip
    say(ax, f"µs: {rows}; of these {1e6 * floor:.0f} to start")
    return ax
