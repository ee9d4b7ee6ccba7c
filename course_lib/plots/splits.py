"""Several ways to do one thing, each a bar that parts its seconds into latency and bytes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.plots.canvas import INK, SENT, SMALLEST, TITLE, WIDTH, legend_below, say, sheet
from course_lib.plots.time import time_unit
from course_lib.plots.timelines import HATCH, ON_ITS_WAY

ROOM = 1.35  # widths of the longest bar that a sheet has for bars and their times


def latency_and_bytes(ways: Mapping[str, tuple[float, float]], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw `ways[name]`, seconds of latency and of bytes, as bars to one scale from zero; the fastest is named in bold.

    The scale is the picture's own: the longest bar always has the same length. Returns the axes.
    """
    longest = max(map(sum, ways.values()))
    ax = sheet(0.75 * len(ways) + 0.9, WIDTH, len(ways), ax)
    ax.set(xlim=(0, ROOM * longest))
    fastest = min(ways, key=lambda name: sum(ways[name]))
    first = "the faster" if len(ways) == 2 else "the fastest"
    told = []
    for place, (name, (latency, carried)) in enumerate(ways.items()):
        low, bold = len(ways) - 1 - place + 0.12, "bold" if name == fastest else "normal"
        ax.barh(low + 0.2, latency, 0.38, color=ON_ITS_WAY, edgecolor=SENT, hatch=HATCH, linewidth=0.6)
        ax.barh(low + 0.2, carried, 0.38, left=latency, color=SENT)
        factor, unit = time_unit(latency + carried)
        said = f"{(latency + carried) * factor:,.3g} {unit}"
        ax.text(0, low + 0.6, name, fontsize=SMALLEST, weight=bold, va="center", color=INK)
        ax.text(latency + carried + 0.01 * longest, low + 0.2, f"{said}, {first}" if name == fastest else said,
                fontsize=SMALLEST, weight=bold, va="center", color=INK)  # fmt: skip
        told.append(f"{name}: {said}, of which latency {latency / (latency + carried):.0%}")
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    late = Patch(facecolor=ON_ITS_WAY, edgecolor=SENT, hatch=HATCH, linewidth=0.6, label="latency")
    legend_below(ax, [late, Patch(color=SENT, label="bytes")])
    say(ax, "\n".join([*told, f"{first}: {fastest}"]))
    return ax
