"""Pictures that only the slides of chapter 3 have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import cos, exp, log10, pi, sin, sqrt

import torch
from kit import ACROSS, bar, box, line, sheet, steps
from kit import words as plain_words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle, Wedge

from course_lib import Cluster
from course_lib.costs import collective_bytes, collective_seconds, tree_rounds
from course_lib.lessons.ring import ring_steps
from course_lib.models import MODELS, parameter_count
from course_lib.plots import canvas

WIDE, HIGH = 12, 10  # units of a picture beside words: 0.3 inches each
ALL = 21.6  # units of one that has the slide
HATCHED = {"facecolor": canvas.RECEIVED, "edgecolor": canvas.COLLECTIVE, "hatch": "//////", "linewidth": 0.8}
BIG, LARGE = 20, 14  # points of formulas and of what is read first
SOFT = "#666666"
PALE = "#BBBBBB"  # the frame of what comes with a later step
CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # what keeps a line from running through letters
STAR, RING, TREE = canvas.GREEN, canvas.BLUE, canvas.ORANGE  # as in the chapter's pictures

Place = tuple[float, float]

FAST = Cluster(bandwidth=50e9, latency=5e-6)
LLAMA = 2 * parameter_count(MODELS["Llama-2-7B"])  # bytes of its gradient
NORM = 2 * MODELS["Llama-2-7B"].hidden  # bytes of one normalization layer's
NORMS = 65
STEP = 184_320 * 3600 / 1024 / (2e12 / 4e6)  # seconds of a training step


def _seconds(ranks: int, size: float, algorithm: str) -> float:
    return collective_seconds("all_reduce", ranks, size, FAST.latency, FAST.bandwidth, algorithm)


def _sheet() -> Axes:
    return _still(sheet(WIDE, HIGH))


def _across(high: float = HIGH) -> Axes:
    ax = sheet(ALL, high, (ACROSS[0], ACROSS[1] * high / HIGH))
    ax.set_xlim(-0.7, ALL)  # so that what begins at 0 stands below the title's first letter
    return _still(ax)


def _still(ax: Axes) -> Axes:
    """Return axes that stand at one place of their figure, whatever is drawn: no step moves what stands already."""
    ax.figure.set_layout_engine("none")
    ax.set_position((0.006, 0.007, 0.988, 0.986))
    ax.set_aspect("equal")
    return ax


def words(ax: Axes, x: float, y: float, text: str, **look) -> None:
    """Write at (x, y), with formulas in letters like those of the slides' own."""
    plain_words(ax, x, y, text, **look, math_fontfamily="stix")


def _cell(ax: Axes, x: float, y: float, wide: float, high: float, colour: str, text: str = "", **look) -> None:
    """Draw a rectangle with square corners, and a text in its middle."""
    look = {"facecolor": colour, "edgecolor": canvas.INK, "linewidth": 0.9, **look}
    ax.add_patch(Rectangle((x, y), wide, high, **look))
    if text:
        words(ax, x + wide / 2, y + high / 2, text, ha="center")


def _parts(ax: Axes, x: float, y: float, wide: float, high: float, parts: Iterable[int]) -> None:
    """Draw a chunk: of each rank whose part is in it a stripe, and a thick frame where the sum is complete."""
    parts = list(parts)
    for rank in parts:
        bar(ax, x + wide * rank / 4, y, wide / 4, high, canvas.FACES[rank])
    whole = len(parts) == 4
    ax.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor=canvas.INK if parts else canvas.GREY,
                           linewidth=2.2 if whole else 0.8))


def _message(ax: Axes, x: float, y: float, latency: float, wide: float, high: float, text: str = "",
             colour: str = canvas.COLLECTIVE) -> None:
    """Draw a message in time: its latency, hatched, and then its bytes."""
    ax.add_patch(Rectangle((x, y), latency, high, **HATCHED))
    ax.add_patch(Rectangle((x + latency, y), wide, high, facecolor=colour, edgecolor="white", linewidth=0.8))
    if text:
        words(ax, x + latency + wide / 2, y + high / 2, text, ha="center", colour="white", weight="bold")


def _span(ax: Axes, left: float, right: float, y: float, text: str, *, up: bool = True, **look) -> None:
    """Mark from where to where with a line that has ends, and say what it is above or below."""
    end = -0.22 if up else 0.22
    ax.plot([left, left, right, right], [y + end, y, y, y + end], color=SOFT, linewidth=1.2)
    words(ax, (left + right) / 2, y + (0.5 if up else -0.5), text, ha="center", **look)


def _circle(middle: Place, radius: float, count: int) -> list[Place]:
    """Return places on a circle, clockwise from the top."""
    x, y = middle
    turns = [pi / 2 - 2 * pi * place / count for place in range(count)]
    return [(x + radius * cos(turn), y + radius * sin(turn)) for turn in turns]


def _toward(start: Place, end: Place, first: float, last: float) -> list[Place]:
    """Return the ends of an arrow that leaves a gap of these lengths at each end of its way."""
    (x, y), (to_x, to_y) = start, end
    length = sqrt((to_x - x) ** 2 + (to_y - y) ** 2)
    return [(x + (to_x - x) * part, y + (to_y - y) * part) for part in (first / length, 1 - last / length)]


def _ring(ax: Axes, middle: Place, radius: float, count: int, size: float, *, names: bool = True,
          line: float = 1.8) -> list[Place]:
    """Draw ranks in a circle, each of which sends to the next one; return their places."""
    places = _circle(middle, radius, count)
    for rank, (x, y) in enumerate(places):
        _cell(ax, x - size / 2, y - size / 2, size, size, canvas.FACES[rank % 4], str(rank) if names else "")
        following = places[(rank + 1) % count]
        canvas.arrow(ax, *_toward((x, y), following, size * 0.7, size * 0.7), colour=canvas.COLLECTIVE, line=line)
    return places


def _star(ax: Axes, middle: Place, radius: float, others: int, size: float, *, ways: str = "-|>",
          inwards: bool = True, line: float = 1.8) -> None:
    """Draw rank 0 in the middle of others, with an arrow from or to each."""
    x, y = middle
    for place, end in enumerate(_circle(middle, radius, others), 1):
        _cell(ax, end[0] - size / 2, end[1] - size / 2, size, size, canvas.FACES[1 + (place - 1) % 3])
        start, stop = _toward(end, middle, size * 0.72, size * 0.95)
        canvas.arrow(ax, *((start, stop) if inwards else (stop, start)), ways, colour=canvas.COLLECTIVE, line=line)
    _cell(ax, x - size * 0.7, y - size * 0.7, size * 1.4, size * 1.4, canvas.FACES[0], "0", linewidth=2)


# The opening: 1,024 gradients, one sum, and a clock


def many_gradients() -> Figure:
    """1,024 GPUs, a square each, and the one sum that all of them need."""
    ax = _sheet()
    for colour in range(4):
        places = [(row, column) for row in range(32) for column in range(32) if (row + column) % 4 == colour]
        ax.plot([0.35 + 0.262 * column for _, column in places], [1.35 + 0.262 * row for row, _ in places], "s",
                color=canvas.FACES[colour], markersize=4.6, markeredgewidth=0)
    words(ax, 4.4, 0.5, "1,024 GPUs", size=LARGE, weight="bold", ha="center")
    canvas.arrow(ax, (8.9, 5.4), (9.8, 5.4), colour=canvas.COLLECTIVE, line=2.5)
    _parts(ax, 10.0, 4.6, 1.7, 1.6, range(4))
    words(ax, 10.85, 3.9, "one sum", ha="center", weight="bold")
    canvas.say(ax, "1,024 small squares, and an arrow to one sum")
    return ax.figure


@steps(range(3))
def one_sum(step: int) -> Figure:
    """Each GPU has its gradient; they are added up; everybody needs the sum."""
    ax = _sheet()
    size = f"{LLAMA / 1e9:.1f} GB"
    rows = {8.4: ("GPU 0", 0), 6.7: ("GPU 1", 1), 5.0: ("GPU 2", 2), 1.6: ("GPU 1,023", 3)}
    for y, (name, colour) in rows.items():
        words(ax, 2.9, y + 0.55, name, ha="right")
        _cell(ax, 3.1, y, 2.5, 1.1, canvas.FACES[colour], size)
        if step:
            ends = [(5.8, y + 0.55), (8.6, 5.5 + (y - 5.0) * 0.16)]
            canvas.arrow(ax, *ends, "<|-|>" if step == 2 else "-|>", colour=canvas.COLLECTIVE, line=1.8)
    for y in (3.4, 3.8, 4.2):
        ax.plot([4.35], [y], "o", color=SOFT, markersize=3)
    words(ax, 4.35, 0.6, "gradients", ha="center", colour=SOFT)
    if step:
        _parts(ax, 8.8, 4.9, 2.8, 1.2, range(4))
        words(ax, 10.2, 5.5, size, ha="center")
        words(ax, 10.2, 6.6, "their sum", ha="center", weight="bold")
    if step == 2:
        words(ax, 10.2, 4.3, "needed by all", ha="center", colour=canvas.COLLECTIVE, weight="bold")
    return ax.figure


@steps(range(4))
def nine_minutes(step: int) -> Figure:
    """Everybody's gradient goes into rank 0, then the total goes out of it, and the clock goes round nine times."""
    ax = _across()
    _star(ax, (4.6, 5.6), 3.7, 10, 0.9, inwards=step != 1, ways="<|-|>" if step > 1 else "-|>")
    said = ("1,023 gradients come in", "1,023 totals go out", "1,023 in, 1,023 out")[min(step, 2)]
    words(ax, 4.6, 0.9, said, ha="center", weight="bold", colour=canvas.COLLECTIVE, size=13)
    for first, y, name in ((2, 9.3, "One training step"), (3, 5.85, "Its sum through rank 0")):
        words(ax, 10.2, y, name, weight="bold", colour=canvas.INK if step >= first else PALE)
        if step < first:
            _clock(ax, 11.2, y - 1.6, 0, 0.8 if first == 3 else 0.95, edge=PALE)
            words(ax, 12.8, y - 1.6, "? s", size=BIG, weight="bold", colour=PALE)
    if step >= 2:
        _clock(ax, 11.2, 7.7, STEP, colour=canvas.COMPUTE)
        words(ax, 12.8, 7.7, f"{STEP:.1f} s", size=BIG, weight="bold")
        words(ax, 15.8, 7.7, "a full clock is a minute", colour=SOFT)
    if step == 3:
        total = _seconds(1024, LLAMA, "naive")
        for place in range(10):
            x, y = 11.2 + 1.75 * (place % 5), 4.25 - 2.0 * (place // 5)
            _clock(ax, x, y, min(60, max(0, total - 60 * place)), 0.8)
        words(ax, 19.2, 3.25, f"{total:.0f} s", size=BIG, weight="bold")
    return ax.figure


def _clock(ax: Axes, x: float, y: float, seconds: float, radius: float = 0.95, colour: str = canvas.COLLECTIVE,
           edge: str = canvas.INK) -> None:
    ax.add_patch(Circle((x, y), radius, facecolor="white", edgecolor=edge, linewidth=1.4))
    ax.add_patch(Wedge((x, y), radius * 0.88, 90 - 6 * seconds, 90, facecolor=colour))


# Section 1: the star


def all_reduced() -> Figure:
    """Four tensors before, and their sum on every rank after."""
    ax = _sheet()
    words(ax, 4.3, 9.2, "before", ha="center", colour=SOFT)
    words(ax, 10.1, 9.2, "after", ha="center", colour=SOFT)
    for rank in range(4):
        y = 7.1 - 2.1 * rank
        words(ax, 0.2, y + 0.7, f"rank {rank}")
        _cell(ax, 3.0, y, 2.6, 1.4, canvas.FACES[rank], str(rank + 1))
        _parts(ax, 8.8, y, 2.6, 1.4, range(4))
        words(ax, 10.1, y + 0.7, str(sum(range(1, 5))), ha="center")
    canvas.arrow(ax, (6.0, 4.6), (8.4, 4.6), colour=canvas.COLLECTIVE, line=3)
    words(ax, 7.2, 5.2, "all-reduce", ha="center", weight="bold")
    return ax.figure


def six_messages() -> Figure:
    """The port of rank 0 in time: three messages come in and three go out, one after the other."""
    ax = _sheet()
    _star(ax, (6, 7.0), 2.5, 3, 0.7, ways="<|-|>")
    words(ax, 6.8, 8.3, "4 MB each", colour=SOFT)
    each, left = 1.9, 0.3
    late = each * FAST.latency / _seconds(2, 4e6, "naive") * 2
    for place, name in enumerate(("from 1", "from 2", "from 3", "to 1", "to 2", "to 3")):
        _message(ax, left + each * place, 2.6, late, each - late, 1.1)
        words(ax, left + each * (place + 0.53), 3.15, name, ha="center", colour="white", weight="bold")
    words(ax, left, 4.3, "rank 0's port", weight="bold")
    total = _seconds(4, 4e6, "naive") * 1e6
    _span(ax, left, left + 6 * each, 2.1, f"{total:.0f} µs", up=False, weight="bold", size=LARGE)
    words(ax, left, 0.5, f"hatched: {FAST.latency * 1e6:.0f} µs of latency in each", colour=SOFT)
    return ax.figure


def growth_bars() -> Figure:
    """The messages through rank 0's port with 4 and with 64 ranks, to scale, a stroke each."""
    ax = _sheet()
    for ranks, y in ((4, 6.6), (64, 2.6)):
        count, each = 2 * (ranks - 1), (WIDE - 0.2) / (2 * 63)
        words(ax, 0.1, y + 2.0, f"{ranks} ranks", weight="bold")
        words(ax, 3.0, y + 2.0, f"{ranks - 1} messages in, {ranks - 1} out")
        for place in range(count):
            bar(ax, 0.1 + each * place, y, each * 0.72, 1.3, canvas.COLLECTIVE if place >= count / 2 else canvas.PURPLE)
    words(ax, 0.1, 1.4, "63 / 3 = 21 times as many", size=LARGE, weight="bold")
    return ax.figure


@steps(range(2))
def star_formula(step: int) -> Figure:
    """A message is a latency and its bytes; and 2(P - 1) of them go through one port, one after the other."""
    ax = _across()
    late, wide, high = 0.5, 2.9, 1.5
    _message(ax, 0.1, 6.6, late, wide, high)
    words(ax, 4.3, 7.75, r"$\alpha$", size=LARGE)
    words(ax, 6.0, 7.75, "latency: the wait before its first byte arrives")
    words(ax, 4.3, 6.85, r"$S/B$", size=LARGE)
    words(ax, 6.0, 6.85, "its bytes $S$ over the bandwidth $B$ of the port")
    words(ax, 0.1, 8.7, "One message", weight="bold")
    words(ax, 0.1, 5.5, "Rank 0's port", weight="bold", colour=canvas.INK if step else PALE)
    words(ax, 20.5, 5.5, "a sketch, not to scale", ha="right", colour=SOFT if step else PALE)
    if not step:
        for place in range(6):
            _cell(ax, 0.1 + (late + wide) * place, 3.4, late + wide, high, "white", edgecolor=PALE)
        words(ax, 10.3, 1.1, r"$T_\mathrm{star} \;=\; ?$", size=18, ha="center", colour=PALE)
    if step:
        for place in range(6):
            _message(ax, 0.1 + (late + wide) * place, 3.4, late, wide, high, "in" if place < 3 else "out",
                     canvas.PURPLE if place < 3 else canvas.COLLECTIVE)
        _span(ax, 0.15, 0.05 + 3 * (late + wide), 3.1, r"$P-1$ come in", up=False)
        _span(ax, 0.15 + 3 * (late + wide), 0.05 + 6 * (late + wide), 3.1, r"$P-1$ go out", up=False)
        words(ax, 10.3, 1.1, r"$T_\mathrm{star} \;=\; 2\,(P-1)\,\left(\alpha + \dfrac{S}{B}\right)$", size=18,
              ha="center")
    return ax.figure


# Section 2: the ring


def quarters_of_sum() -> Figure:
    """A column for each chunk: all ranks' parts of it are added up on one rank."""
    ax = _sheet()
    for chunk in range(4):
        x = 2.6 + 2.4 * chunk
        words(ax, x + 0.85, 9.3, f"chunk {chunk}", ha="center")
        for rank in range(4):
            _cell(ax, x, 7.2 - 1.45 * rank, 1.7, 1.1, canvas.FACES[rank])
        ax.add_patch(Rectangle((x - 0.2, 2.6), 2.1, 5.95, fill=False, edgecolor=canvas.COLLECTIVE, linewidth=2))
        canvas.arrow(ax, (x + 0.85, 2.5), (x + 0.85, 1.75), colour=canvas.COLLECTIVE, line=2)
        _cell(ax, x, 0.5, 1.7, 1.1, canvas.FACES[chunk], f"rank {chunk}", linewidth=2)
    for rank in range(4):
        words(ax, 0.1, 7.75 - 1.45 * rank, f"rank {rank}")
    words(ax, 0.1, 1.05, "adds:")
    return ax.figure


def journey() -> list[Figure]:
    """The way of chunk 0: every rank adds its part, then every rank keeps a copy."""
    return [_journey(hops) for hops in (0, 3, 6)]


def _journey(hops: int) -> Figure:
    ax = _across(6.6)
    wide, step = 2.0, 3.2
    for place in range(hops + 1, 7):
        x = step * place
        _cell(ax, x, 3.7, wide, 1.3, "white", edgecolor=PALE)
        words(ax, x + wide / 2, 5.6, f"rank {(place + 1) % 4}", ha="center", colour=PALE)
        canvas.arrow(ax, (x - 1.05, 4.35), (x - 0.12, 4.35), colour=PALE, line=1.4)
    for place in range(hops + 1):
        rank, x, whole = (place + 1) % 4, step * place, place > 2
        parts = sorted((hop + 1) % 4 for hop in range(min(place, 3) + 1))
        words(ax, x + wide / 2, 5.6, f"rank {rank}", ha="center", weight="bold")
        for part in range(4):
            _cell(ax, x + wide / 4 * part, 3.7, wide / 4, 1.3, canvas.FACES[part] if part in parts else "white",
                  str(part) if part in parts else "", linewidth=0.6)
        ax.add_patch(Rectangle((x, 3.7), wide, 1.3, fill=False, edgecolor=canvas.INK, linewidth=2.6 if whole else 1))
        if place:
            canvas.arrow(ax, (x - 1.05, 4.35), (x - 0.12, 4.35), colour=canvas.COLLECTIVE, line=2.2)
            words(ax, x - 0.6, 5.35, "add" if place < 4 else "copy", ha="center", colour=canvas.COLLECTIVE,
                  weight="bold")
    if hops:
        _span(ax, 0, step * 3 + wide, 3.1, "reduce-scatter: every rank adds its part", up=False)
    words(ax, 0, 1.5, "a digit: whose part is in the chunk · thick frame: all parts, complete", colour=SOFT)
    if hops > 3:
        _span(ax, step * 4, step * 6 + wide, 3.1, "all-gather: every rank keeps a copy", up=False)
    return ax.figure


def two_phases() -> list[Figure]:
    """All chunks on all ranks: at first, after the reduce-scatter, and after the all-gather."""
    return [_two_phases(step) for step in range(3)]


def _two_phases(step: int) -> Figure:
    ax = _across()
    seen = ring_steps(4)
    lefts, wide, high, pitch = (1.7, 8.74, 15.78), 1.36, 1.3, 1.41
    heads = ("its own part", "one complete chunk", "every sum")
    for place, held in enumerate((seen[0], seen[3], seen[6])):
        left, there = lefts[place], place <= step
        words(ax, left + 2 * pitch, 0.9, heads[place], ha="center", colour=canvas.INK if there else PALE,
              weight="bold" if there else "normal")
        for chunk in range(4):
            words(ax, left + pitch * chunk + wide / 2, 8.5, str(chunk), ha="center", colour=SOFT)
            for rank in range(4):
                x, y = left + pitch * chunk, 6.4 - 1.5 * rank
                if there:
                    _parts(ax, x, y, wide, high, held[rank][chunk])
                else:
                    _cell(ax, x, y, wide, high, "white", edgecolor=PALE)
    words(ax, -0.3, 8.5, "chunk", colour=SOFT)
    for rank in range(4):
        _cell(ax, -0.6, 6.4 - 1.5 * rank, 1.9, high, canvas.FACES[rank], f"rank {rank}")
    for place, (name, rule) in enumerate((("reduce-scatter", "add"), ("all-gather", "copy"))):
        x = (lefts[place] + 4 * pitch + lefts[place + 1] - 0.06) / 2
        colour = canvas.COLLECTIVE if place < step else PALE
        canvas.arrow(ax, (x - 0.6, 5.15), (x + 0.6, 5.15), colour=colour, line=3)
        words(ax, x, 9.35, f"{name}: $P-1$ steps", ha="center", weight="bold", colour=colour)
        if place < step:
            words(ax, x, 4.4, rule, ha="center", weight="bold")
    return ax.figure


SPOTS = ((0.6, 6.0), (13.0, 6.0), (13.0, 2.5), (0.6, 2.5))  # of each rank's first tile: ranks 0 to 3 in a circle
PITCH, TILE, TILE_HIGH = 1.93, 1.8, 1.5
FRAMES = 10  # of a step


def ring_moves() -> list[list[Figure]]:
    """Four ranks in a circle: in each of the six steps one tile of each rank travels to the next one."""
    seen = ring_steps(4)
    return [[_ring_moves(seen, 0, 1.0)],
            *([_ring_moves(seen, step, frame / FRAMES) for frame in range(1, FRAMES + 1)] for step in range(1, 7))]


def _tile(ax: Axes, x: float, y: float, parts: Sequence[int], *, above: int = 0, edge: str = "") -> None:
    """Draw a chunk with a stripe and a digit for each rank whose part is in it."""
    for part in range(4):
        there = part in parts
        ax.add_patch(Rectangle((x + TILE / 4 * part, y), TILE / 4, TILE_HIGH, zorder=1 + above, linewidth=0,
                               facecolor=canvas.FACES[part] if there else "white"))
        if there:
            words(ax, x + TILE / 4 * (part + 0.5), y + TILE_HIGH / 2 - 0.03, str(part), ha="center", zorder=2 + above)
    whole = len(parts) == 4
    ax.add_patch(Rectangle((x, y), TILE, TILE_HIGH, fill=False, zorder=3 + above,
                           linewidth=2.8 if whole or edge else 1.0,
                           edgecolor=edge or (canvas.INK if whole else SOFT)))


def _ring_moves(seen: list, step: int, part: float) -> Figure:
    ax = _across()
    done = part >= 1
    held = seen[step if done else step - 1]
    eased = part * part * (3 - 2 * part)
    for rank, (x, y) in enumerate(SPOTS):
        for chunk in range(4):
            _tile(ax, x + PITCH * chunk, y, held[rank][chunk])
            words(ax, x + PITCH * chunk + TILE / 2, y + TILE_HIGH + 0.45 if y > 5 else y - 0.65, f"chunk {chunk}",
                  ha="center", weight="bold" if chunk == 2 else "normal", colour=canvas.INK if chunk == 2 else SOFT)
        words(ax, x + 2 * PITCH, y - 0.7 if y > 5 else y + TILE_HIGH + 0.5, f"rank {rank}", ha="center", weight="bold")
    middle = SPOTS[0][1] + TILE_HIGH / 2, SPOTS[3][1] + TILE_HIGH / 2
    for start, end in (((8.7, middle[0]), (12.5, middle[0])), ((21.2, 6.4), (21.2, 3.6)),
                       ((12.5, middle[1]), (8.7, middle[1])), ((0.0, 3.6), (0.0, 6.4))):
        canvas.arrow(ax, start, end, colour=canvas.COLLECTIVE, line=2.6)
    words(ax, 10.6, 5.35, f"step {step} of 6" if step else "at first", ha="center", weight="bold", size=13)
    words(ax, 10.6, 4.5, ("own parts", "add", "copy")[(step > 0) + (step > 3)], ha="center", weight="bold", size=13,
          colour=canvas.COLLECTIVE)
    for rank in range(4 if step else 0):
        following = (rank + 1) % 4
        chunk = next(one for one in range(4) if seen[step][following][one] != seen[step - 1][following][one])
        (x, y), (to_x, to_y) = SPOTS[rank], SPOTS[following]
        x, to_x = x + PITCH * chunk, to_x + PITCH * chunk
        if done:
            ax.add_patch(Rectangle((to_x, to_y - 0.24), TILE, 0.14, facecolor=canvas.COLLECTIVE))
            continue
        rise = 1.75 * sin(pi * eased) * (1 if y > 5 else -1) if y == to_y else 0.0
        _tile(ax, x + (to_x - x) * eased, y + (to_y - y) * eased + rise, seen[step - 1][rank][chunk], above=10,
              edge=canvas.COLLECTIVE)
    canvas.say(ax, f"Four ranks in a circle, step {step} of 6: each passes one chunk to the next rank, "
                   f"which {'adds' if step < 4 else 'copies'} it")
    return ax.figure


def both_of_eight() -> Figure:
    """Eight ranks as a star, which sends 56 MB, and as a ring, of which that is asked."""
    ax = _sheet()
    _star(ax, (2.9, 5.8), 2.35, 7, 0.75, ways="<|-|>", line=1.3)
    _ring(ax, (9.1, 5.8), 2.35, 8, 0.75, names=False, line=1.6)
    for x, name, said in ((2.9, "star: 4 MB each", f"{2 * 7 * 4} MB"), (9.1, "ring: eighths", "? MB")):
        words(ax, x, 9.3, name, ha="center", weight="bold")
        words(ax, x, 1.2, said, ha="center", size=BIG, weight="bold")
    return ax.figure


# Section 3: what the ring costs


def same_bytes() -> Figure:
    """What each of eight ranks sends, in the star and in the ring, on one scale."""
    ax = _sheet()
    words(ax, 2.2, 9.2, "MB that each rank sends", colour=SOFT)
    sent = {name: [size / 1e6 for size in collective_bytes("all_reduce", 8, 4e6, algorithm)]
            for name, algorithm in (("star", "naive"), ("ring", "ring"))}
    for (name, sizes), low, colour in zip(sent.items(), (4.4, 0.9), (STAR, RING), strict=True):
        for rank, size in enumerate(sizes):
            x, high = 0.4 + 1.42 * rank, size * 0.14
            ax.add_patch(Rectangle((x, low), 1.1, high, facecolor=colour))
            words(ax, x + 0.55, low + high + 0.35, f"{size:.0f}", ha="center", weight="bold")
            words(ax, x + 0.55, low - 0.4, str(rank), ha="center", colour=SOFT)
        ax.plot([0.2, 11.7], [low, low], color=canvas.INK, linewidth=1)
        words(ax, 2.2, low + (2.6 if name == "star" else 2.1), f"{name}, together {sum(sizes):.0f} MB", colour=colour,
              weight="bold", size=13)
    return ax.figure


def two_messages() -> Figure:
    """A message of the star and one of the ring in time, to scale: both have the same latency."""
    ax = _sheet()
    scale = 11.4 / _message_time(4e6)
    for y, name, size in ((6.2, "star: a whole tensor, 4 MB", 4e6), (2.4, "ring: a quarter, 1 MB", 1e6)):
        words(ax, 0.2, y + 2.1, name, weight="bold", size=12)
        _message(ax, 0.2, y, FAST.latency * scale, size / FAST.bandwidth * scale, 1.5)
        words(ax, 0.3 + _message_time(size) * scale / 2, y - 0.6, f"{FAST.latency * 1e6:.0f} + "
              f"{size / FAST.bandwidth * 1e6:.0f} µs", ha="center", size=12)
    words(ax, 0.2, 0.5, "hatched: latency", colour=SOFT)
    return ax.figure


def _message_time(size: float) -> float:
    return FAST.latency + size / FAST.bandwidth


def who_sends() -> list[Figure]:
    """What four ranks send in time, in the star and in the ring, until one moment after the other."""
    whole, quarter = (_message_time(size) for size in (4e6, 1e6))
    return [_who_sends(until) for until in (quarter, 6 * quarter, 3 * whole, 6 * whole)]


def _who_sends(until: float) -> Figure:
    ax = _across()
    left, high = 2.3, 0.76
    whole, quarter = (_message_time(size) for size in (4e6, 1e6))
    scale, late = 19.0 / (6 * whole), FAST.latency
    sent = {"star": [[(3 + to, f"to rank {to + 1}") for to in range(3)],
                     *([(rank - 1, "to rank 0")] for rank in (1, 2, 3))],
            "ring": [[(step, str((rank - 1 - step if step < 3 else rank - step + 3) % 4)) for step in range(6)]
                     for rank in range(4)]}
    for (name, rows), top, each in zip(sent.items(), (8.4, 3.6), (whole, quarter), strict=True):
        done = until > 6 * each - 1e-9
        words(ax, left, top + 1.3, name, weight="bold", size=13)
        if until > 6 * whole - 1e-9:
            times = "" if name == "star" else f": {whole / quarter:.1f} times as fast"
            words(ax, left + 1.4, top + 1.3, f"{6 * each * 1e6:.0f} µs{times}", size=13)
        for rank, messages in enumerate(rows):
            y = top - 0.9 * rank
            words(ax, 0, y + high / 2, f"rank {rank}", colour=SOFT)
            if not done:
                _cell(ax, left, y, 6 * whole * scale, high, "white", edgecolor=canvas.WAITING, linewidth=0.8)
            _cell(ax, left, y, min(until, 6 * each) * scale, high, canvas.WAITING, linewidth=0)
            for place, said in messages:
                begin, end = place * each, min((place + 1) * each, until)
                if end - begin < 1e-9:
                    continue
                first = begin + late  # byte that arrives
                ax.add_patch(Rectangle((left + begin * scale, y), late * scale, high, **HATCHED))
                _cell(ax, left + first * scale, y, (end - first) * scale, high, canvas.COLLECTIVE, linewidth=0)
                if end == (place + 1) * each or done:
                    words(ax, left + (first + end) / 2 * scale, y + high / 2 - 0.03, said, ha="center",
                          colour="white", weight="bold")
    words(ax, left, 0.2, "grey: sends nothing · a digit: the chunk that it sends · hatched: latency", colour=SOFT)
    return ax.figure


def ring_formula() -> list[Figure]:
    """A rank's messages in time, each a chunk; and the bytes that a rank sends, which stay below 2S."""
    return [_ring_formula(step) for step in range(2)]


def _ring_formula(step: int) -> Figure:
    ax = _across()
    late, part, high = 0.5, 0.6, 1.3
    words(ax, 0.2, 9.3, "A tensor of $S$ bytes, cut into $P$ chunks", weight="bold")
    for chunk in range(4):
        _cell(ax, 0.2 + 1.5 * chunk, 7.4, 1.5, 1.1, canvas.FACES[chunk], "$S/P$")
    words(ax, 0.2, 6.3, "Every rank's port", weight="bold")
    for place in range(6):
        _message(ax, 0.2 + (late + part) * place * 1.2, 4.3, late, part, high, "",
                 canvas.PURPLE if place < 3 else canvas.COLLECTIVE)
    ends = [0.2 + (late + part) * place * 1.2 for place in (0, 3, 6)]
    _span(ax, ends[0], ends[1] - 0.3, 4.0, r"$P-1$ to add", up=False)
    _span(ax, ends[1], ends[2] - 0.25, 4.0, r"$P-1$ to copy", up=False)
    words(ax, 8.4, 4.95, "hatched: $\\alpha$\nfilled: $S/(P\\,B)$\nnot to scale", colour=SOFT)
    words(ax, 0.2, 1.2, r"$T_\mathrm{ring} = 2\,(P-1)\,\left(\alpha + \dfrac{S}{P\,B}\right)$", size=BIG)
    words(ax, 13.0, 9.3, "Bytes that a rank sends", weight="bold", colour=canvas.INK if step else PALE)
    if not step:
        for place, ranks in enumerate((4, 8, 64, 1024)):
            words(ax, 15.0, 8.0 - 1.35 * place, f"{ranks:,} ranks", ha="right", colour=PALE)
            _cell(ax, 15.3, 7.6 - 1.35 * place, 5.0, 0.8, "white", edgecolor=PALE)
    if step:
        for place, ranks in enumerate((4, 8, 64, 1024)):
            y, share = 7.6 - 1.35 * place, collective_bytes("all_reduce", ranks, 1.0, "ring")[0]
            words(ax, 15.0, y + 0.4, f"{ranks:,} ranks", ha="right")
            ax.add_patch(Rectangle((15.3, y), share * 2.5, 0.8, facecolor=RING))
            told = rf"{int(share * 1000) / 1000:g} $S$"
            words(ax, 15.15 + share * 2.5, y + 0.4, told, ha="right", colour="white")
        ax.plot([20.3, 20.3], [3.2, 8.7], color=canvas.LIMIT, linewidth=2)
        words(ax, 20.45, 8.2, "$2S$", colour=canvas.LIMIT, size=LARGE)
        words(ax, 13.0, 1.2, r"$2\,\dfrac{P-1}{P}\,S \;<\; 2S$", size=BIG)
    return ax.figure


@steps(range(3))
def one_number(step: int) -> Figure:
    """The four parts of one number: three messages join them, and three more tell the others."""
    ax = _sheet()
    xs = (1.2, 4.4, 7.6, 10.8)
    for y, name, held in ((7.6, "its four parts", [[rank] for rank in range(4)]),
                          (4.3, "3 messages: one rank has the sum", [[0], [0, 1], [0, 1, 2], range(4)]),
                          (1.0, "3 more: all have it", [range(4)] * 4)):
        if y < 7.5 - 3.3 * step:  # comes later
            for x in xs:
                _cell(ax, x - 1.05, y, 2.1, 1.1, "white", edgecolor=PALE)
            continue
        words(ax, 0.1, y + 1.75, name, weight="bold")
        for x, parts in zip(xs, held, strict=True):
            _parts(ax, x - 1.05, y, 2.1, 1.1, parts)
        if y == 4.3:
            for start, end in zip(xs, xs[1:], strict=False):
                canvas.arrow(ax, (start + 1.1, y + 0.55), (end - 1.1, y + 0.55), colour=canvas.COLLECTIVE, line=2)
        if y == 1.0:
            for start, end in zip(xs[1:], xs, strict=False):
                canvas.arrow(ax, (start - 1.1, y + 0.55), (end + 1.1, y + 0.55), colour=canvas.COLLECTIVE, line=2)
    return ax.figure


# Section 4: many ranks


def four_to_1024() -> Figure:
    """A ring of four ranks, and one of 1,024."""
    ax = _sheet()
    _ring(ax, (1.75, 5.6), 1.3, 4, 0.7)
    places = [_circle((8.4, 5.6), 3.4 - 0.1 * (rank % 4), 1024)[rank] for rank in range(1024)]
    for colour, edge in enumerate((canvas.BLUE, canvas.ORANGE, canvas.GREEN, canvas.RED)):
        ax.plot(*zip(*places[colour::4], strict=True), ".", color=edge, markersize=1.6)
    words(ax, 1.75, 1.2, "4 ranks", ha="center", weight="bold")
    words(ax, 8.4, 1.2, "1,024 ranks", ha="center", weight="bold")
    words(ax, 8.4, 5.9, f"{LLAMA / 1e9:.1f} GB", ha="center", size=BIG, weight="bold")
    words(ax, 8.4, 4.9, "? seconds", ha="center", size=LARGE)
    canvas.arrow(ax, (3.75, 5.6), (4.7, 5.6), colour=SOFT, line=2)
    return ax.figure


def nine_minutes_to_half() -> list[Figure]:
    """Seconds for 13.5 GB through rank 0 and in the ring, on 8, 64 and 1,024 GPUs, on an axis of powers of ten."""
    return [_to_half(step) for step in range(3)]


def _to_half(step: int) -> Figure:
    ax = _across()
    left, decade = 4.6, 4.0  # units of a factor of ten; the axis begins at 0.1 s

    def place_of(seconds: float) -> float:
        return left + decade * (log10(seconds) + 1)

    for seconds, name in ((0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min")):
        x = place_of(seconds)
        ax.plot([x, x], [1.2, 8.7], color=canvas.WAITING, linewidth=1)
        words(ax, x, 0.6, name, ha="center", colour=SOFT)
    words(ax, place_of(0.52), 9.3, "ring", ha="center", weight="bold", size=LARGE, colour=RING)
    words(ax, place_of(45), 9.3, "through rank 0", ha="center", weight="bold", size=LARGE, colour=STAR)
    for row, ranks in enumerate((8, 64, 1024)):
        y, there = 7.2 - 2.5 * row, row <= step
        words(ax, 0, y, f"{ranks:,} GPUs", weight="bold", size=13, colour=canvas.INK if there else PALE)
        if not there:
            continue
        ring, star = (_seconds(ranks, LLAMA, algorithm) for algorithm in ("ring", "naive"))
        ax.plot([place_of(ring), place_of(star)], [y, y], color=canvas.GREY, linewidth=2, zorder=1)
        words(ax, (place_of(ring) + place_of(star)) / 2, y + 0.55, f"{star / ring:,.0f} times", ha="center",
              weight="bold" if ranks == 1024 else "normal", bbox=CLEAR)
        for seconds, colour, digits in ((ring, RING, 2), (star, STAR, 1 if star < 10 else 0)):
            ax.plot([place_of(seconds)], [y], "o", color=colour, markersize=13)
            words(ax, place_of(seconds), y - 0.85, f"{seconds:.{digits}f} s", ha="center", weight="bold", size=13,
                  colour=colour, bbox=CLEAR)
    return ax.figure


def two_sizes() -> Figure:
    """The whole gradient and the 65 small ones as areas, to scale."""
    ax = _sheet()
    side = 7.2
    small = side * sqrt(NORMS * NORM / LLAMA)
    ax.add_patch(Rectangle((0.3, 1.6), side, side, facecolor=canvas.GRADIENTS))
    words(ax, 0.3 + side / 2, 5.7, f"{LLAMA / 1e9:.1f} GB", ha="center", size=BIG, weight="bold")
    words(ax, 0.3 + side / 2, 4.5, f"{_seconds(1024, LLAMA, 'ring'):.2f} s", ha="center", size=LARGE)
    ax.add_patch(Rectangle((9.6, 1.6), small, small, facecolor=canvas.LIMIT, edgecolor=canvas.LIMIT, linewidth=1))
    ax.add_patch(Circle((9.62, 1.63), 0.3, fill=False, edgecolor=canvas.LIMIT, linewidth=1.5))
    canvas.arrow(ax, (9.65, 3.5), (9.65, 2.1), colour=SOFT, line=1.5)
    words(ax, 9.65, 5.2, f"{NORMS} small\ntensors\n{NORMS * NORM / 1e6:.1f} MB", ha="center", weight="bold")
    words(ax, 9.65, 7.3, "? s", ha="center", size=BIG, weight="bold")
    link = f"{FAST.latency * 1e6:.0f} µs of latency, {FAST.bandwidth / 1e9:.0f} GB/s"
    words(ax, 0.3, 0.7, f"areas to scale · {link}", colour=SOFT)
    return ax.figure


def norms_bars() -> Figure:
    """Seconds of one large ring and of 65 small ones, and how much of each is latency."""
    ax = _sheet()
    late = 2 * 1023 * FAST.latency
    rows = (("13.5 GB in one ring", late, _seconds(1024, LLAMA, "ring") - late),
            ("65 rings of 8 kB each", NORMS * late, NORMS * (_seconds(1024, NORM, "ring") - late)))
    scale = 11.6 / (NORMS * late)
    for (name, waits, sends), y in zip(rows, (6.6, 3.0), strict=True):
        words(ax, 0.1, y + 2.0, name, weight="bold")
        bar(ax, 0.1, y, waits * scale, 1.4, canvas.RECEIVED)
        bar(ax, 0.1 + waits * scale, y, sends * scale, 1.4, canvas.COLLECTIVE)
        words(ax, 11.7, y + 2.0, f"{waits + sends:.3g} s", ha="right", weight="bold")
    bar(ax, 0.1, 0.9, 0.9, 0.8, canvas.RECEIVED)
    words(ax, 1.3, 1.3, "latency: 2,046 steps · 5 µs")
    bar(ax, 8.6, 0.9, 0.9, 0.8, canvas.COLLECTIVE)
    words(ax, 9.8, 1.3, "bytes")
    return ax.figure


def tree_in_rounds() -> list[Figure]:
    """Eight ranks add up in three rounds, in which half of those that hold a part send it, and hand the sum out."""
    return [_tree(step) for step in range(1, 5)]


def _tree(done: int) -> Figure:
    ax = _across()
    wide, high, pitch, row, top = 1.35, 0.72, 2.15, 0.94, 8.05
    held = [[{rank} for rank in range(8)]]
    moves = []  # of each round: who sends to whom
    for level in range(3):
        some = 4 >> level
        moves.append([(rank + some, rank) for rank in range(some)])
    moves += [[(to, sender) for sender, to in one] for one in reversed(moves)]
    for one in moves:
        now = [set(parts) for parts in held[-1]]
        for sender, to in one:
            now[to] |= held[-1][sender]
        held.append(now)
    shown = done if done < 4 else 6
    busy = [{rank for move in moves[level] for rank in move} for level in range(6)] + [set(range(8))]
    for rank in range(8):
        words(ax, -0.3, top - row * rank + high / 2, f"rank {rank}", colour=SOFT)
    for column in range(7):
        x = 2.0 + pitch * column
        for rank in range(8):
            y = top - row * rank
            if column > shown:
                _cell(ax, x, y, wide, high, "white", edgecolor=PALE)
            elif rank in busy[column] or column and rank in {to for _, to in moves[column - 1]}:
                parts = len(held[column][rank])
                bar(ax, x, y, wide * parts / 8, high, canvas.FACES[0], zorder=0.5)
                _cell(ax, x, y, wide, high, "none", str(parts), linewidth=2.2 if parts == 8 else 0.9)
        if 0 < column <= shown:
            for sender, to in moves[column - 1]:
                start, end = (top - row * one + high / 2 for one in (sender, to))
                canvas.arrow(ax, (x - pitch + wide + 0.06, start), (x - 0.08, end), colour=canvas.COLLECTIVE, line=1.6)
    for name, first, last, there in (("3 rounds up: add", 0, 3, shown >= 3), ("3 rounds down: copy", 3, 6, shown > 3)):
        words(ax, 2.0 + wide / 2 + pitch * (first + last) / 2, 9.4, name, ha="center", weight="bold",
              colour=canvas.COLLECTIVE if there else PALE)
    words(ax, 21.3, 0.5, "a number: how many parts are added up", ha="right", colour=SOFT)
    if done == 4:
        many = tree_rounds(1024)
        words(ax, 17.0, 7.2, "1,024 ranks:", size=12, weight="bold")
        words(ax, 17.0, 6.0, f"{many} rounds up,\n{many} down", size=12)
        words(ax, 17.0, 3.8, "every message:\nthe whole\ntensor", size=12)
        words(ax, 2.0, 0.5, r"$T_\mathrm{tree} = 2\,\lceil\log_2 P\rceil\,\left(\alpha + S/B\right)$", size=17)
    return ax.figure


@steps(range(2))
def three_ways(step: int) -> Figure:
    """Seconds of the star, the ring and the tree over the ranks: for 13.5 GB, and then for 8 kB, too."""
    ax = _across()
    wide, decade, low = 7.0, 0.92, 1.7  # of a panel, a factor of ten, and of its floor, which is 10 µs
    said = {"naive": ("through rank 0", STAR), "ring": ("ring", RING), "tree": ("tree", TREE)}
    for panel, (name, size) in enumerate((("13.5 GB: the whole gradient", LLAMA), ("8 kB: one normalization", NORM))):
        left, there = 1.6 + 10.4 * panel, panel <= step
        words(ax, left, 9.6, name, weight="bold", colour=canvas.INK if there else PALE)
        for power, label in ((-5, "10 µs"), (-3, "1 ms"), (-1, "0.1 s"), (0, "1 s"), (1, "10 s"), (2, "100 s")):
            y = low + decade * (power + 5)
            line(ax, (left, y), (left + wide, y), colour=canvas.WAITING, wide=1)
            if not panel:
                words(ax, left - 0.2, y, label, ha="right", colour=SOFT)
        for place, ranks in enumerate((4, 16, 64, 256, 1024)):
            words(ax, left + wide * place / 4, 1.0, f"{ranks:,}", ha="center", colour=SOFT)
        words(ax, left + wide / 2, 0.25, "ranks", ha="center", colour=SOFT)
        for algorithm, (way, colour) in said.items() if there else ():
            taken = [_seconds(ranks, size, algorithm) for ranks in (4, 16, 64, 256, 1024)]
            heights = [low + decade * (log10(seconds) + 5) for seconds in taken]
            dashed = "--" if panel and algorithm == "ring" else "-"  # lies on the star's line
            line(ax, *((left + wide * place / 4, y) for place, y in enumerate(heights)), colour=colour, wide=2.4,
                 linestyle=dashed)
            digits = 0 if taken[-1] > 99 else 1 if taken[-1] > 1 else 2
            last = f"{taken[-1] * 1e3:.1f} ms" if panel else f"{taken[-1]:.{digits}f} s"
            nudge = {"naive": 0.32, "ring": -0.32}.get(algorithm, 0) * panel
            words(ax, left + wide + 0.2, heights[-1] + nudge, last, weight="bold", colour=colour)
            above = {"naive": 0.75, "ring": -0.5, "tree": -0.5 if panel else 0.5}[algorithm]
            x, y = (0.3, heights[2]) if algorithm == "naive" else (0.78, heights[3])
            words(ax, left + wide * x, y + above, way, ha="center", weight="bold", colour=colour)
    return ax.figure


def two_answers() -> Figure:
    """What a sum on 1,024 ranks takes: of many bytes through rank 0 and in a ring, of few in a ring and in a tree."""
    ax = _sheet()
    words(ax, 0.2, 9.4, "1,024 ranks", weight="bold", size=13)
    small = [NORMS * _seconds(1024, NORM, way) for way in ("ring", "tree")]
    for top, name, rows in (
        (7.9, "13.5 GB", (("rank 0", STAR, f"{_seconds(1024, LLAMA, 'naive'):.0f} s"),
                          ("ring", RING, f"{_seconds(1024, LLAMA, 'ring'):.2f} s"))),
        (3.4, "65 tensors of 8 kB", (("ring", RING, f"{small[0]:.3f} s"), ("tree", TREE, f"{small[1]:.3f} s"))),
    ):
        words(ax, 0.2, top, name, weight="bold")
        for x, (way, colour, taken) in zip((0.2, 6.7), rows, strict=True):
            box(ax, x, top - 2.9, 4.9, 2.2, "white", edge=colour, line=2.2)
            words(ax, x + 2.45, top - 1.3, way, ha="center", colour=colour, weight="bold")
            words(ax, x + 2.45, top - 2.2, taken, ha="center", size=LARGE, weight="bold")
        canvas.arrow(ax, (5.25, top - 1.8), (6.55, top - 1.8), colour=canvas.COLLECTIVE, line=2.2)
    return ax.figure


# Section 5: the pull request


def pull_request() -> Figure:
    """A pull request whose tests pass: they compare sums."""
    ax = _sheet()
    box(ax, 0.3, 0.6, 11.4, 8.8, "white", edge=SOFT, line=1.5)
    words(ax, 0.9, 8.5, "Ring instead of rank 0", size=LARGE, weight="bold")
    words(ax, 0.9, 7.5, "wants to merge", colour=SOFT)
    for place, said in enumerate(("4 ranks: sum is right", "8 ranks: sum is right", "odd sizes: sum is right")):
        y = 5.9 - 1.2 * place
        ax.add_patch(Circle((1.3, y), 0.4, facecolor=canvas.GREEN))
        ax.plot([1.12, 1.25, 1.5], [y, y - 0.16, y + 0.17], color="white", linewidth=2.2)
        words(ax, 2.1, y, said)
    ax.plot([0.9, 11.1], [2.6, 2.6], color=canvas.WAITING, linewidth=1.2)
    words(ax, 0.9, 1.7, "and what crosses the wire?", weight="bold", colour=canvas.COLLECTIVE, size=13)
    return ax.figure


def three_readings() -> Figure:
    """What each rank of A, B and C sends: a block for each message, as long as its bytes."""
    ax = _sheet()
    size = 192
    read = {"A": (collective_bytes("all_reduce", 4, size, "ring"), (6, 6, 6, 6)),
            "B": (collective_bytes("all_reduce", 4, size, "naive"), (3, 1, 1, 1)), "C": ([3 * size] * 4, (3, 3, 3, 3))}
    for place, (name, (bytes_sent, messages)) in enumerate(read.items()):
        top = 8.85 - 3.25 * place
        words(ax, 0.1, top - 0.95, name, size=BIG, weight="bold")
        for rank, (sent, count) in enumerate(zip(bytes_sent, messages, strict=True)):
            y, each = top - 0.63 * rank, sent / count * 0.0125
            words(ax, 1.9, y, str(rank), ha="center", colour=SOFT)
            for block in range(count):
                _cell(ax, 2.3 + each * block, y - 0.23, each, 0.46, canvas.COLLECTIVE, edgecolor="white", linewidth=1.3)
            words(ax, 2.45 + each * count, y, f"{sent:.0f}")
    words(ax, 1.9, 9.6, "rank", ha="center", colour=SOFT)
    words(ax, 2.8, 9.6, "bytes sent, a block for each message", colour=SOFT)
    return ax.figure


def three_suspects() -> list[Figure]:
    """The ring, the star and the false ring: who sends to whom, and what one message is."""
    return [_suspects(count) for count in (1, 2, 3)]


def _suspects(count: int) -> Figure:
    ax = _sheet()
    words(ax, 11.8, 9.6, "a message", ha="right", colour=SOFT)
    rows = (("A", "ring", "everybody: 6 messages,\neach a quarter: 1.5 $S$"),
            ("B", "star", "rank 0: 3 messages,\neach a whole tensor: 3 $S$"),
            ("C", "false ring", "everybody: 3 messages,\neach a whole tensor: 3 $S$"))
    for place, (name, kind, said) in enumerate(rows):
        y = 8.35 - 3.3 * place
        if place >= count:
            words(ax, 4.1, y + 0.85, f"{name}: ?", weight="bold", size=12, colour=PALE)
            for x, to in ((2.0, y + 1.15), (3.15, y), (2.0, y - 1.15), (0.85, y)):
                _cell(ax, x - 0.3, to - 0.3, 0.6, 0.6, "white", edgecolor=PALE)
            _cell(ax, 10.35, y, 1.4, 0.75, "white", edgecolor=PALE, linewidth=0.8)
            continue
        if name == "B":
            for rank, x in ((1, 0.7), (2, 2.0), (3, 3.3)):
                _cell(ax, x - 0.3, y - 1.4, 0.6, 0.6, canvas.FACES[rank])
                canvas.arrow(ax, *_toward((2.0, y + 0.8), (x, y - 1.1), 0.55, 0.5), "<|-|>",
                             colour=canvas.COLLECTIVE, line=1.5)
            _cell(ax, 1.6, y + 0.5, 0.8, 0.7, canvas.FACES[0], "0", linewidth=2)
        else:
            _ring(ax, (2.0, y), 1.15, 4, 0.6, names=False, line=1.5)
        words(ax, 4.1, y + 0.85, f"{name}: {kind}", weight="bold", size=12)
        words(ax, 4.1, y - 0.35, said)
        whole = name != "A"
        for chunk in range(4):
            _cell(ax, 10.35 + 0.35 * chunk, y - 0.0, 0.35, 0.75, canvas.PURPLE if whole or not chunk else "white",
                  edgecolor=SOFT, linewidth=0.8)
    return ax.figure


# Section 6: the last bits


def drifting_losses() -> Figure:
    """Two loss curves, sketched: alike at first, and then apart."""
    ax = _sheet()
    ax.plot([1.0, 1.0, 11.6], [9.4, 1.4, 1.4], color=canvas.INK, linewidth=1.2)
    steps = [place / 100 for place in range(101)]
    for sign, colour, name in ((1, canvas.BLUE, "64 GPUs"), (-1, canvas.RED, "128 GPUs")):
        apart = [0.55 * max(0.0, at - 0.45) ** 1.2 * sign + 0.35 * max(0.0, at - 0.4) * sin(34 * at + 2 * sign)
                 for at in steps]
        ax.plot([1 + 8 * at for at in steps], [2.6 + 6.2 * exp(-3.2 * at) + 2.2 * off for at, off in
                                               zip(steps, apart, strict=True)], color=colour, linewidth=2.4)
        words(ax, 9.2, 3.3 + 0.75 * sign, name, colour=colour, weight="bold")
    words(ax, 1.3, 9.3, "loss")
    words(ax, 11.6, 0.8, "steps", ha="right")
    words(ax, 6.4, 7.2, "same data, same seeds", ha="center", weight="bold")
    return ax.figure


def addition_rounds() -> list[Figure]:
    """Three numbers added in two orders, with four digits kept after each addition."""
    return [_addition(step) for step in (1, 2)]


def _addition(step: int) -> Figure:
    ax = _across()
    words(ax, 0.1, 9.3, "A machine that keeps four digits adds", weight="bold")
    words(ax, 10.4, 9.3, "$a$ = 1000,  $b$ = 0.4,  $c$ = 0.4", size=13)
    for place, (title, rows) in enumerate((
        ("$(a + b) + c$", (("1000", "4", "$a + b$"), ("1000", "", "rounded"),
                           ("1000", "4", "and $c$"), ("1000", "", "rounded"))),
        ("$a + (b + c)$", (("0", "8", "$b + c$"), ("0", "8", "fits"),
                           ("1000", "8", "and $a$"), ("1001", "", "rounded"))),
    )[:step]):
        left = 0.1 + 11.2 * place
        words(ax, left, 7.8, title, size=BIG)
        for row, (whole, rest, said) in enumerate(rows):
            y, last = 5.9 - 1.5 * row, row == 3
            for at, digit in enumerate(whole.rjust(4)):
                digit = digit.strip()
                colour = canvas.FACES[2] if last else canvas.FACES[0] if digit else "white"
                _cell(ax, left + 0.95 * at, y, 0.95, 1.15, colour, digit, linewidth=2.2 if last else 0.9,
                      edgecolor=canvas.INK if digit else canvas.WAITING)
            if rest:
                lost = said != "fits" and whole != "0"
                words(ax, left + 4.0, y + 0.4, ".", ha="center", size=LARGE)
                _cell(ax, left + 4.2, y, 0.95, 1.15, canvas.WAITING if lost else canvas.FACES[0], rest)
            words(ax, left + 5.6, y + 0.55, said, colour=SOFT, weight="bold" if last else "normal")
    if step == 2:
        words(ax, 10.1, 1.95, "≠", ha="center", size=28, weight="bold", colour=canvas.LIMIT)
    return ax.figure


def orders_in_ring() -> Figure:
    """In which order each chunk of a ring is added up, and the serial order."""
    ax = _sheet()
    words(ax, 0.2, 9.2, "The ring adds", weight="bold")
    for chunk in range(4):
        y = 7.3 - 1.4 * chunk
        words(ax, 0.2, y + 0.5, f"chunk {chunk}")
        _order(ax, 3.4, y, [(chunk + 1 + hop) % 4 for hop in range(4)])
    ax.plot([0.2, 11.8], [2.65, 2.65], color=canvas.WAITING, linewidth=1.5)
    words(ax, 0.2, 1.6, "serial", weight="bold")
    _order(ax, 3.4, 1.1, range(4))
    return ax.figure


def _order(ax: Axes, x: float, y: float, ranks: Sequence[int | None]) -> None:
    for place, rank in enumerate(ranks):
        colour, name = ("white", "?") if rank is None else (canvas.FACES[rank], str(rank))
        _cell(ax, x + 2.1 * place, y, 1.2, 1.0, colour, name)
        if place:
            words(ax, x + 2.1 * place - 0.45, y + 0.5, "+", ha="center")


def _numbers(rank: int) -> torch.Tensor:
    return torch.randn(10_000, generator=torch.Generator().manual_seed(rank))


def _added(order: Sequence[int], chunk: slice = slice(None)) -> torch.Tensor:
    total = _numbers(order[0])[chunk].clone()
    for rank in order[1:]:
        total += _numbers(rank)[chunk]
    return total


def differing_places() -> Figure:
    """Each chunk's 2,500 places, and how many of them differ from the serial sum."""
    ax = _sheet()
    for chunk in range(4):
        y, places = 7.0 - 2.0 * chunk, slice(2500 * chunk, 2500 * (chunk + 1))
        order = [(chunk + 1 + hop) % 4 for hop in range(4)]
        count = int((_added(order, places) != _added(range(4), places)).sum())
        words(ax, 0.1, y + 1.3, f"chunk {chunk}", weight="bold")
        words(ax, 3.3, y + 1.3, " + ".join(map(str, order)))
        _cell(ax, 0.1, y, 11.6, 0.8, canvas.WAITING, linewidth=0)
        _cell(ax, 0.1, y, 11.6 * count / 2500, 0.8, canvas.RED, linewidth=0)
        words(ax, 11.7, y + 1.3, f"{count:,}" if count else "0: serial", ha="right", weight="bold")
    words(ax, 0.1, 0.3, "of 2,500 places each", colour=SOFT)
    return ax.figure


def what_comes_past() -> Figure:
    """In the false ring rank 0 adds what comes past; in which order do the others add?"""
    ax = _sheet()
    words(ax, 0.2, 9.2, "Whole tensors go round: 0 → 1 → 2 → 3 → 0", weight="bold")
    for rank in range(4):
        y = 6.9 - 1.75 * rank
        words(ax, 0.2, y + 0.5, f"rank {rank} adds")
        _order(ax, 4.3, y, [0, 3, 2, 1] if not rank else [rank, None, None, None])
    words(ax, 0.2, 0.6, "A number's sum is made four times.", colour=SOFT)
    return ax.figure


@steps(range(2))
def false_orders(step: int) -> Figure:
    """In which order each rank of the false ring adds, and which of the first twenty places differ from rank 0's."""
    ax = _across()
    count = 20
    falsely = [[(rank - hop) % 4 for hop in range(4)] for rank in range(4)]
    words(ax, 0.1, 9.4, "real ring", weight="bold", size=12)
    words(ax, 0.1, 6.9, "false ring", weight="bold", size=12)
    for rank, order, y in ((None, [1, 2, 3, 0], 7.9), *zip(range(4), falsely, (5.2, 3.8, 2.4, 1.0), strict=True)):
        words(ax, 0.1, y + 0.5, "all ranks" if rank is None else f"rank {rank}")
        _order(ax, 3.4, y, order)
        whole = order if rank is None else falsely[0]
        for place in range(count if step else 0):
            differs = bool(_added(order)[place] != _added(whole)[place])
            _cell(ax, 12.0 + 0.48 * place, y + 0.1, 0.41, 0.8, canvas.RED if differs else canvas.FACES[2], linewidth=0)
    if step:
        words(ax, 12.0, 9.4, "the first 20 places of the sum", colour=SOFT)
        words(ax, 12.0, 6.9, "orange: another last bit than on rank 0", colour=canvas.RED)
    return ax.figure


def compare_runs() -> Figure:
    """Two runs are compared with a tolerance, the ranks of one run bit by bit."""
    ax = _sheet()
    for y, name, ranks in ((6.3, "run on 64 GPUs", 4), (1.0, "run on 128 GPUs", 4)):
        box(ax, 0.2, y, 11.6, 2.9, "white", edge=SOFT, line=1.2)
        words(ax, 0.6, y + 2.3, name, weight="bold")
        for rank in range(ranks):
            x = 0.7 + 2.85 * rank
            _cell(ax, x, y + 0.4, 1.9, 1.2, canvas.FACES[0 if y > 5 else 4], f"rank {rank}" if rank < 3 else "…")
            if rank:
                words(ax, x - 0.48, y + 1.0, "==", ha="center", weight="bold", size=13, colour=canvas.GREEN)
    words(ax, 3.0, 5.1, "≈", ha="center", size=34, weight="bold", colour=canvas.COLLECTIVE)
    words(ax, 4.2, 5.1, "another order of additions", colour=canvas.COLLECTIVE, weight="bold")
    return ax.figure


# Section 7: NCCL


def one_call() -> Figure:
    """One call goes to NCCL, which chooses between three ways."""
    ax = _sheet()
    box(ax, 0.6, 7.9, 10.8, 1.5, canvas.FACES[0], "dist.all_reduce(tensor)", size=13, weight="bold")
    canvas.arrow(ax, (6, 7.7), (6, 6.6), line=2)
    box(ax, 3.3, 4.9, 5.4, 1.5, canvas.FACES[1], "NCCL", size=LARGE, weight="bold")
    words(ax, 6, 4.3, "size? wiring?", ha="center", colour=SOFT)
    for x, name in ((1.9, "ring"), (6, "tree"), (10.1, "NVLS")):
        canvas.arrow(ax, (6 + (x - 6) * 0.35, 3.8), (x, 2.5), line=1.8)
        box(ax, x - 1.6, 0.8, 3.2, 1.5, canvas.FACES[2], name, size=13, weight="bold")
    return ax.figure


def nccl_ways() -> list[Figure]:
    """NCCL's ring, tree and NVLS: who sends to whom, the steps, the bytes that a rank sends, and what for."""
    return [_nccl_ways(count) for count in (1, 2, 3)]


def _nccl_ways(count: int) -> Figure:
    ax = _across()
    told = (("Ring", "$2(P-1)$ steps", "almost $2S$ a rank", "in $P$ chunks", "large tensors"),
            ("Tree of machines", r"about $2\,\log_2 M$ steps, $M$ machines", "about $2S$ a rank",
             "in small pieces, pipelined", "small tensors, many machines"),
            ("NVLS: the switch adds", "a few steps", "about $S$ a rank", "sent once, received once",
             "large, in one machine"))
    for place, (name, *lines) in enumerate(told[:count]):
        x = 3.5 + 7.3 * place
        words(ax, x, 9.4, name, ha="center", weight="bold", size=13)
        for row, said in enumerate(lines):
            words(ax, x, 2.85 - 0.75 * row, said, ha="center", weight="bold" if row == 1 else "normal",
                  colour=canvas.COLLECTIVE if row == 1 else canvas.INK)
        if place == 0:
            _ring(ax, (x, 6.1), 2.3, 8, 0.7, names=False)
        elif place == 1:
            spots = {1: (x, 8.2), 2: (x - 1.7, 6.2), 3: (x + 1.7, 6.2), 4: (x - 2.5, 4.1), 5: (x - 0.9, 4.1),
                     6: (x + 0.9, 4.1), 7: (x + 2.5, 4.1)}
            for one, spot in spots.items():
                _cell(ax, spot[0] - 0.4, spot[1] - 0.3, 0.8, 0.6, canvas.FACES[(one - 1) % 4])
                if one > 1:
                    ends = _toward(spot, spots[one // 2], 0.5, 0.55)
                    canvas.arrow(ax, *ends, "<|-|>", colour=canvas.COLLECTIVE, line=1.8)
        else:
            box(ax, x - 2.9, 7.0, 5.8, 1.2, canvas.FACES[1], "NVLink switch: +", weight="bold")
            for rank in range(4):
                at = x - 2.4 + 1.6 * rank
                _cell(ax, at - 0.45, 4.0, 0.9, 0.9, canvas.FACES[rank])
                canvas.arrow(ax, (at, 5.0), (at, 6.9), "<|-|>", colour=canvas.NVLINK, line=1.8)
    return ax.figure


def goes_wrong() -> list[Figure]:
    """A late rank, a slow link and a bad order."""
    return [_goes_wrong(count) for count in (1, 2, 3)]


def _goes_wrong(count: int) -> Figure:
    ax = _across()
    told = (("One late rank", "the others wait inside;\nthe short one came last"),
            ("One slow link", "all chunks cross it:\nall ranks take equally long"),
            ("A bad order", "enter each machine once,\nnot at every hop"))
    for place, (name, said) in enumerate(told[:count]):
        x = 3.5 + 7.3 * place
        words(ax, x, 9.4, name, ha="center", weight="bold", size=13)
        words(ax, x, 1.2, said, ha="center")
    for rank in range(4):
        y, late = 7.3 - 1.35 * rank, rank == 2
        words(ax, 0.5, y + 0.4, str(rank), ha="center", colour=SOFT)
        begins = 3.4 if late else 2.0
        _cell(ax, 1.0, y, begins, 0.9, canvas.COMPUTE, linewidth=0)
        _cell(ax, 1.0 + begins, y, 5.2 - begins, 0.9, canvas.COLLECTIVE, linewidth=0)
    words(ax, 2.0, 2.75, "computes", ha="center", colour=canvas.COMPUTE, weight="bold")
    words(ax, 5.0, 2.75, "all-reduce", ha="center", colour=canvas.COLLECTIVE, weight="bold")
    if count > 1:
        places = _ring(ax, (10.8, 5.9), 2.3, 8, 0.7, names=False)
        canvas.arrow(ax, *_toward(places[1], places[2], 0.45, 0.45), colour=canvas.LIMIT, line=3.5)
        words(ax, 12.85, 8.2, "slow", colour=canvas.LIMIT, weight="bold")
    if count > 2:
        for left, low in ((14.9, 0), (18.4, 1)):
            box(ax, left, 3.2, 2.4, 5.2, "white", edge=SOFT)
            words(ax, left + 1.2, 2.75, f"machine {low}", ha="center", colour=SOFT)
        spots = [(16.1 + 3.5 * (rank % 2), 7.6 - 1.2 * (rank // 2)) for rank in range(8)]
        for spot, following in zip(spots, spots[1:], strict=False):
            canvas.arrow(ax, *_toward(spot, following, 0.5, 0.5), colour=canvas.LIMIT, line=1.6)
        for spot in spots:
            _cell(ax, spot[0] - 0.4, spot[1] - 0.35, 0.8, 0.7, canvas.FACES[0])
    return ax.figure
