"""Messages: a row per rank, and a band from sender to receiver, its latency told apart from its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Polygon, Rectangle

from course_lib.plots.canvas import (
    COMPUTE,
    INK,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    edge_of,
    legend_below,
    new_axes,
    say,
)
from course_lib.plots.collectives import bytes_text
from course_lib.plots.time import _covered, _lanes, look, time_unit

HIGH = 0.46  # of a row: its bar; the rest is for the bands
MOST = 8  # messages that are told one by one
ON_ITS_WAY, HATCH = "white", "//////"
DONE = "#F6F6F6"  # behind a rank's last event: it waits for nothing any more


def messages(results: Any, on: Any, *, title: str | None = None) -> Any:
    """Draw who sent what to whom, and when: a row per rank, a band from sender to receiver for each message.

    `results` is a simulated run, or a dictionary of several by their names, drawn below each other on one axis of time;
    `on` is the Cluster that they ran on. In the bar of a message the hatched part is its latency (nothing has arrived
    yet, or the last byte is under way) and the full part its bytes. Without a title two runs of the same job have one
    that says which is quicker. Returns the Axes, for several runs a list of them.
    """
    panels = dict(results) if isinstance(results, Mapping) else {"": results}
    if not all(getattr(result, "simulated", False) for result in panels.values()):
        raise ValueError("messages draws simulated runs: only the simulator knows when bytes move")
    rows = [len(result) for result in panels.values()]
    several = len(panels) > 1
    row = 0.8 if any(_shared(result) for result in panels.values()) else 0.52  # inches: two bars need a higher one
    row = 0.43 if sum(rows) > 7 and row < 0.8 else row  # or it does not fit a screen
    height = sum(row * count + 0.5 for count in rows) + 0.9 + 0.4 * several
    figure, axes = plt.subplots(
        len(panels), sharex=True, figsize=(WIDTH, height), layout="constrained", FigureClass=Picture, squeeze=False,
        height_ratios=[count + 0.6 for count in rows],
    )  # fmt: skip
    span = max(result.seconds for result in panels.values()) or 1.0
    one_job = len({sum(event.sent for event in result.events) for result in panels.values()}) == 1
    first = next(iter(panels.values())).seconds
    for ax, (name, result) in zip(axes[:, 0], panels.items(), strict=True):
        _panel(new_axes(ax, 0), result, on, span, row, one_job)
        heading = _heading(name or title, result.seconds, span, first)
        ax.set_title(heading, fontsize=SMALLEST if several else TITLE, weight="bold" if several else None, loc="left")
        say(ax, "\n".join(_told(result, on, span)))
    if several and (title or one_job):
        figure.suptitle(title or _verdict(panels, span), fontsize=TITLE, ha="left")
    factor, unit = time_unit(span)
    axes[-1, 0].set_xlabel(f"virtual time in {unit}", fontsize=SMALLEST)
    timed = [(result.of(rank), result.seconds) for result in panels.values() for rank in range(len(result))]
    ends = [max((event.end for event in row), default=0.0) for row, _ in timed]
    idle = any(_covered(row) < end - 0.001 * taken for (row, taken), end in zip(timed, ends, strict=True))
    done = any(end < 0.999 * taken for (_, taken), end in zip(timed, ends, strict=True))
    keys = _keys([event for result in panels.values() for event in result.events], on, span)
    keys += [Patch(facecolor=WAITING, label="waits")] * idle
    keys += [Patch(facecolor=DONE, edgecolor=WAITING, label="is done")] * done
    legend_below(axes[-1, 0], keys)
    if figure._suptitle:  # it begins where the panels begin
        figure.draw_without_rendering()
        figure._suptitle.set_x(axes[0, 0].get_position().x0)
    return list(axes[:, 0]) if len(panels) > 1 else axes[0, 0]


def _heading(name: str | None, seconds: float, span: float, first: float) -> str:
    """Return what stands above a run: its name, how long it took, and that beside the time of the first run."""
    factor, unit = time_unit(span)
    took = f"{seconds * factor:.3g} {unit}"
    if first and not 0.995 < seconds / first < 1.005:
        ratio = f"{seconds / first:.3g}"
        took += ", " + {"2": "twice as long", "0.5": "half as long"}.get(ratio, f"{ratio} times as long")
    return f"{name}: {took}" if name else took


def _verdict(panels: Mapping[str, Any], span: float) -> str:
    """Return which of some runs of the same job is the quickest, as a sentence."""
    factor, unit = time_unit(span)
    best = min(panels, key=lambda name: panels[name].seconds)
    if panels[best].seconds > 0.995 * span:
        return f"The same job, and the same time: {span * factor:.3g} {unit}"
    return f"{panels[best].seconds * factor:.3g} {unit} instead of {span * factor:.3g} {unit} for the same job: {best}"


def _shared(result: Any) -> bool:
    """Return whether some rank does two things at once, so that they share its row."""
    return any(lanes > 1 for rank in range(len(result)) for _, _, lanes in _lanes(result.of(rank)))


def _panel(ax: Axes, result: Any, on: Any, span: float, row: float, one_job: bool) -> None:
    factor, unit = time_unit(span)
    for rank in range(len(result)):
        last = max((event.end for event in result.of(rank)), default=0.0)
        for start, end, colour in ((0.0, last, WAITING), (last, result.seconds, DONE)):
            ax.add_patch(Rectangle((start * factor, rank - HIGH / 2), (end - start) * factor, HIGH, facecolor=colour,
                                   linewidth=0, zorder=2.5))  # fmt: skip
    for rank, group in groupby(sorted(result.events, key=lambda event: event.rank), key=lambda event: event.rank):
        for event, lane, lanes in _beside_their_bands(_lanes(list(group))):
            high = HIGH / lanes
            top = rank - HIGH / 2 + lane * high
            for start, end, colour, hatch, texts in _parts(event, on, factor, unit):
                texts = texts if high * row > 0.17 else []  # inches that a line of letters needs
                _bar(ax, start * factor, end * factor, top, high, colour, hatch, texts, span * factor)
    for event in result.events:
        if event.kind == "send":
            _band(ax, event, on, factor)
    if result.seconds < 0.85 * span and one_job:
        _less(ax, result.seconds * factor, span * factor, (len(result) - 1) / 2, unit)
    elif result.seconds < 0.45 * span:
        middle = (result.seconds + span) / 2 * factor, (len(result) - 1) / 2
        ax.text(*middle, _sum_of(result, on, span), ha="center", va="center", fontsize=SMALLEST, color=INK)
    ax.set_xlim(0, span * factor)
    ax.set_ylim(len(result) - 0.6, -0.4)
    ax.set_yticks(range(len(result)), [f"rank {rank}" for rank in range(len(result))])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _beside_their_bands(placed: list[tuple]) -> list[tuple]:
    """Return (event, lane, lanes) with a message below what its rank works on when its band goes down, else above."""
    peers = [event.peer > event.rank for event, _, lanes in placed if lanes == 2 and event.kind in ("send", "recv")]
    working = {lane for event, lane, lanes in placed if lanes == 2 and event.kind not in ("send", "recv")}
    needed = 1 if all(peers) else 0  # by the messages
    flip = len(set(peers)) == 1 and working == {needed}
    return [(event, 1 - lane if flip and lanes == 2 else lane, lanes) for event, lane, lanes in placed]


def _less(ax: Axes, end: float, longest: float, y: float, unit: str) -> None:
    """Draw how much earlier a run ends than the longest one."""
    line = {"arrowstyle": "<|-|>", "color": INK, "shrinkA": 2, "shrinkB": 2}
    ax.annotate("", (end, y), (longest, y), arrowprops=line)
    words = f"{longest - end:.3g} {unit} less"
    ax.text((end + longest) / 2, y - 0.12, words, ha="center", va="bottom", fontsize=SMALLEST, color=INK)


def _sum_of(result: Any, on: Any, span: float) -> str:
    """Return how many messages there were, and what they cost together: latency and bytes."""
    factor, unit = time_unit(span)
    sends = [event for event in result.events if event.kind == "send"]
    late = sum(_latency(event, on) for event in sends)
    rest = sum(event.end - event.start for event in sends) - late
    size = bytes_text(sends[0].sent)
    took = f"{rest * factor:.3g} {unit} of bytes" if rest > 0.01 * late else "next to no time for the bytes"
    many = f"{len(sends)} message{'s' * (len(sends) > 1)}"
    return f"{many} of {size}: {late * factor:.3g} {unit} of latency,\n{took}"


def _latency(event: Any, on: Any) -> float:
    """Return the part of a message's time that is latency."""
    source, target = (event.rank, event.peer) if event.kind == "send" else (event.peer, event.rank)
    return min(on.link(source, target)[0], event.end - event.start)


def _parts(event: Any, on: Any, factor: float, unit: str) -> list[tuple]:
    """Return the pieces of an event's bar: start, end, colour, hatch and what may be written in it, longest first."""
    if event.kind not in ("send", "recv"):
        text = event.label or f"{event.kind} {(event.end - event.start) * factor:.3g} {unit}"
        return [(event.start, event.end, *look(event.kind), [text])]
    late, size = _latency(event, on), bytes_text(event.sent or event.received)
    took = f"{(event.end - event.start - late) * factor:.3g} {unit}"
    slow = [f"latency {late * factor:.3g} {unit}", "latency", f"{late * factor:.3g} {unit}"]
    if event.kind == "send":
        middle = event.end - late
        texts = [f"sends {size}: {took}", f"sends {size}", f"to {event.peer}"]
        return [(event.start, middle, SENT, "", texts), (middle, event.end, ON_ITS_WAY, HATCH, slow)]
    middle = event.start + late
    texts = [f"receives {size}: {took}", f"receives {size}", f"from {event.peer}"]
    return [(event.start, middle, ON_ITS_WAY, HATCH, slow), (middle, event.end, RECEIVED, "", texts)]


def _bar(
    ax: Axes, start: float, end: float, top: float, high: float, colour: str, hatch: str, texts: list[str], span: float
) -> None:
    edge = SENT if hatch == HATCH else edge_of(colour)
    bar = Rectangle((start, top), max(end - start, span / 2000), high, facecolor=colour, hatch=hatch, zorder=3,
                    edgecolor=edge, linewidth=0.6)  # fmt: skip
    if end > start:
        ax.add_patch(bar)
    for text in [text for text in texts if end - start > (0.0135 * len(text) + 0.01) * span][:1]:
        paper = {"facecolor": colour, "edgecolor": "none", "pad": 1.5} if hatch else None
        middle = ((start + end) / 2, top + high / 2)
        ax.text(*middle, text, ha="center", va="center_baseline", fontsize=SMALLEST, zorder=4, bbox=paper, color=INK)


def _band(ax: Axes, event: Any, on: Any, factor: float) -> None:
    """Draw the way of a message: it leaves for as long as its bytes take, and arrives a latency later."""
    late = _latency(event, on)
    edge = HIGH / 2 if event.peer > event.rank else -HIGH / 2
    leaves, arrives = event.rank + edge, event.peer - edge
    corners = [(event.start, leaves), (event.end - late, leaves), (event.end, arrives), (event.start + late, arrives)]
    corners = [(x * factor, y) for x, y in corners]
    ax.add_patch(Polygon(corners, closed=True, facecolor=SENT, edgecolor=SENT, alpha=0.45, linewidth=1.2, zorder=2))
    middle = ((corners[0][0] + corners[1][0]) / 2, leaves), ((corners[2][0] + corners[3][0]) / 2, arrives)
    order = 5 if abs(event.peer - event.rank) == 1 else 2.2  # else behind the rows that it passes
    look_of = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", middle[1], middle[0], arrowprops=look_of, zorder=order)


def _keys(events: list, on: Any, span: float) -> list[Patch]:
    moved = [event for event in events if event.kind in ("send", "recv")]
    both = [Patch(facecolor=SENT, label="bytes leave"), Patch(facecolor=RECEIVED, edgecolor=SENT, label="bytes arrive")]
    seen = any(event.end - event.start - _latency(event, on) > span / 500 for event in moved)
    keys = both if seen else []
    if any(_latency(event, on) for event in moved):
        keys += [Patch(facecolor=ON_ITS_WAY, hatch=HATCH, edgecolor=SENT, linewidth=0.6, label="latency")]
    return keys + [Patch(facecolor=COMPUTE, label="work")] * any(event.kind == "work" for event in events)


def _told(result: Any, on: Any, span: float) -> list[str]:
    """Return a run in words: its few messages one by one, or how many there are and what they cost together."""
    factor, unit = time_unit(span)
    sends = [event for event in result.events if event.kind == "send"]
    if len(sends) > MOST:
        told = [_sum_of(result, on, span).replace("\n", " ") + " in all"]
    else:
        told = [f"rank {event.rank} sends {bytes_text(event.sent)} to rank {event.peer} from "
                f"{event.start * factor:.3g} to {event.end * factor:.3g} {unit}, "
                f"of which {_latency(event, on) * factor:.3g} {unit} are latency" for event in sends]
    return told + [f"rank {event.rank} works from {event.start * factor:.3g} to {event.end * factor:.3g} {unit}"
                   for event in result.events if event.kind == "work"]
