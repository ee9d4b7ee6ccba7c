"""The ring all-reduce, drawn: beside the star on one axis of time, one chunk's journey, all chunks step by step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.plots.canvas import (
    FACES,
    GREY,
    INK,
    LIMIT,
    RECEIVED,
    SENT,
    SMALLEST,
    TITLE,
    WAITING,
    WIDTH,
    Picture,
    arrow,
    box,
    edge_of,
    say,
    sheet,
)
from course_lib.plots.chunks import shards_text

RANKS = 4  # of the drawings
ADDED, COPIED = "added", "copied"  # what becomes of a chunk that comes in


# Star and ring: who talks to whom, and when


def star_and_ring() -> Axes:
    """Draw an all-reduce on four ranks through rank 0 and by a ring, on one axis of time; latency is left out.

    Returns the first of four Axes: on the left who talks to whom, on the right when.
    """
    figure, ((star, star_time), (ring, ring_time)) = plt.subplots(
        2, 2, figsize=(WIDTH, 5.2), width_ratios=[1, 2.25], layout="constrained", FigureClass=Picture
    )
    figure.get_layout_engine().set(hspace=0.07)
    _draw_star(star)
    _draw_ring(ring)
    _draw_both_times(star_time, ring_time)
    star_time.set_title("Six whole tensors, one message at a time", fontsize=TITLE, loc="left")
    ring_time.set_title("Six steps of a quarter each, four messages at a time", fontsize=TITLE, loc="left")
    return star


def star_and_ring_times() -> Axes:
    """Draw only when each rank sends in both, half as wide: for a phone."""
    _, (star_time, ring_time) = plt.subplots(
        2, 1, figsize=(WIDTH / 2, 6.4), layout="constrained", FigureClass=Picture)  # fmt: skip
    _draw_both_times(star_time, ring_time, "\n")
    star_time.set_title("Star: six whole tensors,\none message at a time", fontsize=TITLE, loc="left")
    ring_time.set_title("Ring: six steps of a quarter each,\nfour messages at a time", fontsize=TITLE, loc="left")
    return star_time


def _draw_both_times(star_time: Axes, ring_time: Axes, between: str = " ") -> None:
    """Draw when each rank sends in the star and in the ring; `between` stands where a narrow page needs a new line."""
    through_one = _star_messages()
    around = ring_messages(RANKS)
    _draw_times(star_time, through_one)
    _draw_times(ring_time, around)
    star_time.tick_params(labelbottom=False)
    halves = f"upper half of a row: what a rank sends;{between}lower half: what it receives"
    star_time.set_xlabel(halves, fontsize=SMALLEST)
    ring_time.set_xlabel("time (1 = one whole tensor through one port)", fontsize=SMALLEST)
    idle = ((1.5, -0.2), (4.5, 0.2), (2, 1), (5, 1), (0.5, 2), (3, 2), (5.5, 2), (1, 3), (4, 3))  # of these rows all
    for x, y in idle:
        star_time.text(x, y + 0.01, "idle", ha="center", va="center", fontsize=SMALLEST)
    taken, instead = around[-1][2], through_one[-1][2]
    ring_time.axvline(taken, color=INK, linewidth=1.6)
    said = f"done after {taken:g}{between}instead of {instead:g}:\n{instead / taken:g} times as fast"
    ring_time.text(taken + 0.15, 1.2, said, ha="left", va="center", fontsize=TITLE, weight="bold")
    ring_time.text(taken + 0.15, 2.8, f"a digit is the{between}number of a chunk", ha="left", va="center",
                   fontsize=SMALLEST)  # fmt: skip
    say(star_time, f"rank 0 receives from ranks 1, 2 and 3 and then sends to each of them, one message at a time, "
                   f"until time {instead:g}; the others send once, wait, and receive once")
    say(ring_time, f"every rank sends and receives without a pause until time {taken:g}, {instead / taken:g} times as "
                   "early. Chunks sent: " + "; ".join(_sent_by(around, rank) for rank in range(RANKS)))


def ring_messages(ranks: int) -> list[tuple[int, float, float, int]]:
    """Return (sender, start, end, chunk) of each message of a ring all-reduce, in times of a whole tensor.

    In step s rank r sends chunk r - 1 - s: after P - 1 steps rank r holds the sum of chunk r, and sends that next.
    """
    return [
        (rank, step / ranks, (step + 1) / ranks, (rank - 1 - step) % ranks)
        for step in range(2 * (ranks - 1))
        for rank in range(ranks)
    ]


def _sent_by(messages: list, rank: int) -> str:
    return f"rank {rank} " + ", ".join(str(chunk) for sender, *_, chunk in messages if sender == rank)


def _star_messages() -> list[tuple[int, float, float, int]]:
    """Return (sender, start, end, the other rank than 0) of each message through rank 0."""
    others = range(1, RANKS)
    into = [(other, other - 1.0, float(other), other) for other in others]
    return into + [(0, RANKS - 2.0 + other, RANKS - 1.0 + other, other) for other in others]


def _draw_times(ax: Axes, messages: list[tuple[int, float, float, int]]) -> None:
    """Draw who sends and receives when: sends in the upper half of a row, receives in the lower half."""
    around = messages[-1][2] < RANKS
    end = max(message[2] for message in messages)
    for rank in range(RANKS):
        ax.add_patch(Rectangle((0, rank - 0.4), end, 0.8, facecolor=WAITING))
    for sender, start, until, number in messages:
        receiver = (sender + 1) % RANKS if around else 0 if sender else number
        for rank, colour, half in ((sender, SENT, 0), (receiver, RECEIVED, 1)):
            top = rank - 0.4 + 0.4 * half
            ax.add_patch(Rectangle((start, top), until - start, 0.4, facecolor=colour, edgecolor=edge_of(colour)))
            words = str(number) if around else f"from {sender}" if half else f"to {receiver}"
            ax.text((start + until) / 2, top + 0.21, words, ha="center", va="center", fontsize=SMALLEST)
    ax.set(xlim=(0, 6.02), ylim=(RANKS - 0.5, -0.5))
    ax.set_yticks(range(RANKS), [f"rank {rank}" for rank in range(RANKS)])
    ax.tick_params(labelsize=SMALLEST, length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_star(ax: Axes) -> None:
    sheet(0, 10, 12.2, ax)
    ax.text(0.1, 10.3, "Star: every message\npasses rank 0's port", fontsize=TITLE)
    box(ax, 3.5, 7.2, 3.0, 1.7, FACES[0], "rank 0", edge=LIMIT, line=2.4)
    for rank, x in enumerate((0.1, 3.5, 6.9), start=1):
        box(ax, x, 1.9, 3.0, 1.7, FACES[rank], f"rank {rank}")
        at = 5.0 + 1.0 * (rank - 2)
        arrow(ax, (x + 1.1, 3.6), (at - 0.25, 7.2), colour=SENT, line=1.8)
        arrow(ax, (at + 0.25, 7.2), (x + 1.9, 3.6), colour=SENT, line=1.8)
    ax.text(5.0, 0.6, "three tensors in, three out", ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "Star: every message passes rank 0's port. Ranks 1, 2 and 3 each send a whole tensor to rank 0, and each "
            "gets a whole total back")


def _draw_ring(ax: Axes) -> None:
    sheet(0, 10, 12.2, ax)
    ax.text(0.1, 10.3, "Ring: every port carries\nequally much", fontsize=TITLE)
    for rank, (x, y) in enumerate(((0.1, 7.0), (6.9, 7.0), (6.9, 2.2), (0.1, 2.2))):
        box(ax, x, y, 3.0, 1.7, FACES[rank], f"rank {rank}")
    sides = (  # from, to, where its words stand
        ((3.1, 7.85), (6.9, 7.85), (5.0, 8.25)), ((8.4, 7.0), (8.4, 3.9), (6.75, 5.3)),
        ((6.9, 3.05), (3.1, 3.05), (5.0, 3.45)), ((1.6, 3.9), (1.6, 7.0), (3.25, 5.3)),
    )  # fmt: skip
    for (_, _, _, chunk), (start, end, words) in zip(ring_messages(RANKS)[:RANKS], sides, strict=True):
        arrow(ax, start, end, colour=SENT, line=1.8)
        ax.text(*words, f"chunk {chunk}", ha="center", fontsize=SMALLEST, color=INK)
    ax.text(5.0, 0.6, "the first of six steps", ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "Ring: every port carries equally much. In the first of six steps " + ", ".join(
        f"rank {rank} sends chunk {chunk} to rank {(rank + 1) % RANKS}"
        for rank, _, _, chunk in ring_messages(RANKS)[:RANKS]))


# Chunks


def chunk_journey() -> Axes:
    """Draw the journey of chunk 0 on four ranks: three hops to be added up, three more to be handed out."""
    ax = sheet(2.2, 7 * 3.0 - 0.5, 7.0)
    ax.set_title("Three hops add up chunk 0, and three more hand the sum out", fontsize=TITLE, loc="left")
    parts: list[int] = []
    told = []
    for place in range(2 * RANKS - 1):
        rank, x = (1 + place) % RANKS, 0.1 + 3.0 * place
        parts = parts + [rank] if place < RANKS else parts
        box(ax, x, 2.6, 1.8, 3.3, FACES[rank], line=2.6 if len(parts) == RANKS else 1.0)
        ax.text(x + 0.9, 5.05, f"rank {rank}", ha="center", va="center", fontsize=SMALLEST, color=INK)
        _train(ax, x + 0.1, 3.0, 0.4, 1.3, parts, RANKS)
        told.append(f"rank {rank} holds {'+'.join(map(str, sorted(parts)))}")
        if place:
            arrow(ax, (x - 1.2, 4.4), (x, 4.4), colour=SENT, line=2.0)
            ax.text(x - 0.6, 4.65, "add" if place < RANKS else "copy", ha="center", fontsize=SMALLEST, color=INK)
    first = 0.1 + 3.0 * (RANKS - 1)  # where the sum is complete
    ax.text(first, 6.2, "thick frame: the sum is complete", fontsize=SMALLEST, color=INK)
    halves = ((0.1, 10.9, "reduce-scatter: every rank on the way adds its part"),
              (11.3, 19.9, "all-gather: the sum is passed on"))  # fmt: skip
    for left, right, words in halves:
        ax.plot([left, left, right, right], [2.1, 1.7, 1.7, 2.1], color=GREY, linewidth=1.4)
        ax.text((left + right) / 2, 0.75, words, ha="center", fontsize=SMALLEST, color=INK)
    say(ax, "chunk 0, hop by hop: " + ", ".join(told) + "; three hops add, three copy")
    return ax


def _train(ax: Axes, x: float, y: float, width: float, height: float, parts: Collection, ranks: int) -> None:
    """Draw a place for each rank's part, filled where it is in the sum."""
    for rank in sorted(range(ranks), key=lambda rank: rank in parts):  # empty places first: frames stay whole
        there = list(parts).count(rank)
        look = {"facecolor": FACES[rank % len(FACES)] if there else "white", "edgecolor": INK if there else "#CCCCCC"}
        ax.add_patch(Rectangle((x + rank * width, y), width, height, linewidth=0.9, **look))
        words = str(rank) if there < 2 else f"{there}×"
        if there:
            ax.text(x + (rank + 0.5) * width, y + height / 2, words, ha="center", va="center", fontsize=SMALLEST)


def ring_step(steps: Sequence, step: int, name: str = "") -> Axes:
    """Draw what each chunk on each rank holds after a step; what came in is framed, with where it came from.

    A chunk that holds every rank's part is complete and has a thick frame.

    `steps[step][rank][chunk]` are the ranks whose part is in it (a text where that is not known), as `ring_steps` and
    `steps_of` of `course_lib.lessons.ring` return them. All steps are drawn in one size.
    """
    step = step % len(steps)  # -1 is the last
    held, before = steps[step], steps[max(step - 1, 0)]
    ranks, chunks = len(held), len(held[0])
    wide, high, left = 3.0, 1.7, 1.6
    ax = sheet(1.35 + 0.56 * ranks, left + wide * chunks, high * ranks + 1.4)
    ax.set_ylim(-0.6, high * ranks + 1.4)
    ax.add_patch(Rectangle((0, -0.6), left + wide * chunks, high * ranks + 2, facecolor="none"))  # keeps the size
    for chunk in range(chunks):
        ax.text(left + wide * chunk + 1.1, high * ranks + 0.55, f"chunk {chunk}", ha="center", fontsize=SMALLEST)
    told, done = [], set()
    for rank, row in enumerate(held):
        y = high * (ranks - 1 - rank) + 0.25
        ax.text(left - 0.25, y + 0.6, f"rank {rank}", ha="right", va="center", fontsize=SMALLEST)
        for chunk, cell in enumerate(row):
            x = left + wide * chunk
            if isinstance(cell, str):
                box(ax, x, y, 2.2, 1.2, "white", cell)
            else:
                _train(ax, x, y, 2.2 / ranks, 1.2, cell, ranks)
                if ranks > 1 and cell == list(range(ranks)):
                    ax.add_patch(Rectangle((x, y), 2.2, 1.2, facecolor="none", edgecolor=INK, linewidth=2.6))
            if cell != before[rank][chunk]:
                source, how = _source(before, held, rank, chunk)
                done.add(how)
                ax.add_patch(Rectangle((x - 0.06, y - 0.08), 2.32, 1.36, facecolor="none", edgecolor=SENT, linewidth=3))
                if source is not None:
                    start = high * (ranks - 1 - source) + 0.85
                    bend = -0.35 if abs(source - rank) == 1 else -0.16
                    arrow(ax, (x + 2.28, start), (x + 2.32, y + 0.45), colour=SENT, line=2.2,
                          bend=bend if source < rank else -bend)  # fmt: skip
                    told.append(f"rank {rank} got chunk {chunk} from rank {source}")
    complete = ranks > 1 and any(cell == list(range(ranks)) for row in held for cell in row)
    frame = "thick frame: the sum is complete" if complete else ""
    ax.text(left, -0.3, frame, va="center", fontsize=SMALLEST)
    when = f"step {step} of {len(steps) - 1}: " if step else "before the first message"
    what = "nothing changed" if step else ""
    if done:
        how = f" and was {next(iter(done))}" if done in ({ADDED}, {COPIED}) else ""
        what = f"framed in pink is what just came in{how}"
    ax.set_title(f"{name}{when}{what}", fontsize=TITLE, loc="left")
    say(ax, "\n".join([*told, shards_text(held)]))
    return ax


def _source(before: Sequence, held: Sequence, rank: int, chunk: int) -> tuple[int | None, str]:
    """Return the neighbour whose chunk explains what came, and whether it was added to what was there or copied."""
    ranks, now, was = len(held), held[rank][chunk], before[rank][chunk]
    for neighbour in ((rank - 1) % ranks, (rank + 1) % ranks):
        came = before[neighbour][chunk]
        if now == came:
            return neighbour, COPIED
        if not isinstance(now, str) and sorted([*came, *was]) == sorted(now):
            return neighbour, ADDED
    return None, ""
