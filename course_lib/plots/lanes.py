"""Overlap: what a rank computes in one lane, and what it sends in a lane below, for several ways on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.events import Event
from course_lib.plots.canvas import COLLECTIVE, INK, SMALLEST, TITLE, WAITING, arrow, new_axes, say
from course_lib.plots.time import look, time_unit

COMPUTING = ("forward", "backward", "work")
PAIR = 2.5  # from the first lane of one way to that of the next
LANE = 0.74
MANY = 60  # bars in a lane: more are drawn as hairlines, without edges


def lanes(
    ways: Mapping[str, Any], *, rank: int = 0, title: str | None = None, axis: str = "", ratio: bool = True,
    begin: float = 0.0, notes: Mapping[str, str] | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw, for each way, what one rank computes and below it what it sends; grey is a GPU that has to wait.

    `ways[name]` is a `Results` or a list of events. All share one axis, which starts at `begin` seconds; behind each
    stands how long it took, and how many percent of the first one's time that is where `ratio` is set. `axis` names the
    axis of times that are no seconds. `notes[name]` is said below the number of a way's all-reduces. The message goes
    into the title.
    """
    found = {name: _events(way, rank) for name, way in ways.items()}
    ends = {name: max(event.end for event in events) for name, events in found.items()}
    longest = max(ends.values())
    factor, unit = (1.0, "") if axis else time_unit(longest)
    ax = new_axes(ax, 1.0 + 1.02 * len(found))
    told = []
    for number, (name, events) in enumerate(found.items()):
        top = PAIR * number
        computed = [event for event in events if event.kind in COMPUTING]
        sent = [event for event in events if event.kind not in COMPUTING]
        _lane(ax, computed, top, factor, longest - begin)
        _lane(ax, sent, top + 1, factor, longest - begin)
        done = max(event.end for event in computed)
        shown = _wait(ax, done * factor, ends[name] * factor, top, (longest - begin) * factor)
        share = f" ({ends[name] / ends[next(iter(ends))]:.0%})" if ratio and number else ""
        right = (longest - begin) * factor * 0.008
        words = f"{ends[name] * factor:.3g} {unit}".rstrip() + share
        words += "" if shown else f", waits {(ends[name] - done) * factor:.1g}"
        ax.text(ends[name] * factor + right, top, words, va="center", fontsize=SMALLEST, weight="bold", color=INK)
        if sent and not any(event.label for event in sent):
            words = "\n".join(filter(None, [_sums(sent), (notes or {}).get(name)]))
            ax.text(sent[-1].end * factor + right, top + 1, words, va="center", fontsize=SMALLEST, color=INK)
        ax.text(begin * factor, top - 0.52, name, va="bottom", fontsize=SMALLEST, weight="bold", color=INK)
        told.append(_told(name, computed, sent, ends[name], factor, unit))
    count = len(found)
    ax.set_yticks(
        [PAIR * number + lane for number in range(count) for lane in (0, 1)], ["computes", "sends"] * count
    )  # fmt: skip
    ax.set_ylim(PAIR * count - 0.9, -1.15)
    ax.set_xlim(begin * factor, (longest + 0.2 * (longest - begin)) * factor)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    compared = "; in brackets: share of the first one's time" if ratio and count > 1 else ""
    ax.set_xlabel((axis or f"time in {unit}") + compared, fontsize=SMALLEST)
    if title:
        ax.set_title(title, fontsize=TITLE, loc="left")
    say(ax, "\n".join(told))
    return ax


def _events(way: Any, rank: int) -> list[Event]:
    events = way.of(rank) if hasattr(way, "of") else [event for event in way if event.rank == rank]
    return sorted(events, key=lambda event: (event.start, event.end))


def _lane(ax: Axes, events: Sequence[Event], y: float, factor: float, span: float) -> None:
    """Draw bars in a lane, with their labels where they fit; neighbours that compute without one share the name."""
    for event in events:
        size = event.end - event.start
        colour, _ = look(event.kind)
        many = len(events) > MANY
        joined = many or size < 0.004 * span or event.kind in COMPUTING and not event.label
        edge = 0 if joined else 1.0 if len(events) < 30 else 0.35
        shown = max(size, (0.0012 if many else 0.003) * span) * factor  # or the eye cannot find it
        ax.add_patch(Rectangle((event.start * factor, y - LANE / 2), shown, LANE, facecolor=colour, edgecolor="white",
                               linewidth=edge, zorder=2))  # fmt: skip
        ink = "white" if colour == COLLECTIVE else INK  # dark letters are hard to read on it
        _fits(ax, event.label, event.start * factor, size * factor, y, span * factor, ink)
    for kind in COMPUTING:
        alike = [event for event in events if event.kind == kind]
        if alike and not any(event.label for event in alike):
            start, end = alike[0].start * factor, alike[-1].end * factor
            _fits(ax, kind, start, end - start, y, span * factor)


def _sums(sent: Sequence[Event]) -> str:
    return f"{len(sent)} all-reduces" if len(sent) > 1 else "1 all-reduce"


def _fits(ax: Axes, words: str, x: float, size: float, y: float, span: float, ink: str = INK) -> bool:
    if not words or size <= (0.0115 * len(words) + 0.004) * span:
        return False
    ax.text(x + size / 2, y, words, ha="center", va="center", fontsize=SMALLEST, color=ink, zorder=4,
            weight="normal" if ink == INK else "bold")  # fmt: skip
    return True


def _wait(ax: Axes, start: float, end: float, y: float, span: float) -> bool:
    """Draw a wait; return whether there is none, or its name stands in it."""
    if end - start <= 1e-9 * span:
        return True
    ax.add_patch(Rectangle((start, y - LANE / 2), end - start, LANE, facecolor=WAITING, edgecolor="none"))
    return _fits(ax, "waits", start, end - start, y, span)


def _told(name: str, computed: list, sent: list, end: float, factor: float, unit: str) -> str:
    """Return a way in words: when backward ends, how many all-reduces run from when to when, and how long it waits."""
    done = max(event.end for event in computed)
    hidden = sum(max(0.0, min(event.end, done) - event.start) for event in sent)
    first, last = (sent[0].start, sent[-1].end) if sent else (0, 0)
    began = f"{_sums(sent)} from {first * factor:.3g} to {last * factor:.3g}, for {hidden * factor:.3g} while computing"
    waits = f"the rank waits for {(end - done) * factor:.3g}"
    words = f"{name}: computing ends at {done * factor:.3g}, {began if sent else 'nothing is sent'}, {waits}"
    return " ".join(f"{words}: {end * factor:.3g} {unit} in all".split())


def hook_lanes(ways: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw all-reduces after backward, and in the hooks of single parameters; the title says what the second lacks."""
    count = sum(event.kind not in COMPUTING for event in _events(list(ways.values())[-1], 0))
    return lanes(ways, title=f"Hooks start early, but {count} all-reduces stand in line", ax=ax)


def gradients_leave(layers: int = 4, ax: Axes | None = None) -> Axes:
    """Draw a step of a few layers: all-reduces after backward, and each as soon as its layer's gradient is there."""
    forward, backward, sums = 1.0, 2.0, 1.6
    early = backward_with_sums(layers, forward, backward, sums, at_once=True)
    late = backward_with_sums(layers, forward, backward, sums, at_once=False)
    ax = lanes(
        {"all-reduces after backward": late, "each all-reduce as soon as its gradient is there": early},
        axis="time; F1 is layer 1's forward, which takes 1", ax=ax,
        title="Backward goes on while the gradients of later layers are already on their way",
    )  # fmt: skip
    ax.set_xticks(range(0, 21, 2))
    for event in early:
        if event.kind == "all_reduce":
            arrow(ax, (event.posted, PAIR + LANE / 2), (event.start + 0.12, PAIR + 1 - LANE / 2))
    ax.text(layers * forward + backward - 0.2, PAIR + 1, f"layer {layers}'s gradient leaves", ha="right", va="center",
            fontsize=SMALLEST)  # fmt: skip
    return ax


def backward_with_sums(layers: int, forward: float, backward: float, sums: float, at_once: bool) -> list[Event]:
    """Return a step as events of rank 0: each layer forward, then backward from the last, and a sum for each layer."""
    events = [Event(0, "forward", forward * i, forward * (i + 1), 0.0, label=f"F{i + 1}") for i in range(layers)]
    begin = forward * layers
    starts = [begin + backward * i for i in range(layers + 1)]
    for layer, (start, end) in zip(reversed(range(layers)), pairwise(starts), strict=True):
        events.append(Event(0, "backward", start, end, start, label=f"layer {layer + 1}"))
    free = 0.0
    for layer, ready in zip(reversed(range(layers)), starts[1:], strict=True):
        start = max(free, ready if at_once else starts[-1])
        free = start + sums
        events.append(Event(0, "all_reduce", start, free, ready, label=f"{layer + 1}"))
    return events
