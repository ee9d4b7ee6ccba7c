"""Pictures that only the slides of chapter 11 have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from kit import BIG, LETTERS, PALE, bar, bars, box, frame, line, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.costs import combine_bytes, expert_bytes, experts_per_rank
from course_lib.hardware import DGX_H100, H100
from course_lib.lessons.wide_groups import DEEPEP, room_and_step
from course_lib.models import MODELS, active_parameters, parameter_count, parameters_by_part
from course_lib.plots import canvas, uneven_pieces

WHITE, GREY, FACES, FAULT, CACHES = "#FFFFFF", canvas.GREY, canvas.FACES, canvas.LIMIT, canvas.ACTIVATIONS
COMPUTE, SENT, WAITING, WEIGHTS, GOOD = canvas.COMPUTE, canvas.COLLECTIVE, canvas.WAITING, canvas.WEIGHTS, "#00704F"
V3, LLAMA = MODELS["DeepSeek-V3"], MODELS["Llama-3-70B"]
ALL, MEMORY, PORT = parameter_count(V3) / 1e9, H100.memory / 1e9, DGX_H100.nic.bandwidth
USED = (active_parameters(V3) - parameters_by_part(V3)["token embedding"]) / 1e9  # as DeepSeek's paper counts
SENDS = V3.moe_layers * combine_bytes(V3)  # bytes of a token's rows
CHOSEN = torch.rand(128, 256, generator=torch.Generator().manual_seed(9)).topk(8).indices  # the chapter's draw
FAIR = torch.rand(2048, 256, generator=torch.Generator().manual_seed(6)).topk(8).indices  # and that of the seats
SCORES, LOADS, SEATS = (0.14, 0.45, 0.07, 0.03, 0.25, 0.06), (3, 6, 4, 3), 4
TOKENS, RANKS, EXPERTS = 2048, 4, 16  # of the layer with a hot expert: tokens of a rank
GROUPS = {row.ranks: room_and_step(V3, H100, row, context=5000) for row in DEEPEP}  # requests, seconds of a step


def head(ax: Axes, x: float, y: float, text: str, **look) -> None:
    """Write what a part of a picture is about."""
    words(ax, x, y, text, **{"weight": "bold", "size": BIG} | look)


def unknown(ax: Axes, x: float, y: float, text: str = "?", size: float = 26) -> None:
    """Write what is to be guessed."""
    ground = {"facecolor": WHITE, "edgecolor": "none", "pad": 2}
    head(ax, x, y, text, ha="center", colour=FAULT, size=size, bbox=ground, zorder=6)


def asked(names: Sequence[str], label: str, colours: Sequence[str], name: str, told: str) -> Figure:
    """Return two equal bars, and below them what is to be guessed."""
    figure = bars((*names, name), (1, 1, 0), (label, label, ""), (*colours, WHITE))
    unknown(figure.axes[0], 0.13, 0.28, told)
    return figure


def grid(ax: Axes, x: float, top: float, across: int, colours: Iterable[str], pitch: float) -> None:
    """Draw small squares, so many in a row, from the top left corner on."""
    for place, colour in enumerate(colours):
        left, low = x + pitch * (place % across), top - pitch * (place // across + 1)
        bar(ax, left, low, 0.84 * pitch, 0.84 * pitch, colour)


def columns(ax: Axes, x: float, y: float, heights: Sequence[float], colours: Sequence[str], pitch: float,
            names: Iterable = ()) -> None:  # fmt: skip
    """Draw columns on a line, with names below it."""
    line(ax, (x - 0.2, y), (x + pitch * len(heights), y), wide=1)
    for place, (height, colour) in enumerate(zip(heights, colours, strict=True)):
        bar(ax, x + pitch * place, y, 0.8 * pitch, height, colour)
    for place, name in enumerate(names):
        words(ax, x + pitch * (place + 0.4), y - 1.5, str(name), ha="center")


def stack(ax: Axes, x: float, y: float, high: float, parts: Iterable[tuple[float, str, str]]) -> None:
    """Draw bars one behind the other, each with its width, colour and words."""
    for wide, colour, text in parts:
        bar(ax, x, y, wide, high, colour, text, edgecolor=WHITE)
        x += wide


def routed(names: Sequence[str], title: str) -> Axes:
    """Return a sheet with a token, a router, and six experts of which two are chosen."""
    ax = sheet(36, 30)
    head(ax, 2, 28.6, title)
    box(ax, 2, 11, 6.4, 5, FACES[0], "token")
    box(ax, 10.6, 11, 6.8, 5, WHITE, "router")
    canvas.arrow(ax, (8.5, 13.5), (10.5, 13.5), line=2)
    for place, name in enumerate(names):
        y, chosen = 22.4 - 4.4 * place, place in (1, 4)
        box(ax, 22.4, y, 11.6, 3.6, FACES[2] if chosen else WHITE, name, weight="bold" if chosen else "normal")
        canvas.arrow(ax, (17.5, 13.5), (22.2, y + 1.8), "-|>" if chosen else "-", line=2.6 if chosen else 0.8)
    return ax


# The question: few parameters at work, and all in memory


def layer_of(tokens: int, working: Iterable[int], colour: str, told: str) -> Axes:
    """Return a sheet with tokens and the 256 experts of a layer, of which some work."""
    ax, working = sheet(36, 30), set(working)
    head(ax, 0.4, 28.4, f"{tokens} token" + "s" * (tokens > 1))
    grid(ax, 0.4 if tokens > 1 else 3, 22 if tokens > 1 else 16.2, 8, [canvas.BLUE] * tokens, 1 if tokens > 1 else 4)
    canvas.arrow(ax, (8.8, 14.2), (12.2, 14.2), line=3)
    head(ax, 12.6, 28.4, "256 experts of a layer")
    grid(ax, 12.6, 26.4, 16, [COMPUTE if one in working else colour for one in range(256)], 1.45)
    words(ax, 24.2, 1.2, told, ha="center", weight="bold", colour=GOOD)
    return ax


def eight_of_256() -> Figure:
    """One token and the eight experts of a layer that it needs."""
    return layer_of(1, CHOSEN[0].tolist(), WAITING, "it needs 8 of them").figure


def a_batch_comes() -> Figure:
    """128 tokens, and the question how many of the experts they need."""
    ax = layer_of(128, (), PALE, "")
    unknown(ax, 24.2, 14.8, "? %")
    return ax.figure


def nearly_all() -> Figure:
    """128 tokens, and the experts that they need."""
    working = CHOSEN.unique().tolist()
    return layer_of(128, working, WAITING, f"{len(working)} work, and {256 - len(working)} are idle").figure


@steps(range(1, 4))
def do_not_fit(step: int) -> Figure:
    """The memory of eight GPUs, the model that does not fit, and how little of it works for a token."""
    ax, one = sheet(65, 28, (6.5, 2.8)), 62 / ALL
    head(ax, 0.4, 26.6, f"eight H100s: {8 * MEMORY:.0f} GB")
    stack(ax, 0.4, 20.6, 4.4, [(MEMORY * one, FACES[1], f"{MEMORY:.0f}")] * 8)
    if step > 1:
        head(ax, 0.4, 17.6, f"DeepSeek-V3, one byte for each parameter: {ALL:.0f} GB")
        stack(ax, 0.4, 11.6, 4.4, [(8 * MEMORY * one, WEIGHTS, ""), ((ALL - 8 * MEMORY) * one, FAULT, "")])
        words(ax, 62.4, 9.8, "too much", ha="right", weight="bold", colour=FAULT)
    if step > 2:
        head(ax, 0.4, 8.4, "at work for one token")
        for y, size, colour, told in ((3.8, USED, COMPUTE, f"DeepSeek-V3: {USED:.0f} billion parameters"),
                                      (0.2, parameter_count(LLAMA) / 1e9, GREY, "Llama-3-70B: all of them")):
            bar(ax, 0.4, y, size * one, 2.8, colour)
            words(ax, 1.2 + size * one, y + 1.4, told)
    return ax.figure


def mostly_mlps() -> Figure:
    """The parameters of a dense model, part by part."""
    parts = {name: count / 1e9 for name, count in parameters_by_part(LLAMA).items()}
    sizes = parts["mlp"], parts["attention"], parts["token embedding"] + parts["head"]
    return bars(("Llama-3-70B: its MLPs", "attention", "embedding and head"), sizes,
                [f"{size:.0f} billion" for size in sizes], (WEIGHTS, GREY, GREY))


def two_highest() -> Figure:
    """The scores that a router gives a token, and the two experts that it goes to."""
    return routed([f"score {score}" for score in SCORES], f"E = {len(SCORES)} experts, k = 2").figure


def four_of_295() -> Figure:
    """The tokens that a GPU could compute while it reads an expert, and the four that come."""
    ax, could = sheet(36, 30), round(H100.peak("fp8") / (2 * H100.memory_bandwidth))
    come = 128 * V3.experts_per_token // V3.experts
    head(ax, 0.4, 28.4, f"room for {could} tokens")
    grid(ax, 0.4, 26.6, 20, [COMPUTE if place < come else WAITING for place in range(could)], 1.55)
    head(ax, 0.4, 1.4, f"green: the {come} tokens that come", colour=GOOD)
    return ax.figure


# Section 2: a router chooses


def yes_or_no() -> Figure:
    """A router's choice, through which no gradient comes back."""
    ax = routed([("no", "yes")[place in (1, 4)] for place in range(6)], "a choice: yes or no")
    canvas.arrow(ax, (22.2, 5.2), (13.8, 10.8), line=3, colour=canvas.BACKWARD, bend=-0.35)
    unknown(ax, 15.8, 6.2, "×", 24)
    head(ax, 2, 2.6, "no gradient", colour=FAULT)
    return ax.figure


@steps(range(1, 4))
def seats(step: int) -> Figure:
    """Four experts with four seats each, the pairs that come, and those that find no seat."""
    ax, lost = sheet(36, 30), sum(max(load - SEATS, 0) for load in LOADS)
    for expert, load in enumerate(LOADS):
        y = 24.6 - 6 * expert
        words(ax, 0, y + 2.1, f"expert {expert}")
        for seat in range(SEATS):
            frame(ax, 8.6 + 4.5 * seat, y, 4, 4.2)
        for pair in range(load * (step > 1)):
            late = pair >= SEATS and step > 2
            box(ax, 9.1 + 4.5 * pair, y + 0.5, 3, 3.2, FAULT if late else FACES[expert], "×" * late, size=BIG)
    head(ax, 0, 2.6, (f"capacity: {SEATS} seats", f"{sum(LOADS)} pairs for {4 * SEATS} seats",
                      f"{lost} dropped, {lost} seats stay empty")[step - 1])
    return ax.figure


def as_many_seats() -> Figure:
    """As many pairs as seats, and the question how many are dropped."""
    return asked(("pairs: 2,048 tokens · 8 experts", "seats: 256 experts · 64"), f"{256 * 64:,}", (FACES[0], WAITING),
                 "dropped", "? %")


def over_64() -> Figure:
    """The loads of the first 16 experts in the chapter's draw: what is above 64 seats is dropped."""
    ax, scale = sheet(36, 30), 18 / 64
    loads = torch.bincount(FAIR.flatten(), minlength=256)[:16].tolist()
    for place, load in enumerate(loads):
        x = 0.4 + 2.2 * place
        bar(ax, x, 3.4, 1.8, scale * min(load, 64), FACES[0])
        if load > 64:
            bar(ax, x, 3.4 + scale * 64, 1.8, scale * (load - 64), FAULT)
    line(ax, (0, 3.4 + scale * 64), (35.6, 3.4 + scale * 64), wide=2)
    lost = sum(max(load - 64, 0) for load in loads)
    head(ax, 0.4, 28.2, f"{lost} of {sum(loads):,} pairs find no seat", colour=FAULT)
    words(ax, 0.4, 1.4, "loads of 16 of the experts; line: 64 seats")
    return ax.figure


# Sections 3 and 4: there and back


def unknown_pieces() -> Figure:
    """Four ranks with rows for rank 2, which does not know how many come."""
    ax = sheet(36, 30)
    head(ax, 0.4, 28.4, "rows for rank 2")
    for rank, count in enumerate((2, 1, 3, 2)):
        y = 20.4 - 6.4 * rank
        box(ax, 0.4, y, 7, 4.6, FACES[rank], f"rank {rank}")
        grid(ax, 8.6, y + 4.1, 3, [FACES[rank]] * count, 3.4)
        canvas.arrow(ax, (19, y + 2.3), (24.4, 13.6), colour=SENT, line=2.6)
    box(ax, 24.6, 4, 11, 20, WHITE, "rank 2:\nhow many\ncome?", size=BIG, weight="bold")
    return ax.figure


@steps(range(1, 5))
def sort_send_regroup(step: int) -> Figure:
    """The chapter's picture of a dispatch, column by column and with larger letters."""
    ax = uneven_pieces(sheet(40, 19.6, (6.5, 3.0)))
    ax.set_title("", loc="left")
    end = (9, 20, 31, 40)[step - 1]
    for box_of_row in ax.patches:
        box_of_row.set_visible(box_of_row.get_x() < end)
    for text in ax.texts:
        text.set(fontsize=LETTERS, visible=getattr(text, "xy", text.get_position())[0] < end)  # an arrow's xy: its end
    return ax.figure


def by_one_port() -> Figure:
    """What leaves by a GPU's port for each of its tokens, and the question how long that takes."""
    return asked(("rows of a token", "results for another rank's token"), f"{SENDS / 1e6:.2f} MB", (SENT, SENT),
                 f"by a port of {PORT / 1e9:.0f} GB/s", "? ms")


def trip_and_work() -> Figure:
    """The times that the trips of a token take, and its computing."""
    took = 2e3 * SENDS / PORT, 2e12 * round(USED) / (0.4 * H100.peak("bf16"))
    return bars(("all its trips", "computing it"), took, [f"{ms:.2f} ms" for ms in took], (SENT, COMPUTE))


def whole_layer() -> Figure:
    """The parts of a layer on two ranks: two of them are all-to-alls."""
    ax = sheet(36, 30)
    for place, name in enumerate(("router", "dispatch", "experts", "combine", "weighted sum")):
        y, sends = 24.8 - 6 * place, name in ("dispatch", "combine")
        if sends:
            bar(ax, 0.4, y, 35.2, 4, SENT, f"{name}: an all-to-all")
        for rank, x in enumerate((0.4, 18.6)):
            if not sends:
                box(ax, x, y, 17, 4, FACES[rank], f"rank {rank}: {name}")
            if place < 4:
                canvas.arrow(ax, (x + 8.5, y - 0.1), (x + 8.5, y - 1.9), line=2)
    return ax.figure


@steps(range(1, 3))
def whose_gradient(step: int) -> Figure:
    """Whose tokens the gradients of a router and of experts come from, on four ranks."""
    ax = sheet(36, 30)
    head(ax, 0.4, 28.4, "gradients of the router")
    bar(ax, 0.4, 16.4, 35.2, 3.6, SENT, "all-reduce")
    for rank in range(RANKS):
        bar(ax, 0.4 + 9 * rank, 21, 8.2, 5, FACES[rank], f"rank {rank}")
        if step > 1:
            stack(ax, 0.4 + 9 * rank, 4.4, 5, [(2.05, colour, "") for colour in FACES[:RANKS]])
    if step > 1:
        head(ax, 0.4, 11.8, "gradients of four experts")
        head(ax, 0.4, 1.8, "each from all ranks: complete", colour=GOOD)
    return ax.figure


def which_mean() -> Figure:
    """The tokens of one device and of four ranks, each with its mean, and the question of an expert's gradient."""
    ax = sheet(36, 30)
    head(ax, 0.4, 28.4, "one device: the mean of 64 tokens")
    grid(ax, 0.4, 26.8, 32, [FACES[token // 16] for token in range(64)], 1.1)
    head(ax, 0.4, 20.4, "four ranks: each the mean of 16")
    for rank in range(RANKS):
        grid(ax, 0.4, 18.8 - 2 * rank, 16, [FACES[rank]] * 16, 1.1)
    head(ax, 0.4, 7.4, "the expert's gradient is")
    unknown(ax, 17, 3, "? times as large", 20)
    return ax.figure


def a_quarter() -> Figure:
    """How much a token counts in a gradient of one device, of the router and of an expert."""
    return bars(("one device", "router, averaged over 4 ranks", "expert, which nobody divides"), (1, 1, 4),
                ("a token counts 1/64", "a token counts 1/64", "a token counts 1/16"), (canvas.BLUE, COMPUTE, FAULT))


# Sections 5 and 6: a hot expert, and an even load


def two_loads(rows: Iterable[tuple], pitch: float) -> Axes:
    """Return a sheet with two rows of columns; a row is its title, heights, colours and names."""
    ax = sheet(36, 30)
    for y, (told, heights, colours, names) in zip((18.6, 2.8), rows, strict=True):
        head(ax, 36, y + 10, told, ha="right")
        columns(ax, 0.4, y, heights, colours, pitch, names)
    return ax


def two_days() -> Figure:
    """The rows of 16 experts with a fair router, and when every token goes to expert 0."""
    hot = [9, *[9 / (EXPERTS - 1)] * (EXPERTS - 1)]
    colours = [FACES[expert // 4] for expert in range(EXPERTS)]
    return two_loads((("yesterday: rows of 16 experts", [18 / EXPERTS] * EXPERTS, colours, range(EXPERTS)),
                      ("today: half of them go to expert 0", hot, colours, range(EXPERTS))), 2.2).figure


def computed(today: Sequence[int]) -> Axes:
    """Return a sheet with the rows of one rank's tokens that each rank computes, yesterday and today."""
    days = ("yesterday: rows for ranks 0 to 3", [2 * TOKENS // RANKS] * RANKS), ("today", today)
    names = [[f"{rank}: {row:,}" if row else rank for rank, row in enumerate(day)] for _, day in days]
    return two_loads([(told, [row / 256 for row in day], FACES[:RANKS], name)
                      for (told, day), name in zip(days, names, strict=True)], 9)


def hot_layer() -> Figure:
    """What each rank computes with a fair router, and the question of the hot expert."""
    ax = computed([0] * RANKS)
    unknown(ax, 18, 8)
    return ax.figure


def rank_0s_rows() -> Figure:
    """What each rank computes with a fair router, and with a hot expert on rank 0."""
    second = [round(TOKENS * (4 - (rank == 0)) / (EXPERTS - 1)) for rank in range(RANKS)]
    return computed([second[0] + TOKENS, *second[1:]]).figure


def fair_by_itself() -> Figure:
    """Two loads of 16 experts that training may end with."""
    even, few = [4] * EXPERTS, [9 if expert in (2, 9) else 0.3 for expert in range(EXPERTS)]
    return two_loads((("after 600 steps: like this?", even, [canvas.BLUE] * EXPERTS, ()),
                      ("or like this?", few, [canvas.BLUE] * EXPERTS, ())), 2.2).figure


@steps(range(1, 4))
def three_ways(step: int) -> Figure:
    """The scores of four experts, and what acts on them: nothing, an auxiliary loss, a bias."""
    ax, scores = sheet(65, 29, (6.5, 2.9)), (5, 12, 6, 4)
    told = "expert 1 is crowded", "training lowers its score", "it moves the choice only"
    for place, name in enumerate(("scores, no balancing", "auxiliary loss", "bias")[:step]):
        x = 0.6 + 22.4 * place
        head(ax, x, 27.8, name)
        columns(ax, x, 6, scores, [FACES[expert == 1] for expert in range(4)], 4.6, range(4))
        words(ax, x, 1.4, told[place])
        if place == 1:
            canvas.arrow(ax, (x + 6.4, 25), (x + 6.4, 15), line=4, colour=canvas.BACKWARD)
        for expert, score in enumerate(scores * (place == 2)):
            low, sign = (15, "−") if expert == 1 else (6 + score, "+")
            bar(ax, x + 4.6 * expert, low, 3.7, 3, WHITE, sign, size=18, edgecolor=canvas.INK)
    return ax.figure


# Section 7: how wide a group


def groups() -> Figure:
    """The GPUs of three groups, machine by machine, and the experts that each of them holds."""
    ax = sheet(36, 30)
    for x, ranks in ((0.4, 16), (12.8, 32), (25.2, 64)):
        head(ax, x, 28.4, f"EP{ranks}")
        grid(ax, x, 26.4, 8, [FACES[1]] * ranks, 1.3)
        words(ax, x, 14.6, f"{experts_per_rank(V3, ranks)} experts\non a GPU", va="top")
    head(ax, 0.4, 6, "a row: a machine of eight GPUs")
    return ax.figure


@steps(range(1, 4))
def room(step: int) -> Figure:
    """What a GPU of 80 GB holds in three groups."""
    ax, one, other = sheet(65, 29, (6.5, 2.9)), 64 / MEMORY, ALL - expert_bytes(V3, width=1) / 1e9
    for place, ranks in enumerate((16, 32, 64)[:step]):
        y, held = 19.4 - 9.4 * place, expert_bytes(V3, ranks, width=1) / 1e9
        head(ax, 0.4, y + 7.4, f"EP{ranks}: {GROUPS[ranks][0]} requests fit into 80 GB")
        parts = (other, GREY, "all else"), (held, WEIGHTS, "experts"), (MEMORY - other - held, CACHES, "caches")
        stack(ax, 0.4, y, 5.4, [(size * one, colour, f"{name}: {size:.1f}" if size > 12 else f"{size:.1f}")
                                for size, colour, name in parts])
    return ax.figure


def another_step() -> Figure:
    """What a step of EP16 consists of, and the question of EP64's."""
    return _steps(told=False)


def both_steps() -> Figure:
    """What a step of EP16 and one of EP64 consist of."""
    return _steps(told=True)


def _steps(*, told: bool) -> Figure:
    ax, scale, colours = sheet(36, 30), 34.8 / sum(GROUPS[64][1].values()), (WEIGHTS, CACHES, SENT)
    for y, ranks in ((27.6, 16), (15.2, 64)):
        requests, parts = GROUPS[ranks]
        shown = told or ranks == 16
        head(ax, 0.4, y, f"EP{ranks}, {requests} requests: " + (f"{1e3 * sum(parts.values()):.1f} ms" if shown else ""))
        x = 0.4
        for seconds, colour in zip(parts.values(), colours, strict=True) if shown else ():
            bar(ax, x, y - 8, scale * seconds, 5.6, colour, f"{1e3 * seconds:.1f}", size=BIG, edgecolor=WHITE)
            x += scale * seconds
    if not told:
        unknown(ax, 7, 9.6, "? ms")
    for x, name, colour in zip((0.4, 13, 24.6), GROUPS[16][1], colours, strict=True):
        bar(ax, x, 1.6, 2, 2, colour)
        words(ax, x + 2.8, 2.6, name)
    return ax.figure


@steps(range(1, 3))
def a_quarter_of_32(step: int) -> Figure:
    """Eight GPUs on which the model doesn't fit, and the same as a quarter of 32."""
    ax, needs = sheet(36, 30), ALL - 7 / 8 * expert_bytes(V3, width=1) / 1e9
    grid(ax, 0.4, 26, 8, [GOOD if step > 1 else FAULT] * 8 + [FACES[1]] * 24 * (step > 1), 4.4)
    head(ax, 0.4, 28, "your eight GPUs")
    told = f"× each needs {needs:.0f} GB and has {MEMORY:.0f}", f"{GROUPS[32][0]} requests fit on each of 32"
    head(ax, 0.4, (18.6, 4.6)[step - 1], told[step - 1], colour=(FAULT, GOOD)[step - 1])
    return ax.figure


def in_a_trace() -> Figure:
    """A layer of experts in a profiler's trace."""
    ax = sheet(36, 30)
    head(ax, 0.4, 25.6, "a layer in a profiler's trace")
    words(ax, 0.4, 19.6, "counts, then rows")
    trip = 8.6, SENT, "all_to_all"
    stack(ax, 0.4, 9.6, 8, ((1.2, SENT, ""), trip, (16.8, COMPUTE, "experts"), trip))
    words(ax, 35.6, 7, "and the results", ha="right")
    return ax.figure
