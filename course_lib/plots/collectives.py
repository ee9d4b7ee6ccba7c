"""Collectives: what every rank holds before and after, and seconds or bandwidth over the size of the tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from course_lib.plots.canvas import (
    FACES,
    GREY,
    INK,
    NETWORK,
    NVLINK,
    SERIES,
    SMALLEST,
    TITLE,
    WIDTH,
    Picture,
    new_axes,
    say,
)
from course_lib.plots.time import time_unit

LINKS = {"inside one node": NVLINK, "between two nodes": NETWORK}  # measured points whose way has a colour of its own


def before_after(
    collectives: Mapping[str, Iterable], *, most: int = 3, root: int | None = None, across: Sequence[str] = (),
    down: Sequence[str] = (), title: str = "",
) -> Axes:  # fmt: skip
    """Draw what ranks hold before and after each collective: `collectives[name][rank]` is a pair of rows of numbers.

    A number that some rank held before has that rank's colour; one that was computed is white in a thick frame. An
    empty row, or None, is a rank that got nothing. Up to `most` collectives stand side by side; `root` is marked, and
    `across` and `down` name the columns and rows of panels, `title` is what all of them show. Its text twin is
    `before_after_text`. Returns the first Axes.
    """
    runs = {name: [_rows(pair) for pair in pairs] for name, pairs in collectives.items()}
    columns = min(most, max(len(runs), 1))
    lines = -(-len(runs) // columns)
    ranks = max((len(pairs) for pairs in runs.values()), default=1)
    spans = [_span(pairs) for pairs in runs.values()] or [1]
    figure, grid = plt.subplots(
        lines, columns, squeeze=False, layout="constrained",
        figsize=(WIDTH, (0.75 + 0.28 * ranks) * lines + 0.3 * bool(across) + 0.3 * bool(title)),
        FigureClass=Picture, width_ratios=[max(spans[column::columns]) for column in range(columns)],
    )  # fmt: skip
    for ax in grid.flat[len(runs) :]:
        ax.set_visible(False)
    if title:
        figure.suptitle(title, x=0.005, ha="left", fontsize=TITLE)
    for place, (ax, (name, pairs)) in enumerate(zip(grid.flat, runs.items(), strict=False)):
        _panel(ax, name, pairs, place % columns == 0, max(spans[place % columns :: columns]), root)
        if across and place < columns:
            ax.annotate(across[place], (0, 1), (0, 28), xycoords="axes fraction", textcoords="offset points",
                        fontsize=TITLE, weight="bold", color=INK)  # fmt: skip
        if down and place % columns == 0:
            ax.set_ylabel(down[place // columns], fontsize=TITLE, weight="bold", color=INK, labelpad=12)
        say(ax, before_after_text({"": pairs}))
    return grid[0, 0]


def before_after_text(collectives: Mapping[str, Iterable]) -> str:
    """Return the text twin of `before_after`: a line per rank, before -> after."""
    lines = []
    for name, pairs in collectives.items():
        lines.append(name)
        rows = [_rows(pair) for pair in pairs]
        width = max((len(_numbers(before)) for before, _ in rows), default=0)
        for rank, (before, after) in enumerate(rows):
            lines.append(f"  rank {rank} | {_numbers(before):<{width}} -> {_numbers(after)}")
    return "\n".join(lines)


PALE = "#EEEEEE"
GAP = 1.4  # columns between before and after, for the arrow


def _span(pairs: list[tuple[list, list]]) -> float:
    """Return the width of a panel in columns, with room to the next one."""
    return sum(max((len(pair[side]) for pair in pairs), default=1) for side in (0, 1)) + GAP + 1.5


def _rows(pair: Sequence) -> tuple[list, list]:
    before, after = ([] if row is None else getattr(row, "tolist", lambda row=row: list(row))() for row in pair)
    return before, after


def _numbers(row: list) -> str:
    return " ".join(f"{value:g}" for value in row) or "–"


def _panel(
    ax: Axes, name: str, pairs: list[tuple[list, list]], names: bool, span: float, root: int | None
) -> None:  # fmt: skip
    origin = {value: rank for rank, (before, _) in enumerate(pairs) for value in before}
    left = max((len(before) for before, _ in pairs), default=1)
    right = max((len(after) for _, after in pairs), default=1)
    for rank, (before, after) in enumerate(pairs):
        for start, width, row in ((0, left, before), (left + GAP, right, after)):
            for column in range(width):
                value = row[column] if column < len(row) else None
                _number(ax, start + column, rank, value, origin.get(value))
    middle = (len(pairs) - 1) / 2 if root is None else root
    arrow = {"arrowstyle": "-|>", "color": "black", "linewidth": 1.2}
    ax.annotate("", (left + GAP - 0.55, middle), (left - 0.45, middle), arrowprops=arrow)
    ax.set_xlim(-0.55, span - 0.55)  # that of the widest panel of this column: all cells are equally wide
    ax.set_ylim(len(pairs) - 0.45, -0.55)
    told = [f"root: rank {rank}" if rank == root else f"rank {rank}" for rank in range(len(pairs))]
    ax.set_yticks(range(len(pairs)), told if names else [""] * len(pairs), fontsize=SMALLEST)
    if root is not None:
        ax.get_yticklabels()[root].set_weight("bold")
        ax.axhspan(root - 0.5, root + 0.5, color=PALE, zorder=0)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(name, fontsize=TITLE, loc="left")


def _number(ax: Axes, x: float, y: float, value: float | None, origin: int | None) -> None:
    computed = value is not None and origin is None
    face = "white" if origin is None else FACES[origin % len(FACES)]
    edge, line = ("black", 1.6) if computed else (GREY, 0.6)
    hatch = None if origin is None or origin < len(FACES) else "..."
    ax.add_patch(
        plt.Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, facecolor=face, edgecolor=edge, linewidth=line, hatch=hatch)
    )
    if value is not None:
        weight = "bold" if computed else "normal"
        ax.text(x, y, f"{value:g}", ha="center", va="center", fontsize=SMALLEST, weight=weight)


def seconds_over_size(
    points: Mapping[str, Mapping[float, float]] | None = None,
    lines: Mapping[str, Callable[[float], float]] | None = None,
    *,
    notes: Mapping[str, tuple[float, float]] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw seconds over bytes, both on logarithmic axes: measured `points[name][size]`, and a line for each model.

    `notes` are words for places in the picture, each (bytes, seconds); without words a place only gets its ring.

    The text twin is the table from which `points` was made, and the models' own numbers.
    """
    points, lines = points or {}, lines or {}
    ax = new_axes(ax, 3.8)
    sizes = [size for series in points.values() for size in series if size > 0] or [8, 2**34]
    exact = [min(sizes) * (max(sizes) / min(sizes)) ** (step / 100) for step in range(101)]
    for (name, series), colour, marker in zip(points.items(), SERIES, "os^Dv*X", strict=False):
        kept = sorted(size for size in series if size > 0 and series[size] > 0)
        ax.plot(kept, [series[size] for size in kept], marker, color=LINKS.get(name, colour), markersize=6, label=name,
                zorder=3 - 0.1 * len(ax.lines))  # the first lies on top
    dashes = ["-", "--", "-.", ":"] * 4
    for (name, model), colour, dash in zip(lines.items(), SERIES * 2, dashes, strict=False):
        colour = INK if points else colour  # a model beside what was measured
        ax.plot(exact, [model(size) for size in exact], dash, color=colour, linewidth=1.4, label=name, zorder=1)
    _log_axes(ax)
    low, high = ax.get_ylim()
    if low > 0 and high / low < 300:  # else a scale of less than two decades has hardly a number
        ax.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=12))
    for place, (words, (size, seconds)) in enumerate((notes or {}).items()):
        offset, side = (((-22, 24), "right"), ((32, -25), "center"), ((16, 0), "left"))[place % 3]
        ax.plot([size], [seconds], "o", markersize=11, markerfacecolor="none", color=INK, markeredgewidth=1.4, zorder=4)
        if words.strip():  # else only a ring
            ax.annotate(words, (size, seconds), offset, textcoords="offset points", fontsize=SMALLEST, color=INK,
                        weight="bold", ha=side, va="center",
                        arrowprops={"arrowstyle": "-", "color": INK, "shrinkB": 6})  # fmt: skip
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    ax.legend(fontsize=SMALLEST, frameon=False)
    return ax


def _log_axes(ax: Axes) -> None:
    ax.set_xscale("log")
    if any(value > 0 for line in ax.lines for value in line.get_ydata()):
        ax.set_yscale("log")
    for axis, text in ((ax.xaxis, bytes_text), (ax.yaxis, _seconds_text)):
        axis.set_major_locator(LogLocator(base=10, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _, text=text: text(value)))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("size of the tensor", fontsize=SMALLEST)
    ax.set_ylabel("time", fontsize=SMALLEST)


def _seconds_text(seconds: float) -> str:
    factor, unit = time_unit(seconds)
    return f"{seconds * factor:{'.3g' if seconds < 1000 else ',.0f'}} {unit}"


# Sizes and bandwidth


def bytes_text(size: float) -> str:
    """Return a size with the decimal unit that keeps its digits few: 16 MB."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size) >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def bandwidth(
    series: Mapping[str, Mapping[float, float]],
    *,
    limit: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bandwidth over size, both on logarithmic axes: `series[name][size in bytes]` is in bytes per second.

    `limit` draws a line at what the link can carry. Its text twin is the table from which `series` was made.
    """
    ax = new_axes(ax, 3.8)
    looks = zip(SERIES * 9, "os^Dv*X" * 9, ["-", "--", "-.", ":"] * 16, strict=False)
    for (name, points), (colour, marker, dashes) in zip(series.items(), looks, strict=False):
        sizes = sorted(size for size in points if size > 0 and points[size] > 0)
        rates = [points[size] for size in sizes]
        ax.plot(sizes, rates, color=colour, marker=marker, linestyle=dashes, markersize=6, label=name)
    if limit:
        ax.axhline(limit, color=GREY, linewidth=1, label=f"link: {bytes_text(limit)}/s")
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, ending in ((ax.xaxis, ""), (ax.yaxis, "/s")):
        axis.set_major_locator(LogLocator(base=10, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _, ending=ending: bytes_text(value) + ending))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="#EEEEEE")
    ax.set_axisbelow(True)
    ax.set_xlabel("size of the tensor", fontsize=SMALLEST)
    ax.set_ylabel("tensor bytes per second", fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    if series or limit:
        ax.legend(fontsize=SMALLEST, frameon=False)
    return ax
