"""Sizes of real tensors on one axis, and where latency or bandwidth decides what it costs to send them."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from course_lib.plots.canvas import COLLECTIVE, INK, SMALLEST, TITLE, WAITING, new_axes, say
from course_lib.plots.collectives import bytes_text


def message_sizes(sizes: Mapping[str, float], latency: float, bandwidth: float, ax: Axes | None = None,
                  inside: tuple[float, float] = ()) -> Axes:  # fmt: skip
    """Draw each named size, in bytes, as a point on a logarithmic axis; left of the line latency costs more.

    `inside` is the (latency, bandwidth) of faster links, such as those inside a node: they get a dashed line, and
    between the two lines a paler grey, because there the link decides.
    """
    ax = new_axes(ax, 1.15 + 0.34 * len(sizes))
    edge = latency * bandwidth
    first, last = min(sizes.values()) / 2, max(sizes.values()) * 2.5
    ax.axvspan(first, edge, color=WAITING, alpha=0.55, linewidth=0)
    ax.axvline(edge, color=INK, linewidth=1.2)
    for row, size in enumerate(sizes.values()):
        left = size > 100 * first and not edge < size < last / 25  # the number stands where there is room
        ax.plot(size, row, "o", color=COLLECTIVE, markersize=9)
        ax.text(size, row, f"   {bytes_text(size)}   ", ha="right" if left else "left", va="center", fontsize=SMALLEST,
                color=INK, weight="bold")  # fmt: skip
    if inside:
        faster = inside[0] * inside[1]
        ax.axvspan(edge, faster, color=WAITING, alpha=0.25, linewidth=0)
        ax.axvline(faster, color=INK, linewidth=1.2, linestyle="--")
        words = f"the border inside\na node: {bytes_text(faster)}"
        ax.text(faster * 1.3, 0.5, words, va="center", fontsize=SMALLEST, color=INK)
    ax.set_xscale("log")
    ax.set_xlim(first, last)
    ax.set_ylim(len(sizes) - 0.4, -1.5)
    ax.text(edge / 1.3, -1.0, "latency costs more", ha="right", va="center", fontsize=SMALLEST, color=INK)
    right = faster if inside else edge
    ax.text(right * 1.3, -1.0, "bytes cost more", ha="left", va="center", fontsize=SMALLEST, color=INK)
    ax.xaxis.set_major_locator(LogLocator(base=1000, numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yticks(range(len(sizes)), list(sizes))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    small, large = (bytes_text(end(sizes.values())) for end in (min, max))
    title = f"From {small} to {large}: small tensors pay latency, large ones bytes"
    ax.figure.suptitle(title, x=0.005, ha="left", fontsize=TITLE)  # the names left of the axes stand below it, too
    at_line = f"at the line ({bytes_text(edge)}) the bytes take {1e6 * latency:g} µs"
    ax.set_xlabel(f"size of the tensor; {at_line}", fontsize=SMALLEST)
    told = "; ".join(f"{name}: {bytes_text(size)}" for name, size in sizes.items())
    also = f", inside a node at {bytes_text(inside[0] * inside[1])}" if inside else ""
    say(ax, f"{told}. At {bytes_text(edge)} latency costs as much as the bytes{also}")
    return ax
