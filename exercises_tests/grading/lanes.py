"""The picture of what ranks did: a row a rank, a bar an event, as SVG inside a page; its sentence; and it in words.

Why not course_lib.plots.timeline, whose colours these are? It needs matplotlib, which costs a second to start and tens
of kilobytes a picture, and knows neither a dark page nor a rank that waits for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from exercises_tests.grading.sheet import COLLECTIVE, GREEN, GREY, INK, RECEIVED, RED, SENT, several, text
from exercises_tests.grading.verdicts import MOST_EVENTS

LOOKS = {
    "send": (SENT, ""), "recv": (RECEIVED, ""), "work": (GREEN, ""), "all_reduce": (COLLECTIVE, ""),
    "all_gather": (RECEIVED, "///"), "reduce_scatter": (SENT, "///"), "broadcast": (RECEIVED, "..."),
    "reduce": (SENT, "..."), "gather": (RECEIVED, "xxx"), "scatter": (SENT, "xxx"),
    "all_to_all": (COLLECTIVE, "///"), "barrier": (GREY, "///"), "wait": ("none", ""),
}  # fmt: skip
"""Colour and hatch of each kind, as in course_lib.plots.time."""
HATCHES = {"///": "M0 8L8 0", "...": "M3 3h2v2h-2z", "xxx": "M0 8L8 0M0 0L8 8"}
WIDTH, LEFT, RIGHT, ROW, GAP = 760, 62, 12, 30, 8  # pixels of the drawing
MOST_ROWS = 12
LETTER = 6.4  # pixels of one, on average
FEW = 6  # events of a row that are told one by one

Event = list  # [rank, kind, begin, end, label], as verdicts.events returns it


def figure(events: list[Event], name: str, whose: str = "Your") -> str:
    """Return the picture with its sentence above and its colours below; `name` parts it from others of the page."""
    kinds = [kind for kind in LOOKS if any(event[1] == kind for event in events)]
    keys = "".join(f'<span class="key">{_swatch(kind, name)}{WORDS.get(kind, kind)}</span>' for kind in kinds)
    idle = '<span class="key"><i style="background:var(--idle)"></i>idle</span>' if _idles(events) else ""
    caption = f"<figcaption>{text(sentence(events, whose))}</figcaption>"
    return f'<figure>{caption}<div class="scroll">{drawing(events, name)}</div><div>{keys}{idle}</div></figure>'


WORDS = {"send": "sends", "recv": "receives", "work": "works", "wait": "waits for ever"}


def span_of(events: list[Event]) -> float:
    return max((event[3] for event in events), default=0.0)


def unit_of(seconds: float) -> tuple[float, str]:
    """Return (factor, unit) in which so many seconds are read best."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return factor, unit
    return (1e9, "ns") if seconds else (1.0, "s")


def lasting(seconds: float) -> str:
    factor, unit = unit_of(seconds)
    return f"{seconds * factor:.3g} {unit}"


def sentence(events: list[Event], whose: str = "The") -> str:
    """Say what is to be seen."""
    stuck = [event for event in events if event[1] == "wait"]
    ranks = len({event[0] for event in events})
    if stuck:
        first, *others = stuck
        rest = f", and {several(len(others), 'other rank')} {'wait' if others[1:] else 'waits'} too" if others else ""
        return f"Rank {first[0]} waits for ever {first[4]}{rest}: nobody can go on."
    seconds = span_of(events)
    cut = f" (the first {MOST_EVENTS} things that they did)" if len(events) >= MOST_EVENTS else ""
    sent = sum(event[1] == "send" for event in events)
    told = f"{several(sent, 'message')} in {lasting(seconds)} of virtual time" if sent else _by_kind(events)
    if not seconds:
        return f"What {whose.lower()} {several(ranks, 'rank')} did took no time{cut}."
    rank, share = max(_idle(events, seconds).items(), key=lambda item: (item[1], -item[0]))
    idle = f"; rank {rank} is idle for {share:.0%} of it" if share >= 0.05 else ""
    return f"{whose} {several(ranks, 'rank')}: {told}{idle}{cut}."


def _by_kind(events: list[Event]) -> str:
    counted = Counter(event[1] for event in events).most_common()
    more = " and more" if len(counted) > 3 else ""
    return ", ".join(f"{count} × {kind}" for kind, count in counted[:3]) + f"{more} in {lasting(span_of(events))}"


def _idle(events: list[Event], seconds: float) -> dict[int, float]:
    """Return of each rank the share of the time in which it did nothing."""
    spent: dict[int, float] = defaultdict(float)
    reach: dict[int, float] = defaultdict(float)
    for rank, _, begin, end, _ in sorted(events, key=lambda event: event[2]):
        spent[rank] += max(0.0, end - max(begin, reach[rank]))
        reach[rank] = max(reach[rank], end)
    return {rank: 1 - busy / seconds for rank, busy in spent.items()}


def _idles(events: list[Event]) -> bool:
    seconds = span_of(events)
    return bool(seconds) and max(_idle(events, seconds).values()) > 0.005


def words(events: list[Event]) -> str:
    """Return the picture for whoever cannot see it: a sentence a rank."""
    factor, unit = unit_of(span_of(events))
    told = []
    for rank in sorted({event[0] for event in events})[:MOST_ROWS]:
        own = [event for event in events if event[0] == rank]
        parts = [
            f"waits for ever {label}" if kind == "wait"
            else f"{kind} {label} from {begin * factor:.3g} to {end * factor:.3g} {unit}".replace("  ", " ")
            for _, kind, begin, end, label in own[:FEW]
        ]  # fmt: skip
        more = [f"{len(own) - FEW} more"] if len(own) > FEW else []
        told.append(f"rank {rank}: {', '.join(parts + more)}")
    return f"{sentence(events)} {'; '.join(told)}."


def drawing(events: list[Event], name: str) -> str:
    """Return the SVG."""
    ranks = sorted({event[0] for event in events})
    shown = ranks[:MOST_ROWS]
    left_out = len(ranks) - len(shown)
    seconds = span_of(events)
    waits = any(event[1] == "wait" for event in events)
    room = WIDTH - LEFT - RIGHT
    reach = room * (0.45 if waits and seconds else 0.0 if waits else 1.0)  # where the time that passed ends
    scale = reach / seconds if seconds else 0.0
    high = len(shown) * (ROW + GAP) + 34 + (18 if left_out else 0)
    pieces = [f"<title>{text(words(events), 6000)}</title>", _patterns(name)]
    for place, rank in enumerate(shown):
        top = place * (ROW + GAP) + 2
        pieces.append(f'<text x="{LEFT - 8}" y="{top + ROW / 2 + 4}" text-anchor="end">rank {rank}</text>')
        if reach:
            pieces.append(f'<rect x="{LEFT}" y="{top}" width="{reach:.1f}" height="{ROW}" fill="var(--idle)"/>')
        for event, lane, lanes in in_lanes([event for event in events if event[0] == rank]):
            pieces.append(_bar(event, top + lane * ROW / lanes, ROW / lanes, scale, name))
    bottom = len(shown) * (ROW + GAP) + 2
    if left_out:
        pieces.append(f'<text x="{LEFT}" y="{bottom + 10}">… and {several(left_out, "rank")} more …</text>')
        bottom += 18
    pieces.append(_axis(seconds, scale, reach, bottom))
    look = "display:block;width:100%;min-width:42rem;height:auto;font:12px system-ui,sans-serif;fill:currentColor"
    return f'<svg role="img" viewBox="0 0 {WIDTH} {high}" style="{look}">{"".join(pieces)}</svg>'


def in_lanes(events: list[Event]) -> list[tuple[Event, int, int]]:
    """Return (event, lane, number of lanes) of one rank: what overlaps lies in lanes, first come on top."""
    placed, cluster, ends = [], [], []
    for event in [*sorted(events, key=lambda event: (event[2], event[3])), None]:
        if event is None or ends and event[2] >= max(ends):
            placed += [(one, lane, len(ends)) for one, lane in cluster]
            cluster, ends = [], []
        if event is not None:
            lane = next((lane for lane, end in enumerate(ends) if end <= event[2]), len(ends))
            ends[lane : lane + 1] = [event[3]]
            cluster.append((event, lane))
    return placed


def _bar(event: Event, top: float, height: float, scale: float, name: str) -> str:
    _, kind, begin, end, label = event
    left = LEFT + begin * scale
    if kind == "wait":
        right = WIDTH - RIGHT
        box = f'x="{left + 1:.1f}" y="{top + 1:.1f}" width="{right - left - 2:.1f}" height="{height - 2:.1f}"'
        said = fitting([f"waits for ever {label}", f"waits {label}", "waits"], right - left)
        return (f'<rect {box} fill="none" stroke="{RED}" stroke-width="2" stroke-dasharray="6 4"/>'
                f'<text x="{left + 8:.1f}" y="{top + height / 2 + 4:.1f}">{text(said)}</text>')  # fmt: skip
    colour, hatch = LOOKS[kind]
    width = max((end - begin) * scale, 1.0)
    box = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    drawn = f'<rect {box} fill="{colour}" stroke="var(--paper)" stroke-width="{0.8 if width > 4 else 0}"/>'
    if hatch:
        drawn += f'<rect {box} fill="url(#{name}-{ord(hatch[0])})"/>'
    said = fitting([label or kind, label.partition(" · ")[0]], width) if height >= 12 else ""
    if said:
        middle = f'x="{left + width / 2:.1f}" y="{top + height / 2 + 4:.1f}"'
        halo = f' stroke="{colour}" stroke-width="4" paint-order="stroke"' if hatch else ""  # or its lines cross them
        drawn += f'<text {middle} text-anchor="middle" fill="{INK}"{halo}>{text(said)}</text>'
    return drawn


def fitting(choices: list[str], width: float) -> str:
    """Return the first of some words that are no wider than so many pixels; nothing if none is."""
    return next((words for words in choices if words and LETTER * len(words) + 6 <= width), "")


def _patterns(name: str) -> str:
    made = "".join(
        f'<pattern id="{name}-{ord(hatch[0])}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" stroke="#fff" stroke-width="1.6" fill="#fff"/></pattern>'
        for hatch, path in HATCHES.items()
    )
    return f"<defs>{made}</defs>"


def _swatch(kind: str, name: str) -> str:
    colour, hatch = LOOKS[kind]
    if kind == "wait":
        return f'<i style="border:2px dashed {RED}"></i>'
    over = f'<rect width="14" height="14" fill="url(#{name}-{ord(hatch[0])})"/>' if hatch else ""
    look = "vertical-align:-.15em;margin-right:.35em"
    return (f'<svg width="14" height="14" style="{look}" aria-hidden="true"><rect width="14" height="14" rx="2" '
            f'fill="{colour}"/>{over}</svg>')  # fmt: skip


def _axis(seconds: float, scale: float, reach: float, top: float) -> str:
    factor, unit = unit_of(seconds)
    if not seconds:
        return f'<text x="{LEFT}" y="{top + 16}">no virtual time passes</text>'
    marks = [0.0, seconds / 2, seconds] if reach > 300 else [0.0, seconds]
    pieces = [f'<path d="M{LEFT} {top}H{LEFT + reach:.1f}" stroke="currentColor" fill="none"/>']
    for place, at in enumerate(marks):
        x, last = LEFT + at * scale, place == len(marks) - 1
        anchor = "end" if last else "middle" if place else "start"
        said = f"{at * factor:.3g}" + (f" {unit} of virtual time" if last else "")
        pieces.append(f'<path d="M{x:.1f} {top}v4" stroke="currentColor"/>'
                      f'<text x="{x:.1f}" y="{top + 17}" text-anchor="{anchor}">{said}</text>')  # fmt: skip
    return "".join(pieces)
