"""Several runs on one axis of time: the rows of each, when it ends, and how many times as long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.plots.canvas import INK, SMALLEST, TITLE, WAITING, edge_of, legend_below, new_axes, say
from course_lib.plots.time import _covered, _lanes, key, look, time_unit

ROW = 0.19  # inches: the rows of all runs, with the smallest letters between them
HEAD = 1.7  # rows above each run, for its name
MANY, THIN, NAMED = 30, 0.115, 5  # from so many rows on they are so high, and only every fifth bears its number


def race(
    runs: Mapping[str, Any], *, title: str = "", per_node: Sequence[int] = (), ax: Axes | None = None
) -> Axes:
    """Draw runs one above the other on one axis of time, each with its seconds, in multiples of the shortest.

    `per_node` has for each run how many ranks a node holds: a line parts the nodes, and a message from one to another
    has a black frame. The text twin is the seconds of each run, and `print(result)`.
    """
    count = sum(len(result) + HEAD for result in runs.values())
    ax = new_axes(ax, 1.1 + (ROW if count < MANY else THIN) * count)
    named = 1 if count < MANY else NAMED
    longest = max(result.seconds for result in runs.values())
    shortest = min(result.seconds for result in runs.values())
    factor, unit = time_unit(longest)
    top, names, kinds, told, crossing = 0.0, {}, set(), [], False
    for place, (name, result) in enumerate(runs.items()):
        ratio = result.seconds / shortest
        words = f"{result.seconds * factor:.3g} {unit}" + (f", {ratio:.3g} times as long" if ratio > 1.005 else "")
        ax.text(0.004 * longest * factor, top + HEAD - 0.65, f"{name}: {words}", fontsize=SMALLEST, va="bottom",
                color=INK, weight="bold")  # fmt: skip
        idle = 1 - sum(_covered([event for event in result.events if event.rank == rank])
                       for rank in range(len(result))) / len(result) / result.seconds  # fmt: skip
        told.append(f"{name}: {len(result)} ranks, {words}; the ranks are idle for {abs(idle):.0%} of it")
        top += HEAD
        names |= {top + rank: str(rank) for rank in range(0, len(result), named)}
        crossing |= _rows(ax, result, top, factor, longest, per_node[place] if per_node else 0)
        kinds |= {event.kind for event in result.events}
        top += len(result)
    ax.set_xlim(0, longest * factor * (1.09 if per_node else 1.003))
    ax.spines["left"].set_visible(False)
    ax.set_ylim(top - 0.4, 0)
    ax.set_yticks(list(names), list(names.values()))
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel("rank", fontsize=SMALLEST)
    simulated = all(getattr(result, "simulated", False) for result in runs.values())
    ax.set_xlabel(f"{'virtual' if simulated else 'wall'} time in {unit}", fontsize=SMALLEST)
    ax.set_title(title, fontsize=TITLE, loc="left", pad=12)
    keys = [key(kind) for kind in sorted(kinds)] + [key("idle")]
    if crossing:
        keys.append(Patch(facecolor="white", edgecolor=INK, linewidth=1.4, label="from node to node"))
    legend_below(ax, keys)
    say(ax, "\n".join(told))
    return ax


def _rows(ax: Axes, result: Any, top: float, factor: float, longest: float, per_node: int) -> bool:
    """Draw the bars of one run below `top`; return whether a message went from node to node."""
    found = False
    for first in range(0, len(result), per_node or len(result)):
        if per_node:
            last = min(first + per_node, len(result)) - 1
            ax.text((result.seconds + 0.01 * longest) * factor, top + (first + last) / 2, f"node {first // per_node}",
                    va="center", fontsize=SMALLEST, color=INK)  # fmt: skip
    for rank in range(len(result)):
        ax.add_patch(Rectangle((0, top + rank - 0.42), result.seconds * factor, 0.84, facecolor=WAITING, linewidth=0))
        if per_node and rank and rank % per_node == 0:
            ax.plot([0, result.seconds * factor], [top + rank - 0.5] * 2, color=INK, linewidth=1.6, zorder=4)
        for event, lane, lanes in _lanes([event for event in result.events if event.rank == rank]):
            colour, hatch = look(event.kind)
            peer = getattr(event, "peer", None)
            out = bool(per_node) and peer is not None and peer // per_node != rank // per_node
            found |= out
            high = 0.84 / lanes
            place = (event.start * factor, top + rank - 0.42 + lane * high)
            width = max(event.end - event.start, longest / 800) * factor
            frame = (INK, 1.2) if out else (edge_of(colour), 0.5)
            ax.add_patch(Rectangle(place, width, high, facecolor=colour, hatch=hatch or None, zorder=3 if out else 2,
                                   edgecolor=frame[0], linewidth=frame[1]))  # fmt: skip
    return found
