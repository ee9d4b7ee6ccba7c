"""What one message costs over its size: flat while latency decides, rising with the bytes from a bend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from course_lib.plots.canvas import BLUE, GREEN, INK, SMALLEST, TITLE, WAITING, new_axes, say
from course_lib.plots.collectives import _seconds_text, bytes_text


def message_cost(
    on: Any, named: Mapping[str, float], measured: Mapping[float, float] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the seconds of one message of a Cluster over its bytes, both on logarithmic axes, with the bend marked.

    `named` sizes are marked on the curve; `measured[bytes]`, in seconds, are those of another link, to be compared. A
    diamond marks the bend of each link.
    """
    latency, bandwidth = on.link(0, 1)
    bend, measured = latency * bandwidth, dict(measured or {})
    first, last = min([*named.values(), *measured]) / 3, max([*named.values(), *measured]) * 4
    sizes = [first * (last / first) ** (step / 200) for step in range(201)]
    ax = new_axes(ax, 4.2)
    ax.axvspan(first, bend, color=WAITING, alpha=0.55, linewidth=0, zorder=0)
    ax.plot(sizes, [latency + size / bandwidth for size in sizes], color=BLUE, linewidth=2.6)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(first, last)
    ax.set_ylim(latency / 30, max(last / bandwidth, *measured.values(), 0) * 3)
    for place, (name, size) in enumerate(named.items()):
        _mark(ax, f"{name}\n", size, latency + size / bandwidth, size > bend, place == len(named) - 1)
    link = f"the curve: {_seconds_text(latency)} + bytes / ({bytes_text(bandwidth)}/s)"
    _note(ax, link, (first * 3, latency), (0, 8), "left", "bottom")
    words = f"the bend, {bytes_text(bend)}:\nbytes and latency\ntake {_seconds_text(latency)} each"
    _note(ax, words, (bend, 2 * latency), (14, -8), "left", "top")
    ax.plot(bend, 2 * latency, "D", color=INK, markersize=7)
    if measured:
        ax.plot(list(measured), list(measured.values()), "s-", color=GREEN, markersize=7, linewidth=1)
        place, border = min(measured), _bend(measured)
        if border:
            ax.plot(border, 2 * measured[place], "D", color=GREEN, markersize=9, markeredgecolor=INK)
        above = (place, max(measured[place], 2 * latency))
        _note(ax, "green squares:\nmeasured on your machine", above, (0, 9), "left", "bottom")
    for x, side, words in ((bend / 1.5, "right", "latency decides:\ncount the messages"),
                           (bend * 1.5, "left", "bytes decide:\ncount the bytes")):  # fmt: skip
        ax.text(x, ax.get_ylim()[1] / 1.3, words, ha=side, va="top", fontsize=SMALLEST, color=INK, weight="bold")
    for axis, text in ((ax.xaxis, bytes_text), (ax.yaxis, _seconds_text)):
        axis.set_major_locator(LogLocator(base=1000 if axis is ax.xaxis else 10, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _, text=text: text(value)))
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("size of the message", fontsize=SMALLEST)
    ax.set_ylabel("time", fontsize=SMALLEST)
    ax.set_title(f"Far below {bytes_text(bend)} the size of a message hardly matters; far above, nothing else does",
                 fontsize=TITLE, loc="left")  # fmt: skip
    told = [f"{' '.join(name.split())}, {bytes_text(size)}: {_seconds_text(latency + size / bandwidth)}"
            for name, size in named.items()]
    told += [f"measured on another link, {bytes_text(size)}: {_seconds_text(it)}" for size, it in measured.items()]
    if measured and _bend(measured):
        told.append(f"its bend is at {bytes_text(_bend(measured))}")
    say(ax, f"Time of one message on a link of {_seconds_text(latency)} and {bytes_text(bandwidth)}/s: "
            + "; ".join(told) + f". At {bytes_text(bend)} bytes and latency take equally long.")  # fmt: skip
    return ax


def _bend(measured: Mapping[float, float]) -> float:
    """Return the bytes that take as long as the latency, by the shortest and the longest message; 0 for none."""
    least, most = min(measured), max(measured)
    if measured[most] <= measured[least]:
        return 0.0
    return measured[least] * (most - least) / (measured[most] - measured[least])


def _mark(ax: Axes, name: str, size: float, seconds: float, rising: bool, last: bool) -> None:
    """Draw a size on the curve, with its words where the curve is not: above it at the end, else below."""
    ax.plot(size, seconds, "o", color=BLUE, markersize=8)
    offset, side, edge = ((-14, 9), "right", "center") if last else ((0, -10), "left" if rising else "center", "top")
    if not rising and size < 30 * ax.get_xlim()[0]:
        side = "left"
    _note(ax, f"{name}{bytes_text(size)}: {_seconds_text(seconds)}", (size, seconds), offset, side, edge)


def _note(ax: Axes, words: str, point: tuple, offset: tuple, side: str, edge: str) -> None:
    ax.annotate(words, point, offset, textcoords="offset points", ha=side, va=edge, fontsize=SMALLEST, color=INK)
