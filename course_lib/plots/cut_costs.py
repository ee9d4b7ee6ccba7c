"""What a cut layer costs: bytes that a rank holds, seconds of computing and talking, and what a token waits for."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from course_lib.plots.canvas import (
    COLLECTIVE,
    COMPUTE,
    INK,
    LIMIT,
    SMALLEST,
    TITLE,
    WEIGHTS,
    WIDTH,
    Picture,
    legend_below,
    say,
)
from course_lib.plots.canvas import new_axes as axes_of
from course_lib.plots.memory import PARTS, unit_of

HELD = ("weights", "gradients", "optimizer", "activations")
Held = Mapping[str, Mapping[str, float]]


def toy_beside_real(toy: Held, real: Held, capacity: float, titles: tuple[str, str]) -> list[Axes]:
    """Draw the bytes that a rank holds, a bar per row: above those of a toy, below a real model's and a GPU's limit.

    `toy` and `real` have for each row the bytes of weights, gradients, optimizer and activations.
    """
    figure, both = plt.subplots(
        2, 1, figsize=(WIDTH, 1.9 + 0.4 * (len(toy) + len(real))), layout="constrained", FigureClass=Picture,
        height_ratios=(len(toy) + 0.4, len(real) + 0.4),
    )  # fmt: skip
    for ax, rows, title, limit in zip(both, (toy, real), titles, (None, capacity), strict=True):
        _held(ax, rows, title, limit)
    legend_below(both[0], [Patch(color=PARTS[part][0], label=part) for part in HELD])
    return list(both)


def _held(ax: Axes, rows: Held, title: str, limit: float | None) -> None:
    totals = [sum(parts[part] for part in HELD) for parts in rows.values()]
    scale, unit = unit_of(limit or max(totals))
    axes_of(ax, 0)
    for place, parts in enumerate(rows.values()):
        left = 0.0
        for part in HELD:
            seen, wide = parts[part] / scale, max(totals) / scale
            ax.barh(place, seen, 0.7, left, color=PARTS[part][0])
            middle = left + seen / 2
            free = limit is None or abs(middle - limit / scale) > 0.04 * wide  # the line crosses no number
            if part != "weights" and seen > 0.045 * wide and free:
                ax.text(middle, place, _number(seen), ha="center", va="center", fontsize=SMALLEST, color=INK)
            left += seen
        words = f"{_number(left)} {unit}, weights {_number(parts['weights'] / scale)}"
        ax.text(left + 0.01 * wide, place, words, va="center", fontsize=SMALLEST)
    if limit:
        ax.axvline(limit / scale, color=LIMIT, linewidth=2.4)
        words = f" {limit / scale:g} {unit}: one GPU"
        ax.text(limit / scale, -0.55, words, color=LIMIT, fontsize=SMALLEST, va="bottom")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.6)
    ax.set_xlim(0, 1.36 * max(totals) / scale)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_xlabel(f"{unit} held by a rank", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left", pad=18 if limit else 6)
    told = [f"{name}: {_number(total / scale)} {unit}, of it "
            + ", ".join(f"{part} {_number(parts[part] / scale)}" for part in HELD)
            for (name, parts), total in zip(rows.items(), totals, strict=True)]  # fmt: skip
    say(ax, "\n".join([*told, f"a line at {limit / scale:g} {unit}, one GPU" if limit else ""]))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def layer_times(rows: Mapping[str, tuple[float, float]], ax: Axes | None = None) -> Axes:
    """Draw (seconds of computing, seconds of talking) of each row as a bar, and the share that is talking.

    Rows whose names are equal up to a comma are a group, named "group, case"; a gap stands between groups, and the
    title has the share of the last row of each.
    """
    most = max(map(sum, rows.values()))
    groups = [name.partition(",")[0] for name in rows]
    places = [place + 0.6 * len(set(groups[: place + 1])) - 0.6 for place in range(len(rows))]
    ax = axes_of(ax, 1.3 + 0.36 * (places[-1] + 1))
    for place, (compute, talk) in zip(places, rows.values(), strict=True):
        ax.barh(place, compute * 1e3, 0.72, color=COMPUTE)
        ax.barh(place, talk * 1e3, 0.72, compute * 1e3, color=COLLECTIVE)
        said = f" {(compute + talk) * 1e3:.1f} ms, {100 * talk / (compute + talk):.0f} % all-reduces"
        ax.text((compute + talk) * 1e3, place, said, va="center", fontsize=SMALLEST)
    ax.set_yticks(places, list(rows))
    ax.set_ylim(places[-1] + 0.5, -0.5)
    ax.set_xlim(0, 1.37 * most * 1e3)
    ax.set_xlabel("ms of one layer, forward and backward (by formula)", fontsize=SMALLEST)
    last = {name.partition(",")[0]: (name, talk / (compute + talk)) for name, (compute, talk) in rows.items()}
    shares = ", ".join(f"{100 * share:.0f} % over {group}" for group, (_, share) in last.items())
    shares = shares.replace("% over", "% of the time over", 1)
    cases = {name.partition(", ")[2] for name, _ in last.values()} - {""}
    title = f"{cases.pop()}: all-reduces take {shares}" if len(cases) == 1 else f"All-reduces take {shares}"
    ax.set_title(title, fontsize=TITLE, loc="left")
    legend_below(ax, [Patch(color=COMPUTE, label="matrix products"), Patch(color=COLLECTIVE, label="all-reduces")])
    told = "{}: {:.3g} ms of matrix products, {:.3g} ms of all-reduces, which is {:.0%}"
    say(ax, "\n".join(told.format(name, compute * 1e3, talk * 1e3, talk / (compute + talk))
                      for name, (compute, talk) in rows.items()))  # fmt: skip
    return ax


def token_times(
    ways: Mapping[str, Mapping[int, tuple[float, float]]], model: str, joined: int, fit: int = 1, ax: Axes | None = None
) -> Axes:
    """Draw (seconds of reading weights, seconds of waiting for all-reduces) of a token, a bar for each number of GPUs.

    `ways` has such bars for each way to sum. Beside a bar stands how many tokens a second that makes. Bars of more GPUs
    than NVLink has `joined` are hatched; those of so many are in bold, and in the title. On fewer GPUs than `fit` the
    model does not fit, and the bar says so.
    """
    most = max(sum(both) for rows in ways.values() for both in rows.values())
    ax = axes_of(ax, 1.3 + 0.36 * sum(map(len, ways.values())) + 0.4 * len(ways))
    told, names, places, reached, place = [], [], [], [], 0.0
    for way, rows in ways.items():
        reached.append(f"{1 / sum(rows[joined]):.0f} tokens a second with {way}")
        ax.text(0, place, f" with {way}", va="center", fontsize=SMALLEST, weight="bold", color=INK)
        for gpus, (reading, waiting) in rows.items():
            place += 1
            look = {"hatch": "////", "edgecolor": "white", "linewidth": 0} if gpus > joined else {}
            ax.barh(place, reading * 1e3, 0.72, color=WEIGHTS, **look)
            ax.barh(place, waiting * 1e3, 0.72, reading * 1e3, color=COLLECTIVE, **look)
            both = reading + waiting
            large = " (does not fit)" if gpus < fit else ""
            said = f" {both * 1e3:.1f} ms: {1 / both:.0f} tokens/s{large}"
            weight = "bold" if gpus == joined else "normal"
            ax.text(both * 1e3, place, said, va="center", fontsize=SMALLEST, color=INK, weight=weight)
            words = f"{1 / both:.0f} tokens a second{large}" + ", with NVLink beyond one node" * (gpus > joined)
            told.append(f"with {way}, {_gpus(gpus)}: reading {reading * 1e3:.1f} ms, all-reduces {waiting * 1e3:.1f} "
                        f"ms, {words}")  # fmt: skip
            names.append(_gpus(gpus))
            places.append(place)
        place += 1.2
    ax.set_yticks(places, names)
    ax.set_ylim(places[-1] + 0.5, -0.6)
    ax.set_xlim(0, (1.27 if fit == 1 else 1.45) * most * 1e3)
    ax.set_xlabel(f"ms for one token of one user of {model} (by formula)", fontsize=SMALLEST)
    first, *others = reached
    others = [words.replace(" tokens a second", "") for words in others]
    ax.set_title(f"{_gpus(joined)}: {', '.join([first, *others])}", fontsize=TITLE, loc="left")
    handles = [Patch(color=WEIGHTS, label="reading weights"), Patch(color=COLLECTIVE, label="all-reduces")]
    if any(gpus > joined for rows in ways.values() for gpus in rows):
        handles.append(Patch(facecolor="#888888", edgecolor="white", hatch="////", linewidth=0,
                             label="hatched: needs NVLink beyond one node"))  # fmt: skip
    legend_below(ax, handles)
    say(ax, "\n".join(told))
    return ax


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
