"""Time: a row per rank, a bar per event."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from course_lib.plots.canvas import (
    BACKWARD,
    COLLECTIVE,
    COMPUTE,
    FORWARD,
    GREY,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    YELLOW,
    edge_of,
    legend_below,
    new_axes,
    say,
)

KINDS = {
    "send": (SENT, ""), "recv": (RECEIVED, ""), "work": (COMPUTE, ""), "all_reduce": (COLLECTIVE, ""),
    "all_gather": (RECEIVED, "///"), "reduce_scatter": (SENT, "///"), "broadcast": (RECEIVED, "..."),
    "reduce": (SENT, "..."), "gather": (RECEIVED, "xxx"), "scatter": (SENT, "xxx"),
    "all_to_all": (COLLECTIVE, "///"), "barrier": (GREY, "///"),
}  # fmt: skip
# Of course_lib.schedules: a backward may be in two parts, I for the input and W for the weights. Neither is the pale
# orange of a second chunk.
PIPELINE = {"F": FORWARD, "B": BACKWARD, "I": "#F2A07B", "W": "#CC9C50"}
KINDS |= {kind: (colour, "") for kind, colour in PIPELINE.items()} | {"FB": (YELLOW, ""), "SYNC": (COLLECTIVE, "")}
KINDS |= {
    f"{kind} chunk {chunk}": (colour, hatch)
    for chunk, hatch in ((1, "///"), (2, "..."), (3, "xxx"))
    for kind, colour in PIPELINE.items()
}
KINDS |= {"forward": (FORWARD, ""), "backward": (BACKWARD, "")}
KINDS |= {"prefill": (FORWARD, ""), "decode": (COMPUTE, "")}  # of course_lib.serving
OTHER = (GREY, "")
FEW = 4  # events of a row that are told one by one


def time_unit(seconds: float) -> tuple[float, str]:
    """Return (factor, unit) in which a span of so many seconds is read best: (1e6, "µs"), (1e3, "ms") or (1, "s")."""
    if seconds >= 1:
        return 1.0, "s"
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def timeline(
    result: Any, *, ranks: Iterable[int] | None = None, most: int = 16, row: str = "rank", title: str | None = None,
    until: float = 0.0, ax: Axes | None = None, halves: bool = False,
) -> Axes:  # fmt: skip
    """Draw what each rank did when: a row per rank, a bar per event; all of its time that is left is idle, and grey.

    Where events of one rank overlap they share the height of its row; with `halves` all sends lie in the upper half of
    a row, and all receives in the lower one. Of more than `most` ranks the first and the last are drawn, unless `ranks`
    says which; `row` is what a row is called. Pictures with the same `until`, in seconds, have one scale. The text twin
    is `print(result)`; the bars are `result.events`.
    """
    wanted = list(range(len(result)) if ranks is None else ranks)
    rows = wanted if ranks is not None or len(wanted) <= most else wanted[: most // 2] + wanted[-(most // 2) :]
    left_out = len(wanted) - len(rows)
    place = {rank: row + (1 if left_out and row >= most // 2 else 0) for row, rank in enumerate(rows)}
    events = [event for event in result.events if event.rank in place]
    taken = max([result.seconds, *(event.end for event in events)], default=0)
    span = max(taken, until)
    factor, unit = time_unit(span)
    count = len(rows) + bool(left_out)
    ax = new_axes(ax, 1.5 + min(0.42 * count, 6.5))
    least = span * factor / 2000  # what takes no time is drawn as a hairline
    bars, labels = _bars(events, place, factor, least, halves)
    thick = max((len(found) for found in bars.values()), default=0) <= 40 * max(1, count)
    if events:
        bars["idle"] = [_box(0, taken * factor, place[rank] - 0.4, 0.8) for rank in rows]
    for kind, boxes in bars.items():
        colour, hatch = look(kind)
        ax.add_collection(
            PolyCollection(
                boxes, facecolors=colour, edgecolors=_edge(colour, hatch), linewidths=0.6 if thick else 0,
                hatch=hatch or None, label=kind, zorder=1 if kind == "idle" else 2,
            )
        )  # fmt: skip
    for x, y, width, text, kind in labels:
        if width > (0.0113 * len(text) + 0.0037) * span * factor:
            colour, hatch = look(kind)
            halo = [withStroke(linewidth=3, foreground=colour)] if hatch else None  # or its lines cross the letters
            ax.text(x, y, text, ha="center", va="center", fontsize=SMALLEST, zorder=3, path_effects=halo)
    if not events:
        ax.text(0.5, 0.5, "no events", transform=ax.transAxes, ha="center", va="center", fontsize=TITLE)
    if left_out:
        words = f"… {left_out} more {row}s …"
        ax.text(0.5 * span * factor, most // 2, words, ha="center", va="center", fontsize=SMALLEST)
    simulated = getattr(result, "simulated", False)
    ax.set_xlim(0, span * factor or 1)
    ax.set_ylim(max(count, 1) - 0.5, -0.5)
    ax.set_yticks([place[rank] for rank in rows], [str(rank) for rank in rows])
    ax.set_ylabel(row, fontsize=SMALLEST)
    ax.set_xlabel(f"{'virtual' if simulated else 'wall'} time in {unit}", fontsize=SMALLEST)
    engine = "simulated" if simulated else "measured"
    told = f"{engine}: {len(result)} {row}s, {taken * factor:.3g} {unit}"
    ax.set_title(f"{title} ({told})" if title else told, fontsize=TITLE, loc="left")
    unseen = {"idle"} if events and _all_busy(events, rows, taken) else set()
    legend_below(ax, [key(kind) for kind in sorted(bars.keys() - unseen, key=_order)])
    left_words = f"\n{left_out} more {row}s" if left_out else ""
    say(ax, "\n".join(f"{row} {rank}: {_words(events, rank, factor, unit, taken)}" for rank in rows) + left_words)
    return ax


def _words(events: list, rank: int, factor: float, unit: str, span: float) -> str:
    """Return a row in words: its few events with their times in order, or of many the share of time of each kind."""
    mine = sorted((event for event in events if event.rank == rank), key=lambda event: (event.start, event.end))
    if len(mine) <= FEW:
        told = [f"{event.kind} {event.label}".strip()
                + f" from {event.start * factor:.3g} to {event.end * factor:.3g} {unit}"
                + (f", after waiting from {event.posted * factor:.3g}" if event.posted < event.start else "")
                for event in mine]
    else:
        spent = {kind: _covered([event for event in mine if event.kind == kind]) for kind in dict.fromkeys(
            event.kind for event in mine)} | {"idle": span - _covered(mine)}
        told = [f"{kind} {seconds / span:.0%} of the time" for kind, seconds in spent.items() if seconds > 1e-9 * span]
    return ", ".join(told) or "nothing"


def _all_busy(events: list, rows: list[int], taken: float) -> bool:
    """Return whether no row has a moment in which nothing happens, so that its grey is nowhere to be seen."""
    ordered = sorted(events, key=lambda event: event.start)
    return all(_covered([event for event in ordered if event.rank == rank]) > 0.999 * taken for rank in rows)


def _covered(events: list) -> float:
    """Return the seconds in which at least one of these events goes on; they are sorted by their start."""
    seconds, reach = 0.0, float("-inf")
    for event in events:
        seconds += max(0.0, event.end - max(event.start, reach))
        reach = max(reach, event.end)
    return seconds


def look(kind: str) -> tuple[str, str]:
    """Return the colour and the hatch of a kind of event."""
    return (WAITING, "") if kind == "idle" else KINDS.get(kind, OTHER)


def _order(kind: str) -> int:
    return list(KINDS).index(kind) if kind in KINDS else len(KINDS) + (kind == "idle")


def kinds_of(results: Iterable[Any]) -> list[str]:
    """Return the kinds of events that take time in any of the results, in the order of a legend, and idle time last."""
    seen = {event.kind for result in results for event in result.events if event.end > event.start}
    return [*sorted(seen, key=_order), "idle"]


def key(kind: str) -> Patch:
    """Return what stands for a kind of event in a legend."""
    colour, hatch = look(kind)
    return Patch(facecolor=colour, hatch=hatch or None, edgecolor=_edge(colour, hatch), label=kind)


def _edge(colour: str, hatch: str) -> str:
    """Return the colour of a bar's frame, which is that of its hatch: white cannot be seen on yellow."""
    return "#777777" if hatch and colour == YELLOW else edge_of(colour)


def _bars(
    events: list, place: dict[int, int], factor: float, least: float, halves: bool = False
) -> tuple[dict, list]:
    """Return the boxes of each kind, corner by corner, and (x, y, width, text, kind) of the events with a label."""
    bars: dict[str, list] = {}
    labels = []
    for rank, group in itertools.groupby(sorted(events, key=lambda event: event.rank), key=lambda event: event.rank):
        for event, lane, lanes in [(one, int(one.kind != "send"), 2) for one in group] if halves else _lanes([*group]):
            height = 0.8 / lanes
            top = place[rank] - 0.4 + lane * height
            x0, x1 = event.start * factor, max(event.end * factor, event.start * factor + least)
            bars.setdefault(event.kind, []).append(_box(x0, x1, top, height))
            if event.label:
                labels.append(((x0 + x1) / 2, top + height / 2, x1 - x0, event.label, event.kind))
    return bars, labels


def _box(x0: float, x1: float, top: float, height: float) -> list[tuple[float, float]]:
    return [(x0, top), (x1, top), (x1, top + height), (x0, top + height)]


def _lanes(events: list) -> list[tuple[Any, int, int]]:
    """Return (event, lane, number of lanes) for one rank: what overlaps lies in lanes, sends above receives."""
    placed: list[tuple[Any, int, int]] = []
    cluster: list = []
    reach = float("-inf")

    def settle() -> None:
        ends: list[tuple[str, float]] = []  # of each lane: whose it is, and until when it is taken
        lane_of = []
        for event in sorted(cluster, key=lambda event: (_order(event.kind), event.start)):
            free = [i for i, (kind, end) in enumerate(ends) if kind == event.kind and end <= event.start]
            lane = free[0] if free else len(ends)
            ends[lane : lane + 1] = [(event.kind, event.end)]
            lane_of.append((event, lane))
        placed.extend((event, lane, len(ends)) for event, lane in lane_of)

    for event in sorted(events, key=lambda event: (event.start, event.end)):
        if event.start >= reach:
            settle()
            cluster = []
        cluster.append(event)
        reach = max(reach, event.end)
    settle()
    return placed
