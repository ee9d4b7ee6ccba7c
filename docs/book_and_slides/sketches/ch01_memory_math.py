"""Pictures that only the slides of chapter 1 have."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from kit import ACROSS, BIG, GREY_WORDS, MONO, PALE, bar, box, line, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import memory
from course_lib.hardware import H100
from course_lib.memory import training_memory
from course_lib.models import MODELS, TINY_GPT, parameter_count
from course_lib.plots import canvas

INK, FAULT = canvas.INK, canvas.LIMIT
WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS = canvas.WEIGHTS, canvas.GRADIENTS, canvas.OPTIMIZER, canvas.ACTIVATIONS
DARK = {WEIGHTS, FAULT, canvas.COMPUTE, canvas.COLLECTIVE}  # on which letters are white
CACHE = canvas.FACES[7]
LLAMA = MODELS["Llama-3-8B"]
COUNT, GPU = parameter_count(LLAMA), H100.memory / 1e9
FP32 = training_memory(LLAMA, batch=1, sequence=1024, precision="fp32", fused=True)
STATE = FP32.peak / 1e9
RUNG = 2.0**-7  # how far apart bf16 numbers between 1 and 2 are
SERVER = {"precision": "bf16 mixed", "fused": True, "flash": True, "dp": 8, "gpu": H100}
COLOURS = {"weights": WEIGHTS, "gradients": GRADIENTS, "optimizer": OPTIMIZER, "activations": ACTIVATIONS,
           "logits": ACTIVATIONS, "loss": canvas.GREY}  # fmt: skip


def _stack(ax: Axes, x: float, y: float, high: float, parts: Sequence[tuple[str, float]], scale: float,
           least: float = 3.4) -> float:  # fmt: skip
    """Draw parts of memory end to end, each with its gigabytes where they have room, and return where they end."""
    for name, size in parts:
        wide = scale * size
        bar(ax, x, y, wide, high, COLOURS[name], f"{size:.0f}" if wide > least else "",
             edgecolor="white", linewidth=1)
        x += wide
    return x


def _unknown(ax: Axes, x: float, y: float, high: float, text: str) -> None:
    """Draw a bar whose end is not told."""
    look = {"wide": 1.6, "linestyle": "--"}
    line(ax, (36, y), (x, y), (x, y + high), (36, y + high), **look)
    words(ax, x + 4, y + high / 2, text, weight="bold", size=BIG)


def _limit(ax: Axes, x: float, low: float, high: float, text: str = "80 GB") -> None:
    """Draw the end of a GPU's memory."""
    line(ax, (x, low), (x, high), colour=FAULT, wide=2, linestyle=(0, (4, 2)), zorder=5)
    words(ax, x, high + 1.1, text, ha="center", colour=FAULT, weight="bold")


# The opening, and section 1: what is in memory


def file_and_gpu() -> Figure:
    """A GPU as 80 squares of a gigabyte, 16 of them filled by the model's file."""
    ax = sheet(36, 30)
    for place in range(80):
        row, column = divmod(place, 10)
        filled = place < round(2 * COUNT / 1e9)
        bar(ax, 1 + 3.4 * column, 23.6 - 3 * row, 3, 2.6, WEIGHTS if filled else "#E8E8E8")
    words(ax, 1, 28.3, "the file of Llama-3-8B: 16 GB", weight="bold", size=BIG, colour=WEIGHTS)
    words(ax, 34.6, 0.6, "an H100: 80 GB", weight="bold", size=BIG, ha="right")
    return ax.figure


@steps(range(3))
def crash(step: int) -> Figure:
    """What the model takes as a file and when it serves, and how its training ends."""
    ax = sheet(65, 27, (6.5, 2.7))
    scale, left = 40 / GPU, 15
    cache = memory.kv_cache_bytes(LLAMA, 8 * 8192) / 1e9
    _limit(ax, left + 40, 3.2, 24.4, "an H100 has 80 GB")
    for place, name in enumerate(("the file", "serving\neight users", "training\non one text")[:step + 1]):
        y = 18.4 - 7.4 * place
        words(ax, left - 1, y + 2.2, name, ha="right")
        if place < 2:
            bar(ax, left, y, scale * 2 * COUNT / 1e9, 4.4, WEIGHTS, "weights")
            words(ax, left + scale * (16 + place * cache) + 1, y + 2.2,
                  ("16 GB", f"{2 * COUNT / 1e9 + cache:.0f} GB")[place], weight="bold")
        if place == 1:
            bar(ax, left + scale * 2 * COUNT / 1e9, y, scale * cache, 4.4, CACHE, "KV")
        if place == 2:
            bar(ax, left, y, 40, 4.4, "#E3E3E3", "full. Of what?")
            bar(ax, left + 40.3, y, 1.2, 4.4, FAULT)
            words(ax, left + 2, y - 2, "torch.OutOfMemoryError: Tried to allocate 224.00 MiB", colour=FAULT,
                  weight="bold", **MONO)
    return ax.figure


def bytes_of_a_weight() -> Figure:
    """One weight in two formats, byte by byte, and what eight billion of them take."""
    ax = sheet(36, 30)
    for y, name, count, told in ((16.4, "bf16, in the file", 2, "16 GB"), (2.4, "fp32, in the script", 4, "32 GB")):
        words(ax, 1, y + 9.4, name, weight="bold", size=BIG)
        for byte in range(count):
            bar(ax, 1 + 5.4 * byte, y + 1.6, 5, 5, WEIGHTS, "byte")
        words(ax, 35, y + 4.1, told, weight="bold", size=20, ha="right", colour=WEIGHTS)
        words(ax, 1, y - 0.2, f"times {COUNT / 1e9:.2f} billion weights" if count == 2 else "as many weights",
              colour=GREY_WORDS)
    return ax.figure


@steps(range(1, 4))
def three_phases(step: int) -> Figure:
    """The three phases of a step: tokens to the right, gradients to the left, and each weight moves."""
    ax = sheet(65, 30, ACROSS)
    xs = [16 + 9.3 * layer for layer in range(4)]
    names = (("1  forward", "predict the next token", canvas.FORWARD), ("2  backward", "a gradient for each weight",
             GRADIENTS), ("3  optimizer step", "AdamW moves each a little", OPTIMIZER))  # fmt: skip
    for place, (name, told, colour) in enumerate(names[:step]):
        now = place == step - 1
        x = 1 + 22 * place
        bar(ax, x, 2.5, 20, 0.8, colour)
        words(ax, x, 5, name, weight="bold", size=BIG, colour=INK if now else GREY_WORDS)
        words(ax, x, 1, told, colour=INK if now else GREY_WORDS)
    for place, token in enumerate(("the", "cat", "sat")):
        box(ax, 0.8 + 4.6 * place, 22, 4.2, 3.4, canvas.FACES[2], token)
    canvas.arrow(ax, (14.6, 23.7), (xs[0], 23.7), colour=canvas.FORWARD, line=4)
    for x in xs:
        box(ax, x, 21, 6.9, 5.4, WEIGHTS)
        words(ax, x + 3.45, 23.7, "weights", colour="white", ha="center")
        canvas.arrow(ax, (x + 6.9, 23.7), (x + 9.3, 23.7), colour=canvas.FORWARD, line=4)
        if step > 1:
            box(ax, x, 11, 6.9, 5.4, GRADIENTS)
            words(ax, x + 3.45, 13.7, "gradients", ha="center")
            canvas.arrow(ax, (x + 9.2, 13.7), (x + 7, 13.7), colour=GRADIENTS, line=4)
        if step > 2:
            canvas.arrow(ax, (x + 3.45, 16.6), (x + 3.45, 20.8), colour="#B8AE00", line=4)
    right = xs[-1] + 9.3
    box(ax, right, 22, 7.4, 3.4, "white", "on ?")
    words(ax, right + 3.7, 28, "prediction", ha="center")
    box(ax, right, 11, 7.4, 5.4, "#E3E3E3", "loss:\nhow bad?")
    canvas.arrow(ax, (right + 3.7, 22), (right + 3.7, 16.6), line=2)
    if step > 2:
        words(ax, 14.6, 18.7, "AdamW", ha="right", weight="bold", size=BIG)
    return ax.figure


def fullest_moment() -> Figure:
    """The weights in fp32, and beside them what a step of training brings."""
    ax = sheet(36, 30)
    words(ax, 1, 27.6, "the weights in fp32", weight="bold", size=BIG)
    bar(ax, 1, 20, 11, 5.4, WEIGHTS, "32 GB")
    words(ax, 1, 14.6, "at the fullest moment of a step", weight="bold", size=BIG)
    bar(ax, 1, 7, 11, 5.4, WEIGHTS, "32 GB")
    _unknown(ax, 12.3, 7, 5.4, "+  ?")
    words(ax, 1, 3, "one text of 1,024 tokens", colour=GREY_WORDS)
    return ax.figure


NUMBERS = (("weight", WEIGHTS), ("gradient", GRADIENTS), ("moment m", OPTIMIZER), ("moment v", OPTIMIZER))


@steps(range(1, 6))
def four_numbers(step: int) -> Figure:
    """The four numbers that stand in memory because of one weight, and what all of them take."""
    ax = sheet(36, 30)
    words(ax, 0.5, 28.4, "for one weight", weight="bold", size=BIG)
    for place, (name, colour) in enumerate(NUMBERS[:step]):
        y = 23.6 - 3.8 * place
        for byte in range(4):
            bar(ax, 0.5 + 3.3 * byte, y, 3, 2.8, colour)
        words(ax, 15, y + 1.4, f"{name}: 4 bytes")
    if step == 5:
        words(ax, 0.5, 9.6, f"for all {COUNT / 1e9:.2f} billion", weight="bold", size=BIG)
        scale, x = 34.5 / STATE, 0.5
        for _, colour in NUMBERS:
            bar(ax, x, 1.4, scale * STATE / 4, 4.6, colour, edgecolor="white")
            words(ax, x + 1, 3.7, "32", weight="bold", colour="white" if colour in DARK else INK)
            x += scale * STATE / 4
        _limit(ax, 0.5 + scale * GPU, 0.6, 6.4)
    return ax.figure


def shorter_text() -> Figure:
    """The first step's memory at the beginning of backward and in the optimizer step, to one scale."""
    ax = sheet(65, 26, (6.5, 2.6))
    start, scale, left = FP32.moments["at the end of forward"], 46 / STATE, 15
    rows = ((15.4, "early in\nbackward", [("weights", start["weights"] / 1e9),
                                          ("activations", start["activations"] / 1e9)]),
            (4, "optimizer\nstep", [("weights", STATE / 4), ("gradients", STATE / 4), ("optimizer", STATE / 2)]))
    for y, name, parts in rows:
        words(ax, left - 1, y + 3, name, ha="right", weight="bold")
        end = _stack(ax, left, y, 6, parts, scale)
        if len(parts) > 2:
            words(ax, end + 0.8, y + 3, f"{sum(size for _, size in parts):.0f}", weight="bold", size=BIG)
    canvas.arrow(ax, (38, 18.4), (33, 18.4), line=1.5)
    words(ax, 38.8, 18.4, "activations: only they\nshrink with the text")
    for x, name in ((left, "weights"), (left + 11.5, "gradients"), (left + 23, "optimizer: two moments")):
        words(ax, x + 0.4, 2.2, name)
    _limit(ax, left + scale * GPU, 3, 12.6)
    return ax.figure


# Section 2: sixteen bytes


def half_the_state() -> Figure:
    """The state with four bytes a number and with two."""
    ax = sheet(36, 30)
    scale = 34.5 / STATE
    for y, name, share in ((17.4, "fp32: 16 bytes for each weight", 1), (4, "bf16: 8 bytes?", 0.5)):
        words(ax, 0.5, y + 8, name, weight="bold", size=BIG)
        for place, (_, colour) in enumerate(NUMBERS):
            wide = scale * share * STATE / 4
            bar(ax, 0.5 + wide * place, y, wide, 6, colour, edgecolor="white")
            words(ax, 1.2 + wide * place, y + 3, f"{share * STATE / 4:.0f}", weight="bold",
                  colour="white" if colour in DARK else INK)
    _limit(ax, 0.5 + scale * GPU, 2.6, 24.2, "")
    words(ax, 0.9 + scale * GPU, 1.4, "80 GB", colour=FAULT, weight="bold")
    return ax.figure


def thousand_moves() -> Figure:
    """A weight of 1 in the sixteen bits of bf16, and what is added to it."""
    ax = sheet(36, 30)
    words(ax, 1, 27.4, "1 in bf16", weight="bold", size=BIG)
    bits = f"{torch.tensor([1.0], dtype=torch.bfloat16).view(torch.int16).item():016b}"
    for place, bit in enumerate(bits):
        colour = (canvas.GREY, canvas.FACES[1], canvas.FACES[0])[(place > 0) + (place > 8)]
        bar(ax, 1 + 2.1 * place, 21.4, 1.9, 3.6, colour, bit)
    for x, name in ((1, "sign"), (5.4, "exponent"), (20, "7 digits")):
        words(ax, x, 19.4, name)
    words(ax, 18, 11.6, "1 + 0.001 + 0.001 + …", ha="center", size=20, weight="bold")
    words(ax, 18, 7.4, "a thousand times", ha="center", size=BIG)
    words(ax, 18, 2.6, "= ?", ha="center", size=20, weight="bold")
    return ax.figure


@steps(range(3))
def rungs(step: int) -> Figure:
    """The numbers that bf16 has after 1, and a move of 0.001 among them, to scale."""
    ax = sheet(36, 30)
    high, low = 23 / (2 * RUNG), 3  # units for each 1
    for place in range(3):
        y = low + high * RUNG * place
        line(ax, (12, y), (30, y), wide=6, color=canvas.FACES[7])
        words(ax, 11.2, y, f"{1 + RUNG * place:.4f}" if place else "1", ha="right", weight="bold", size=BIG)
    for x in (13, 29):
        line(ax, (x, 0.6), (x, 29.4), wide=6, color=canvas.FACES[7])
    if step:
        y = low + high * 0.001
        canvas.arrow(ax, (21, low), (21, y + 0.6), colour=WEIGHTS, line=4)
        words(ax, 22, y + 1.3, "+ 0.001", colour=WEIGHTS, weight="bold")
    if step > 1:
        half = low + high * RUNG / 2
        line(ax, (13, half), (29, half), wide=1.4, linestyle="--", colour=GREY_WORDS)
        words(ax, 21, half + 1.3, "halfway: 0.0039", ha="center", colour=GREY_WORDS)
        canvas.arrow(ax, (18.8, low + high * 0.001 + 0.6), (18.8, low), colour=FAULT, line=4)
        words(ax, 18.2, low + 2.8, "back", ha="right", colour=FAULT, weight="bold")
    return ax.figure


def stuck_weights() -> Figure:
    """A hundred squares for a million weights: grey are those that a usual move leaves where they are."""
    random = torch.Generator().manual_seed(0)
    weights = (0.02 * torch.randn(1_000_000, generator=random)).bfloat16()
    stay = round(100 * (weights - 0.00001 == weights).float().mean().item())
    ax = sheet(36, 30)
    for place in range(100):
        row, column = divmod(place, 10)
        bar(ax, 1 + 2.6 * column, 26.4 - 2.8 * row, 2.3, 2.5, canvas.WAITING if place < stay else WEIGHTS)
    words(ax, 28, 18, f"{stay} %", size=20, weight="bold", colour=GREY_WORDS)
    words(ax, 28, 14.8, "stay", size=BIG)
    words(ax, 28, 5.2, f"{100 - stay} %", size=20, weight="bold", colour=WEIGHTS)
    words(ax, 28, 2, "move", size=BIG)
    return ax.figure


@steps(range(3))
def mixed(step: int) -> Figure:
    """A weight that moves by 0.001 again and again: in bf16 alone, in fp32, and the fp32 weight rounded to bf16."""
    ax = sheet(65, 27, (6.5, 2.7))
    moves, left, wide, low, high = 40, 9, 38, 3.4, 21
    at = [(left + wide * move / moves, low + high * 0.001 * move / 0.04) for move in range(moves + 1)]
    for rung in range(6):
        y = low + high * RUNG * rung / 0.04
        line(ax, (left, y), (left + wide, y), colour="#DADADA", wide=1)
        words(ax, left - 0.8, y, f"{1 + RUNG * rung:.4g}" if rung else "1", ha="right")
    line(ax, (left, low), (left + wide, low), colour=canvas.GREY, wide=5)
    words(ax, left + wide + 1, low, "bf16 alone: never moves", colour=GREY_WORDS, weight="bold")
    if step:
        line(ax, *at, colour="#8A8200", wide=3)
        words(ax, left + wide + 1, at[-1][1] + 0.8, "fp32: each move counts", colour="#8A8200", weight="bold")
    if step > 1:
        stairs = []
        for move, (x, _) in enumerate(at):
            value = torch.tensor(1 + 0.001 * move).bfloat16().item() - 1
            y = low + high * value / 0.04
            stairs += [(x, stairs[-1][1]), (x, y)] if stairs else [(x, y)]
        line(ax, *stairs, colour=WEIGHTS, wide=2.4)
        words(ax, left + wide + 1, at[-1][1] - 4.2, "its bf16 rounding:\nfor matrix products", colour=WEIGHTS,
              weight="bold")
    words(ax, left + wide / 2, 0.8, "moves of 0.001", ha="center")
    return ax.figure


@steps(range(5))
def round_trip(step: int) -> Figure:
    """One weight in a step with a master copy, from arrow 1 to arrow 4, and the bytes that have come together."""
    ax = sheet(65, 28, (6.5, 2.8))
    places = ((3, 19, 15, WEIGHTS, "weight\nbf16: 2 bytes", 0), (43, 19, 19, GRADIENTS, "gradient\nbf16: 2 bytes", 1),
              (33, 7, 15, OPTIMIZER, "moment m\nfp32: 4 bytes", 2),
              (49, 7, 15, OPTIMIZER, "moment v\nfp32: 4 bytes", 2),
              (3, 7, 15, OPTIMIZER, "master copy\nfp32: 4 bytes", 3))  # fmt: skip
    for x, y, wide, colour, text, since in places:
        if step >= since:
            box(ax, x, y, wide, 6.4, colour)
            words(ax, x + wide / 2, y + 3.2, text, ha="center", colour="white" if colour == WEIGHTS else INK)
    arrows = (((18.3, 22.2), (42.7, 22.2), 30.5, 24.4, "1  forward, backward"),
              ((52.5, 18.8), (52.5, 13.7), 53.6, 16.3, "2  averaged"),
              ((32.7, 10.2), (18.3, 10.2), 25.5, 13.4, "3  AdamW's\nsmall move"),
              ((10.5, 13.7), (10.5, 18.8), 11.6, 16.3, "4  rounded"))
    for start, end, x, y, text in arrows[:step]:
        canvas.arrow(ax, start, end, line=2.4)
        words(ax, x, y, text, ha="center" if text[0] in "13" else "left", weight="bold")
    sums = ("2", "2 + 2", "2 + 2 + 4 + 4", "2 + 2 + 4 + 4 + 4", "2 + 2 + 4 + 4 + 4 = 16")
    words(ax, 3, 2.6, f"{sums[step]} bytes", size=20, weight="bold")
    return ax.figure


def gpus_of_states() -> Figure:
    """The state of three models as the H100s that it fills."""
    ax = sheet(65, 30, ACROSS)
    y = 27
    for name in ("Llama-3-8B", "Llama-3-70B", "Llama-3-405B"):
        size = sum(memory.model_state_bytes(parameter_count(MODELS[name]), "bf16 mixed", "adamw").values()) / 1e9
        needed, each = size / GPU, 28
        rows = -(-int(needed + 1) // each)
        words(ax, 13.6, y - 0.6, name, ha="right", weight="bold", size=BIG)
        words(ax, 13.6, y - 3.6, f"{size:,.0f} GB", ha="right")
        for place in range(int(needed) + 1):
            row, column = divmod(place, each)
            x, low = 15 + 1.5 * column, y - 1.6 - 3.4 * row
            bar(ax, x, low, 1.2, 2.8, "#EDEDED")
            bar(ax, x, low, 1.2, 2.8 * min(1, needed - place), OPTIMIZER)
        words(ax, 57.6, y - 0.4, f"{needed:.2g} H100s", weight="bold", size=BIG)
        y -= 3.4 * rows + 4
    return ax.figure


WAYS = (("fp32, or autocast", 4, 4, 8, 0), ("bf16, DeepSpeed's ZeRO", 2, 2, 8, 4), ("bf16, Megatron", 2, 4, 8, 4),
        ("model.bfloat16()", 2, 2, 4, 0))  # fmt: skip


def byte_rows() -> Figure:
    """The bytes of one weight in four ways to train, as long as they are many."""
    ax = sheet(65, 29, (6.5, 2.9))
    for x, name, colour in ((22, "weight", WEIGHTS), (30, "gradient", GRADIENTS), (39, "moments", OPTIMIZER),
                            (48.4, "master copy", canvas.FACES[6])):
        bar(ax, x - 1.6, 26.6, 1.3, 1.8, colour)
        words(ax, x, 27.5, name)
    for row, (name, *numbers) in enumerate(WAYS):
        y, x = 20.2 - 6.4 * row, 20.4
        words(ax, 19.6, y + 2, name, ha="right", weight="bold")
        for size, colour in zip(numbers, (WEIGHTS, GRADIENTS, OPTIMIZER, canvas.FACES[6]), strict=True):
            halves = (size // 2,) * 2 if colour == OPTIMIZER else (size,) * bool(size)
            for part in halves:
                bar(ax, x, y, 2.1 * part, 4.2, colour, f"{part}", edgecolor="white", linewidth=1.2)
                x += 2.1 * part
        words(ax, x + 0.9, y + 2, f"{sum(numbers)}", size=BIG, weight="bold")
        if row == 3:
            words(ax, x + 4.4, y + 2, "loses small moves", colour=FAULT, weight="bold")
    return ax.figure


# Section 3: the peak


def crash_on_the_way_up() -> Figure:
    """Memory over a step, which meets the end of the GPU's memory before its peak."""
    ax = sheet(36, 30)
    for x, name in ((1, "forward"), (12.4, "backward"), (24, "optimizer")):
        words(ax, x + 0.4, 1.2, name)
        line(ax, (x, 2.6), (x, 4.6), colour=GREY_WORDS)
    line(ax, (0.6, 3.4), (35.4, 3.4), wide=1.5)
    line(ax, (1, 8), (4, 11), (7, 10.4), (12, 18.6), (14, 20), wide=4, colour=canvas.SERIES[0])
    line(ax, (14, 20), (18, 24.6), (22, 21.6), (27, 19), (35, 12), wide=3, colour=canvas.GREY, linestyle=":")
    line(ax, (0.6, 20), (35.4, 20), colour=FAULT, wide=2, linestyle=(0, (4, 2)))
    words(ax, 0.8, 21.6, "80 GB", colour=FAULT, weight="bold")
    words(ax, 14, 20, "×", size=28, colour=FAULT, weight="bold", ha="center", zorder=6)
    words(ax, 18, 26.6, "peak", weight="bold", size=BIG, ha="center")
    words(ax, 14.6, 16.6, "crash", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


TINY = training_memory(TINY_GPT, 4, 32, precision="fp32", fused=True).moments


def second_step() -> Figure:
    """What is alive at the fullest moment of the tiny GPT's first step, and the second step's unknown."""
    ax = sheet(36, 30)
    words(ax, 0.5, 27.4, "the first step's peak: 4 times the weights", weight="bold")
    for place, (name, colour) in enumerate(NUMBERS):
        bar(ax, 0.5 + 6 * place, 18.6, 6, 6, colour, name.split()[-1] if place > 1 else "", edgecolor="white")
    words(ax, 3.5, 21.6, "weights", ha="center", colour="white", weight="bold")
    words(ax, 9.5, 21.6, "grads", ha="center", weight="bold")
    words(ax, 0.5, 13, "second step", weight="bold", size=BIG)
    bar(ax, 0.5, 4.4, 6, 6, WEIGHTS)
    words(ax, 3.5, 7.4, "weights", ha="center", colour="white", weight="bold")
    _unknown(ax, 6.8, 4.4, 6, "?")
    return ax.figure


@steps(range(3))
def pile(step: int) -> Figure:
    """The fullest moments of both steps in multiples of the weights: the second has moments and activations."""
    ax = sheet(36, 30)
    weights, now = TINY["inside backward"]["weights"], TINY["inside backward"]
    scale = 34.5 / (sum(now.values()) / weights)
    words(ax, 0.5, 28, "first step: in the optimizer step", weight="bold")
    for place, (name, colour) in enumerate(NUMBERS):
        bar(ax, 0.5 + scale * place, 20.4, scale, 5.6, colour, name.split()[-1] if place > 1 else "",
             edgecolor="white")
    words(ax, 0.5, 18.6, "weights, gradients, two moments")
    if step:
        words(ax, 0.5, 13.6, "second step: early in backward", weight="bold")
        for place, (name, colour) in enumerate((NUMBERS[0], *NUMBERS[2:])):
            bar(ax, 0.5 + scale * place, 6, scale, 5.6, colour, name.split()[-1] if place else "", edgecolor="white")
        words(ax, 0.5, 4, "the moments stay")
        line(ax, (0.5, 5.4), (0.5 + 3 * scale, 5.4), wide=2)
    if step > 1:
        more = scale * (now["activations"] + now["logits"] + now["working"]) / weights
        bar(ax, 0.5 + 3 * scale, 6, more, 5.6, ACTIVATIONS, "activations, logits", edgecolor="white")
        words(ax, 35, 4, "pile up on top", ha="right")
    return ax.figure


# Section 4: parameters


def ends_and_layers() -> Figure:
    """A model from tokens to predictions: the token table, 32 layers, the output matrix."""
    ax = sheet(36, 30)
    box(ax, 10, 1, 16, 3.4, canvas.FACES[2], "tokens")
    box(ax, 10, 6.4, 16, 3.4, canvas.FACES[0], "token table")
    for layer in range(5):
        box(ax, 10, 11.8 + 1.7 * layer, 16, 1.3, WEIGHTS if layer != 3 else "none", edge=INK if layer != 3 else "none")
    words(ax, 18, 17.5, "…", ha="center", weight="bold", size=BIG)
    box(ax, 10, 21.8, 16, 3.4, canvas.FACES[0], "output matrix")
    words(ax, 18, 28, "predictions", ha="center")
    for low, high in ((4.4, 6.4), (9.8, 11.7), (20, 21.7), (25.2, 27)):
        canvas.arrow(ax, (18, low), (18, high), line=2)
    words(ax, 27, 15.8, "32 layers", weight="bold")
    return ax.figure


@steps(range(2))
def two_halves(step: int) -> Figure:
    """Attention, where a token looks back at others, and the MLP, which widens and narrows each token's vector."""
    ax = sheet(65, 30, ACROSS)
    words(ax, 1, 28.4, "Attention: a token looks back", weight="bold", size=BIG)
    for place, token in enumerate(("the", "cat", "sat", "on")):
        box(ax, 1 + 7 * place, 21, 5.6, 3.4, canvas.FACES[2], token)
        if place < 3:
            canvas.arrow(ax, (24, 20.8), (3.8 + 7 * place, 20.8), colour=canvas.COLLECTIVE, line=2,
                         bend=-0.28)
    bar(ax, 1, 4.2, 2, 9.6, canvas.FACES[2], edgecolor=INK, linewidth=1)
    for name, y, high in (("q", 11, 4.4), ("k", 7.9, 2.2), ("v", 4.6, 2.2)):
        box(ax, 6.6, y, 5, high, WEIGHTS)
        words(ax, 9.1, y + high / 2, name, colour="white", weight="bold", ha="center")
        canvas.arrow(ax, (3.2, 9), (6.4, y + high / 2), line=1.6)
        canvas.arrow(ax, (11.8, y + high / 2), (14.4, 9), line=1.6)
    box(ax, 14.6, 6.4, 6.6, 5.2, canvas.FACES[5], "heads")
    canvas.arrow(ax, (21.2, 9), (23.2, 9), line=1.6)
    box(ax, 23.4, 6.4, 5, 5.2, WEIGHTS)
    words(ax, 25.9, 9, "out", colour="white", weight="bold", ha="center")
    words(ax, 1, 2, "a vector for each token")
    if step:
        words(ax, 36, 28.4, "MLP: each token by itself", weight="bold", size=BIG)
        scale = 20 / LLAMA.ffn
        for x, size, name in ((38, LLAMA.hidden, "4,096"), (46.6, LLAMA.ffn, "14,336"), (59, LLAMA.hidden, "4,096")):
            bar(ax, x, 14 - scale * size / 2, 2.4, scale * size, canvas.FACES[2], edgecolor=INK, linewidth=1)
            words(ax, x + 1.2, 14 - scale * size / 2 - 1.3, name, ha="center")
        canvas.arrow(ax, (40.6, 14), (46.4, 14), colour=WEIGHTS, line=4)
        canvas.arrow(ax, (49.2, 14), (58.8, 14), colour=WEIGHTS, line=4)
        words(ax, 43.4, 17, "gate\nup", ha="center", colour=WEIGHTS, weight="bold")
        words(ax, 54, 16, "down", ha="center", colour=WEIGHTS, weight="bold")
    return ax.figure


@steps(range(2))
def layer_by_area(step: int) -> Figure:
    """The matrices of a layer, each as wide as what goes in and as high as what comes out."""
    ax = sheet(65, 30, ACROSS)
    ax.set_aspect("equal")
    wide, narrow, high = 7, 7 / 4, 7 * LLAMA.ffn / LLAMA.hidden
    attention = 2 * LLAMA.hidden**2 * 1.25
    words(ax, 1, 28.4, f"attention: {attention / 1e6:.0f} million", weight="bold", size=BIG)
    boxes = (1, 17, wide, "q"), (1, 13.8, narrow, "k"), (1, 11.2, narrow, "v"), (9.6, 17, wide, "out")
    for x, y, tall, name in boxes:
        bar(ax, x, y, wide, tall, WEIGHTS, name)
    if step:
        words(ax, 22, 28.4, f"MLP: {3 * LLAMA.hidden * LLAMA.ffn / 1e6:.0f} million", weight="bold", size=BIG)
        for x, name in ((22, "gate"), (30.4, "up")):
            bar(ax, x, 1.6, wide, high, canvas.FACES[0], name)
        bar(ax, 38.9, 19.1, high, wide, canvas.FACES[0], "down")
        words(ax, 38.9, 15.2, "four fifths of the layer", weight="bold", size=BIG)
        words(ax, 38.9, 11.6, "wide: what goes in")
        words(ax, 38.9, 9, "high: what comes out")
    return ax.figure


SUSPECTS = (("q", LLAMA.hidden), ("gate, up or down", LLAMA.ffn), ("the token table", LLAMA.vocabulary))


def three_suspects() -> Figure:
    """Three matrices as large as they are; the last one ends far outside."""
    ax = sheet(36, 30)
    scale = 4.6 / LLAMA.hidden
    for place, (name, other) in enumerate(SUSPECTS):
        y, wide = 20.4 - 9.6 * place, min(scale * other, 33)
        words(ax, 0.6, y + 6.6, f"{place + 1}  {name}", weight="bold", size=BIG)
        bar(ax, 0.6, y, wide, 4.6, canvas.FACES[0], edgecolor=INK, linewidth=1)
        told = f"4,096 × {other:,}"
        words(ax, (2 if wide > 12 else wide + 1.6), y + 2.3, told)
        if place == 2:
            bar(ax, 31, y - 0.2, 3.6, 5, "white")
            words(ax, 31.4, y + 2.3, "…", size=20)
    return ax.figure


def moments_of_suspects() -> Figure:
    """A moment of each suspect beside what the script had asked for."""
    ax = sheet(36, 30)
    sizes = [4 * LLAMA.hidden * other / 2**20 for _, other in SUSPECTS]
    for place, ((name, other), size) in enumerate(zip(SUSPECTS, sizes, strict=True)):
        y, wide = 19.6 - 9 * place, min(34.5, 12 * size / 224)
        right = size == 224
        words(ax, 0.5, y + 5.6, f"{name}: 4,096 · {other:,} · 4 bytes", weight="bold" if right else "normal")
        bar(ax, 0.5, y, wide, 3.6, FAULT if right else canvas.GREY)
        inside = wide > 30
        words(ax, 2 if inside else wide + 1.4, y + 1.8, f"{size:,.0f} MiB", weight="bold", size=BIG,
              colour="white" if inside else INK)
        if inside:
            for x in (26, 27.2):
                line(ax, (x - 0.6, y - 0.5), (x + 0.6, y + 4.1), colour="white", wide=4)
    return ax.figure


@steps(range(4))
def error_message(step: int) -> Figure:
    """The error's two lines, and what each tells of the tensor that did not fit."""
    ax = sheet(65, 29, (6.5, 2.9))
    bar(ax, 0.6, 16, 63.8, 12, "#F0F0F0")
    for y, text, colour in ((25.6, "optimizer.step()", FAULT if step else INK), (22.4, "...", INK),
                            (19.2, "torch.OutOfMemoryError: Tried to allocate", INK)):
        words(ax, 2, y, text, colour=colour, **MONO)
    words(ax, 46.5, 19.2, "224.00 MiB", colour=FAULT if step > 1 else INK, weight="bold", **MONO)
    if step:
        canvas.arrow(ax, (9, 15.6), (9, 12.6), colour=FAULT, line=2.4)
        words(ax, 1, 10.8, "the phase: AdamW makes", weight="bold")
        words(ax, 1, 8, "its moments, in fp32", weight="bold")
    if step > 1:
        canvas.arrow(ax, (50, 17.6), (50, 12.6), colour=FAULT, line=2.4)
        words(ax, 36, 10.8, "the shape: 4,096 · 14,336", weight="bold")
        words(ax, 36, 8, "numbers of 4 bytes", weight="bold")
    if step > 2:
        bar(ax, 12, 0.6, 41, 4.4, OPTIMIZER)
        words(ax, 32.5, 2.8, "a moment of gate, up or down", weight="bold", size=BIG, ha="center")
    return ax.figure


# Section 5: activations


def same_state() -> Figure:
    """A short and a long text: the same state, and activations of which nothing is known yet."""
    ax = sheet(36, 30)
    for y, lines, name in ((17, 1, "a short text"), (2, 4, "a long text")):
        words(ax, 0.5, y + 10.6, name, weight="bold", size=BIG)
        for row in range(lines):
            bar(ax, 0.5, y + 7 - 1.5 * row, 8, 0.9, canvas.FACES[2])
        bar(ax, 11, y + 5.4, 24, 3, OPTIMIZER, "state: the same")
        bar(ax, 11, y + 1.2, 24, 3, "none", "activations: ?", edgecolor=INK, linewidth=1.4, linestyle="--")
    return ax.figure


def waits_for_backward() -> Figure:
    """How long each layer's input waits: from its forward to its backward."""
    ax = sheet(36, 30)
    for layer in range(4):
        y, first, last = 20.6 - 5.4 * layer, 4.4 + 3.6 * layer, 32 - 3.6 * layer
        words(ax, 0.2, y + 1.6, f"$x_{layer + 1}$", size=16)
        bar(ax, first + 3.2, y + 0.9, last - first - 3.2, 1.4, ACTIVATIONS)
        bar(ax, first, y, 3.2, 3.2, canvas.FORWARD, "F", edgecolor=INK, linewidth=0.8)
        bar(ax, last, y, 3.2, 3.2, canvas.BACKWARD, "B", edgecolor=INK, linewidth=0.8)
    words(ax, 4.4, 27.4, "forward", weight="bold", size=BIG)
    words(ax, 35.4, 27.4, "backward", weight="bold", size=BIG, ha="right")
    canvas.arrow(ax, (4.4, 2), (35.4, 2), line=1.5)
    words(ax, 20, 0.6, "time", ha="center")
    return ax.figure


def pairs() -> Figure:
    """The scores of ten and of twenty tokens as squares of their pairs."""
    ax = sheet(36, 30)
    each = 1.02
    for x, tokens in ((1, 10), (14.4, 20)):
        words(ax, x, 28.2, f"{tokens} tokens", weight="bold", size=BIG)
        for place in range(tokens):
            bar(ax, x + each * place, 24.6, each * 0.8, 1.6, canvas.FACES[2])
            for other in range(tokens):
                bar(ax, x + each * place, 22.4 - each * other, each * 0.8, each * 0.8, ACTIVATIONS)
    words(ax, 1, 10, "100 scores", weight="bold")
    words(ax, 14.4, 1.2, "400 scores", weight="bold")
    return ax.figure


def _activations(tokens: int, recompute: str) -> float:
    return memory.activation_bytes(LLAMA, 1, tokens, recompute) / 1e9


@steps(range(3))
def scores_and_rest(step: int) -> Figure:
    """What 1,024 tokens keep and what 4,096 keep, without the scores and of the scores."""
    ax = sheet(36, 30)
    short, long = _activations(1024, "selective"), _activations(4096, "selective")
    scores = [_activations(tokens, "none") - rest for tokens, rest in ((1024, short), (4096, long))]
    scale = 34.5 / (long + scores[1])
    words(ax, 0.5, 27.6, f"1,024 tokens: {short:.1f} + {scores[0]:.2f} GB", weight="bold", size=BIG)
    bar(ax, 0.5, 20.4, scale * short, 5, ACTIVATIONS)
    bar(ax, 0.5 + scale * short, 20.4, scale * scores[0], 5, canvas.FACES[4], hatch="////", edgecolor=ACTIVATIONS)
    if step:
        words(ax, 0.5, 14.4, "4,096 tokens", weight="bold", size=BIG)
        bar(ax, 0.5, 7.2, scale * long, 5, ACTIVATIONS, f"{long:.0f} GB")
        words(ax, 0.5, 4.6, "all else: 4 times")
    if step > 1:
        bar(ax, 0.5 + scale * long, 7.2, scale * scores[1], 5, canvas.FACES[4], hatch="////", edgecolor=ACTIVATIONS)
        middle = 0.5 + scale * (long + scores[1] / 2)
        words(ax, middle, 9.7, f"{scores[1]:.0f} GB", weight="bold", ha="center",
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})
        words(ax, 0.5 + scale * long, 4.6, "scores: 16 times", weight="bold")
    return ax.figure


@steps(range(1, 4))
def recomputation(step: int) -> Figure:
    """What three ways keep of a text of 8,192 tokens, and what each costs."""
    ax = sheet(65, 29, (6.5, 2.9))
    left, scale = 13, 36 / _activations(8192, "none")
    ways = (("none", "keeps everything", "costs nothing"),
            ("selective", "drops the attention scores", "FlashAttention never stores them"),
            ("full", "keeps each layer's input", "computes a third more"))
    for place, (way, keeps, costs) in enumerate(ways[:step]):
        y, size = 19.6 - 9 * place, _activations(8192, way)
        rest = min(size, _activations(8192, "selective"))
        words(ax, left - 1, y + 2.2, way, ha="right", weight="bold", size=BIG)
        bar(ax, left, y, scale * rest, 4.4, ACTIVATIONS if way != "full" else INK)
        if size > rest:
            bar(ax, left + scale * rest, y, scale * (size - rest), 4.4, canvas.FACES[4], hatch="////",
                 edgecolor=ACTIVATIONS)
        words(ax, left + scale * size + 0.8, y + 2.2, f"{size:.2g} GB" if size < 100 else f"{size:.0f} GB",
              weight="bold", size=BIG)
        x = left if place == 0 else left + 17
        words(ax, x, y + (6 if place == 0 else 3.6), keeps)
        words(ax, x + (24 if place == 0 else 0), y + (6 if place == 0 else 0.8), costs, weight="bold",
              colour=FAULT if place == 2 else INK)
    return ax.figure


# Section 6: make it fit


def eight_gpus() -> Figure:
    """A server of eight GPUs, each with a text of 8,192 tokens and the whole state."""
    ax = sheet(36, 30)
    for place in range(8):
        x, y = 0.6 + 9 * (place % 4), 15.6 - 14 * (place // 4)
        bar(ax, x, y, 8, 13, PALE, edgecolor=INK, linewidth=1)
        bar(ax, x + 0.8, y + 1, 6.4, 5.6, OPTIMIZER, "state")
        for row in range(3):
            bar(ax, x + 0.8, y + 8 + 1.5 * row, 6.4, 0.9, canvas.FACES[2])
    return ax.figure


def _parts(zero: int, recompute: str = "selective") -> list[tuple[str, float]]:
    """Return the gigabytes of each GPU at the peak, by the parts of the chapter's table."""
    needed = training_memory(LLAMA, 1, 8192, zero=zero, recompute=recompute, **SERVER).moments["inside backward"]
    found = {name: needed[name] / 1e9 for name in ("weights", "optimizer", "activations")}
    return [*found.items(), ("loss", (needed["logits"] + needed["working"]) / 1e9)]


LEGEND = (("weights", WEIGHTS), ("optimizer", OPTIMIZER), ("activations", ACTIVATIONS), ("loss", canvas.GREY),
          ("gradients", GRADIENTS))  # fmt: skip


def _legend(ax: Axes, x: float, y: float, count: int = 5, gap: float = 10.6) -> None:
    for place, (name, colour) in enumerate(LEGEND[:count]):
        bar(ax, x + gap * place, y - 0.8, 1.5, 1.6, colour)
        words(ax, x + 2.1 + gap * place, y, name)


@steps(range(1, 4))
def two_moments(step: int) -> Figure:
    """The sheet's two lines as stacks of memory, for Llama-3-8B and 8,192 tokens on each GPU."""
    ax = sheet(65, 28, (6.5, 2.8))
    early, state = _parts(0), memory.model_state_bytes(COUNT, "bf16 mixed", "adamw")
    scale, left = 44 / sum(size for _, size in early), 13
    _legend(ax, left, 26.4)
    late = [(name, state[name] / 1e9) for name in ("weights", "optimizer", "gradients")]
    for y, name, parts in ((15, "early in\nbackward", early), (4, "optimizer\nstep", late))[:step]:
        words(ax, left - 1, y + 3, name, ha="right", weight="bold")
        end = _stack(ax, left, y, 6, parts, scale)
        words(ax, end + 0.8, y + 3, f"{sum(size for _, size in parts):.0f} GB", weight="bold", size=BIG)
    words(ax, left + scale * 156, 13.2, "3 · logits", ha="left")
    if step > 2:
        words(ax, left, 1.4, "The larger of the two is the peak.", weight="bold", colour=FAULT)
    return ax.figure


STAGES = ("no ZeRO", "1  the optimizer", "2  the gradients, too", "3  the weights, too")


def zero() -> list[Figure]:
    """What each of eight GPUs keeps of the state without ZeRO, and with each of its stages."""
    return [_zero(stage) for stage in range(4)]


def _zero(stage: int) -> Figure:
    ax = sheet(65, 30, ACROSS)
    state = memory.model_state_bytes(COUNT, "bf16 mixed", "adamw")
    scale = 24 / sum(state.values())
    for gpu in range(8):
        x, y = 1 + 4.8 * gpu, 3.4
        words(ax, x + 2, 1.6, f"{gpu}", ha="center")
        for name, since in (("weights", 3), ("gradients", 2), ("optimizer", 1)):
            high = scale * state[name]
            cut = stage >= since
            bar(ax, x, y, 4, high, "#EDEDED" if cut else COLOURS[name], edgecolor="white", linewidth=0.8)
            if cut:
                bar(ax, x, y + high * gpu / 8, 4, high / 8, COLOURS[name])
            y += high
    for place, name in enumerate(STAGES[:stage + 1]):
        size = sum(memory.model_state_bytes(COUNT, "bf16 mixed", "adamw", place, 8).values()) / 1e9
        y, now = 26.6 - 6 * place, place == stage
        words(ax, 42, y, name, weight="bold", size=BIG, colour=INK if now else GREY_WORDS)
        words(ax, 42, y - 2.6, f"{size:.0f} GB of state on each GPU", colour=INK if now else GREY_WORDS)
    for x, name, colour in ((42, "weights", WEIGHTS), (49.6, "gradients", GRADIENTS), (58, "optimizer", OPTIMIZER)):
        bar(ax, x - 1.4, 0.9, 1.1, 1.4, colour)
        words(ax, x, 1.6, name)
    return ax.figure


def too_long() -> Figure:
    """The memory of each of the eight GPUs at the peak, and the end of what a GPU has."""
    ax = sheet(36, 30)
    parts = _parts(0)
    scale = 34.5 / sum(size for _, size in parts)
    _stack(ax, 0.5, 17, 6.4, parts, scale, least=0)
    _limit(ax, 0.5 + scale * GPU, 15, 25, "80 GB")
    for place, (name, colour) in enumerate(LEGEND[:4]):
        bar(ax, 1 + 17 * (place % 2), 9 - 4 * (place // 2), 1.8, 2, colour)
        words(ax, 3.6 + 17 * (place % 2), 10 - 4 * (place // 2), name)
    words(ax, 0.5, 1.4, "each of eight GPUs, GB at the peak", colour=GREY_WORDS)
    return ax.figure


PLANS = (("no ZeRO", 0, "selective"), ("ZeRO 1", 1, "selective"), ("ZeRO 2", 2, "selective"),
         ("ZeRO 3", 3, "selective"), ("ZeRO 3, full\nrecomputation", 3, "full"))  # fmt: skip


def plans() -> list[Figure]:
    """One plan after the other until the peak ends before 80 GB, and one that leaves room."""
    return [_plans(step) for step in range(1, 6)]


def _plans(step: int) -> Figure:
    ax = sheet(65, 28.5, (6.5, 2.85))
    left, scale = 14, 44 / sum(size for _, size in _parts(0))
    _legend(ax, left + 6, 27.4, 4, 10)
    _limit(ax, left + scale * GPU, 0.4, 22.6, "")
    for place, (name, stage, recompute) in enumerate(PLANS[:step]):
        y, parts = 20.4 - 5 * place, _parts(stage, recompute)
        peak = sum(size for _, size in parts)
        words(ax, left - 1, y + 2, name, ha="right", weight="bold")
        end = _stack(ax, left, y, 4, parts, scale)
        words(ax, max(end, left + scale * GPU if end > left + scale * (GPU - 12) else end) + 0.9, y + 2,
              f"{peak:.0f} GB", weight="bold", size=BIG, colour=FAULT if peak > GPU else canvas.COMPUTE)
        if place == 2:
            words(ax, end + 10, y + 2, "no gradients at this peak")
    words(ax, left + scale * GPU + 0.6, 24.9, "80 GB", colour=FAULT, weight="bold")
    return ax.figure


@steps(range(1, 6))
def micro_batches(step: int) -> Figure:
    """Four small groups of texts, whose gradients add up before the optimizer moves the weights."""
    ax = sheet(36, 30)
    for place in range(4):
        y = 23.4 - 7 * place
        for row in range(2):
            bar(ax, 0.5, y + 2.6 - 1.8 * row, 8, 1.1, canvas.FACES[2])
        if place < min(step, 4):
            canvas.arrow(ax, (9, y + 2.2), (14.6, 14.4 + 0.35 * (y - 14)), colour=GRADIENTS, line=2.4)
            bar(ax, 15, 8.6 + 3.1 * place, 9, 2.8, GRADIENTS)
    bar(ax, 15, 8.6, 9, 12.4, "none", edgecolor=INK, linewidth=1.2)
    words(ax, 19.5, 22.8, "gradients", ha="center", weight="bold")
    if step == 5:
        canvas.arrow(ax, (24.4, 14.8), (28, 14.8), line=2.4)
        bar(ax, 28.4, 11.8, 7, 6, WEIGHTS)
        words(ax, 31.9, 19.6, "one step", ha="center", weight="bold")
    return ax.figure


# Section 7: days


def two_flops() -> Figure:
    """What a weight does with one number: a multiplication and an addition."""
    ax = sheet(36, 30)
    for x, y, text, colour in ((1, 21, "weight", WEIGHTS), (1, 12, "number", canvas.FACES[2])):
        box(ax, x, y, 9.4, 5, colour)
        words(ax, x + 4.7, y + 2.5, text, ha="center", weight="bold", colour="white" if colour == WEIGHTS else INK)
        canvas.arrow(ax, (10.6, y + 2.5), (15, 19), line=2)
    for x, sign in ((17, "×"), (27.6, "+")):
        box(ax, x - 1.8, 17, 3.6, 3.8, "white")
        words(ax, x, 18.8, sign, size=22, ha="center", weight="bold")
    canvas.arrow(ax, (18.9, 18.9), (25.7, 18.9), line=2)
    canvas.arrow(ax, (27.6, 11.4), (27.6, 16.8), line=2)
    words(ax, 27.6, 9.8, "sum so far", ha="center")
    canvas.arrow(ax, (29.5, 18.9), (34.6, 18.9), line=2)
    words(ax, 18, 3.4, "2 FLOPs", size=20, weight="bold", ha="center")
    return ax.figure


@steps(range(1, 4))
def six_flops(step: int) -> Figure:
    """The three products of a weight for one token, two FLOPs each."""
    ax = sheet(36, 30)
    rows = (("forward", "the output", canvas.FORWARD), ("backward", "the input's gradient", canvas.BACKWARD),
            ("backward", "the weight's gradient", canvas.BACKWARD))
    for place, (phase, goal, colour) in enumerate(rows[:step]):
        y = 23 - 8.4 * place
        words(ax, 0.5, y + 5.4, f"{phase}: {goal}", weight="bold")
        for side, sign in enumerate("×+"):
            bar(ax, 0.5 + 7 * side, y - 0.4, 6.4, 4, colour, sign, edgecolor=INK, linewidth=0.8)
        words(ax, 15.6, y + 1.6, "2", size=20, weight="bold")
    if step == 3:
        words(ax, 0.5, 1.6, "6 FLOPs for a weight and a token", size=BIG, weight="bold")
    return ax.figure


@steps(range(1, 4))
def two_traps(step: int) -> Figure:
    """The data sheet's rate of an H100, that of full matrices, and what a run reaches."""
    ax = sheet(65, 27, (6.5, 2.7))
    dense = H100.peak() / 1e12
    rows = (("data sheet", 1979, canvas.GREY, "with sparsity: half of the numbers are zero"),
            ("full matrices", dense, canvas.FACES[2], "the peak rate of training"),
            ("a run", 0.4 * dense, canvas.COMPUTE, "with an MFU of 40 %; Llama 3 405B: 38 to 43 %"))
    for place, (name, rate, colour, told) in enumerate(rows[:step]):
        y, wide = 18.6 - 9 * place, 50 * rate / 1979
        words(ax, 13.2, y + 2.4, name, ha="right", weight="bold", size=BIG)
        bar(ax, 14, y, wide, 4.8, colour)
        words(ax, 15 if wide > 12 else 15 + wide, y + 2.4, f"{rate:,.0f} TFLOP/s", weight="bold", size=BIG,
              colour="white" if colour == canvas.COMPUTE and wide > 12 else INK)
        words(ax, 14, y + 6.3, told)
    return ax.figure


def _days(tokens: float, gpus: int, peak: float, mfu: float = 0.4) -> float:
    return 6 * COUNT * tokens / (gpus * peak * mfu) / 86_400


def days() -> list[Figure]:
    """How long Llama's own run takes on 1,024 H100s by two peak rates, and by its model card."""
    return [_days_of_runs(step) for step in range(1, 5)]


def _days_of_runs(step: int) -> Figure:
    ax = sheet(65, 29, (6.5, 2.9))
    words(ax, 1, 27.4, f"your billion tokens on 8 H100s: {24 * _days(1e9, 8, H100.peak()):.1f} hours", weight="bold",
          size=BIG)
    if step > 1:
        years = _days(15e12, 1, H100.peak()) / 365
        words(ax, 1, 23.6, f"Llama's 15 trillion: {years:.0f} years of one H100; with 1,024 of them:",
              weight="bold", size=BIG)
    card = 1.3e6 / 1024 / 24
    rows = (("estimate, MFU 0.4", _days(15e12, 1024, H100.peak()), canvas.COMPUTE, 2),
            ("with the sparse rate", _days(15e12, 1024, 1979e12), FAULT, 3),
            ("by the model card", card, canvas.SERIES[0], 4))
    for place, (name, size, colour, since) in enumerate(rows):
        if step < since:
            continue
        y, wide = 15.4 - 6.8 * place, 44 * size / card
        words(ax, 17.4, y + 2.2, name, ha="right")
        bar(ax, 18.2, y, wide, 4.4, colour)
        words(ax, 19 if wide > 10 else 19 + wide, y + 2.2, f"{size:.0f} days", weight="bold", size=BIG,
              colour="white" if wide > 10 else INK)
        if place == 1:
            words(ax, 27.4 + wide, y + 2.2, "not with full matrices", colour=FAULT, weight="bold")
    return ax.figure
