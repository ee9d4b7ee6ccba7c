"""Pictures that only the slides of chapter 2 have."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, cos, log2, log10, pi, sin

from kit import ACROSS, BIG, GREY_WORDS, MONO, bar, box, frame, line, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from course_lib import Cluster, models
from course_lib.hardware import DGX_H100, H100
from course_lib.plots import canvas
from course_lib.plots.kernel_traces import KERNELS, SHORT, TRACES
from course_lib.plots.late_rank import SLOW, SUM, slow_rank

INK, FAULT = canvas.INK, canvas.LIMIT
NVLINK, NETWORK, WAITING = canvas.NVLINK, canvas.NETWORK, canvas.WAITING
DARK = {NVLINK, FAULT, canvas.COMPUTE, canvas.COLLECTIVE, INK}  # on which letters are white
PLAIN = Cluster()
ALPHA, RATE = PLAIN.latency * 1e6, PLAIN.bandwidth / 1e6  # µs, bytes in a µs
MESSAGE = ALPHA + 1e6 / RATE  # µs of a message of 1 MB
INSIDE = H100.link.latency * 1e6, 4e12 / H100.link.bandwidth  # µs of 4 MB: latency and bytes
ACROSS_NODES = DGX_H100.nic.latency * 1e6, 4e12 / DGX_H100.nic.bandwidth


def _rank(ax: Axes, x: float, y: float, rank: int, *, has: bool = True, size: float = 1.7, wide: float = 1.0) -> None:
    """Draw a rank as a circle in its colour, or white while it has nothing; `wide`: of its line."""
    look = {"facecolor": canvas.FACES[rank % 8] if has else "white", "edgecolor": INK, "linewidth": wide, "zorder": 3}
    ax.add_patch(Circle((x, y), size, **look))
    words(ax, x, y, f"{rank}", ha="center", zorder=4)


# The opening


def four_names() -> Figure:
    """A GPU's trace, half of it matrix products, and the four names of the other half."""
    ax = sheet(36, 30)
    names = ("ncclDevKernel_AllReduce…", "ncclDevKernel_AllGather…", "ncclDevKernel_ReduceScatter…",
             "ncclDevKernel_SendRecv")
    x = 0.5
    for wide, product in ((3.4, 1), (4.2, 0), (4, 1), (3.6, 0), (3.2, 1), (4.6, 0), (3.4, 1), (8.2, 0)):
        bar(ax, x, 22.6, wide, 4.6, canvas.COMPUTE if product else canvas.COLLECTIVE, edgecolor="white")
        x += wide
    words(ax, 0.5, 28.8, "the trace of a GPU", weight="bold", size=BIG)
    for x, name, colour in ((0.5, "matrix products", canvas.COMPUTE), (18, "more than half: NCCL", canvas.COLLECTIVE)):
        bar(ax, x, 19.4, 1.4, 1.4, colour)
        words(ax, x + 2, 20.1, name)
    for place, name in enumerate(names):
        words(ax, 0.5, 15.2 - 4.3 * place, name, colour=canvas.COLLECTIVE, weight="bold", **MONO)
    return ax.figure


SQUARE = ((4, 20), (20, 20), (4, 7), (20, 7))  # where ranks 0 to 3 stand


@steps(range(4))
def gathers(step: int) -> Figure:
    """A gather and an all-gather, round by round: one rank receives, and all ranks send and receive."""
    ax = sheet(65, 28, (6.5, 2.8))
    for left, name, told in ((4, "gather", "one message"), (37, "all-gather", "four messages")):
        words(ax, left + 12, 26.4, name, ha="center", weight="bold", size=BIG)
        places = [(left + x, y) for x, y in SQUARE]
        for rank, (x, y) in enumerate(places):
            _rank(ax, x, y, rank)
        if step:
            words(ax, left + 12, 2, f"round {step}: {told}", ha="center", weight="bold", colour=canvas.COLLECTIVE)
        ring = ((0, 1), (1, 3), (3, 2), (2, 0))
        for a, b in ([(step, 0)] if left < 9 else ring) if step else ():
            _arrow_between(ax, places[a], places[b])
        held = [{rank} for rank in range(4)]
        for one in range(1, step + 1):
            if left < 9:
                held[0].add(one)
            else:
                behind = {there: here for here, there in ring}
                held = [mine | held[behind[rank]] for rank, mine in enumerate(held)]
        for rank, (x, y) in enumerate(places):
            side = -1 if rank % 2 == 0 else 1
            for place in range(4):
                has = place in held[rank]
                bar(ax, x + side * 3.4 - 0.9 + side * 0.2, y - 3.2 + 1.7 * place, 1.8, 1.5,
                     canvas.FACES[place] if has else "white", edgecolor=canvas.GREY, linewidth=0.8)
    return ax.figure


def _arrow_between(ax: Axes, start: tuple[float, float], end: tuple[float, float], gap: float = 2.0,
                   colour: str = canvas.COLLECTIVE, line: float = 3) -> None:  # fmt: skip
    far = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    share = gap / far
    x, y = end[0] - start[0], end[1] - start[1]
    canvas.arrow(ax, (start[0] + share * x, start[1] + share * y), (end[0] - share * x, end[1] - share * y),
                 colour=colour, line=line)


# Section 1: eight calls


def together() -> Figure:
    """Four ranks that make one call together."""
    ax = sheet(36, 30)
    box(ax, 10, 12, 16, 6, canvas.FACES[5])
    words(ax, 18, 15, "one call", ha="center", weight="bold", size=BIG)
    for rank, (x, y) in enumerate(((5, 25), (31, 25), (5, 5), (31, 5))):
        _rank(ax, x, y, rank, size=2.6)
        _arrow_between(ax, (x, y), (18 + (x - 18) * 0.55, 15 + (y - 15) * 0.36), gap=2.8)
    return ax.figure


ROWS = [[10 * rank + place for place in range(4)] for rank in range(4)]
TOTALS = [sum(column) for column in zip(*ROWS, strict=True)]
NOTHING = [[None] * 4 for _ in range(4)]


def _table(ax: Axes, x: float, y: float, numbers: Sequence[Sequence[int | None]]) -> None:
    """Draw a row of numbers for each rank, each in the colour of the rank that brought it, sums black."""
    for rank, row in enumerate(numbers):
        for place, number in enumerate(row):
            left, low = x + 2.6 * place, y + 7.2 - 2.4 * rank
            total = number in TOTALS
            colour = "white" if number is None else INK if total else canvas.FACES[number // 10]
            bar(ax, left, low, 2.6, 2.4, colour, edgecolor="#BBBBBB" if number is None else INK, linewidth=0.7)
            if number is not None:
                words(ax, left + 1.3, low + 1.2, f"{number}", ha="center", colour="white" if total else INK)


def _only(rank: int, row: Sequence[int | None]) -> list:
    return [list(row) if other == rank else [None] * 4 for other in range(4)]


def _first(column: Sequence[int]) -> list:
    return [[number, None, None, None] for number in column]


def _panels(calls: Sequence[tuple], step: int) -> Figure:
    ax = sheet(65, 29, (6.5, 2.9))
    for place, (name, before, after, told) in enumerate(calls[:step]):
        x, y = 3 + 33 * (place % 2), 16 - 14.8 * (place // 2)
        words(ax, x, y + 11.4, name, weight="bold", size=BIG)
        words(ax, x + 13.6, y + 11.4, told)
        _table(ax, x, y, before)
        canvas.arrow(ax, (x + 11, y + 4.8), (x + 14.4, y + 4.8), line=2.4)
        _table(ax, x + 15, y, after)
        if place % 2 == 0:
            for rank in range(4):
                words(ax, x - 0.6, y + 8.4 - 2.4 * rank, f"{rank}", ha="right", colour=GREY_WORDS)
    return ax.figure


FIRSTS = _first([10 * rank for rank in range(4)])
WITH_ROOT = (("broadcast", _only(1, ROWS[1]), [ROWS[1]] * 4, "the whole row to all"),
             ("reduce", ROWS, _only(1, TOTALS), "adds up all rows"),
             ("scatter", _only(1, ROWS[1]), _first(ROWS[1]), "a chunk to each"),
             ("gather", FIRSTS, _only(1, [0, 10, 20, 30]), "a chunk from each"))  # fmt: skip
WITHOUT = (("all-reduce", ROWS, [TOTALS] * 4, "everybody's gradients"),
           ("all-gather", FIRSTS, [[0, 10, 20, 30]] * 4, "a layer's weights"),
           ("reduce-scatter", ROWS, _first(TOTALS), "a layer's gradient"),
           ("all-to-all", ROWS, [list(column) for column in zip(*ROWS, strict=True)], "tokens to experts"))


def with_a_root() -> list[Figure]:
    """What four ranks bring and get in the four calls in which rank 1 is the root, one call after the other."""
    return [_panels(WITH_ROOT, step) for step in range(1, 5)]


def without_a_root() -> list[Figure]:
    """What four ranks bring and get in the four calls in which all are equal, one call after the other."""
    return [_panels(WITHOUT, step) for step in range(1, 5)]


# Section 2: rounds


def one_to_many() -> Figure:
    """Rank 0 with its checkpoint, and the many that need it."""
    ax = sheet(36, 30)
    for place in range(16):
        angle = pi * (place / 15 - 0.5)
        x, y = 6 + 24 * cos(angle), 15 + 12.4 * sin(angle)
        ax.add_patch(Circle((x, y), 0.9, facecolor="white", edgecolor=INK))
        _arrow_between(ax, (6, 15), (x, y), gap=3, colour=canvas.GREY, line=1)
    _rank(ax, 6, 15, 0, size=2.6)
    words(ax, 1, 20.4, "16 GB", weight="bold", size=BIG)
    words(ax, 35.4, 0.8, "1,023 others", weight="bold", size=BIG, ha="right")
    return ax.figure


def fifteen_messages() -> Figure:
    """The loop's fifteen messages one after the other, and the unknown time of the library's call."""
    ax = sheet(36, 30)
    words(ax, 0.5, 26.6, f"a loop: 15 · {MESSAGE:.0f} = {15 * MESSAGE:.0f} µs", weight="bold", size=BIG)
    for place in range(15):
        bar(ax, 0.5 + 2.3 * place, 20, 2.3, 4.6, canvas.SENT, edgecolor="white")
    words(ax, 0.5, 17.8, f"each message: {ALPHA:.0f} µs + {MESSAGE - ALPHA:.0f} µs")
    words(ax, 0.5, 11, "dist.broadcast: 15 messages, too", weight="bold", size=BIG)
    bar(ax, 0.5, 4.4, 34.5, 4.6, "none", "?", edgecolor=INK, linewidth=1.6, linestyle="--")
    return ax.figure


def doubling() -> list[Figure]:
    """Sixteen ranks, of which 1, 2, 4, 8 and 16 have the tensor: in each round each of them sends it on."""
    return [_doubling(step) for step in range(5)]


def _doubling(step: int) -> Figure:
    ax = sheet(36, 30)
    places = [(3.4 + 5.8 * (rank % 4) + 4, 26 - 6.2 * (rank // 4)) for rank in range(16)]
    have = 2**step
    for rank, place in enumerate(places):
        _rank(ax, *place, rank, has=rank < have, size=1.9, wide=2.6 if have // 2 <= rank < have and step else 1)
    for rank in range(have // 2 if step else 0):
        start, end = places[rank], places[rank + have // 2]
        if have in (2, 8):
            _arrow_between(ax, start, end, gap=2.1, line=2)
        elif have == 4:
            canvas.arrow(ax, (start[0], start[1] + 2), (end[0], end[1] + 2), colour=canvas.COLLECTIVE, line=2,
                         bend=-0.3)
        else:
            canvas.arrow(ax, (start[0] + 2, start[1]), (end[0] + 2, end[1]), colour=canvas.COLLECTIVE, line=2,
                         bend=-0.2)
    told = f"after round {step}: {have} have it" if step else "before: 1 has it"
    words(ax, 18, 1.4, told, ha="center", weight="bold", size=BIG)
    return ax.figure


def rounds_by_ranks() -> Figure:
    """How many messages follow one another by a loop and by a tree, on 16 ranks and on 1,024."""
    ax = sheet(36, 30)
    for row, ranks in enumerate((16, 1024)):
        y = 18 - 15 * row
        words(ax, 0.5, y + 9, f"{ranks:,} ranks", weight="bold", size=BIG)
        for place, (name, count, colour) in enumerate((("loop", ranks - 1, canvas.GREY),
                                                       ("tree", ceil(log2(ranks)), NETWORK))):
            low, wide = y + 4.2 - 4.2 * place, min(25, 0.6 * count)
            words(ax, 4.4, low + 1.5, name, ha="right")
            bar(ax, 5, low, wide, 3, colour)
            if wide == 25:
                for x in (24, 25.2):
                    line(ax, (x - 0.6, low - 0.4), (x + 0.6, low + 3.4), colour="white", wide=4)
            words(ax, 5.8 + wide, low + 1.5, f"{count:,}", weight="bold", size=BIG)
    return ax.figure


# Section 3: bytes


def _quarters(asked: bool) -> Figure:
    ax = sheet(36, 30)
    for rank in range(4):
        y = 22.6 - 4.4 * rank
        words(ax, 5.6, y + 1.7, f"rank {rank}", ha="right")
        for chunk in range(4):
            bar(ax, 6.4 + 7 * chunk, y, 6.4, 3.4, canvas.FACES[rank], "1 MB" if asked else "", edgecolor=INK,
                 linewidth=0.7)
    for chunk in range(4):
        x = 6.4 + 7 * chunk
        canvas.arrow(ax, (x + 3.2, 9), (x + 3.2, 6), colour=canvas.COLLECTIVE, line=2.4)
        bar(ax, x, 2.6, 6.4, 3.2, INK, f"rank {chunk}")
    words(ax, 5.6, 4.2, "sums for", ha="right")
    words(ax, 20, 28.4, "the gradient of a layer", ha="center", weight="bold", size=BIG)
    return ax.figure


def one_chunk_each() -> Figure:
    """A gradient on four ranks, and the chunk of the sum that each keeps."""
    return _quarters(asked=False)


def four_megabytes() -> Figure:
    """The same with the size of each chunk."""
    return _quarters(asked=True)


@steps(range(1, 5))
def three_leave(step: int) -> Figure:
    """Of each rank's four chunks one stays and three leave, rank by rank."""
    ax = sheet(36, 30)
    for rank in range(4):
        y, told = 22.6 - 5.8 * rank, rank < step
        words(ax, 5.6, y + 2, f"rank {rank}", ha="right", weight="bold" if told else "normal")
        for chunk in range(4):
            stays = chunk == rank
            colour = canvas.FACES[rank] if stays or not told else canvas.SENT
            bar(ax, 6.4 + 4.7 * chunk, y, 4.3, 4, colour, f"→ {chunk}" if told and not stays else "",
                 edgecolor=INK, linewidth=2.4 if stays and told else 0.7)
        if told:
            words(ax, 26, y + 2, "sends 3 MB", weight="bold")
    words(ax, 0.5, 1.4, "framed: what stays", colour=GREY_WORDS)
    return ax.figure


def round_table() -> Figure:
    """Eight people at a round table, seven of whom queue at person 0."""
    ax = sheet(36, 30)
    ax.set_aspect("equal")
    ax.add_patch(Circle((12, 13), 7, facecolor="#EBDDCB", edgecolor=INK))
    for person in range(8):
        angle = pi / 2 - 2 * pi * person / 8
        _rank(ax, 12 + 9.6 * cos(angle), 13 + 9.6 * sin(angle), person, has=person == 0, size=1.8)
    for place in range(1, 8):
        x = 12.4 + 2.9 * place
        bar(ax, x, 27.2, 2.2, 1.5, canvas.FACES[place], edgecolor=INK, linewidth=0.8)
        words(ax, x + 1.1, 25, f"{place}", ha="center")
    canvas.arrow(ax, (15, 27.6), (13.6, 24.6), colour=canvas.COLLECTIVE, line=2)
    words(ax, 23.6, 19, "seven letters", weight="bold")
    words(ax, 23.6, 16.6, "in a queue", weight="bold")
    return ax.figure


# Section 4: rounds or bytes


def two_messages() -> Figure:
    """A small message, nearly all latency, and a large one, nearly all bytes."""
    ax = sheet(36, 30)
    for y, name, latency in ((18, "a small message", 30), (5, "a large message", 3)):
        words(ax, 0.5, y + 7, name, weight="bold", size=BIG)
        bar(ax, 0.5, y, latency, 5, canvas.GREY, "latency" if latency > 9 else "")
        bar(ax, 0.5 + latency, y, 34 - latency, 5, NETWORK, "bytes" if latency < 9 else "")
    return ax.figure


def equal_at() -> Figure:
    """Latency and bytes of messages of four sizes as one bar each."""
    ax = sheet(36, 30)
    sizes = {"25 kB": 2.5e4, "250 kB": 2.5e5, "500 kB": 5e5, "1 MB": 1e6}
    scale = 26 / (ALPHA + 1e6 / RATE)
    for row, (name, size) in enumerate(sizes.items()):
        y = 19.4 - 6 * row
        words(ax, 7.6, y + 1.8, name, ha="right", weight="bold" if size == 2.5e5 else "normal")
        bar(ax, 8.4, y, scale * ALPHA, 3.8, canvas.GREY)
        bar(ax, 8.4 + scale * ALPHA, y, scale * size / RATE, 3.8, NETWORK)
        if size == 2.5e5:
            words(ax, 9.4 + scale * (ALPHA + size / RATE), y + 1.9, "5 µs + 5 µs", weight="bold")
    for x, name, colour in ((8.4, "latency", canvas.GREY), (20, "bytes", NETWORK)):
        bar(ax, x, 26.6, 1.5, 1.7, colour)
        words(ax, x + 2.1, 27.5, name, weight="bold")
    return ax.figure


def _calls() -> list[tuple[str, float]]:
    llama, deepseek = models.MODELS["Llama-3-70B"], models.MODELS["DeepSeek-V3"]
    layer = models.attention_parameters(llama) + models.mlp_parameters(llama)
    return [("a loss, for the log", 4), ("a token to an expert, DeepSeek-V3", 2 * deepseek.hidden),
            ("a token, Llama-3-70B", 2 * llama.hidden), ("gradients, data parallelism", 25 * 2**20),
            ("8,192 tokens, Llama-3-70B", 8192 * 2 * llama.hidden), ("a layer, Llama-3-70B", 2 * layer)]


def sizes_of_calls() -> list[Figure]:
    """The sizes of six real calls on one axis: three that pay for latency, then three that pay for bytes."""
    return [_sizes_of_calls(step) for step in (3, 6)]


def _sizes_of_calls(shown: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    left, decade = 28, 3.5

    def at(size: float) -> float:
        return left + decade * log10(size)

    border, inside = at(ALPHA * RATE), at(H100.link.latency * H100.link.bandwidth)
    bar(ax, left, 3.4, border - left, 20.6, "#EDEDED")
    line(ax, (border, 3.4), (border, 24), wide=2)
    line(ax, (inside, 3.4), (inside, 24), wide=2, linestyle=(0, (3, 2)), colour=NVLINK)
    words(ax, border - 0.8, 25.6, "latency costs more", ha="right", weight="bold", colour=GREY_WORDS)
    words(ax, border + 0.4, 25.6, "bytes cost more", weight="bold", colour=NETWORK)
    for row, (name, size) in enumerate(_calls()[:shown]):
        y = 21.8 - 3.4 * row
        unit = next((unit, one) for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)) if size >= one)
        words(ax, left - 0.8, y, name, ha="right")
        ax.plot([at(size)], [y], "o", color=NETWORK if row > 2 else INK, markersize=9)
        told = f"{size / unit[1]:.3g} {unit[0]}"
        words(ax, at(size) + (-1.2 if row in (1, 2, 5) else 1.2), y, told, weight="bold",
              ha="right" if row in (1, 2, 5) else "left",
              bbox={"facecolor": "#EDEDED" if row < 3 else "white", "edgecolor": "none", "pad": 1})
    for size, name in ((1, "1 B"), (1e3, "1 kB"), (1e6, "1 MB"), (1e9, "1 GB")):
        words(ax, at(size), 1.4, name, ha="center")
    return ax.figure


# Section 5: nodes


def _node(ax: Axes, x: float, y: float, first: int, *, have: Sequence[int] = (), gap: float = 4.0) -> list:
    """Draw a node of four ranks in a row, and return where they stand."""
    frame(ax, x, y - 2.6, 4 * gap, 5.2)
    places = [(x + gap * (place + 0.5), y) for place in range(4)]
    for place, (across, up) in enumerate(places):
        _rank(ax, across, up, first + place, has=first + place in have, size=1.6)
    return places


def links() -> Figure:
    """The link inside a node and the port between two, and what 4 MB take over each."""
    ax = sheet(36, 30)
    for x, colour in ((0.5, 0), (21.5, 1)):
        frame(ax, x, 18, 14, 10.6)
        for place in range(4):
            box(ax, x + 0.9 + 3.2 * place, 24.2, 2.6, 3, canvas.FACES[colour])
            line(ax, (x + 2.2 + 3.2 * place, 24.2), (x + 2.2 + 3.2 * place, 20.6), colour=NVLINK, wide=6)
        line(ax, (x + 1.6, 20.6), (x + 12.4, 20.6), colour=NVLINK, wide=9)
    line(ax, (14.5, 25.6), (21.5, 25.6), colour=NETWORK, wide=2)
    words(ax, 18, 23.4, "port", ha="center", colour=NETWORK, weight="bold")
    scale = 34.5 / sum(ACROSS_NODES)
    for y, name, (latency, sends), colour in ((9.6, "inside: 450 GB/s", INSIDE, NVLINK),
                                              (1, "between: 50 GB/s", ACROSS_NODES, NETWORK)):
        words(ax, 0.5, y + 5, f"4 MB {name}", weight="bold")
        bar(ax, 0.5, y, scale * latency, 3.4, canvas.GREY)
        bar(ax, 0.5 + scale * latency, y, scale * sends, 3.4, colour)
        long = sends > 50
        words(ax, 34 if long else 1.4 + scale * (latency + sends), y + 1.7,
              f"{latency + sends:.0f} µs" if long else f"{latency + sends:.1f} µs", weight="bold", size=BIG,
              ha="right" if long else "left", colour="white" if long else INK)
    return ax.figure


NEAR, FAR = (1, 2, 4), (4, 2, 1)


def near_first() -> list[Figure]:
    """The tree over distances 1, 2 and 4, round by round: four messages queue at the port."""
    return [_tree_of_nodes(step, NEAR) for step in range(4)]


def far_first() -> list[Figure]:
    """The reversed tree, round by round: one message crosses."""
    return [_tree_beside(step) for step in range(4)]


def _sent(order: Sequence[int], until: int) -> list[list[tuple[int, int]]]:
    """Return who sends to whom in each round of a tree over these distances."""
    have, rounds = [0], []
    for distance in order[:until]:
        now = [(rank, rank + distance) for rank in have]
        have += [there for _, there in now]
        rounds.append(now)
    return rounds


def _times(order: Sequence[int]) -> list[list[float]]:
    """Return how long the messages of each round take: those inside at once, those that cross one by one."""
    return [[sum(ACROSS_NODES)] * sum(here < 4 <= there for here, there in now)
            or [sum(INSIDE)] for now in _sent(order, 3)]


def _total(order: Sequence[int]) -> float:
    return sum(sum(times) for times in _times(order))


def _tree_of_nodes(step: int, order: Sequence[int]) -> Figure:
    ax = sheet(65, 30, ACROSS)
    rounds = _sent(order, step)
    have = [0, *(there for now in rounds for _, there in now)]
    places = _node(ax, 1, 21, 0, have=have, gap=7) + _node(ax, 36, 21, 4, have=have, gap=7)
    for x, name in ((1, "node 0"), (36, "node 1")):
        words(ax, x, 27.4, name, weight="bold")
    for x in (28.6, 32.8):
        box(ax, x, 13.2, 3.6, 3.4, "white", "port", edge=NETWORK, line=2)
    for here, there in rounds[-1] if rounds else ():
        start, end = places[here], places[there]
        if here < 4 <= there:
            line(ax, (start[0], 18.4), (start[0], 14.9), (28.6, 14.9), colour=NETWORK, wide=3)
            line(ax, (36.4, 14.9), (end[0], 14.9), (end[0], 17.4), colour=NETWORK, wide=3)
            canvas.arrow(ax, (end[0], 16.6), (end[0], 19.2), colour=NETWORK, line=3)
            words(ax, start[0] + 0.5, 17, f"to {there}", colour=NETWORK, weight="bold")
        else:
            canvas.arrow(ax, (start[0], 22.7), (end[0], 22.7), colour=NVLINK, line=3, bend=-0.3)
    line(ax, (32.2, 14.9), (32.8, 14.9), colour=NETWORK, wide=3)
    scale, x = 62 / _total(NEAR), 1
    for number, times in enumerate(_times(order)[:step]):
        for taken in times:
            long = taken > 50
            bar(ax, x, 3.6, scale * taken, 4, NETWORK if long else NVLINK, f"{taken:.0f} µs" if long else "",
                 edgecolor="white", linewidth=1.2)
            x += scale * taken
        if number == 1:
            words(ax, 1, 9.2, "rounds 1 and 2", weight="bold", colour=NVLINK)
        if number == 2:
            words(ax, 18, 9.2, "round 3: four messages, one port", weight="bold", colour=NETWORK)
    if step == 3:
        told = f"2 · {sum(INSIDE):.1f} + 4 · {sum(ACROSS_NODES):.0f} = {_total(NEAR):.0f} µs"
        words(ax, 1, 1.4, told, weight="bold", size=BIG)
    return ax.figure


def which_order() -> Figure:
    """The eight ranks of two nodes, the order that took 401 µs, and the reversed one."""
    ax = sheet(36, 30)
    _node(ax, 0.5, 24, 0, have=[0], gap=4.1)
    _node(ax, 19, 24, 4, gap=4.1)
    words(ax, 0.5, 17, "distance 1, then 2, then 4", weight="bold", size=BIG)
    bar(ax, 0.5, 11, 34.5, 4, NETWORK, f"{_total(NEAR):.0f} µs")
    words(ax, 0.5, 7, "distance 4, then 2, then 1", weight="bold", size=BIG)
    bar(ax, 0.5, 1, 34.5, 4, "none", "?", edgecolor=INK, linewidth=1.6, linestyle="--")
    return ax.figure


def _tree_beside(step: int) -> Figure:
    ax = sheet(36, 30)
    rounds = _sent(FAR, step)
    have = [0, *(there for now in rounds for _, there in now)]
    places = _node(ax, 1, 24.4, 0, have=have, gap=8.4) + _node(ax, 1, 14.8, 4, have=have, gap=8.4)
    for here, there in rounds[-1] if rounds else ():
        crosses = here < 4 <= there
        start, end = places[here], places[there]
        if crosses:
            canvas.arrow(ax, (start[0], start[1] - 1.7), (end[0], end[1] + 1.7), colour=NETWORK, line=4)
        else:
            canvas.arrow(ax, (start[0], start[1] + 1.7), (end[0], end[1] + 1.7), colour=NVLINK, line=3, bend=-0.3)
    scale, x = 34.5 / _total(NEAR), 0.5
    for taken in [taken for times in _times(FAR)[:step] for taken in times]:
        bar(ax, x, 6.4, scale * taken, 3, NETWORK if taken > 50 else NVLINK, edgecolor="white")
        x += scale * taken
    if step:
        words(ax, x + 0.6, 7.9, "now" if step < 3 else f"{_total(FAR):.0f} µs",
              weight="bold", size=BIG)
    bar(ax, 0.5, 1.4, 34.5, 3, "#D9C3D1", f"before: {_total(NEAR):.0f} µs")
    return ax.figure


def groups() -> list[Figure]:
    """Two nodes of four ranks: rows inside a node, columns across, and how the ranks make such a group."""
    return [_groups(step) for step in range(3)]


def _groups(step: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    xs = [6 + 9 * place for place in range(4)]
    for node, y in enumerate((20, 7)):
        frame(ax, 1, y - 3.6, 38, 7.2)
        if step:
            line(ax, (xs[0], y), (xs[-1], y), colour=NVLINK, wide=14, zorder=1)
        for place, x in enumerate(xs):
            _rank(ax, x, y, 4 * node + place, size=2)
    if step > 1:
        for x in xs:
            line(ax, (x, 18), (x, 9), colour=NETWORK, wide=3, zorder=1)
    told_of = ((1, 24.6, "rows: tensor parallelism", "sums in every layer,\nand the layer waits", NVLINK),
               (2, 12.4, "columns: data parallelism", "one sum for each gradient,\nwhile backward computes", NETWORK))
    for since, y, name, told, colour in told_of:
        if step >= since:
            words(ax, 41, y, name, weight="bold", size=BIG, colour=colour)
            words(ax, 41, y - 4.2, told)
    return ax.figure


# Section 6: the clinic


def calls_in_line() -> Figure:
    """Four ranks with their calls in order; one of them has another order."""
    ax = sheet(36, 30)
    for rank in range(4):
        y = 23 - 6 * rank
        _rank(ax, 3, y + 1.8, rank)
        order = "AB" if rank != 2 else "BA"
        for place, call in enumerate(order):
            bar(ax, 7 + 10 * place, y, 9, 3.8, canvas.FACES[0 if call == "A" else 1], f"call {call}", edgecolor=INK,
                 linewidth=1)
        words(ax, 28, y + 1.9, "?" if rank == 2 else "", size=20, weight="bold", colour=FAULT)
    return ax.figure


def _code(*lines: str) -> Figure:
    ax = sheet(36, 30)
    for place, said in enumerate(lines):
        words(ax, 0.4, 15 + 2 * (len(lines) - 1) - 4 * place, said, size=BIG, **MONO)
    return ax.figure


def both_sums() -> Figure:
    """The first snippet: rank 0 sums in another order."""
    return _code("if dist.get_rank() == 0:", "    a, b = loss, gradient", "else:", "    a, b = gradient, loss",
                 "dist.all_reduce(a)", "dist.all_reduce(b)")


def sum_for_one() -> Figure:
    """The second snippet: only rank 0 calls."""
    return _code("if dist.get_rank() == 0:", "    dist.all_reduce(loss)", "    return loss")


def to_the_right() -> Figure:
    """The third snippet: a message to the right whose handle nobody keeps."""
    return _code("right = (rank + 1) % ranks", "left = (rank - 1) % ranks", "dist.isend(tensor, right)",
                 "dist.recv(arrived, left)", "return arrived")


@steps(range(1, 3))
def who_meets(step: int) -> Figure:
    """Which tensors meet in the first call of all ranks, and in the second."""
    ax = sheet(36, 30)
    for call in range(2):
        x = 5.4 + 15.6 * call
        words(ax, x + 6.6, 28, f"call {call + 1}", ha="center", weight="bold", size=BIG)
        for rank in range(4):
            y, loss = 21.6 - 4.6 * rank, (rank == 0) != bool(call)
            bar(ax, x, y, 13.2, 3.8, canvas.FACES[0 if loss else 1], "loss" if loss else "gradient", edgecolor=INK,
                 linewidth=0.8)
            if not call:
                words(ax, 4.4, y + 1.9, f"{rank}", ha="right", weight="bold")
        if call < step:
            bar(ax, x - 0.6, 7, 14.4, 19.2, "none", edgecolor=FAULT, linewidth=3)
            words(ax, x + 6.6, 3.6, "added up:\na mixture", ha="center", colour=FAULT, weight="bold")
    return ax.figure


@steps(range(3))
def watchdog(step: int) -> Figure:
    """Two lines of PyTorch's watchdog: the same call's number, and two different calls."""
    ax = sheet(65, 26, (6.5, 2.6))
    for y, rank, call, count in ((19, 7, "BROADCAST", "5056"), (13, 3, "ALLREDUCE", "2106881")):
        bar(ax, 0.6, y - 2.2, 63.8, 4.8, "#F0F0F0")
        words(ax, 1.6, y, f"[Rank {rank}]", **MONO)
        words(ax, 11.4, y, "SeqNum=80078", colour=NVLINK if step else INK, weight="bold" if step else "normal", **MONO)
        words(ax, 25.6, y, f"OpType={call}", colour=FAULT if step > 1 else INK,
              weight="bold" if step > 1 else "normal", **MONO)
        words(ax, 44.4, y, f"NumelIn={count}", **MONO)
    if step:
        canvas.arrow(ax, (17, 6.6), (17, 10.4), colour=NVLINK, line=2.4)
        words(ax, 17, 4.6, "the same call,", ha="center", colour=NVLINK, weight="bold")
        words(ax, 17, 2, "number 80,078", ha="center", colour=NVLINK, weight="bold")
    if step > 1:
        canvas.arrow(ax, (33, 6.6), (33, 10.4), colour=FAULT, line=2.4)
        words(ax, 37, 4.6, "one wants to broadcast,", ha="center", colour=FAULT, weight="bold")
        words(ax, 37, 2, "the other to add up", ha="center", colour=FAULT, weight="bold")
    return ax.figure


def waits_alone() -> Figure:
    """Rank 0 stands in its all-reduce, and the others have gone on."""
    ax = sheet(36, 30)
    for rank in range(4):
        y = 22.6 - 6 * rank
        _rank(ax, 3, y + 1.8, rank)
        if rank:
            bar(ax, 6.4, y, 28.6, 3.8, canvas.FACES[2], "goes on without a call")
        else:
            bar(ax, 6.4, y, 8, 3.8, canvas.COLLECTIVE)
            bar(ax, 14.4, y, 20.6, 3.8, WAITING, "waits for ever")
    words(ax, 6.4, 28.4, "all_reduce(loss)", colour=canvas.COLLECTIVE, weight="bold", **MONO)
    return ax.figure


@steps(range(2))
def lost_handle(step: int) -> Figure:
    """A message under way with its handle, and what happens to it when nobody keeps the handle."""
    ax = sheet(36, 30)
    for y, kept in ((20, True), (5, False))[:step + 1]:
        words(ax, 0.5, y + 7.4, "handle kept, then wait()" if kept else "handle dropped", weight="bold", size=BIG,
              colour=INK if kept else FAULT)
        _rank(ax, 4, y + 1.6, 0, size=2.2)
        _rank(ax, 32, y + 1.6, 1, size=2.2)
        if kept:
            canvas.arrow(ax, (6.6, y + 1.6), (29.4, y + 1.6), colour=canvas.COLLECTIVE, line=4)
            words(ax, 18, y + 4, "the message", ha="center")
        else:
            line(ax, (6.6, y + 1.6), (17, y + 1.6), colour=canvas.COLLECTIVE, wide=4, linestyle=(0, (2, 1)))
            words(ax, 18.4, y + 1.6, "×", size=26, ha="center", colour=FAULT, weight="bold")
            words(ax, 27.6, y - 2.4, "may wait for ever", ha="center", colour=FAULT, weight="bold")
    return ax.figure


# Section 7: traces


def streams() -> Figure:
    """Two streams of a GPU, one that computes and one that communicates, at the same time."""
    ax = sheet(36, 30)
    for y, name, bars, colour in ((18, "compute", ((0, 10), (10.6, 12), (23.2, 11)), canvas.COMPUTE),
                                  (7, "NCCL", ((6, 9), (20, 9)), canvas.COLLECTIVE)):
        words(ax, 0.5, y + 6.8, f"stream: {name}", weight="bold", size=BIG)
        for start, wide in bars:
            bar(ax, 0.5 + start, y, wide, 5, colour)
    canvas.arrow(ax, (0.5, 3), (35, 3), line=1.5)
    words(ax, 18, 1.2, "time", ha="center")
    return ax.figure


LONGEST = max(start + length for bars in TRACES.values() for _, _, start, length in bars)


def _trace(ax: Axes, number: int, x: float, y: float, wide: float, high: float = 2.2) -> None:
    """Draw a trace of two streams, compute above NCCL."""
    scale = wide / LONGEST
    for kernel, stream, start, length in TRACES[number]:
        each = scale * length
        text = SHORT.get(kernel, kernel) if each > 1.9 or kernel in "FB" else ""
        bar(ax, x + scale * start, y + high * (1 - stream), each, high, KERNELS[kernel], text, edgecolor="white",
             linewidth=0.8)


def five_traces() -> Figure:
    """The traces of five strategies without their names."""
    ax = sheet(65, 28, (6.5, 2.8))
    for row, number in enumerate(TRACES):
        y = 23 - 5.6 * row
        words(ax, 1.4, y + 2.2, f"{number}", weight="bold", size=20, ha="center")
        _trace(ax, number, 3.4, y, 60)
    return ax.figure


@steps(range(1, 3))
def inside_or_around(step: int) -> Figure:
    """Sends and receives inside each layer, and before and after all layers."""
    ax = sheet(36, 30)
    for y, number, told in ((16, 4, "trace 4: inside each layer"), (2, 5, "trace 5: around all layers"))[:step]:
        words(ax, 0.5, y + 9, told, weight="bold", size=BIG)
        scale = 35 / LONGEST
        for kernel, stream, start, length in TRACES[number]:
            colour = KERNELS[kernel] if not stream else canvas.COLLECTIVE
            bar(ax, 0.5 + scale * start, y + 3.4 * (1 - stream), scale * length, 3.4, colour,
                 kernel if kernel in "FB" else "", edgecolor="white", linewidth=0.8)
    return ax.figure


PATTERNS = ((1, "data parallelism", [("AllReduce", "few and long, in backward")]),
            (2, "tensor parallelism", [("AllReduce", "two a layer, both ways")]),
            (3, "FSDP", [("AllGather", "before,"), ("ReduceScatter", "after a layer")]),
            (4, "mixture of experts", [("SendRecv", "two a layer")]),
            (5, "pipeline", [("SendRecv", "before and after all layers")]))  # fmt: skip


@steps(range(1, 6))
def patterns(step: int) -> Figure:
    """The five traces one after the other, each with its name and how to know it."""
    ax = sheet(65, 29, (6.5, 2.9))
    for row, (number, name, told) in enumerate(PATTERNS[:step]):
        y = 23.8 - 5.8 * row
        _trace(ax, number, 0.6, y, 36)
        words(ax, 38, y + 3.3, name, weight="bold", size=BIG, colour=INK if row < step - 1 else canvas.COLLECTIVE)
        x = 38
        for kernel, place in told:
            bar(ax, x, y + 0.1, 1.2, 1.5, KERNELS[kernel])
            name = kernel if len(told) == 1 else SHORT[kernel]
            words(ax, x + 1.8, y + 0.9, f"{name}: {place}" if len(told) == 1 else f"{name} {place}")
            x += 9
    return ax.figure


@steps(range(1, 4))
def three_ways(step: int) -> Figure:
    """What each name in the colleague's trace says of how the model was split."""
    ax = sheet(65, 28, (6.5, 2.8))
    rows = (("two AllReduce in every layer", "tensor parallelism", canvas.COLLECTIVE),
            ("AllGather and ReduceScatter", "FSDP", canvas.SENT),
            ("SendRecv only around all layers", "a pipeline", "#DDA0C4"))
    for row, (name, told, colour) in enumerate(rows[:step]):
        y = 20 - 9 * row
        bar(ax, 1, y, 33, 6, colour, name)
        canvas.arrow(ax, (35, y + 3), (40, y + 3), line=2.4)
        words(ax, 42, y + 3, told, weight="bold", size=20)
    return ax.figure


def four_bars() -> Figure:
    """Four ranks in the same AllReduce calls, without what they do in between."""
    ax = sheet(36, 30)
    _late(ax, cause=False, top=20.4, calls=3)
    words(ax, 0.5, 28, "the same AllReduce calls", weight="bold", size=BIG)
    canvas.arrow(ax, (18, 2), (35, 2), line=1.5)
    words(ax, 17.4, 2, "time", ha="right")
    return ax.figure


def _late(ax: Axes, cause: bool, top: float, calls: int) -> None:
    slowest = max(SLOW.values())
    scale = 31 / (calls * (slowest + SUM))
    for row, (rank, busy) in enumerate(SLOW.items()):
        y = top - 5 * row
        words(ax, 3, y + 1.8, f"{rank}", ha="right", weight="bold")
        for one in range(calls):
            x, late = 4 + one * (slowest + SUM) * scale, cause and rank == slow_rank()
            if cause:
                bar(ax, x, y, scale * busy, 3.8, canvas.COMPUTE, edgecolor=FAULT if late else "none", linewidth=2)
            bar(ax, x + scale * busy, y, scale * (slowest + SUM - busy) - 0.25, 3.8, canvas.COLLECTIVE)
            if cause:
                bar(ax, x + scale * busy, y, scale * (slowest - busy), 3.8, WAITING)


@steps(range(2))
def who_waits(step: int) -> Figure:
    """The same four ranks, and then with what they compute and how long they wait."""
    ax = sheet(36, 30)
    _late(ax, cause=bool(step), top=20.4, calls=2)
    legend = (0.5, "computes", canvas.COMPUTE), (13, "waits", WAITING), (22, "adds up", canvas.COLLECTIVE)
    for x, name, colour in legend:
        if step:
            bar(ax, x, 27, 1.6, 1.8, colour)
            words(ax, x + 2.2, 27.9, name)
    return ax.figure


@steps(range(1, 4))
def three_steps(step: int) -> Figure:
    """How long the ranks take for a call as it is, with a network twice as fast, and with rank 2 in good health."""
    ax = sheet(65, 26, (6.5, 2.6))
    slowest, next_one = max(SLOW.values()), sorted(SLOW.values())[-2]
    now = slowest + SUM
    rows = (("as it is", slowest, SUM), ("a network twice as fast", slowest, SUM / 2),
            (f"rank {slow_rank()} in good health", next_one, SUM))
    for row, (name, computes, adds) in enumerate(rows[:step]):
        y, scale = 18.6 - 8.4 * row, 36 / now
        words(ax, 18.6, y + 2.4, name, ha="right")
        bar(ax, 19.4, y, scale * computes, 4.8, canvas.COMPUTE, "computes")
        bar(ax, 19.4 + scale * computes, y, scale * adds, 4.8, canvas.COLLECTIVE)
        saved = 1 - (computes + adds) / now
        words(ax, 20.2 + scale * (computes + adds), y + 2.4, f"− {saved:.0%}".replace("%", " %") if row else "",
              weight="bold", size=BIG)
    return ax.figure


@steps(range(1, 4))
def what_is_wrong(step: int) -> Figure:
    """Three shapes of one call's bars on four ranks, and what each of them means."""
    ax = sheet(65, 28, (6.5, 2.8))
    kinds = (("the same rank is short", "this rank is late", ((9, 8, 3, 8), (9, 8, 3, 9))),
             ("another one each time", "the work is uneven", ((3, 8, 9, 8), (9, 8, 8, 3))),
             ("long on every rank", "the network, or a large call", ((9, 9, 9, 9), (9, 9, 9, 9))))
    for place, (name, told, calls) in enumerate(kinds[:step]):
        x = 1 + 22 * place
        for one, lengths in enumerate(calls):
            for rank, length in enumerate(lengths):
                right = x + 9.4 + 10 * one
                least = length == min(lengths) and max(lengths) > length
                bar(ax, right - length, 21.4 - 3.4 * rank, length, 2.6, FAULT if least else canvas.COLLECTIVE)
        words(ax, x, 25.8, name, weight="bold")
        words(ax, x, 6, told, weight="bold", colour=FAULT)
    return ax.figure
