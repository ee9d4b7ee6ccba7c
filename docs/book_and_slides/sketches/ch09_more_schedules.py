"""Pictures that only the slides of chapter 9 have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kit import BESIDE, BIG, LETTERS, axes, bar, box, frame, line, sheet, span, steps, timeline, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.plots import canvas
from course_lib.plots.time import PIPELINE
from course_lib.schedules import as_schedule, one_f_one_b, play
from course_lib.schedules import orders as of
from course_lib.schedules.actions import split_backward
from course_lib.schedules.table import row_of

WHITE, INK, FAULT, NETWORK = "#FFFFFF", canvas.INK, canvas.LIMIT, canvas.NETWORK
FORWARD, BACKWARD, WAITING, COMPUTE = canvas.FORWARD, canvas.BACKWARD, canvas.WAITING, canvas.COMPUTE
LARGE = 18  # points of what is read first
ORANGE_WORDS, BLUE_WORDS = "#A86E00", "#0072B2"  # as dark as letters on white must be
RANKS = tuple(canvas.FACES[:4])

BASE = play(one_f_one_b(4, 8))
LOOP = play(of.interleaved(4, 8, 2), 0.5, 0.5, 0.5)
H1, H2, V = play(of.zb_h1(4, 8)), play(of.zb_h2(4, 8)), play(of.zb_v(4, 8), 0.5, 0.5, 0.5)
TINY, TINY_H1, TINY_H2 = (play(order(2, 3)) for order in (one_f_one_b, of.zb_h1, of.zb_h2))
EXCHANGES = {"forward": 1.25, "backward": 1.25, "weight": 0.5}  # seconds of a chunk whose exchanges cost as much again


def _micro(event) -> str:
    return str(event.action.microbatch)


def _name(event) -> str:
    return f"{event.kind}{event.action.microbatch}"


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _ranks(ax: Axes, place, count: int, x: float, name: str = "rank ") -> None:
    for rank in range(count):
        words(ax, x, place(0, rank)[1], f"{name}{rank}", ha="right")


def _busy(ax: Axes, played, area: tuple[float, float, float, float], until: float) -> None:
    """Draw when each rank works, and in grey when it waits."""
    x, y, wide, high = area
    ranks, second = len(played), wide / until
    row = high / ranks
    for rank in range(ranks):
        low = y + high - (rank + 0.94) * row
        bar(ax, x, low, second * played.seconds, 0.88 * row, WAITING)
        begin = end = None
        for event in sorted((one for one in played.events if one.rank == rank), key=lambda one: one.start):
            if end is not None and event.start > end + 1e-6:
                bar(ax, x + second * begin, low, second * (end - begin), 0.88 * row, COMPUTE)
                begin = None
            begin, end = event.start if begin is None else begin, event.end
        bar(ax, x + second * begin, low, second * (end - begin), 0.88 * row, COMPUTE)


def _way(ax: Axes, place, events: Iterable, **look) -> None:
    """Draw the way of a micro-batch through these events."""
    points = [place((event.start + event.end) / 2, event.rank) for event in events]
    line(ax, *points, **{"wide": 2.2, "marker": "o", "markersize": 4, "zorder": 6} | look)


def _of(played, micro: int, kinds: str) -> list:
    mine = [event for event in played.events if event.action.microbatch == micro and event.kind[0] in kinds]
    return sorted(mine, key=lambda event: event.start)


# The opening


def half_idle() -> Figure:
    """1F1B on 16 ranks with 16 micro-batches."""
    played = play(one_f_one_b(16, 16))
    ax = sheet(36, 30)
    words(ax, 0.6, 28.4, "16 ranks, 16 micro-batches, 1F1B", weight="bold")
    timeline(ax, played.events, (0.6, 4, 34.8, 22.6), ranks=16, until=played.seconds, share=0.9)
    words(ax, 0.6, 1.8, f"grey: {_percent(played.bubble_share)} of the time", weight="bold", size=BIG)
    return ax.figure


@steps((1, 4))
def more_or_fewer(step: int) -> Figure:
    """The idle share of a pipeline of 16 ranks, with 16 micro-batches and with more."""
    ax = sheet(36, 30)
    bar(ax, 0.4, 27.4, 2, 2, COMPUTE)
    words(ax, 3, 28.4, "works")
    bar(ax, 11, 27.4, 2, 2, WAITING)
    words(ax, 13.6, 28.4, "waits, of all time")
    for row, micro in enumerate((16, 32, 64, 128)[:step]):
        y, share = 20.6 - 6.6 * row, 15 / (micro + 15)
        words(ax, 7, y + 2.2, f"m = {micro}", ha="right", weight="bold" if not row else "normal")
        bar(ax, 7.8, y, 21 * (1 - share), 4.4, COMPUTE)
        bar(ax, 7.8 + 21 * (1 - share), y, 21 * share, 4.4, WAITING)
        words(ax, 29.4, y + 2.2, _percent(share), weight="bold", size=BIG)
    return ax.figure


@steps(range(1, 5))
def four_ideas(step: int) -> Figure:
    """The four ideas of the chapter, one after the other."""
    ax = sheet(65, 27, (6.5, 2.7))
    titles = ("smaller\nstages", "a backward\nin two parts", "down and up\nagain: a V",
              "work while\nbytes travel")
    for place, title in enumerate(titles[:step]):
        x = 0.4 + 16.6 * place
        frame(ax, x, 0.4, 14.6, 26.2, WHITE)
        words(ax, x + 1.2, 23.4, str(place + 1), weight="bold", size=LARGE, colour=FAULT)
        words(ax, x + 4, 23.2, title, weight="bold")
        if place < 2:
            whole, colour, halves = (("a stage", FORWARD, "04"), ("B", BACKWARD, "IW"))[place]
            box(ax, x + 2.3, 13, 10, 5, colour, whole)
            for half, name in enumerate(halves):
                box(ax, x + 2.3 + 5.2 * half, 4.6, 4.8, 5, PIPELINE[name] if place else FORWARD, name)
            canvas.arrow(ax, (x + 7.3, 12.6), (x + 7.3, 10), line=2)
        elif place == 2:
            for rank in range(4):
                bar(ax, x + 1.6, 15.6 - 4 * rank, 11.4, 3, WAITING)
            line(ax, *[(x + 3 + 1.3 * at, 17.1 - 4 * (at if at < 4 else 7 - at)) for at in range(8)], wide=2.6,
                 marker="o", markersize=6)
        else:
            for y, name, colours in ((13.4, "computes", (FORWARD, BACKWARD) * 2),
                                     (4.6, "sends", (BACKWARD, FORWARD) * 2)):
                words(ax, x + 1.6, y + 5.4, name)
                for at, colour in enumerate(colours):
                    bar(ax, x + 1.6 + 2.9 * at, y, 2.7, 4, colour)
    return ax.figure


# Section 1: smaller stages


def baseline() -> Figure:
    """1F1B on four ranks with eight micro-batches, the case to be beaten."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.2, "1F1B, four ranks", weight="bold", size=BIG)
    place = timeline(ax, BASE.events, (0.6, 8, 34.8, 18.4), ranks=4, until=33)
    span(ax, place(0, 0)[0], place(33, 0)[0], 4.6, up=0)
    words(ax, 18, 2, f"{BASE.seconds:g} s, of which each rank works 24", ha="center", weight="bold")
    return ax.figure


def nine_seconds() -> Figure:
    """Rank 0's row of the step, then its work and its waiting each in one piece."""
    ax, second = sheet(36, 30), 35 / 33
    words(ax, 0.4, 28.4, "rank 0", weight="bold", size=BIG)
    timeline(ax, [event for event in BASE.events if event.rank == 0], (0.4, 21.4, 35, 5), ranks=1, until=33)
    bar(ax, 0.4, 12.4, second * 24, 5, COMPUTE)
    words(ax, 0.4 + second * 12, 14.9, "works 24 s", ha="center", colour="white", weight="bold", size=BIG)
    bar(ax, 0.4 + second * 24, 12.4, second * 9, 5, WAITING)
    words(ax, 0.4 + second * 28.5, 14.9, "9 s", ha="center", weight="bold", size=BIG)
    for rank in range(3):
        x = 0.4 + second * (24 + 3 * rank)
        bar(ax, x, 5.6, second, 4.4, FORWARD, edgecolor=WHITE)
        bar(ax, x + second, 5.6, 2 * second, 4.4, BACKWARD, edgecolor=WHITE)
        words(ax, x + 1.5 * second, 7.8, "F B", ha="center")
    words(ax, 35.4, 2.8, "through three other ranks and back", ha="right")
    return ax.figure


def dealt() -> list[Figure]:
    """Eight half-size stages that are dealt to four ranks like cards, and the way of a micro-batch through them."""
    return [_dealt(step, (4, 5, 6, 7)) for step in range(1, 4)]


def dealt_in_a_v() -> list[Figure]:
    """Eight half-size stages that are dealt down the ranks and up again, and the way of a micro-batch."""
    return [_dealt(step, (7, 6, 5, 4)) for step in range(1, 4)]


def _dealt(step: int, second: Sequence[int]) -> Figure:
    ax = sheet(36, 30)
    deals = (tuple(range(4)), tuple(second))[:step]
    gone = {stage for deal in deals for stage in deal}
    for stage in range(8):
        rank = next(row.index(stage) for row in (range(4), second) if stage in row)
        left = stage in gone
        box(ax, 0.4 + 4.4 * stage, 24.4, 4, 4.6, WHITE if left else RANKS[rank], "" if left else str(stage), size=BIG,
            edge=canvas.GREY if left else INK)
    for rank in range(4):
        x = 0.4 + 9 * rank
        frame(ax, x, 1.4, 7.6, 19.6)
        words(ax, x + 3.8, 19, f"rank {rank}", ha="center", weight="bold")
        for chunk, deal in enumerate(deals):
            box(ax, x + 1.2, 11.4 - 7.6 * chunk, 5.2, 5.2, RANKS[rank], str(deal[rank]), size=LARGE)
    if step == 3:
        centre = {stage: (0.4 + 9 * rank + 3.8, 14 - 7.6 * chunk) for chunk, deal in enumerate(deals)
                  for rank, stage in enumerate(deal)}
        for stage in range(7):
            (x, y), (to, there) = centre[stage], centre[stage + 1]
            if y == there:
                side = 2.8 if to > x else -2.8
                canvas.arrow(ax, (x + side, y), (to - side, there), line=2.6)
            elif abs(to - x) < 1:
                canvas.arrow(ax, (x, y - 2.8), (to, there + 2.8), line=2.6)
            else:
                line(ax, (x, y - 2.8), (x, 10.3), (to, 10.3), wide=2, linestyle=(0, (2, 1.2)))
                canvas.arrow(ax, (to, 10.4), (to, there + 2.8), line=2.6)
    return ax.figure


def two_chunks() -> Figure:
    """Work and waiting with one stage on a rank, and with two chunks nobody knows yet."""
    ax, second = sheet(36, 30), 34 / 33
    for y, name, waits in ((17.6, "one stage on each rank", 9), (4.4, "two chunks on each rank", 0)):
        words(ax, 1, y + 8, name, weight="bold", size=BIG)
        bar(ax, 1, y, second * 24, 5.6, COMPUTE)
        words(ax, 1 + second * 12, y + 2.8, "works: 1", ha="center", colour="white", weight="bold", size=BIG)
        if waits:
            bar(ax, 1 + second * 24, y, second * waits, 5.6, WAITING)
            words(ax, 1 + second * 28.5, y + 2.8, f"waits:\n{waits / 24:g}", ha="center", weight="bold")
        else:
            words(ax, 27.6, y + 2.8, "?", weight="bold", size=24, colour=FAULT)
    return ax.figure


def round_twice() -> list[Figure]:
    """The way of micro-batch 0 to the last rank and back with one stage on each rank, and with two chunks."""
    return [_round_twice(step) for step in range(2)]


def _round_twice(step: int) -> Figure:
    ax = sheet(36, 30)
    whole, halves = play(one_f_one_b(4, 4)), play(of.interleaved(4, 4, 2), 0.5, 0.5, 0.5)
    for y, name, played in ((16.4, "1F1B", whole), (0.6, "two chunks, in two shades", halves))[:step + 1]:
        words(ax, 0.4, y + 12.4, name, weight="bold")
        place = timeline(ax, played.events, (0.4, y, 35.2, 11), ranks=4, until=21, end=played.seconds)
        _way(ax, place, _of(played, 0, "F"))
        first = min(event.start for event in played.events if event.rank == 3)
        x, level = place(first, 3)
        words(ax, 0.6 if first > 2 else x + 8.6, level, f"{first:g} s" if first > 2 else "", weight="bold")
        if first < 2:
            words(ax, place(played.seconds, 0)[0] + 0.6, y + 5.5, "rank 3 starts\nafter 1.5 s\nhere", weight="bold")
    return ax.figure


def warm_ups() -> Figure:
    """What rank 0 holds with a long and a short warm-up, and what messages add to the step."""
    ax = sheet(36, 30)
    long, short = ([play(of.interleaved(4, 8, 2, short=brief), 0.5, 0.5, 0.5, communication=slow) for slow in (0, 0.1)]
                   for brief in (False, True))
    rows = ((27.8, "rank 0 holds, micro-batches", [one[0].peak_memory[0] for one in (long, short)], 5.5, "{:g}"),
            (12.4, "messages of 0.1 s add", [one[1].seconds - one[0].seconds for one in (long, short)], 3, "{:.1f} s"))
    for top, name, values, most, told in rows:
        words(ax, 0.4, top, name, weight="bold")
        for row, (value, kind, colour) in enumerate(zip(values, ("long", "short"), (FORWARD, canvas.GREY),
                                                        strict=True)):
            y = top - 6 - 5.2 * row
            bar(ax, 0.4, y, 26 * value / most, 4.4, colour)
            words(ax, 1.2, y + 2.2, f"{kind} warm-up", weight="bold")
            words(ax, 1 + 26 * value / most, y + 2.2, told.format(value), weight="bold", size=BIG)
    return ax.figure


def eighths() -> Figure:
    """The step of 1F1B on 16 ranks, and a stage that is cut into eight chunks."""
    ax = sheet(36, 30)
    played = play(one_f_one_b(16, 16))
    words(ax, 0.6, 28.4, f"1F1B: {_percent(played.bubble_share, 1)} idle", weight="bold")
    _busy(ax, played, (0.6, 12.8, 34.8, 14), played.seconds)
    words(ax, 0.6, 9.6, "each rank's stage in eight chunks: ? % idle", weight="bold")
    for chunk in range(8):
        box(ax, 0.6 + 4.4 * chunk, 2, 3.9, 5, FORWARD, str(chunk))
    return ax.figure


def _llama() -> dict:
    """Return the replays of the chapter's section 7: 16 ranks and 16 micro-batches."""
    chunks = as_schedule(of.interleaved(16, 16, 8))
    orders = {"1F1B": one_f_one_b(16, 16), "2 chunks": of.interleaved(16, 16, 2), "ZB-H1": of.zb_h1(16, 16),
              "ZB-V": of.zb_v(16, 16), "8 chunks": chunks, "8, split": split_backward(chunks, range(16))}
    shares = {name: 16 / order.stages for name, order in orders.items()}
    return {name: play(orders[name], share, share, share) for name, share in shares.items()}


def with_eight_chunks() -> Figure:
    """The step of 16 ranks with one stage on each and with eight chunks, to one scale."""
    ax, played = sheet(36, 30), _llama()
    for y, name, told in ((16.2, "1F1B", "1F1B"), (0.4, "8 chunks", "eight chunks")):
        one = played[name]
        words(ax, 0.4, y + 12.6, f"{told}: {one.seconds:.1f} s, {_percent(one.bubble_share, 1)} idle", weight="bold")
        _busy(ax, one, (0.4, y, 35.2, 11.2), 93)
    return ax.figure


# Section 2: a backward in two parts


def two_ranks() -> Figure:
    """Two ranks and three micro-batches, and what rank 0 waits for."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.2, "1F1B: 12 s, of which each rank waits 3", weight="bold")
    place = timeline(ax, TINY.events, (2.8, 7.4, 32.6, 18), ranks=2, until=12, label=_name, share=0.56)
    _ranks(ax, place, 2, 2.2, "")
    for second in (3, 9.5):
        words(ax, *place(second, 0), "?", ha="center", weight="bold", size=20, colour=FAULT)
    canvas.arrow(ax, (place(4, 1)[0], place(4, 1)[1] + 2.9), (place(4, 0)[0], place(4, 0)[1] - 2.9), line=2.2)
    canvas.arrow(ax, (place(10, 1)[0], place(10, 1)[1] + 2.9), (place(10, 0)[0], place(10, 0)[1] - 2.9), line=2.2)
    words(ax, 18, 3.6, "rank 0 waits for gradients", ha="center", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


@steps(range(1, 4))
def two_products(step: int) -> Figure:
    """What a layer computes forward, then for the gradient of its input, then for that of its weights."""
    ax = sheet(65, 27, (6.5, 2.7))
    rows = ((20, "F", "y = x Wᵀ", PIPELINE["F"]), (10.6, "I", "∇x = ∇y W", PIPELINE["I"]),
            (1.2, "W", "∇W = ∇yᵀ x", PIPELINE["W"]))
    greek = {"family": "DejaVu Sans"}
    for y, kind, product, colour in rows[:step]:
        box(ax, 24, y, 17, 6, colour)
        words(ax, 25.6, y + 3, kind, size=LARGE, weight="bold")
        words(ax, 29.6, y + 3, product, size=BIG, **greek)
    canvas.arrow(ax, (14, 23), (23.6, 23), line=2.6, colour=BLUE_WORDS)
    canvas.arrow(ax, (41.4, 23), (51, 23), line=2.6, colour=BLUE_WORDS)
    words(ax, 13.4, 23, "x, from the\nrank before", ha="right")
    words(ax, 51.6, 23, "y, to the\nnext rank")
    if step > 1:
        canvas.arrow(ax, (51, 13.6), (41.4, 13.6), line=2.6, colour=BACKWARD)
        canvas.arrow(ax, (23.6, 13.6), (14, 13.6), line=2.6, colour=BACKWARD)
        words(ax, 51.6, 13.6, "∇y", size=BIG, **greek)
        words(ax, 13.4, 13.6, "the rank before\nis waiting for it", ha="right", weight="bold", colour=FAULT)
    if step > 2:
        canvas.arrow(ax, (51, 12.6), (41.4, 5), line=2.6, colour=BACKWARD)
        canvas.arrow(ax, (23.6, 4.2), (14, 4.2), line=2.6, colour=BACKWARD)
        words(ax, 13.4, 4.2, "nobody waits:\nfor the optimizer", ha="right", weight="bold", colour=COMPUTE)
        words(ax, 51.6, 4.2, "till then x and this\ngradient stay\nin memory")
    return ax.figure


def two_calls() -> Figure:
    """Four layers, a first call that goes back to x, and a second one for the weights."""
    ax = sheet(36, 30)
    for y, name in ((18, "first call: the gradient of x"), (2, "second call: those of the weights")):
        words(ax, 1, y + 9.6, name, weight="bold", size=BIG)
        for layer in range(4):
            box(ax, 4 + 7.2 * layer, y + 1.6, 5.4, 5, FORWARD, f"layer {layer}")
    for layer in range(4):
        canvas.arrow(ax, (4 + 7.2 * layer + 6.9, 22.1), (4 + 7.2 * layer + 5.5, 22.1), line=2.6, colour=BACKWARD)
    words(ax, 1.4, 22.1, "x", weight="bold", size=BIG)
    canvas.arrow(ax, (3.9, 22.1), (2.6, 22.1), line=2.6, colour=BACKWARD)
    words(ax, 34.4, 22.1, "y", ha="center", weight="bold", size=BIG)
    words(ax, 18, 16.4, "4 products, as many as a forward", ha="center")
    words(ax, 18, 1.6, "? products", ha="center", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


def walks_again() -> Figure:
    """The products of both calls, layer by layer: the second one walks back through three layers again."""
    ax = sheet(36, 30)
    for layer in range(4):
        words(ax, 11.3 + 6 * layer, 28.4, f"layer {layer}", ha="center")
    rows = ((21, "forward", "FFFF", FORWARD, "4"), (14, "first call", "IIII", PIPELINE["I"], "4"),
            (7, "second", " III", FAULT, "3"), (1, "call", "WWWW", PIPELINE["W"], "+ 4"))
    for y, name, kinds, colour, told in rows:
        words(ax, 7.6, y + 2.4, name, ha="right", weight="bold")
        for layer, kind in enumerate(kinds):
            if kind != " ":
                box(ax, 8.8 + 6 * layer, y, 5, 4.8, colour, kind, size=BIG)
        words(ax, 35.8, y + 2.4, told, ha="right", weight="bold", size=BIG)
    return ax.figure


@steps(range(2))
def h1_on_two(step: int) -> Figure:
    """Two ranks with 1F1B, and with ZB-H1."""
    ax = sheet(36, 30)
    for y, name, played in ((16.6, "1F1B: 12 s", TINY), (1, "ZB-H1: 10 s", TINY_H1))[:step + 1]:
        words(ax, 0.4, y + 12, name, weight="bold", size=BIG)
        place = timeline(ax, played.events, (2.6, y, 33, 10.4), ranks=2, until=12, end=played.seconds, label=_name)
        _ranks(ax, place, 2, 2, "")
    return ax.figure


@steps(range(3))
def six_seconds(step: int) -> Figure:
    """1F1B and ZB-H1 on four ranks, then the way back of the last micro-batch and the Ws that are left."""
    ax = sheet(65, 27, (6.5, 2.7))
    for y, name, played in ((14.2, "1F1B", BASE), (0.2, "ZB-H1", H1))[:min(step, 1) + 1]:
        place = timeline(ax, played.events, (7, y, 53, 12.6), ranks=4, until=33, end=played.seconds, label=_micro)
        words(ax, 0.2, y + 6.5, name, weight="bold", size=BIG)
        words(ax, place(played.seconds, 0)[0] + 0.7, y + 6.5, f"{played.seconds:g} s", weight="bold", size=BIG)
        if step == 2:
            back = _of(played, 7, "BI")
            _way(ax, place, back)
            if played is H1:
                for rank in range(4):
                    last = max(event.end for event in played.events if event.rank == rank and event.kind == "I")
                    end = max(event.end for event in played.events if event.rank == rank)
                    (x, level), (to, _) = place(last, rank), place(end, rank)
                    bar(ax, x, level - 1.45, to - x, 2.9, "none", edgecolor=INK, linewidth=2.4, zorder=5)
                words(ax, 53, y + 3.4, "framed: Ws\nthat waited", weight="bold")
    return ax.figure


def saved() -> Figure:
    """What a rank of four waits for in 1F1B and in ZB-H1, in pieces of F, I and W."""
    ax = sheet(36, 30)
    words(ax, 0.4, 28.2, f"1F1B: {BASE.seconds - 24:g} s of waiting", weight="bold")
    for rank in range(3):
        for at, kind in enumerate("FIW"):
            box(ax, 0.4 + 3.9 * (3 * rank + at), 20.4, 3.6, 5.4, PIPELINE[kind], kind)
    words(ax, 0.4, 14.6, f"ZB-H1: {H1.seconds - 24:g} s", weight="bold")
    for rank in range(3):
        for at, kind in enumerate("FI"):
            box(ax, 0.4 + 3.9 * (2 * rank + at), 7, 3.6, 5.4, PIPELINE[kind], kind)
        box(ax, 12.1 + 3.9 * rank, 1, 3.6, 5.4, PIPELINE["W"], "W")
    words(ax, 24.6, 3.7, "work that fills\nhalf of it", weight="bold")
    return ax.figure


# Section 3: never a pause


def full_memory() -> Figure:
    """ZB-H1, with the pause of rank 0 and what it holds then."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.2, "ZB-H1: rank 0 pauses, its memory is full", weight="bold")
    place = timeline(ax, H1.events, (0.6, 12, 34.8, 14.4), ranks=4, until=27)
    (left, level), (right, _) = place(4, 0), place(7, 0)
    bar(ax, left, level - 1.6, right - left, 3.2, "none", edgecolor=FAULT, linewidth=2.6, zorder=5)
    words(ax, 0.6, 9.6, "held in the pause; + would need room")
    for micro in range(7):
        mine = micro < 4
        box(ax, 0.6 + 4.9 * micro, 1.4, 4.4, 5.6, canvas.ACTIVATIONS if mine else WHITE, str(micro) if mine else "+",
            edge=INK if mine else canvas.GREY)
    return ax.figure


def seven_held() -> Figure:
    """ZB-H1's step and how many micro-batches rank 0 holds, and how ZB-H2's begins."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.2, "ZB-H1: 27 s, holds 4", weight="bold", size=BIG)
    timeline(ax, H1.events, (0.6, 15.8, 34.8, 11), ranks=4, until=27)
    words(ax, 0.6, 12, "ZB-H2: ? s, holds 7", weight="bold", size=BIG)
    timeline(ax, [event for event in H2.events if event.end <= 7], (0.6, 1, 34.8, 9.4), ranks=4, until=27, end=7)
    words(ax, 11, 5.7, "… ?", weight="bold", size=24, colour=FAULT)
    return ax.figure


@steps(range(2))
def moved(step: int) -> Figure:
    """Two ranks with ZB-H1 and with ZB-H2: rank 0's pause has moved to the end."""
    ax = sheet(36, 30)
    for y, name, played, wait in ((16.6, "two ranks, ZB-H1", TINY_H1, 2), (1, "ZB-H2", TINY_H2, 9))[:step + 1]:
        words(ax, 0.4, y + 12, f"{name}: {played.seconds:g} s", weight="bold", size=BIG)
        place = timeline(ax, played.events, (2.6, y, 33, 10.4), ranks=2, until=10, end=played.seconds, label=_name)
        _ranks(ax, place, 2, 2, "")
        (left, level), (right, _) = place(wait, 0), place(wait + 1, 0)
        bar(ax, left, level - 2.2, right - left, 4.4, "none", edgecolor=FAULT, linewidth=2.8, zorder=5)
    return ax.figure


@steps(range(3))
def own_spans(step: int) -> Figure:
    """ZB-H2 with the waits at both ends, and the next step that fits into them."""
    ax = sheet(65, 27, (6.5, 2.7))
    area = (6.6, 4.4, 57.4, 18.4)
    place = timeline(ax, H2.events, area, ranks=4, until=51, end=27)
    _ranks(ax, place, 4, 6)
    span(ax, place(0, 0)[0], place(24, 0)[0], 24.4, f"rank 0's span: {H2.spans[0]:g} s, no pause")
    if step:
        for rank in range(4):
            mine = [event for event in H2.events if event.rank == rank]
            start, end = min(event.start for event in mine), max(event.end for event in mine)
            for left, right in ((0, start), (end, 27)):
                (x, level), (to, _) = place(left, rank), place(right, rank)
                if to > x:
                    bar(ax, x, level - 1.9, to - x, 3.8, "none", edgecolor=INK, linewidth=2.4, zorder=7)
    if step == 1:
        words(ax, place(28, 0)[0], 13.6, "framed: the stairs,\nwhich lie in no span", weight="bold", size=BIG)
    if step == 2:
        later = [event._replace(start=event.start + 24, end=event.end + 24) for event in H2.events]
        timeline(ax, later, area, ranks=4, until=51, share=0.84, end=1e-9)
        span(ax, place(24, 0)[0], place(48, 0)[0], 24.4, "the next step: 24 s more")
    words(ax, place(0, 0)[0], 2, "0 s")
    words(ax, place(27, 0)[0], 2, "27 s", ha="center")
    if step == 2:
        words(ax, place(51, 0)[0], 2, "51 s", ha="right")
    return ax.figure


def clipping() -> Figure:
    """When the ranks of ZB-H2 are done, when the norm over all of them is known, and who waits for it."""
    ax, unit = sheet(36, 30), 3.4
    words(ax, 0.4, 28.4, "the end of a step", weight="bold", size=BIG)
    for rank in range(4):
        y = 21.6 - 5 * rank
        done = max(event.end for event in H2.events if event.rank == rank)
        x = 5.6 + unit * (done - 20)
        words(ax, 4.8, y + 1.8, f"rank {rank}", ha="right", size=LETTERS)
        bar(ax, 5.6, y, x - 5.6, 3.6, PIPELINE["W"])
        bar(ax, x, y, 5.6 + unit * 7 - x, 3.6, WAITING)
        words(ax, x - 0.5, y + 1.8, f"{done:g} s", ha="right", weight="bold")
        if done < 26:
            words(ax, (x + 5.6 + unit * 7) / 2, y + 1.8, "waits", ha="center")
    x = 5.6 + unit * 7
    line(ax, (x, 4.8), (x, 26), colour=FAULT, wide=2.6)
    words(ax, x, 2.8, "27 s: the norm is known", ha="right", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


# Section 4: the V


def seven_or_four() -> Figure:
    """What rank 0 holds with ZB-H2 and what it may hold."""
    ax = sheet(36, 30)
    for y, name, count in ((18.4, "ZB-H2 never pauses, and holds 7", 7), (3.4, "without a pause, with 4?", 4)):
        words(ax, 1, y + 8.4, name, weight="bold", size=BIG)
        for micro in range(7):
            mine = micro < count
            bar(ax, 1 + 4.9 * micro, y, 4.4, 6, canvas.ACTIVATIONS if mine else WHITE,
                edgecolor=INK if mine else canvas.GREY, linestyle="-" if mine else "--")
    return ax.figure


@steps(range(3))
def v_step(step: int) -> Figure:
    """ZB-V's step with the way of micro-batch 0 forward, then back, and the waits that are left."""
    ax = sheet(65, 27, (6.5, 2.7))
    place = timeline(ax, V.events, (6.8, 4.2, 57.4, 22.4), ranks=4, until=V.seconds, share=0.8)
    _ranks(ax, place, 4, 6)
    ways = (_of(V, 0, "F"), _of(V, 0, "I"))
    _way(ax, place, ways[0] + (ways[1] if step else []))
    words(ax, place(0, 0)[0], 1.8, "line: the way of micro-batch 0; the other shade: a second chunk")
    if step == 2:
        for rank in range(4):
            mine = [event for event in V.events if event.rank == rank]
            start, end = min(event.start for event in mine), max(event.end for event in mine)
            for left, right in ((0, start), (end, V.seconds)):
                (x, level), (to, _) = place(left, rank), place(right, rank)
                if to > x + 0.01:
                    bar(ax, x, level - 2.25, to - x, 4.5, "none", edgecolor=FAULT, linewidth=2.6, zorder=7)
        words(ax, 64.2, 1.8, f"framed: idle, {_percent(V.bubble_share)}", ha="right", colour=FAULT, weight="bold")
    return ax.figure


@steps(range(2))
def kept(step: int) -> Figure:
    """How long each rank keeps micro-batch 0 in 1F1B, and with each of its two chunks in ZB-V."""
    ax = sheet(65, 26, (6.5, 2.6))
    for x, name, played, wide in ((7, "1F1B: one stage on each rank", BASE, 24),
                                  (37.4, "ZB-V: two halves, on average", V, 20))[:step + 1]:
        words(ax, x, 24.2, name, weight="bold", size=BIG)
        for rank in range(4):
            y = 17.4 - 5.6 * rank
            if not x > 8:
                words(ax, 6.2, y + 2.2, f"rank {rank}", ha="right")
            times = []
            for chunk in range(2 if played is V else 1):
                mine = [event for event in played.events if event.rank == rank and event.action.microbatch == 0
                        and event.action.chunk == chunk]
                times.append(max(event.end for event in mine) - min(event.start for event in mine))
            high = 4.4 / len(times)
            for chunk, seconds in enumerate(times):
                bar(ax, x, y + high * (len(times) - 1 - chunk), wide * seconds / 12, high - 0.15,
                    (canvas.ACTIVATIONS, "#AAD9F4")[chunk])
            told = f"{times[0]:g} s" if len(times) == 1 else f"{sum(times) / 2:g} s"
            words(ax, x + wide * max(times) / 12 + 0.6, y + 2.2, told, weight="bold", size=BIG)
    return ax.figure


# Section 5: hiding messages


def tokens_travel() -> Figure:
    """A layer of a mixture of experts: the GPU waits while its tokens go to other GPUs and back."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.2, "one layer of a mixture of experts", weight="bold", size=BIG)
    for y, name in ((22.6, "computes"), (12.6, "network")):
        words(ax, 0.6, y, name)
    steps = (("atten-\ntion", FORWARD), ("dispatch", None), ("experts", FORWARD), ("combine", None))
    for place, (name, colour) in enumerate(steps):
        x = 0.6 + 8.8 * place
        if colour:
            box(ax, x, 15.4, 8.4, 5.6, colour, name)
        else:
            box(ax, x, 15.4, 8.4, 5.6, WAITING, "waits")
            box(ax, x, 5.4, 8.4, 5.6, canvas.FACES[5], name)
    words(ax, 18, 2, "the tokens go to their experts and back", ha="center", weight="bold")
    return ax.figure


STEPS = ("attention", "dispatch", "experts", "combine")


@steps(range(2))
def paired(step: int) -> Figure:
    """A forward and a backward of a layer one after the other, and paired in one block."""
    ax, wide = sheet(65, 28, (6.5, 2.8)), 6.9
    forward = [(name, FORWARD, "F9", place % 2) for place, name in enumerate(STEPS)]
    backward = [(name, BACKWARD, "B5", place % 2) for place, name in reversed(list(enumerate(STEPS)))]
    rows = ((15.6, "one after the other", [*enumerate(forward + backward)], 8),
            (0.2, "as one block FB", [*enumerate(forward), *enumerate(backward)], 4))
    for y, name, parts, until in rows[:step + 1]:
        for lane, told in enumerate(("computes", "network")):
            words(ax, 8.6, y + 7.2 - 4.8 * lane, told, ha="right")
            for at in range(until):
                box(ax, 9.4 + wide * at, y + 5 - 4.8 * lane, wide - 0.3, 4.5, WAITING)
        for at, (part, colour, what, lane) in parts:
            box(ax, 9.4 + wide * at, y + 5 - 4.8 * lane, wide - 0.3, 4.5, colour, f"{what}\n{part}")
        words(ax, 9.4, y + 11.2, f"{name}: {until} units", weight="bold", size=BIG)
    return ax.figure


def with_or_without() -> Figure:
    """A forward and a backward of ZB-V, of which half is exchanges, and a block FB in which they are hidden."""
    ax = sheet(36, 30)
    for y, name, hidden in ((17.4, "ZB-V: 3 s for F, I and W", False), (2, "an FB: 1.5 s", True)):
        words(ax, 1, y + 10, name, weight="bold", size=BIG)
        for at, (wide, colour, told) in enumerate(((17, COMPUTE, "computes"), (17, NETWORK, "exchanges"))):
            x, low = (1, y + 4 - 4 * at) if hidden else (1 + 17 * at, y + 2)
            bar(ax, x, low, wide, 3.8 if hidden else 5.4, colour, edgecolor=WHITE, linewidth=1.4)
            words(ax, x + wide / 2, low + (1.9 if hidden else 2.7), told, ha="center", colour="white", weight="bold")
    return ax.figure


def in_a_pair() -> Figure:
    """DualPipe-V's step with its pairs in yellow, and how many forwards are paired with more micro-batches."""
    ax = sheet(36, 30)
    orders = {micro: of.dual_pipe_v(4, micro) for micro in (8, 16, 64)}
    played = play(orders[16], **EXCHANGES, overlapped=1.5)
    words(ax, 0.4, 28.6, "16 micro-batches; yellow: pairs", weight="bold")
    timeline(ax, played.events, (0.4, 16.6, 35.2, 10.4), ranks=4, until=played.seconds)
    words(ax, 0.4, 14, "forwards in a pair")
    words(ax, 35.6, 14, "times as fast", ha="right")
    for row, (micro, order) in enumerate(orders.items()):
        y = 8.4 - 4.2 * row
        share = sum(action.kind == "FB" for rank in order.actions for action in rank) / (4 * 2 * micro)
        faster = (play(of.zb_v(4, micro), **EXCHANGES).seconds
                  / play(order, **EXCHANGES, overlapped=1.5).seconds)
        words(ax, 6, y + 1.7, f"m = {micro}", ha="right")
        bar(ax, 6.8, y, 20, 3.4, WAITING)
        bar(ax, 6.8, y, 20 * share, 3.4, canvas.YELLOW)
        words(ax, 7.4, y + 1.7, _percent(share), weight="bold")
        words(ax, 35.6, y + 1.7, f"{faster:.2f}", ha="right", weight="bold", size=BIG)
    return ax.figure


# Section 6: the price list


def two_prices() -> Figure:
    """Empty axes: a bubble over a memory, and where one wants to be."""
    ax = sheet(36, 30)
    canvas.arrow(ax, (4, 4), (4, 28), line=2)
    canvas.arrow(ax, (4, 4), (34, 4), line=2)
    words(ax, 5, 27.4, "bubble", weight="bold", size=BIG)
    words(ax, 34, 1.8, "memory", weight="bold", size=BIG, ha="right")
    canvas.arrow(ax, (20, 18), (8, 7), line=5, colour=COMPUTE)
    words(ax, 21, 20, "better", weight="bold", size=BIG, colour=COMPUTE)
    return ax.figure


LISTED = (("GPipe", of.gpipe), ("1F1B", one_f_one_b), ("interleaved", lambda p, m: of.interleaved(p, m, 2)),
          ("ZB-H1", of.zb_h1), ("ZB-H2", of.zb_h2), ("ZB-V", of.zb_v), ("DualPipe-V", of.dual_pipe_v))


@steps((2, 3, 4, 5, 6, 7))
def price_list(step: int) -> Figure:
    """The bubble of seven schedules over the micro-batches that they hold, one after the other."""
    ax = axes((6.5, 2.9))
    told = []
    for place, (name, order) in enumerate(LISTED[:step]):
        row = row_of(order(4, 8))
        best = name == "ZB-V"
        ax.plot(row["activations"], 100 * row["bubble"], "o", markersize=13, color=COMPUTE if best else BLUE_WORDS)
        left = name in ("ZB-H1", "1F1B", "ZB-V")
        ax.annotate(f"{name}, {row['cuts']} cuts", (row["activations"], 100 * row["bubble"]), (-11 if left else 11, 0),
                    textcoords="offset points", va="center", ha="right" if left else "left", fontsize=BIG,
                    weight="bold" if best or place == step - 1 else "normal")
        told.append(f"{name}: {row['bubble']:.1%} idle, {row['activations']:g} held, {row['cuts']} cuts")
    ax.set(xlim=(2, 9.5), ylim=(0, 31), xticks=(4, 5, 6, 7, 8), yticks=(0, 10, 20, 30))
    ax.set_xlabel("micro-batches that a rank holds", fontsize=LETTERS)
    ax.set_title("% of all time idle; cuts: messages of a micro-batch, one way", fontsize=LETTERS, loc="left")
    canvas.say(ax, "; ".join(told))
    return ax.figure


def cuts_crossed() -> Figure:
    """The messages of a micro-batch in ZB-H2 and in ZB-V."""
    ax = sheet(36, 30)
    for y, name, up in ((18.4, "ZB-H2: 3 messages", False), (1.4, "ZB-V: 6 messages", True)):
        words(ax, 1, y + 9.6, name, weight="bold", size=BIG)
        for rank in range(4):
            x = 1 + 9.4 * rank
            box(ax, x, y + 1, 5.4, 6.4, RANKS[rank], str(rank), size=BIG)
            if rank < 3:
                canvas.arrow(ax, (x + 5.7, y + (5.6 if up else 4.2)), (x + 9.1, y + (5.6 if up else 4.2)), line=2.8,
                             colour=NETWORK)
                if up:
                    canvas.arrow(ax, (x + 9.1, y + 2.8), (x + 5.7, y + 2.8), line=2.8, colour=NETWORK)
    return ax.figure


def who_wins() -> Figure:
    """The bubbles of ZB-V and ZB-H2 over the price of a message."""
    ax, prices = axes(BESIDE), [place / 40 for place in range(13)]
    lines = {}
    for name, order, colour in (("ZB-V", of.zb_v(4, 8), COMPUTE), ("ZB-H2", of.zb_h2(4, 8), BLUE_WORDS)):
        lines[name] = [100 * row_of(order, communication=price)["bubble"] for price in prices]
        ax.plot(prices, lines[name], "-", color=colour, linewidth=3.4)
    ax.text(0.02, 4.4, "ZB-V", fontsize=BIG, weight="bold", color=COMPUTE)
    ax.text(0.02, 12.2, "ZB-H2", fontsize=BIG, weight="bold", color=BLUE_WORDS)
    meet = next(price for price, here, there in zip(prices, lines["ZB-V"], lines["ZB-H2"], strict=True)
                if here > there - 1e-9)
    ax.axvline(meet, color=FAULT, linewidth=2, linestyle=(0, (4, 2)))
    ax.text(meet + 0.008, 1.4, f"{meet:.2f} F", fontsize=BIG, color=FAULT, weight="bold")
    ax.set(xlim=(0, 0.3), ylim=(0, 20), xticks=(0, 0.1, 0.2, 0.3), yticks=(0, 10, 20))
    ax.set_xticklabels(["0", "0.1 F", "0.2 F", "0.3 F"])
    ax.set_xlabel("a message takes", fontsize=LETTERS)
    ax.set_title("% of all time idle", fontsize=LETTERS, loc="left")
    return ax.figure


# Section 7: back to Llama 3


def so_far() -> Figure:
    """The idle shares of Llama 3's pipeline so far, and a question mark for ZB-V."""
    ax = sheet(36, 30)
    words(ax, 1, 28.2, "idle, 16 ranks, 16 micro-batches", weight="bold")
    played = _llama()
    for row, (name, told) in enumerate((("1F1B", "1F1B"), ("8 chunks", "eight chunks"), ("ZB-V", "ZB-V"))):
        y, share = 17.4 - 8.2 * row, played[name].bubble_share
        words(ax, 1, y + 6.2, told)
        if name == "ZB-V":
            words(ax, 1, y + 2.2, "?", weight="bold", size=24, colour=FAULT)
            continue
        bar(ax, 1, y, 26 * share / 0.484, 4.4, canvas.GREY)
        words(ax, 1.8 + 26 * share / 0.484, y + 2.2, _percent(share, 1), weight="bold", size=BIG)
    return ax.figure


def seconds_of_waiting() -> Figure:
    """How long a rank of Llama 3's pipeline waits with each of six orders."""
    ax, played = sheet(36, 30), _llama()
    words(ax, 0.4, 28.6, "seconds of waiting beside 48 of work", weight="bold")
    for row, (name, one) in enumerate(played.items()):
        y, waits = 22.4 - 4.4 * row, one.seconds - 48
        words(ax, 8.4, y + 1.7, name, ha="right", weight="bold" if name == "ZB-V" else "normal")
        bar(ax, 9.2, y, 22 * waits / 45, 3.4, COMPUTE if name == "ZB-V" else canvas.GREY)
        words(ax, 9.8 + 22 * waits / 45, y + 1.7, f"{waits:.1f}".removesuffix(".0"), weight="bold")
    return ax.figure


@steps(range(1, 4))
def what_is_left(step: int) -> Figure:
    """Llama 3's step with 1F1B, with eight chunks, and with their backwards split as well."""
    ax, played = sheet(65, 29, (6.5, 2.9)), _llama()
    rows = (("1F1B", "1F1B:\n45 s wait"), ("8 chunks", "eight\nchunks"), ("8, split", "and split\nbackwards"))
    for row, (name, told) in enumerate(rows[:step]):
        y, one = 20 - 9.8 * row, played[name]
        words(ax, 9.6, y + 4.4, told, ha="right", weight="bold")
        _busy(ax, one, (10.4, y, 53.6, 8.8), 93)
        if row:
            words(ax, 11.2 + 53.6 * one.seconds / 93, y + 4.4, f"{one.seconds - 48:.1f} s of waiting", weight="bold",
                  size=BIG)
    return ax.figure


def first_forward() -> Figure:
    """When the last rank begins, with a stage on each rank and with chunks."""
    ax = sheet(36, 30)
    for y, name, played, until in ((17, "1F1B: p − 1 forwards of a stage", BASE, 8),
                                   (1, "interleaving: of a chunk", LOOP, 8)):
        words(ax, 0.4, y + 11.6, name, weight="bold", size=LETTERS)
        shown = [event for event in played.events if event.end <= until]
        place = timeline(ax, shown, (0.4, y, 35.2, 10.2), ranks=4, until=until, end=until)
        first = min(event.start for event in played.events if event.rank == 3)
        (left, level), (right, _) = place(0, 3), place(first, 3)
        bar(ax, left, level - 1.1, right - left, 2.2, "none", edgecolor=FAULT, linewidth=2.8, zorder=6)
    return ax.figure
