"""Pictures that only the slides of chapter 12 have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from statistics import median

import torch
from kit import (
    ACROSS,
    BIG,
    GREY_WORDS,
    LETTERS,
    MONO,
    PALE,
    axes,
    bar,
    bars,
    box,
    frame,
    line,
    sheet,
    span,
    steps,
    timeline,
    words,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from course_lib.hardware import DGX_H100
from course_lib.planning import Layout, layout_memory, layout_time, plan, published_runs
from course_lib.planning.search import KEPT_FREE
from course_lib.plots import canvas
from course_lib.plots.layouts import KINDS, SHOWN, kind_of, ratio_axis, took
from course_lib.plots.mesh import CONTEXT, DATA, LLAMA, META, PIPELINE, TENSOR
from course_lib.schedules import interleaved, play

WHITE, INK, FAULT, PALE_BLUE = "#FFFFFF", canvas.INK, canvas.LIMIT, canvas.FACES[0]
COMPUTE, WAITING, ACTIVATIONS, WEIGHTS = canvas.COMPUTE, canvas.WAITING, canvas.ACTIVATIONS, canvas.WEIGHTS
OTHER = canvas.GREY  # what is too little for a colour of its own
NVLINK, PORT = 370, 50  # GB/s, as the chapter reckons
BATCH = 2048, 8192  # sequences in a step, and tokens in each
LAYOUTS = {"tp8": META, "tp8-cp2": Layout(8, 2, 16, 64, chunks=8), "tp4-cp4": Layout(4, 4, 16, 64, chunks=8)}
STEPS = {name: layout_time(LLAMA, one, DGX_H100, *BATCH) for name, one in LAYOUTS.items()}
ROOMS = {name: layout_memory(LLAMA, one, *BATCH) for name, one in LAYOUTS.items()}
TURNED = layout_time(LLAMA, replace(META, order=("dp", "cp", "pp", "tp")), DGX_H100, *BATCH)
PIECE = ROOMS["tp8"].weights / 2e9  # billions of parameters on a rank
COMPUTING = STEPS["tp8"].products + STEPS["tp8"].attention + STEPS["tp8"].memory
USABLE = SHOWN / 1e9 * (1 - KEPT_FREE)  # GB


def _stacks(rows: Sequence, until: float, room: float = 7, pitch: float = 9, limit: float = 0) -> Figure:
    """Draw rows (name, parts, what stands behind), each part a bar (length, colour, text), all to one scale."""
    ax, unit = sheet(36, 30), (35.4 - room) / until
    for place, (name, parts, told) in enumerate(rows):
        y, x = 29 - pitch * (place + 1), 0.4
        words(ax, x, y + 6, name, weight="bold")
        for length, colour, text in parts:
            bar(ax, x, y, unit * length, 4.4, colour, text, edgecolor="white", linewidth=1)
            x += unit * length
        words(ax, max(x, unit * limit) + 0.9, y + 2.2, told, weight="bold", size=BIG)
    if limit:
        low = 29 - pitch * len(rows) - 0.6
        line(ax, (0.4 + unit * limit, low), (0.4 + unit * limit, 24.6), colour=FAULT, wide=2, linestyle="--")
        words(ax, 0.4 + unit * limit, low - 1.2, f"{limit:.1f} GB", colour=FAULT, weight="bold", ha="center")
    return ax.figure


def _legend(ax: Axes, y: float, names: Sequence[tuple[str, str]], x: float = 0.4) -> None:
    for colour, name in names:
        bar(ax, x, y - 0.8, 1.6, 1.6, colour)
        words(ax, x + 2.1, y, name)
        x += 3.6 + 0.72 * len(name)


def sixteen_thousand() -> Figure:
    """All machines of the cluster, and a launch script that waits for two numbers."""
    ax = sheet(36, 30)
    ax.scatter([0.7 + 0.55 * (node % 64) for node in range(2048)], [29 - 0.55 * (node // 64) for node in range(2048)],
               s=6, marker="s", color=canvas.BLUE)
    words(ax, 0.4, 9.4, "2,048 machines of eight H100s", weight="bold", size=BIG)
    for y, told in ((5.6, "--tensor-model-parallel-size ▌"), (2.4, "--pipeline-model-parallel-size ?")):
        words(ax, 0.4, y, told, **MONO)
    return ax.figure


def three_ways() -> Figure:
    """A layer cut into eight, the layers dealt out to 16 nodes, 128 copies, and their product."""
    ax = sheet(65, 26, (6.5, 2.6))
    told = (("tensor ranks: 8", TENSOR, "each layer in 8 pieces", 1, 8, canvas.FACES[5]),
            ("pipeline ranks: 16", PIPELINE, "the layers, dealt to 16", 16, 1, PALE_BLUE),
            ("data ranks: 128", DATA, "128 copies of the model", 16, 8, canvas.FACES[1]))
    for place, (name, colour, below, wide, high, face) in enumerate(told):
        x = 0.6 + 22.4 * place
        bar(ax, x, 23.2, 1, 2.4, colour)
        words(ax, x + 1.8, 24.3, name, weight="bold", size=BIG)
        for piece in range(wide * high):
            bar(ax, x + 19.4 / wide * (piece % wide), 7.6 + 14 / high * (piece // wide), 19.4 / wide, 14 / high, face,
                edgecolor=INK, linewidth=0.7)
        words(ax, x, 5.6, below)
    words(ax, 0.6, 1.4, "8 × 16 × 128 = 16,384. Other products are 16,384, too.", weight="bold", size=BIG)
    return ax.figure


def with_whom() -> Figure:
    """A process that knows only its number, and others to which it may or may not talk."""
    ax = sheet(36, 30)
    box(ax, 9.6, 12.4, 16.8, 6, PALE_BLUE, "rank 1,274", size=18, line=2.4)
    for place, rank in enumerate((0, 1275, 1266, 1146, 9, 16383)):
        x, low = 0.4 + 12.4 * (place % 3), place > 2
        box(ax, x, 2.4 if low else 23.8, 10.4, 4.6, PALE, f"rank {rank:,}")
        near, far = (14 + 4 * (place % 3), 12 if low else 18.8), (x + 5.2, 7.2 if low else 23.6)
        canvas.arrow(ax, near, far, "<|-|>", colour=GREY_WORDS, line=1.6)
        words(ax, (near[0] + far[0]) / 2 + 1.4, (near[1] + far[1]) / 2, "?", weight="bold", size=18, colour=FAULT)
    return ax.figure


@steps(range(4))
def cube(step: int) -> Figure:
    """Eight ranks with a digit for each axis, and then the partners along tp, pp and dp."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.8, "rank: its digits for dp, pp, tp", weight="bold")
    spots = [(0.6 + 17 * (rank % 2) + 9.4 * (rank // 4), 14 - 13 * (rank // 2 % 2) + 6.4 * (rank // 4))
             for rank in range(8)]
    axis_names = (("tp", 1, TENSOR, (9.6, 18.2)), ("pp", 2, PIPELINE, (5.4, 10)), ("dp", 4, DATA, (4, 21.4)))
    for name, stride, colour, spot in axis_names[:step]:
        for rank in [rank for rank in range(8) if not rank // stride % 2]:
            (x, y), (right, up) = spots[rank], spots[rank + stride]
            line(ax, (x + 4, y + 2.4), (right + 4, up + 2.4), colour=colour, wide=2.4 if rank else 6, zorder=0.5)
        words(ax, *spot, name, weight="bold", size=BIG)
    for rank, (x, y) in enumerate(spots):
        box(ax, x, y, 8, 4.8, WHITE if rank else PALE_BLUE, f"{rank}:  {rank // 4} {rank // 2 % 2} {rank % 2}",
            line=1 if rank else 2.4)
    return ax.figure


def fast_link() -> Figure:
    """A node with its NVLink and one port out of it, as wide as they are fast, and three groups that want the first."""
    ax = sheet(36, 30)
    frame(ax, 0.4, 2.4, 18.6, 24)
    words(ax, 0.6, 28.4, "a node: 8 GPUs", weight="bold", size=BIG)
    bar(ax, 7.7, 4, 4.4, 21, canvas.NVLINK)
    words(ax, 9.9, 14.5, f"NVLink, {NVLINK} GB/s", rotation=90, ha="center", colour=WHITE, weight="bold", size=BIG)
    for gpu in range(8):
        box(ax, 1.4 + 11.8 * (gpu % 2), 4.6 + 5.4 * (gpu // 2), 5.2, 4, PALE_BLUE, "GPU")
    bar(ax, 18.4, 22.6, 17, 4.4 * PORT / NVLINK, canvas.NVLINK)
    words(ax, 20, 25, f"a port: {PORT} GB/s", weight="bold")
    words(ax, 20, 17.4, "who gets NVLink?", weight="bold", colour=FAULT)
    for place, (name, colour) in enumerate((("tensor", TENSOR), ("pipeline", PIPELINE), ("data", DATA))):
        bar(ax, 20, 12.2 - 4.2 * place, 14, 3.4, colour, name, size=BIG)
    return ax.figure


def sent() -> Figure:
    """What one rank of Meta's layout sends along each axis in a step."""
    message = 2 * 8192 * LLAMA.hidden / 1e9  # GB: the activations between two layers
    sizes = (7 / 8 * message * 8 * 8 * 16, message / 8 * 16 * 8 * 2, 6 * PIECE)
    return bars(("to its tensor group", "to its pipeline group", "to its data group"), sizes,
                [f"{size:.0f} GB" for size in sizes], (TENSOR, PIPELINE, DATA))


def two_orders() -> Figure:
    """The eight ranks of one tensor group: in one node, or one in each of eight, and how long a step takes then."""
    ax = sheet(36, 30)
    rows = ("tp innermost", f"{STEPS['tp8'].seconds:.1f} s", "one tensor group: one node"), \
        ("tp outermost", "? s", "one tensor group: eight nodes")
    for row, (name, told, below) in enumerate(rows):
        y = 19 - 15.4 * row
        words(ax, 0.4, y + 9.2, name, weight="bold", size=BIG)
        words(ax, 35.6, y + 9.2, told, weight="bold", size=20, ha="right", colour=FAULT if row else INK)
        for node in range(8):
            for gpu in range(8):
                mine = (gpu if row else node) == 0
                bar(ax, 0.4 + 4.5 * node + 1.9 * (gpu % 2), y + 1.7 * (gpu // 2), 1.7, 1.5, TENSOR if mine else PALE,
                    edgecolor=INK, linewidth=0.6)
        words(ax, 0.4, y - 1.6, below, weight="bold", colour=TENSOR)
    return ax.figure


def wrong_order() -> Figure:
    """What a step is made of with the tensor ranks inside a node, and across eight."""
    rows = []
    for name, step, digits in (("tp innermost", STEPS["tp8"], 1), ("tp outermost", TURNED, 2)):
        parts = ((COMPUTING, COMPUTE), (step.tensor, TENSOR), (step.bubble, WAITING),
                 (step.seconds - COMPUTING - step.tensor - step.bubble, DATA))
        rows.append((name, [(long, colour, f"{long:.1f} s" if long > 4 else "") for long, colour in parts],
                     f"{step.seconds:.{digits}f} s"))
    ax = _stacks(rows, TURNED.seconds, 8).axes[0]
    _legend(ax, 5.6, ((COMPUTE, "computing"), (TENSOR, "tensor messages")))
    _legend(ax, 2.2, ((WAITING, "bubble"), (DATA, "gradients and the rest")))
    return ax.figure


def which_group() -> Figure:
    """Four ranks with two sums to make, and the question which goes where."""
    return _four(0)


def two_sums() -> list[Figure]:
    """What four ranks hold, then their sums of activations, then their averages of gradients."""
    return [_four(step) for step in range(1, 4)]


def _four(step: int) -> Figure:
    ax, size = sheet(36, 30), 11 if step else 20
    for half in range(2):
        x, y = 7.4 + 17.6 * half, 16.6 - 14.6 * half
        words(ax, x + 5.2, 27.4, f"half {half} of\nmatrices", ha="center", weight="bold")
        words(ax, 0.2, y + 2.8, f"samples\n{'AB'[half]}", weight="bold")
        for row in range(2):
            box(ax, x, 16.6 - 14.6 * row, 10.4, 5.6, canvas.FACES[2 * row + half], f"rank {2 * row + half}", size=BIG)
        if step != 1:
            canvas.arrow(ax, (17.9, y + 2.8), (24.9, y + 2.8), "<|-|>", colour=TENSOR, line=3)
            words(ax, 21.4, y + (6.8 if step else 5.4), "sum activations" if step else "?", ha="center",
                  weight="bold", colour=TENSOR, size=size)
        if step in (0, 3):
            canvas.arrow(ax, (x + 5.2, 16.4), (x + 5.2, 7.8), "<|-|>", colour=DATA, line=3)
            words(ax, x + 6 - 1.6 * half, 12.1, "average\ngradients" if step else "?", weight="bold",
                  ha="right" if half else "left", size=size)
    return ax.figure


def sixteen_times() -> Figure:
    """Sequences of 8,192 and of 131,072 tokens, to one scale."""
    return bars(("8,192 tokens", "131,072 tokens"), (1, 16), ("", "16 times the activations"), ACTIVATIONS)


@steps((1, 2))
def cut_sequence(step: int) -> Figure:
    """A sequence on 16 ranks, first with all that one query needs, then with keys that go from rank to rank."""
    ax = sheet(36, 30)
    words(ax, 0.4, 28.4, "131,072 tokens on 16 ranks", weight="bold", size=BIG)
    for rank in range(16):
        x = 0.4 + 2.2 * rank
        box(ax, x, 11, 2.2, 4.4, canvas.FACES[rank % 8], str(rank))
        if step == 1 and rank < 11:
            canvas.arrow(ax, (25.7, 15.6), (x + 1.1, 15.6), colour=GREY_WORDS, line=1.2, bend=0.4)
        if step == 2 and rank < 15:
            canvas.arrow(ax, (x + 1.1, 15.6), (x + 3.3, 15.6), colour=CONTEXT, line=1.6, bend=-0.9)
    if step == 2:
        canvas.arrow(ax, (34.4, 10.8), (1.4, 10.8), colour=CONTEXT, line=2, bend=-0.18)
    words(ax, 0.4, 3.6, ("a query on rank 11 needs\nthe keys of ranks 0 to 11", "keys and values go round")[step - 1],
          weight="bold")
    return ax.figure


def old_terms() -> Figure:
    """The two terms of a softmax's sum for scores 1 and 0, and two new scores, of which one is larger."""
    ax = sheet(36, 30)
    for x, above, below in ((1, "old terms", "largest: 1"), (19.4, "new scores", "largest: now 3")):
        words(ax, x, 28.4, above, weight="bold", size=BIG)
        words(ax, x, 1.2, below, weight="bold")
    for x, score, term in ((1, 1, 1), (10.2, 0, exp(-1)), (19.4, 3, None), (28.6, 2, None)):
        bar(ax, x, 6, 6.6, 17 * (term or 1), PALE_BLUE if term else WHITE, f"{term:.2f}" if term else "?", size=BIG,
            edgecolor=INK, linewidth=1.2, linestyle="-" if term else "--")
        words(ax, x + 3.3, 4, f"score {score}", ha="center")
    return ax.figure


def shrunk() -> Figure:
    """The terms of a softmax's sum for scores 1 and 0, and how they shrink when 3 and 2 arrive."""
    ax = sheet(65, 28, ACROSS)
    for x, told, scores, most in ((1, "before: largest 1", (1, 0), 1), (27, "after: largest 3", (1, 0, 3, 2), 3)):
        total = sum(exp(score - most) for score in scores)
        words(ax, x, 26.4, f"{told}, sum {total:.2f}", weight="bold", size=BIG)
        for place, score in enumerate(scores):
            left, high, old = x + 9.6 * place, 17 * exp(score - most), most == 3 and score < 2
            if old:
                bar(ax, left, 4, 8, 17 * exp(score - 1), WHITE, edgecolor=INK, linewidth=1, linestyle=":")
                canvas.arrow(ax, (left + 4, 4 + 17 * exp(score - 1)), (left + 4, high + 6.4), colour=FAULT, line=2.4)
            bar(ax, left, 4, 8, high, canvas.FACES[score > 1], edgecolor=INK, linewidth=1)
            words(ax, left + 4, high + 5.2, f"{exp(score - most):.2f}", ha="center", weight="bold")
            words(ax, left + 4, 2, f"score {score}", ha="center")
    words(ax, 37.2, 17.4, f"both × {exp(1 - 3):.3f}", weight="bold", colour=FAULT)
    return ax.figure


def rounds() -> Figure:
    """Who computes in each of the four rounds of the ring, and who waits."""
    ax = sheet(36, 30)
    for turn in range(4):
        words(ax, 10.6 + 7 * turn, 28.2, f"round {turn}", ha="center")
        for rank in range(4):
            y, share = 21 - 5.6 * rank, 0.5 if not turn else float(turn <= rank)
            bar(ax, 7.4 + 7 * turn, y, 6.6, 4.6, WAITING)
            bar(ax, 7.4 + 7 * turn, y, 6.6 * share, 4.6, COMPUTE)
            words(ax, 0.2, y + 2.3, f"rank {rank}", weight="bold")
    _legend(ax, 1.4, ((COMPUTE, "computes"), (WAITING, "waits")), 7.4)
    return ax.figure


def stripes() -> Figure:
    """Eight contiguous pieces of a sequence and the keys that each sees, with the question of the busiest."""
    ax = sheet(36, 30)
    words(ax, 6.4, 28.6, "keys that its queries see", weight="bold")
    for rank in range(8):
        y, before = 23.6 - 3.1 * rank, 6.4 + 3 * rank
        words(ax, 0.2, y + 1.5, f"rank {rank}", weight="bold")
        ax.add_patch(Polygon([(6.4, y), (6.4, y + 3.1), (before, y + 3.1), (before + 3, y)], edgecolor=INK,
                             linewidth=0.8, facecolor=canvas.FACES[rank]))
    words(ax, 33, 3.2, "?", weight="bold", size=20, colour=FAULT)
    return ax.figure


@steps((1, 2))
def dealt(step: int) -> Figure:
    """The keys that 16 pieces of queries see: two neighbours for each rank, then an early and a late one for each."""
    ax = sheet(36, 30)
    owners = [piece // 2 if step == 1 else min(piece, 15 - piece) for piece in range(16)]
    words(ax, 0.2, 28.6, "rank", weight="bold")
    words(ax, 5, 28.6, ("contiguous: times the mean", "zigzag: the same for all")[step - 1], weight="bold", size=BIG)
    for piece, rank in enumerate(owners):
        y, before = 24.6 - 1.55 * piece, 5 + 1.5 * piece
        corners = [(5, y), (5, y + 1.55), (before, y + 1.55), (before + 1.5, y)]
        ax.add_patch(Polygon(corners, color=canvas.FACES[rank], linewidth=0.5))
        if step == 2 or piece % 2:
            words(ax, 2, y + (1.55 if step == 1 else 0.78), str(rank), ha="center")
        if step == 1 and piece % 2:
            words(ax, before + 2.2, y + 1.4, f"{(2 * rank + 1) / 8:.3f}", weight="bold" if rank == 7 else "normal")
    return ax.figure


# Sections 6 to 10: a plan


def one_for_eight() -> Figure:
    """One sequence and the eight GPUs that there are for it."""
    ax = sheet(36, 30)
    bar(ax, 0.4, 20, 35.2, 4.6, ACTIVATIONS, "a sequence of 8,192 tokens", size=BIG)
    for gpu in range(8):
        canvas.arrow(ax, (2.3 + 4.46 * gpu, 19.8), (2.3 + 4.46 * gpu, 14.6), line=2)
        box(ax, 0.4 + 4.46 * gpu, 10, 3.9, 4.4, PALE_BLUE, "GPU")
    words(ax, 18, 4.4, "2,048 times in a step", ha="center", weight="bold", size=BIG)
    return ax.figure


def thick_and_thin() -> Figure:
    """A step of a rank in Meta's layout, and the same work in slices half as thick, with its waiting unknown."""
    thick, thin = [(15 / 8, WAITING, ""), *[(1, ACTIVATIONS, "")] * 16], [(0.5, ACTIVATIONS, "")] * 32
    return _stacks((("1 context rank: waits, then 16 slices", thick, ""),
                    ("2 context ranks: waits ?, then 32 half slices", thin, "+ ?")), 18, 3.4, 12)


def pieces() -> Figure:
    """A layer's weights and a sequence, cut by three layouts: what one rank has of them."""
    ax = sheet(36, 30)
    for place, (name, one) in enumerate(LAYOUTS.items()):
        x, wide, high = 0.4 + 12.6 * place, 10 / one.cp, 12 / one.tp
        words(ax, x + 5, 25.4, name, weight="bold", size=BIG, ha="center")
        for piece in range(one.tp * one.cp):
            bar(ax, x + wide * (piece % one.cp), 10.6 + high * (piece // one.cp), wide, high,
                WHITE if piece else canvas.BLUE, edgecolor=INK, linewidth=0.8)
        for y, told in ((8.6, f"m = {2048 // one.dp}"), (5.8, f"{8192 // one.cp:,} tokens"), (3, f"{one.dp} copies")):
            words(ax, x + 5, y, told, ha="center")
    words(ax, 0.4, 28.6, "down: weights; right: tokens; filled: a rank", weight="bold")
    return ax.figure


def room() -> Figure:
    """An H100's memory, of which a part is kept free, and what must fit into the rest."""
    parts = [(28, WEIGHTS, "weights"), (28, DATA, "gradients"), (28, ACTIVATIONS, "activations")]
    return _stacks((("an H100", [(USABLE, PALE_BLUE, f"{USABLE:.1f} GB"), (5, PALE, "")], "6 % free"),
                    ("must fit", parts, "?")), SHOWN / 1e9, 8, 12)


def second_rank() -> Figure:
    """Sixteen micro-batches in front of 16 pipeline ranks, and the question of what the second one holds."""
    ax = sheet(36, 30)
    for y, told in ((28.4, "16 micro-batches"), (18, "16 pipeline ranks, 8 layers each")):
        words(ax, 0.4, y, told, weight="bold", size=BIG)
    for place in range(16):
        bar(ax, 0.4 + 2.2 * place, 22.4, 1.9, 3.6, canvas.FORWARD)
        for layer in range(8):
            bar(ax, 0.4 + 2.2 * place, 9.6 + 0.8 * layer, 1.9, 0.8, canvas.BLUE if place == 1 else PALE_BLUE,
                edgecolor=INK, linewidth=0.5)
    canvas.arrow(ax, (3.5, 6.6), (3.5, 9.2), line=2, colour=FAULT)
    words(ax, 0.4, 4, "activations: ? GB", weight="bold", size=18, colour=FAULT)
    return ax.figure


def as_much() -> Figure:
    """What a rank of 1, 4 and 16 pipeline ranks holds, with as many micro-batches as there are ranks."""
    rows = []
    for pp in (1, 4, 16):
        held = layout_memory(LLAMA, Layout(8, 1, pp, 2048 // pp, chunks=8 if pp > 1 else 1, zero=2), *BATCH)
        some, rest = held.activations / 1e9, (held.total - held.activations) / 1e9
        rows.append((f"{pp} pipeline rank" + "s" * (pp > 1), [(some, ACTIVATIONS, f"{some:.0f}"),
                     (rest, WEIGHTS, f"{rest:.0f}" if some + rest > 150 else "")], f"{some + rest:.0f} GB"))
    ax = _stacks(rows, 172, 8, 8, USABLE).axes[0]
    _legend(ax, 0.8, ((ACTIVATIONS, "activations"), (WEIGHTS, "weights, the rest")))
    return ax.figure


def on_its_way() -> Figure:
    """Four ranks with two chunks each, up to where micro-batch 0 turns back."""
    ax = sheet(36, 30)
    words(ax, 0.4, 28.4, "micro-batches; other shade: second chunk", weight="bold")
    place = timeline(ax, play(interleaved(4, 8, 2)).events, (5.6, 7, 30, 19), ranks=4, until=12, now=8,
                     label=lambda event: str(event.action.microbatch))
    for rank in range(4):
        words(ax, 0.2, place(0, rank)[1], f"rank {rank}")
    words(ax, 5.6, 4, "rank 0 holds: ? chunks", weight="bold", colour=FAULT)
    return ax.figure


def back() -> Figure:
    """The same ranks when micro-batch 0 is back on rank 0, and the chunks that it has started by then."""
    ax, wide = sheet(36, 30), 30 / 16
    place = timeline(ax, play(interleaved(4, 8, 2), 1, 1, 1).events, (5.6, 4, 30, 20), ranks=4, until=16, now=14.1,
                     label=lambda event: str(event.action.microbatch))
    for rank in range(4):
        words(ax, 0.2, place(0, rank)[1], f"rank {rank}")
    for left, right, told in ((0, 8, "8 chunks"), (8, 11, "3 more")):
        span(ax, 5.8 + wide * left, 5.4 + wide * right, 25.4, told)
    words(ax, 5.6, 1.6, "orange: backward", weight="bold")
    return ax.figure


def sizes() -> Figure:
    """What a rank of each of the three layouts holds, beside what it has room for."""
    rows = [(name, [(size / 1e9, colour, f"{size / 1e9:.0f}" if size > 5e9 else "") for size, colour in (
        (held.activations, ACTIVATIONS), (held.weights, WEIGHTS), (held.gradients, DATA),
        (held.optimizer + held.logits + held.working, OTHER))], f"{held.total / 1e9:.1f}")
        for name, held in ROOMS.items()]
    ax = _stacks(rows, 80, 9, 8, USABLE).axes[0]
    for x, colour, name in ((0, ACTIVATIONS, "activations"), (10.6, WEIGHTS, "weights"), (18.6, DATA, "gradients"),
                            (28, OTHER, "other")):
        _legend(ax, 0.8, ((colour, name),), x)
    return ax.figure


def on_top() -> Figure:
    """The same computing in three layouts, and the question of what comes on top."""
    return _stacks([(name, [(COMPUTING, COMPUTE, f"computing: {COMPUTING:.2f} s")], "+ ?") for name in LAYOUTS],
                   COMPUTING, 5)


def three_costs() -> list[Figure]:
    """What comes on top of the computing of Meta's step: tensor messages, bubble, and exposed gradients."""
    meta, travel = STEPS["tp8"], 4 * PIECE / PORT
    rows = (("tensor messages", [(meta.tensor, TENSOR, "")], f"{meta.tensor:.2f} s"),
            ("the bubble", [(meta.bubble, WAITING, "")], f"{meta.bubble:.2f} s"),
            ("gradients: hidden, and exposed", [(travel - meta.gradients, canvas.FACES[1], "hidden"),
                                                (meta.gradients, DATA, "")], f"{meta.gradients:.2f} s"))
    return [_stacks(rows[:step], meta.bubble) for step in (1, 2, 3)]


def what_is_added() -> Figure:
    """What comes on top of the computing in three layouts, part by part."""
    ax, unit = sheet(65, 27, ACROSS), 38
    for place, (name, step) in enumerate(STEPS.items()):
        x, y = 10, 20.4 - 7.4 * place
        words(ax, 0.2, y + 2.6, name, weight="bold", size=BIG)
        for long, colour in ((step.tensor, TENSOR), (step.bubble, WAITING), (step.gradients, DATA),
                             (step.seconds - COMPUTING - step.tensor - step.bubble - step.gradients, OTHER)):
            bar(ax, x, y, unit * long, 5.2, colour, f"{long:.2f}" if long > 0.08 else "", edgecolor="white")
            x += unit * long
        words(ax, x + 0.6, y + 2.6, f"{step.seconds - COMPUTING:.2f} s", weight="bold", size=BIG)
    for x, colour, name in ((10, TENSOR, "tensor messages"), (25, WAITING, "bubble"), (34, DATA, "gradients"),
                            (45, OTHER, "new weights, pipeline")):
        _legend(ax, 2, ((colour, name),), x)
    return ax.figure


def days() -> Figure:
    """How long the same training takes by the formula in three layouts, where the fastest takes 60 days."""
    times = [60 * step.seconds / STEPS["tp4-cp4"].seconds for step in (STEPS["tp4-cp4"], STEPS["tp8"], TURNED)]
    return bars(("tp4-cp4", "tp8, Meta's", "Meta's, tp outermost"), times, [f"{time:.0f} days" for time in times],
                (COMPUTE, COMPUTE, FAULT))


def lead() -> Figure:
    """The seconds of three layouts by the formula, all with an error that nobody knows yet."""
    ax = sheet(36, 30)
    for place, (name, step) in enumerate(STEPS.items()):
        x, y = 7 + 28 * (step.seconds - 5.95), 24 - 9 * place
        ax.errorbar([x], [y], xerr=[[5], [5]], fmt="o", markersize=11, color=canvas.BLUE, capsize=6)
        words(ax, x, y + 2.6, f"{name}: {step.seconds:.2f} s", ha="center", weight="bold")
        words(ax, x + 6, y, "?", weight="bold", size=18, colour=FAULT)
    return ax.figure


@steps((1, 2))
def runs(step: int) -> Figure:
    """How many times as long as predicted published runs took: first all, then those with context ranks in colour."""
    rows, ax = [row for row in published_runs() if not row.calibrates], axes((6.5, 2.7))
    middle, worst = median(abs(row.error) for row in rows), max(rows, key=took)  # its dot is outside
    ax.axvspan(1 / (1 + middle), 1 / (1 - middle), color=canvas.SKY, alpha=0.3, linewidth=0)
    ax.axvline(1, color=INK, linewidth=1.2)
    for kind in KINDS:
        mine = sorted((row for row in rows if kind_of(row) == kind), key=took)
        for place, row in enumerate(mine):
            late = step == 2 and row.layout.cp > 1
            faint = step == 2 and not late
            ax.plot(took(row), KINDS.index(kind) + 0.2 * (place % 3 - 1), "o", markersize=9 if late else 7,
                    color=CONTEXT if late else canvas.BLUE, alpha=0.3 if faint else 1, markeredgecolor=WHITE,
                    markeredgewidth=0.6)
    ax.set_yticks(range(len(KINDS)), KINDS)
    ratio_axis(ax)
    ax.set(ylim=(len(KINDS) - 0.4, -0.6))
    ax.tick_params(labelsize=LETTERS)
    ax.set_xlabel("measured / predicted", fontsize=LETTERS)
    words(ax, 1.62, KINDS.index(kind_of(worst)), f"another at {took(worst):.1f} →")
    words(ax, 1.62, 0.2, ("band: half of the runs", "brown: context ranks")[step - 1], weight="bold",
          colour=CONTEXT if step == 2 else INK)
    return ax.figure


def estimates() -> Figure:
    """The true days of the layouts that fit, the fastest first, each with an error of 5 % that nobody sees."""
    return _estimates(False)


def luckiest() -> Figure:
    """The same layouts with estimates that are off by 5 %, and the smallest of these."""
    return _estimates(True)


def _estimates(shown: bool) -> Figure:
    found = plan(LLAMA, DGX_H100, 16384, 2048, 8192, memory=SHOWN).fitting
    true = 60 * torch.tensor([one.seconds / found[0].seconds for one in found])
    guessed = true * (1 + 0.05 * torch.randn(len(true), generator=torch.Generator().manual_seed(12)))
    first, ax, places = int(guessed.argmin()), axes(), range(300)
    ax.plot(true[:300], places, color=INK, linewidth=3, zorder=3)
    if shown:
        ax.plot(guessed[:300], places, "o", color=canvas.SKY, markersize=4)
        ax.plot(guessed[first], first, "o", color=FAULT, markersize=11)
        words(ax, 37, first + 72, "the luckiest\nof this list", weight="bold", colour=FAULT)
    else:
        ax.fill_betweenx(places, 0.95 * true[:300], 1.05 * true[:300], color=canvas.SKY)
        words(ax, 37, 70, "estimates:\n± 5 %", weight="bold", colour=canvas.BLUE)
    ax.set(xlim=(36, 84), ylim=(310, -20), yticks=[0, 299], yticklabels=["1st", "300th"])
    ax.set_xlabel("days; line: the truth", fontsize=LETTERS)
    ax.set_ylabel("layouts, the truly fastest first", fontsize=LETTERS, labelpad=-22)
    return ax.figure


def eighth() -> Figure:
    """What a rank of each layout needs on the cluster, and how much more on an eighth, with an eighth of the copies."""
    small = {name: layout_memory(LLAMA, replace(one, dp=one.dp // 8), 256, 8192) for name, one in LAYOUTS.items()}
    rows = [(name, [(ROOMS[name].total / 1e9, PALE_BLUE, f"{ROOMS[name].total / 1e9:.1f}"),
                    ((held.total - ROOMS[name].total) / 1e9, canvas.BLUE, "")], f"{held.total / 1e9:.1f}")
            for name, held in sorted(small.items(), key=lambda one: one[1].total)]
    ax = _stacks(rows, 80, 9, 8, USABLE).axes[0]
    words(ax, 35.6, 26, "GB on a rank", ha="right")
    _legend(ax, 0.8, ((PALE_BLUE, "whole cluster"), (canvas.BLUE, "more on an eighth")))
    return ax.figure
