"""Pictures that only the slides of chapter 6 have."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from kit import ACROSS, BIG, GREY_WORDS, LETTERS, MONO, axes, bar, box, frame, line, sheet, span, steps, timeline, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.hardware import DGX_H100
from course_lib.memory import layer_activation_bytes
from course_lib.models import MODELS, parameter_count, parameters_by_part
from course_lib.plots import canvas
from course_lib.schedules import gpipe, one_f_one_b, play

WHITE, INK = "#FFFFFF", canvas.INK
FAULT, NETWORK, NVLINK = canvas.LIMIT, canvas.NETWORK, canvas.NVLINK
FORWARD, BACKWARD, WAITING, COMPUTE = canvas.FORWARD, canvas.BACKWARD, canvas.WAITING, canvas.COMPUTE
LARGE = 18  # points of what is read first
ORANGE_WORDS, BLUE_WORDS = "#A86E00", "#0072B2"  # as dark as letters on white must be

LLAMA, TOKENS = MODELS["Llama-3-405B"], 8192
INSIDE, BETWEEN = DGX_H100.gpu.link.bandwidth / 1e9, DGX_H100.nic.bandwidth / 1e9  # GB/s
ALL_REDUCE = 2 * 7 / 8  # how many times its tensor each of eight ranks sends
WHOLE = play([[("F", 0), ("B", 0)] for _ in range(4)])
FOUR = play(gpipe(4, 4), 0.25, 0.25, 0.25)
COUNTED = play(gpipe(4, 4))
OLD, NEW = play(gpipe(4, 8)), play(one_f_one_b(4, 8))
SEVENTY = MODELS["Llama-3-70B"]
MICRO = 20 / 1e9 * sum(layer_activation_bytes(SEVENTY, batch=1, sequence=8192, recompute="selective", tp=8,
                                              sequence_parallel=True).values())  # GB on a GPU
KEPT = 16 * parameter_count(SEVENTY) / (4 * 8) / 1e9  # GB on a GPU
FREE = 80 - KEPT


def _ranks(ax: Axes, place, count: int, x: float, name: str = "rank", size: float = LETTERS) -> None:
    for rank in range(count):
        words(ax, x, place(0, rank)[1], f"{name} {rank}".strip(), ha="right", size=size)


def _kind(event) -> str:
    return event.kind


def _micro(event) -> str:
    return str(event.action.microbatch)


def _both(event) -> str:
    return f"{event.kind}{event.action.microbatch}"


# The opening: one copy on many machines


def eleven_machines() -> Figure:
    """All that one copy of the model keeps, and the machines of eight GPUs that it fills."""
    size, node = 16 * parameter_count(LLAMA) / 1e12, 8 * 80 / 1000
    ax, scale = sheet(36, 30), 31.4 / (16 * parameter_count(LLAMA) / 1e12)
    words(ax, 1, 27.6, "one copy of Llama 3 405B", weight="bold", size=BIG)
    bar(ax, 1, 20.4, scale * size, 5, canvas.FACES[0], edgecolor=INK)
    words(ax, 1 + scale * size / 2, 22.9, f"{size:.1f} TB", size=LARGE, weight="bold", ha="center")
    words(ax, 1, 18.4, "weights, gradients, optimizer state")
    count = int(size / node) + 1
    for place in range(count):
        x = 1 + scale * node * place
        frame(ax, x + 0.15, 6.4, scale * node - 0.3, 8.8)
        for gpu in range(8):
            left, low = x + 0.5 + (gpu % 2) * 1.1, 7.1 + 2 * (gpu // 2)
            bar(ax, left, low, 0.95, 1.5, canvas.FACES[1], edgecolor=INK, linewidth=0.5)
    words(ax, 1, 3.8, f"{count} machines of eight GPUs, each with {node:.2g} TB", weight="bold")
    return ax.figure


GPUS = tuple(canvas.FACES[:4])


@steps(range(4))
def cut_between(step: int) -> Figure:
    """The layers of a model in a row, then cut into four stages, then what crosses the cuts forward and back."""
    ax = sheet(65, 27, (6.5, 2.7))
    if not step:
        frame(ax, 0.5, 6.2, 64, 15.2)
        words(ax, 32.5, 23.6, "16 layers, too large for one GPU", ha="center", weight="bold", size=BIG)
    for stage in range(4):
        x = 1.2 + 16.4 * stage
        if step:
            frame(ax, x - 0.7, 6.2, 12.4, 15.2, WHITE)
            words(ax, x + 5.5, 23.6, f"GPU {stage}: stage {stage}", ha="center", weight="bold", size=BIG)
        for place in range(4):
            box(ax, x + 2.85 * place, 8, 2.45, 11.6, GPUS[stage] if step else canvas.FACES[0], str(4 * stage + place))
        if stage < 3 and step == 1:
            line(ax, (x + 13.7, 4.6), (x + 13.7, 23), wide=1.6, linestyle="--")
            words(ax, x + 13.7, 3, "a cut", ha="center")
        if stage < 3 and step > 1:
            canvas.arrow(ax, (x + 11.5, 16.4), (x + 15.9, 16.4), line=3, colour=FORWARD)
            words(ax, x + 13.7, 18.6, "x", ha="center", weight="bold", size=BIG, colour=BLUE_WORDS)
        if stage < 3 and step > 2:
            canvas.arrow(ax, (x + 15.9, 10.6), (x + 11.5, 10.6), line=3, colour=BACKWARD)
            words(ax, x + 13.7, 3.6, "x.grad", ha="center", weight="bold", size=BIG, colour=ORANGE_WORDS)
            line(ax, (x + 13.7, 5), (x + 13.7, 9.8), wide=0.8, colour=ORANGE_WORDS)
    return ax.figure


@steps(range(3))
def one_batch(step: int) -> Figure:
    """A batch that goes through four stages forward, then back, and all that is grey beside it."""
    ax = sheet(65, 28, (6.5, 2.8))
    words(ax, 36, 1, "F: a stage's forward, B: its backward", ha="center")
    place = timeline(ax, WHOLE.events, (8, 5.4, 56, 22), ranks=4, until=12, now=(4, None, None)[step], label=_kind,
                     size=BIG, share=0.6)
    _ranks(ax, place, 4, 7.2, "GPU", BIG)
    for second in (0, 4, 8, 12):
        words(ax, place(second, 0)[0] - 1.6 * (second == 12), 3.8, f"{second} s", ha="center" if second else "left")
    events = sorted(WHOLE.events, key=lambda event: event.start)
    for here, there in zip(events, events[1:], strict=False):
        if here.rank == there.rank or step == 0 and there.kind == "B":
            continue
        (x, y), (_, end) = place(here.end, here.rank), place(there.start, there.rank)
        side = 1.7 if end < y else -1.7
        canvas.arrow(ax, (x, y - side), (x, end + side), line=2.4)
        words(ax, x + (1 if side > 0 else -1), (y + end) / 2, "x" if side > 0 else "x.grad", weight="bold",
              ha="left" if side > 0 else "right")
    if step == 2:
        for second, rank in ((5.5, 0), (9, 3), (4.6, 1), (9.6, 2)):
            words(ax, *place(second, rank), "waits", ha="center", size=BIG, colour=GREY_WORDS, weight="bold")
    return ax.figure


# Section 1: why between two layers


def fast_and_slow() -> Figure:
    """Two nodes, the fast way inside and the slow one between, each as thick as it is wide."""
    ax, point = sheet(36, 30), 30 / INSIDE
    for node, (x, colour) in enumerate(((1, 0), (24, 1))):
        frame(ax, x, 3.4, 11, 25.6)
        bar(ax, x + (1 if not node else 8.6), 5, INSIDE * point / 18, 22, NVLINK)
        for gpu in range(8):
            box(ax, x + (3.6 if not node else 1.6), 25 - 2.9 * gpu, 5.6, 2.2, canvas.FACES[colour], "GPU")
            level = 26.1 - 2.9 * gpu
            line(ax, (10.2, level), (25.6, level), colour=NETWORK, wide=BETWEEN * point, zorder=0.5)
        words(ax, x + 5.5, 1.6, f"node {node}", ha="center", weight="bold")
    clear = {"facecolor": WHITE, "edgecolor": "none", "pad": 2}
    for y, name, rate, colour in ((20.6, "inside:\nNVLink", INSIDE, NVLINK),
                                  (10.6, "between:\nnetwork", BETWEEN, NETWORK)):
        words(ax, 18, y, f"{name},\n{rate:.0f} GB/s", ha="center", colour=colour, weight="bold", bbox=clear)
    return ax.figure


def two_ways() -> Figure:
    """Eight layers: with two all-reduces in each, or with one message behind them all."""
    ax = sheet(36, 30)
    for top, name in ((28.2, "tensor parallelism"), (12.4, "a pipeline")):
        words(ax, 0.6, top, name, weight="bold", size=BIG)
    for layer in range(8):
        x = 0.6 + 3.6 * layer
        box(ax, x, 19, 3, 7, canvas.FACES[0], str(layer))
        for low in (16.4, 13.9):
            box(ax, x, low + 0.6, 3, 1.7, NETWORK)
        box(ax, x, 3, 3, 7, canvas.FACES[0], str(layer))
    words(ax, 29.8, 15.9, "two all-\nreduces\nin each", colour=NETWORK, weight="bold")
    canvas.arrow(ax, (29, 6.5), (35.4, 6.5), colour=NETWORK, line=5)
    words(ax, 31.8, 8.6, "x", ha="center", weight="bold", size=BIG, colour=NETWORK)
    words(ax, 0.6, 1.2, "then x goes to the next node, once")
    return ax.figure


def twenty_eight() -> Figure:
    """What each GPU sends for eight layers, in pieces as large as x: by tensor parallelism, and by a pipeline."""
    ax, side, high = sheet(36, 30), 2.9, 5.6
    words(ax, 0.4, 28.6, "tensor parallelism", weight="bold")
    words(ax, 36, 28.6, "pipeline", weight="bold", ha="right")
    for layer in range(8):
        x = 0.4 + 3.3 * layer
        for number in range(2):
            low = 5 + 11.2 * number
            for piece in range(2):
                share = min(1.0, ALL_REDUCE - piece)
                bar(ax, x, low + high * piece, side, high * share, NETWORK, edgecolor=WHITE, linewidth=1.4)
        words(ax, x + side / 2, 3.4, str(layer), ha="center")
    words(ax, 13, 1.2, "layers, each with two all-reduces of 7/4 x", ha="center")
    bar(ax, 31.6, 5, side, high, NETWORK, edgecolor=WHITE, linewidth=1.4)
    words(ax, 33, 7.6, "x", ha="center", colour="white", weight="bold", size=BIG)
    words(ax, 33, 3.4, "once", ha="center")
    return ax.figure


@steps((2, 3, 5))
def prices(step: int) -> Figure:
    """What eight layers compute and send in forward: inside a node, between nodes, and by a pipeline's cut."""
    ax = sheet(65, 28, (6.5, 2.8))
    parts = parameters_by_part(LLAMA)
    layer = (parts["attention"] + parts["mlp"]) / LLAMA.layers
    computing = 8 * 2 * layer * TOKENS / 8 / (0.4 * DGX_H100.gpu.peak("bf16"))
    x = 2 * TOKENS * LLAMA.hidden
    sent = 16 * ALL_REDUCE * x
    rows = (("computing", computing, COMPUTE), ("tensor parallel, over NVLink", sent / INSIDE / 1e9, NVLINK),
            ("tensor parallel, over the network", sent / BETWEEN / 1e9, NETWORK),
            ("one pipeline cut, over the network", x / BETWEEN / 1e9, NETWORK),
            ("the same, shared by eight ports", x / BETWEEN / 8e9, NETWORK))
    longest = max(seconds for _, seconds, _ in rows)
    for row, (name, seconds, colour) in enumerate(rows[:step]):
        y, wide = 23.6 - 5.6 * row, 32 * seconds / longest
        words(ax, 24.4, y + 2, name, ha="right")
        bar(ax, 25.2, y, wide, 4, colour)
        words(ax, 25.9 + wide, y + 2, f"{1e3 * seconds:.2g} ms" if seconds < 0.1 else f"{1e3 * seconds:.0f} ms",
              weight="bold", size=BIG)
    return ax.figure


@steps(range(3))
def sixteen_nodes(step: int) -> Figure:
    """One copy of the model on 16 nodes: tensor parallel inside each, a pipeline between them, then all its copies."""
    ax = sheet(65, 29, (6.5, 2.9))
    if step == 2:
        for shift in (1.2, 0.6):
            frame(ax, 0.4 + shift, 6.2 + shift, 60.6, 18.4, WHITE)
        words(ax, 63.4, 2, "128 copies like this: 16,384 GPUs", ha="right", weight="bold", size=BIG)
    frame(ax, 0.4, 6.2, 60.6, 18.4, WHITE, zorder=0.1)
    for node in range(16):
        x = 1 + 3.77 * node
        layers = "E+7" if not node else "7+H" if node == 15 else "8"
        words(ax, x + 1.35, 22.8, layers, ha="center", weight="bold")
        frame(ax, x, 6.9, 2.7, 14.4, GPUS[node % 4], zorder=0.2)
        for gpu in range(8):
            bar(ax, x + 0.75, 7.5 + 1.72 * gpu, 1.2, 1.25, WHITE, edgecolor=INK, linewidth=0.7)
        if step and node < 15:
            canvas.arrow(ax, (x + 2.6, 16.4), (x + 3.9, 16.4), line=2, colour=NETWORK)
            canvas.arrow(ax, (x + 3.9, 11.4), (x + 2.6, 11.4), line=2, colour=NETWORK)
    words(ax, 0.4, 27.6, "layers in each node; E: embedding, H: head")
    words(ax, 0.4, 4.2, f"in a node: NVLink, {INSIDE:.0f} GB/s", colour=NVLINK, weight="bold")
    if step:
        words(ax, 0.4, 1.6, f"between: network, {BETWEEN:.0f} GB/s, x and x.grad", colour=NETWORK, weight="bold")
    return ax.figure


# Section 2: micro-batches


def as_in_a_factory() -> Figure:
    """A batch in four pieces, of which two stages have one each."""
    ax = sheet(36, 30)
    words(ax, 1, 28, "the batch, in four micro-batches", weight="bold")
    for place in range(4):
        box(ax, 1 + 8.5 * place, 20.4, 8.5, 5.4, FORWARD, str(place), size=LARGE)
    words(ax, 1, 15.6, "at the same time:", weight="bold")
    for stage, x in enumerate((1, 20.6)):
        frame(ax, x, 2, 14.4, 11.2)
        words(ax, x + 7.2, 11, f"stage {stage}", ha="center", weight="bold")
        box(ax, x + 3, 3.6, 8.5, 5.4, FORWARD, str(1 - stage), size=LARGE)
    canvas.arrow(ax, (15.8, 6.3), (20.2, 6.3), line=3)
    words(ax, 18, 8.4, "x", ha="center", weight="bold", size=BIG)
    return ax.figure


@steps(range(2))
def an_order(step: int) -> Figure:
    """The replay of an order for two ranks, with what each action waits for."""
    ax = sheet(36, 26, (3.6, 2.6))
    played = play([[("F", 0), ("B", 0), ("F", 1), ("B", 1)]] * 2)
    place = timeline(ax, played.events, (3.2, 3.4, 32.4, 18), ranks=2, until=12, now=6 if not step else None,
                     label=_both, share=0.5)
    for rank in range(2):
        words(ax, 2.6, place(0, rank)[1], str(rank), ha="right", weight="bold", size=BIG)
    words(ax, 0.4, 23.4, "rank", weight="bold")
    for second in (0, 6, 12):
        words(ax, place(second, 0)[0], 1.4, f"{second} s", ha=("left", "center", "right")[second // 6])
    for number in range(step + 1):
        begin = 6 * number
        for second, start, end, name in ((1, 0, 1, "x"), (4, 1, 0, "x.grad")):
            (x, y), (_, there) = place(begin + second, start), place(begin + second, end)
            side = -2.4 if y > there else 2.4
            canvas.arrow(ax, (x, y + side), (x, there - side), line=2.4)
            words(ax, x + 0.8, (y + there) / 2, name, weight="bold")
    return ax.figure


def cut_in_four() -> Figure:
    """The whole batch on four GPUs, and to the same scale a forward and a backward of a quarter of it."""
    ax = sheet(36, 30)
    words(ax, 1, 28.4, "one batch: 12 s", weight="bold", size=BIG)
    timeline(ax, WHOLE.events, (1, 13.2, 34, 13.8), ranks=4, until=12, label=_kind)
    words(ax, 1, 9.8, "four micro-batches: ? s", weight="bold", size=BIG)
    second = 34 / 12
    for x, seconds, colour, told in ((1, 0.25, FORWARD, "F 0.25 s"), (12.6, 0.5, BACKWARD, "B 0.5 s")):
        for micro in range(4):
            bar(ax, x + micro * (seconds * second + 0.35), 4.6, seconds * second, 2.9, colour)
        words(ax, x, 2.4, f"{told} each")
    return ax.figure


@steps(range(2))
def four_at_once(step: int) -> Figure:
    """The whole batch and its four micro-batches, to one scale: first the forwards, then all of them."""
    ax = sheet(36, 30)
    words(ax, 0.4, 28.6, "one batch: 12 s", weight="bold")
    timeline(ax, WHOLE.events, (0.4, 16.4, 35, 11), ranks=4, until=12, label=_kind)
    told = f"four micro-batches: {FOUR.seconds:g} s" if step else "four micro-batches: first all forwards"
    words(ax, 0.4, 13.6, told, weight="bold")
    timeline(ax, FOUR.events, (0.4, 1.4, 35, 11), ranks=4, until=12, end=FOUR.seconds, now=None if step else 1.75)
    if step:
        words(ax, 17, 8.4, "grey: they wait for\ntheir first x, and for\ntheir first gradient", va="center")
    return ax.figure


def sum_or_mean() -> Figure:
    """The gradient of a batch, what four backwards add up to, and what they add up to if each loss is divided."""
    ax = sheet(36, 30)
    rows = ((20.6, "gradient of the batch", 1, 1, COMPUTE),
            (11, "four backwards, added: too large", 4, 1, FAULT),
            (1.4, "each loss divided by four", 4, 0.25, COMPUTE))
    for y, name, pieces, share, colour in rows:
        words(ax, 0.6, y + 6.6, name, weight="bold")
        for piece in range(pieces):
            wide = 8.4 * share
            bar(ax, 0.6 + wide * piece, y, wide, 4.6, colour, edgecolor=WHITE, linewidth=1.6)
    words(ax, 9.8, 22.9, "a mean over all rows")
    words(ax, 9.8, 3.7, "the same")
    return ax.figure


# Section 3: how long each rank waits


def waiting_unknown() -> Figure:
    """Four ranks and four micro-batches, with a question mark wherever a rank waits."""
    ax = sheet(36, 30)
    place = timeline(ax, COUNTED.events, (1, 4, 34, 22.6), ranks=4, until=21)
    for second, rank in ((8.5, 0), (7.8, 1), (7, 2), (1.5, 3), (18, 3), (19.2, 2), (1, 2)):
        words(ax, *place(second, rank), "?", ha="center", weight="bold", size=20, colour=FAULT)
    for x, colour, name in ((1, FORWARD, "forward"), (13, BACKWARD, "backward"), (26, WAITING, "waits")):
        bar(ax, x, 0.8, 2, 2, colour)
        words(ax, x + 2.6, 1.8, name)
    return ax.figure


@steps(range(5))
def waits_counted(step: int) -> Figure:
    """GPipe's replay, and rank by rank what its waiting adds up to."""
    ax = sheet(65, 27, (6.5, 2.7))
    place = timeline(ax, COUNTED.events, (7.4, 0.4, 45.6, 26.2), ranks=4, until=21, label=_micro)
    _ranks(ax, place, 4, 6.6)
    pieces = (((8.5, "3 F + 3 B"),), ((0.5, "F"), (8, "2 F + 2 B"), (19.5, "B")),
              ((1, "2 F"), (7.5, "F + B"), (19, "2 B")), ((1.5, "3 F"), (18, "3 B")))
    for rank in range(step):
        for second, told in pieces[rank]:
            words(ax, *place(second, rank), told, ha="center", weight="bold", size=BIG)
        words(ax, 54, place(0, rank)[1], "= 3 (F + B)", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


@steps(range(1, 5))
def more_micro_batches(step: int) -> Figure:
    """The work and the waiting of a rank with four stages, for more and more micro-batches."""
    ax, unit = sheet(36, 30), 25 / 35
    bar(ax, 0.4, 27.4, 2, 2, COMPUTE)
    words(ax, 3, 28.4, "works")
    bar(ax, 11, 27.4, 2, 2, WAITING)
    words(ax, 13.6, 28.4, "waits 3 (F + B)")
    for row, micro in enumerate((4, 8, 16, 32)[:step]):
        y = 21 - 6.6 * row
        words(ax, 5.8, y + 2, f"m = {micro}", ha="right")
        bar(ax, 6.6, y, unit * micro, 4, COMPUTE)
        bar(ax, 6.6 + unit * micro, y, unit * 3, 4, WAITING)
        words(ax, 7.2 + unit * (micro + 3), y + 2, f"{3 / (micro + 3):.0%}".replace("%", " %"), weight="bold", size=BIG)
    return ax.figure


def half_waits() -> Figure:
    """GPipe on 16 ranks with 16 micro-batches."""
    played = play(gpipe(16, 16))
    ax = sheet(36, 30)
    words(ax, 0.4, 28.6, "16 stages, 16 micro-batches", weight="bold")
    timeline(ax, played.events, (0.4, 3.4, 35.2, 23.6), ranks=16, until=played.seconds, share=0.9)
    words(ax, 35.6, 1.4, f"grey: {played.bubble_share:.0%}".replace("%", " %"), ha="right", weight="bold", size=BIG)
    return ax.figure


# Section 4: what is held


def in_flight() -> Figure:
    """Rank 0's row of a step, and below it from when to when each micro-batch is in flight."""
    ax = sheet(36, 30)
    words(ax, 1, 28.2, "rank 0, GPipe", weight="bold", size=BIG)
    place = timeline(ax, [event for event in COUNTED.events if event.rank == 0], (1, 21, 34, 5.6), ranks=1, until=21,
                     label=_micro)
    for micro in range(4):
        start, end = (place(second, 0)[0] for second in (micro, 21 - 2 * micro))
        y = 16.2 - 3.5 * micro
        bar(ax, start, y, end - start, 2.7, canvas.ACTIVATIONS)
        words(ax, (start + end) / 2, y + 1.35, f"activations of {micro}", ha="center")
    words(ax, 1, 2, "all four are in memory at once", weight="bold")
    return ax.figure


def memory_of_a_gpu() -> Figure:
    """A GPU's 80 GB with what is taken and what is free, and to scale what a micro-batch leaves."""
    ax, unit = sheet(36, 30), 34 / 80
    words(ax, 1, 27.6, "one GPU: 80 GB", weight="bold", size=BIG)
    bar(ax, 1, 16.4, 34, 9, WHITE, edgecolor=INK, linewidth=1.4)
    bar(ax, 1, 16.4, unit * KEPT, 9, canvas.FACES[0], edgecolor=INK, linewidth=1.4)
    words(ax, 1 + unit * KEPT / 2, 20.9, f"{KEPT:.0f} GB\nweights,\ngradients,\noptimizer", ha="center")
    words(ax, 1 + unit * (KEPT + FREE / 2), 20.9, f"{FREE:.0f} GB free", ha="center", weight="bold", size=BIG)
    words(ax, 1, 11.6, "a micro-batch's activations", weight="bold", size=BIG)
    bar(ax, 1, 1.4, unit * MICRO, 8.4, canvas.ACTIVATIONS, edgecolor=INK, linewidth=1.4)
    words(ax, 2 + unit * MICRO, 5.6, f"{MICRO:.1f} GB", weight="bold", size=BIG)
    words(ax, 16.6, 5.6, "4, 8 or 16 of them?")
    return ax.figure


def what_fits() -> Figure:
    """The activations of 4, 8 and 16 micro-batches beside what is free."""
    ax, unit = sheet(36, 30), 35 / (16 * MICRO)
    limit = 0.4 + unit * FREE
    for row, micro in enumerate((4, 8, 16)):
        y = 18 - 8.6 * row
        words(ax, 0.4, y + 5.9, f"{micro} micro-batches: {micro * MICRO:.0f} GB", weight="bold")
        for piece in range(micro):
            bar(ax, 0.4 + unit * MICRO * piece, y, unit * MICRO, 4.4, canvas.ACTIVATIONS, edgecolor=WHITE, linewidth=1)
        line(ax, (limit, y - 0.7), (limit, y + 4.9), colour=FAULT, wide=3, zorder=5)
    words(ax, 0.4, 28, f"the line: {FREE:.0f} GB are free", colour=FAULT, weight="bold")
    return ax.figure


@steps(range(3))
def runs_ahead(step: int) -> Figure:
    """The last rank's order in GPipe and in 1F1B, and then the warm-ups of the ranks before it."""
    ax, wide = sheet(65, 29, (6.5, 2.9)), 4.6

    def row(y: float, order: list[str], name: str, framed: int = 0) -> None:
        words(ax, 11.4, y + 1.5, name, ha="right", weight="bold")
        for place, action in enumerate(order):
            box(ax, 12.4 + wide * place, y, wide - 0.3, 3, FORWARD if action[0] == "F" else BACKWARD, action)
        if framed:
            frame(ax, 12.15, y - 0.3, wide * framed + 0.1, 3.6, "none", edgecolor=FAULT, linewidth=2.4, zorder=3)

    row(23, ["F0", "F1", "F2", "F3", "B3", "B2", "B1", "B0"], "GPipe, rank 3")
    span(ax, 12.4, 12.1 + 8 * wide, 27.2, "")
    words(ax, 50, 27.2, "0 is held so long", weight="bold")
    if step:
        row(14.6, ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"], "1F1B, rank 3")
        span(ax, 12.4, 12.1 + 2 * wide, 18.8, "")
        words(ax, 22.4, 18.8, "only so long", weight="bold")
    if step > 1:
        for ahead, rank in enumerate((2, 1, 0), 1):
            order = [str(action) for action in one_f_one_b(4, 8)[rank]][:8]
            row(14.6 - 4.2 * ahead, order, f"rank {rank}", ahead)
        words(ax, 50, 8.4, "framed: the warm-up,\nso that rank 3\nnever lacks work", colour=FAULT, weight="bold")
    return ax.figure


def two_orders() -> Figure:
    """GPipe's step of eight micro-batches, and an empty one for 1F1B."""
    ax = sheet(36, 30)
    words(ax, 1, 28.2, "GPipe: 33 s", weight="bold", size=BIG)
    timeline(ax, OLD.events, (1, 15.4, 34, 11.4), ranks=4, until=33)
    words(ax, 1, 11.6, "1F1B: ? s", weight="bold", size=BIG)
    played = [event for event in NEW.events if event.end <= 9]
    bar(ax, 1, 1.4, 34, 8.8, WHITE, edgecolor=GREY_WORDS, linestyle="--", linewidth=1.4)
    timeline(ax, played, (1, 1.4, 34, 8.8), ranks=4, until=33, end=9)
    words(ax, 22, 5.8, "…", ha="center", weight="bold", size=20)
    return ax.figure


def last_rank() -> Figure:
    """The last rank's row in both orders: it waits, works and waits equally long."""
    ax = sheet(36, 30)
    for y, name, played in ((17.6, "GPipe, rank 3", OLD), (1.6, "1F1B, rank 3", NEW)):
        mine = [event for event in played.events if event.rank == 3]
        words(ax, 0.4, y + 10.6, name, weight="bold", size=BIG)
        place = _row(ax, mine, (0.4, y, 35.2, 4.6), 33)
        for start, end, told in ((0, 3, "3 F"), (3, 27, "8 (F + B)"), (27, 33, "3 B")):
            span(ax, place(start) + 0.15, place(end) - 0.15, y + 5.8, told)
    return ax.figure


def _row(ax: Axes, events: list, area: tuple[float, float, float, float], until: float):
    """Draw the events of one rank alone; returns where a second lies."""
    x, y, wide, high = area
    bar(ax, x, y, wide, high, WAITING)
    for event in events:
        left, length = x + wide * event.start / until, wide * (event.end - event.start) / until
        colour = FORWARD if event.kind == "F" else BACKWARD
        bar(ax, left, y, length, high, colour, edgecolor=WHITE, linewidth=0.8)
    return lambda second: x + wide * second / until


@steps(range(3))
def both_orders(step: int) -> Figure:
    """GPipe's step and 1F1B's, then from when to when each has micro-batch 0 in flight on rank 0."""
    ax = sheet(65, 30, ACROSS)
    for y, name, played in ((15.6, "GPipe", OLD), (0.2, "1F1B", NEW))[:min(step, 1) + 1]:
        place = timeline(ax, played.events, (7.4, y, 49, 11.6), ranks=4, until=33, label=_micro)
        words(ax, 0.2, y + 5.8, name, weight="bold", size=BIG)
        if step == 2:
            mine = [event for event in played.events if event.rank == 0 and event.action.microbatch == 0]
            start, end = min(event.start for event in mine), max(event.end for event in mine)
            (left, level), (right, _) = place(start, 0), place(end, 0)
            for event in mine:
                (x, _), (to, _) = place(event.start, 0), place(event.end, 0)
                bar(ax, x, level - 1.3, to - x, 2.6, "none", edgecolor=INK, linewidth=2.4, zorder=5)
            told = f"0 is in flight for {end - start:g} s"
            canvas.arrow(ax, (left, y + 12.2), (right, y + 12.2), "|-|,widthA=0.25,widthB=0.25", line=1.6)
            words(ax, left, y + 13.6, told, weight="bold")
            words(ax, 65, y + 13.6, "in flight", ha="right")
            for rank, count in enumerate(played.peak_activations):
                words(ax, 61, place(0, rank)[1], str(count), ha="center", weight="bold", size=BIG)
    return ax.figure


def held_by_rank() -> Figure:
    """How many micro-batches each rank has in flight at most: with GPipe all eight, with 1F1B at most four."""
    ax, wide = sheet(36, 30), 3.5
    words(ax, 6.6, 28.2, "1F1B", weight="bold", size=BIG, colour=BLUE_WORDS)
    words(ax, 13.4, 28.2, "GPipe: all eight", size=BIG, colour=GREY_WORDS)
    for rank in range(4):
        y = 20.6 - 6.4 * rank
        words(ax, 5.8, y + 2.3, f"rank {rank}", ha="right")
        for micro in range(8):
            mine = micro < NEW.peak_activations[rank]
            bar(ax, 6.6 + wide * micro, y, wide - 0.4, 4.6, canvas.ACTIVATIONS if mine else WHITE,
                edgecolor=INK if mine else canvas.GREY, linestyle="-" if mine else "--")
        words(ax, 6.4 + wide * (NEW.peak_activations[rank] - 0.5), y + 2.3, f"{NEW.peak_activations[rank]}",
              ha="center", weight="bold", size=BIG)
    return ax.figure


def _held(played) -> tuple[list[float], list[float]]:
    """Return the GB that rank 0's activations take from which second on."""
    changes: Counter = Counter()
    for event in played.events:
        if event.rank == 0:
            changes[event.start if event.kind == "F" else event.end] += MICRO if event.kind == "F" else -MICRO
    times = sorted(changes)
    return times, list(accumulate(changes[time] for time in times))


@steps(range(3))
def mountain(step: int) -> Figure:
    """The activations on rank 0 with GPipe, what is free for them, and those with 1F1B."""
    ax = axes((6.5, 2.8))
    for number, (name, order, alpha) in enumerate((("GPipe", gpipe, 0.3), ("1F1B", one_f_one_b, 1))):
        if step < 2 * number:
            continue
        times, sizes = _held(played := play(order(4, 16)))
        ax.fill_between(times, sizes, step="post", color=FORWARD, alpha=alpha, linewidth=0, zorder=number)
        ax.step(times, sizes, where="post", color=INK, linewidth=1.6, zorder=number + 0.2)
        told = f"{name}: {max(sizes):.0f} GB, {played.seconds:g} s"
        ax.text((25, 31)[number], (max(sizes) + 9, 13)[number], told, ha="center", va="center", fontsize=BIG,
                weight="bold", zorder=5)
    if step:
        ax.axhline(FREE, color=FAULT, linewidth=2.4, linestyle=(0, (4, 2)), zorder=4)
        ax.text(56.8, FREE + 2, f"{FREE:.0f} GB are free", ha="right", va="bottom", fontsize=BIG, color=FAULT,
                weight="bold")
    ax.set(xlim=(0, 57), ylim=(0, 130), yticks=(0, 50, 100), xticks=range(0, 57, 10))
    ax.set_title("GB of activations on rank 0, over seconds", fontsize=LETTERS, loc="left")
    canvas.say(ax, "GPipe climbs to 109 GB and 1F1B stays at 27 GB, where 45 GB are free; both steps take 57 s")
    return ax.figure


@steps(range(1, 4))
def room(step: int) -> Figure:
    """The steps that fit into the memory, each as a bar of its work and its waiting."""
    ax = sheet(65, 26, (6.5, 2.6))
    words(ax, 0.4, 24.4, "memory of activations", colour=GREY_WORDS, weight="bold")
    words(ax, 27, 24.4, "a step: works", colour=COMPUTE, weight="bold")
    words(ax, 38.4, 24.4, "and waits", colour=GREY_WORDS, weight="bold")
    rows = (("GPipe, 6 micro-batches", 6, 6), ("1F1B, 16", 16, 4), ("1F1B, 100", 100, 4))
    for row, (name, micro, held) in enumerate(rows[:step]):
        y = 15.4 - 7.4 * row
        words(ax, 0.4, y + 4.6, name, weight="bold")
        words(ax, 0.4, y + 1.5, f"holds {held} · {MICRO:.1f} = {held * MICRO:.0f} GB")
        share = 3 / (micro + 3)
        bar(ax, 27, y, 31 * (1 - share), 5.6, COMPUTE)
        bar(ax, 27 + 31 * (1 - share), y, 31 * share, 5.6, WAITING)
        words(ax, 58.8, y + 2.8, f"{share:.0%}".replace("%", " %"), weight="bold", size=LARGE)
    return ax.figure


# Section 5: backward across a cut


def graph_ends() -> Figure:
    """The graphs of two processes, and a backward that can't go on from one to the other."""
    ax = sheet(36, 30)
    for rank, x in enumerate((0.6, 20.4)):
        frame(ax, x, 3, 15, 26)
        words(ax, x + 7.5, 26.8, f"rank {rank}", ha="center", weight="bold", size=BIG)
        names = ("x", "stage 1", "loss") if rank else ("y", "stage 0")
        for place, name in enumerate(names):
            low = 19.6 - 6.6 * place
            box(ax, x + 3, low, 9, 4.4, FORWARD if name in "xy" else WHITE, name, size=BIG)
            if place:
                ends = (x + 6, low + 6.5), (x + 6, low + 4.5)
                canvas.arrow(ax, *(ends if rank else ends[::-1]), line=2)
                if rank:
                    canvas.arrow(ax, (x + 9, low + 4.5), (x + 9, low + 6.5), line=2.6, colour=BACKWARD)
    line(ax, (20, 21.8), (16, 21.8), colour=BACKWARD, wide=2.6, linestyle=(0, (2, 1.2)))
    words(ax, 18, 21.8, "×", ha="center", size=28, weight="bold", colour=FAULT)
    return ax.figure


@steps(range(1, 5))
def across_the_cut(step: int) -> Figure:
    """What two ranks do, one step after the other, so that a gradient crosses the cut between them."""
    ax = sheet(65, 28, (6.5, 2.8))
    for rank, x in enumerate((0.5, 43.5)):
        frame(ax, x, 0.6, 21, 26.8)
        words(ax, x + 10.5, 25.6, f"rank {rank}", ha="center", weight="bold", size=BIG)
    steps = (((1.6, 14.8), "1", "y = stage(data)\nkeeps y and its graph", canvas.FACES[4]),
             ((44.6, 14.8), "2", "x arrives, then\nx.requires_grad_()", canvas.FACES[4]),
             ((44.6, 2.4), "3", "loss.backward()\nfills x.grad", canvas.FACES[1]),
             ((1.6, 2.4), "4", "grad arrives, then\ny.backward(grad)", canvas.FACES[1]))
    for (x, y), number, told, colour in steps[:step]:
        box(ax, x, y, 18.8, 8.4, colour, told, size=BIG)
        words(ax, x - 0.6, y + 8.6, number, ha="center", weight="bold", size=BIG, colour="white",
              bbox={"boxstyle": "circle,pad=0.2", "facecolor": INK, "edgecolor": INK}, zorder=6)
    if step > 1:
        canvas.arrow(ax, (21.8, 19), (43.2, 19), line=4, colour=FORWARD)
        words(ax, 32.5, 21.6, "isend(y.detach())", ha="center", weight="bold", **MONO)
        words(ax, 32.5, 16.4, "bare numbers, no graph", ha="center")
    if step > 2:
        canvas.arrow(ax, (54, 14.6), (54, 11), line=3, colour=BACKWARD)
    if step > 3:
        canvas.arrow(ax, (43.2, 6.6), (21.8, 6.6), line=4, colour=BACKWARD)
        words(ax, 32.5, 9.2, "isend(x.grad)", ha="center", weight="bold", **MONO)
        words(ax, 32.5, 4, "x had y's numbers,\nso it is y's gradient", ha="center")
    return ax.figure


def executor() -> Figure:
    """A rank's list, the two functions that are called for it, and two ranks that send to each other."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28.4, "the executor goes through the list", weight="bold")
    for place, action in enumerate(["F0", "F1", "B0", "F2", "B1", "B2"]):
        box(ax, 0.6 + 5.9 * place, 22.6, 5.4, 3.8, FORWARD if action[0] == "F" else BACKWARD, action)
    for x, place, name in ((0.6, 0.6 + 2.7, "stage_forward"), (18.8, 0.6 + 5.9 * 2 + 2.7, "stage_backward")):
        canvas.arrow(ax, (place, 22.4), (x + 8.2 if x > 1 else place + 3, 18.4), line=2)
        box(ax, x, 14.2, 16.6, 4, WHITE, name, edge=canvas.GREEN, line=2)
    words(ax, 18, 11, "both send, and nobody waits: isend", ha="center", weight="bold")
    for x, name in ((0.6, "rank 0"), (26.6, "rank 1")):
        box(ax, x, 2, 8.8, 6.6, canvas.FACES[0 if x < 1 else 1], name)
    canvas.arrow(ax, (9.8, 6.6), (26.2, 6.6), line=3, colour=FORWARD)
    canvas.arrow(ax, (26.2, 3.8), (9.8, 3.8), line=3, colour=BACKWARD)
    words(ax, 18, 8.2, "y of micro-batch 1", ha="center")
    words(ax, 18, 2, "x.grad of micro-batch 0", ha="center")
    return ax.figure


# Section 6: a real pipeline


def four_processes() -> Figure:
    """Four processes with a layer each, and what goes from one to the next."""
    ax = sheet(36, 30)
    words(ax, 18, 28, "a tiny GPT, cut into four", ha="center", weight="bold", size=BIG)
    for rank in range(4):
        y = 20.6 - 6.4 * rank
        box(ax, 1, y, 10, 4.6, WHITE, f"process {rank}")
        box(ax, 12.4, y, 12, 4.6, GPUS[rank], f"layer {rank}" + ("\nembedding" if not rank else "\nhead" * (rank == 3)))
        if rank < 3:
            canvas.arrow(ax, (15.4, y - 0.1), (15.4, y - 1.7), line=2.4, colour=BLUE_WORDS)
            canvas.arrow(ax, (21.4, y - 1.7), (21.4, y - 0.1), line=2.4, colour=BACKWARD)
    words(ax, 26, 20.6, "x down,\nx.grad up", weight="bold")
    words(ax, 26, 3.7, "the loss", weight="bold")
    return ax.figure


def seen_in_processes() -> Figure:
    """What each of four processes had in flight at most, as the formula said."""
    ax = sheet(36, 30)
    words(ax, 0.6, 28, "in flight at most, as the formula said", weight="bold")
    for rank in range(4):
        y = 20 - 6.4 * rank
        box(ax, 0.6, y, 10.4, 4.6, GPUS[rank], f"process {rank}")
        for micro in range(4 - rank):
            bar(ax, 12.4 + 3.6 * micro, y, 3.1, 4.6, canvas.ACTIVATIONS, edgecolor=INK)
        words(ax, 12.8 + 3.6 * (4 - rank), y + 2.3, str(4 - rank), weight="bold", size=BIG)
    words(ax, 20, 3, "only this one knows the loss")
    return ax.figure


ONE, LATE, EARLY = 3.02, {"1F1B": 2.83, "GPipe": 2.96}, {"1F1B": 2.69, "GPipe": 2.29}  # ms a step, as the chapter says
WAITS = 0.73  # of 1F1B's time in four nodes


def four_nodes() -> Figure:
    """Four devices in four nodes, and to one scale what a rank computes for a micro-batch and what a message takes."""
    ax = sheet(36, 30)
    for rank in range(4):
        x = 0.8 + 9.2 * rank
        frame(ax, x, 19.4, 6.8, 9.4)
        box(ax, x + 0.8, 21.4, 5.2, 5.2, GPUS[rank], str(rank), size=BIG)
        if rank < 3:
            canvas.arrow(ax, (x + 6.1, 25), (x + 9.9, 25), line=2.4, colour=NETWORK)
            canvas.arrow(ax, (x + 9.9, 22.8), (x + 6.1, 22.8), line=2.4, colour=NETWORK)
    words(ax, 0.8, 16.2, "F and B of a micro-batch: 0.1 ms", weight="bold")
    bar(ax, 0.8, 10.4, 5, 4, FORWARD)
    bar(ax, 5.8, 10.4, 10, 4, BACKWARD)
    words(ax, 0.8, 7.2, "a message: 0.1 ms", weight="bold")
    bar(ax, 0.8, 1.4, 15, 4, NETWORK)
    return ax.figure


def a_turn() -> Figure:
    """What a rank does in a turn across nodes, and a step of one device and of four."""
    ax, unit = sheet(36, 30), 30 / ONE
    words(ax, 0.4, 28.4, "a turn: 0.1 + 2 · 0.1 ms", weight="bold")
    x = 0.4
    message = 11, WAITING, "a message"
    for wide, colour, told in (message, (3.7, FORWARD, "F"), message, (7.3, BACKWARD, "B")):
        bar(ax, x, 22, wide, 4.4, colour, edgecolor=WHITE, linewidth=1.2)
        words(ax, x + wide / 2, 24.2, told, ha="center", weight="bold" if len(told) == 1 else "normal")
        x += wide
    words(ax, 0.4, 19.6, "11 turns: 11 · 0.3 = 3.3 ms at most")
    words(ax, 0.4, 14.4, "one device", weight="bold")
    bar(ax, 0.4, 9, unit * ONE, 4, COMPUTE)
    words(ax, unit * ONE - 0.4, 11, f"{ONE} ms", ha="right", weight="bold", colour="white")
    words(ax, 0.4, 6.6, "four devices: works and waits", weight="bold")
    took = LATE["1F1B"]
    bar(ax, 0.4, 1.2, unit * took * (1 - WAITS), 4, COMPUTE)
    bar(ax, 0.4 + unit * took * (1 - WAITS), 1.2, unit * took * WAITS, 4, WAITING)
    words(ax, unit * took - 0.4, 3.2, f"{took} ms", ha="right", weight="bold")
    return ax.figure


def late_and_early() -> Figure:
    """A receive that is posted when x is needed, and one that is posted before."""
    ax = sheet(36, 30)
    for y, name, message in ((16.4, "asks when it needs x", 14), (1.6, "asks before", 4)):
        words(ax, 1, y + 11.6, name, weight="bold", size=BIG)
        end = message + 10
        bar(ax, 1, y + 4.6, 13, 4, COMPUTE)
        bar(ax, max(14, end), y + 4.6, 10, 4, COMPUTE)
        words(ax, 7.5, y + 6.6, "computes", ha="center", colour="white", weight="bold")
        words(ax, max(14, end) + 5, y + 6.6, "computes", ha="center", colour="white", weight="bold")
        if end > 14:
            bar(ax, 14, y + 4.6, end - 14, 4, WAITING)
            words(ax, (14 + end) / 2, y + 6.6, "waits", ha="center")
        bar(ax, message, y, 10, 4, NETWORK)
        words(ax, message + 5, y + 2, "message", ha="center", colour="white", weight="bold")
    return ax.figure


def gained() -> Figure:
    """A step of both orders with receives posted late and early."""
    ax, unit = sheet(36, 30), 26 / LATE["GPipe"]
    for row, order in enumerate(("1F1B", "GPipe")):
        y = 16.6 - 15.4 * row
        words(ax, 0.4, y + 10.6, order, weight="bold", size=BIG)
        for low, took, colour, told in ((y + 5, LATE[order], canvas.GREY, "late"), (y, EARLY[order], COMPUTE, "early")):
            bar(ax, 0.4, low, unit * took, 4.2, colour)
            words(ax, 1.2, low + 2.1, told, colour="white" if colour == COMPUTE else INK, weight="bold")
            words(ax, 1.2 + unit * took, low + 2.1, f"{took:.2f} ms", weight="bold", size=BIG)
    return ax.figure


# Section 7: in practice


def in_a_trace() -> Figure:
    """Two lanes of a profiler's trace, in which a receive that runs long is the bubble."""
    ax = sheet(36, 30)
    words(ax, 1, 27.6, "a profiler's trace of one GPU", weight="bold", size=BIG)
    for y, name in ((20, "computes"), (10.6, "NCCL")):
        words(ax, 1, y + 4.6, name)
    for x, wide, colour in ((1, 4, FORWARD), (5.4, 4, FORWARD), (23, 5.6, BACKWARD), (29, 5.6, BACKWARD)):
        bar(ax, x, 17.6, wide, 5, colour)
    for x, wide in ((5, 1.2), (9.4, 13.4), (28.4, 1.2)):
        bar(ax, x, 8.2, wide, 5, NETWORK)
    words(ax, 16.1, 10.7, "SendRecv", ha="center", colour="white", weight="bold")
    words(ax, 16.1, 5.4, "it waits: the bubble", ha="center", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


@steps(range(1, 5))
def goes_wrong(step: int) -> Figure:
    """Four mistakes with pipelines, one after the other."""
    ax = sheet(65, 29, (6.5, 2.9))
    titles = ("more GPUs, the same batch:\nthe bubble grows", "more stages: rank 0's\nactivations stay as large",
              "NCCL has no tags: sends and\nreceives in one order, or a hang",
              "clipping: the norm is over\nall stages, not over one")
    for place, title in enumerate(titles[:step]):
        x, top = 33.4 * (place % 2), 28.8 - 15 * (place // 2)
        words(ax, x + 0.4, top - 2, title, weight="bold")
        y = top - 12.6
        if place == 0:
            for low, micro in ((y + 4.4, 16), (y, 8)):
                wide = 28 * micro / 19
                bar(ax, x + 0.4, low, wide, 3.4, COMPUTE)
                bar(ax, x + 0.4 + wide, low, 28 * 3 / 19, 3.4, WAITING)
                words(ax, x + 1.2, low + 1.7, f"m = {micro}", colour="white", weight="bold")
        elif place == 1:
            for low, count, wide in ((y + 4.4, 4, 6), (y, 8, 3)):
                for piece in range(count):
                    bar(ax, x + 0.4 + wide * piece, low, wide - 0.3, 3.4, canvas.ACTIVATIONS, edgecolor=INK)
                words(ax, x + 25, low + 1.7, f"p = {count}")
        elif place == 2:
            for side, order in ((0.4, ("send 1", "send 2")), (16.4, ("recv 2", "recv 1"))):
                for row, name in enumerate(order):
                    box(ax, x + side, y + 4.2 - 4.2 * row, 10, 3.6, canvas.FACES[0 if side < 1 else 1], name)
            canvas.arrow(ax, (x + 10.6, y + 6), (x + 16.2, y + 1.8), colour=FAULT, line=2)
            canvas.arrow(ax, (x + 10.6, y + 1.8), (x + 16.2, y + 6), colour=FAULT, line=2)
        else:
            for rank in range(4):
                box(ax, x + 0.4 + 7 * rank, y + 2.4, 6, 4.6, GPUS[rank], f"|g{rank}|²")
                if rank:
                    words(ax, x - 0.1 + 7 * rank, y + 4.7, "+", ha="center", weight="bold")
    return ax.figure
