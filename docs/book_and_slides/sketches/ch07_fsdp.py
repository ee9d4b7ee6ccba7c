"""Pictures that only the slides of chapter 7 have."""

from __future__ import annotations

from functools import partial

import kit
from kit import ACROSS, BIG, LETTERS, MONO, PALE, axes, bar, bars, box, frame, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.hardware import DGX_H100
from course_lib.lessons.prefetch import layer_weights
from course_lib.memory import model_state_bytes, training_memory
from course_lib.models import MODELS, parameter_count
from course_lib.plots import canvas

line = partial(kit.line, zorder=4)  # above what it crosses

WHITE, INK = "#FFFFFF", canvas.INK
FACES, SENT, FAULT, IDLE = canvas.FACES, canvas.COLLECTIVE, canvas.LIMIT, canvas.WAITING
PARTS = {"weights": canvas.WEIGHTS, "gradients": canvas.GRADIENTS, "optimizer": canvas.OPTIMIZER}
LLAMA, SMALL = MODELS["Llama-3-70B"], MODELS["Llama-3-8B"]
COUNT, CAPACITY = parameter_count(LLAMA), 80
SPEED = DGX_H100.gpu.peak() / 2  # half of the peak is what a good program reaches
PORTS = DGX_H100.nics * DGX_H100.nic.bandwidth
LAYER = 2 * layer_weights(LLAMA) / 1e9  # GB in bf16


def _state(stage: int = 3, ranks: int = 256) -> dict[str, float]:
    """Return the GB of weights, gradients and optimizer on a rank of Llama-3-70B."""
    return {name: size / 1e9 for name, size in model_state_bytes(COUNT, zero=stage, ranks=ranks).items()}


def _gather(shape=LLAMA) -> float:
    """Return the seconds in which one of 32 machines gathers a layer."""
    return 31 / 32 * 2 * layer_weights(shape) / PORTS


def _token(shape=LLAMA) -> float:
    """Return the seconds in which a GPU computes one token in a layer's forward."""
    return 2 * layer_weights(shape) / SPEED


def _cell(ax: Axes, x: float, y: float, wide: float, high: float, colour: str = WHITE, text: str = "", **look) -> None:
    bar(ax, x, y, wide, high, colour, text, ink=INK, **{"edgecolor": INK, "linewidth": 0.9} | look)


# The opening


def one_copy() -> Figure:
    """What training keeps of Llama-3-70B, and the memory of one H100, to one scale."""
    ax, low, scale = sheet(36, 30), 2, 24 / sum(_state(0).values())
    for name, size in _state(0).items():
        bar(ax, 1, low, 9, scale * size, PARTS[name])
        words(ax, 10.8, low + scale * size / 2, f"{name}: {size:.0f} GB")
        low += scale * size
    words(ax, 1, 28.4, f"{sum(_state(0).values()) / 1e3:.2f} TB", weight="bold", size=20)
    bar(ax, 28, 2, 4, scale * CAPACITY, FAULT)
    words(ax, 30, 5.6, "one H100:\n80 GB", ha="center", weight="bold", colour=FAULT)
    return ax.figure


@steps(range(1, 4))
def copies(step: int) -> Figure:
    """How many copies 256 GPUs have room for, how many data parallelism wants, and one that all share."""
    ax, copy = sheet(65, 30, ACROSS), sum(_state(0).values())
    room = 256 * CAPACITY / copy
    unit = 60 / room
    words(ax, 0.5, 28.4, "the memory of 256 GPUs: 20 TB", weight="bold", size=BIG)
    bar(ax, 0.5, 21.6, 60, 5, PALE, edgecolor=INK)
    for place in range(18):
        bar(ax, 0.5 + unit * place, 21.6, unit - 0.4, 5, FACES[2], f"{place + 1}", ink=INK)
    if step > 1:
        words(ax, 0.5, 18, "plain data parallelism: a copy on every GPU", weight="bold", size=BIG)
        for place in range(20):
            bar(ax, 0.5 + unit * place, 11.2, unit - 0.4, 5, FACES[3], f"{place + 1}" if place < 18 else "", ink=INK)
        words(ax, 64.5, 18, "… 256", ha="right", weight="bold", size=20, colour=FAULT)
    if step > 2:
        words(ax, 0.5, 7.6, f"FSDP: one copy, and {sum(_state().values()):.1f} GB of it on each GPU", weight="bold",
              size=BIG)
        bar(ax, 0.5, 0.8, unit - 0.4, 5, FACES[2])
        for place in range(1, 16):
            x = 0.5 + (unit - 0.4) * place / 16
            line(ax, (x, 0.8), (x, 5.8), wide=0.5)
        words(ax, unit + 1.2, 3.3, "cut into 256 parts. So each layer has to be borrowed when it computes.")
    return ax.figure


STAGES = ("plain", "stage 1", "stage 2", "stage 3")


def stages() -> list[Figure]:
    """What each stage of ZeRO leaves whole on a rank, and what it divides."""
    return [_stages(shown) for shown in range(1, 5)]


def _stages(shown: int) -> Figure:
    ax = sheet(65, 30, ACROSS)
    for place, (name, size) in enumerate(zip(("weights", "gradients", "optimizer's state"), (2, 2, 12), strict=True)):
        words(ax, 17.4, (21.6, 16, 5.4)[place], f"{name}\n{size} bytes", ha="right")
    for stage, name in enumerate(STAGES[:shown]):
        x = 19.5 + 11.6 * stage
        words(ax, x + 4.6, 28.4, name, ha="center", weight="bold", size=BIG)
        if stage == 3:
            words(ax, x + 4.6, 26, "FSDP", ha="center", weight="bold", colour=canvas.WEIGHTS)
        for y, high, colour, first in zip((19.4, 14.2, 0.8), (4.6, 4.6, 12.6), PARTS.values(), (3, 2, 1),
                                                  strict=True):
            divided = stage >= first
            bar(ax, x, y, 9.2, high, IDLE if divided else colour)
            if divided:
                bar(ax, x, y, 9.2 / 8, high, colour)
                words(ax, x + 5.2, y + high / 2, "1 / P", ha="center", weight="bold")
    return ax.figure


# Section 1: the cut


def same_step() -> Figure:
    """Four ranks that each take the same step of all weights."""
    ax = sheet(36, 26, (3.6, 2.6))
    bar(ax, 0.5, 17.4, 35, 4, SENT, "all-reduce: everybody has the sum")
    for rank in range(4):
        x = 0.5 + 9 * rank
        words(ax, x + 4, 24.6, f"rank {rank}", ha="center", weight="bold")
        canvas.arrow(ax, (x + 4, 23.6), (x + 4, 21.6))
        canvas.arrow(ax, (x + 4, 17.2), (x + 4, 14.6))
        frame(ax, x, 4.4, 8, 10)
        for part in range(4):
            _cell(ax, x + 0.8 + 1.6 * part, 9.6, 1.6, 3.4, FACES[7])
        words(ax, x + 4, 7, "steps all", ha="center")
    words(ax, 18, 2, "four times the same step, with the same moments", ha="center", weight="bold", colour=FAULT)
    return ax.figure


def cut_all_reduce() -> list[Figure]:
    """Four ranks' gradients, the summed quarters, the stepped quarters, and the gathered weights."""
    return [_cut_all_reduce(step) for step in range(1, 5)]


def _cut_all_reduce(step: int) -> Figure:
    ax = sheet(65, 30, ACROSS)
    gradients = [[10 * rank + part for part in range(4)] for rank in range(4)]
    sums = [sum(row[part] for row in gradients) for part in range(4)]
    weights = [100 - total / 4 for total in sums]
    names = ("gradients", "the sum of\nmy quarter", "my quarter\nof the weights", "all weights")
    if step > 2:
        frame(ax, 38.2, 2.4, 10.8, 27.2, canvas.FACES[6])
    for place, name in enumerate(names[:step]):
        x = 6.6 + 16.2 * place
        words(ax, x + 4.8, 27, name, ha="center", weight="bold")
        for rank in range(4):
            y = 19 - 5 * rank
            if not place:
                words(ax, 0.3, y + 1.9, f"rank {rank}", weight="bold")
            for part in range(4):
                shown = place in (0, 3) or part == rank
                value = (gradients[rank][part], sums[part], weights[part], weights[part])[place]
                colour = FACES[part if place else rank] if shown else WHITE
                _cell(ax, x + 2.4 * part, y, 2.4, 3.8, colour, f"{value:.0f}" if shown else "",
                      linewidth=0.9 if shown else 0.3)
    ways = (("reduce-\nscatter", SENT), ("100 −\nsum / 4", INK), ("all-\ngather", SENT))
    for place, (name, colour) in enumerate(ways[:step - 1]):
        x = 17 + 16.2 * place - 0.9 * (place == 1)
        canvas.arrow(ax, (x - 0.6 * (place != 1), 12), (x + 4.6, 12), colour=colour, line=4)
        words(ax, x + 2.2, 15, name, ha="center", colour=colour, weight="bold")
    return ax.figure


def stage_1() -> Figure:
    """What a rank keeps of Llama-3-70B by plain data parallelism, and at stage 1."""
    return _kept((0, 1))


def _kept(shown: tuple[int, ...]) -> Figure:
    ax, scale = sheet(36, 26, (3.6, 2.6)), 34 / sum(_state(0).values())
    for row, stage in enumerate(shown):
        x, y, total = 0.5, 15.4 - 12 * row, sum(_state(stage).values())
        words(ax, 0.5, y + 7, f"{STAGES[stage]}: {total:,.0f} GB", weight="bold", size=BIG)
        for name, size in _state(stage).items():
            bar(ax, x, y, scale * size, 5, PARTS[name])
            if scale * size > 10:
                words(ax, x + scale * size / 2, y + 2.5, f"{name}: {size:.0f}", ha="center", weight="bold")
            x += scale * size
        if stage == 1:
            words(ax, x + 0.8, y + 2.5, f"optimizer: {_state(1)['optimizer']:.1f}", weight="bold")
    return ax.figure


@steps(range(1, 4))
def padded(step: int) -> Figure:
    """A weight of two rows, laid in a line and padded with zeros, and cut for four ranks."""
    ax, letters = sheet(36, 26, (3.6, 2.6)), "abcdefghij"
    for place, letter in enumerate(letters):
        _cell(ax, 10.5 + 3 * (place % 5), 21.4 - 3.6 * (place // 5), 3, 3.6, FACES[7], letter)
    if step > 1:
        for place, letter in enumerate(letters + "00"):
            extra = place > 9
            rank = place // 3
            _cell(ax, 0.3 + 2.95 * place, 10.4, 2.95, 3.6, WHITE if extra else FACES[7], letter)
        words(ax, 35.6, 8.6, "padded", ha="right", weight="bold", colour=FAULT)
        canvas.arrow(ax, (18, 17.4), (18, 14.4))
    if step > 2:
        for place, letter in enumerate(letters + "00"):
            rank = place // 3
            _cell(ax, 0.3 + 9.1 * rank + 2.7 * (place % 3), 3, 2.7, 3.6, FACES[rank], letter)
        for rank in range(4):
            words(ax, 4.3 + 9.1 * rank, 1.2, f"rank {rank}", ha="center")
    return ax.figure


# Section 3: gather, use, free


def stage_2() -> Figure:
    """Backward goes from the last layer to the first, and only one layer's gradient is whole."""
    ax = sheet(36, 26, (3.6, 2.6))
    words(ax, 0.5, 24.4, "gradients in backward", weight="bold", size=BIG)
    for place, layer in enumerate((76, 77, 78, 79, 80)):
        y = 19.2 - 4 * place
        words(ax, 0.5, y + 1.5, f"layer {layer}", weight="bold")
        bar(ax, 9, y, 26, 3, "#F7F7F7", edgecolor=canvas.GREY, linewidth=0.6)
        if layer == 78:
            bar(ax, 9, y, 26, 3, canvas.GRADIENTS, "just finished: reduce-scatter", ink=INK)
        elif layer > 78:
            bar(ax, 9, y, 1, 3, canvas.GRADIENTS)
            words(ax, 11, y + 1.5, "only my shard is left")
        else:
            words(ax, 11, y + 1.5, "not yet")
    words(ax, 0.5, 1, f"but all {_state(2)['weights']:.0f} GB of weights stay whole", weight="bold",
          colour=canvas.WEIGHTS)
    return ax.figure


def one_layer_whole() -> list[Figure]:
    """The layers of a model as shards, of which the one that computes is whole, and then the next."""
    return [_one_layer_whole(layer) for layer in (16, 17, 18)]


def _one_layer_whole(whole: int) -> Figure:
    ax = sheet(65, 27, (6.5, 2.7))
    for place in range(28):
        x, layer = 1 + 2.25 * place, place + 4
        bar(ax, x, 7, 1.9, 17, PALE, edgecolor=canvas.GREY, linewidth=0.6)
        bar(ax, x, 7, 1.9, 17 if layer == whole else 1.6, canvas.WEIGHTS)
        if layer == whole:
            words(ax, x + 0.95, 25.6, f"layer {layer} computes: {LAYER:.1f} GB, borrowed", ha="center", weight="bold",
                  size=BIG)
    words(ax, 1, 4, "of each layer the rank keeps its shard,", weight="bold", colour=canvas.WEIGHTS)
    words(ax, 1, 1.2, "and the other 79 layers lie in memory and do nothing", weight="bold")
    return ax.figure


def fetched_again() -> Figure:
    """What plain data parallelism sends in a step, and where stage 3 fetches weights."""
    ax = sheet(36, 26, (3.6, 2.6))
    words(ax, 0.5, 23.6, "plain data parallelism", weight="bold", size=BIG)
    bar(ax, 0.5, 17, 11, 4, canvas.FORWARD, "forward", ink=INK)
    bar(ax, 12, 17, 14, 4, canvas.BACKWARD, "backward", ink=INK)
    bar(ax, 26.5, 17, 9, 4, SENT, "all-reduce")
    words(ax, 0.5, 12, "stage 3", weight="bold", size=BIG)
    for start, wide, colour in ((0.5, 11, canvas.FORWARD), (12, 14, canvas.BACKWARD)):
        bar(ax, start, 5, wide, 4, colour, "forward" if start < 1 else "backward", ink=INK)
        for place in range(int(wide // 1.8)):
            canvas.arrow(ax, (start + 0.9 + 1.8 * place, 1.4), (start + 0.9 + 1.8 * place, 4.8), colour=SENT, line=1.5)
    words(ax, 27, 3.4, "weights are\nfetched:\nhow much?", colour=SENT, weight="bold")
    return ax.figure


def passes() -> Figure:
    """The passes over the model's bytes of plain data parallelism and of stage 3."""
    ax = sheet(36, 26, (3.6, 2.6))
    rows = ((15.4, "plain data parallelism: 2 passes", ("reduce-scatter", "all-gather")),
            (3.4, "stage 3: 3 passes", ("gather", "gather", "reduce-scatter")))
    for y, name, parts in rows:
        words(ax, 0.5, y + 7, name, weight="bold", size=BIG)
        for place, part in enumerate(parts):
            bar(ax, 0.5 + 11.7 * place, y, 11.3, 5, SENT, part)
    words(ax, 0.5, 1.6, "for forward")
    words(ax, 12.2, 1.6, "for backward")
    words(ax, 23.9, 1.6, "of gradients")
    return ax.figure


def seven_moves() -> list[Figure]:
    """One layer on four ranks through a step: three moves of forward, and four of backward."""
    return [_seven_moves(step) for step in (2, 3, 4, 6, 7, 8)]


MOVES = (("shards", ""), ("1 gather", "whole"), ("2 compute", "tokens"), ("3 free", ""), ("4 gather", "whole"),
         ("5 gradient", "gradient"), ("6 reduce-\nscatter", "summed"), ("7 free", "end"))  # fmt: skip


def _seven_moves(shown: int) -> Figure:
    ax = sheet(65, 31, ACROSS)
    words(ax, 0.4, 29.6, "forward", weight="bold", size=BIG, colour="#1F7DB0")
    words(ax, 0.4, 13.6, "backward", weight="bold", size=BIG, colour="#9A5B00")
    for place, (name, kind) in enumerate(MOVES[:shown]):
        x, y = 2 + 16.4 * (place % 4), 16.4 if place < 4 else 0.4
        sends = name[0] in "146"
        if place % 4:
            canvas.arrow(ax, (x - 3, y + 4.6), (x - 0.6, y + 4.6), colour=SENT if sends else INK, line=3)
        look = {"colour": SENT if sends else INK, "weight": "bold"}
        middle = x + (5.9 if kind in ("tokens", "gradient", "summed", "end") else 3.4)
        words(ax, middle, y + (10.9 if "\n" not in name else 11.4), name, ha="center", **look)
        for rank in range(4):
            low = y + 6.9 - 2.3 * rank
            for part in range(4):
                own = part == rank
                whole = kind in ("whole", "tokens", "gradient") or kind == "summed"
                colour = FACES[part] if own or whole else WHITE
                _cell(ax, x + 1.7 * part, low, 1.7, 1.8, colour, linewidth=0.9 if own or whole else 0.3)
            if kind == "tokens":
                _cell(ax, x + 7.4, low, 5.2, 1.8, canvas.FORWARD, f"x{rank}→y{rank}", linewidth=0.5)
            if kind == "gradient":
                bar(ax, x + 7.4, low, 5.2, 1.8, canvas.BACKWARD, f"∂ of x{rank}", ink=INK)
            if kind in ("summed", "end"):
                bar(ax, x + 7.4 + 1.1 * rank, low, 1.1, 1.8, canvas.BACKWARD)
                bar(ax, x + 7.4, low, 4.4, 1.8, "none", edgecolor=INK, linewidth=0.5)
    return ax.figure


def own_tokens_whole_layer() -> Figure:
    """What each rank stores of a layer, and what it computes."""
    ax = sheet(36, 28, (3.6, 2.8))
    words(ax, 12.6, 26.2, "stores", weight="bold", ha="center", size=BIG)
    words(ax, 27.4, 26.2, "computes", weight="bold", ha="center", size=BIG)
    for rank in range(4):
        y = 19.4 - 5.6 * rank
        words(ax, 0.5, y + 1.9, f"rank {rank}", weight="bold")
        for part in range(4):
            own = part == rank
            _cell(ax, 8 + 2.3 * part, y, 2.3, 4, FACES[part] if own else WHITE, linewidth=0.9 if own else 0.3)
            _cell(ax, 26 + 2.3 * part, y, 2.3, 4, FACES[part])
        _cell(ax, 20.4, y, 4.4, 4, FACES[rank], "", hatch="..")
        words(ax, 25.4, y + 2, "·", ha="center", weight="bold")
    words(ax, 12.6, 0.8, "its quarter", ha="center")
    words(ax, 35.4, 0.8, "own tokens · the whole layer", ha="right")
    return ax.figure


def peak_now() -> Figure:
    """The peak on 256 GPUs, and that on 1,024, which nobody has counted yet."""
    return _peaks(told=False)


def peaks() -> Figure:
    """The peak on 256 GPUs and on 1,024: the shards shrink, and the borrowed layer does not."""
    return _peaks(told=True)


def _peaks(*, told: bool) -> Figure:
    ax, scale = sheet(36, 26, (3.6, 2.6)), 33 / (sum(_state().values()) + 2 * LAYER)
    for row, ranks in enumerate((256, 1024)):
        kept, x, y = sum(_state(3, ranks).values()), 0.5, 15 - 12 * row
        total = f"{kept + 2 * LAYER:.1f} GB" if told or not row else "? GB"
        words(ax, 0.5, y + 7, f"{ranks:,} GPUs: {total}", weight="bold", size=BIG)
        if not told:
            bar(ax, x, y, *((12, 5, "none") if row else (33, 5, FACES[2], "weights, gradients, optimizer")), ink=INK,
                 edgecolor=INK, linestyle="--" if row else "-")
            continue
        for name, size, colour in (("shards", kept, FACES[2]), ("layer", LAYER, canvas.WEIGHTS),
                                   ("gradient", LAYER, canvas.GRADIENTS)):
            wide = scale * size
            bar(ax, x, y, wide, 5, colour)
            words(ax, x + wide / 2, y + 2.5, f"{name}\n{size:.1f}", ha="center",
                  colour="white" if name == "layer" else INK)
            x += wide
    return ax.figure


# Section 4: backward


def graph_keeps() -> Figure:
    """A chain of units whose weights the graph keeps alive until backward."""
    ax = sheet(36, 24, (3.6, 2.4))
    words(ax, 0.5, 22, "after a normal forward", weight="bold", size=BIG)
    for place in range(4):
        x = 0.5 + 9 * place
        box(ax, x, 13, 7, 4.4, FACES[4], f"unit {place}")
        bar(ax, x, 4.6, 7, 5, canvas.WEIGHTS, "weight")
        line(ax, (x + 3.5, 9.6), (x + 3.5, 13), wide=3, colour=FAULT)
        if place:
            canvas.arrow(ax, (x - 1.9, 15.2), (x - 0.1, 15.2))
    words(ax, 18, 2.2, "the graph keeps every weight alive", ha="center", weight="bold", colour=FAULT)
    return ax.figure


def again() -> list[Figure]:
    """Backward: each unit is gathered, computed again from its kept input, and gone back through at once."""
    return [_again(unit) for unit in (3, 2, 1, 0)]


def _again(now: int) -> Figure:
    ax = sheet(36, 28, (3.6, 2.8))
    for unit in range(4):
        y = 21.6 - 6.4 * (3 - unit)
        words(ax, 0.3, y + 2, f"unit {unit}", weight="bold")
        bar(ax, 7, y + 0.2, 5.4, 3.8, canvas.FORWARD, "input", ink=INK)
        if unit == now:
            bar(ax, 14, y + 0.2, 9.4, 3.8, canvas.WEIGHTS, "weight")
            words(ax, 24.4, y + 2, "computed again,\nthen backward", weight="bold")
        else:
            bar(ax, 14, y + 0.2, 1, 3.8, canvas.WEIGHTS)
            if unit > now:
                bar(ax, 16, y + 0.2, 1, 3.8, canvas.GRADIENTS)
                words(ax, 18, y + 2, "done: a shard is left")
            else:
                words(ax, 16, y + 2, "its shard")
    words(ax, 0.3, 26.8 + 0.2, "forward kept each input", colour="#1F7DB0", weight="bold", va="center")
    return ax.figure


def baton() -> Figure:
    """A unit in backward: the gradient of y goes in, and those of x and of the weight come out."""
    ax = sheet(36, 26, (3.6, 2.6))
    box(ax, 11, 11, 14, 8, FACES[4], "y = x · weight", size=BIG, weight="bold")
    canvas.arrow(ax, (35.4, 15), (25.4, 15), colour=canvas.BACKWARD, line=5)
    canvas.arrow(ax, (10.8, 15), (0.8, 15), colour=canvas.BACKWARD, line=5)
    canvas.arrow(ax, (18, 10.8), (18, 5.6), colour=canvas.BACKWARD, line=5)
    words(ax, 30.6, 18, "gradient\nof y", ha="center", weight="bold")
    words(ax, 5.2, 18, "gradient\nof x", ha="center", weight="bold")
    words(ax, 5.2, 11.4, "to the unit\nbefore", ha="center")
    words(ax, 20, 8, "gradient of the weight", weight="bold")
    bar(ax, 9, 1, 18, 4.2, SENT, "reduce-scatter")
    words(ax, 18, 24, "one goes in, two come out", ha="center", weight="bold", size=BIG)
    return ax.figure


def ladder() -> list[Figure]:
    """What a rank of 256 holds of Llama-3-70B at each stage, beside the memory of its GPU, and what it sends."""
    return [_ladder(shown) for shown in range(2, 5)]


def _ladder(shown: int) -> Figure:
    ax, scale = sheet(65, 30, ACROSS), 42 / sum(_state(0).values())
    for stage in range(shown):
        x, y, total = 9, 20.6 - 6.6 * stage, sum(_state(stage).values())
        words(ax, 0.3, y + 2.3, f"stage {stage}", weight="bold")
        for name, size in _state(stage).items():
            bar(ax, x, y, scale * size, 4.6, PARTS[name])
            x += scale * size
        fits = total < CAPACITY
        words(ax, max(x, 9 + scale * CAPACITY) + 0.8, y + 2.3, f"{total:,.0f} GB" if not fits else f"{total:.1f} GB",
              weight="bold", size=BIG)
        for place in range(3 if stage == 3 else 2):
            bar(ax, 59.2 + 1.9 * place, y, 1.5, 4.6, SENT)
    line(ax, (9 + scale * CAPACITY, 0), (9 + scale * CAPACITY, 26.4), colour=FAULT, wide=3)
    words(ax, 9 + scale * CAPACITY, 28, "80 GB", ha="center", weight="bold", colour=FAULT)
    for x, (name, colour) in zip((17, 27, 38), PARTS.items(), strict=True):
        bar(ax, x, 27.2, 1.6, 1.6, colour)
        words(ax, x + 2.3, 28, name)
    words(ax, 64.8, 28, "passes", ha="right", weight="bold", colour=SENT)
    return ax.figure


# Section 5: hide the gathers


def prefetch() -> list[Figure]:
    """Three layers of which each is gathered when the one before is done, and then while that one computes."""
    return [_prefetch(shown) for shown in range(1, 3)]


def _prefetch(shown: int) -> Figure:
    ax, gather, compute = sheet(36, 28, (3.6, 2.8)), 4.6, 4.9
    for y, name, ahead in ((15.6, "gather, compute, gather, …", False), (1.6, "prefetching", True))[:shown]:
        words(ax, 0.5, y + 10, name, weight="bold", size=BIG)
        words(ax, 0.5, y + 5.8, "gather")
        words(ax, 0.5, y + 1.7, "layer")
        arrived = done = 7.0
        for layer in range(3):
            begin = arrived if ahead else done
            arrived = begin + gather
            start = max(arrived, done)
            bar(ax, begin, y + 4.2, gather - 0.2, 3.4, SENT, f"{layer + 1}")
            bar(ax, done, y, max(start - done - 0.1, 0), 3.4, IDLE)
            bar(ax, start, y, compute - 0.2, 3.4, canvas.COMPUTE, f"{layer + 1}")
            done = start + compute
    words(ax, 35.6, 25.6, "grey: the GPU waits", ha="right")
    return ax.figure


def enough_tokens() -> Figure:
    """The time of a gather, and that of computing a layer over the tokens on a GPU, which cross at about 1,200."""
    ax = axes()
    tokens = [0, 2400]
    ax.plot(tokens, [1e3 * _token() * count for count in tokens], color=canvas.COMPUTE, linewidth=3.5)
    ax.axhline(1e3 * _gather(), color=SENT, linewidth=3.5)
    meet = _gather() / _token()
    ax.plot(meet, 1e3 * _gather(), "o", color=INK, markersize=10)
    ax.vlines(meet, 0, 1e3 * _gather(), color=INK, linewidth=1, linestyle="--")
    words(ax, 60, 1e3 * _gather() + 0.45, f"gather: {1e3 * _gather():.2f} ms", colour=SENT, weight="bold", size=BIG)
    words(ax, 1330, 3.5, "compute:\n3.46 µs\na token", colour="#00735A", weight="bold", size=BIG, va="top")
    ax.set(xlim=(0, 2400), ylim=(0, 8.3), xticks=(0, round(meet, -2), 2400), yticks=(0, 4, 8))
    ax.set_xticklabels(["0", "1,200", "2,400"])
    ax.set_xlabel("tokens on a GPU", fontsize=LETTERS)
    ax.set_title("ms for a layer, forward", fontsize=LETTERS, loc="left")
    return ax.figure


def two_layers() -> Figure:
    """A layer of Llama-3-70B beside one of Llama-3-8B, as large as they are."""
    ax = sheet(36, 28, (3.6, 2.8))
    ax.set_aspect("equal")
    side = 21
    small = side * (layer_weights(SMALL) / layer_weights(LLAMA)) ** 0.5
    _cell(ax, 1, 1, side, side, FACES[0])
    words(ax, 1 + side / 2, 1 + side / 2, f"a layer of\nLlama-3-70B\n{LAYER:.2f} GB", ha="center", weight="bold",
          size=BIG)
    _cell(ax, 24.4, 1, small, small, FACES[2])
    words(ax, 24.4 + small / 2, 1 + small / 2, f"{2 * layer_weights(SMALL) / 1e9:.2f} GB", ha="center", weight="bold",
          size=BIG)
    words(ax, 24.4 + small / 2, small + 3.4, "Llama-3-8B", ha="center", weight="bold")
    words(ax, 1, 24.4, "about 1,200 tokens", weight="bold")
    words(ax, 24.4 + small / 2, small + 6.2, "? tokens", ha="center", weight="bold", size=BIG)
    return ax.figure


def both_shrink() -> Figure:
    """A gather and the computing of a token, for a layer of each model: both are 3.9 times as short."""
    ax = sheet(36, 28, (3.6, 2.8))
    for place, (shape, name) in enumerate(((LLAMA, "Llama-3-70B"), (SMALL, "Llama-3-8B"))):
        y = 16 - 14.4 * place
        words(ax, 0.5, y + 10.4, name, weight="bold", size=BIG)
        for low, size, most, told, colour in (
                (y + 4.6, _gather(shape), _gather(), f"gather {1e3 * _gather(shape):.2f} ms", SENT),
                (y, _token(shape), _token(), f"a token {1e6 * _token(shape):.2f} µs", canvas.COMPUTE)):
            wide = 34 * size / most
            bar(ax, 0.5, low, wide, 4, colour)
            words(ax, 1.4 if not place else wide + 1.3, low + 2, told, weight="bold", colour="white" if not place
                  else INK)
    return ax.figure


def into_a_machine() -> Figure:
    """A machine that fetches all but its own part of a layer through its ports, and what each letter counts."""
    ax = sheet(36, 28, (3.6, 2.8))
    frame(ax, 12.5, 0.6, 23, 26)
    words(ax, 24, 24.6, "one of N machines", ha="center", weight="bold")
    for place in range(8):
        y = 20.6 - 2.35 * place
        box(ax, 27, y, 7, 2, FACES[0], "GPU" if place in (0, 7) else "", size=LETTERS)
        line(ax, (0.5, y + 1), (26.8, y + 1), colour=canvas.NETWORK, wide=2, zorder=0.6)
    words(ax, 6, 24, "B bytes/s", ha="center", weight="bold", colour=canvas.NETWORK, size=BIG)
    _cell(ax, 15, 9, 9, 9, FACES[4], "n\nweights")
    bar(ax, 15, 9, 9, 1.2, canvas.WEIGHTS)
    words(ax, 19.5, 6.6, "1 / N is here", ha="center", bbox={"facecolor": PALE, "edgecolor": "none", "pad": 1})
    words(ax, 24, 2.4, "each GPU: F FLOP/s, T tokens", ha="center", weight="bold")
    return ax.figure


def tokens_left() -> Figure:
    """The tokens of Llama 3 405B's batch on each GPU, the more GPUs there are, and how many hide a gather."""
    ax, batch = sheet(36, 28, (3.6, 2.8)), 2**24
    counts = (2048, 4096, 8192, 16384)
    need = _gather() / _token()
    scale = 20 / (batch / counts[0])
    for place, count in enumerate(counts):
        x, each = 1 + 9 * place, batch / count
        few = each < need
        bar(ax, x, 4, 7, scale * each, FAULT if few else canvas.COMPUTE)
        words(ax, x + 3.5, 4 + scale * each + (3.2 if few else 1.4), f"{each:,.0f}", ha="center",
              weight="bold", size=BIG, colour=FAULT if few else INK)
        words(ax, x + 3.5, 2, f"{count:,}", ha="center")
    line(ax, (0, 4 + scale * need), (36, 4 + scale * need), wide=2.5, colour=SENT, linestyle="--")
    words(ax, 35.6, 19, "pink: what hides\na gather, 1,200", ha="right", weight="bold", colour=SENT)
    words(ax, 35.6, 26.4, "tokens on each GPU", ha="right", weight="bold")
    words(ax, 1, 0.2, "GPUs")
    return ax.figure


# Section 6: fully_shard


def three_lines() -> Figure:
    """PyTorch's three lines, and the model that they cut into units."""
    ax = sheet(36, 30)
    for y, line in ((28, "for layer in model.layers:"), (25.4, "    fully_shard(layer)"), (22.8, "fully_shard(model)")):
        words(ax, 0.5, y, line, weight="bold", **MONO)
    _model(ax)
    return ax.figure


def _model(ax: Axes) -> None:
    """Draw a model from its embedding to its output, each layer a unit, and the rest the root."""
    names = ("embedding", "layer 1", "layer 2", "…", "layer 32", "norm, output")
    for place, name in enumerate(names):
        y = 16 - 3.1 * place
        ours = place in (0, 5)
        box(ax, 1, y, 14, 2.6, FACES[3] if ours else FACES[0], name)
        if not ours and name != "…":
            words(ax, 16.4, y + 1.3, "a unit", weight="bold", colour=canvas.WEIGHTS)
    for place in (0, 5):
        y = 17.3 - 3.1 * place
        line(ax, (15.2, y), (24.4, y), (24.4, 9.6), colour=FAULT, wide=2)
    words(ax, 25.2, 9.6, "what is left:\nthe root unit", weight="bold", colour=FAULT)


def model_in_units() -> Figure:
    """A model from its embedding to its output, of which each layer is a unit, and the rest is the root."""
    ax = sheet(36, 20, (3.6, 2.0))
    _model(ax)
    return ax.figure


def root_too() -> Figure:
    """The weights that are whole while a layer of Llama-3-8B computes."""
    layer, matrix = 2 * layer_weights(SMALL) / 1e9, 2 * SMALL.vocabulary * SMALL.hidden / 1e9
    return bars(["the layer that computes", "the root: embedding", "the root: output matrix"],
                [layer, matrix, matrix], [f"{layer:.2f} GB", f"{matrix:.2f} GB", f"{matrix:.2f} GB"],
                [canvas.WEIGHTS, FAULT, FAULT], (3.6, 2.7))


def first_and_last() -> list[Figure]:
    """When the parts of the root are used: first and last in forward, and first and last in backward."""
    return [_first_and_last(step) for step in range(1, 4)]


def _first_and_last(step: int) -> Figure:
    ax = sheet(65, 26, (6.5, 2.6))
    for start, name, parts, colour in (
            (0.5, "forward", ("embedding", *range(1, 6), "output"), canvas.FORWARD),
            (33, "backward", ("output", *range(5, 0, -1), "embedding"), canvas.BACKWARD))[:min(step, 2)]:
        words(ax, start, 23.8, name, weight="bold", size=BIG)
        x = start
        for part in parts:
            root = isinstance(part, str)
            wide = 8.6 if root else 2.8
            bar(ax, x, 15, wide - 0.2, 6, FACES[3] if root else colour, f"{part}", ink=INK,
                 edgecolor=FAULT if root else "none", linewidth=1.5)
            x += wide
    if step == 3:
        bar(ax, 0.5, 7.6, 63.7, 4.4, FAULT, "root: whole from the first moment to the last", size=BIG)
        for place in range(5):
            for start, mirrored in ((9.1, place), (41.6, 4 - place)):
                bar(ax, start + 2.8 * place, 2.6, 2.6, 3.4, canvas.WEIGHTS, f"{mirrored + 1}")
        words(ax, 64.2, 1, "a layer: whole only while it computes", weight="bold", colour=canvas.WEIGHTS, ha="right")
    return ax.figure


@steps(range(1, 3))
def comb(step: int) -> Figure:
    """What a profiler shows of FSDP: a gather before each layer, and in backward a reduce-scatter after it."""
    ax = sheet(65, 25, (6.5, 2.5))
    words(ax, 0.5, 23.4, "forward", weight="bold", size=BIG)
    for place in range(4):
        x = 0.5 + 16 * place
        bar(ax, x, 14.6, 5.6, 6.4, SENT, "gather")
        bar(ax, x + 5.8, 14.6, 9.8, 6.4, canvas.COMPUTE, f"layer {place + 1}")
    if step > 1:
        words(ax, 0.5, 10.6, "backward", weight="bold", size=BIG)
        for place in range(2):
            x = 0.5 + 32 * place
            bar(ax, x, 1.8, 5.6, 6.4, SENT, "gather")
            bar(ax, x + 5.8, 1.8, 14.4, 6.4, canvas.BACKWARD, f"layer {4 - place}", ink=INK)
            bar(ax, x + 20.4, 1.8, 11.2, 6.4, SENT, "reduce-scatter")
    return ax.figure


# Section 7: what fits


def _moments(stage: int = 3) -> dict[str, float]:
    plan = training_memory(LLAMA, 1, 8192, recompute="full", flash=True, zero=stage, dp=256)
    return {name: size / 1e9 for name, size in plan.moments[plan.peak_moment].items()}


def room_left() -> Figure:
    """A GPU of 80 GB with its shards of weights and optimizer's state."""
    ax, state = sheet(36, 20, (3.6, 2.0)), _moments()
    kept = state["weights"] + state["optimizer"]
    words(ax, 0.5, 17.6, "one H100: 80 GB", weight="bold", size=BIG)
    bar(ax, 0.5, 7.4, 34.4, 8, PALE, edgecolor=INK)
    bar(ax, 0.5, 7.4, 34.4 * kept / CAPACITY, 8, canvas.OPTIMIZER)
    words(ax, 0.5, 4.6, f"{kept:.1f} GB: its shards", weight="bold")
    words(ax, 18.5, 11.4, "and its own tokens?", ha="center", weight="bold", size=BIG)
    return ax.figure


def own_tensors() -> Figure:
    """The tensors that belong to a GPU's own tokens, each as wide and high as its numbers are many."""
    ax, wide = sheet(36, 30), 26 / 128256
    words(ax, 0.5, 28.6, "activations: 82 inputs", weight="bold")
    for place in range(12):
        _cell(ax, 0.5 + 0.9 * place, 23 - 0.1 * place, wide * 8192, 4.2, canvas.FORWARD)
    words(ax, 14, 24.6, "… each 8,192 × 8,192")
    words(ax, 0.5, 18.6, "logits", weight="bold")
    _cell(ax, 0.5, 13, 26, 4.2, FACES[4], "8,192 × 128,256 words", hatch="")
    words(ax, 0.5, 10.2, "working: two gradients, the output matrix", weight="bold")
    for place in range(2):
        _cell(ax, 0.5, 5 - 4.6 * place, 26, 4.2, canvas.BACKWARD, "8,192 × 128,256")
    _cell(ax, 28, 0.4, 7, 8.8, FACES[0], "matrix")
    return ax.figure


def at_the_loss() -> Figure:
    """What a GPU holds at the loss, from its shards to working memory, beside its 80 GB."""
    ax, held = sheet(36, 28, (3.6, 2.8)), _moments()
    rows = (("shards", held["weights"] + held["optimizer"], canvas.OPTIMIZER),
            ("activations", held["activations"], canvas.ACTIVATIONS), ("logits", held["logits"], FACES[4]),
            ("working", held["working"], canvas.GREY))
    left = 0.5
    scale = 34 / sum(size for _, size, _ in rows)
    for place, (name, size, colour) in enumerate(rows):
        y = 20.4 - 5.6 * place
        bar(ax, left, y, scale * size, 4.4, colour, edgecolor=INK, linewidth=0.6)
        ahead = left > 14
        words(ax, left - 0.8 if ahead else left + scale * size + 0.8, y + 2.2, f"{name}: {size:.1f}", weight="bold",
              ha="right" if ahead else "left")
        left += scale * size
    words(ax, 35, 26.6, f"together {sum(held.values()):.1f} of 80 GB", ha="right", weight="bold", size=BIG)
    return ax.figure


def sixteen_times() -> Figure:
    """The memory of a real model on 8 and on 128 GPUs, as measured, and what of it are shards."""
    ax = sheet(36, 26, (3.6, 2.6))
    for row, (ranks, measured) in enumerate(((8, 82.4), (128, 67.0))):
        y, shards = 15 - 12 * row, 16 * parameter_count(SMALL) / ranks / 2**30
        words(ax, 0.5, y + 7, f"{ranks} GPUs: {measured:.1f} GiB", weight="bold", size=BIG)
        bar(ax, 0.5, y, 0.41 * shards, 5, canvas.OPTIMIZER)
        bar(ax, 0.5 + 0.41 * shards, y, 0.41 * (measured - shards), 5, canvas.ACTIVATIONS)
        words(ax, 3 if row else 9, y + 2.5, "its own tokens, working memory", weight="bold")
        told = f"shards: {shards:.1f}" if row else f"shards:\n{shards:.0f}"
        words(ax, *((0.5, y - 1.8) if row else (0.9, y + 2.5)), told)
    return ax.figure


@steps(range(1, 3))
def vocabulary_half(step: int) -> Figure:
    """The part of a GPU's memory at the loss that belongs to the vocabulary, and then what a chunked loss leaves."""
    ax, held = sheet(36, 28, (3.6, 2.8)), _moments()
    words_of_it = held["logits"] + held["working"]
    rest, scale = sum(held.values()) - words_of_it, 34 / sum(held.values())
    words(ax, 0.5, 25.6, "at the loss", weight="bold", size=BIG)
    bar(ax, 0.5, 17, scale * rest, 6, canvas.ACTIVATIONS, f"the rest: {rest:.1f}", ink=INK)
    bar(ax, 0.5 + scale * rest, 17, scale * words_of_it, 6, canvas.GREY, f"vocabulary: {words_of_it:.1f}", ink=INK)
    if step > 1:
        words(ax, 0.5, 11.6, "chunked: a few tokens at a time", weight="bold", size=BIG)
        bar(ax, 0.5, 3, scale * rest, 6, canvas.ACTIVATIONS, "the rest", ink=INK)
        for place in range(8):
            x = 0.5 + scale * rest + scale * words_of_it / 8 * place
            bar(ax, x + 0.1, 3, scale * words_of_it / 8 - 0.2, 6, canvas.GREY if not place else "none",
                 edgecolor=canvas.GREY, linestyle="-" if not place else "--")
    return ax.figure


def what_to_take() -> list[Figure]:
    """Five ways to train, from small models to the largest, each with the reason to take it."""
    return [_what_to_take(shown) for shown in range(1, 6)]


def _what_to_take(shown: int) -> Figure:
    ax = sheet(65, 30, ACROSS)
    rows = (("plain data parallelism", "small models"), ("ZeRO-1", "from then on: no extra traffic"),
            ("FSDP", "when the model no longer fits, with many tokens"),
            ("tensor parallelism", "inside a machine, when activations are too large"),
            ("pipelines", "across machines, for the largest: they send little"))
    for place, (name, told) in enumerate(rows[:shown]):
        y = 24.4 - 5.9 * place
        bar(ax, 0.5, y, 20.5, 4.6, FACES[place], name, ink=INK)
        words(ax, 22.4, y + 2.3, told, size=BIG)
    return ax.figure
