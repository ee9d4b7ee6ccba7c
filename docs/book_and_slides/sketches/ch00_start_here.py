"""Pictures that only the slides of chapter 0 have, in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from kit import ACROSS, BIG, MONO, PALE, axes, bar, bars, box, frame, line, sheet, span, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import Cluster
from course_lib.costs import collective_seconds
from course_lib.hardware import DGX_H100
from course_lib.models import MODELS, parameter_count
from course_lib.plots import canvas

WHITE, INK, FAULT, SENT, WAITING = "#FFFFFF", canvas.INK, canvas.LIMIT, canvas.SENT, canvas.WAITING
FACES, COMPUTE = canvas.FACES, canvas.COMPUTE
PINK_WORDS, LARGE = "#8E3B68", 20  # pink as dark as letters must be; points of what is read first
ALPHA, RATE = Cluster().link(0, 1)
EIGHT_B = parameter_count(MODELS["Llama-3-8B"])
STAR, RING = (collective_seconds("all_reduce", 1024, 2 * EIGHT_B, ALPHA, RATE, how) for how in ("naive", "ring"))
STEP = 6 * EIGHT_B * 2**24 / (1024 * 400e12)  # seconds: paper problem 3, for Llama-3-8B on 1,024 GPUs
PROCESSES = 23901, 23952, 23953, 23954, 23955  # as a run of section 1 printed them, the notebook's first
SLICES = [sum(2 * x * (0 - 3 * x) for x in (rank + 1, rank + 5)) for rank in range(4)]  # gradients at weight 0
ASKED = {"ha": "center", "size": LARGE, "colour": FAULT}


def _picture(steps: int = 1, wide: float = 36, high: float = 30) -> Callable:
    """Turn a function that draws one step on a sheet into one that returns the figures of all steps."""
    def figure(draw: Callable, step: int) -> Figure:
        ax = sheet(wide, high, (wide / 10, high / 10))
        draw(ax, *[step] * (steps > 1))
        return ax.figure

    return lambda draw: lambda: [figure(draw, step) for step in range(1, steps + 1)]


def _head(ax: Axes, x: float, y: float, text: str, **look) -> None:
    words(ax, x, y, text, **{"weight": "bold", "size": BIG} | look)


def _through(ax: Axes, above: Sequence[str], middle: str, below: Sequence[str], told: str, colour: str = SENT) -> None:
    """Draw what each of four ranks has, what goes through between them, and what each has afterwards."""
    box(ax, 0.4, 12, 35.2, 4.8, WHITE, middle, size=BIG, edge=colour, line=2.5, weight="bold")
    _head(ax, 18, 1.5 if below else 7, told, ha="center", colour=INK if below else FAULT)
    for rank in range(4):
        x = 4.35 + 9.1 * rank
        words(ax, x, 28.5, f"rank {rank}", ha="center", weight="bold")
        for y, texts in ((22, above), (3.6, below)):
            if texts:
                box(ax, x - 3.95, y, 7.9, 5, FACES[rank], texts[rank], size=BIG)
                canvas.arrow(ax, (x, 21.6 if y == 22 else 11.6), (x, 17.2 if y == 22 else 9), colour=colour, line=2.5)


def _copies(ax: Axes, name: str, inside: Sequence[str], told: str, above: str = "one function") -> None:
    """Draw one function, or what else is above, and the four processes that run it, with what is in each."""
    box(ax, 6, 24, 24, 5, WHITE, above, size=BIG, weight="bold")
    for rank, text in enumerate(inside):
        x = 0.4 + 9.1 * rank
        canvas.arrow(ax, (12 + 4 * rank, 23.6), (x + 3.95, 18.4), line=1.8)
        frame(ax, x, 5, 7.9, 13, FACES[rank], linewidth=2)
        _head(ax, x + 3.95, 14.8, name if name == "copy" else f"rank {rank}", ha="center")
        box(ax, x + 0.8, 6.6, 6.3, 5, WHITE, text, size=BIG)
    _head(ax, 18, 2, told, ha="center", colour=FAULT if "?" in told else INK)


@_picture()
def own_memories(ax: Axes) -> None:
    """Four programs behind walls, each with a number, and the sum that all should have."""
    for rank in range(4):
        x, y = 0.6 + 20.8 * (rank % 2), 18.6 - 17.6 * (rank // 2)
        frame(ax, x, y, 14, 10.6, FACES[rank], linewidth=3)
        _head(ax, x + 7, y + 8.4, f"program {rank}", ha="center")
        box(ax, x + 1.4, y + 1.4, 11.2, 4.6, WHITE, f"mine = {rank + 1}", size=BIG)
    _head(ax, 18, 14.9, "1 + 2 + 3 + 4 = ?  on all four", **ASKED)


@_picture(3, 65, 28)
def sixteen_thousand(ax: Axes, step: int) -> None:
    """16,384 GPUs as small squares, then what each of them has, then what all of them need."""
    squares = [(0.3 + 0.53 * (place % 64), 1 + 0.74 * (place // 64)) for place in range(16384 // 8)]
    ax.scatter(*zip(*squares, strict=True), s=3.4, marker="s", color=canvas.BLUE, linewidths=0)
    _head(ax, 0, 26.6, "a square: a machine of eight GPUs")
    if step > 1:
        for corner, y in ((63, 11.4), (2047, 26.8)):
            line(ax, squares[corner], (39, y), wide=1)
        frame(ax, 39, 11.2, 25.6, 15.8, FACES[0], linewidth=2)
        _head(ax, 40.4, 24.6, "for each GPU")
        box(ax, 40.4, 12.6, 22.8, 9.6, WHITE, "the same program and\na memory of its own", size=BIG)
    if step > 2:
        _head(ax, 39, 5, "Every six seconds all need\n405 billion sums, one for\neach weight.", colour=FAULT)


@_picture(1, 65, 28)
def nodes(ax: Axes) -> None:
    """Two nodes of eight GPUs with NVLink inside, and the network cards between them."""
    fast, slow = DGX_H100.gpu.link.bandwidth / 1e9, DGX_H100.nic.bandwidth / 1e9
    for node, x in enumerate((0.4, 34)):
        frame(ax, x, 8.4, 30.6, 19)
        _head(ax, x + 1.2, 25.2, f"node {node}: one computer")
        bar(ax, x + 1, 19.2, 28.6, 3.2, canvas.NVLINK, f"NVLink: {fast:.0f} GB/s for each GPU")
        for gpu in range(8):
            left = x + 1 + 3.65 * gpu
            line(ax, (left + 1.6, 19.2), (left + 1.6, 17), colour=canvas.NVLINK, wide=7)
            line(ax, (left + 1.6, 13), (left + 1.6, 4.4), colour=canvas.NETWORK, wide=1.4, zorder=0.5)
            box(ax, left, 13, 3.1, 4, FACES[gpu], f"{8 * node + gpu}", weight="bold", size=BIG)
            box(ax, left, 9, 3.1, 2.4, WHITE, "NIC")
    line(ax, (1.6, 4.4), (63, 4.4), colour=canvas.NETWORK, wide=3)
    _head(ax, 32.5, 1.8, f"network cards (NIC): {slow:.0f} GB/s for each GPU", ha="center", colour=PINK_WORDS)


@_picture()
def which_part(ax: Axes) -> None:
    """One function in four copies, of which none knows its part."""
    _copies(ax, "copy", ["?"] * 4, "Which part is mine?")


@_picture()
def who_am_i(ax: Axes) -> None:
    """What the two calls answer on each of four ranks."""
    _copies(ax, "rank", [f"{rank} of 4" for rank in range(4)], "world size $P$ = 4")


@_picture()
def five_processes(ax: Axes) -> None:
    """The notebook and four ranks, each a process with a number of its own."""
    notebook, *ranks = PROCESSES
    _copies(ax, "rank", [f"{number}" for number in ranks], "five processes, five numbers", f"notebook: {notebook}")


def _two_runs(ax: Axes, texts: Sequence[str], first: str, second: str, found: str) -> None:
    """Draw the notebook's empty list and the four ranks of two runs, with what is said of each run."""
    box(ax, 7.4, 24, 28, 5, WHITE, "notebook: notes = [ ]", size=BIG)
    for run, y, told in ((1, 14.6, first), (2, 4.4, second)):
        _head(ax, 0.2, y + 2.2, f"run {run}")
        words(ax, 21.4, y + 6.2, told, ha="center")
        for rank in range(4):
            edge, wide = (FAULT, 3) if (run, rank) == (2, 2) else (INK, 1)
            ended = run == 1 and texts[0] != texts[1]
            text = texts[run - 1] or f"rank {rank}"
            box(ax, 7.4 + 7.2 * rank, y, 6.4, 4.4, WAITING if ended else FACES[rank], text, line=wide, edge=edge)
    _head(ax, 25, 1.6, f"rank 2's list: {found}", ha="center", colour=FAULT if "?" in found else INK)


@_picture()
def two_runs(ax: Axes) -> None:
    """The notebook's empty list, the four ranks of two runs, and the list that is asked for."""
    _two_runs(ax, ("", ""), "each appends a line", "each appends a line", "? lines")


@_picture()
def lists_end(ax: Axes) -> None:
    """The first run, whose lists have ended, and the second, in which each rank begins with an empty list again."""
    _two_runs(ax, ("ended", "1 line"), "one line each, then they end", "new copies of the empty list", "1 line")


@_picture(2)
def against_gradient(ax: Axes, step: int) -> None:
    """The loss over one weight, its slope where a step begins, and the step against it."""
    def place(weight: float) -> tuple[float, float]:
        return 5 + 4.6 * weight, 5.6 + 19 * (weight - 3) ** 2 / 9

    line(ax, *(place(0.1 * tenth) for tenth in range(1, 60)), colour=canvas.BLUE, wide=3)
    for tip in ((34, 3.4), (2.6, 28)):
        canvas.arrow(ax, (2.6, 3.4), tip, line=1)
    words(ax, 34, 1.6, "weight", ha="right", weight="bold")
    words(ax, 3.8, 27.4, "loss", weight="bold")
    (x, y), end, slope = place(0.4), place(1.8), 38 * (0.4 - 3) / 9 / 4.6
    ax.plot(x, y, "o", color=INK, markersize=11)
    line(ax, (x - 1.8, y - 1.8 * slope), (x + 4, y + 4 * slope), colour=canvas.GRADIENTS, wide=4)
    words(ax, x + 2.6, y + 1.2, "the gradient: the slope here", weight="bold")
    if step > 1:
        canvas.arrow(ax, (x, 4.8), (end[0], 4.8), colour=COMPUTE, line=3)
        ax.plot(*end, "o", color=COMPUTE, markersize=11)
        words(ax, end[0] + 1.2, end[1] + 2.6, "a step against it", weight="bold")


@_picture()
def slices(ax: Axes) -> None:
    """Eight points in four slices, what each point adds to a gradient, and the gradient that is asked for."""
    told = r"a point adds  $2x \cdot ($weight$\,\cdot\, x - y)$"
    _through(ax, [f"$x$ = {rank + 1}, {rank + 5}" for rank in range(4)], told, (), "rank 0's gradient = ?")


@_picture(2)
def slices_add_up(ax: Axes, step: int) -> None:
    """The gradients of four slices, each where the one before ends, and below them that of the whole batch."""
    whole, x = sum(SLICES), 7.2
    for rank, part in enumerate(SLICES):
        y, wide = 24.8 - 5.4 * rank, 28.4 * part / whole
        words(ax, 0.2, y + 2.2, f"rank {rank}", weight="bold")
        bar(ax, x, y, wide, 4.4, FACES[rank], edgecolor=INK)
        _head(ax, x + (wide / 2 if wide > 5 else wide + 0.6), y + 2.2, f"−{-part}", ha="center" if wide > 5 else "left")
        x += wide
    if step > 1:
        words(ax, 0.2, 3.4, "batch", weight="bold")
        bar(ax, 7.2, 1, 28.4, 4.8, canvas.GRADIENTS, f"−{-whole:,}", size=LARGE, edgecolor=INK)


@_picture(2)
def one_call(ax: Axes, step: int) -> None:
    """What four ranks hold before they call all_reduce together, and after it."""
    _through(ax, "1234", "all ranks call all_reduce", ["10" * (step > 1)] * 4, "in the same tensor on every rank")


@_picture(3)
def send_and_recv(ax: Axes, step: int) -> None:
    """A receiver that has made room and waits, then the bytes on their way, then both done."""
    for rank, x in enumerate((2, 21.4)):
        frame(ax, x, 4, 12.6, 23, FACES[rank], linewidth=2)
        _head(ax, x + 6.3, 24.2, f"rank {rank}", ha="center")
        _head(ax, x + 6.3, 18.4, "recv" if rank else "send" if step > 1 else "", ha="center", **MONO)
        for place in range(4):
            told = f"{place}" if not rank or step > 2 else ""
            bar(ax, x + 0.7 + 2.85 * place, 10, 2.6, 4.6, WHITE, told, size=BIG, edgecolor=INK)
    words(ax, 27.7, 7, ("room, and it waits", "it still waits", "it goes on")[step - 1], ha="center")
    if step > 1:
        canvas.arrow(ax, (15, 12.2), (21, 12.2), colour=SENT, line=5)
        _head(ax, 18, 15, "bytes", ha="center", colour=PINK_WORDS)


def _message(ax: Axes, told: str, asks: bool) -> None:
    """Draw a message of a thousand numbers, and what else might be in it: asked for, or crossed out."""
    frame(ax, 1, 4, 34, 22, WHITE, edgecolor=SENT, linewidth=3)
    _head(ax, 2.4, 23, "in the message")
    box(ax, 2.4, 13.6, 31.2, 6.4, SENT, told, size=BIG, weight="bold")
    for place, name in enumerate(("shape", "dtype", "name")):
        x = 2.4 + 10.6 * place
        box(ax, x, 6, 10, 5, WHITE, f"{name}{'?' * asks}", size=BIG, edge=FAULT if asks else canvas.GREY, line=2)
        if not asks:
            line(ax, (x, 6), (x + 10, 11), colour=FAULT, wide=3)


@_picture()
def what_travels(ax: Axes) -> None:
    """A message of a thousand numbers, and what else might be in it."""
    _message(ax, "1,000 numbers in float32", True)


@_picture()
def bytes_alone(ax: Axes) -> None:
    """The message as it is: its bytes, and no shape, no dtype and no name."""
    _message(ax, "1,000 · 4 bytes", False)


@_picture()
def few_or_small(ax: Axes) -> None:
    """The same bytes as one message and as ten."""
    for y, name, count in ((17, "one large message", 1), (4, "ten small ones", 10)):
        _head(ax, 0.4, y + 7.6, name)
        for piece in range(count):
            bar(ax, 0.4 + 3.05 * piece, y, 27 / count, 5, SENT)
        _head(ax, 33.8, y + 2.5, "? s", ha="center", size=LARGE, colour=FAULT)


@_picture()
def a_million(ax: Axes) -> None:
    """A message of 4 bytes and one of a million times as many, and the time that is asked for."""
    for y, told, wide, time in ((18, "4 bytes", 0.12, "takes $t$"), (5, "4 MB: a million times", 35, "takes ? · $t$")):
        _head(ax, 0.4, y + 7.6, told)
        _head(ax, 35.4, y + 7.6, time, ha="right", size=LARGE, colour=FAULT if "?" in time else INK)
        bar(ax, 0.4, y, wide, 5, SENT)


def _costs(ax: Axes, rows: Sequence[tuple[str, float]], longest: float) -> None:
    """Draw messages below each other, their latency hatched and their bytes in full, to scale."""
    second = 35 / (ALPHA + longest / RATE)
    for place, (told, size) in enumerate(rows):
        y = 20.4 - 9.4 * place
        _head(ax, 0.4, y + 5.6, told)
        bar(ax, 0.4, y, second * ALPHA, 4, WHITE, edgecolor=SENT, hatch="////", linewidth=1)
        bar(ax, 0.4 + second * ALPHA, y, max(second * size / RATE, 0.3), 4, SENT)


@_picture(2)
def starts_then_flows(ax: Axes, step: int) -> None:
    """A message as latency and bytes: a short one is nearly all latency, a long one nearly all bytes."""
    _costs(ax, (("a glass: wait for the first drop", 4), ("a pool: wait for the flow", 1e6))[:step], 1e6)
    _head(ax, 0.4, 4, r"hatched: latency $\alpha$; pink: bytes, $S/B$")


def sizes() -> Figure:
    """What a message takes, over its size, with three messages of real models."""
    ax = axes(ACROSS)
    real = (("a sum for a token", 2 * 8192), ("gradients that PyTorch sums in one go", 25e6),
            ("gradient of Llama-3-8B", 2 * EIGHT_B))  # fmt: skip
    every = [10 ** (tenth / 10) for tenth in range(105)]
    ax.loglog(every, [1e6 * (ALPHA + size / RATE) for size in every], color=canvas.BLUE, linewidth=4)
    for name, size in real:
        time = 1e6 * (ALPHA + size / RATE)
        told = f"{time:.1f} µs" if time < 10 else f"{time:.0f} µs" if time < 1e4 else f"{time / 1e3:.0f} ms"
        ax.plot(size, time, "o", color=INK, markersize=11)
        right, up = (0.6, 2.2) if size > ALPHA * RATE else (3, 3)  # beside the slope, above the flat part
        _head(ax, right * size, up * time, f"{name}: {told}", ha="right")
    line(ax, (ALPHA * RATE, 1), (ALPHA * RATE, 2e6 * ALPHA), colour=canvas.GREY, linestyle="--", zorder=0)
    words(ax, ALPHA * RATE * 1.4, 2, rf"$\alpha B$ = {ALPHA * RATE / 1e3:.0f} kB", size=BIG)
    ax.set(xlim=(1, 10 ** 10.6), ylim=(1, 2e6))
    ax.set_xticks([1, 1e3, 1e6, 1e9], ["1 byte", "1 kB", "1 MB", "1 GB"])
    ax.set_yticks([1, 1e3, 1e6], ["1 µs", "1 ms", "1 s"])
    ax.minorticks_off()
    return ax.figure


@_picture(3)
def three_sizes(ax: Axes, step: int) -> None:
    """What a message takes that is a tenth of alpha B long, as long, and ten times as long."""
    rows = [(f"{times * ALPHA * RATE / 1e3:,.0f} kB: {told}", times * ALPHA * RATE) for times, told in (
        (0.1, "latency decides"), (1, "equally long"), (10, "bytes decide"))]
    _costs(ax, rows[:step], rows[-1][1])


@_picture()
def ten_from_messages(ax: Axes) -> None:
    """What four ranks have, what all should have, and nothing but messages between."""
    _through(ax, "1234", "send and recv: who to whom?", ["10"] * 4, "All four need the sum.", FAULT)


@_picture()
def one_step(ax: Axes) -> None:
    """Four different gradients, one mean, and the same step on all ranks."""
    _through(ax, ("$g_0$", "$g_1$", "$g_2$", "$g_3$"), "their sum, divided by 4", ["step"] * 4, "the same step on all")


def _learned(add_up: bool) -> list[list[float]]:
    """Return each rank's weight over the steps of section 5, alone or with the mean of all gradients."""
    chances = [torch.Generator().manual_seed(913 + rank) for rank in range(4)]
    points = [(x := torch.randn(8, generator=chance), 3 * x + torch.randn(8, generator=chance)) for chance in chances]
    weights = [[0.0] for _ in points]
    for _ in range(20):
        slopes = [(2 * x * (own[-1] * x - y)).mean().item() for (x, y), own in zip(points, weights, strict=True)]
        for own, slope in zip(weights, slopes, strict=True):
            own.append(own[-1] - 0.2 * (sum(slopes) / 4 if add_up else slope))
    return weights


@steps((1, 2))
def one_weight(step: int) -> Figure:
    """The weight of four ranks over twenty steps: alone, and then also with the sum."""
    ax, alone, (together, *_) = axes((6.5, 2.5)), _learned(False), _learned(True)
    line(ax, (0, 3), (20, 3), wide=1, linestyle="--")
    lines = [(f"rank {rank} alone: {own[-1]:.2f}", own, FACES[rank], 3) for rank, own in enumerate(alone)]
    lines += [(f"all four, with your sum: {together[-1]:.2f}", together, SENT, 6)] * (step > 1)
    places = dict(zip(sorted(own[-1] for own in alone), (1.95, 2.47, 3.49, 4.01), strict=True))
    for name, own, colour, wide in lines:
        line(ax, *enumerate(own), colour=colour, wide=wide)
        words(ax, 20.4, places.get(own[-1], own[-1]), name, size=BIG, weight="bold" if wide > 3 else "normal")
    ax.set(xlim=(0, 31), ylim=(0, 4.3), xticks=range(0, 21, 5))
    ax.spines["bottom"].set_bounds(0, 20)
    ax.set_xlabel("step", fontsize=BIG, x=10 / 31)
    ax.set_ylabel("weight", fontsize=BIG)
    return ax.figure


def _parts(ax: Axes, y: float, second: float, parts: Sequence[tuple[float, str, str]], name: str, x: float) -> None:
    """Draw a name, and behind it from x on its parts (seconds, colour, what it is) one after the other."""
    _head(ax, 0.2, y + 2.5, name)
    for long, colour, told in parts:
        bar(ax, x, y, second * long, 5, colour, told, size=BIG, edgecolor=WHITE)
        x += second * long


@_picture()
def every_step(ax: Axes) -> None:
    """A step's computing, and the sum of its gradients behind it, of which nobody knows how long it takes."""
    _head(ax, 0.4, 23, "a step of Llama-3-8B on 1,024 GPUs")
    _parts(ax, 14, 16 / STEP, [(STEP, COMPUTE, f"computes: {STEP:.0f} s")], "", 0.4)
    box(ax, 16.8, 14, 18.8, 5, WHITE, f"the sum of {2 * EIGHT_B / 1e9:.0f} GB", size=BIG, edge=SENT, line=2.5)
    _head(ax, 26.2, 8, "through rank 0: ? s", **ASKED | {"size": BIG})


def _hub(ax: Axes, ranks: int, told: str, busy: int = 0) -> None:
    """Draw rank 0 in the middle and the others around it, all in grey but one if that is `busy`."""
    for rank in range(1, ranks):
        angle = 2 * math.pi * rank / (ranks - 1)
        x, y, active = 18 + 13.4 * math.cos(angle), 15.9 + 12.4 * math.sin(angle), busy in (0, rank)
        line(ax, (18, 15.9), (x, y), colour=SENT if active else WAITING, wide=4 if active and busy else 1.4)
        ax.plot(x, y, "o", markersize=13 if busy else 8, color=FACES[rank % 8] if active else WAITING,
                markeredgecolor=INK if active else canvas.GREY, zorder=3)
    frame(ax, 14.2, 13.5, 7.6, 4.8, FACES[0], zorder=4)
    _head(ax, 18, 15.9, "rank 0", ha="center", zorder=5)
    words(ax, 18, 1, told, ha="center", weight="bold")


@_picture()
def all_through_one(ax: Axes) -> None:
    """Sixty-four ranks, of which 63 have a link to rank 0 and to nobody else, and the time that is asked for."""
    _hub(ax, 64, f"64 ranks, {1e6 * ALPHA:.0f} µs a message: ? µs")


@_picture()
def all_but_two_wait(ax: Axes) -> None:
    """A star in which one message moves and every other rank waits."""
    _hub(ax, 24, "grey: they wait", busy=3)


@_picture()
def one_after_the_other(ax: Axes) -> None:
    """All messages of rank 0, one after the other, and what they take."""
    for y, way in ((17.6, "in"), (8, "out")):
        _head(ax, 0.4, y + 6.4, f"63 {way}, one after the other")
        for place in range(63):
            bar(ax, 0.4 + 0.56 * place, y, 0.48, 4.4, SENT)
    _head(ax, 18, 3, f"126 · {1e6 * ALPHA:.0f} µs = {126e6 * ALPHA:.0f} µs", **ASKED | {"colour": INK})


def minutes_for_seconds() -> Figure:
    """The star's time for the gradient of Llama-3-8B beside that of the step itself."""
    return bars(["the sum through rank 0", "the step's computing"], [STAR, STEP], [f"{STAR:.0f} s", f"{STEP:.0f} s"],
                [SENT, COMPUTE])


@_picture(2)
def twice_round(ax: Axes, step: int) -> None:
    """A piece on its way round four ranks: first each adds its part, then each takes a copy."""
    halves = ("one piece: each adds its own", ("1", "1+2", "1+2+3", "sum")), ("then each keeps a copy", ("sum",) * 4)
    for half, (name, told) in enumerate(halves[:step]):
        y = 18.4 - 15.4 * half
        _head(ax, 0.4, y + 8, name)
        for place, text in enumerate(told):
            x, rank = 0.4 + 9.3 * place, (place + 3 * half) % 4
            box(ax, x, y, 6.8, 5, FACES[rank], text, weight="bold")
            words(ax, x + 3.4, y - 1.6, f"rank {rank}", ha="center")
            if place < 3:
                canvas.arrow(ax, (x + 7, y + 2.5), (x + 9.1, y + 2.5), colour=SENT, line=4)


@_picture(1, 65, 28)
def star_beside_ring(ax: Axes) -> None:
    """Four ranks that sum 4 MB with a star and around a ring: when each sends, receives and waits."""
    star, ring = (collective_seconds("all_reduce", 4, 4e6, ALPHA, RATE, how) for how in ("naive", "ring"))
    turns = [[*((rank,) if rank else range(1, 4)), *((rank + 3,) if rank else range(4, 7))] for rank in range(4)]
    rows = ("through rank 0", 26.6, star, turns), ("around a ring", 12.3, ring, [range(1, 7)] * 4)
    for name, top, time, busy in rows:
        wide = 56 * time / star / 6
        for rank, some in enumerate(busy):
            y = top - 4 - 2.5 * rank
            words(ax, 0.2, y + 1, f"rank {rank}", weight="bold")
            for turn in range(1, 7):
                bar(ax, 7 + wide * (turn - 1), y, wide - 0.2, 2, SENT if turn in some else WAITING)
        _head(ax, 0.2, top, f"{name}: {1e6 * time:.0f} µs")
    _head(ax, 36, 7, "pink: sends or receives")
    _head(ax, 36, 3.4, "grey: waits", colour=INK)


@_picture()
def hardly_grows(ax: Axes) -> None:
    """The time of the star on 16 and on 1,024 GPUs, and below it that of the ring, each pair to a scale of its own."""
    for top, name, how in ((28.4, "star", "naive"), (13, "ring", "ring")):
        few, many = (collective_seconds("all_reduce", ranks, 2 * EIGHT_B, ALPHA, RATE, how) for ranks in (16, 1024))
        _head(ax, 0.4, top, f"{name}: {many / few:.{0 if many > 2 * few else 2}f} times as long")
        for y, ranks, time in (top - 6, 16, few), (top - 11.4, 1024, many):
            wide = 24 * time / many
            words(ax, 0.4, y + 2.2, f"{ranks:,} GPUs")
            bar(ax, 11.4, y, wide, 4.4, SENT)
            told, (off, side) = f"{time:.{2 * (time < 1)}f} s", (11, "right") if wide > 10 else (12, "left")
            words(ax, off + wide, y + 2.2, told, ha=side, weight="bold")


@_picture()
def added_to_a_step(ax: Axes) -> None:
    """A step's computing, and behind it the sum for which the GPU waits."""
    second, end = 35.2 / (STEP + RING), 0.4 + 35.2 * STEP / (STEP + RING)
    _parts(ax, 20, second, ((STEP, COMPUTE, f"computes: {STEP:.0f} s"), (RING, WAITING, "waits")), "", 0.4)
    _parts(ax, 13, second, ((RING, SENT, f"{RING:.2f} s"),), "", end)
    canvas.arrow(ax, (end - 1, 15.5), (12, 15.5), line=3, colour=FAULT)
    _head(ax, 18, 7, "at the same time?", **ASKED)


@_picture(3, 65, 26)
def four_seconds(ax: Axes, step: int) -> None:
    """Blocking send, second after second: rank 0 waits, then its message moves, then it works."""
    for mark in range(5):
        line(ax, (8 + 13.8 * mark, 4.4), (8 + 13.8 * mark, 23), colour=canvas.GREY, wide=1, zorder=0)
        words(ax, 8 + 13.8 * mark, 2.6, f"{mark} s", ha="center")
    zero = (1, WAITING, "waits in send"), (1, SENT, "message"), (2, COMPUTE, "works")
    for y, name, parts in ((16, "rank 0", zero), (7, "rank 1", ((1, COMPUTE, "works"), (1, SENT, "receives")))):
        _parts(ax, y, 13.8, parts[:step], name, 8)


@_picture()
def handle(ax: Axes) -> None:
    """A rank that works between isend and wait, its message below, and the tensor that it must not write to."""
    zero = (1, PALE, "isend"), (2.4, COMPUTE, "works"), (1, PALE, "wait")
    for y, name, parts in ((22, "rank 0", zero), (13.6, "message", [(2.4, SENT, "on its way")]),
                           (5.2, "tensor", [(2.4, WHITE, "don't write")])):
        _parts(ax, y, 6, parts, name, 9 if len(parts) > 1 else 15)
    for x in (15, 29.4):
        line(ax, (x, 3.6), (x, 28), colour=FAULT, wide=2, linestyle="--")


@_picture()
def how_many_seconds(ax: Axes) -> None:
    """The parts of both ranks, to scale, and the time that is asked for."""
    for y, name, part in ((22.6, "rank 0", (2, COMPUTE, "works 2 s")), (15.6, "rank 1", (1, COMPUTE, "works 1 s")),
                          (8.6, "message", (1, SENT, "1 s"))):
        _parts(ax, y, 12, [part], name, 10.6)
    _head(ax, 18, 3.4, "isend, work, wait: ? s", **ASKED)


@_picture()
def overlap(ax: Axes) -> None:
    """Rank 0 with send, one part after the other, and with isend, which works while its message waits and moves."""
    for mark in range(5):
        for low, high in ((3.6, 5), (19.6, 21)):
            line(ax, (0.6 + 8.6 * mark, low), (0.6 + 8.6 * mark, high), colour=canvas.GREY, wide=1, zorder=0)
        words(ax, min(0.6 + 8.6 * mark, 34), 2, f"{mark} s", ha="center" if mark else "left")
    _head(ax, 0.4, 28.4, "rank 0 with send: 4 s")
    _head(ax, 0.4, 17, "with isend: 2 s")
    waits, message, works = (1, WAITING, "waits"), (1, SENT, "message"), (2, COMPUTE, "works")
    for y, parts in ((21, (waits, message, works)), (10.2, (works,)), (5, (waits, message))):
        _parts(ax, y, 8.6, parts, "", 0.6)
    span(ax, 17.8, 35, 9, "two seconds less")


def _swap(ax: Axes, waits: int) -> None:
    """Draw two ranks that both send and then receive: their messages, or how many `waits` from call to call."""
    for rank, x in enumerate((0.6, 24)):
        _head(ax, x + 5.7, 27.4, f"rank {rank}", ha="center")
        for y, call in ((19.6, "send"), (7, "recv")):
            box(ax, x, y, 11.4, 5.6, FACES[rank], call, size=BIG, weight="bold")
    round_it = (12.4, 21.6, 23.6, 10.6), (29.7, 13, 29.7, 19.2), (23.6, 21.6, 12.4, 10.6), (6.3, 13, 6.3, 19.2)
    for x, y, to, there in round_it[:waits] if waits else round_it[::2]:
        canvas.arrow(ax, (x, y), (to, there), colour=FAULT if waits else SENT, line=3)


@_picture()
def both_send_first(ax: Axes) -> None:
    """Two ranks that both send and then receive."""
    _swap(ax, 0)
    _head(ax, 18, 2.6, "after one second: ?", **ASKED)


@_picture(2)
def circle(ax: Axes, step: int) -> None:
    """Rank 0's send waits for rank 1's recv, which waits for its own send, and so on round."""
    _swap(ax, 2 * step)
    _head(ax, 18, 2.6, "an arrow: waits for", ha="center", colour=FAULT)


@_picture()
def ten_minutes(ax: Axes) -> None:
    """Work that stops, ten minutes of nothing, and what they cost on 16,384 GPUs."""
    bar(ax, 0.4, 18, 6, 7, COMPUTE, "works")
    bar(ax, 6.4, 18, 29, 7, WAITING, "no error, no output", size=BIG)
    span(ax, 6.4, 35.4, 27, "10 minutes")
    words(ax, 18, 12.6, "16,384 GPUs, 2.50 dollars an hour each", ha="center", size=BIG)
    _head(ax, 18, 6, f"{16384 * 2.5 / 6:,.0f} dollars", **ASKED)
