"""Pictures that only the slides of chapter 4 have."""

from __future__ import annotations

import torch
from kit import BIG, PALE, box, line, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.costs import collective_seconds
from course_lib.hardware import DGX_H100, H100
from course_lib.lessons.model_step import MFU, model_step
from course_lib.models import MODELS, parameter_count
from course_lib.plots import canvas

WHITE, SWITCH, INK = "#FFFFFF", "#E3E3E3", canvas.INK
FORWARD, BACKWARD, SUM, IDLE, FAULT = canvas.FORWARD, canvas.BACKWARD, canvas.COLLECTIVE, canvas.WAITING, canvas.LIMIT
GREEN, PINK = "#00704F", canvas.FACES[5]
LLAMA, LARGE = MODELS["Llama-3-8B"], MODELS["Llama-3-70B"]
ONE, EIGHT = model_step(LLAMA, 1, tokens=8192), model_step(LLAMA, 8, tokens=8192)  # on one machine, and on eight
STEPS, YEAR = 15e12 / 8192, 365 * 24 * 3600
GPT, COMPUTES, AFTER, HOOKED = 240_000, 0.76, 2.52, 2.02  # the tiny GPT: its weights, and milliseconds of its steps
TARGET = 2.0, -1.0


def _bar(ax: Axes, x: float, y: float, wide: float, high: float, fill: str, text: str = "", **look) -> None:
    """Draw a bar with a thin white rim and a text in its middle."""
    ax.add_patch(Rectangle((x, y), wide, high, facecolor=fill, edgecolor="white", linewidth=1))
    words(ax, x + wide / 2, y + high / 2, text, **{"ha": "center"} | look)


# The question: different data, equal models


def equal_models() -> Figure:
    """Four ranks that read different texts, and their models after a step."""
    ax = sheet(36, 30)
    for rank in range(4):
        x = 0.6 + 9 * rank
        box(ax, x, 23, 7.6, 5.4, canvas.FACES[rank], f"text {rank}", size=BIG)
        canvas.arrow(ax, (x + 3.8, 22.6), (x + 3.8, 17.8), line=2)
        box(ax, x, 12, 7.6, 5.4, WHITE, "model", size=BIG, edge=canvas.BLUE, line=2)
        words(ax, x + 3.8, 9.6, f"rank {rank}", ha="center")
        if rank:
            words(ax, x - 0.7, 14.7, "=", ha="center", weight="bold", size=BIG)
    words(ax, 18, 4, "after every step?", ha="center", weight="bold", size=20, colour=FAULT)
    return ax.figure


def sixty_two_years() -> list[Figure]:
    """The years that one GPU needs, the one year that 64 have, and what they read in it."""
    return [_years(step) for step in range(1, 4)]


def _years(step: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    years = STEPS * (EIGHT.forward + EIGHT.backward) / YEAR
    words(ax, 0, 26.4, "one H100 at 40 % of its peak", weight="bold", size=BIG)
    _bar(ax, 0, 20.4, 64, 4, FORWARD, f"{years:.0f} years for 15 trillion tokens", size=BIG, weight="bold")
    if step > 1:
        words(ax, 0, 17, "64 of them, and one year", weight="bold", size=BIG)
        for gpu in range(64):
            _bar(ax, 1.35 * (gpu % 32), 11.4 - 3.2 * (gpu // 32), 64 / years + 0.25, 2.8, FORWARD)
        words(ax, 45, 11.2, "each reads its own\npart of the text", size=BIG, weight="bold")
    if step > 2:
        words(ax, 0, 3.2, "After one step, are these 64 different models? No weight is sent after the start.",
              size=BIG, weight="bold", colour=FAULT)
    return ax.figure


@steps(range(1, 5))
def one_step(step: int) -> Figure:
    """A step of four ranks: rows, replicas, gradients, the all-reduce, and the same step everywhere."""
    ax = sheet(65, 29, (6.5, 2.9))
    rows = (24.6, "global batch", 1), (18.9, "replicas", 1), (13.2, "gradients", 2), (7.5, "all-reduce", 3), \
        (1.2, "same step", 4)
    for y, name, first in rows:
        if step >= first:
            words(ax, 0, y + 2, name, weight="bold", size=BIG)
    for rank in range(4):
        x = 14 + 12.8 * rank
        box(ax, x, 24.6, 11.6, 3.8, canvas.FACES[rank], f"rows {8 * rank} to {8 * rank + 7}")
        box(ax, x, 18.9, 11.6, 3.8, WHITE, "whole model", edge=canvas.BLUE, line=2)
        canvas.arrow(ax, (x + 5.8, 24.5), (x + 5.8, 22.9))
        if step > 1:
            box(ax, x, 13.2, 11.6, 3.8, canvas.FACES[rank], f"$g_{rank}$", size=BIG)
            canvas.arrow(ax, (x + 5.8, 18.8), (x + 5.8, 17.2))
        if step > 2:
            canvas.arrow(ax, (x + 5.8, 13.1), (x + 5.8, 11.5), colour=SUM, line=2)
        if step > 3:
            box(ax, x, 1.2, 11.6, 4.2, WHITE, "step with $g$", edge=canvas.BLUE, line=2)
            canvas.arrow(ax, (x + 5.8, 7.4), (x + 5.8, 5.6), colour=SUM, line=2)
    if step > 2:
        box(ax, 14, 7.5, 50, 3.8, PINK, "$g = (g_0 + g_1 + g_2 + g_3) / 4$", size=BIG)
    return ax.figure


# Section 1: means


def cut_by_rows() -> Figure:
    """A batch of 32 rows, cut for four ranks, and the question of the mean."""
    ax = sheet(36, 30)
    for rank in range(4):
        for row in range(8):
            _bar(ax, 1, 27.4 - 3.3 * row * 0.25 - 6.8 * rank, 13, 0.7, canvas.FACES[rank])
        y = 24.4 - 6.8 * rank
        canvas.arrow(ax, (14.6, y), (19.2, y), line=1.5)
        box(ax, 19.6, y - 2, 6, 4, canvas.FACES[rank], f"$g_{rank}$", size=BIG)
        line(ax, (26, y), (30, 14.2), wide=1)
    words(ax, 30.4, 14.2, "mean?", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


@steps((1, 2))
def equal_rows(step: int) -> Figure:
    """32 rows: in their ranks' means each counts an eighth, and in the mean of these a 32nd."""
    ax = sheet(36, 30)
    words(ax, 0, 27.6, "in its rank's mean", weight="bold", size=BIG)
    for rank in range(4):
        for row in range(8):
            _bar(ax, 9 * rank + 1.05 * row, 20.4, 1.05, 4.6, canvas.FACES[rank])
        words(ax, 9 * rank + 4.2, 18.2, "1/8 each", ha="center")
    if step > 1:
        words(ax, 0, 12.4, "in the mean of the four", weight="bold", size=BIG)
        for row in range(32):
            _bar(ax, 1.11 * row, 5.2, 1.11, 4.6, canvas.FACES[row // 8])
        words(ax, 18, 2.6, "1/32 each: as in the batch", ha="center", size=BIG, colour=GREEN, weight="bold")
    return ax.figure


@steps((1, 2))
def unequal_rows(step: int) -> Figure:
    """Four rows on two ranks: what each counts in the mean of means, and in the mean."""
    ax = sheet(36, 30)
    named = (("a", 0), ("b", 0), ("c", 0), ("d", 1))
    shares = (20.4, "mean of the two means", (1 / 6, 1 / 6, 1 / 6, 1 / 2)), (7, "mean of all rows", (1 / 4,) * 4)
    for y, name, weights in shares[:step]:
        words(ax, 0, y + 7.2, name, weight="bold", size=BIG)
        x = 0.0
        for (row, rank), weight in zip(named, weights, strict=True):
            _bar(ax, x, y, 35.4 * weight, 5, canvas.FACES[rank], f"${row}$", size=20)
            words(ax, x + 35.4 * weight / 2, y - 2, f"1/{round(1 / weight)}", ha="center")
            x += 35.4 * weight
    return ax.figure


# Section 2: equal, and right


def four_readers() -> Figure:
    """Four ranks that read rows of their own, and train equal models with one mean."""
    ax = sheet(36, 30)
    for rank in range(4):
        x = 0.4 + 9.1 * rank
        for row in range(5):
            _bar(ax, x, 27 - 1.7 * row, 7.8 - (row * 7 + rank * 5) % 4, 1, canvas.FACES[rank])
        canvas.arrow(ax, (x + 3.9, 19.2), (x + 3.9, 16.2))
        box(ax, x, 11.4, 7.8, 4.6, WHITE, f"rank {rank}", size=BIG, edge=canvas.BLUE, line=2)
        canvas.arrow(ax, (x + 3.9, 11.2), (x + 3.9, 8.4), style="<|-|>", colour=SUM, line=2)
    box(ax, 0.4, 4, 35.1, 4.2, PINK, "the mean gradient", size=BIG)
    words(ax, 18, 1.4, "240,000 weights, ten steps", ha="center")
    return ax.figure


def rank_0_and_3() -> Figure:
    """A weight of rank 0 and the same weight of rank 3, of which the last digits are to be guessed."""
    ax = sheet(36, 30)
    for y, rank in ((20, 0), (8.6, 3)):
        box(ax, 0.6, y, 8, 5, canvas.FACES[rank], f"rank {rank}", size=BIG)
        for place in range(9):
            _bar(ax, 10.4 + 2.8 * place, y + 0.4, 2.6, 4.2, PALE if place < 2 else IDLE,
                 "0." [place] if place < 2 else "·", size=BIG)
    words(ax, 18, 16.9, "about seven digits: how many agree?", ha="center", size=BIG, weight="bold")
    words(ax, 18, 3.8, "largest difference: ?", ha="center", size=20, weight="bold", colour=FAULT)
    return ax.figure


@steps((1, 2))
def summed_once(step: int) -> Figure:
    """One chunk of the gradient on its way round the ring: it is summed once, and then copied."""
    ax = sheet(36, 30)
    words(ax, 0, 28, "one chunk: summed once", weight="bold", size=BIG)
    sums = "$g_0$", "$+ g_1$", "$+ g_2$", "$+ g_3$"
    for rank, told in enumerate(sums):
        x = 0.4 + 9.2 * rank
        box(ax, x, 19.4, 6.8, 5, canvas.FACES[rank], told, size=BIG)
        if rank < 3:
            canvas.arrow(ax, (x + 7, 21.9), (x + 9, 21.9), colour=SUM, line=2.5)
    if step > 1:
        words(ax, 0, 14.4, "then copied, bit by bit", weight="bold", size=BIG)
        for rank in range(4):
            x = 0.4 + 9.2 * rank
            box(ax, x, 5, 6.8, 5, WHITE, "sum", size=BIG, edge=canvas.BLUE, line=2)
            words(ax, x + 3.4, 2.6, f"rank {rank}", ha="center")
            if rank < 3:
                canvas.arrow(ax, (x + 9, 7.5), (x + 7, 7.5), colour=SUM, line=2.5)
        canvas.arrow(ax, (31.4, 19), (31.4, 10.4), colour=SUM, line=2.5)
    return ax.figure


def _paths() -> list[list[tuple[float, float]]]:
    """Return where the two weights of each of four ranks are in the chapter's twelve steps."""
    x = torch.randn(24, 2, generator=torch.Generator().manual_seed(1))
    y = x @ torch.tensor([[TARGET[0]], [TARGET[1]]])
    models = []
    for rank in range(4):
        torch.manual_seed(rank)
        models.append(torch.nn.Linear(2, 1, bias=False).weight.detach())
    paths = [[] for _ in models]
    for _ in range(12):
        mean = sum(2 * (x[rows] @ model.T - y[rows]).T @ x[rows] / len(rows)
                   for model, rows in zip(models, torch.arange(24).tensor_split(4), strict=True)) / 4
        for path, model in zip(paths, models, strict=True):
            path.append(tuple(model.flatten().tolist()))
        models = [model - 0.3 * mean for model in models]
    return paths


def starts() -> Figure:
    """Where four ranks start, and where they should end."""
    return _plane(1)


def ends() -> list[Figure]:
    """The ways of the four ranks, all with equal steps."""
    return [_plane(2), _plane(3)]


def _plane(step: int) -> Figure:
    ax = sheet(36, 30)
    paths = _paths()

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return 8.4 + 9 * point[0], 20.6 + 10 * point[1]

    canvas.arrow(ax, (0.5, 1), (35.6, 1), line=1)
    canvas.arrow(ax, (0.5, 1), (0.5, 29.6), line=1)
    words(ax, 35.4, 2.8, "first weight", ha="right")
    words(ax, 1.4, 28.8, "second weight")
    sides = {0: (1.4, 0.4, "left"), 1: (0.2, -2.2, "center"), 2: (-1.3, 0.8, "right"), 3: (1.4, 0.8, "left")}
    ax.plot(*place(TARGET), "*", color=FAULT, markersize=22)
    goal = place(TARGET)
    words(ax, goal[0] - 2, goal[1] - 0.4, "(2, −1)", colour=FAULT, weight="bold", size=BIG, ha="right")
    for rank, path in enumerate(paths):
        points = [place(point) for point in path]
        ax.plot(*points[0], "o", color=canvas.SERIES[rank], markersize=13)
        right, up, side = sides[rank]
        words(ax, points[0][0] + right, points[0][1] + up, f"rank {rank}", ha=side, weight="bold")
        if step > 1:
            line(ax, *points, colour=canvas.SERIES[rank], wide=2.5)
        if step > 2:
            ax.plot(*points[-1], "s", color=canvas.SERIES[rank], markersize=11)
    canvas.say(ax, "four ranks and (2, −1), where they should end" + "; they take equal steps, and none ends there" *
               (step > 1))
    return ax.figure


def forgotten() -> Figure:
    """The first step of SGD with the mean and with the sum, and the question of AdamW's."""
    ax = sheet(36, 30)
    for top, name, lengths in ((28.4, "SGD", (8, 32)), (13.6, "AdamW", (8, None))):
        words(ax, 0, top, name, weight="bold", size=BIG)
        for y, told, length in zip((top - 4, top - 8.4), ("divided by 4", "not divided"), lengths, strict=True):
            words(ax, 0, y, told)
            if length is None:
                words(ax, 11, y, "?", size=20, weight="bold", colour=FAULT)
            else:
                canvas.arrow(ax, (10.6, y), (10.6 + length * 0.77, y), line=4,
                             colour=canvas.BLUE if length == 8 else FAULT)
    return ax.figure


def factor_cancels() -> list[Figure]:
    """The two running sizes in AdamW's step, with the division and without."""
    return [_factor(step) for step in (1, 2)]


def _factor(step: int) -> Figure:
    ax = sheet(36, 30)
    for top, name, times in ((29, "divided by 4", 1), (14.6, "not divided", 4))[:step]:
        words(ax, 0, top - 1.4, name, weight="bold", size=BIG)
        _bar(ax, 0, top - 7, 5 * times, 3.4, BACKWARD, "$m$", size=BIG)
        line(ax, (0, top - 7.8), (20, top - 7.8), wide=1.5)
        _bar(ax, 0, top - 12, 5 * times, 3.4, canvas.YELLOW, r"$\sqrt{v}$", size=BIG)
        words(ax, 22, top - 7.8, "= a step" if times == 1 else "= the same step", size=BIG, weight="bold", colour=GREEN)
    return ax.figure


# Section 3: overlap


def waits_at_the_end() -> Figure:
    """A step of Llama-3-8B on 64 H100s that waits at its end."""
    ax = sheet(36, 30)
    whole = EIGHT.forward + EIGHT.backward + EIGHT.all_reduce
    words(ax, 0, 27.6, f"a step of {whole:.1f} s", weight="bold", size=BIG)
    x = 0.0
    for name, taken, colour in (("forward", EIGHT.forward, FORWARD), ("backward", EIGHT.backward, BACKWARD),
                                ("", EIGHT.all_reduce, IDLE)):
        wide = 35.6 * taken / whole
        _bar(ax, x, 20, wide, 5.4, colour, name, size=BIG)
        x += wide
    words(ax, 35.6, 17.8, f"waits {EIGHT.all_reduce:.2f} s", ha="right", weight="bold", size=BIG, colour=FAULT)
    words(ax, 0, 12.8, "as if 7 of 64 GPUs stood still", weight="bold", size=BIG)
    for gpu in range(64):
        _bar(ax, 2.2 * (gpu % 16), 8 - 2.4 * (gpu // 16), 1.9, 2.1, IDLE if gpu > 56 else canvas.FACES[0])
    return ax.figure


@steps(range(1, 5))
def leave(step: int) -> Figure:
    """Four all-reduces after backward, and each as soon as its gradient is there."""
    ax = sheet(65, 29, (6.5, 2.9))
    tops = (27.4, "after backward"), (12.4, "as soon as each gradient is there")
    unit = 2.7
    for row, (top, name) in enumerate(tops[: 1 + (step > 1)]):
        words(ax, 0, top, name, weight="bold", size=BIG)
        words(ax, 0, top - 4.3, "computes")
        words(ax, 0, top - 8.9, "sends")
        for layer in range(4):
            _bar(ax, 9 + unit * layer, top - 6.2, unit, 3.8, FORWARD, f"F{layer + 1}")
            _bar(ax, 9 + unit * (4 + 2 * layer), top - 6.2, 2 * unit, 3.8, BACKWARD, f"B{4 - layer}")
        end = 9 + 12 * unit
        begins = [end + 1.6 * unit * place if not row else 9 + unit * (6 + 2 * place) for place in range(4)]
        shown = 4 if not row else (0, 0, 1, 4)[step - 1]
        for place in range(shown):
            _bar(ax, begins[place], top - 10.8, 1.6 * unit, 3.8, SUM, f"{4 - place}", colour="white", weight="bold")
        if shown == 4:
            wait = begins[-1] + 1.6 * unit - end
            _bar(ax, end, top - 6.2, wait, 3.8, IDLE, "waits for four" if not row else "one")
    return ax.figure


def step_with_hooks() -> Figure:
    """A step without hooks to scale, and one with hooks that is to be guessed."""
    ax = sheet(36, 30)
    scale = 35.4 / AFTER
    words(ax, 0, 27.4, f"after backward: {AFTER} ms", weight="bold", size=BIG)
    _bar(ax, 0, 20.4, scale * COMPUTES, 4.4, BACKWARD, f"{COMPUTES}", size=BIG)
    _bar(ax, scale * COMPUTES, 16, scale * (AFTER - COMPUTES), 4.4, SUM, f"all-reduces: {AFTER - COMPUTES:.2f} ms",
         colour="white", weight="bold", size=BIG)
    words(ax, 0, 11, "in hooks: ? ms", weight="bold", size=BIG, colour=FAULT)
    _bar(ax, 0, 4, scale * COMPUTES, 4.4, BACKWARD, f"{COMPUTES}", size=BIG)
    line(ax, (scale * COMPUTES, 6.2), (35, 6.2), colour=FAULT, wide=2, linestyle=":")
    return ax.figure


def half_a_millisecond() -> Figure:
    """How long the rank computes and waits, without hooks and with them."""
    ax = sheet(36, 30)
    scale = 35.4 / AFTER
    for y, name, taken in ((18.6, "after backward", AFTER), (5.4, "in hooks", HOOKED)):
        words(ax, 0, y + 7.4, f"{name}: {taken} ms", weight="bold", size=BIG)
        _bar(ax, 0, y, scale * COMPUTES, 5, BACKWARD, "computes")
        _bar(ax, scale * COMPUTES, y, scale * (taken - COMPUTES), 5, IDLE, f"waits {taken - COMPUTES:.2f} ms", size=BIG)
    return ax.figure


# Section 4: buckets


def why_so_long() -> Figure:
    """What the bytes of all gradients take beside what the all-reduces took."""
    ax = sheet(36, 30)
    sends = 1e3 * collective_seconds("all_reduce", 4, 4 * GPT, 0, 10e9)
    took = 53 * 6 * 5e-3 + sends
    for y, name, taken, colour in ((18.6, "the all-reduces took", took, SUM), (6, "their bytes take", sends, PINK)):
        words(ax, 0, y + 7.4, name, size=BIG)
        wide = 35.4 * taken / took
        _bar(ax, 0, y, wide, 5, colour)
        inside = wide > 20
        words(ax, wide - 1 if inside else wide + 1, y + 2.5, f"{taken:.2g} ms", weight="bold", size=BIG,
              ha="right" if inside else "left", colour="white" if inside else INK)
    return ax.figure


def six_messages() -> list[Figure]:
    """One all-reduce of four ranks as six messages with a latency each, and 53 of them."""
    return [_six(step) for step in (1, 2)]


def _six(step: int) -> Figure:
    ax = sheet(36, 30)
    words(ax, 0, 27.8, "one all-reduce: 2 · (4 − 1) messages", weight="bold", size=BIG)
    for place in range(6):
        _bar(ax, 5.9 * place, 20.4, 5.1, 4.6, IDLE, "5 µs")
        _bar(ax, 5.9 * place + 5.1, 20.4, 0.6, 4.6, SUM)
    words(ax, 0, 17.6, "grey: latency")
    words(ax, 13, 17.6, "pink: bytes", colour=SUM, weight="bold")
    if step > 1:
        words(ax, 0, 12.4, "53 all-reduces, one for each tensor", weight="bold", size=BIG)
        for place in range(53):
            _bar(ax, 0.668 * place, 6, 0.55, 4, IDLE)
            _bar(ax, 0.668 * place + 0.47, 6, 0.09, 4, SUM)
        words(ax, 0, 2.4, f"53 · 6 · 5 µs ≈ {53 * 6 * 5e-3:.1f} ms", size=20, weight="bold")
    return ax.figure


@steps(range(1, 5))
def buckets(step: int) -> Figure:
    """Four gradients that come in the order of backward, and the buckets that they fill."""
    ax = sheet(65, 28, (6.5, 2.8))
    sizes, owner, scale = {3: 40, 2: 20, 1: 80, 0: 100}, {3: 0, 2: 0, 1: 1, 0: 2}, 0.21
    words(ax, 0, 26.4, "gradients, in the order of backward", weight="bold", size=BIG)
    x, lefts = 0.0, {}
    for number, size in sizes.items():
        there = number >= (3, 2, 1, 0)[step - 1]
        _bar(ax, x, 19.4, scale * size, 4.4, canvas.FACES[owner[number]] if there else PALE,
             f"{number}: {size} B" if size > 20 else f"{number}: 20", weight="bold" if there else "normal")
        lefts[number] = x
        x += scale * size + 0.8
    words(ax, 0, 15.4, "buckets of at most 80 bytes", weight="bold", size=BIG, colour=FAULT)
    shelf = {0: (0, 60), 1: (22, 80), 2: (44, 80)}
    told = "1 doesn't fit: closed", "80: full", "100: larger, so alone"
    for bucket in range(1 + max(owner[number] for number in sizes if number >= (3, 2, 1, 0)[step - 1])):
        left = shelf[bucket][0]
        ax.add_patch(Rectangle((left, 7.4), scale * 80, 5, facecolor="none", edgecolor=FAULT, linewidth=2, zorder=3))
        inside = 0.0
        for number, size in sizes.items():
            if owner[number] == bucket and number >= (3, 2, 1, 0)[step - 1]:
                _bar(ax, left + inside, 7.8, scale * size, 4.2, canvas.FACES[bucket], f"{number}", size=BIG)
                inside += scale * size
        words(ax, left, 5, f"bucket {bucket}", weight="bold", size=BIG)
        if step > bucket + 2 or bucket == 1 and step > 2 or bucket == 2:
            words(ax, left, 2, told[bucket])
    return ax.figure


# Section 5: one order


def unused() -> Figure:
    """Two ranks whose gradients come, of which one lacks a gradient."""
    ax = sheet(36, 30)
    for y, rank, lacks in ((17.4, 0, ()), (3.4, 1, (3,))):
        words(ax, 0, y + 9.4, f"rank {rank}", weight="bold", size=BIG)
        for place, layer in enumerate((4, 3, 2, 1)):
            there = layer not in lacks
            _bar(ax, 8.9 * place, y + 1.6, 8.4, 5.4, canvas.FACES[0 if layer > 2 else 1] if there else PALE,
                 f"layer {layer}" if there else "no token", colour=INK if there else FAULT)
        for x, bucket in ((0, 0), (17.8, 1)):
            waits = bucket == 0 and lacks
            words(ax, x + 8.6, y, f"bucket {bucket}" + (": waits" if waits else ": complete"), ha="center",
                  weight="bold", colour=FAULT if waits else GREEN)
    return ax.figure


@steps((1, 2, 3))
def meets(step: int) -> Figure:
    """The first calls of two ranks meet, and the second ones: in different orders, and in one."""
    ax = sheet(65, 28, (6.5, 2.8))
    orders = (("whichever is complete first", ((0, 1), (1, 0)), FAULT),
              ("in the order of the plan", ((0, 1), (0, 1)), GREEN))
    for half, (name, calls, colour) in enumerate(orders[: 1 + (step > 2)]):
        left = 34 * half
        words(ax, left, 26.4, name, weight="bold", size=BIG, colour=colour)
        for rank, order in enumerate(calls):
            y = 18.4 - 11.2 * rank
            words(ax, left, y + 2.2, f"rank {rank}", weight="bold")
            for place, bucket in enumerate(order):
                lacks = half and rank and not bucket
                box(ax, left + 7.4 + 12 * place, y, 10.4, 4.6, canvas.FACES[bucket],
                    f"bucket {bucket}" + ("\nand zeros" if lacks else ""), size=BIG if not lacks else 11)
        if step > 1:
            for place in range(2):
                x = left + 12.6 + 12 * place
                canvas.arrow(ax, (x, 18), (x, 12.2), style="<|-|>", colour=colour, line=3)
            told = "bucket 0 is added to bucket 1, twice" if not half else "each meets its own"
            words(ax, left, 2.6, told, weight="bold", size=BIG, colour=colour)
    return ax.figure


def elevens() -> Figure:
    """Two ranks' buckets of ones and tens that meet in the wrong order, and their sums."""
    ax = sheet(36, 30)
    for y, rank, order in ((21, 0, (1, 10)), (12, 1, (10, 1))):
        words(ax, 0, y + 2.4, f"rank {rank}", weight="bold", size=BIG)
        for place, value in enumerate(order):
            box(ax, 9 + 14 * place, y, 12, 5, canvas.FACES[0 if value == 1 else 1], f"{value}   {value}", size=BIG)
    for x in (15, 29):
        words(ax, x, 19, "+", ha="center", weight="bold", size=20)
        words(ax, x, 9.6, "=", ha="center", weight="bold", size=20)
        box(ax, x - 6, 2.4, 12, 5, WHITE, "11   11", size=BIG, edge=FAULT, line=2.5)
    words(ax, 0, 4.9, "sums", weight="bold", size=BIG)
    return ax.figure


def five_runs() -> Figure:
    """One process with all rows, and four ways of four ranks to be compared with it."""
    ax = sheet(36, 30)
    box(ax, 0.4, 10.6, 9.6, 8, canvas.FACES[0], "one\nprocess", size=BIG)
    ways = "average_gradients", "your buckets", "torch's DDP", "never divided by 4"
    for place, name in enumerate(ways):
        y = 22.4 - 6.8 * place
        box(ax, 17.6, y, 18, 4.8, WHITE, name, size=BIG, edge=canvas.BLUE if place < 3 else FAULT, line=2)
        line(ax, (10.4, 14.6), (17, y + 2.4), wide=1.5)
        words(ax, 15.2, y + 3.6 - 0.6 * place, "?", ha="center", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


# Section 6: tokens that hide


def shorter_backward() -> Figure:
    """Backward with fewer and fewer tokens, beside an all-reduce that stays as long."""
    ax = sheet(36, 30)
    scale = 35.4 / ONE.backward
    for row, tokens in enumerate((8192, 4096, 1024)):
        y = 21.4 - 8 * row
        words(ax, 0, y + 5.6, f"{tokens:,} tokens a GPU")
        _bar(ax, 0, y + 1.6, scale * ONE.backward * tokens / 8192, 2.6, BACKWARD)
        _bar(ax, 0, y - 0.8, scale * EIGHT.all_reduce, 2.2, SUM)
    words(ax, 14, 0.9, "backward", weight="bold", colour="#8A5F00", size=BIG)
    words(ax, 25, 0.9, "all-reduce", weight="bold", colour=SUM, size=BIG)
    return ax.figure


def machines() -> Figure:
    """Two machines of eight GPUs, and what their links carry."""
    ax = sheet(65, 27, (6.5, 2.7))
    link, port = DGX_H100.gpu.link.bandwidth / 1e9, DGX_H100.nic.bandwidth / 1e9
    for x, faces in ((0.5, 0), (37.5, 1)):
        box(ax, x, 5, 27, 18.6, PALE)
        box(ax, x + 2, 17.6, 23, 4, SWITCH, f"NVLink: {link:.0f} GB/s for each GPU")
        for gpu in range(8):
            left = x + 1.9 + 2.95 * gpu
            box(ax, left, 10.4, 2.5, 4, canvas.FACES[faces], "")
            line(ax, (left + 1.25, 14.4), (left + 1.25, 17.6), colour=canvas.NVLINK, wide=4)
            line(ax, (left + 1.25, 10.4), (left + 1.25, 7), colour=canvas.NETWORK, wide=1.5)
        words(ax, x + 13.5, 25.2, "first inside a machine", ha="center", weight="bold", size=BIG, colour=canvas.NVLINK)
        line(ax, (x + 3.1, 7), (x + 23.8, 7), colour=canvas.NETWORK, wide=1.5)
    line(ax, (24, 7), (41, 7), colour=canvas.NETWORK, wide=6)
    words(ax, 32.5, 2.4, f"then between machines: {port:.0f} GB/s for each GPU, like one link of {8 * port:.0f}",
          ha="center", weight="bold", size=BIG, colour=canvas.NETWORK)
    return ax.figure


def larger_model() -> Figure:
    """The gradients of two models to scale, and the tokens that hide them."""
    ax = sheet(36, 30)
    sizes = [parameter_count(shape) for shape in (LLAMA, LARGE)]
    for y, name, size, told in ((18.6, "8B", sizes[0], "about 720 tokens"), (6, "70B", sizes[1], "? tokens")):
        words(ax, 0, y + 7.6, f"Llama-3-{name}: {told}", weight="bold", size=BIG)
        wide = 35.4 * size / sizes[1]
        _bar(ax, 0, y, wide, 5, SUM)
        words(ax, 34.4 if wide > 20 else wide + 1, y + 2.5, f"{2 * size / 1e9:.0f} GB of gradients", size=BIG,
              ha="right" if wide > 20 else "left", colour="white" if wide > 20 else INK, weight="bold")
    return ax.figure


def both_grow() -> list[Figure]:
    """All-reduce and backward of both models with so many tokens that they take equally long."""
    return [_both(step) for step in (1, 2)]


def _both(step: int) -> Figure:
    ax = sheet(36, 30)
    models = ("8B", ONE), ("70B", model_step(LARGE, 1, tokens=8192))
    longest = models[1][1].all_reduce
    for top, (name, found) in list(zip((29, 14), models, strict=True))[:step]:
        tokens = 8192 * found.all_reduce / found.backward
        words(ax, 0, top - 1.2, f"Llama-3-{name}, {tokens:.0f} tokens", weight="bold", size=BIG)
        wide = 35.4 * found.all_reduce / longest
        for y, kind, colour in ((top - 6.4, "backward", BACKWARD), (top - 11, "all-reduce", SUM)):
            _bar(ax, 0, y, wide, 3.8, colour)
            inside = wide > 20
            words(ax, 1 if inside else wide + 0.8, y + 1.9, f"{kind}: {1e3 * found.all_reduce:.0f} ms", size=BIG,
                  colour="white" if inside and colour == SUM else INK, weight="bold")
    return ax.figure


def one_weight() -> list[Figure]:
    """What one weight costs in a step: bytes to send, and backward's FLOPs for each token."""
    return [_one_weight(step) for step in (1, 2)]


def _one_weight(step: int) -> Figure:
    ax = sheet(36, 30)
    words(ax, 0, 27.4, "to send: 2 bytes, about twice", weight="bold", size=BIG)
    for place in range(4):
        _bar(ax, 6 * place + (place > 1), 20.4, 5.6, 4.4, SUM, "byte", colour="white")
    if step == 2:
        words(ax, 0, 14.4, "to compute: 4 FLOPs for each token", weight="bold", size=BIG)
        for token in range(5):
            for place in range(4):
                _bar(ax, 5.6 * token + 1.2 * place, 7.4, 1.2, 4.4, BACKWARD)
        words(ax, 28.4, 9.4, "…", size=BIG, weight="bold")
        words(ax, 0, 4.6, "$t$ tokens: as many as hide the bytes")
    return ax.figure


def tokens_needed() -> list[Figure]:
    """The tokens that hide the all-reduce on one machine and on several, beside those of each GPU."""
    return [_needed(step) for step in range(1, 4)]


def _needed(step: int) -> Figure:
    ax = sheet(65, 27, (6.5, 2.7))
    link, ports = DGX_H100.gpu.link.bandwidth, DGX_H100.nics * DGX_H100.nic.bandwidth
    rate = MFU * H100.peak("bf16")
    several = 1 / (1 / link + 1 / ports)
    rows = (("one machine", 8192 * ONE.all_reduce / ONE.backward, f"rule: $F/B$ = {round(rate / link, -1):,.0f}", SUM),
            ("eight machines", 8192 * EIGHT.all_reduce / EIGHT.backward,
             f"rule: $1/B = 1/{link / 1e9:.0f} + 1/{ports / 1e9:.0f}$, $F/B$ = {round(rate / several, -1):,.0f}", SUM),
            ("your 64 GPUs have", 8192, "", BACKWARD))
    for row, (name, tokens, told, colour) in enumerate(rows[:step]):
        y = 20.4 - 8.6 * row
        words(ax, 0, y + 1.6, name, weight="bold", size=BIG)
        wide = 44 * tokens / 8192
        _bar(ax, 20, y - 0.6, wide, 4.6, colour)
        inside = wide > 20
        words(ax, 19 + wide if inside else 21 + wide, y + 1.7, f"{tokens:,.0f} tokens", weight="bold", size=BIG,
              ha="right" if inside else "left")
        words(ax, 20, y - 2.6, told)
    return ax.figure


@steps((1, 2, 3))
def accumulation(step: int) -> Figure:
    """Four micro-batches whose gradients add up, and the all-reduce that hides behind the last backward."""
    ax = sheet(65, 27, (6.5, 2.7))
    for y, name in ((19, "computes"), (10.6, ".grad"), (2.6, "sends")):
        words(ax, 0, y + 2, name, weight="bold", size=BIG)
    for place in range(4):
        x = 11 + 13 * place
        if step == 1 and place > 1:
            continue
        words(ax, x, 25.4, f"micro-batch {place}")
        _bar(ax, x, 19, 4, 4.4, FORWARD, "F", size=BIG)
        _bar(ax, x + 4, 19, 8, 4.4, BACKWARD, "B", size=BIG)
        for piece in range(place + 1):
            _bar(ax, x + 4, 9 + 2 * piece, 8, 2, canvas.FACES[piece])
    if step == 3:
        _bar(ax, 56, 2.6, 8.4, 4.4, SUM, "all-reduce", colour="white", weight="bold")
        words(ax, 54.6, 4.8, "only the last backward sends, and hides it", ha="right", size=BIG, weight="bold")
    return ax.figure


# Section 7: what does not shrink


def sixteen_bytes() -> Figure:
    """The bytes of a parameter, on one GPU and on each of 64."""
    ax = sheet(36, 30)
    parts = (("weight", 2, canvas.WEIGHTS, "white"), ("gradient", 2, canvas.GRADIENTS, INK),
             ("Adam", 12, canvas.OPTIMIZER, INK))
    for x, title in ((0, "1 GPU"), (19.6, "each of 64")):
        words(ax, x + 6, 28, title, ha="center", weight="bold", size=BIG)
        low = 3.0
        for name, count, colour, ink in parts:
            high = 1.36 * count
            _bar(ax, x, low, 12, high, colour if not x else WHITE, f"{name}: {count}" if not x else "", colour=ink,
                 weight="bold")
            low += high
        words(ax, x + 6, 1, "16 bytes" if not x else "? bytes", ha="center", size=BIG, weight="bold")
    ax.add_patch(Rectangle((19.6, 3), 12, 21.8, facecolor="none", edgecolor=FAULT, linewidth=2, linestyle="--"))
    words(ax, 25.6, 14, "?", ha="center", size=30, weight="bold", colour=FAULT)
    return ax.figure


def one_part_each() -> Figure:
    """Four ranks after the first half of an all-reduce: each has the sum of its part, and could keep Adam for it."""
    ax = sheet(36, 30)
    words(ax, 0, 28, "chapter 7: for only its own part", weight="bold", size=BIG)
    for rank in range(4):
        y = 20 - 6.2 * rank
        words(ax, 0, y + 2.2, f"rank {rank}", weight="bold", size=BIG)
        for part in range(4):
            own = part == rank
            _bar(ax, 8 + 7 * part, y, 6.8, 4.6, canvas.OPTIMIZER if own else PALE, "Adam" if own else "",
                 weight="bold")
    return ax.figure


def straggler() -> Figure:
    """Four ranks of which one comes last: its all-reduce is the shortest."""
    ax = sheet(36, 30)
    for rank, late in enumerate((0, 0, 6, 0)):
        y = 21 - 6.2 * rank
        words(ax, 0, y + 2, f"rank {rank}", weight="bold", size=BIG, colour=FAULT if late else INK)
        _bar(ax, 8, y, 13 + late, 4, BACKWARD, "backward")
        _bar(ax, 21 + late, y, 14 - late, 4, SUM, "all-reduce", colour="white", weight="bold")
    words(ax, 35, 28, "NCCL kernels", ha="right", weight="bold", size=BIG, colour=SUM)
    return ax.figure
