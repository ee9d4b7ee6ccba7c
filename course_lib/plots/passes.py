"""A piece's walk round a ring of many nodes, and how many tokens a GPU then gets through."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.plots.canvas import (
    COMPUTE,
    FACES,
    INK,
    NETWORK,
    NVLINK,
    ORANGE,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    YELLOW,
    arrow,
    box,
    new_axes,
    say,
    sheet,
)

INCH = 5.0  # units of a sheet
NODE = "#F4F4F4"
LOOKS = (INK, "o-"), (NVLINK, "^--"), (NETWORK, "v:"), (ORANGE, "s-")  # of the ways through a step


def walk_round_nodes(
    nodes: int = 256, per_node: int = 8, inside: float = 1.9e-6, between: float = 4.0e-6, sends: float = 1.5e-3,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw how a piece walks from GPU to GPU round a ring of `nodes` nodes, and below what its hops take, on one axis.

    `inside` and `between` are the seconds that a hop waits in a node and between nodes, `sends` those of all bytes.
    """
    high, short, long = 15.6, nodes * (per_node - 1), nodes - 1
    ax = sheet(high / INCH, WIDTH * INCH, high, ax)
    ax.set_title(f"Round {nodes} nodes a piece takes {short + long:,} hops: {short:,} inside nodes, {long} between",
                 fontsize=TITLE, loc="left")  # fmt: skip
    side, step, y = 1.15, 1.38, 11.2
    wide = per_node * step + 0.15
    lefts = 0.2, wide + 2.3, 2 * wide + 7.2
    for left, name in zip(lefts, ("node 0", "node 1", f"node {nodes - 1}"), strict=True):
        ax.add_patch(FancyBboxPatch((left, y - 0.5), wide, 4.2, boxstyle="round,pad=0,rounding_size=0.3",
                                    facecolor=NODE, edgecolor=INK, linewidth=1, zorder=0))  # fmt: skip
        ax.text(left + 0.3, y + 2.95, name, fontsize=SMALLEST, weight="bold", va="center")
        for gpu in range(per_node):
            x = left + 0.2 + step * gpu
            box(ax, x, y, side, 1.2, FACES[0], f"{gpu}")
            if gpu < per_node - 1:
                arrow(ax, (x + 0.6, y + 1.25), (x + step + 0.55, y + 1.25), colour=NVLINK, line=1.8, bend=-0.75)
        ax.text(left + wide - 0.3, y + 2.95, f"{per_node - 1} short hops", fontsize=SMALLEST, color=NVLINK,
                weight="bold", va="center", ha="right")  # fmt: skip
    ends = (lefts[0] + wide, lefts[1]), (lefts[1] + wide, lefts[1] + wide + 2.0), (lefts[2] - 2.0, lefts[2])
    for start, end in ends:
        arrow(ax, (start + 0.05, y + 0.6), (end - 0.05, y + 0.6), colour=NETWORK, line=3.2)
    ax.text((ends[1][1] + ends[2][0]) / 2, y + 0.6, "…", fontsize=TITLE, weight="bold", ha="center", va="center")
    ax.add_patch(Rectangle((lefts[0] + 0.45, y - 2.0), 0.75, 0.75, facecolor=YELLOW, edgecolor=INK, linewidth=0.8))
    ax.text(lefts[0] + 1.5, y - 1.65, "one piece starts here", fontsize=SMALLEST, va="center")
    ax.text((ends[0][0] + ends[0][1]) / 2, y - 1.65, "one long hop", fontsize=SMALLEST, color=NETWORK, weight="bold",
            va="center", ha="center")  # fmt: skip
    ax.text(lefts[2] + wide, y - 1.65, "and every GPU has it", fontsize=SMALLEST, va="center", ha="right")
    ax.text(0.3, y - 3.4, f"All {nodes * per_node:,} GPUs do this at the same time, each with a piece of its own.",
            fontsize=SMALLEST, va="center", weight="bold")  # fmt: skip
    told = _bars(ax, nodes, per_node, inside, between, sends)
    say(ax, "\n".join([f"node 0 to node {nodes - 1} in a row, each with {per_node} GPUs: a piece takes {per_node - 1} "
                       "short hops through a node, one long hop to the next node, and so on to the last GPU; all GPUs "
                       "send at the same time, each a piece of its own", *told]))
    return ax


def _bars(ax: Axes, nodes: int, per_node: int, inside: float, between: float, sends: float) -> list[str]:
    """Draw the whole walk as three sums, to scale, and say what one node and the way to the next take."""
    left, full, y = 4.6, 27.5, 3.7
    node = (per_node - 1) * inside + between
    one = f"{per_node - 1} · {1e6 * inside:.1f} + {1e6 * between:.1f} = {1e6 * node:.1f} µs"
    ax.text(left, y + 2.3, f"through one node and on to the next: {one}; through all {nodes}:", fontsize=SMALLEST,
            va="center")  # fmt: skip
    x = left
    parts = ((nodes * (per_node - 1) * inside, NVLINK, "hops inside nodes"),
             ((nodes - 1) * between, NETWORK, "between"), (sends, YELLOW, "bytes"))  # fmt: skip
    total = sum(seconds for seconds, *_ in parts)
    for seconds, colour, words in parts:
        ax.add_patch(Rectangle((x, y), full * seconds / total, 1.3, facecolor=colour))
        ax.text(x + full * seconds / total / 2, y - 1.1, f"{words}\n{1e3 * seconds:.1f} ms", fontsize=SMALLEST,
                ha="center", va="center")  # fmt: skip
        x += full * seconds / total
    ax.text(x + 0.4, y + 0.65, f"{1e3 * total:.1f} ms", fontsize=SMALLEST, weight="bold", va="center")
    ax.text(left, 0.5, "one collective of a layer's 0.5 GB, by NCCL's table for LL128", fontsize=SMALLEST, va="center")
    sums = ", ".join(f"{words} {1e3 * seconds:.1f} ms" for seconds, _, words in parts)
    return [f"through one node: {one}", f"through all {nodes}: {sums}, {1e3 * total:.1f} ms in all"]


def link_over_time(
    tensors: Mapping[str, float], ranks: int = 2048, rate: float = 341e9, latency: float = 2.16e-6,
    until: float = 12e-6, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw when one link of a ring carries bytes and when it waits: a row for each of `tensors`, named bytes.

    A hop takes the time of its piece, a tensor's share of one of `ranks`, at `rate` bytes/s, and the `latency`: by
    NCCL's table 341 GB/s with LL128 on H100s, and on 256 nodes 2.16 µs, (1,792 · 1.9 µs + 255 · 4.0 µs) / 2,047.
    """
    ax = new_axes(ax, 0.9 + 0.55 * len(tensors))
    told = []
    for row, (name, size) in enumerate(tensors.items()):
        sends = size / ranks / rate
        hops = range(math.ceil(until / (sends + latency)))
        ax.broken_barh([(1e6 * hop * (sends + latency), 1e6 * sends) for hop in hops], (row - 0.3, 0.6), color=YELLOW)
        ax.broken_barh([(1e6 * (hop * (sends + latency) + sends), 1e6 * latency) for hop in hops], (row - 0.3, 0.6),
                       color=WAITING)  # fmt: skip
        for begin, long in ((0, sends), (sends, latency)):
            ax.text(1e6 * (begin + long / 2), row, f"{1e6 * long:.1f}", ha="center", va="center", fontsize=SMALLEST,
                    color="black")  # fmt: skip
        busy = sends / (sends + latency)
        ax.text(1e6 * until * 1.01, row, f"busy {100 * busy:.0f} %", va="center", fontsize=SMALLEST, weight="bold")
        told.append(f"{name}, a piece of {size / ranks / 1e6:.2f} MB: {1e6 * sends:.2f} µs of bytes, then "
                    f"{1e6 * latency:.2f} µs of latency, busy {100 * busy:.0f} % of the time")  # fmt: skip
    ax.set_yticks(range(len(tensors)), [f"{name},\na piece of {size / ranks / 1e6:.2g} MB"
                                        for name, size in tensors.items()])  # fmt: skip
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1e6 * until), ylim=(len(tensors) - 0.5, -0.6))
    ax.set_xlabel("µs on one link of the ring; yellow: a piece passes, grey: the next one isn't there yet",
                  fontsize=SMALLEST)  # fmt: skip
    ax.set_title("By NCCL's table, a link of a long ring waits most of the time", fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def tokens_over_nodes(
    ways: Mapping[str, Mapping[int, float]], alone: float, model: str, ax: Axes | None = None
) -> Axes:
    """Draw `ways[name][nodes]`, the tokens per second of a GPU, below a line for its computing `alone`."""
    ax = new_axes(ax, 3.6)
    nodes, told = list(next(iter(ways.values()))), [f"computing alone: {alone:,.0f} tokens per second"]
    heights = _apart({name: list(taken.values())[-1] for name, taken in ways.items()}, 0.045 * alone)
    for (name, taken), (colour, line) in zip(ways.items(), LOOKS, strict=False):
        ax.plot(nodes, list(taken.values()), line, color=colour, linewidth=2.0, markersize=5, clip_on=False,
                zorder=4 if colour == INK else 3)  # fmt: skip
        ax.annotate(f"{round(taken[nodes[-1]], -2):,.0f}, {name}", (nodes[-1], heights[name]), (11, 0), color=colour,
                    textcoords="offset points", fontsize=SMALLEST, weight="bold", va="center",
                    annotation_clip=False)  # fmt: skip
        told.append(f"{name}: " + ", ".join(f"{one:,.0f} on {count}" for count, one in taken.items()))
    ax.axhline(alone, color=COMPUTE, linewidth=2)
    ax.text(nodes[0], 1.02 * alone, f"computing alone: {round(alone, -2):,.0f}", fontsize=SMALLEST, weight="bold",
            color=COMPUTE, va="bottom")  # fmt: skip
    ax.set(xscale="log", xlim=(0.9 * nodes[0], nodes[-1]), ylim=(0.35 * alone, 1.08 * alone))
    ax.xaxis.set_major_locator(FixedLocator(nodes))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"nodes of eight GPUs, {model}", fontsize=SMALLEST)
    ax.set_ylabel("tokens per second of a GPU", fontsize=SMALLEST)
    least, most = (100 * one([taken[nodes[-1]] for taken in ways.values()]) / alone for one in (min, max))
    title = f"On {nodes[-1]} nodes a GPU keeps {least:.0f} to {most:.0f} % of its tokens per second"
    ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _apart(ends: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return at which height each name stands: beside the end of its line, and at least `gap` above the one below."""
    heights, low = {}, -gap
    for name in sorted(ends, key=ends.get):
        low = heights[name] = max(ends[name], low + gap)
    return heights
